#!/usr/bin/env python3
"""Compares Peryton with libCacheSim: the whole processes, in turn, on one processor, by their processor time.

usage: scripts/bench/libcachesim.py --cachesim BINARY [--peryton BINARY] [--pairs N] [--processor N] [--directory DIR] [CASE]...

The trace has 10 million reads, Zipf 1.0 over 1 million objects of 4 KiB, in the format oracleGeneral; the cache has room for 102,400 of them.
A case is a policy of `peryton trace mrc` (with the sizes of objects, in both), or `curve` (LRU's whole curve beside one size in libCacheSim), or `sim` (two devices with fixed
latencies, their map and a full report beside libCacheSim's LRU). Each case must miss as often as libCacheSim. A ratio is libCacheSim's
time divided by Peryton's in the same pair; the figures are the median, and the least and the most in brackets.

BINARY of libCacheSim: `cmake -DCMAKE_BUILD_TYPE=Release`, target `cachesim`.
"""

import argparse
import bisect
import itertools
import json
import os
import random
import resource
import statistics
import struct
import subprocess
import sys
import tempfile

REQUESTS, OBJECTS, OBJECT_BYTES = 10_000_000, 1_000_000, 4096
CACHED = 102_400
# Peryton's name of each policy, and libCacheSim's.
POLICIES = {"lru": "lru", "arc": "arc", "s3fifo": "s3fifo", "sieve": "sieve", "two_queue": "twoq", "w_tiny_lfu": "wtinylfu"}
# Their sketches are different. ARC's steps are bytes, whose rounding differs in the fourth digit.
OTHER_MISSES = {"w_tiny_lfu", "arc"}
DESIGN = """
[devices]
fast = { profile = "fixed", size = "400MiB" }
slow = { profile = "fixed", size = "5GiB" }

[placement]
mode = "caching"
fast = "fast"
slow = "slow"
extent = "4KiB"
replacement = "lru"
promotion = { threshold = 0 }
demotion = { low = 1, high = 1 }
"""


def write_trace(path):
    """The format: time (u32), object (u64), size (u32), number of the next request for the object (i64; -1: not known)."""
    shares = list(itertools.accumulate(1 / rank for rank in range(1, OBJECTS + 1)))
    draw, row = random.Random(1).random, struct.Struct("<IQIq")
    with open(path + ".new", "wb") as file:
        for _ in range(100):
            drawn = (bisect.bisect(shares, draw() * shares[-1], 0, OBJECTS - 1) for _ in range(REQUESTS // 100))
            file.write(b"".join(row.pack(0, number, OBJECT_BYTES, -1) for number in drawn))
    os.rename(path + ".new", path)


def processor_s():
    # Kernels that count ticks know the sum of both exactly, and each of them only roughly.
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command, processor, directory):
    """The processor time of the process, and what it prints."""
    before = processor_s()
    done = subprocess.run(["taskset", "-c", str(processor), *command], capture_output=True, text=True, cwd=directory)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr.strip()}")
    return processor_s() - before, done.stdout


def commands(case, arguments, trace, design):
    """Peryton's command, how its miss ratio is found, and libCacheSim's command."""
    theirs = [arguments.cachesim, trace, "oracleGeneral", POLICIES.get(case, "lru"), str(CACHED * OBJECT_BYTES)]
    if case == "sim":
        ours = [arguments.peryton, "sim", design, "--trace", trace, "--replay", "sync", "--jobs", "1", "--json", "-"]
        return ours, lambda found: 1 - found[0]["fast_hit_ratio"], theirs
    ours = [arguments.peryton, "trace", "mrc", trace, "--json"]
    if case == "curve":
        return ours + ["--block", str(OBJECT_BYTES)], lambda found: None, theirs
    ours += ["--replacement", case, "--sizes", str(CACHED * OBJECT_BYTES), "--rate", "1"]
    return ours, lambda found: found[0]["all"], theirs


def spread(values, digits=1):
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f}–{max(values):.{digits}f})"


def main():
    cases = [*POLICIES, "curve", "sim"]
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cachesim", required=True, type=os.path.abspath)
    parser.add_argument("--peryton", default="target/release/peryton", type=os.path.abspath)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--processor", type=int, default=0)
    parser.add_argument("--directory", default=os.path.join(tempfile.gettempdir(), "peryton-libcachesim"))
    parser.add_argument("cases", nargs="*", choices=[*cases, []], metavar="CASE", help=", ".join(cases))
    arguments = parser.parse_args()

    os.makedirs(arguments.directory, exist_ok=True)
    trace, design = (os.path.join(arguments.directory, name) for name in ("zipf.oracleGeneral", "cache.toml"))
    if not os.path.exists(trace):
        write_trace(trace)
    with open(design, "w") as file:
        file.write(DESIGN)
    print(f"{'case':<12}{'times libCacheSim':<22}{'million requests a second':<28}miss ratio")
    for case in arguments.cases or cases:
        ours, miss_ratio, theirs = commands(case, arguments, trace, design)
        ratios, speeds = [], []
        for _ in range(arguments.pairs):
            their_s, their_text = run(theirs, arguments.processor, arguments.directory)
            our_s, our_text = run(ours, arguments.processor, arguments.directory)
            ratios.append(their_s / our_s)
            speeds.append(REQUESTS / our_s / 1e6)
        found, expected = miss_ratio(json.loads(our_text)), their_text.split("miss ratio ")[1].split(",")[0]
        shown = "" if found is None else f"{found:.4f}"
        if shown not in ("", expected) and case not in OTHER_MISSES:
            sys.exit(f"{case}: Peryton misses {shown} of the requests, libCacheSim {expected}")
        print(f"{case:<12}{spread(ratios, 2):<22}{spread(speeds):<28}{shown or '-'}", flush=True)


if __name__ == "__main__":
    main()
