#!/usr/bin/env python3
"""Computes the tables of docs/findings/large-units.md again.

QLC flash with a mapping unit of 64 KiB alone, and behind a small cache or log of SLC flash, with whole units and without. Each table is
between two comments of the document; the script replaces the text between them and nothing else. All reports go to
report/findings/large-units.json as well.

usage: large_units.py [--peryton PROGRAM] [--only NAME,NAME...]
"""

import argparse

from common import MIB, ROOT, SHARED, Trace, fill, latency, rows_of_ways, start, table, written

DESIGNS = "examples/papers/findings/large-units"
DOCUMENT = ROOT / "docs/findings/large-units.md"
GIB = 1 << 30
# The fast device has a twentieth of the blocks that the trace touches, and no less than this.
LEAST_FAST = 16 * MIB
TRACES = [
    Trace("pgbench", "examples/traces/pgbench-ext4.parquet"),
    Trace("sqlite", "examples/traces/sqlite-ext4.parquet"),
    Trace("mailstore", f"{SHARED}/mailstore-ext4.csv.xz"),
    Trace("devbox", f"{SHARED}/devbox-ext4.csv.xz"),
    Trace("cloudphysics", f"{SHARED}/cloudphysics.vscsi"),
    # It spans 3 TB, of which it touches 84 MB.
    Trace("tpcc", f"{SHARED}/tpcc-sample.disksim", ["--concatenate"], wrap_mib=8192),
    Trace("websearch", f"{SHARED}/websearch-sample.disksim", ["--concatenate"]),
    Trace("DTRS", f"{SHARED}/dtrs-30000s.disksim.xz", ["--concatenate"]),
]
NEVER = ["placement.write_unit=never"]
# A fifth of the drive was never written, or was discarded: 1.082 / 0.8 - 1.
FIFTH_SPARE = ["devices.qlc.model.over_provisioning=0.3525"]
WAYS = {
    "QLC alone": ("alone", []),
    "cache, blocks": ("caching", NEVER),
    "cache, whole units": ("caching", []),
    "log, blocks": ("logging", NEVER),
    "log, whole units": ("logging", []),
}


# A disk with shingled tracks. Its cache of conventional tracks is small, so that the traces fill it.
SMALL_CACHE = ["devices.smr.model.shingled.cache=512MiB"]
SHINGLED = {
    "disk alone": ("shingled-alone", SMALL_CACHE),
    "cache": ("shingled-caching", SMALL_CACHE),
    "log": ("shingled-logging", SMALL_CACHE),
}


class Units:
    def __init__(self, runner):
        self.runner, self.kept = runner, {}

    def run(self, trace, way, state="sequential", more=()):
        design, settings = (WAYS | SHINGLED)[way]
        key = (trace.name, way, state, tuple(more))
        if key not in self.kept:
            volume = -(-trace.volume_mib() * MIB // GIB)
            fast = max(trace.info["footprint"]["bytes"] // 20 // MIB * MIB, LEAST_FAST)
            sizes = [f"volume.size={volume}GiB"]
            sizes += [f"devices.qlc.model.precondition={state}"] if way in WAYS else []
            sizes += [] if design.endswith("alone") else [f"devices.ssd.size={fast}"]
            self.kept[key] = self.runner.sim(f"{DESIGNS}/{design}.toml", trace, [*sizes, *settings, *more], ["--replay", "sync"])
        return self.kept[key]


def programmed(device):
    """What the flash programs for what was asked of it, now or later."""
    return device["nand_bytes_written"] + device.get("nand_bytes_owed", 0)


def amplification(report, _):
    return report["devices"]["qlc"]["write_amplification"]


def nand(report, trace):
    return programmed(report["devices"]["qlc"]) / written(trace)


def to_fast(report, trace):
    ssd = report["devices"].get("ssd")
    return ssd and ssd["bytes_written"] / written(trace)


def fast_nand(report, trace):
    ssd = report["devices"].get("ssd")
    return ssd and programmed(ssd) / written(trace)


def to_disk(report, trace):
    return report["devices"]["smr"]["bytes_written"] / written(trace)


def rewritten(report, trace):
    return report["devices"]["smr"]["bytes_rewritten"] / written(trace)


def main():
    arguments, runner, folder = start(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    only = arguments.only.split(",") if arguments.only else None
    with folder:
        traces = [trace for trace in TRACES if (ROOT / trace.path).exists()]
        runner.look(traces)
        units = Units(runner)
        writing = [trace for trace in traces if written(trace) > MIB]
        ways, hybrid = list(WAYS), list(WAYS)[1:]

        def of(figures, among, names, state="sequential", more=()):
            return lambda: table(["trace", *(f"{name}{way}" for name in names for way in among)],
                                 rows_of_ways(lambda trace, way: units.run(trace, way, state, more), writing, figures, among))

        tables = [
            ("amplification", of([amplification], ways, [""])),
            ("nand", of([nand], ways, [""])),
            ("fast", of([to_fast, fast_nand], hybrid, ["bytes: ", "NAND: "])),
            ("response", of([latency("all")], ways, [""])),
            ("writes", of([latency("write")], ways, [""])),
            ("flushes", of([latency("flush")], ways, [""])),
            ("random", of([amplification], ways, [""], "random")),
            ("random-nand", of([nand], ways, [""], "random")),
            ("spare", of([amplification], ways, [""], "random", FIFTH_SPARE)),
            ("shingled", of([latency("all"), latency("write"), latency("flush")], list(SHINGLED),
                            ["all: ", "writes: ", "flushes: "])),
            ("zones", of([to_disk, rewritten], list(SHINGLED), ["to the disk: ", "zones rewritten: "])),
        ]
        fill(DOCUMENT, tables, runner, only)


if __name__ == "__main__":
    main()
