#!/usr/bin/env python3
"""Computes the table of docs/findings/flashield.md again: admission rules in front of a cache of a tenth of the trace's footprint.

usage: flashield.py [--peryton PROGRAM] [--requests N]
"""

import argparse

from common import MIB, ROOT, SHARED, Trace, fill, number, start, table

DESIGN = "examples/papers/caching-back.toml"
DOCUMENT = ROOT / "docs/findings/flashield.md"
RULES = [("all", []), ("hotness, 1", ["by=hotness", "threshold=1"]), ("probability, 0.2", ["by=probability", "threshold=0.2"]),
         ("flashiness, 1", ["by=flashiness"]), ('flashiness, 1, write_hits = "bypass"', ["by=flashiness", "write_hits=bypass"]),
         ("flashiness, 3", ["by=flashiness", "threshold=3"])]


def settings(trace, rule):
    # Whole 64 MiB.
    cache = -(-trace.info["footprint"]["bytes"] // 10 // (64 * MIB)) * 64
    return [f"devices.ssd.size={cache}MiB", f"volume.size={trace.volume_mib()}MiB", "placement.extent=16KiB",
            "placement.promotion.threshold=0", *(f"admission.{setting}" for setting in rule)]


def admission(runner, traces):
    promises = [(trace, name, runner.sim(DESIGN, trace, settings(trace, rule), ["--replay", "sync"]))
                for trace in traces for name, rule in RULES]
    rows = []
    for trace, name, promise in promises:
        report = promise.result()
        rows.append([trace.name if name == "all" else "", name, f"{100 * report['fast_hit_ratio']:.1f} %",
                     f"{report['devices']['ssd']['bytes_written'] / 1e6:,.0f} MB",
                     *(f"{number(report['latency_us'][kind]['mean'] / 1e3)} ms" for kind in ("read", "write")),
                     f"{number(report['lifetime_years'], 2)} y"])
    yield from table(["trace", "admission", "fast hits", "written to the flash", "mean read", "mean write", "lifetime"], rows)


def main():
    arguments, runner, folder = start(argparse.ArgumentParser(description=__doc__.splitlines()[0]), requests=10_000_000)
    with folder:
        traces = [Trace("pgbench", "examples/traces/pgbench-ext4.parquet", limit=arguments.requests),
                  Trace("cloudphysics", f"{SHARED}/cloudphysics.vscsi", limit=arguments.requests),
                  Trace("mailstore", f"{SHARED}/mailstore-ext4.csv.xz", limit=arguments.requests)]
        traces = [trace for trace in traces if (ROOT / trace.path).exists()]
        runner.look(traces)
        fill(DOCUMENT, [("admission", lambda: admission(runner, traces))], runner, arguments.only.split(",") if arguments.only else None)


if __name__ == "__main__":
    main()
