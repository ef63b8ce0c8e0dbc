#!/usr/bin/env python3
"""Computes the tables of docs/findings/mixed-array.md again.

Each table is between two comments of the document. The script replaces the text between them and nothing else. All
reports go to report/findings/mixed-array.json as well.

usage: mixed_array.py [--peryton PROGRAM] [--only NAME,NAME...] [--requests N]
"""

import argparse
import copy

from common import MIB, PAPER_13, ROOT, fill, geometric, number, percent, real_traces, shortened, start, table

DESIGN = "examples/papers/findings/mixed-array/array.toml"
DOCUMENT = ROOT / "docs/findings/mixed-array.md"
CYCLES = {"cache": 100_000, "storage": 10_000}
MEMBERS = 3
YEAR_S = 31_557_600
# The sweeps use these volumes: two each of weak, strong and unknown locality.
SIX = ["web_0", "prn_0", "hm_0", "wdev_0", "ts_0", "src2_0"]
WEAK = {"mds_0", "stg_0", "web_0", "prn_0", "usr_0", "proj_0", "src1_2"}
STRONG = {"hm_0", "prxy_0", "rsrch_0", "wdev_0"}
ADAPTIVE = ["probability", "size", "hotness"]
STATIC = [("probability 0.3", ["admission.by=probability", "admission.threshold=0.3", "admission.write_hits=cache"]),
          ("size 64 KiB", ["admission.by=size", "admission.threshold=64KiB"]),
          ("2Q, more than 1", ["admission.by=hotness", "admission.threshold=1"]),
          ("top 10 %", ["admission.by=hottest_share", "admission.threshold=0.1"])]


# The paper's rate.
RATE = 0.01


def adaptive(by, target="400us", rate=RATE, more=()):
    # Section V-B: alpha is 0.8 at 1 %, and 0.9 at 5 and 10 %, which is also the default of a design.
    # The rule judges misses only, as in the paper's analysis (section IV-B), unless the caller chooses otherwise.
    if by == "probability" and not any("write_hits" in setting for setting in more):
        more = [*more, "admission.write_hits=cache"]
    return [f"admission.by={by}", f"admission.adaptive.rate={rate}", "admission.adaptive.caches=10",
            f"admission.adaptive.target_latency={target}", *more]


class Result:
    """Latency, lifetime and their quotient. Traces are replayed one request at a time, as the paper's simulator has
    latencies without queues; the lifetime is that at the trace's own pace, not at the replay's."""

    def __init__(self, report, trace, cache_bytes, storage_bytes):
        devices = report["devices"]
        self.latency_ms = report["latency_us"]["all"]["mean"] / 1000
        written = {"cache": devices["cache"]["bytes_written"] / cache_bytes,
                   "storage": sum(devices[f"storage.{n}"]["bytes_written"] for n in range(MEMBERS)) / storage_bytes}
        span_s = trace.info["span_s"] * report["requests"] / trace.info["requests"]
        self.lives = {name: CYCLES[name] / cycles * span_s / YEAR_S if cycles else None
                      for name, cycles in written.items()}
        self.lifetime = min((life for life in self.lives.values() if life), default=None)
        self.quotient = self.latency_ms / self.lifetime if self.lifetime else None
        self.hit = report.get("fast_hit_ratio")
        self.admission = report.get("admission", {})


class Array:
    """Runs on the array of section VI-B: storage of twice the unique data, a cache of a share of that."""

    def __init__(self, runner):
        self.runner, self.kept = runner, {}

    def run(self, trace, settings=(), share=0.05):
        key = (trace.name, tuple(settings), share)
        if key not in self.kept:
            storage = 2 * trace.info["footprint"]["bytes"]
            cache = max(int(share * storage) // 4096, 8) * 4096
            # Addresses may lie far apart; the endurance is still that of storage of twice the data.
            sizes = [f"devices.storage.size={trace.volume_mib()}MiB", f"devices.cache.size={cache}",
                     f"endurance.cache.written={CYCLES['cache'] * cache}",
                     f"endurance.storage.written={CYCLES['storage'] * storage // MEMBERS}"]
            promise = self.runner.sim(DESIGN, trace, [*sizes, *settings], ["--replay", "sync"])
            self.kept[key] = lambda: Result(promise.result(), trace, cache, storage)
        return self.kept[key]


def ratio(value, base):
    return value / base if value and base else None


def locality(name):
    return "weak" if name in WEAK else "strong" if name in STRONG else "–"


def policies(array, traces, variants, base=(), summary=True):
    """A row per trace, three columns per policy, against LRU; and a line per policy."""
    promises = [(trace, array.run(trace, base), [array.run(trace, settings) for _, settings in variants])
                for trace in traces]
    header = ["trace", "reads' locality", "LRU: hit %", "mean ms", "lifetime y", "wears out first"]
    header += [f"{name}: {what}" for name, _ in variants for what in ("latency", "lifetime", "L/T")]
    header += [f"{name}: mean ms" for name, _ in variants]
    rows, gains, means = [], {name: [] for name, _ in variants}, {name: [] for name, _ in variants}
    for trace, lru, others in promises:
        lru = lru()
        first = min((life, name) for name, life in lru.lives.items() if life)[1] if lru.lifetime else "–"
        row = [trace.name, locality(trace.name), percent(lru.hit, 1), number(lru.latency_ms), number(lru.lifetime), first]
        others = [other() for other in others]
        for (name, _), other in zip(variants, others):
            means[name].append(other.latency_ms)
            row += [number(ratio(other.latency_ms, lru.latency_ms), 2), number(ratio(other.lifetime, lru.lifetime), 2),
                    number(ratio(other.quotient, lru.quotient), 2)]
            gains[name].append(ratio(lru.quotient, other.quotient))
        rows.append(row + [number(other.latency_ms) for other in others])
    yield from table(header, rows)
    yield ""
    for name, settings in variants if summary else []:
        values = [value for value in gains[name] if value]
        target = next((setting.split("=")[1] for setting in settings if "target_latency" in setting), None)
        missed = target and sum(mean > float(target.removesuffix("us")) / 1000 for mean in means[name])
        kept = f"; {min(means[name]):.2f} to {max(means[name]):.2f} ms, above the target on {missed}" if target else ""
        if values:
            yield (f"* {name}: {sum(values) / len(values):.2f}× (geometric mean {geometric(values):.2f}; {min(values):.2f} to {max(values):.2f}), "
                   f"better on {sum(value > 1.005 for value in values)}, worse on {sum(value < 0.995 for value in values)}{kept}")


def sweep(array, traces, title, values, settings, share=lambda value: 0.05, lru_at=lambda value: 0.05, base_share=None):
    """Geometric means over the traces of latency, lifetime and L/T against LRU, for each value of something."""
    promises = []
    for value in values:
        for by in ADAPTIVE:
            promises.append((value, by, [(array.run(trace, (), base_share or lru_at(value)),
                                          array.run(trace, settings(by, value), share(value))) for trace in traces]))
    rows = []
    for value, by, pairs in promises:
        pairs = [(lru(), other()) for lru, other in pairs]
        of = lambda what: geometric([ratio(getattr(other, what), getattr(lru, what)) for lru, other in pairs])
        rows.append([str(value), by, *(number(of(what)) for what in ("latency_ms", "lifetime", "quotient"))])
    yield from table([title, "adaptive", "latency", "lifetime", "L/T"], rows)


def cache_sizes(array, traces):
    shares = (0.01, 0.02, 0.05, 0.1)
    yield "Geometric means over the six, against LRU with a cache of 1 %:"
    yield ""
    promises = [(share, by, [(array.run(trace, (), 0.01), array.run(trace, settings, share)) for trace in traces])
                for share in shares for by, settings in [("LRU", ()), *((by, adaptive(by)) for by in ADAPTIVE)]]
    rows = []
    for share, by, pairs in promises:
        pairs = [(lru(), other()) for lru, other in pairs]
        of = lambda what: geometric([ratio(getattr(other, what), getattr(lru, what)) for lru, other in pairs])
        rows.append([f"{percent(share)} %", by, *(number(of(what)) for what in ("latency_ms", "lifetime", "quotient"))])
    yield from table(["cache", "policy", "latency", "lifetime", "L/T"], rows)


def hit_rates(array, traces):
    shares = (0.01, 0.02, 0.05, 0.1)
    promises = [(trace, [array.run(trace, (), share) for share in shares]) for trace in traces]
    yield from table(["trace", "locality", "unique data, MiB", *(f"{percent(share)} %" for share in shares)], (
        [trace.name, locality(trace.name), number(trace.info["footprint"]["bytes"] / MIB),
         *(percent(result().hit, 1) for result in results)] for trace, results in promises))


def thresholds(array, traces):
    """Figures 4 and 5: the static thresholds of two rules on two volumes."""
    for title, key, by, values in [("size", "threshold", "size", ["4KiB", "16KiB", "64KiB", "256KiB"]),
                                   ("probability", "threshold", "probability", [0.05, 0.1, 0.3, 0.5, 0.7, 0.99])]:
        rows = []
        chosen = [trace for trace in traces if trace.name in ("hm_0", "web_0")]
        promises = [(trace, value, array.run(trace, [f"admission.by={by}", f"admission.{key}={value}", "admission.write_hits=cache"]))
                    for trace in chosen for value in values]
        base = {trace.name: result for trace, value, result in promises if value == values[-1]}
        for trace, value, result in promises:
            result, last = result(), base[trace.name]()
            rows.append([f"{trace.name}, {title} {value}", number(result.latency_ms / last.latency_ms),
                         number(ratio(result.lifetime, last.lifetime)), number(ratio(result.quotient, last.quotient))])
        yield from table(["threshold", "latency", "lifetime", "L/T"], rows)
        yield ""


def write_hits(array, traces):
    variants = [(f"{by}, write hits {rule}", adaptive(by, more=[f"admission.write_hits={rule}"]))
                for by in ("probability", "size") for rule in ("cache", "bypass")]
    return policies(array, traces, variants, summary=False)


def objectives(array, traces):
    """The effect of each weighting of the objective, which is a parameter."""
    # Assumed powers of a PCIe and a SATA drive in watts; the paper gives none.
    power = ["devices.cache.model.active_w=12", "devices.cache.model.idle_w=5",
             "devices.storage.model.active_w=4", "devices.storage.model.idle_w=1"]
    weights = [(1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (2, 1, 0), (1, 2, 0), (1, 1, 1)]
    promises = [(weight, [(array.run(trace, ()), array.run(trace, [*adaptive("probability", target="10ms"), *power, *(
        f"admission.adaptive.objective.{name}={value}" for name, value in zip(("latency", "wear", "energy"), weight))]))
        for trace in traces]) for weight in weights]
    rows = []
    for weight, pairs in promises:
        pairs = [(lru(), other()) for lru, other in pairs]
        of = lambda what: geometric([ratio(getattr(other, what), getattr(lru, what)) for lru, other in pairs])
        ends = [other.admission["adaptive"]["threshold"] for _, other in pairs]
        rows.append([", ".join(map(str, weight)), *(number(of(what)) for what in ("latency_ms", "lifetime", "quotient")),
                     number(sum(ends) / len(ends), 2)])
    yield from table(["weights of latency, wear, energy", "latency", "lifetime", "L/T", "mean p at the end"], rows)


def over_time(array, traces):
    """Figure 9: the adaptive threshold as a trace goes on, from runs over its first tenth, two tenths and so on."""
    chosen = [trace for trace in traces if trace.name in ("hm_0", "web_0")]
    promises = []
    for trace in chosen:
        for tenth in range(1, 11):
            part = copy.copy(trace)
            part.name, part.limit = f"{trace.name}, {tenth}0 %", trace.info["requests"] * tenth // 10
            promises.append((part.name, [array.run(part, adaptive(by)) for by in ADAPTIVE]))
    rows = []
    for name, results in promises:
        ends = dict(zip(ADAPTIVE, (result().admission["adaptive"] for result in results)))
        # A threshold that admits everything is shown as the largest request.
        size = min(ends["size"]["threshold"], MIB) / 1024
        rows.append([name, number(ends["probability"]["threshold"]), number(size), number(ends["hotness"]["threshold"]),
                     *(number(ends[by]["measured_latency_us"] / 1000) for by in ADAPTIVE)])
    yield from table(["of the trace", "probability", "size, KiB", "hotness, references", *(f"{by}: measured ms" for by in ADAPTIVE)], rows)


def main():
    arguments, runner, folder = start(argparse.ArgumentParser(description=__doc__.splitlines()[0]), requests=2_000_000)
    only = arguments.only.split(",") if arguments.only else None
    with folder:
        stand_ins = [shortened(name, arguments.requests, folder.name)[0] for name in PAPER_13]
        real = real_traces(arguments.requests)
        runner.look(stand_ins + real)
        array = Array(runner)
        six = [trace for trace in stand_ins if trace.name in SIX]
        rules = [(by, adaptive(by)) for by in ADAPTIVE]
        tables = [
            ("hit-rates", lambda: hit_rates(array, stand_ins + real)),
            ("policies", lambda: policies(array, stand_ins, rules)),
            ("policies-real", lambda: policies(array, real, rules)),
            ("static", lambda: policies(array, stand_ins, STATIC)),
            ("static-real", lambda: policies(array, real, STATIC)),
            ("thresholds", lambda: thresholds(array, stand_ins)),
            ("over-time", lambda: over_time(array, stand_ins)),
            ("cache-sizes", lambda: cache_sizes(array, six)),
            ("targets", lambda: sweep(array, six, "target latency", ("0.2 ms", "0.4 ms", "1.0 ms"),
                                      lambda by, value: adaptive(by, target=value.replace(" ", "")))),
            ("sampling", lambda: sweep(array, six, "sampled", ("1 %", "5 %", "10 %"),
                                       lambda by, value: adaptive(by, rate=int(value.split()[0]) / 100))),
            ("write-hits", lambda: write_hits(array, six)),
            ("objectives", lambda: objectives(array, six)),
        ]
        fill(DOCUMENT, tables, runner, only)


if __name__ == "__main__":
    main()
