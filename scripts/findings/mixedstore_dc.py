#!/usr/bin/env python3
"""Computes the tables of docs/findings/mixedstore.md about the drive itself (MixDC) and its flash again.

Each table is between two comments of the document. The script replaces the text between them and nothing else. All
reports go to report/findings/mixedstore-dc.json as well.

usage: mixedstore_dc.py [--peryton PROGRAM] [--only NAME,NAME...] [--requests N]
"""

import argparse
from pathlib import Path

from common import ROOT, SHARED, Trace, fill, number, percent, real_traces, start, table

DESIGNS = "examples/papers/findings/mixedstore"
MIXED, STATIC, SSD, HDD = (f"{DESIGNS}/{name}.toml" for name in ("partitioned", "static", "ssd-only", "hdd-only"))
WORKLOADS = "examples/workloads/mixedstore"
DOCUMENT = ROOT / "docs/findings/mixedstore.md"
LAYERS = ["page", "dftl", "log-block", "block-mapped"]
# Settings of the models of section 5.1: one learns all the time, one on the first half only, one is the baseline.
ON_LINE, LAST = ["partition.predict=linear"], ["partition.predict=last_value"]
# Numbers of requests of a stand-in.
WARM_UP = 300_000
BUSTED = ["financial", "cello99", "financial-bursty", "cloudphysics", "pgbench"]
# The profile's capacity. In the paper flash of the size that the drive has wears.
CAPACITY = 32e9
CYCLES = 10_000


class Drive:
    def __init__(self, runner, folder):
        self.runner, self.folder, self.kept = runner, Path(folder), {}

    def run(self, design, trace, settings=(), options=()):
        if trace.path.startswith(WORKLOADS) and "--warm-up-requests" not in options:
            # The flash is empty at the beginning.
            options = [*options, "--warm-up-requests", str(WARM_UP)]
        key = (design, trace.name, tuple(settings), tuple(options))
        if key not in self.kept:
            self.kept[key] = self.runner.sim(design, trace, list(settings), list(options))
        return self.kept[key]

    def workload(self, name, **keys):
        """A synthetic workload that is not in a file."""
        path = self.folder / f"{name}.toml"
        path.write_text("".join(f"{key} = {value}\n" for key, value in {"name": f'"{name}"', **keys}.items()))
        return Trace(name, path, stand_in=True)


def ms(report, what="mean", kind="all"):
    return number(report["latency_us"][kind][what] / 1000)


def flash(report):
    return report["devices"]["ssd"]


def years(report, gib=1):
    """The life of flash that is as large as the part that is used, by its erases."""
    whole = flash(report).get("lifetime_physical_years") if flash(report)["erases"] else None
    return number(whole and whole * gib * (1 << 30) / CAPACITY)


def written_years(report, gib=1):
    """The same life, by the bytes that are programmed: flash that was empty is erased late."""
    per_s = flash(report)["nand_bytes_written"] / report["simulated_s"]
    return number(CYCLES * gib * (1 << 30) / per_s / 31_557_600) if per_s else "–"


def whole(trace):
    """Settings that make the flash as large as the trace needs, for a drive of nothing else."""
    mib = trace.volume_mib()
    return [f"devices.ssd.size={mib}MiB", f"devices.ssd.count={int(mib * (1 << 20) // CAPACITY) + 1}"]


def figure1(drive):
    """Flash against disk, one request at a time, as writing goes on."""
    writes = dict(requests=60_000, footprint='"1GiB"', read_share=0.0, arrival='"1ms"', size='"4KiB"', address='"uniform"')
    near, far = drive.workload("random-writes", **writes), drive.workload("random-writes-far", **writes | {"footprint": '"34GiB"'})
    new = ["devices.ssd.size=256MiB", "devices.ssd.model.precondition=fresh"]
    here = drive.workload("random-writes-256", **writes | {"footprint": '"256MiB"', "requests": 160_000})
    steps = [0, 20_000, 40_000, 60_000, 80_000, 120_000, 150_000]
    used = ["devices.ssd.size=1GiB", "devices.ssd.model.precondition=random"]
    columns = [("disk, the same 256 MiB", HDD, here, []), ("disk, 34 GiB", HDD, far, [])]
    columns += [(f"flash, {layer}", SSD, here, [*new, f"devices.ssd.model.ftl={layer}"]) for layer in LAYERS]
    promises = []
    for step in steps:
        row = []
        for _, design, trace, settings in columns:
            # A disk's behaviour does not depend on earlier writes.
            begin = step if design == SSD else 0
            options = ["--replay", "sync", "--warm-up-requests", str(begin), "--limit", str(begin + 2_000)]
            row.append(drive.run(design, trace, settings, options))
        promises.append((step, row))
    yield from table(["after so many writes, ms each", *(column[0] for column in columns)],
                     ([f"{step:,}", *(ms(promise.result()) for promise in row)] for step, row in promises))
    yield ""
    kinds = [("random writes", near, far)]
    for name, reads, sequential in [("sequential writes", 0.0, 1.0), ("random reads", 1.0, 0.0), ("sequential reads", 1.0, 1.0)]:
        keys = writes | {"read_share": reads, "sequential_share": sequential, "requests": 20_000}
        kinds.append((name, drive.workload(name.replace(" ", "-"), **keys),
                      drive.workload(name.replace(" ", "-") + "-far", **keys | {"footprint": '"34GiB"'})))
    rows = []
    for name, trace, spread in kinds:
        options = ["--replay", "sync", "--limit", "20000"]
        cells = [drive.run(HDD, spread, [], options)]
        cells += [drive.run(SSD, trace, [*used, f"devices.ssd.model.ftl={layer}"], options) for layer in LAYERS]
        rows.append((name, cells))
    yield from table(["4 KiB, one at a time, requests a second", "disk, 34 GiB", *(f"flash in use, {layer}" for layer in LAYERS)],
                     ([name, *(number(promise.result()["iops"]) for promise in cells)] for name, cells in rows))
    yield ""
    rows = []
    for per_s in (10, 50, 200):
        trace = drive.workload(f"writes-{per_s}", **writes | {"arrival": f'{{ kind = "poisson", mean = "{1000 / per_s}ms" }}'})
        cells = [drive.run(SSD, trace, [*used, f"devices.ssd.model.ftl={layer}"], ["--limit", "30000"])
                 for layer in LAYERS]
        rows.append((per_s, cells))
    yield from table(["random writes a second: life in years, 1 GiB", *LAYERS],
                     ([str(per_s), *(years(promise.result()) for promise in cells)] for per_s, cells in rows))


def sizes(drive, stand_ins):
    """Figures 4 and 6: response time and life by the size of the flash, static and dynamic."""
    rows = []
    for trace in stand_ins[:3]:
        for gib in (0.5, 1, 2):
            size = [f"devices.ssd.size={int(1024 * gib)}MiB"]
            rows.append((trace, gib, [drive.run(design, trace, size) for design in (STATIC, MIXED)]))
    def cells(gib, runs):
        static, dynamic = (promise.result() for promise in runs)
        return [ms(static), written_years(static, gib), percent(served_by_flash(static)), ms(dynamic), written_years(dynamic, gib),
                percent(served_by_flash(dynamic))]
    yield from table(["stand-in", "flash, GiB", "static: ms", "years", "on flash, %", "dynamic: ms", "years", "on flash, %"],
                     ([trace.name, f"{gib:g}", *cells(gib, runs)] for trace, gib, runs in rows))


def served_by_flash(report):
    """The share of the requests, as in Table 5, computed from the accesses to extents (one or few a request)."""
    return report.get("fast_hit_ratio")


def rates(drive, stand_ins):
    """Figure 7: the arrival rate doubled again and again."""
    trace = stand_ins[0]
    rows = []
    for speed in (1, 4, 16, 32, 64, 128):
        options = ["--speed", str(speed)]
        rows.append((speed, drive.run(MIXED, trace, [], options), drive.run(HDD, trace, [], options),
                     drive.run(SSD, trace, ["devices.ssd.size=1GiB"], options)))
    def cells(mixed, disk, ssd):
        return [ms(mixed), written_years(mixed), percent(mixed["partition"]["fast_write_share"]), ms(disk), ms(ssd), written_years(ssd)]
    yield from table(["times the rate", "mixed: ms", "years", "writes to flash, %", "disk: ms", "flash of 1 GiB: ms", "years"],
                     ([str(speed), *cells(*(run.result() for run in runs))] for speed, *runs in rows))


def systems(drive, traces):
    """Figure 8: the drive against its disk and against flash that holds everything."""
    rows = []
    for trace in traces:
        runs = [drive.run(HDD, trace, []), drive.run(SSD, trace, whole(trace)), drive.run(MIXED, trace, [])]
        rows.append((trace, runs, drive.run(SSD, trace, [*whole(trace), "devices.ssd.model.ftl=log-block"]),
                     drive.run(MIXED, trace, ["devices.ssd.model.ftl=log-block"])))
    def cells(runs, log_ssd, log_mixed):
        disk, ssd, mixed = (run.result() for run in runs)
        log_ssd, log_mixed = log_ssd.result(), log_mixed.result()
        less = 1 - mixed["latency_us"]["all"]["mean"] / disk["latency_us"]["all"]["mean"]
        return [ms(disk), ms(ssd), ms(mixed), percent(less), ms(disk, "p99"), ms(ssd, "p99"), ms(mixed, "p99"),
                percent(mixed["partition"]["fast_write_share"]), ms(log_ssd), ms(log_mixed),
                percent(log_mixed["partition"]["fast_write_share"])]
    yield from table(["trace", "disk: ms", "flash", "mixed", "mixed below disk, %", "p99: disk", "flash", "mixed",
                      "writes to flash, %", "log-block: flash", "mixed", "writes to flash, %"],
                     ([trace.name, *cells(*rest)] for trace, *rest in rows))


def prediction(drive, traces):
    """Figure 9: how far off the predictors are on the second half of each trace."""
    rows = []
    for trace in traces:
        if not trace.info["writes"]:
            continue
        total = trace.info["reads"] + trace.info["writes"] + trace.info.get("flushes", 0)
        count = min(total, trace.limit or total)
        half = ["--warm-up-requests", str(count // 2)]
        training = max(1, int(trace.info["writes"] * count / max(total, 1)) // 2)
        for layer in ("dftl", "log-block") if trace.path.startswith(WORKLOADS) else ("dftl",):
            model = [f"devices.ssd.model.ftl={layer}"]
            runs = [drive.run(MIXED, trace, [*model, *settings], half)
                    for settings in (ON_LINE, [*ON_LINE, f"partition.training={training}"], LAST)]
            rows.append((f"{trace.name}, {layer}", runs))
    def cells(runs):
        on_line, trained, last = (run.result() for run in runs)
        partitions = [report["partition"] for report in (on_line, trained, last)]
        if not partitions[0]["predicted"]:
            return None
        return [number(partitions[0]["predicted"]), *(percent(partition.get("prediction_error")) for partition in partitions),
                percent(partitions[0].get("last_value_error")), *(number(partition.get("r_squared")) for partition in partitions),
                *(ms(report) for report in (on_line, trained, last))]
    made = [[name, *row] for name, row in ((name, cells(runs)) for name, runs in rows) if row]
    yield from table(["trace, layer", "writes predicted", "error, %: on line", "trained", "last value",
                      "last value on the same writes", "R²: on line", "trained", "last value", "mean response, ms: on line",
                      "trained", "last value"], made)


def fragmentation_busting(drive, traces):
    """Figure 10: fragmentation busting."""
    rows = []
    for trace in traces:
        for layer in ("dftl", "log-block") if trace.path.startswith(WORKLOADS) else ("dftl",):
            busts = [["partition.bust_after=never"], ["partition.bust_after=60s", "partition.bust_free=0.8"],
                     ["partition.bust_after=60s", "partition.bust_free=1"]]
            runs = [drive.run(MIXED, trace, [f"devices.ssd.model.ftl={layer}", *bust]) for bust in busts]
            rows.append((f"{trace.name}, {layer}", runs))
    def cells(runs):
        reports = [run.result() for run in runs]
        return [*(ms(report) for report in reports), *(ms(report, "p99") for report in reports),
                *(ms(report, "p999") for report in reports), *(ms(report, "max") for report in reports),
                *(number(flash(report).get("write_amplification")) for report in reports),
                *(number(report["partition"]["busted"]) for report in reports[1:])]
    kinds = ["never", "80 %", "all"]
    columns = [f"{what}: {kind}" for what in ("mean, ms", "p99", "p99.9", "max", "write amplification") for kind in kinds]
    yield from table(["trace, layer", *columns, "extents moved: 80 %", "all"], ([name, *cells(runs)] for name, runs in rows))


def regulation(drive, bursty):
    """Table 5."""
    # What 1 GiB stands in 10,000 cycles, all 32 GB with their spare stand in 314: for five years.
    budget = ["devices.ssd.model.cycles=314", "partition.lifetime_years=5", "partition.write_amplification=1.2"]
    kinds = [("none", []), ("Red25", ["partition.regulate=0.25"]), ("Red50", ["partition.regulate=0.5"]),
             ("Red25 beyond the budget", ["partition.regulate=0.25", *budget]),
             ("Red50 beyond the budget", ["partition.regulate=0.5", *budget]), ("controller", budget)]
    speed = ["--speed", "4"]
    runs = [(name, drive.run(MIXED, bursty, settings, speed)) for name, settings in kinds]
    rows = []
    for name, run in runs:
        report = run.result()
        rows.append([name, number(flash(report)["erases_per_s"]), number(served_by_flash(report)),
                     number(report["partition"]["fast_write_share"]), ms(report), ms(report, "p99"), written_years(report)])
    yield from table(["regulation", "erases a second", "share of requests on flash", "of writes", "mean response, ms", "p99, ms",
                      "life, years"], rows)


def levelling(drive, bursty):
    """Figure 11."""
    hot = drive.workload("hot-and-cold", requests=600_000, footprint='"240MiB"', read_share=0.09,
                         arrival='{ kind = "bursty", interval = "13350us", on = "60s", off = "540s" }', size='"4KiB"',
                         address='{ kind = "hot_cold", extent = "64KiB", regions = [{ accesses = 0.95, space = 0.05 }] }')
    rows = []
    for name, trace, size in (("hot and cold, bursts", hot, 256), (bursty.name, bursty, 1024)):
        for gap in (8, 16):
            model = [f"devices.ssd.size={size}MiB", "devices.ssd.model.precondition=random"]
            kinds = [[], [f"devices.ssd.model.wear_gap={gap}"], [f"devices.ssd.model.wear_gap={gap}", "devices.ssd.model.level_wear=adaptive"]]
            rows.append((name, gap, size, [drive.run(SSD, trace, [*model, *kind]) for kind in kinds]))
    def cells(size, runs):
        never, always, adaptive = (run.result() for run in runs)
        spent = lambda report: flash(report)["ftl"]["levelling"]
        return [number(flash(never)["erases"]), *(number(flash(report)["erases"]) for report in (always, adaptive)),
                *(number(spent(report)["erases"]) for report in (always, adaptive)), number(spent(adaptive)["put_off"]),
                *(number(spent(report)["time_s"]) for report in (always, adaptive)),
                *("–".join(map(str, flash(report)["erase_count_min_max"])) for report in (never, always, adaptive)),
                *(years(report, size / 1024) for report in (always, adaptive)),
                *(ms(report, "p99") for report in (always, adaptive))]
    yield from table(["workload", "gap", "erases: never", "always", "adaptive", "for levelling: always", "adaptive", "put off",
                      "die seconds: always", "adaptive", "erases of a block: never", "always", "adaptive", "years by erases: always", "adaptive", "p99, ms: always", "adaptive"],
                     ([name, str(gap), *cells(size, runs)] for name, gap, size, runs in rows))


def maps(drive, stand_ins):
    """Section 2.1: how much of the map has to be in RAM."""
    rows = []
    for trace in stand_ins[:2]:
        for cache in ("16KiB", "64KiB", "256KiB", "1MiB", "4MiB"):
            rows.append((trace, cache, drive.run(MIXED, trace, [f"devices.ssd.model.map_cache={cache}"])))
    def cells(report):
        found = flash(report)
        mapping = found["ftl"]["mapping"]
        return [percent(found.get("mapping_hit_ratio")), number(mapping["reads"]), number(mapping["writes"]),
                number(found.get("write_amplification")), ms(report)]
    yield from table(["stand-in", "map in RAM", "found there, %", "translation pages read", "written", "write amplification",
                      "mean, ms"], ([trace.name, cache, *cells(run.result())] for trace, cache, run in rows))


def main():
    arguments, runner, folder = start(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    drive = Drive(runner, folder.name)
    stand_ins = [Trace(name, f"{WORKLOADS}/{name}.toml")
                 for name in ("financial", "cello99", "tpc-h", "financial-bursty")]
    recorded = [trace for trace in real_traces(arguments.requests)
                if trace.name in ("cloudphysics", "devbox", "mailstore", "tpcc-sample", "pgbench", "sqlite")]
    traces = [*stand_ins, *recorded]
    runner.look(traces)
    tables = [
        ("flash-or-disk", lambda: figure1(drive)),
        ("maps", lambda: maps(drive, stand_ins)),
        ("sizes", lambda: sizes(drive, stand_ins)),
        ("rates", lambda: rates(drive, stand_ins)),
        ("systems", lambda: systems(drive, traces)),
        ("prediction", lambda: prediction(drive, traces)),
        ("fragmentation-busting", lambda: fragmentation_busting(drive, [trace for trace in traces if trace.name in BUSTED])),
        ("regulation", lambda: regulation(drive, stand_ins[3])),
        ("levelling", lambda: levelling(drive, stand_ins[3])),
    ]
    fill(DOCUMENT, tables, runner, arguments.only and arguments.only.split(","), "mixedstore-dc")


if __name__ == "__main__":
    main()
