"""Code that the scripts of several findings share: traces, runs, tables between comments."""

import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import figures

ROOT = Path(__file__).resolve().parents[2]
SHARED = "../shared/traces"
MIB = 1 << 20
PAPER_13 = ["web_0", "wdev_0", "proj_0", "rsrch_0", "ts_0", "mds_0", "stg_0", "src2_0", "hm_0", "prn_0", "usr_0", "src1_2",
            "prxy_0"]
GRIFFIN_5 = ["src1_0", "src2_2", "stg_1", "prxy_1", "wdev_2"]


class Trace:
    """A trace, the options to read it, and its known characteristics."""

    def __init__(self, name, path, options=(), wrap_mib=None, limit=None, stand_in=False):
        self.name, self.path, self.options, self.stand_in = name, str(path), list(options), stand_in
        self.wrap_mib, self.limit = wrap_mib, limit
        self.info = None

    def replay(self):
        """Options of `peryton sim`."""
        more = ["--fit", "wrap"] if self.wrap_mib else []
        return ["--trace", self.path, *self.options, *more, *(["--limit", str(self.limit)] if self.limit else [])]

    def volume_mib(self):
        if self.wrap_mib:
            return self.wrap_mib
        end = max(volume["end_bytes"] for volume in self.info["volumes"])
        return end // MIB + 2


def shortened(name, requests, folder):
    """A stand-in with fewer requests and a footprint smaller by the same factor, so that data are used again as often."""
    text = (ROOT / f"examples/workloads/msr/{name}.toml").read_text()
    whole = int(re.search(r"^requests = (\d+)", text, re.M)[1])
    factor = max(1, whole // requests)
    size, unit = re.search(r'^footprint = "(\d+)(MiB|GiB)"', text, re.M).groups()
    kib = int(size) * (1024 if unit == "MiB" else 1 << 20)
    text = re.sub(r"^requests = .*", f"requests = {whole // factor}", text, flags=re.M)
    text = re.sub(r"^footprint = .*", f'footprint = "{max(1, kib // factor // 64) * 64}KiB"', text, flags=re.M)
    path = Path(folder) / f"{name}.toml"
    path.write_text(text)
    return Trace(name, path, stand_in=True), factor


def real_traces(limit):
    """The traces that exist here: recorded ones that developers share, and those that ship with the project."""
    shared = [
        Trace("cloudphysics", f"{SHARED}/cloudphysics.vscsi", limit=limit),
        Trace("devbox", f"{SHARED}/devbox-ext4.csv.xz", limit=limit),
        Trace("devbox-sample", f"{SHARED}/devbox-sample.ftrace.zst", limit=limit),
        Trace("mailstore", f"{SHARED}/mailstore-ext4.csv.xz", limit=limit),
        Trace("tpcc-sample", f"{SHARED}/tpcc-sample.disksim", ["--concatenate"], wrap_mib=8192, limit=limit),
        Trace("websearch-sample", f"{SHARED}/websearch-sample.disksim", ["--concatenate"], limit=limit),
        *(Trace(disk, f"{SHARED}/real-disks/{disk}.trace", limit=limit)
          for disk in ["cheetah9LP", "ibm18es", "atlas10k", "barracuda"]),
    ]
    shipped = [Trace("pgbench", "examples/traces/pgbench-ext4.parquet", limit=limit),
               Trace("sqlite", "examples/traces/sqlite-ext4.parquet", limit=limit)]
    at_hand = [trace for trace in shared if (ROOT / trace.path).exists()]
    for trace in shared:
        if trace not in at_hand:
            print(f"{trace.path} is not at hand: its rows are left out", file=sys.stderr)
    return at_hand + shipped


class Runner:
    def __init__(self, program, jobs):
        self.program, self.results, self.began = program, [], time.monotonic()
        self.pool = concurrent.futures.ThreadPoolExecutor(jobs)

    def command(self, *arguments):
        done = subprocess.run([self.program, *arguments], cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(['peryton', *arguments])}\n{done.stderr.strip()}")
        return json.loads(done.stdout)

    def look(self, traces):
        """Fills in the characteristics of the traces."""
        def info(trace):
            trace.info = self.command("trace", "info", trace.path, *trace.options, "--json")
        list(self.pool.map(info, traces))

    def sim(self, design, trace, settings, options=()):
        """Runs one design on one trace; returns a future of its report."""
        arguments = ["sim", design, *trace.replay(), *options]
        for setting in settings:
            arguments += ["--set", setting]

        def run():
            [report] = self.command(*arguments, "--json", "-")
            return report

        # Temporary files have another name each time.
        shown = [argument if argument != trace.path or not trace.stand_in else f"{trace.name} (shortened)"
                 for argument in arguments]
        promise = self.pool.submit(run)
        self.results.append((["peryton", *shown], promise))
        return promise

    def overwrites(self, trace):
        return self.pool.submit(self.command, "trace", "overwrites", trace.path, *trace.options, "--json")


def percent(value, digits=0):
    if value is None:
        return "–"
    return "> 1,000" if value > 10 else f"{100 * value:.{digits}f}"


def number(value, digits=3):
    """Three significant digits, as people write them."""
    if value is None:
        return "–"
    if abs(value) >= 10 ** (digits - 1):
        return f"{value:,.0f}"
    text = f"{value:.{digits}g}"
    return f"{value:.4f}".rstrip("0").rstrip(".") if "e" in text else text


def table(header, rows):
    yield "| " + " | ".join(header) + " |"
    yield "|---" + "|--:" * (len(header) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(row) + " |"


def mean(values):
    values = [value for value in values if value is not None]
    return sum(values) / len(values) if values else None


def geometric(values):
    values = [value for value in values if value]
    product = 1.0
    for value in values:
        product *= value
    return product ** (1 / len(values)) if values else None


def written(trace):
    return sum(volume["bytes_written"] for volume in trace.info["volumes"])


def latency(kind, what="mean"):
    """The figure of a report: a response time in milliseconds."""
    def figure(report, _):
        row = report["latency_us"].get(kind)
        return row and row["count"] and row[what] / 1e3
    return figure


def rows_of_ways(run, traces, figures, ways):
    """A row for each trace: each figure of a report for each way; and their geometric means. `run` has the job of a trace and a way."""
    runs = {(trace.name, way): run(trace, way) for trace in traces for way in ways}
    values = []
    for trace in traces:
        cells = [figure(runs[trace.name, way].result(), trace) for figure in figures for way in ways]
        values.append(cells)
        yield [trace.name, *(number(cell) for cell in cells)]
    yield ["geometric mean", *(number(geometric(column)) for column in zip(*values))]


def fill(document, tables, runner, only, reports=None):
    """Puts each table between its comments in the document with its figure (figures.py, which draws it), its rows beside the document
    as CSV, and all reports into a file."""
    known = [name for name, _ in tables]
    if only and not set(only) <= set(known):
        sys.exit(f"--only {','.join(only)}: use some of {', '.join(known)}")
    for name, make in tables:
        if only and name not in only:
            continue
        print(f"{time.monotonic() - runner.began:5.0f} s  {name}", file=sys.stderr)
        body = figures.placed(document.stem, name, "\n".join(make()).rstrip())
        text = document.read_text()
        begin, end = f"<!-- table {name} -->\n", "<!-- end -->"
        if begin not in text:
            sys.exit(f"{document}: no line '{begin.strip()}': put it where the table belongs, with '{end}' below")
        before, rest = text.split(begin, 1)
        # Write after each table, so that a run that is stopped keeps the tables that it has made.
        document.write_text(f"{before}{begin}\n{body}\n\n{end}{rest.split(end, 1)[1]}")
    out = ROOT / f"report/findings/{reports or document.stem}.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    runs = [{"command": command, "report": promise.result()} for command, promise in runner.results]
    out.write_text(json.dumps(runs, indent=1) + "\n")
    print(f"{document.relative_to(ROOT)} is made in {time.monotonic() - runner.began:.0f} s", file=sys.stderr)


def start(argparse_parser, requests=150_000):
    """The options that both scripts have."""
    argparse_parser.add_argument("--peryton", default=str(ROOT / "target/release/peryton"), help="the program to run")
    argparse_parser.add_argument("--only", help="names of tables, with commas between them")
    argparse_parser.add_argument("--requests", type=int, default=requests,
                                 help="shorten stand-ins and recorded traces to about this many requests")
    argparse_parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="simulations at a time")
    arguments = argparse_parser.parse_args()
    if not Path(arguments.peryton).exists():
        sys.exit(f"{arguments.peryton} is not there: cargo build --release -p peryton, or give --peryton")
    return arguments, Runner(str(Path(arguments.peryton).resolve()), arguments.jobs), tempfile.TemporaryDirectory()
