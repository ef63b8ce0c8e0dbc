#!/usr/bin/env python3
"""Measures how scrapes of metrics delay requests: small reads of one volume without scrapers, with one that asks once a second, as
Prometheus may, with four that ask again as soon as they have an answer, and with four that take no answer.

usage: scripts/bench/scrapes.py [--peryton BINARY] [--seconds N] [--rounds N] [--directory DIR] [--json OUT]

The script needs fio (Debian: fio).
"""

import os
import socket
import subprocess
import threading
import time

from nbd import MIB, Server, bench, fio, median

DESIGN = """
[devices.fast]
profile = "fixed"
size = "256MiB"
path = "fast.img"

[devices.slow]
profile = "fixed"
size = "1GiB"
path = "slow.img"

[placement]
mode = "caching"
fast = "fast"
slow = "slow"
extent = "1MiB"
"""
SIZE = 128 * MIB
REQUEST = b"GET /metrics HTTP/1.1\r\nAccept: application/openmetrics-text;version=1.0.0\r\n\r\n"
CASES = ["no scraper", "one a second", "four without pause", "four that do not read"]


def scrape(path, case, ended, count):
    while not ended.is_set():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(path)
            try:
                connection.sendall(REQUEST)
                if case == CASES[3]:
                    ended.wait(1)
                    continue
                while connection.recv(1 << 16):
                    pass
                count.append(1)
            except OSError:
                pass
        if case == CASES[1]:
            ended.wait(1)


def measure(peryton, directory, seconds, rounds):
    design, metrics = os.path.join(directory, "bench.toml"), os.path.join(directory, "m.sock")
    open(design, "w").write(DESIGN)
    subprocess.run([peryton, "create", design], check=True, stdout=subprocess.DEVNULL)
    server = Server("peryton", [peryton, "serve", design, "--metrics", f"unix:{metrics}"], os.path.join(directory, "bench.nbd"), directory)
    try:
        fio(server, "write", "1m", 4, None, size=SIZE)
        runs = {case: [] for case in CASES}
        for _ in range(rounds):
            for case in CASES:
                ended, count = threading.Event(), []
                scrapers = 0 if case == CASES[0] else 1 if case == CASES[1] else 4
                threads = [threading.Thread(target=scrape, args=(metrics, case, ended, count)) for _ in range(scrapers)]
                for thread in threads:
                    thread.start()
                began = time.monotonic()
                run = fio(server, "randread", "4k", 4, seconds, size=SIZE)
                took = time.monotonic() - began
                ended.set()
                for thread in threads:
                    thread.join()
                runs[case].append({**run, "scrapes_per_s": len(count) / took})
        return {case: median(all_runs) for case, all_runs in runs.items()}
    finally:
        server.stop()


def show(results):
    first = results[CASES[0]]
    print(f"{'scrapers':24} {'scrapes/s':>9} {'reads/s':>9} {'mean us':>8} {'p99 us':>8} {'p99, of that without':>21}")
    for name, run in results.items():
        print(f"{name:24} {run['scrapes_per_s']:>9.1f} {run['iops']:>9.0f} {run['latency_us']:>8.0f} {run['p99_us']:>8.0f} "
              f"{run['p99_us'] / max(first['p99_us'], 1e-9):>20.2f}x")


if __name__ == "__main__":
    bench(measure, show, ["fio"], seconds=6)
