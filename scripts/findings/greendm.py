#!/usr/bin/env python3
"""Computes the tables of docs/findings/greendm.md again.

Each table stands between two comments of the document; what is between them is replaced, the rest is left alone. Tables
whose traces are not at hand keep what they had. All figures go to report/findings/greendm.json as well.

usage: greendm.py [--peryton PROGRAM] [--only NAME,NAME...]
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import figures

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/findings/greendm.md"
DESIGNS = "examples/papers/findings/greendm"
SHARED = "../shared/traces"
ALL = ["ssd-only", "hdd-only", "linear", "tiering", "caching-back", "caching-through"]
PAPER = ALL[:5]
BASE = ALL[:3]
HYBRID = ["tiering", "caching-back"]
# An assumption: the power of an idle desktop computer without the drive. The paper measured the whole machine.
HOST_W = 50.0
LIMIT_GB = 36_500e9
# Sizes in whole MiB: the fast device's share of the volume. 30518 MiB are 32 GB, 7630 MiB are 8 GB.
SIZES = {32: {4: (30518, 7630), 8: (30518, 3815)}, 8: {4: (7630, 1908), 8: (7630, 954)}}

SYNC = ("--replay", "sync")
# Name, file, MiB of the volume, and options of each real trace.
REAL = [
    ("pgbench", "examples/traces/pgbench-ext4.parquet", 4096, SYNC),
    ("pgbench, timed", "examples/traces/pgbench-ext4.parquet", 4096, ("--replay", "timed")),
    ("devbox", f"{SHARED}/devbox-ext4.csv.xz", 10508, (*SYNC, "--limit", "500000")),
    ("mailstore", f"{SHARED}/mailstore-ext4.csv.xz", 10400, (*SYNC, "--limit", "500000")),
    ("cloudphysics", f"{SHARED}/cloudphysics.vscsi", 32032, SYNC),
    ("tpcc", f"{SHARED}/tpcc-sample.disksim", 184320, (*SYNC, "--concatenate", "--fit", "wrap")),
]


class Row:
    """One design under one setting."""

    def __init__(self, report, label):
        self.report, self.label, self.design = report, label, report["design"]
        devices = report["devices"]
        flash = devices.get("ssd") or devices.get("flash")
        self.disk = devices.get("hdd")
        self.iops, self.seconds = report["iops"], report["simulated_s"]
        self.mean_ms = report["latency_us"]["all"]["mean"] / 1000
        self.watts, self.joules = report["mean_power_w"], report["energy_j"]
        self.standby = 100 * self.disk["standby_s"] / self.seconds if self.disk else None
        self.stops = self.disk["start_stops"] if self.disk else None
        self.flash = flash
        self.wear = {effect: wear(flash, effect) for effect in (10, 100)}
        # The report's figure is for the read effect of the designs; the other is computed by the same equation.
        assert flash is None or abs(flash["wear_eu"] - self.wear[100]) <= 1e-6 * self.wear[100], report["design"]
        self.hit = report.get("fast_hit_ratio")
        self.moves = report.get("moves", {})
        self.metadata = report.get("metadata", {})


def wear(flash, effect):
    """Equation (3) of the paper in eu; a read counts as 1/effect of a write."""
    if flash is None:
        return None
    return 1e6 * 4096 * (flash["pages_written"] + flash["pages_read"] / effect) / LIMIT_GB


class Runner:
    def __init__(self, program):
        self.program, self.results, self.seconds = program, {}, 0.0

    def run(self, table, label, designs, trace, settings=(), options=("--replay", "sync")):
        """Simulates designs on a trace; returns a row for each."""
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder) / "reports.json"
            command = [self.program, "sim", *(f"{DESIGNS}/{design}.toml" for design in designs)]
            command += ["--trace", trace, *options]
            for setting in settings:
                command += ["--set", setting]
            began = time.monotonic()
            done = subprocess.run([*command, "--json", str(out)], cwd=ROOT, capture_output=True, text=True)
            if done.returncode != 0:
                sys.exit(f"{' '.join(command)}\n{done.stderr.strip()}")
            self.seconds += time.monotonic() - began
            reports = json.loads(out.read_text())
        print(f"  {table}: {label or trace}", file=sys.stderr)
        self.results.setdefault(table, []).append(
            {"label": label, "command": ["peryton", *command[1:]], "reports": reports}
        )
        return [Row(report, label) for report in reports]


def settings(drive, share, extent=None, threshold=None, moves=None, more=()):
    volume, fast = SIZES[drive][share] if isinstance(drive, int) else drive
    found = [f"volume.size={volume}MiB", f"devices.ssd.size={fast}MiB"]
    found += [f"placement.extent={extent}"] if extent else []
    found += [f"placement.promotion.threshold={threshold}"] if threshold is not None else []
    found += [f"placement.max_moves={moves}"] if moves else []
    return [*found, *more]


def number(value, digits=3):
    """Three significant digits, as people write them."""
    if value is None:
        return "–"
    if value == 0:
        return "0"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{value:.4f}".rstrip("0") if "e" in text else text


def change(value, base):
    return "–" if value is None or not base else f"{100 * (value / base - 1):+.0f} %"


def times(value, base):
    return "–" if value is None or not base else f"{number(value / base)}×"


COLUMNS = [
    "design", "requests/s", "vs linear", "mean ms", "energy J", "vs linear", f"the same with a {HOST_W:.0f} W host",
    "mean W", "standby %", "SSD hit %", "promoted", "demoted", "written back", "cancelled",
    "eu at 1/10", "vs linear", "eu at 1/100", "vs linear",
]


def lines(rows, linear):
    """A Markdown table; `linear` is the baseline of the ratios."""
    yield "| " + " | ".join(COLUMNS) + " |"
    yield "|---" + "|--:" * (len(COLUMNS) - 1) + "|"
    for row in rows:
        host = (row.joules + HOST_W * row.seconds) / (linear.joules + HOST_W * linear.seconds)
        causes = {cause: count for cause, count in row.moves.get("cancelled_by", {}).items() if count}
        cancelled = ", ".join(f"{count:,} {cause.replace('_', ' ')}" for cause, count in causes.items())
        base = row is linear
        cells = [
            f"{row.design}{', ' + row.label if row.label else ''}",
            number(row.iops), "–" if base else change(row.iops, linear.iops),
            number(row.mean_ms), number(row.joules), "–" if base else change(row.joules, linear.joules),
            "–" if base else change(host, 1.0),
            f"{row.watts:.2f}",
            "–" if row.standby is None else f"{row.standby:.1f}",
            "–" if row.hit is None else f"{100 * row.hit:.1f}",
            *(number(row.moves.get(kind)) for kind in ("promotions", "demotions", "writebacks")),
            cancelled or ("none" if row.moves else "–"),
            number(row.wear[10]), "–" if base else times(row.wear[10], linear.wear[10]),
            number(row.wear[100]), "–" if base else times(row.wear[100], linear.wear[100]),
        ]
        yield "| " + " | ".join(cells) + " |"


def memory_cells(cache):
    """What the host's memory answered, and what it did not pass on of the writes; what is still dirty counts as passed on."""
    written = cache["written_back_bytes"] + cache["left_dirty_bytes"] + cache["past_bytes"]
    return [f"{100 * cache['read_hit_bytes'] / cache['read_bytes']:.1f}", f"{100 * (1 - written / cache['write_bytes']):.1f}"]


def pick(rows, design):
    return next(row for row in rows if row.design == design)


def web_search(run, table, trace, share=4, thresholds=(1, 4, 16, 64), limits=(4, 16, 64)):
    rows = run(table, "", BASE, trace, settings(32, share))
    linear = pick(rows, "linear")
    found = {design: [] for design in HYBRID}
    for threshold in thresholds:
        for moves in limits:
            for row in run(table, f"PT {threshold}, MCML {moves}", HYBRID, trace,
                           settings(32, share, "1MiB", threshold, moves)):
                found[row.design].append(row)
    return lines(rows + found["tiering"] + found["caching-back"], linear)


def online(run, table, share=4):
    trace, options = "examples/workloads/fiu-online.toml", ("--replay", "sync", "--limit", "2000000")
    rows = run(table, "", BASE, trace, settings(8, share), options)
    linear = pick(rows, "linear")
    found = {design: [] for design in HYBRID}
    for extent in (4, 16, 64):
        for row in run(table, f"ES {extent} KiB", HYBRID, trace, settings(8, share, f"{extent}KiB", 1, 16), options):
            found[row.design].append(row)
    return lines(rows + found["tiering"] + found["caching-back"], linear)


def commits(run, table):
    """The cost of a commit at each promotion: the same drive with so many free extents that it needs no commit for room."""
    trace, options = "examples/workloads/fiu-online.toml", ("--replay", "sync", "--limit", "1000000")
    yield "| ES | LT, HT | requests/s | commits | map updates | metadata written | demoted |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for extent in (4, 16, 64):
        for low, high in ((64, 128), (128, 192)):
            more = [f"placement.demotion.low={low}", f"placement.demotion.high={high}"]
            [row] = run(table, f"ES {extent} KiB, LT {low}, HT {high}", ["tiering"], trace,
                        settings(8, 4, f"{extent}KiB", 1, 16, more), options)
            cells = [f"{extent} KiB", f"{low}, {high}", number(row.iops), number(row.metadata["commits"]),
                     number(row.metadata["map_updates"]), f"{row.metadata['bytes_written'] / 1e6:,.0f} MB",
                     number(row.moves["demotions"])]
            yield "| " + " | ".join(cells) + " |"


def write_back(run, table):
    """How much of caching's loss comes from writing back at once."""
    yield "| trace | design | write-back after | requests/s | mean ms | SSD hit % | written back | written to disk |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    online, pgbench = "examples/workloads/fiu-online.toml", "examples/traces/pgbench-ext4.parquet"
    for title, trace, drive, options in [
        ("FIU online stand-in, first million", online, 8, ("--replay", "sync", "--limit", "1000000")),
        ("pgbench", pgbench, (4096, 1024), ("--replay", "sync")),
    ]:
        for delay in (None, "0s", "100ms", "5s", "60s"):
            design = "caching-back" if delay else "tiering"
            # What has been dirty for so long goes home, whether the disk is idle or not.
            more = [f"placement.writeback.{key}={delay}" for key in ("delay", "max_age")] if delay else []
            [row] = run(table, f"{title}, {design}{', delay ' + delay if delay else ''}", [design], trace,
                        settings(drive, 4, "64KiB", 1, 16, more), options)
            cells = [title, design, delay or "–", number(row.iops), number(row.mean_ms), f"{100 * row.hit:.1f}",
                     number(row.moves["writebacks"]), f"{row.disk['bytes_written'] / 1e9:.2f} GB"]
            yield "| " + " | ".join(cells) + " |"


def file_server(run, table, share=4, limits=(4, 16, 64), replay="qd=50"):
    options = ("--replay", replay)
    for gamma in (1, 4, 16):
        trace = f"examples/workloads/fileserver-gamma{gamma}.toml"
        rows = run(table, f"gamma {gamma}", BASE, trace, settings(8, share), options)
        linear = pick(rows, "linear")
        found = {design: [] for design in HYBRID}
        for moves in limits:
            for row in run(table, f"gamma {gamma}, MCML {moves}", HYBRID, trace,
                           settings(8, share, "128KiB", 1, moves), options):
                found[row.design].append(row)
        yield from lines(rows + found["tiering"] + found["caching-back"], linear)
        yield ""


def file_server_sizes(run, table):
    """Gamma 16 against the memory of the host, and the rate of its copies."""
    trace, options = "examples/workloads/fileserver-gamma16.toml", ("--replay", "qd=50")
    yield "| page cache | copies, MB/s | linear, requests/s | tiering, MCML 4 | vs linear | tiering, MCML 64 | vs linear | read from memory, % | writes absorbed, % |"
    yield "|---" + "|--:" * 8 + "|"
    for size, rate in (("512MiB", 4000), ("1GiB", 4000), ("2GiB", 4000), ("4GiB", 4000), ("1GiB", 1000)):
        more = [f"page_cache.size={size}", f"page_cache.mb_per_s={rate}"]
        label = f"{size} at {rate} MB/s"
        [linear] = run(table, label, ["linear"], trace, settings(8, 4, more=more), options)
        few, many = (run(table, f"{label}, MCML {moves}", ["tiering"], trace, settings(8, 4, "128KiB", 1, moves, more), options)[0]
                     for moves in (4, 64))
        cells = [size.replace("MiB", " MiB").replace("GiB", " GiB"), f"{rate:,}", number(linear.iops)]
        for row in (few, many):
            cells += [number(row.iops), change(row.iops, linear.iops)]
        yield "| " + " | ".join([*cells, *memory_cells(few.report["page_cache"])]) + " |"


def real(run, table, trace, volume_mib, extent, options=SYNC, label=""):
    fast = volume_mib // 4 // 4 * 4
    rows = run(table, label, ALL, trace, settings((volume_mib, fast), 4, extent, 1, 16), options)
    return lines(rows, pick(rows, "linear"))


def real_traces(run, table):
    """The designs on each real trace, in one table."""
    for index, (label, trace, volume, options) in enumerate(REAL):
        header, line, *rows = real(run, table, trace, volume, "64KiB", options, label)
        yield from [*([] if index else [header, line]), *rows]


def real_web_search(run, table, trace):
    return real(run, table, trace, 46788, "1MiB",
                ("--replay", "sync", "--volumes", "0,1,2", "--concatenate"))


def tables():
    """The tables: name, traces needed, and the function that makes the lines."""
    web, wider = "examples/workloads/websearch.toml", "scripts/findings/websearch-wider.toml"
    yield "websearch", [], lambda run, name: web_search(run, name, web)
    yield "websearch-wider", [], lambda run, name: web_search(run, name, wider)
    sample = f"{SHARED}/websearch-sample.disksim"
    yield "websearch-sample", [sample], lambda run, name: real_web_search(run, name, sample)
    yield "online", [], lambda run, name: online(run, name)
    yield "commits", [], commits
    yield "write-back", [], write_back
    yield "fileserver", [], lambda run, name: file_server(run, name)
    yield "fileserver-sync", [], lambda run, name: file_server(run, name, replay="sync")
    yield "fileserver-memory-sizes", [], file_server_sizes
    yield "websearch-eighth", [], lambda run, name: web_search(run, name, web, 8, limits=(16,))
    yield "websearch-wider-eighth", [], lambda run, name: web_search(run, name, wider, 8, limits=(16,))
    yield "online-eighth", [], lambda run, name: online(run, name, 8)
    yield "fileserver-eighth", [], lambda run, name: file_server(run, name, 8, limits=(16,))
    timed = f"{SHARED}/cloudphysics.vscsi"
    yield "cloudphysics-timed", [timed], lambda run, name: real(run, name, timed, 32032, "64KiB", ("--replay", "timed"))
    yield "real", [trace for _, trace, _, _ in REAL], real_traces


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peryton", default=str(ROOT / "target/release/peryton"), help="the program to run")
    parser.add_argument("--only", help="names of tables, with commas between them")
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else None
    if not Path(arguments.peryton).exists():
        sys.exit(f"greendm.py: {arguments.peryton} is not there: cargo build --release -p peryton, or give --peryton")
    known = [name for name, _, _ in tables()]
    if only and not set(only) <= set(known):
        sys.exit(f"greendm.py: --only {arguments.only}: use some of {', '.join(known)}")
    runner = Runner(arguments.peryton)
    text = DOCUMENT.read_text()
    for name, needs, make in tables():
        if only and name not in only:
            continue
        if missing := [trace for trace in needs if not (ROOT / trace).exists()]:
            print(f"{name}: skipped, {missing[0]} is not at hand; the document keeps its table", file=sys.stderr)
            continue
        begin, end = f"<!-- table {name} -->\n", "<!-- end -->"
        if begin not in text:
            sys.exit(f"{DOCUMENT}: no line '{begin.strip()}': put it where the table belongs, with '{end}' below")
        before, rest = text.split(begin, 1)
        after = rest.split(end, 1)[1]
        body = figures.placed(DOCUMENT.stem, name, "\n".join(make(runner.run, name)).rstrip())
        text = f"{before}{begin}\n{body}\n\n{end}{after}"
        # Write after each table, so that a run that is stopped keeps the tables that it has made.
        DOCUMENT.write_text(text)
    out = ROOT / "report/findings/greendm.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    old = json.loads(out.read_text()) if only and out.exists() else {}
    out.write_text(json.dumps(old | runner.results, indent=1) + "\n")
    print(f"{DOCUMENT.relative_to(ROOT)} is made; {runner.seconds:.0f} s of simulation", file=sys.stderr)


if __name__ == "__main__":
    main()
