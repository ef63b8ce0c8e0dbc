#!/usr/bin/env python3
"""What it costs to keep in shared memory what a killed server would take with it: 4 KiB random writes at depth 32 on each
placement that keeps something, with durability.process_death on and off in turn, on new volumes on files.

usage: scripts/bench/process_death.py [--peryton BINARY] [--seconds N] [--pairs N] [--directory DIR] [--only NAME]

The figure is the median of the pairs' ratios. Needs fio.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time

DEVICES = """
[devices.fast]
profile = "intel-320-300gb"
size = "{fast}"
path = "fast.img"

[devices.slow]
profile = "seagate-st32000641as"
size = "512MiB"
path = "slow.img"

[durability]
process_death = "{kept}"
"""

# Those that have something to keep.
PLACEMENTS = {
    "tiering": '[placement]\nmode = "tiering"\nfast = "fast"\nslow = "slow"\nextent = "16KiB"\n',
    "caching, back": '[placement]\nmode = "caching"\nfast = "fast"\nslow = "slow"\nextent = "16KiB"\nwrite = "back"\n',
    "caching, through": '[placement]\nmode = "caching"\nfast = "fast"\nslow = "slow"\nextent = "16KiB"\nwrite = "through"\n',
    "partitioned": '[placement]\nmode = "partitioned"\nfast = "fast"\nslow = "slow"\nextent = "16KiB"\n',
    "logging": '[placement]\nmode = "logging"\nlog = "fast"\nprimary = "slow"\n',
}


def run(peryton, directory, placement, kept, seconds):
    """A new volume, and how many writes a second it takes."""
    for name in ("fast.img", "slow.img", "nbd"):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            os.unlink(path)
    fast = "1GiB" if placement == "logging" else "256MiB"
    with open(os.path.join(directory, "design.toml"), "w", encoding="utf-8") as design:
        design.write(DEVICES.format(kept=kept, fast=fast) + PLACEMENTS[placement])
    subprocess.run([peryton, "create", "design.toml"], cwd=directory, check=True, capture_output=True)
    server = subprocess.Popen(
        [peryton, "serve", "design.toml", "--nbd", "nbd"], cwd=directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    while not os.path.exists(os.path.join(directory, "nbd")):
        time.sleep(0.02)
    job = [
        "fio", "--name=job", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={directory}/nbd", "--rw=randwrite", "--bs=4k",
        "--iodepth=32", "--size=400m", "--time_based", f"--runtime={seconds}", "--output-format=json", "--randrepeat=1",
    ]
    report = subprocess.run(job, check=True, capture_output=True, text=True).stdout
    server.terminate()
    server.wait()
    return json.loads(report[report.index("{"):])["jobs"][0]["write"]["iops"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peryton", default="target/release/peryton")
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--directory", default=".")
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    peryton = os.path.abspath(arguments.peryton)
    directory = tempfile.mkdtemp(dir=arguments.directory)
    directory = os.path.abspath(directory)
    try:
        print(f"{'placement':<18} {'off':>10} {'kept':>10} {'ratio':>7}   of each pair")
        for placement in PLACEMENTS:
            if arguments.only not in placement:
                continue
            pairs = []
            for index in range(arguments.pairs):
                order = ("off", "shared-memory") if index % 2 == 0 else ("shared-memory", "off")
                figures = {kept: run(peryton, directory, placement, kept, arguments.seconds) for kept in order}
                pairs.append((figures["off"], figures["shared-memory"]))
            ratios = sorted(kept / off for off, kept in pairs)
            off, kept = (statistics.median(column) for column in zip(*pairs))
            each = " ".join(f"{ratio:.2f}" for ratio in ratios)
            print(f"{placement:<18} {off:>10.0f} {kept:>10.0f} {statistics.median(ratios):>7.3f}   {each}", flush=True)
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
