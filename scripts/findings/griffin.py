#!/usr/bin/env python3
"""Computes the tables of docs/findings/griffin.md again.

Each table is between two comments of the document. The script replaces the text between them and nothing else. All
reports go to report/findings/griffin.json as well.

usage: griffin.py [--peryton PROGRAM] [--only NAME,NAME...] [--requests N]
"""

import argparse

from common import (GRIFFIN_5, PAPER_13, ROOT, fill, geometric, mean, number, percent, real_traces, shortened, start,
                    table)

DESIGNS = "examples/papers/findings/griffin"
ANALYSIS = f"{DESIGNS}/analysis.toml"
DOCUMENT = ROOT / "docs/findings/griffin.md"
NEVER = "10000h"
COMPOSITE = ["triggers.timeout=900s", "triggers.read_share=0.05"]
LOGS = [("7200 rpm disk", "griffin-barracuda-7200"), ("10,000 rpm disk", "griffin-wd-10k"),
        ("MLC SSD", "intel-x25-m-80gb"), ("SLC SSD", "intel-x25-e-32gb")]


SLC = "intel-x25-e-32gb"
SMALL_DISK = "examples/profiles/toshiba-1.8-inch.toml"
# An SLC block endures ten times as many erases as one of MLC (section 7).
SLC_CYCLES = 10


def migrations(report):
    return sum(report["logging"]["migrations"].values())


class Griffin:
    def __init__(self, runner):
        self.runner, self.kept = runner, {}

    def run(self, trace, settings, design=ANALYSIS, options=("--replay", "timed")):
        key = (trace.name, tuple(settings), design, options)
        if key not in self.kept:
            size = [f"devices.ssd.size={trace.volume_mib()}MiB"]
            self.kept[key] = self.runner.sim(design, trace, [*size, *settings], options)
        return self.kept[key]


def ideal(griffin, traces):
    promises = [(trace, griffin.runner.overwrites(trace)) for trace in traces]
    within = lambda part, seconds: next(
        (share["share_of_writes"] for share in (part or {}).get("within", []) if share["within_s"] == seconds), None)
    rows = []
    for trace, promise in promises:
        found = promise.result()
        if not found["block_writes"]:
            continue
        again, read = found.get("write_after_write_s"), found.get("read_after_write_s")
        rows.append([trace.name, number(trace.info["span_s"] / 3600), number(trace.info["writes"]),
                     percent(1 - trace.info["read_share"]), percent(found.get("ideal_write_savings"), 1),
                     percent(found.get("overwrites_on_top_1pct"), 1), percent(found.get("reads_on_top_1pct"), 1),
                     percent(within(again, 60)), percent(within(again, 900)),
                     percent(within(read, 60)), percent(within(read, 900))])
    yield from table(["trace", "hours", "writes", "writes %", "ideal savings %", "overwrites on top 1 %",
                      "reads on top 1 %", "written again within 60 s, % of writes", "900 s", "read within 60 s", "900 s"], rows)


def hot_blocks(griffin, traces):
    """Figure 2: how often a block of the most written 1 % is written, and how often it is read."""
    promises = [(trace, griffin.runner.overwrites(trace)) for trace in traces]
    rows = []
    for trace, promise in promises:
        found = promise.result()
        blocks, top = found.get("blocks_written"), found.get("overwrites_on_top_1pct")
        if not blocks or top is None or found.get("reads_on_top_1pct") is None:
            continue
        hot = blocks / 100
        writes = 1 + top * (found["block_writes"] - blocks) / hot
        reads = found["reads_on_top_1pct"] * found["block_reads"] / hot
        every = found["block_writes"] / blocks, found["block_reads"] / blocks
        rows.append([trace.name, number(writes), number(reads), number(writes / reads) if reads else "only writes",
                     number(every[0]), number(every[1])])
    yield from table(["trace", "writes of a hot block", "reads of it", "writes a read", "writes of any block written",
                      "reads a block written"], rows)


def sizing(griffin, traces):
    """How large an SLC log has to be to last as long as the MLC beneath it."""
    promises = [(trace, griffin.run(trace, [f"devices.log.profile={SLC}"], f"{DESIGNS}/griffin.toml",
                                    ("--replay", "timed"))) for trace in traces]
    rows = []
    for trace, promise in promises:
        report = promise.result()
        log, ssd = report["devices"]["log"], report["devices"]["ssd"]
        if not ssd["bytes_written"] or not ssd.get("nand_bytes_written"):
            continue
        written = log["bytes_written"] / ssd["bytes_written"]
        programmed = log["nand_bytes_written"] / ssd["nand_bytes_written"]
        rows.append([trace.name, percent(report.get("write_savings_emptied")), number(written), percent(written / SLC_CYCLES, 1),
                     number(programmed), percent(programmed / SLC_CYCLES, 1)])
    yield from table(["trace", "savings %", "written to the log, × the SSD", "SLC of so much of the MLC, %",
                      "programmed in the log, × the SSD", "SLC by that, %"], rows)


def small_disk(griffin, traces):
    """A 1.8-inch log disk against the 7200 rpm disk: latency and power."""
    promises = [(trace, griffin.run(trace, (), f"{DESIGNS}/ssd-only.toml", ("--replay", "timed")),
                 [griffin.run(trace, [f"devices.log.profile={profile}"], f"{DESIGNS}/griffin.toml", ("--replay", "timed"))
                  for profile in (LOGS[0][1], SMALL_DISK)]) for trace in traces]
    rows = []
    for trace, alone, logs in promises:
        base = alone.result()["latency_us"]["all"]["mean"]
        row = [trace.name]
        for promise in logs:
            report = promise.result()
            log = report["devices"]["log"]
            row += [number(report["latency_us"]["all"]["mean"] / base, 2), number(log["mean_power_w"]),
                    percent(log["busy_s"] / report["simulated_s"], 1)]
        rows.append([*row, number(alone.result()["devices"]["ssd"]["mean_power_w"])])
    yield from table(["trace", "7200 rpm: latency, × the SSD", "W", "busy %", "1.8 inch: latency, × the SSD", "W ", "busy % ",
                      "the SSD alone, W"], rows)


def grid(griffin, traces, columns, figure):
    """A row per trace, a column per setting; `figure` makes a cell of a report."""
    promises = [(trace, [griffin.run(trace, settings) for _, settings in columns]) for trace in traces]
    yield from table(["trace", *(name for name, _ in columns)],
                     ([trace.name, *(figure(trace, promise.result()) for promise in runs)] for trace, runs in promises))


def savings_and_penalty(trace, report):
    return f"{percent(report.get('write_savings_emptied'))} / {percent(report.get('read_penalty'))}"


def caching(griffin, traces):
    none = [f"triggers.timeout={NEVER}", "triggers.log_used=1"]
    columns = [("full", none)]
    columns += [(f"selective {ratio}", [*none, "placement.caching=selective", f"placement.overwrite_ratio={ratio}"])
                for ratio in (0.25, 0.5, 0.75, 0.9)]
    return grid(griffin, traces, columns, savings_and_penalty)


def timeouts(griffin, traces, saved):
    columns = [(f"{seconds} s", [f"triggers.timeout={seconds}s"]) for seconds in (10, 60, 300, 900, 1800, 3600)]
    yield from grid(griffin, traces, columns, savings_and_penalty)
    yield ""
    rows = []
    for trace in traces:
        report, best = griffin.run(trace, columns[3][1]).result(), saved(trace)
        got = report.get("write_savings_emptied")
        times = migrations(report)
        size = report["logging"]["bytes_migrated"] / times / 1e6 if times else None
        rows.append([trace.name, percent(best, 1), percent(got, 1), percent(got / best) if best and got is not None else "–",
                     str(times), number(size)])
    yield from table(["trace, timeout 900 s", "ideal savings %", "savings %", "share of the ideal %", "migrations",
                      "MB each"], rows)


def read_thresholds(griffin, traces):
    def cell(trace, report):
        times = migrations(report)
        every = number(report["simulated_s"] / times) if times else "never"
        return f"{savings_and_penalty(trace, report)} / {every}"
    columns = [(f"{percent(share)} %", [f"triggers.timeout={NEVER}", f"triggers.read_share={share}"])
               for share in (0.01, 0.02, 0.05, 0.1)]
    return grid(griffin, traces, columns, cell)


def sizes(griffin, traces):
    columns = [(f"{size} MiB", [f"triggers.timeout={NEVER}", f"triggers.size={size}MiB"]) for size in (16, 64, 256)]
    return grid(griffin, traces, columns, savings_and_penalty)


def bounds(griffin, traces):
    rows, gains, never = [], [], 0
    promises = [(trace, griffin.run(trace, COMPOSITE)) for trace in traces]
    for trace, promise in promises:
        report = promise.result()
        found = report["ftl_bounds"]
        before, after = found["without_log"], found["with_log"]
        if not before["pages"]:
            continue
        savings = found["erase_savings"]
        times = lambda saved: number(1 / (1 - saved)) if saved is not None and saved < 1 else "–"
        rows.append([trace.name, savings_and_penalty(trace, report),
                     percent(before.get("sequential_page_share"), 1), percent(after.get("sequential_page_share"), 1),
                     percent(savings.get("ideal"), 1), times(savings.get("ideal")),
                     percent(savings.get("block_mapped"), 1), times(savings.get("block_mapped"))])
        if "sequential_page_share" in after:
            gains.append((after["sequential_page_share"] - before["sequential_page_share"],
                          savings["ideal"], savings["block_mapped"]))
            never += not migrations(report)
    yield from table(["trace", "savings / penalty %", "sequential pages without %", "with %", "ideal FTL: erases saved %",
                      "lifetime ×", "block-mapped: erases saved %", "lifetime ×"], rows)
    yield ""
    more, least, most = (mean(column) for column in zip(*gains))
    yield (f"Mean over the {len(gains)} traces, of which {never} never migrate: {100 * more:+.1f} points of sequential pages; "
           f"erases saved {percent(least, 1)} % (ideal) to {percent(most, 1)} % (block-mapped).")


def hints(griffin, traces):
    columns = [("no hints", [f"triggers.timeout={NEVER}"])]
    columns += [(f"host cache {size}", [f"triggers.timeout={NEVER}", f"host.cache={size}"])
                for size in ("16MiB", "64MiB", "256MiB")]
    return grid(griffin, traces, columns, savings_and_penalty)


def latency(griffin, traces):
    """Figure 9: latencies against those of the MLC SSD alone, by log device."""
    promises = []
    for trace in traces:
        alone = griffin.run(trace, (), f"{DESIGNS}/ssd-only.toml", ("--replay", "timed"))
        logs = [griffin.run(trace, [f"devices.log.profile={profile}"], f"{DESIGNS}/griffin.toml",
                            ("--replay", "timed")) for _, profile in LOGS]
        promises.append((trace, alone, logs))
    rows, all_of = [], {name: [] for name, _ in LOGS}
    for trace, alone, logs in promises:
        base = alone.result()["latency_us"]
        of = lambda found, kind: found[kind]["mean"] if kind in found else None
        row = [trace.name, *(number(of(base, kind) / 1000 if of(base, kind) else None) for kind in ("all", "read", "write"))]
        for (name, _), promise in zip(LOGS, logs):
            found = promise.result()["latency_us"]
            cells = [of(found, kind) / of(base, kind) if of(base, kind) and of(found, kind) else None
                     for kind in ("all", "read", "write")]
            row.append(" / ".join(number(cell, 2) for cell in cells))
            all_of[name].append(cells[0])
        rows.append(row)
    yield from table(["trace", "SSD alone: mean ms", "reads", "writes",
                      *(f"{name}: all / reads / writes" for name, _ in LOGS)], rows)
    yield ""
    yield "Geometric means of all latencies: " + ", ".join(
        f"{name} {number(geometric(values), 2)}" for name, values in all_of.items()) + "."


def shared(griffin, traces):
    counts = (1, 2, 3, 4)
    promises = []
    for trace in traces:
        alone = griffin.run(trace, (), f"{DESIGNS}/ssd-only.toml", ("--replay", "timed"))
        runs = [(log, count, griffin.run(trace, ["volume.count=%d" % count, f"volume.log={log}"], f"{DESIGNS}/shared.toml",
                                         ("--replay", "timed")))
                for log in ("regions", "stream") for count in (counts if log == "regions" else counts[1:])]
        promises.append((trace, alone, runs))
    rows = []
    for trace, alone, runs in promises:
        base = alone.result()["latency_us"]
        for kind, count, promise in runs:
            report = promise.result()
            log = report["devices"]["log"]
            cells = [report["latency_us"][kind]["mean"] / base[kind]["mean"] if kind in base else None
                     for kind in ("all", "read", "write")]
            rows.append([trace.name, str(count), kind if count > 1 else "–", *(number(cell, 2) for cell in cells),
                         percent(log["busy_s"] / report["simulated_s"], 1), percent(log.get("sequential_write_share")),
                         percent(report.get("write_savings_emptied")),
                         number(log["mean_power_w"] / count if log.get("mean_power_w") else None)])
    yield from table(["trace", "SSDs", "log", "all, against an SSD alone", "reads", "writes", "log busy %", "log sequential %",
                      "savings %", "log W per SSD"], rows)


def spin_down(griffin, traces):
    promises = [(trace, after, griffin.run(trace, [f"power.log.spin_down_after={after}", "placement.checkpoint_interval=30s"],
                                           f"{DESIGNS}/griffin.toml", ("--replay", "timed")))
                for trace in traces for after in ("never", "5s", "60s")]
    rows = []
    for trace, after, promise in promises:
        report = promise.result()
        log = report["devices"]["log"]
        rows.append([trace.name, after, number(log["mean_power_w"]), percent(log["standby_s"] / report["simulated_s"], 1),
                     str(log["start_stops"]), number(report["latency_us"]["all"]["mean"] / 1000)])
    yield from table(["trace", "spin-down after", "log W", "standby %", "start-stops", "mean ms"], rows)


def main():
    arguments, runner, folder = start(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    only = arguments.only.split(",") if arguments.only else None
    with folder:
        names = GRIFFIN_5 + PAPER_13
        stand_ins = [shortened(name, arguments.requests, folder.name)[0] for name in names]
        real = real_traces(arguments.requests)
        runner.look(stand_ins + real)
        everything = [trace for trace in real + stand_ins if trace.info["writes"] > 100]
        named = {trace.name: trace for trace in everything}
        griffin = Griffin(runner)
        found = {}

        def saved(trace):
            if trace.name not in found:
                found[trace.name] = runner.overwrites(trace)
            return found[trace.name].result().get("ideal_write_savings")

        # Traces that a disk can keep up with, and that keep it busy at times.
        stressed = [named[name] for name in ("cloudphysics", "pgbench", "sqlite", "prxy_0", "stg_0", "src1_2", "hm_0")
                    if name in named]
        few = [named[name] for name in ("hm_0", "stg_0", "src1_2") if name in named]
        tables = [
            ("ideal", lambda: ideal(griffin, everything)),
            ("hot-blocks", lambda: hot_blocks(griffin, everything)),
            ("caching", lambda: caching(griffin, everything)),
            ("timeouts", lambda: timeouts(griffin, everything, saved)),
            ("read-thresholds", lambda: read_thresholds(griffin, everything)),
            ("sizes", lambda: sizes(griffin, everything)),
            ("bounds", lambda: bounds(griffin, everything)),
            ("hints", lambda: hints(griffin, everything)),
            ("latency", lambda: latency(griffin, stressed)),
            ("sizing", lambda: sizing(griffin, stressed)),
            ("small-disk", lambda: small_disk(griffin, stressed)),
            ("shared", lambda: shared(griffin, few)),
            ("spin-down", lambda: spin_down(griffin, few)),
        ]
        fill(DOCUMENT, tables, runner, only)


if __name__ == "__main__":
    main()
