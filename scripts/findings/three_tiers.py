#!/usr/bin/env python3
"""Computes the tables of docs/findings/three-tiers.md again.

NVMe before a disk, SATA flash before a disk, and NVMe before SATA flash before a disk, on real traces. Each table is between two comments
of the document; the script replaces the text between them and nothing else. All reports go to report/findings/three-tiers.json as well.

usage: three_tiers.py [--peryton PROGRAM] [--only NAME,NAME...]
"""

import argparse

from common import MIB, ROOT, SHARED, Trace, fill, latency, rows_of_ways, start, table, written

DOCUMENT = ROOT / "docs/findings/three-tiers.md"
THREE, TWO = "examples/designs/three-tiers.toml", "examples/designs/flash-and-disk.toml"
GIB = 1 << 30
LEAST = 16 * MIB
TRACES = [
    Trace("pgbench", "examples/traces/pgbench-ext4.parquet"),
    Trace("mailstore", f"{SHARED}/mailstore-ext4.csv.xz"),
    Trace("devbox", f"{SHARED}/devbox-ext4.csv.xz"),
    Trace("cloudphysics", f"{SHARED}/cloudphysics.vscsi"),
    Trace("DTRS", f"{SHARED}/dtrs-30000s.disksim.xz", ["--concatenate"]),
]
# The devices that the data are on, the fastest first, and the shares of the blocks that the trace touches which the flash has.
NVME = "devices.sata.profile=wd-black-sn850x-2tb"
WAYS = {
    "NVMe 2 %": (TWO, {"": 50}, [NVME]),
    "SATA 10 %": (TWO, {"": 10}, []),
    "NVMe 2 %, SATA 10 %": (THREE, {"nvme": 50, "": 10}, []),
    "NVMe 12 %": (TWO, {"": 100 / 12}, [NVME]),
}


class Tiers:
    def __init__(self, runner):
        self.runner, self.kept = runner, {}

    def run(self, trace, way):
        if (trace.name, way) not in self.kept:
            design, parts, settings = WAYS[way]
            touched = trace.info["footprint"]["bytes"]
            inside = "devices.home.design." if design == THREE else ""
            sizes = [f"{inside}volume.size={-(-trace.volume_mib() * MIB // GIB) + 1}GiB"]
            for name, part in parts.items():
                key = f"devices.{name}" if name else f"{inside}devices.sata"
                sizes.append(f"{key}.size={max(int(touched / part) // MIB * MIB, LEAST)}")
            self.kept[trace.name, way] = self.runner.sim(design, trace, [*sizes, *settings], ["--replay", "sync"])
        return self.kept[trace.name, way]


def of_device(report, *names):
    return next(report["devices"][name] for name in names if name in report["devices"])


def disk_commands(report, _):
    disk = of_device(report, "home.disk", "disk")
    return (disk["reads"] + disk["writes"]) / report["requests"] * 1000


def to_flash(report, trace):
    names = [name for name in report["devices"] if not name.endswith("disk")]
    return sum(report["devices"][name]["bytes_written"] for name in names) / written(trace)


def main():
    arguments, runner, folder = start(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    only = arguments.only.split(",") if arguments.only else None
    with folder:
        traces = [trace for trace in TRACES if (ROOT / trace.path).exists()]
        runner.look(traces)
        tiers = Tiers(runner)

        def of(names, *figures):
            return lambda: table(["trace", *(f"{name}{way}" for name in names for way in WAYS)], rows_of_ways(tiers.run, traces, figures, WAYS))

        tables = [
            ("response", of([""], latency("all"))),
            ("reads", of(["mean: ", "p99: "], latency("read"), latency("read", "p99"))),
            ("writes", of([""], latency("write"))),
            ("flushes", of([""], latency("flush"))),
            ("disk", of([""], disk_commands)),
            ("flash", of([""], to_flash)),
        ]
        fill(DOCUMENT, tables, runner, only)


if __name__ == "__main__":
    main()
