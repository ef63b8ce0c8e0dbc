#!/usr/bin/env python3
"""Measures what chose the defaults of designs (docs/design-keys.md, "Why these defaults").

A cache on flash in use before a nearline disk, written by no more than what a design has to say, on the eight traces of kernel_caches.py (400,000 requests at most):
cold, after a warm-up of half of the trace, as a burst (--replay sync) and at its own pace (timed). Alternatives are compared with a design that
names nothing, by the geometric mean of the mean response time over all of them, with the least and the most; above 1 the alternative is slower.
The last column is a burst of 4 KiB writes, each of them flushed, to an empty cache.

usage: defaults.py [--peryton PROGRAM] [--only TRACE,TRACE...] [--keys KEY,KEY...] [--traces FOLDER] [--csv FILE]
"""

import argparse
import csv
import json
import math
import tempfile
from pathlib import Path

from kernel_caches import ROOT, TRACES, mean, run, tenth

VOLUMES = {"pgbench": 4, "sqlite": 4, "mailstore": 16, "devbox": 16, "cloudphysics": 64, "tpcc": 4096}
DEVICES = ("[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = {fast}\nmodel = {{ precondition = 'random' }}\n"
           "[devices.hdd]\nprofile = 'seagate-exos-x20-20tb'\n[placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\n")
ALTERNATIVES = {
    "placement.extent": ["16KiB", "32KiB", "128KiB", "1MiB"],
    "placement.promotion.threshold": ["0", "1", "4", "16"],
    "placement.promotion.window": ["10s", "10min"],
    "placement.demotion": ["{ low = 8, high = 16 }", "{ low = 16, high = 32 }"],
    "placement.max_moves": ["16", "1024"],
    "placement.replacement": ["lru", "arc", "s3fifo"],
    "placement.journal": ["mirrored"],
    "placement.writeback.delay": ["5s", "120s"],
    "placement.writeback.dirty_target": ["0.1", "0.8"],
    "placement.bypass.sequential": ["never", "1MiB", "16MiB"],
}
# The requests of a trace that are replayed: those of devbox and mailstore are three times as many.
LIMIT = 400_000
WRITES = ("requests = 20000\nfootprint = '512MiB'\nread_share = 0.0\nsize = '4KiB'\naddress = 'uniform'\narrival = '1ms'\nflush = { every_writes = 1 }\n")


def means(program, folder, designs, volume, fast, trace, *options):
    """The mean response time in ms of each alternative."""
    paths = []
    for name, setting in designs.items():
        paths.append(Path(folder) / f"{name}.toml")
        paths[-1].write_text(f"[volume]\nsize = '{volume}GiB'\n" + DEVICES.format(fast=fast) + setting)
    out = Path(folder) / "out.json"
    run(program, "sim", *paths, "--trace", trace, *options, "--json", out)
    reports = {report["design"]: report for report in json.loads(out.read_text())}
    return [mean(reports[name], "all") for name in designs]


def cases(program, traces, folder, designs):
    """The mean response times of each case, in ms."""
    for name, trace in traces.items():
        about = json.loads(run(program, "trace", "info", trace, "--concatenate", "--json"))
        volume, fast = VOLUMES.get(name, 160), tenth(about)
        limit = ["--limit", LIMIT] if about["requests"] > LIMIT else []
        for replay in ["sync", "timed"]:
            for warm in [0, min(about["requests"], LIMIT) // 2]:
                options = ["--replay", replay, "--concatenate", "--warm-up-requests", warm, *limit]
                yield means(program, folder, designs, volume, fast, trace, *options)


def geometric(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--peryton", default=ROOT / "target/release/peryton")
    arguments.add_argument("--traces", default=ROOT / "../shared/traces", type=Path)
    arguments.add_argument("--only", default=",".join(TRACES))
    arguments.add_argument("--keys", default=",".join(ALTERNATIVES))
    arguments.add_argument("--csv", type=Path)
    args = arguments.parse_args()
    traces = {name: args.traces / TRACES[name] for name in args.only.split(",")}
    traces = {name: trace for name, trace in traces.items() if trace.exists()}
    alternatives = [(key, value) for key in args.keys.split(",") for value in ALTERNATIVES[key]]
    # A key within a table of `placement`, which is the last table of the design.
    designs = {"default": ""}
    for key, value in alternatives:
        word = value if value.startswith("{") or value.replace(".", "").isdigit() else f"'{value}'"
        designs[f"{key} {value}"] = f"{key.removeprefix('placement.')} = {word}\n"
    rows = [["key", "value", "mean time, × default", "least, × default", "most, × default", "4 KiB writes, ms"]]
    with tempfile.TemporaryDirectory() as folder:
        writes = Path(folder) / "writes.toml"
        writes.write_text(WRITES)
        written = means(args.peryton, folder, designs, 64, 8 << 30, writes, "--replay", "sync")
        found = list(cases(args.peryton, traces, folder, designs))
    for index, (key, value) in enumerate([("default", ""), *alternatives]):
        ratios = [case[index] / case[0] for case in found]
        figures = (geometric(ratios), min(ratios), max(ratios))
        rows.append([key, value, *(f"{figure:.3f}" for figure in figures), f"{written[index]:.3g}"])
        print("|", " | ".join(rows[-1]), "|", flush=True)
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
