#!/usr/bin/env python3
"""Computes the tables of docs/findings/mixcp.md again.

Each table is between two comments of the document. The script replaces the text between them and nothing else. All
figures go to report/findings/mixcp.json as well.

usage: mixcp.py [--peryton PROGRAM] [--only NAME,NAME...] [--requests N] [--jobs N]
"""

import argparse
import json
import re
import subprocess
import sys
from pathlib import Path

from common import ROOT, fill, number, percent, start, table

DOCUMENT = ROOT / "docs/findings/mixcp.md"
SSD, DISK = "super-talent-32gb", "ibm-ultrastar-36z15"
STAND_INS = {"Financial": "financial", "Cello99": "cello99", "TPC-H": "tpc-h"}
# Table 2: KB, read %, sequential %, ms between arrivals.
TABLE_2 = {"Financial": (4.38, 9.0, 2.0, 133.50), "Cello99": (5.03, 35.0, 1.0, 41.01), "TPC-H": (12.82, 95.0, 18.0, 155.56)}
# Table 3: sequential share, sectors, utilisation, ms; and the error of the response time from section 4.4.
TABLE_3 = {"W1": (0.10, 41.54, 0.89, 322.18, None), "W2": (0.70, 16.90, 0.89, 79.90, 4), "W3": (0.30, 115.71, 0.94, 80.24, 21),
           "W4": (0.70, 115.44, 0.58, 319.74, None), "W5 (Financial)": (0.03, 6.57, 0.91, 164.49, 55)}
# Table 4: years with 2, 1 and 0.5 GB of flash.
TABLE_4 = {"Financial": (52.69, 7.29, 2.67), "TPC-H": (97.50, 21.65, None)}
USD_PER_GB = 25
MIXCP = ["cargo", "run", "--quiet", "--release", "--package", "peryton-plan", "--example", "mixcp", "--"]


class Findings:
    def __init__(self, runner, folder, requests):
        self.runner, self.folder, self.requests = runner, Path(folder), requests
        self.models = self.folder / "models.json"

    def regressions(self, *arguments):
        """Runs the regressions, beside a plan where there is a trace."""
        command = [*MIXCP, *arguments, "--models", str(self.models)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"{' '.join(command)}\n{done.stderr.strip()}")
        return json.loads(done.stdout)

    def plan(self, *arguments):
        plan = self.regressions(*arguments)
        self.runner.results.append((["mixcp", *arguments], Done(plan)))
        return plan

    def sized(self, gigabytes):
        """The paper's flash, as small as Table 4 has it, at the price of Table 1."""
        text = (ROOT / f"crates/device/profiles/{SSD}.toml").read_text()
        name = f"super-talent-{gigabytes}gb"
        text = re.sub(r"^name = .*", f'name = "{name}"', text, flags=re.M)
        text = re.sub(r"^capacity = .*", f'capacity = "{int(gigabytes * 1000)}MB"', text, flags=re.M)
        text = re.sub(r"^price_usd = .*", f"price_usd = {USD_PER_GB * gigabytes}", text, flags=re.M)
        path = self.folder / f"{name}.toml"
        path.write_text(text)
        return path

    def stand_in(self, name):
        text = (ROOT / f"examples/workloads/mixedstore/{STAND_INS[name]}.toml").read_text()
        path = self.folder / f"{name}.toml"
        path.write_text(re.sub(r"^requests = .*", f"requests = {self.requests}", text, flags=re.M))
        return str(path)


class Done:
    def __init__(self, value):
        self.value = value

    def result(self):
        return self.value


def characteristics(it):
    rows = []
    for name, (kb, read, sequential, ms) in TABLE_2.items():
        info = it.runner.command("trace", "info", it.stand_in(name), "--json")
        size = info["request_bytes"]["all"]["mean"] / 1024
        rows.append([name, f"{kb} ({number(size)})", f"{read} ({percent(info['read_share'], 1)})",
                     f"{sequential} ({percent(info['sequential_share']['all'], 1)})",
                     f"{ms} ({number(info['inter_arrival_us']['mean'] / 1e3)})", f"{info['footprint']['bytes'] >> 20}"])
    return table(["workload", "KB a request", "reads %", "sequential %", "ms between", "MiB touched"], rows)


def quality(it):
    """How good the models are."""
    names = [SSD, DISK, "samsung-870-evo-1tb", "intel-d7-p5500-7.68tb", "intel-optane-p4800x-375gb", "seagate-st4000dm000"]
    found = it.regressions("--devices", ",".join(names))
    rows = []
    for name in names:
        device = found["devices"][name]
        for figure in ("response", "erases"):
            for fitted in device[figure]:
                rows.append([name, figure, fitted["form"], f"{fitted['adjusted_r2']:.2f}", percent(fitted["training_error"]),
                             percent(fitted["held_out_error"]), str(fitted["observations"]),
                             ", ".join(dropped for dropped, _ in fitted["dropped"]) or "–"])
    header = ["device", "figure", "form", "adjusted R²", "training error %", "held-out error %", "traces", "left out (VIF > 10)"]
    return table(header, rows)


def written(it, name):
    """A write-only workload of Table 3, on a GiB of flash."""
    sequential, sectors, utilisation, ms, _ = TABLE_3[name]
    touched = int(utilisation * 262144) * 4
    text = (f'name = "drawn from Table 3 of MixedStore: {name}"\nrequests = {it.requests}\nfootprint = "{touched}KiB"\n'
            f'start = "{(1 << 20) - touched}KiB"\nread_share = {0.09 if "Fin" in name else 0.0}\nsequential_share = {sequential}\n'
            f'arrival = {{ kind = "poisson", mean = "{ms}ms" }}\nalignment = "2KiB"\naddress = "uniform"\n'
            f'size = {{ kind = "gamma", mean = "{int(sectors * 512)}B", shape = 2.0, max = "1MiB" }}\n')
    path = it.folder / f"{name.split()[0]}.toml"
    path.write_text(text)
    return str(path)


def validation(it):
    rows = []
    for name, (sequential, sectors, utilisation, ms, paper) in TABLE_3.items():
        plan = it.plan("--trace", written(it, name), "--devices", SSD, "--most", "1")
        [found] = plan["simulated"]
        predicted, error = found["predicted"], found["prediction_error"]
        rows.append([name, str(sequential), str(sectors), str(utilisation), str(ms), number(found["mean_ms"]),
                     number(predicted["mean_ms"]), f"{100 * error['mean_ms']:+.0f}", "–" if paper is None else f"{paper}",
                     number(found.get("lifetime_years")), number(predicted.get("lifetime_years")),
                     f"{100 * error['lifetime_years']:+.0f}" if error.get("lifetime_years") is not None else "–"])
    header = ["", "sequential", "sectors", "utilisation", "ms between", "mean ms", "predicted", "error %", "paper's error %",
              "years", "predicted", "error %"]
    return table(header, rows)


def sizes(it):
    """Table 4: partitioned drives with more or less flash."""
    rows = []
    for name, paper in TABLE_4.items():
        for gigabytes, years in zip((2, 1, 0.5), paper):
            profile = it.sized(gigabytes)
            design = it.folder / f"partitioned-{gigabytes}.toml"
            size = int(gigabytes * 1000 * 0.94 / 1.048576)
            design.write_text(
                f'[volume]\nsize = "4100MiB"\n[devices.ssd]\nprofile = "{profile}"\nsize = "{size}MiB"\n'
                f'model = {{ precondition = "random" }}\n[devices.hdd]\nprofile = "{DISK}"\n[placement]\nmode = "partitioned"\n'
                f'fast = "ssd"\nslow = "hdd"\nextent = "4KiB"\nreplacement = "lru"\n')
            [report] = it.runner.command("sim", str(design), "--trace", it.stand_in(name), "--json", "-")
            share = report.get("partition", {}).get("fast_write_share")
            rows.append([name, f"{gigabytes} GB", number(USD_PER_GB * gigabytes + 110), number(years),
                         number(report.get("lifetime_years")), number(report["latency_us"]["all"]["mean"] / 1e3), percent(share),
                         number(report["devices"]["ssd"].get("write_amplification"))])
    header = ["workload", "flash", "USD", "years in the paper", "years here", "mean ms", "writes to flash %", "write amplification"]
    return table(header, rows)


def row(name, budgets, plan):
    best = plan.get("best")
    regression = plan["regression"]
    if regression["agrees"]:
        verdict = "the same"
    elif regression.get("choice") is None:
        verdict = "nothing"
    else:
        verdict = f"{regression['choice_label']}: {'meets' if regression['choice_meets'] else 'misses'}"
    shown = best or plan["infeasible"]["nearest"]
    return [name, budgets, shown["label"] + ("" if best else f" (misses {plan['infeasible']['binding']['metric']})"),
            number(shown["dollars"]), number(shown["mean_ms"]), number(shown.get("lifetime_years")), verdict,
            percent(regression.get("mean_error")), percent(regression.get("lifetime_error"))]


CHOICES = ["workload", "budgets", "simulation chooses", "USD", "mean ms", "years", "regressions choose", "error of response %",
           "of lifetime %"]


def paper_catalogue(it):
    devices = ",".join([*(str(it.sized(gigabytes)) for gigabytes in (0.5, 1, 2, 4)), DISK])
    rows = []
    for name in STAND_INS:
        for latency, lifetime in (("2ms", "5y"), ("5ms", "5y"), ("1ms", "20y")):
            plan = it.plan("--trace", it.stand_in(name), "--devices", devices, "--latency", latency, "--lifetime", lifetime)
            rows.append(row(name, f"{latency}, {lifetime}", plan))
    return table(CHOICES, rows)


def load(it):
    """Figure 7: the same workload, faster."""
    devices = ",".join([*(str(it.sized(gigabytes)) for gigabytes in (0.5, 1, 2, 4)), DISK])
    rows = []
    for speed in (1, 2, 4, 8):
        plan = it.plan("--trace", it.stand_in("Financial"), "--devices", devices, "--latency", "2ms", "--lifetime", "5y",
                       "--speed", str(speed))
        rows.append(row(f"Financial × {speed}", "2ms, 5y", plan))
    return table(CHOICES, rows)


def planned(it):
    """Section 4.5: the capacity that the planner chooses, and half and twice as much of it."""
    rows = []
    trace = it.stand_in("Financial")
    for speed in (1, 2, 4):
        replay = ["--trace", trace, "--speed", str(speed), "--warm-up-requests", "0"]
        plan = it.runner.command("plan", *replay, "--latency", "2ms", "--lifetime", "5y", "--fill-limit", "100%", "--flash", "any", 
                                 "--devices", f"{SSD},{DISK}", "--price", f"{SSD}={32 * USD_PER_GB}", "--json")
        pairs = [one for one in plan["simulated"] if one["mode"] == "partitioned" and one["meets"] and one["devices"][1]["count"] == 1]
        best = pairs[0]
        capacity = best["devices"][0]["capacity_bytes"]
        design = it.folder / f"planned-{speed}.toml"
        design.write_text(best["design_toml"])
        for name, factor in (("twice", 2), ("planned", 1), ("half", 0.5)):
            size = int(capacity * factor)
            [report] = it.runner.command("sim", str(design), *replay, "--set", f"devices.fast.capacity={size}", "--json", "-")
            rows.append([f"× {speed}, {name}", f"{number(size / 1e9)} GB", number(USD_PER_GB * size / 1e9 + 110),
                         number(report["latency_us"]["all"]["mean"] / 1e3), number(report["lifetime_years"])])
    return table(["load, capacity", "flash", "USD", "mean ms", "years"], rows)


def main():
    arguments, runner, folder = start(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    with folder as folder:
        it = Findings(runner, folder, arguments.requests)
        makers = [("characteristics", characteristics), ("quality", quality), ("validation", validation), ("sizes", sizes),
                  ("paper-catalogue", paper_catalogue), ("load", load), ("planned", planned)]
        tables = [(name, lambda make=make: make(it)) for name, make in makers]
        fill(DOCUMENT, tables, runner, arguments.only.split(",") if arguments.only else None)


if __name__ == "__main__":
    main()
