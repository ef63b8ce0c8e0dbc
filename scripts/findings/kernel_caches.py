#!/usr/bin/env python3
"""Measures the tables of docs/findings/against-kernel-caches.md that need no virtual machine, and prints them.

Caches on an Intel 320 before an Exos X20, extents of 64 KiB, a fast device of a tenth of the blocks that the trace touches; --replay sync.
Without an option: caches without write-back beside the disk alone. --warm-up: write-back on flash in use, with each kind of journal. --depths:
caches beside the disk alone with several requests in flight. --fewer-reads: the disk alone, without the reads that an LRU as large as the fast
device would serve, beside the cache that writes through.

usage: kernel_caches.py [--peryton PROGRAM] [--only TRACE,TRACE...] [--traces FOLDER] [--warm-up | --depths N,N... | --fewer-reads]
"""

import argparse
import csv
import json
import math
import subprocess
import sys
import tempfile
from collections import OrderedDict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACES = {
    "pgbench": ROOT / "examples/traces/pgbench-ext4.parquet",
    "sqlite": ROOT / "examples/traces/sqlite-ext4.parquet",
    "cloudphysics": Path("cloudphysics.vscsi"),
    "websearch": Path("websearch-sample.disksim"),
    "tpcc": Path("tpcc-sample.disksim"),
    "devbox": Path("devbox-ext4.csv.xz"),
    "mailstore": Path("mailstore-ext4.csv.xz"),
    "dtrs": Path("dtrs-30000s.disksim.xz"),
}
HDD = "[devices.hdd]\nprofile = 'seagate-exos-x20-20tb'\n"
BLOCK = 4096
# The largest trace without a warm-up spans 153 GiB.
VOLUME = 160 << 30
# After a warm-up the volume is about as large as the trace needs.
WARM_VOLUMES = {"pgbench": 4, "sqlite": 4, "mailstore": 16, "devbox": 16, "cloudphysics": 64, "tpcc": 4096}
JOURNALS = ["mirrored", "named"]


def run(program, *args):
    done = subprocess.run([str(program), *map(str, args)], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{program} {' '.join(map(str, args))}: {done.stderr.strip()}")
    return done.stdout


def design(folder, name, volume, fast, placement):
    text = f"[volume]\nsize = {volume}\n"
    if fast:
        text += f"[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = {fast}\n"
    path = Path(folder) / f"{name}.toml"
    path.write_text(text + HDD + placement)
    return path


def caching(write, more=""):
    return f"[placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '64KiB'\nwrite = '{write}'\n{more}"


def simulate(program, designs, trace, folder, *more, replay="sync"):
    out = Path(folder) / "out.json"
    run(program, "sim", *designs, "--trace", trace, "--replay", replay, "--concatenate", *more, "--json", out)
    reports = {report["design"]: report for report in json.loads(out.read_text())}
    assert not any(report.get("wrapped_requests") for report in reports.values()), f"{trace} is larger than {VOLUME}"
    return reports


def caches_and_disk(program, trace, folder):
    """The disk alone, and caches of each kind."""
    fast = fast_bytes(program, trace)
    caches = [design(folder, write, VOLUME, fast, caching(write)) for write in ("through", "around", "back")]
    return [design(folder, "disk", VOLUME, 0, "[placement]\nmode = 'single'\n"), *caches]


def depth_rows(args, traces):
    """For each depth, how the mean response of each cache compares with the disk alone: of all requests, and of writes."""
    for name, trace in traces.items():
        for depth in args.depths.split(","):
            with tempfile.TemporaryDirectory() as folder:
                designs = caches_and_disk(args.peryton, trace, folder)
                found = simulate(args.peryton, designs, trace, folder, replay=f"qd={depth}")
            cells = [cell(mean(found["disk"], "all"))]
            for write in ("through", "around", "back"):
                for kind in ("all", "read", "write", "flush"):
                    base = mean(found["disk"], kind)
                    cells.append(f"{mean(found[write], kind) / base:.2f}" if base else "–")
            print("|", " | ".join([name, depth, *cells]), "|", flush=True)


def misses_of_lru(rows, blocks):
    """The requests without the reads that an LRU of so many blocks of 4 KiB serves."""
    lru = OrderedDict()
    for row in rows:
        if row["op"] in "RW":
            at, length = int(row["offset"]), int(row["length"])
            touched = range(at // BLOCK, -(-(at + length) // BLOCK))
            hit = row["op"] == "R" and all(block in lru for block in touched)
            for block in touched:
                lru[block] = True
                lru.move_to_end(block)
                if len(lru) > blocks:
                    lru.popitem(last=False)
            if hit:
                continue
        yield row


def fewer_reads_rows(args, traces):
    """Writes and flushes of the disk alone, with all reads and without those that an LRU as large as the fast device serves; and behind the cache."""
    for name, trace in traces.items():
        with tempfile.TemporaryDirectory() as folder:
            designs = caches_and_disk(args.peryton, trace, folder)[:2]
            runs = simulate(args.peryton, designs, trace, folder)
            whole, part = Path(folder) / "whole.csv", Path(folder) / "part.csv"
            run(args.peryton, "trace", "convert", trace, "--concatenate", "-o", whole)
            with whole.open(newline="") as rows, part.open("w", newline="") as kept:
                reader = csv.DictReader(rows)
                writer = csv.DictWriter(kept, reader.fieldnames)
                writer.writeheader()
                writer.writerows(misses_of_lru(reader, fast_bytes(args.peryton, trace) // BLOCK))
            fewer = simulate(args.peryton, designs[:1], part, folder)["disk"]
            base = runs["disk"]
            reads = [report["devices"]["hdd"]["reads"] / base["devices"]["hdd"]["reads"] for report in (fewer, runs["through"])]
            cells = [f"{100 * (1 - share):.0f} %" for share in reads]
            for kind in ("write", "flush", "write_then_flush"):
                means = [mean(report, kind) for report in (base, fewer, runs["through"])]
                cells += ["–"] * 3 if None in means else [cell(means[0]), *(cell(value) + ratio(value, means[0]) for value in means[1:])]
            print("|", " | ".join([name, *cells]), "|", flush=True)


def warm_rows(args, traces):
    """Mean response times of write-back with each journal, and how much faster the last one is."""
    speeds = []
    for name, trace in traces.items():
        volume, fast = WARM_VOLUMES.get(name, 160) << 30, fast_bytes(args.peryton, trace)
        in_use = "[devices.ssd.model]\nprecondition = 'random'\n"
        with tempfile.TemporaryDirectory() as folder:
            designs = [design(folder, journal, volume, fast, in_use + caching("back", f"journal = '{journal}'\n")) for journal in JOURNALS]
            runs = simulate(args.peryton, designs, trace, folder)
        means = [mean(runs[journal], "all") for journal in JOURNALS]
        speeds.append(means[0] / means[-1])
        print("|", " | ".join([name, *(f"{value:.3f}" for value in means)]), "|", flush=True)
    print(f"geometric mean of their ratios: {math.exp(sum(map(math.log, speeds)) / len(speeds)):.3f}")


def mean(report, kind):
    row = report["latency_us"].get(kind)
    return row["mean"] / 1e3 if row else None


def cell(value, digits=3):
    return "–" if value is None else f"{value:.{digits}g}"


def ratio(a, b):
    return "" if not a or not b else f" ({a / b:.2f})"


def end_bytes(program, trace):
    volumes = json.loads(run(program, "trace", "info", trace, "--concatenate", "--json"))["volumes"]
    return max(volume["end_bytes"] for volume in volumes)


def fast_bytes(program, trace):
    """A tenth of the blocks that the trace touches, in whole extents."""
    return tenth(json.loads(run(program, "trace", "info", trace, "--concatenate", "--json")))


def tenth(about):
    """The same, of what `trace info` says."""
    extent = 64 << 10
    return max(about["footprint"]["bytes"] // 10 // extent, 64) * extent


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--peryton", default=ROOT / "target/release/peryton")
    arguments.add_argument("--warm-up", action="store_true")
    arguments.add_argument("--depths")
    arguments.add_argument("--fewer-reads", action="store_true")
    arguments.add_argument("--traces", default=ROOT / "../shared/traces", type=Path)
    arguments.add_argument("--only", default=",".join(TRACES))
    args = arguments.parse_args()
    traces = {name: args.traces / TRACES[name] for name in args.only.split(",")}
    for name, trace in traces.items():
        if not trace.exists():
            print(f"{name}: {trace} is not at hand", file=sys.stderr)
    traces = {name: trace for name, trace in traces.items() if trace.exists()}
    if args.warm_up:
        return warm_rows(args, traces)
    too_long = [name for name, trace in traces.items() if end_bytes(args.peryton, trace) > VOLUME]
    for name in too_long:
        print(f"{name}: longer than {VOLUME >> 30} GiB, left out", file=sys.stderr)
        del traces[name]
    if args.depths:
        return depth_rows(args, traces)
    if args.fewer_reads:
        return fewer_reads_rows(args, traces)
    for name, trace in traces.items():
        with tempfile.TemporaryDirectory() as folder:
            runs = simulate(args.peryton, caches_and_disk(args.peryton, trace, folder)[:3], trace, folder)
        for kind in ["write", "flush", "write_then_flush"]:
            base = mean(runs["disk"], kind)
            if base is not None:
                means = [mean(runs[which], kind) for which in ["through", "around"]]
                cells = [cell(base), *(cell(value) + ratio(value, base) for value in means)]
                print("|", " | ".join([name, kind, *cells]), "|", flush=True)


if __name__ == "__main__":
    main()
