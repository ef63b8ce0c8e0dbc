#!/usr/bin/env python3
"""Measures the tables of docs/findings/against-kernel-caches.md that need no virtual machine, and prints them.

Caches on an Intel 320 before an Exos X20, extents of 64 KiB, a fast device of a tenth of the blocks that the trace touches; --replay sync.
First caches without write-back beside the disk alone; then write-back beside another program (--before), with its designs. With --warm-up
instead: write-back after a warm-up on flash in use, with what each mechanism of WARM is worth, beside the other program. With --depths instead:
caches beside the disk alone with several requests in flight, with both programs if there are two. With --fewer-reads instead: the disk alone, without
the reads that an LRU as large as the fast device would serve, beside the cache that writes through.

usage: kernel_caches.py [--peryton PROGRAM] [--before PROGRAM] [--only TRACE,TRACE...] [--traces FOLDER]
                        [--warm-up | --depths N,N... | --fewer-reads]
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
# The largest trace spans 153 GiB.
VOLUME = 160 << 30
# After a warm-up the volume is about as large as the trace needs.
WARM_VOLUMES = {"pgbench": 4, "sqlite": 4, "mailstore": 16, "devbox": 16, "cloudphysics": 64, "tpcc": 4096}
# What is set besides the defaults.
WARM = {
    "mirrored, fifth miss": "flushed_threshold = 4\n",
    "mirrored": "",
    "named, fifth miss": "journal = 'named'\nflushed_threshold = 4\n",
    "named, third miss": "journal = 'named'\nflushed_threshold = 2\n",
    "named": "journal = 'named'\n",
    "named, room 4": "journal = 'named'\nroom_threshold = 4\n",
    "fast": "journal = 'fast'\n",
}


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
    programs = [program for program in (args.before, args.peryton) if program]
    for name, trace in traces.items():
        for depth in args.depths.split(","):
            with tempfile.TemporaryDirectory() as folder:
                designs = caches_and_disk(args.peryton, trace, folder)
                runs = [simulate(program, designs, trace, folder, replay=f"qd={depth}") for program in programs]
            cells = [cell(mean(runs[-1]["disk"], "all"))]
            for write in ("through", "around", "back"):
                for kind in ("all", "read", "write", "flush"):
                    base = mean(runs[-1]["disk"], kind)
                    cells.append(" → ".join(f"{mean(run[write], kind) / base:.2f}" if base else "–" for run in runs))
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
    speeds = {name: [] for name in WARM}
    for name, trace in traces.items():
        if not trace.exists():
            print(f"{trace} is not at hand", file=sys.stderr)
            continue
        volume, fast = WARM_VOLUMES.get(name, 160) << 30, fast_bytes(args.peryton, trace)
        with tempfile.TemporaryDirectory() as folder:
            in_use = "[devices.ssd.model]\nprecondition = 'random'\n"

            def one(program, more, folder=folder, volume=volume, fast=fast, trace=trace):
                path = design(folder, "back", volume, fast, in_use + caching("back", more))
                return simulate(program, [path], trace, folder)["back"]

            old = one(args.before, "writeback = { queue = 1024, delay = '5s' }\n")
            cells = [cell(mean(old, "all"), 4)]
            for which, more in WARM.items():
                new = one(args.peryton, more)
                speeds[which].append(mean(old, "all") / mean(new, "all"))
                wear = [r["devices"]["ssd"]["bytes_written"] for r in (old, new)]
                cells.append(f"{cell(mean(new, 'all'), 4)} ({speeds[which][-1]:.2f}; {wear[1] / wear[0]:.2f})")
        print("|", " | ".join([name, *cells]), "|", flush=True)
    for which, values in speeds.items():
        if values:
            print(f"{which}: geometric mean {math.exp(sum(map(math.log, values)) / len(values)):.3f}")


def mean(report, kind):
    row = report["latency_us"].get(kind)
    return row["mean"] / 1e3 if row else None


def cell(value, digits=3):
    return "–" if value is None else f"{value:.{digits}g}"


def ratio(a, b):
    return "" if not a or not b else f" ({a / b:.2f})"


def fast_bytes(program, trace):
    """A tenth of the blocks that the trace touches, in whole extents."""
    touched = json.loads(run(program, "trace", "info", trace, "--concatenate", "--json"))["footprint"]["bytes"]
    extent = 64 << 10
    return max(touched // 10 // extent, 64) * extent


def main():
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--peryton", default=ROOT / "target/quick/peryton")
    arguments.add_argument("--before")
    arguments.add_argument("--warm-up", action="store_true")
    arguments.add_argument("--depths")
    arguments.add_argument("--fewer-reads", action="store_true")
    arguments.add_argument("--traces", default=ROOT / "../shared/traces", type=Path)
    arguments.add_argument("--only", default=",".join(TRACES))
    args = arguments.parse_args()
    traces = {name: args.traces / TRACES[name] for name in args.only.split(",")}
    if args.warm_up:
        if not args.before:
            sys.exit("--warm-up compares with another program: name it with --before")
        return warm_rows(args, traces)
    at_hand = {name: trace for name, trace in traces.items() if trace.exists()}
    if args.depths:
        return depth_rows(args, at_hand)
    if args.fewer_reads:
        return fewer_reads_rows(args, at_hand)
    through, back = [], []
    for name, trace in traces.items():
        if not trace.exists():
            print(f"{trace} is not at hand", file=sys.stderr)
            continue
        volume, fast = VOLUME, fast_bytes(args.peryton, trace)
        with tempfile.TemporaryDirectory() as folder:
            through_fast = design(folder, "through-fast", volume, fast, caching("through", "journal = 'fast'\n"))
            designs = [*caches_and_disk(args.peryton, trace, folder)[:3], through_fast]
            new = simulate(args.peryton, designs, trace, folder)
            old = simulate(args.before, designs, trace, folder) if args.before else {}
            for kind in ["write", "flush", "write_then_flush"]:
                base = mean(new["disk"], kind)
                if base is None:
                    continue
                cells = [cell(base)]
                for which in ["through", "around", "through-fast"]:
                    if old:
                        cells.append(cell(mean(old[which], kind)) + ratio(mean(old[which], kind), base))
                    cells.append(cell(mean(new[which], kind)) + ratio(mean(new[which], kind), base))
                through.append([name, kind, *cells])
                print("|", " | ".join(through[-1]), "|", flush=True)
            if args.before:
                older = design(folder, "back", volume, fast, caching("back", "writeback = { queue = 1024, delay = '5s' }\n"))
                a = simulate(args.before, [older], trace, folder)["back"]
                newer = design(folder, "back", volume, fast, caching("back"))
                b = simulate(args.peryton, [newer], trace, folder)["back"]
                wear = [r["devices"]["ssd"]["bytes_written"] / 1e9 for r in (a, b)]
                disk = [r["devices"]["hdd"]["bytes_written"] / 1e9 for r in (a, b)]
                speed = mean(a, "all") / mean(b, "all")
                back.append(speed)
                print(
                    f"| {name} | {cell(mean(a, 'all'))} | {cell(mean(b, 'all'))} | {speed:.2f} | {wear[1] / wear[0]:.2f} "
                    f"| {disk[0]:.3g} | {disk[1]:.3g} | {a['devices']['hdd']['writes']} | {b['devices']['hdd']['writes']} "
                    f"| {100 * a['fast_hit_ratio']:.1f} | {100 * b['fast_hit_ratio']:.1f} |",
                    flush=True,
                )
    if back:
        print(f"geometric mean: {math.exp(sum(map(math.log, back)) / len(back)):.2f}")


if __name__ == "__main__":
    main()
