#!/usr/bin/env python3
"""Measures how background moves delay requests: the 99th percentile of small reads from the fast device, while another client
reads the slow one at a steady rate, with and without moving the extents that it reads.

usage: scripts/bench/moves.py [--peryton BINARY] [--seconds N] [--rounds N] [--directory DIR] [--json OUT]

It uses one tiering volume on two files and changes its settings while it runs: no moves, then up to 1, 4 and 16 at a time (MCML).
The other client does the same in all cases. The script needs fio (Debian: fio).
"""

import json
import os
import subprocess
import threading

from nbd import MIB, Server, bench, fio, median

DESIGN = """
[devices.fast]
profile = "intel-320-300gb"
size = "768MiB"
path = "fast.img"

[devices.slow]
profile = "seagate-st32000641as"
size = "4GiB"
path = "slow.img"

[placement]
mode = "tiering"
fast = "fast"
slow = "slow"
extent = "1MiB"
max_moves = 16
demotion = { low = 32, high = 64 }
"""
HOT = 384 * MIB
COLD_AT, COLD = 1024 * MIB, 3072 * MIB
# The thresholds: never promote, or promote at the first access.
CASES = [("no moves", 1_000_000, 16), ("up to 1", 0, 1), ("up to 4", 0, 4), ("up to 16", 0, 16)]
COUNTED = ["promotions", "demotions"]


def moves(peryton, design):
    status = json.loads(subprocess.run([peryton, "status", design, "--json"], check=True, capture_output=True).stdout)
    return sum(status["ledger"]["moves"][name] for name in COUNTED)


def measure(peryton, directory, seconds, rounds):
    design = os.path.join(directory, "bench.toml")
    open(design, "w").write(DESIGN)
    subprocess.run([peryton, "create", design], check=True, stdout=subprocess.DEVNULL)
    socket, control = os.path.join(directory, "bench.nbd"), os.path.join(directory, "bench.control")
    server = Server("peryton", [peryton, "serve", design], socket, directory)
    try:
        # The hot part is written first, so it lies on the fast device; the cold part fills the rest of it and the slow device.
        fio(server, "write", "1m", 4, None, size=HOT)
        fio(server, "write", "1m", 4, None, ["--offset", str(COLD_AT)], size=COLD)
        runs = {name: [] for name, _, _ in CASES}
        for _ in range(rounds):
            for name, threshold, most in CASES:
                settings = [f"placement.promotion.threshold={threshold}", f"placement.max_moves={most}"]
                subprocess.run([peryton, "set", design, *settings], check=True, stdout=subprocess.DEVNULL)
                # Wait until the extents that the last case demoted are back before this case is measured.
                fio(server, "read", "1m", 1, None, size=HOT)
                fio(server, "read", "1m", 1, None, size=HOT)
                more = ["--offset", str(COLD_AT), "--rate_iops=400", "--randseed=7"]
                other = threading.Thread(target=fio, args=(server, "randread", "64k", 16, seconds + 1, more),
                                         kwargs={"size": COLD})
                before = moves(peryton, design)
                other.start()
                run = fio(server, "randread", "4k", 4, seconds, size=HOT)
                other.join()
                runs[name].append({**run, "moves_per_s": (moves(peryton, design) - before) / (seconds + 1)})
        return {name: median(all_runs) for name, all_runs in runs.items()}
    finally:
        server.stop()


def show(results):
    first = results[CASES[0][0]]
    print(f"{'moves at a time':20} {'moves/s':>8} {'reads/s':>9} {'mean us':>8} {'p99 us':>8} {'p99, of that without':>21}")
    for name, run in results.items():
        print(f"{name:20} {run['moves_per_s']:>8.1f} {run['iops']:>9.0f} {run['latency_us']:>8.0f} {run['p99_us']:>8.0f} "
              f"{run['p99_us'] / max(first['p99_us'], 1e-9):>20.2f}x")


if __name__ == "__main__":
    bench(measure, show, ["fio"], seconds=6)
