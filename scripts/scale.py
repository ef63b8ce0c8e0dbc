#!/usr/bin/env python3
"""What it costs to simulate large public traces, from the requests per second and core that are measured here (docs/sampling.md).

    scripts/scale.py --peryton target/release/peryton [TRACE...]

Each trace (by default the shipped one of PostgreSQL) is simulated on one thread under five designs; time is that of the processor, so
other work on the machine disturbs little.
"""

import argparse
import json
import resource
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DESIGNS = ("ssd-only", "hdd-only", "caching-back", "caching-through", "tiering")
# Millions of requests, from the table of https://github.com/cacheMon/cache_dataset.
PUBLIC = {"Alibaba Block 2020, 1,000 volumes": 19_676, "Tencent CBS 2018, 4,030 volumes": 33_690}


def processor_s():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def simulated(peryton, trace, design):
    """Requests, and the processor's seconds."""
    before = processor_s()
    words = [peryton, "--jobs", "1", "sim", ROOT / "examples" / "papers" / f"{design}.toml", "--trace", trace, "--fit", "wrap"]
    ran = subprocess.run([*words, "--json", "-"], check=False, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(ran.stderr.strip())
    return json.loads(ran.stdout)[0]["requests"], processor_s() - before


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peryton", type=Path, default=ROOT / "target" / "release" / "peryton")
    parser.add_argument("traces", nargs="*", type=Path, default=[ROOT / "examples" / "traces" / "pgbench-ext4.parquet"])
    arguments = parser.parse_args()
    if not arguments.peryton.is_file():
        sys.exit(f"{arguments.peryton}: is missing: cargo build --release, or give another program with --peryton")
    all_requests, all_seconds, slowest = 0, 0.0, None
    print("| trace | " + " | ".join(DESIGNS) + " |\n|---|" + "---|" * len(DESIGNS))
    for trace in arguments.traces:
        cells = []
        for design in DESIGNS:
            requests, seconds = simulated(arguments.peryton, trace, design)
            rate = requests / seconds
            all_requests, all_seconds = all_requests + requests, all_seconds + seconds
            slowest = rate if slowest is None else min(slowest, rate)
            cells.append(f"{rate:,.0f}")
        print(f"| {trace.name} | " + " | ".join(cells) + " |")
    mean = all_requests / all_seconds
    print(f"\n{all_requests:,} requests in {all_seconds:.1f} s: {mean:,.0f} requests a second and core; slowest {slowest:,.0f}\n")
    print("| traces | million requests | core hours a design | at the slowest rate |\n|---|---|---|---|")
    for name, millions in PUBLIC.items():
        hours = [millions * 1e6 / rate / 3600 for rate in (mean, slowest)]
        print(f"| {name} | {millions:,} | {hours[0]:.1f} | {hours[1]:.1f} |")


if __name__ == "__main__":
    main()
