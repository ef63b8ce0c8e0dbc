#!/usr/bin/env python3
"""Computes the tables of docs/findings/greenest.md again.

Each table is between two comments of the document. The script replaces the text between them and nothing else. All
figures go to report/findings/greenest.json as well.

usage: greenest.py [--peryton PROGRAM] [--only NAME,NAME...]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import figures

ROOT = Path(__file__).resolve().parents[2]
DOCUMENT = ROOT / "docs/findings/greenest.md"
HD1, HD2, SSD1 = "seagate-st4000dm000", "samsung-m9t-2tb", "greenest-ssd1"
NAMES = {HD1: "HD1", HD2: "HD2", SSD1: "SSD1"}
PAPER_USD_PER_KWH = "0.4"
# Tables III to VI as printed: D_b, P_b, P_i/D_b, P_i/D_c, P_b/D_b and (P_b - P_i)/D_b or, at random, P_b/D_c.
PRINTED = {
    "seq-write": {HD1: (155, 5.45, 33.1, 1.29, 35, 1.9), HD2: (124, 2.86, 7, 0.87, 23, 16),
                  SSD1: (227, 2.80, 0.8, 0.19, 12, 11.5)},
    "seq-read": {HD1: (152, 5.79, 33.8, 1.29, 38, 4.1), SSD1: (263, 1.93, 0.7, 0.19, 7, 6.6)},
    "rand-read": {HD1: (39.28, 5.26, 131.3, 1.29, 134, 1.31), SSD1: (268, 1.96, 0.7, 0.19, 7, 1.96)},
    "rand-mixed": {HD1: (44.28, 5.16, 116.5, 1.29, 116, 1.29), SSD1: (225, 2.33, 0.8, 0.19, 10.4, 2.33)},
}
# The tables that have columns of specification, and the devices in them.
SPECIFIED = {"seq-write": (HD1, HD2, SSD1), "seq-read": (HD1, SSD1)}
CAPACITY_TB = {HD1: 4, HD2: 2, SSD1: 1}
TITLES = {"seq-write": "III, sequential write", "seq-read": "IV, sequential read", "rand-read": "V, random read",
          "rand-mixed": "VI, random read and write 1:1"}


class Runner:
    def __init__(self, program):
        self.program, self.results = program, []

    def text(self, *arguments):
        command = [self.program, *arguments]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"{' '.join(command)}\n{done.stderr.strip()}")
        return done.stdout

    def json(self, *arguments):
        found = json.loads(self.text(*arguments, "--json"))
        self.results.append({"command": ["peryton", *arguments], "found": found})
        return found

    def greenest(self, *arguments):
        return self.json("energy", *arguments)


def number(value, digits=4):
    if value is None:
        return "–"
    if value != 0 and (abs(value) >= 1e6 or abs(value) < 1e-3):
        return f"{value:.{digits - 1}e}"
    return f"{value:,.0f}" if abs(value) >= 10 ** (digits - 1) else f"{value:.{digits}g}"


def table(header, rows):
    yield "| " + " | ".join(header) + " |"
    yield "|---" + "|--:" * (len(header) - 1) + "|"
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |"


def devices(run, workload, names, *more):
    # The command requires a demand; the properties do not depend on it.
    found = run.greenest("--peak", "1MB", "--average", "1MB", "--capacity", "1TB", "--workload", workload,
                         "--devices", ",".join(names), *more)
    return {row["device"]: row for row in found["devices"]}


def properties(run):
    """Tables III to VI: figures from the profiles, and in brackets those that the paper prints."""
    header = ["table", "device", "D_b MB/s", "P_b W", "P_i/D_b mW·s/MB", "P_i/D_c W/TB", "P_b/D_b mW·s/MB",
              "(P_b−P_i)/D_b mW·s/MB", "P_b/D_c W/TB"]
    rows = []
    for workload, printed in PRINTED.items():
        found = devices(run, workload, printed)
        for name, paper in printed.items():
            row, p = found[name], found[name]["properties"]
            last = paper[5]
            sequential = workload.startswith("seq")
            values = [row["bandwidth_mb_per_s"], row["busy_w"], p["idle_over_bandwidth"] * 1e3,
                      p["idle_over_capacity"] * 1e6, p["busy_over_bandwidth"] * 1e3,
                      p["above_idle_over_bandwidth"] * 1e3, p["busy_over_capacity"] * 1e6]
            papers = [*paper[:5], last if sequential else None, None if sequential else last]
            cells = [number(value) + ("" if paper is None else f" ({paper})") for value, paper in zip(values, papers)]
            rows.append([TITLES[workload], NAMES[name], *cells])
    return table(header, rows)


def sources(run, workload):
    """D_b, P_b and P_i of each device: as specified, as measured, and HD1's as measured on the innermost tracks."""
    found = devices(run, workload, SPECIFIED[workload])
    tail = devices(run, workload, [HD1], "--zone", "tail")[HD1]
    of = lambda row: (row["bandwidth_mb_per_s"], row["busy_w"], row["idle_w"])
    for name in SPECIFIED[workload]:
        yield name, "specification", of(found[name]["specified"])
        yield name, "measured, head" if name == HD1 else "measured", of(found[name])
        if name == HD1:
            yield name, "measured, tail", of(tail)


def specification(run):
    """What the same equations give from specifications, from measurements, and from those of the innermost tracks."""
    rows = []
    for workload in SPECIFIED:
        for name, source, (bandwidth, busy, idle) in sources(run, workload):
            ratios = [1e3 * idle / bandwidth, 1e3 * busy / bandwidth, 1e3 * (busy - idle) / bandwidth]
            rows.append([TITLES[workload].split(",")[0], NAMES[name], source, *map(number, [bandwidth, busy, *ratios])])
    return table(["table", "device", "source", "D_b MB/s", "P_b W", "P_i/D_b mW·s/MB", "P_b/D_b mW·s/MB", "(P_b−P_i)/D_b mW·s/MB"], rows)


def by_source(run):
    """From which run time on a device needs less energy than HD1: equation (5), unneeded devices idle."""
    rows = []
    for workload in SPECIFIED:
        of = {(name, source): values for name, source, values in sources(run, workload)}
        for source, others in (("specification", "specification"), ("measured, head", "measured"), ("measured, tail", "measured")):
            rows.append([TITLES[workload].split(",")[0], source])
            for other in (SSD1, HD2):
                if (other, others) not in of:
                    rows[-1].append("–")
                    continue
                pair = {HD1: of[HD1, source], other: of[other, others]}
                moving = {name: (busy - idle) / bandwidth for name, (bandwidth, busy, idle) in pair.items()}
                holding = {name: idle / CAPACITY_TB[name] / 1e6 for name, (_, _, idle) in pair.items()}
                time = (moving[other] - moving[HD1]) / (holding[HD1] - holding[other])
                rows[-1].append(f"{number(time, 5)} s" if time > 0 else "at once")
    return table(["table", "HD1 by", "SSD1 greener after", "HD2 greener after"], rows)


def beside(paper, ours):
    return number(paper), number(ours), f"{100 * (ours / paper - 1):+.1f} %"


def model(run):
    """The same bandwidths and powers from the device models, which were calibrated with the published figures."""
    rows = []
    for workload, printed in PRINTED.items():
        found = devices(run, workload, printed, "--model")
        for name, paper in printed.items():
            got = [found[name]["bandwidth_mb_per_s"], found[name]["busy_w"]]
            rows.append([NAMES[name], TITLES[workload].split(", ")[1], *beside(paper[0], got[0]), *beside(paper[1], got[1])])
    tail = run.json("profiles", HD1)["model"]["seq_read_tail"]
    rows.append(["HD1", "sequential read, tail", *beside(104, tail["mb_per_s"]), *beside(5.38, tail["mean_w"])])
    return table(["device", "workload", "MB/s measured", "modelled", "", "W measured", "modelled", ""], rows)


def seconds(row, key):
    """The break-even time of a row, if it has one."""
    value = row.get(key)
    if isinstance(value, dict):
        return next(iter(value.items()))
    return value, None


def break_even(run):
    """Break-even times for hundreds of whole devices, so that rounding N up has no visible effect."""
    cases = [
        ("seq-write", "idle", (HD1, SSD1), "greener_when", "SSD1 is greener than HD1", "longer than 8,727.27 s"),
        ("seq-write", "standby", (HD1, SSD1), "greener_when", "HD1 is greener than SSD1", "longer than 414,000 s"),
        ("seq-write", "idle", (HD1, HD2), "greener_when", "HD2 is greener than HD1", "longer than 33,571.4 s"),
        ("seq-write", "idle", (HD1, SSD1), "cheaper_when", "SSD1 is cheaper than HD1", "longer than 3.8e9 s"),
        ("seq-write", "idle", (HD1, HD2), "cheaper_when", "HD2 is cheaper than HD1", "longer than 4.2e8 s"),
        ("seq-read", "idle", (HD1, SSD1), "greener_when", "SSD1 is greener than HD1", "longer than 2,273 s"),
        ("seq-read", "standby", (HD1, SSD1), "greener_when", "HD1 is greener than SSD1", "longer than 548,000 s"),
    ]
    rows = []
    for workload, policy, pair, key, claim, paper in cases:
        # All data are moved once, at a rate that takes an hour; the table's times say for which run times the order changes.
        found = run.greenest("--peak", "1TB", "--average", "1TB", "--capacity", "100PB", "--workload", workload,
                             "--devices", ",".join(pair), "--policy", policy, "--electricity", PAPER_USD_PER_KWH)
        times = [value for row in found["devices"] for value in [seconds(row, key)[1]] if value]
        rows.append([TITLES[workload].split(",")[0], policy, claim, paper, f"{number(times[0], 5)} s" if times else "never"])
    return table(["table", "unneeded devices", "claim", "for run times, as printed", "from the profiles"], rows)


def random_capacity(run):
    found = run.greenest("--peak", "1MB", "--average", "1MB", "--capacity", "4TB", "--workload", "rand-read",
                         "--devices", f"{HD1},{SSD1}")
    rows = [[f"{row['devices']} × {NAMES[row['device']]}", row["kind"], f"{row['mean_power_w']:.2f}"] for row in found["devices"]]
    return table(["devices", "workload", "W"], rows)


SINGLE = """[devices.one]
profile = "{profile}"
[placement]
mode = "single"
"""
TRACE = """requests = {requests}
footprint = "400GiB"
read_share = 0.0
sequential_share = 1.0
arrival = "{gap_us}us"
size = "1MiB"
"""


def half_speed(run):
    """Sequential writes at full speed, and paced at half of it."""
    rows = []
    for name, paper in ((HD1, 0.98), (SSD1, 0.86)):
        watts = []
        with tempfile.TemporaryDirectory() as folder:
            design, trace = Path(folder) / "single.toml", Path(folder) / "trace.toml"
            design.write_text(SINGLE.format(profile=name))
            full = devices(run, "seq-write", [name])[name]["bandwidth_mb_per_s"]
            for replay, share in (("qd=8", 1.0), ("timed", 0.5)):
                trace.write_text(TRACE.format(requests=20_000, gap_us=round(1.048576e6 / full / share)))
                out = json.loads(run.text("sim", str(design), "--trace", str(trace), "--replay", replay, "--json", "-"))
                watts.append(out[0]["mean_power_w"])
        rows.append([NAMES[name], f"{watts[0]:.2f}", f"{watts[1]:.2f}", f"{100 * watts[1] / watts[0]:.0f} %", f"{100 * paper:.0f} %"])
    return table(["device", "full speed W", "half speed W", "share", "the paper's"], rows)


def fleets(run):
    """The gain from a mix of devices, a question that the paper leaves open."""
    cases = [
        ("archive: 100 TB written once at 200 MB/s", ("--peak", "200MB", "--average", "200MB", "--capacity", "100TB", "--workload", "seq-write")),
        ("file server: 20 TB, 2 GB/s at the peak, 100 MB/s on average, random reads, 5 years",
         ("--peak", "2GB", "--average", "100MB", "--capacity", "20TB", "--workload", "rand-read", "--for", "5y")),
        ("the same, sequential reads", ("--peak", "2GB", "--average", "100MB", "--capacity", "20TB", "--workload", "seq-read", "--for", "5y")),
        ("40 TB, 400 MB/s at the peak, 20 MB/s on average, random reads, 5 years",
         ("--peak", "400MB", "--average", "20MB", "--capacity", "40TB", "--workload", "rand-read", "--for", "5y")),
        ("pgbench, as if its data were 20 TB, 5 years",
         ("--trace", "examples/traces/pgbench-ext4.parquet", "--capacity", "20TB", "--for", "5y")),
    ]
    rows = []
    for title, arguments in cases:
        found = run.greenest(*arguments, "--devices", f"{HD1},{HD2},{SSD1}", "--electricity", PAPER_USD_PER_KWH, "--mixed")
        for key, what in (("energy_j", "energy"), ("total_usd", "cost")):
            best = min(found["devices"], key=lambda row: row[key])
            fleet = next(fleet for fleet in found["fleets"] if fleet["objective"] == what)
            mix = " + ".join(f"{member['devices']} {NAMES[member['device']]}" for member in fleet["members"])
            unit = (lambda joules: f"{number(joules / 3.6e6)} kWh") if what == "energy" else (lambda usd: f"{number(usd)} USD")
            rows.append([title, what, f"{best['devices']} {NAMES[best['device']]}", unit(best[key]), mix, unit(fleet[key])])
    return table(["workload", "least", "one kind", "", "any mix", ""], rows)


def today(run):
    """The devices of the catalogue that no other beats in both energy and cost, on one workload."""
    found = run.greenest("--peak", "400MB", "--average", "20MB", "--capacity", "40TB", "--workload", "rand-read", "--for", "5y")
    def is_beaten(row):
        return any(other is not row and other["energy_j"] <= row["energy_j"] and other["total_usd"] <= row["total_usd"] for other in found["devices"])

    rows = []
    for row in (row for row in found["devices"] if not is_beaten(row)):
        source = "measured" if row["source"] == "published" else "model"
        rows.append([row["device"], row["kind"], row["devices"], number(row["mean_power_w"], 3), number(row["energy_j"] / 3.6e6, 3),
                     number(row["total_usd"], 3), source])
    return table(["device", "asks for", "N", "W", "kWh in 5 years", "USD in 5 years", "bandwidth and power"], rows)


TABLES = {
    "properties": properties, "specification": specification, "by-source": by_source, "model": model, "break-even": break_even, "random-capacity": random_capacity,
    "half-speed": half_speed, "fleets": fleets, "today": today,
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--peryton", default=str(ROOT / "target/release/peryton"), help="the program to run")
    parser.add_argument("--only", help="names of tables, with commas between them")
    arguments = parser.parse_args()
    only = arguments.only.split(",") if arguments.only else list(TABLES)
    if not Path(arguments.peryton).exists():
        sys.exit(f"greenest.py: {arguments.peryton} is not there: cargo build --release -p peryton, or give --peryton")
    if not set(only) <= set(TABLES):
        sys.exit(f"greenest.py: --only {arguments.only}: use some of {', '.join(TABLES)}")
    run = Runner(arguments.peryton)
    text = DOCUMENT.read_text()
    for name in only:
        begin, end = f"<!-- table {name} -->\n", "<!-- end -->"
        if begin not in text:
            sys.exit(f"{DOCUMENT}: no line '{begin.strip()}': put it where the table belongs, with '{end}' below")
        print(f"  {name}", file=sys.stderr)
        before, rest = text.split(begin, 1)
        text = f"{before}{begin}\n" + figures.placed(DOCUMENT.stem, name, "\n".join(TABLES[name](run))) + f"\n\n{end}{rest.split(end, 1)[1]}"
        DOCUMENT.write_text(text)
    out = ROOT / "report/findings/greenest.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(run.results, indent=1) + "\n")


if __name__ == "__main__":
    main()
