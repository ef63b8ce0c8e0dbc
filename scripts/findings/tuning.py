#!/usr/bin/env python3
"""Computes the tables of docs/findings/tuning.md again.

Each table is between two comments of the document. The script replaces the text between them and nothing else. All
reports go to report/findings/tuning.json as well.

usage: tuning.py [--peryton PROGRAM] [--only NAME,NAME...] [--requests N]
"""

import argparse
import functools

from common import ROOT, fill, number, real_traces, start, table

DOCUMENT = ROOT / "docs/findings/tuning.md"
DESIGNS = "examples/papers/findings/greendm"
TRACES = ["pgbench", "cloudphysics", "mailstore", "websearch-sample"]
# The climb, which takes seconds, is shown on one more.
ONLINE = [*TRACES, "devbox"]
# The paper replays without think time (section 3.1), on a map that a scan has filled.
REPLAY = ["--replay", "sync"]
EVALUATIONS = 96
# A bound of exactly what there is would be broken by rounding.
SLACK = 1.02
# Without think time a drive that is twice as fast is written twice as much a day.
LIFE = 2.0
CLIMB = ["climb.every=1s", "climb.requests=2000"]
# What the makers of the fast device let be written to it (GreenDM, Table II): the climb's account of wear.
ENDURANCE_BYTES = 36.5e12
SECONDS_PER_YEAR = 31_557_600


def sized(trace, design):
    """The volume holds the trace, and a quarter of it is flash, as in the paper (section 3.3). A cache may write back later than at once,
    as the delay is one of the settings."""
    volume = max(256, trace.volume_mib())
    later = ["placement.writeback.max_age=10min"] if design == "caching-back" else []
    return [f"volume.size={volume}MiB", f"devices.ssd.size={volume // 4}MiB", "placement.extent=128KiB", *later]


def mean_ms(report):
    return report["latency_us"]["all"]["mean"] / 1000


def p99_ms(report):
    return report["latency_us"]["all"]["p99"] / 1000


def written_years(report):
    """How long the fast device lasts by what is written to it; nothing where nothing is."""
    written = report["devices"]["ssd"]["bytes_written"]
    return written and ENDURANCE_BYTES / (written / report["simulated_s"]) / SECONDS_PER_YEAR or None


class Case:
    """A trace on a design: with the paper's settings, tuned, and climbing."""

    def __init__(self, runner, trace, design):
        self.trace, self.design = trace, design
        self.runner = runner
        self.path = path = f"{DESIGNS}/{design}.toml"
        self.settings = settings = sized(trace, design)
        fixed = runner.sim(path, trace, settings, REPLAY).result()
        self.fixed = fixed
        self.years, self.watts = fixed["lifetime_years"], fixed["mean_power_w"]
        wear = [f"climb.caps.lifetime_years={written_years(fixed) / LIFE:.6g}"] if written_years(fixed) else []
        power = [f"climb.caps.power={self.watts * SLACK:.6g}W"]

        def climb(*more):
            return runner.sim(path, trace, [*settings, *CLIMB, *more], REPLAY)

        # From where nothing is promoted before it has missed 64 times in a minute.
        far = "placement.promotion.threshold=64"
        runs = [climb(*wear), climb(*wear, *power), climb(), runner.sim(path, trace, [*settings, far], REPLAY),
                climb(far, *wear)]
        self.worn, self.both, self.uncapped, self.bad, self.climbed = (run.result() for run in runs)

    @functools.cached_property
    def tuned(self):
        """What the search finds, which takes a hundred simulations: not made where only the climb is asked for."""
        bounds = [f"power<={self.watts * SLACK:.6g}W"]
        if self.years:
            bounds.append(f"lifetime>={self.years / LIFE:.6g}y")
        arguments = ["tune", self.path, *self.trace.replay(), *REPLAY, "--objective", "latency", "--subject-to",
                     ",".join(bounds), "--evaluations", str(EVALUATIONS)]
        for setting in self.settings:
            arguments += ["--set", setting]
        return self.runner.command(*arguments, "--json")


def years(value):
    return "–" if value is None else number(value)


def ratio(after, before):
    return f"{after / before:.2f}"


def searched(cases):
    rows = []
    for case in cases:
        before, after = case.tuned["before"], case.tuned["after"]
        rows.append([case.trace.name, case.design, number(before["mean_ms"]), number(after["mean_ms"]),
                     ratio(after["mean_ms"], before["mean_ms"]), ratio(after["p99_ms"], before["p99_ms"]),
                     ratio(after["power_w"], before["power_w"]),
                     f"{years(before.get('lifetime_years'))} → {years(after.get('lifetime_years'))}",
                     "yes" if case.tuned["met_after"] else "no", str(case.tuned["evaluations"])])
    yield from table(["trace", "design", "mean ms, paper's settings", "tuned", "ratio", "p99, ratio", "power, ratio",
                      "lifetime, years", "bounds hold", "simulations"], rows)


def settings(cases):
    rows = []
    for case in cases:
        changed = [f"`{change['knob'].removeprefix('placement.')}` {change['from']} → {change['to']}"
                   for change in case.tuned["changed"]]
        rows.append([case.trace.name, case.design, ", ".join(changed) or "nothing"])
    yield from table(["trace", "design", "changed"], rows)


def steps(report):
    return f"{report['climb']['kept']} of {report['climb']['tried']}"


def online(cases):
    rows = []
    for case in cases:
        before = mean_ms(case.fixed)
        rows.append([case.trace.name, case.design, number(before),
                     ratio(mean_ms(case.worn), before), ratio(p99_ms(case.worn), p99_ms(case.fixed)),
                     f"{years(written_years(case.fixed))} → {years(written_years(case.worn))}", steps(case.worn),
                     ratio(mean_ms(case.both), before), f"{case.both['mean_power_w'] / case.watts:.3f}",
                     years(written_years(case.both)), steps(case.both),
                     ratio(mean_ms(case.uncapped), before), f"{case.uncapped['mean_power_w'] / case.watts:.3f}",
                     years(written_years(case.uncapped)), steps(case.uncapped),
                     number(mean_ms(case.bad)), ratio(mean_ms(case.climbed), mean_ms(case.bad)), steps(case.climbed)])
    yield from table(["trace", "design", "mean ms, paper's settings", "cap on wear, ratio", "p99, ratio", "lifetime, years",
                      "steps kept", "on power too, ratio", "power, ratio", "lifetime, years", "steps kept",
                      "no cap, ratio", "power, ratio", "lifetime, years", "steps kept",
                      "mean ms, PT 64", "cap on wear, ratio", "steps kept"], rows)


def main():
    arguments, runner, _folder = start(argparse.ArgumentParser(description=__doc__.splitlines()[0]))
    traces = [trace for trace in real_traces(arguments.requests) if trace.name in ONLINE]
    runner.look(traces)
    cases = []

    def all_cases():
        if not cases:
            cases.extend(Case(runner, trace, design) for trace in traces for design in ["tiering", "caching-back"])
        return cases

    def searched_cases():
        return [case for case in all_cases() if case.trace.name in TRACES]

    tables = [("searched", lambda: searched(searched_cases())), ("settings", lambda: settings(searched_cases())),
              ("online", lambda: online(all_cases()))]
    fill(DOCUMENT, tables, runner, arguments.only and arguments.only.split(","))


if __name__ == "__main__":
    main()
