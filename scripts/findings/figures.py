#!/usr/bin/env python3
"""The figures of docs/findings, drawn from the rows that stand beside the pages as CSV.

    scripts/findings/figures.py            draws every figure again
    scripts/findings/figures.py --check    fails if a figure or a page is not what the rows make of it

A page's tables are between the comments `<!-- table NAME -->` and `<!-- end -->`. `placed` writes all rows of a table to
PAGE/NAME.csv (the second table between the same comments to PAGE/NAME-2.csv, and so on), and leaves in the page the figure and a link to
the rows; where there is no figure, the rows themselves, at most twelve. The scripts that compute the tables call it (common.fill); a table that was written into a page by hand is
taken with all its rows the first time.

Matplotlib draws, as the notebooks do. A figure notes which rows and which specification it was drawn from, so that a test can see
without Matplotlib that it is not out of date; with the version of Matplotlib that crates/python/requirements.txt names, the same rows
give the same bytes.
"""

import argparse
import csv
import hashlib
import io
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FINDINGS = ROOT / "docs" / "findings"
MOST_ROWS = 12
MOST_BYTES = 60_000
# Okabe and Ito's colours for all kinds of colour vision; shapes differ as well.
COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"]
MARKERS = ["o", "s", "D", "^", "v", "P"]
INK, PAPER, GRID = "#24292f", "#ffffff", "#d0d7de"
DARK = {INK: "#e6edf3", PAPER: "#161b22", GRID: "#3d444d"}

BLOCK = re.compile(r"<!-- table (\S+) -->\n(.*?)<!-- end -->", re.S)
LEAD = re.compile(r"<!-- figure (\S+) -->\n(.*?)<!-- end figure -->", re.S)
NUMBER = re.compile(r"[-+−]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")
FACTORS = {"GB": 1000.0, "kB": 0.001, "KB": 0.001}


def panel(axis, *series, log=False):
    """A part of a figure: the text of its axis, and its columns as (column, number within the cell, name)."""
    return {"axis": axis, "series": [one if isinstance(one, tuple) else (one, 0, "") for one in series], "log": log}


def parts(axis, number, names, log=False, first=1):
    """The columns from `first` on, and of each cell the number at this place."""
    return panel(axis, *[(first + index, number, name) for index, name in enumerate(names)], log=log)


def spec(what, labels, *panels):
    return {"what": what, "labels": labels, "panels": list(panels)}


DESIGNS = spec("Designs side by side", [0], panel("requests/s", 1, log=True), panel("mean power, W", 7),
               panel("SSD wear (reads count 1/100), eu", 16, log=True))
SELECTIVE = ["full", "0.25", "0.5", "0.75", "0.9"]
TIMEOUTS = ["10 s", "60 s", "300 s", "900 s", "1800 s", "3600 s"]
LOGS = ["7200 rpm disk", "10,000 rpm disk", "MLC SSD", "SLC SSD"]
HINTS = ["no hints", "16 MiB", "64 MiB", "256 MiB"]
ADAPTIVE = ["probability", "size", "hotness"]
STATIC = ["probability 0.3", "size 64 KiB", "2Q, more than 1", "top 10 %"]
CHOICES = spec("What the planner chooses", [0, 1], panel("price, USD", 3), panel("mean response, ms", 4, log=True),
               panel("error of the regressions, %", (7, 0, "response"), (8, 0, "lifetime"), log=True))
RATIOS = [panel("latency, × LRU's", 1), panel("lifetime, × LRU's", 2), panel("L/T, × LRU's", 3)]


def against_lru(names):
    first = 6
    def at(number, axis):
        return panel(axis, *[(first + 3 * index + number, 0, name) for index, name in enumerate(names)], log=True)
    return spec("Latency, lifetime and their ratio against LRU", [0], at(0, "latency, × LRU's"), at(1, "lifetime, × LRU's"),
                at(2, "L/T, × LRU's"))


UNITS = ["QLC alone", "cache, blocks", "cache, whole units", "log, blocks", "log, whole units"]


def of_units(what, axis, first=1, names=UNITS, log=False):
    return spec(what, [0], parts(axis, 0, names, log=log, first=first))


TIERS = ["NVMe 2 %", "SATA 10 %", "NVMe 2 %, SATA 10 %", "NVMe 12 %"]


SPECS = {
    "three-tiers": {
        "response": of_units("Mean response of two and three tiers", "ms", names=TIERS, log=True),
        "reads": spec("Reads", [0], parts("mean, ms", 0, TIERS, log=True), parts("99th percentile, ms", 0, TIERS, log=True, first=5)),
        "writes": of_units("Mean response of writes", "ms", names=TIERS, log=True),
        "flushes": of_units("Mean response of flushes", "ms", names=TIERS, log=True),
        "disk": of_units("Commands to the disk", "for 1,000 requests", names=TIERS, log=True),
        "flash": of_units("Written to all flash", "/ written by the host", names=TIERS, log=True),
    },
    "large-units": {
        "amplification": of_units("Write amplification of the QLC flash, filled in order", "NAND / written to it", log=True),
        "nand": of_units("NAND writes of the QLC flash, filled in order", "NAND / written by the host", log=True),
        "fast": spec("Wear of the fast device", [0], parts("written / written by the host", 0, UNITS[1:], log=True),
                     parts("NAND / written by the host", 0, UNITS[1:], log=True, first=5)),
        "response": of_units("Mean response", "ms", log=True),
        "writes": of_units("Mean response of writes", "ms", log=True),
        "flushes": of_units("Mean response of flushes", "ms", log=True),
        "random": of_units("Write amplification of the QLC flash, overwritten at random", "NAND / written to it", log=True),
        "random-nand": of_units("NAND writes of the QLC flash, overwritten at random", "NAND / written by the host", log=True),
        "spare": of_units("Write amplification of the QLC flash, overwritten at random, a fifth of it spare", "NAND / written to it", log=True),
    },
    "models": {
        "means": spec("Mean response times of MQSim and of Peryton", [0], panel("mean, µs", (1, 0, "MQSim"), (2, 0, "Peryton"), log=True)),
    },
    "against-kernel-caches": {
        "requests": spec("Work of the slow disk for 1,000 requests", [0], panel("cold: commands", (1, 0, "reads"), (2, 0, "writes")),
                         panel("cold: KiB a request", (3, 0, "read"), (4, 0, "written")),
                         panel("warm: commands", (5, 0, "reads"), (6, 0, "writes"))),
        "head-to-head": spec("Head to head under Linux", [0], panel("requests/s", (1, 0, "reads"), (2, 0, "writes")),
                             panel("mean, ms", (3, 0, "read"), (4, 0, "write")), panel("CPU, µs a request", 7)),
        "without-write-back": spec("Mean response times of caches without write-back", [0, 1],
                                   panel("ms", (2, 0, "disk alone"), (3, 0, "through"), (4, 0, "around"), log=True)),
    },
    "flashield": {
        "admission": spec("Admission rules", [0, 1], panel("fast hits, %", 2), panel("written to the flash, MB", 3, log=True),
                          panel("mean response, ms", (4, 0, "reads"), (5, 0, "writes")), panel("lifetime, years", 6, log=True)),
    },
    "greendm": {
        "fileserver-memory-sizes": spec("Gamma 16 against the host's memory", [0, 1],
                                        panel("requests/s", (2, 0, "linear"), (3, 0, "tiering, MCML 4"), (5, 0, "tiering, MCML 64")),
                                        panel("of the host's bytes, %", (7, 0, "read from memory"), (8, 0, "writes absorbed"))),
        "commits": spec("The cost of commits by extent size", [0, 1], panel("requests/s", 2), panel("commits", 3, log=True),
                        panel("metadata written, MB", 5, log=True)),
        "write-back": spec("Write-back at once and later", [0, 1, 2], panel("requests/s", 3), panel("SSD hits, %", 5),
                           panel("written to the disk, MB", 7, log=True)),
    },
    "greenest": {
        "properties": spec("Properties of the devices, here and as printed", [0, 1],
                           panel("P_i/D_b, mW·s/MB", (4, 0, "here"), (4, 1, "printed"), log=True),
                           panel("P_i/D_c, W/TB", (5, 0, "here"), (5, 1, "printed")),
                           panel("P_b/D_b, mW·s/MB", (6, 0, "here"), (6, 1, "printed"), log=True)),
        "specification": spec("Specification beside measurement", [0, 1, 2], panel("D_b, MB/s", 3, log=True), panel("P_b, W", 4),
                              panel("P_b/D_b, mW·s/MB", 6, log=True)),
        "model": spec("Drives as measured and as modelled", [0, 1], panel("MB/s", (2, 0, "measured"), (3, 0, "modelled")),
                      panel("W", (5, 0, "measured"), (6, 0, "modelled"))),
        "break-even": spec("Break-even times, as printed and from the profiles", [2, 1],
                           panel("run time, s", (3, 0, "printed"), (4, 0, "from the profiles"), log=True)),
        "random-capacity": spec("Power for the same capacity", [0], panel("W", 2)),
        "half-speed": spec("Power at full and at half speed", [0], panel("W", (1, 0, "full speed"), (2, 0, "half speed")),
                           panel("half speed / full speed, %", (3, 0, "here"), (4, 0, "the paper"))),
        "fleets": spec("The best fleet of one kind and of several", [0, 1],
                       panel("kWh or USD", (3, 0, "one kind"), (5, 0, "any mix"), log=True)),
        "today": spec("Fleets for 40 TB that no other beats in power and cost", [0], panel("W", 3, log=True), panel("USD in 5 years", 5, log=True)),
    },
    "griffin": {
        "ideal": spec("What an ideal cache could save", [0], panel("ideal savings, % of writes", 4),
                      panel("on the top 1 % of the blocks, %", (5, 0, "overwrites"), (6, 0, "reads")),
                      panel("written again, % of writes", (7, 0, "within 60 s"), (8, 0, "within 900 s"))),
        "hot-blocks": spec("The most written hundredth of the blocks", [0], panel("writes and reads of a hot block", (1, 0, "writes"), (2, 0, "reads"), log=True),
                           panel("of any block that is written", (4, 0, "writes"), (5, 0, "reads"), log=True)),
        "caching": spec("Full and selective caching", [0], parts("write savings, %", 0, SELECTIVE), parts("read penalty, %", 1, SELECTIVE)),
        "timeouts": spec("Migration after a timeout", [0], parts("write savings, %", 0, TIMEOUTS), parts("read penalty, %", 1, TIMEOUTS)),
        "timeouts-2": spec("Savings with a timeout of 900 s against the ideal", [0], panel("savings, %", (1, 0, "ideal"), (2, 0, "900 s")),
                           panel("migrations", 4)),
        "read-thresholds": spec("Migration at a share of reads", [0], parts("write savings, %", 0, ["1 %", "2 %", "5 %", "10 %"]),
                                parts("read penalty, %", 1, ["1 %", "2 %", "5 %", "10 %"]),
                                parts("s between migrations", 2, ["1 %", "2 %", "5 %", "10 %"], log=True)),
        "sizes": spec("Migration at an amount of data", [0], parts("write savings, %", 0, ["16 MiB", "64 MiB", "256 MiB"]),
                      parts("read penalty, %", 1, ["16 MiB", "64 MiB", "256 MiB"])),
        "bounds": spec("Sequentiality and erases", [0], panel("sequential pages, %", (2, 0, "without"), (3, 0, "with the log")),
                       panel("erases saved, %", (4, 0, "ideal"), (6, 0, "block-mapped")),
                       panel("lifetime, ×", (5, 0, "ideal"), (7, 0, "block-mapped"), log=True)),
        "hints": spec("Hints of the host's cache", [0], parts("write savings, %", 0, HINTS), parts("read penalty, %", 1, HINTS)),
        "latency": spec("Latency by log device, × an SSD alone", [0], parts("all", 0, LOGS, log=True, first=4),
                        parts("reads", 1, LOGS, log=True, first=4), parts("writes", 2, LOGS, log=True, first=4)),
        "sizing": spec("An SLC log that lasts as long as the SSD", [0], panel("savings, %", 1), panel("written to the log, × the SSD", 2),
                       panel("share of the SSD's size, %", (3, 0, "by what is written"), (5, 0, "by what is programmed"))),
        "small-disk": spec("A 1.8-inch log disk", [0], panel("latency, × the SSD", (1, 0, "7200 rpm"), (4, 0, "1.8 inch"), log=True),
                           panel("W", (2, 0, "7200 rpm"), (5, 0, "1.8 inch"), (7, 0, "SSD alone"), log=True)),
        "shared": spec("One disk for several SSDs", [0, 1, 2], panel("latency, × an SSD alone", (3, 0, "all"), (4, 0, "reads"), (5, 0, "writes"), log=True),
                       panel("log device, W per SSD", 9)),
        "spin-down": spec("Letting the disk rest", [0, 1], panel("log device, W", 2), panel("standby, % of the time", 3),
                          panel("mean response, ms", 5, log=True)),
    },
    "mixcp": {
        "characteristics": spec("The workloads and their stand-ins", [0], panel("KB a request", (1, 0, "paper"), (1, 1, "stand-in")),
                                panel("reads, %", (2, 0, "paper"), (2, 1, "stand-in")),
                                panel("ms between requests", (4, 0, "paper"), (4, 1, "stand-in"))),
        "quality": spec("Quality of the regressions", [0, 1, 2], panel("adjusted R²", 3),
                        panel("error, %", (4, 0, "training"), (5, 0, "held out"), log=True)),
        "validation": spec("Models against simulation", [0], panel("mean response, ms", (5, 0, "simulated"), (6, 0, "predicted"), log=True),
                           panel("life, years", (9, 0, "simulated"), (10, 0, "predicted"), log=True)),
        "sizes": spec("Life by the size of the flash", [0, 1], panel("years", (3, 0, "paper"), (4, 0, "here"), log=True),
                      panel("mean response, ms", 5)),
        "planned": spec("Half and twice the planned capacity", [0], panel("years", 4, log=True), panel("price, USD", 2)),
        "paper-catalogue": CHOICES, "load": CHOICES,
    },
    "mixed-array": {
        "hit-rates": spec("Hit rates of LRU by cache size", [0], parts("hits, %", 0, ["1 %", "2 %", "5 %", "10 %"], first=3)),
        "policies": against_lru(ADAPTIVE), "policies-real": against_lru(ADAPTIVE),
        "static": against_lru(STATIC), "static-real": against_lru(STATIC),
        "thresholds": spec("Thresholds of size", [0], *RATIOS), "thresholds-2": spec("Thresholds of probability", [0], *RATIOS),
        "over-time": spec("Adaptive thresholds over time", [0], panel("probability", 1), panel("size, KiB", 2, log=True), panel("hotness, references", 3),
                          panel("measured latency, ms", (4, 0, "probability"), (5, 0, "size"), (6, 0, "hotness"))),
        "cache-sizes": spec("Policies by cache size", [0, 1], panel("latency, × LRU's", 2), panel("lifetime, × LRU's", 3), panel("L/T, × LRU's", 4)),
        "targets": spec("Policies by target latency", [0, 1], panel("latency, × LRU's", 2), panel("lifetime, × LRU's", 3), panel("L/T, × LRU's", 4)),
        "sampling": spec("Policies by sampling rate", [0, 1], panel("latency, × LRU's", 2), panel("lifetime, × LRU's", 3), panel("L/T, × LRU's", 4)),
        "write-hits": against_lru(["probability, cache", "probability, bypass", "size, cache", "size, bypass"]),
        "objectives": spec("Weights of latency, wear and energy", [0], *RATIOS),
    },
    "mixedstore": {
        "flash-or-disk": spec("Sustained random writes", [0], parts("ms a write", 0, ["disk, same 256 MiB", "disk, 34 GiB", "page", "dftl", "log-block", "block-mapped"], log=True)),
        "flash-or-disk-2": spec("Throughput of flash in use", [0], parts("requests/s", 0, ["disk, 34 GiB", "page", "dftl", "log-block", "block-mapped"], log=True)),
        "flash-or-disk-3": spec("Life of 1 GiB by random writes a second", [0], parts("years", 0, ["page", "dftl", "log-block", "block-mapped"], log=True)),
        "maps": spec("A demand-cached map by its RAM", [0, 1], panel("found in RAM, %", 2), panel("write amplification", 5), panel("mean response, ms", 6)),
        "sizes": spec("Static and dynamic partitioning by the size of the flash", [0, 1], panel("mean response, ms", (2, 0, "static"), (5, 0, "dynamic")),
                      panel("life, years", (3, 0, "static"), (6, 0, "dynamic"), log=True), panel("on flash, %", (4, 0, "static"), (7, 0, "dynamic"))),
        "rates": spec("More requests than planned for", [0], panel("mean response, ms", (1, 0, "mixed"), (4, 0, "disk"), (5, 0, "flash"), log=True),
                      panel("life, years", (2, 0, "mixed"), (6, 0, "flash"), log=True)),
        "systems": spec("The drive against its parts", [0], panel("mean response, ms", (1, 0, "disk"), (2, 0, "flash"), (3, 0, "mixed"), log=True),
                        panel("99th percentile, ms", (5, 0, "disk"), (6, 0, "flash"), (7, 0, "mixed"), log=True)),
        "prediction": spec("Prediction of response times", [0], panel("error, %", (2, 0, "on line"), (3, 0, "trained"), (4, 0, "last value"), log=True),
                           panel("mean response, ms", (9, 0, "on line"), (10, 0, "trained"), (11, 0, "last value"), log=True)),
        "fragmentation-busting": spec("Fragmentation busting", [0], panel("mean response, ms", (1, 0, "never"), (2, 0, "80 %"), (3, 0, "all"), log=True),
                                      panel("99.9th percentile, ms", (7, 0, "never"), (8, 0, "80 %"), (9, 0, "all"), log=True),
                                      panel("write amplification", (13, 0, "never"), (14, 0, "80 %"), (15, 0, "all"))),
        "regulation": spec("Write regulation", [0], panel("erases/s", 1), panel("mean response, ms", 4), panel("life, years", 6)),
        "levelling": spec("Adaptive wear-levelling", [0, 1], panel("erases for levelling", (5, 0, "always"), (6, 0, "adaptive"), log=True),
                          panel("life, years", (13, 0, "always"), (14, 0, "adaptive")), panel("p99, ms", (15, 0, "always"), (16, 0, "adaptive"))),
    },
    "tuning": {
        "searched": spec("Settings found before the drive runs", [0, 1], panel("mean response, ms", (2, 0, "paper's settings"), (3, 0, "tuned"), log=True),
                         panel("p99, tuned / paper's", 5), panel("power, tuned / paper's", 6)),
        "online": spec("Hill climbing while the drive runs, against the paper's settings", [0, 1],
                       panel("mean response, ratio", (3, 0, "cap on wear"), (7, 0, "on power too"), (11, 0, "no cap")), panel("99th percentile, ratio", 4)),
    },
}


def spec_of(page, name, header):
    """How a table is drawn; None for a table of words."""
    if page == "greendm" and header[:2] == ["design", "requests/s"]:
        return DESIGNS
    return SPECS.get(page, {}).get(name)


def value(cell, number):
    """The number at this place in a cell, such as the second of `65 / 82`."""
    found = NUMBER.findall(cell)
    if number >= len(found):
        return None
    text = found[number].replace(",", "").replace("−", "-")
    unit = re.search(r"\b(GB|kB|KB)\b", cell)
    return float(text) * (FACTORS[unit[1]] if unit else 1.0)


def cells(line):
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]


def read(path):
    with path.open(newline="") as file:
        header, *rows = csv.reader(file)
    return header, rows


def as_csv(header, rows):
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([cell.replace("`", "") for cell in row] for row in rows)
    return out.getvalue()


def labels_of(rows, columns):
    """The label of each row; a cell that is left empty says what the one above says."""
    labels, last = [], [""] * len(columns)
    for row in rows:
        now = [row[column].replace("`", "") for column in columns]
        last = [new or (old if place == 0 else "") for place, (new, old) in enumerate(zip(now, last))]
        labels.append(", ".join(part for part in last if part))
    return labels


def alt(what, header, rows, how):
    """What a figure shows, in words and figures, from the rows that it was drawn from."""
    labels, said = labels_of(rows, how["labels"]), []
    for one in how["panels"]:
        points = [(value(row[column], number), label, name) for column, number, name in one["series"]
                  for row, label in zip(rows, labels) if value(row[column], number) is not None]
        if points:
            shown = [f"{short(point[0])} ({', '.join(part for part in point[1:] if part)})" for point in (min(points), max(points))]
            said.append(f"{one['axis']} from {shown[0]} to {shown[1]}")
    return f"{what}, {len(rows)} rows: " + "; ".join(said).replace("[", "(").replace("]", ")")


def short(number):
    return f"{number:,.0f}" if abs(number) >= 1000 else f"{number:.4g}"


def stamp(page, name, header, rows):
    """What a figure was drawn from: its rows and its specification."""
    made_of = repr((spec_of(page, name, header), header, rows))
    return hashlib.sha256(made_of.encode()).hexdigest()


def svg(page, name):
    """The figure of a table."""
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot, ticker

    path = FINDINGS / page / f"{name}.csv"
    header, rows = read(path)
    how = spec_of(page, name, header)
    labels = labels_of(rows, how["labels"])
    settings = {"svg.fonttype": "none", "svg.hashsalt": "peryton", "font.family": "DejaVu Sans", "font.size": 8, "text.color": INK,
                "axes.edgecolor": GRID, "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK, "axes.facecolor": PAPER,
                "figure.facecolor": PAPER, "grid.color": GRID, "axes.grid": True, "grid.linewidth": 0.6, "savefig.facecolor": PAPER}
    shown = [label if len(label) <= 44 else label[:43] + "…" for label in labels]
    with matplotlib.rc_context(settings):
        height = max(1.2, 0.19 * len(rows)) + 0.95
        figure, axes = pyplot.subplots(1, len(how["panels"]), sharey=True, squeeze=False, figsize=(8.2, height), layout="constrained")
        for place, (axis, one) in enumerate(zip(axes[0], how["panels"])):
            for number, (column, part, series) in enumerate(one["series"]):
                values = [value(row[column], part) for row in rows]
                points = [(x, y) for y, x in enumerate(values) if x is not None and (x > 0 or not one["log"])]
                axis.plot([x for x, _ in points], [y for _, y in points], MARKERS[number], color=COLOURS[number], label=series,
                          markersize=4.5, linestyle="none")
            if one["log"]:
                axis.set_xscale("log")
                low, high = axis.get_xlim()
                axis.xaxis.set_major_locator(ticker.LogLocator(subs=(1, 2, 5) if high < 40 * low else (1,), numticks=5))
                axis.xaxis.set_minor_locator(ticker.NullLocator())
                axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: short(x)))
            else:
                axis.xaxis.set_major_locator(ticker.MaxNLocator(4))
                axis.xaxis.set_major_formatter(ticker.FuncFormatter(lambda x, _: short(x)))
            axis.set_xlabel(one["axis"])
            axis.tick_params(length=0)
            for side in ("top", "right", "left"):
                axis.spines[side].set_visible(False)
            if len(one["series"]) > 1:
                axis.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2 if len(one["series"]) > 2 else len(one["series"]),
                            frameon=False, fontsize=7, handletextpad=0.1, columnspacing=0.8)
            if place == 0:
                axis.set_yticks(range(len(rows)), shown)
                axis.set_ylim(len(rows) - 0.5, -0.5)
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    text = out.getvalue()
    text = re.sub(r"<\?xml.*?<svg", "<svg", text, count=1, flags=re.S)
    note = f"<!-- {stamp(page, name, header, rows)} Matplotlib {matplotlib.__version__} -->"
    text, classes = smaller(text)
    rules = "".join(f'[style*="fill: {light}"]{{fill:{night}!important}}[style*="stroke: {light}"]{{stroke:{night}!important}}'
                    for light, night in DARK.items())
    style = f"<style>{classes}@media (prefers-color-scheme: dark){{{rules}}}</style>"
    title = html(alt(how["what"], header, rows, how))
    head, rest = text.split(">", 1)
    text = f'{head} role="img">\n{note}\n<title>{title}</title>\n{style}{rest}'
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def smaller(text):
    """The figure with coordinates of a tenth of a point, names by number, and one rule for all marks of a kind."""
    # Matplotlib names shapes by a hash of their unrounded coordinates, and these depend on the processor.
    names = dict.fromkeys(re.findall(r'id="([a-z][0-9a-f]{10})"', text))
    for number, name in enumerate(names):
        text = re.sub(rf"\b{name}\b", f"s{number}", text)
    text = re.sub(r"(\d+\.\d)\d+", r"\1", text).replace("font-family: 'DejaVu Sans'; ", "")
    # Lines of the grid end where the axes do.
    text = re.sub(rf' clip-path="url\(#[^)]*\)"(?= style="fill: none; stroke: {GRID})', "", text)
    styles = sorted({style for style in re.findall(r'<use [^>]*style="([^"]*)"', text) if not any(colour in style for colour in DARK)})
    for number, style in enumerate(styles):
        text = re.sub(rf'(<use [^>]*)style="{re.escape(style)}"', rf'\1class="u{number}"', text)
    return text, "text{font-family:'DejaVu Sans',Verdana,sans-serif}" + "".join(f".u{number}{{{style}}}" for number, style in enumerate(styles))


def html(text):
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def numbered(name, index):
    return name if index == 0 else f"{name}-{index + 1}"


def placed(page, name, body):
    """Writes the rows of the tables in a body as CSV; returns the body with figures, short tables and links."""
    folder = FINDINGS / page
    folder.mkdir(exist_ok=True)
    out, index, lines = [], 0, body.strip("\n").split("\n")
    at = 0
    while at < len(lines):
        if not lines[at].startswith("|"):
            out.append(lines[at])
            at += 1
            continue
        end = at
        while end < len(lines) and lines[end].startswith("|"):
            end += 1
        header, rows = cells(lines[at]), [cells(line) for line in lines[at + 2:end]]
        one = numbered(name, index)
        (folder / f"{one}.csv").write_text(as_csv(header, rows))
        out += around(page, one, lines[at:end])
        index, at = index + 1, end
    return "\n".join(out)


def taken(page, block):
    """The text of a table that was written by hand, with its figure; any other as it is."""
    if "\n|" not in block[2] or ".csv)" in block[2]:
        return block[0]
    return f"<!-- table {block[1]} -->\n\n{placed(page, block[1], block[2])}\n\n<!-- end -->"


def around(page, name, table):
    """The figure of a table, or its first rows where it has none, and a link to all of them."""
    header, rows = read(FINDINGS / page / f"{name}.csv")
    how = spec_of(page, name, header)
    if how and name in leads(page):
        return [f"The rows of the figure at the top of the page: [{len(rows)} rows as CSV]({page}/{name}.csv)"]
    if how:
        return [image(page, name, how["what"], rows), "", f"[{len(rows)} rows as CSV]({page}/{name}.csv)"]
    first = f"The first {MOST_ROWS} of " if len(rows) > MOST_ROWS else ""
    return [*table[:2 + MOST_ROWS], "", f"{first}[{len(rows)} rows as CSV]({page}/{name}.csv)"]


def leads(page):
    """The figures that stand for a whole page, at its top."""
    return [name for name, _ in LEAD.findall((FINDINGS / f"{page}.md").read_text())]


def led(page):
    """Puts the figures that stand for a whole page where they belong."""
    path = FINDINGS / f"{page}.md"

    def figure(match):
        header, rows = read(FINDINGS / page / f"{match[1]}.csv")
        what = spec_of(page, match[1], header)["what"]
        return f"<!-- figure {match[1]} -->\n\n{image(page, match[1], what, rows)}\n\n<!-- end figure -->"

    path.write_text(LEAD.sub(figure, path.read_text()))


def image(page, name, what, rows):
    """The figure in its page. What it shows is in the title of the figure itself."""
    return f"![{what}, {len(rows)} rows]({page}/{name}.svg)"


def tables():
    """The page and the name of every table that has rows."""
    return [(path.parent.name, path.stem) for path in sorted(FINDINGS.glob("*/*.csv"))]


def wrong():
    """What is wrong with the pages and their figures, without drawing."""
    found = []
    for page in sorted(FINDINGS.glob("*.md")):
        lines = page.read_text().splitlines()
        starts = [n for n, line in enumerate(lines) if line.startswith("|") and not (n and lines[n - 1].startswith("|"))]
        figures = [n for n, line in enumerate(lines) if line.startswith("![")]
        if not figures or (starts and figures[0] > starts[0]):
            found.append(f"{page.name}: there is no figure before the first table")
        for start in starts:
            rows = next((n for n in range(start, len(lines)) if not lines[n].startswith("|")), len(lines)) - start - 2
            if rows > MOST_ROWS:
                found.append(f"{page.name}:{start + 1}: the table has {rows} rows; at most {MOST_ROWS}, the others as CSV")
    for page, name in tables():
        text = (FINDINGS / f"{page}.md").read_text()
        header, rows = read(FINDINGS / page / f"{name}.csv")
        if f"({page}/{name}.csv)" not in text:
            found.append(f"{page}.md does not link to {page}/{name}.csv")
        block = next((body for block, body in BLOCK.findall(text) if name == block or re.fullmatch(rf"{re.escape(block)}-\d+", name)), "")
        shown = [cells(line) for line in block.splitlines() if line.startswith("|") and not line.startswith("|--")]
        how = spec_of(page, name, header)
        expected = [] if how else rows[:MOST_ROWS]
        missing = [row for row in expected if row not in [[cell.replace("`", "") for cell in line] for line in shown]]
        if missing:
            found.append(f"{page}.md: table {name} is not what {page}/{name}.csv says: {missing[0]}")
        drawn = FINDINGS / page / f"{name}.svg"
        if how is None:
            continue
        if not drawn.is_file() or stamp(page, name, header, rows) not in drawn.read_text():
            found.append(f"{page}/{name}.svg is not drawn from {name}.csv as it is: scripts/findings/figures.py")
            continue
        if text.count(image(page, name, how["what"], rows)) != text.count(f"]({page}/{name}.svg)"):
            found.append(f"{page}.md does not show {page}/{name}.svg, or says another number of rows")
        if drawn.stat().st_size > MOST_BYTES:
            found.append(f"{page}/{name}.svg has {drawn.stat().st_size} bytes; at most {MOST_BYTES}")
    return found


def redrawn():
    """Figures that this version of Matplotlib draws otherwise than the same version did before; None if it is another version."""
    import matplotlib
    found = []
    for page, name in tables():
        path = FINDINGS / page / f"{name}.svg"
        if path.is_file():
            if f"Matplotlib {matplotlib.__version__} " not in path.read_text():
                return None
            if path.read_text() != svg(page, name):
                found.append(f"{page}/{name}.svg")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare")
    if not parser.parse_args().check:
        for path in sorted(FINDINGS.glob("*.md")):
            path.write_text(BLOCK.sub(lambda block: taken(path.stem, block), path.read_text()))
        for page in sorted({page for page, _ in tables()}):
            led(page)
        for page, name in tables():
            if spec_of(page, name, read(FINDINGS / page / f"{name}.csv")[0]):
                (FINDINGS / page / f"{name}.svg").write_text(svg(page, name))
    if problems := wrong():
        sys.exit("\n".join(problems))
    print(f"{len(tables())} tables of docs/findings have their rows beside them, and figures that are drawn from these")


if __name__ == "__main__":
    main()
