#!/usr/bin/env python3
"""Measures what chose the defaults of designs (docs/design-keys.md, "Why these defaults").

A cache on flash in use before a nearline disk, written by no more than what a design has to say, on the eight traces of kernel_caches.py:
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

from kernel_caches import ROOT, TRACES, fast_bytes, mean, run

VOLUMES = {"pgbench": 4, "sqlite": 4, "mailstore": 16, "devbox": 16, "cloudphysics": 64, "tpcc": 4096}
DEVICES = ("[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = {fast}\nmodel = {{ precondition = 'random' }}\n"
           "[devices.hdd]\nprofile = 'seagate-exos-x20-20tb'\n[placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\n")
ALTERNATIVES = {
    "placement.extent": ["16KiB", "32KiB", "128KiB", "1MiB"],
    "placement.promotion.threshold": ["0", "1", "4", "16"],
    "placement.replacement": ["lru", "arc", "s3fifo"],
    "placement.writeback.delay": ["5s", "120s"],
    "placement.writeback.dirty_target": ["0.1", "0.8"],
    "placement.bypass.sequential": ["never", "1MiB", "16MiB"],
}
WRITES = ("requests = 20000\nfootprint = '512MiB'\nread_share = 0.0\nsize = '4KiB'\naddress = 'uniform'\narrival = '1ms'\nflush = { every_writes = 1 }\n")


def simulate(program, folder, volume, fast, trace, settings, *options):
    design = Path(folder) / "cache.toml"
    design.write_text(f"[volume]\nsize = '{volume}GiB'\n" + DEVICES.format(fast=fast))
    out = Path(folder) / "out.json"
    run(program, "sim", design, "--trace", trace, *options, *settings, "--json", out)
    return json.loads(out.read_text())[0]


def cases(program, traces, folder, settings):
    """The mean response time of each case, in ms."""
    for name, trace in traces.items():
        requests = json.loads(run(program, "trace", "info", trace, "--concatenate", "--json"))["requests"]
        volume, fast = VOLUMES.get(name, 160), fast_bytes(program, trace)
        for replay in ["sync", "timed"]:
            for warm in [0, requests // 2]:
                options = ["--replay", replay, "--concatenate", "--warm-up-requests", warm]
                yield mean(simulate(program, folder, volume, fast, trace, settings, *options), "all")


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
    rows = [["key", "value", "mean against the default", "least", "most", "4 KiB writes, ms"]]
    with tempfile.TemporaryDirectory() as folder:
        writes = Path(folder) / "writes.toml"
        writes.write_text(WRITES)
        base = None
        alternatives = [(key, value) for key in args.keys.split(",") for value in ALTERNATIVES[key]]
        for key, value in [("default", ""), *alternatives]:
            settings = ["--set", f"{key}={value}"] if value else []
            means = list(cases(args.peryton, traces, folder, settings))
            base = base or means
            ratios = [one / first for one, first in zip(means, base)]
            written = mean(simulate(args.peryton, folder, 64, 8 << 30, writes, settings, "--replay", "sync"), "all")
            rows.append([key, value, *(f"{figure:.3f}" for figure in (geometric(ratios), min(ratios), max(ratios))), f"{written:.3g}"])
            print("|", " | ".join(rows[-1]), "|", flush=True)
    if args.csv:
        with args.csv.open("w", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows(rows)


if __name__ == "__main__":
    main()
