#!/usr/bin/env python3
"""Measures what the page of a volume costs: small reads of a volume that is served without --http, with it while nobody looks, with
one open page, and with four that ask again as soon as they have an answer; and the processor time of the thread that owns the volume,
and of all others, while nothing is read.

usage: scripts/bench/page.py [--peryton BINARY] [--seconds N] [--rounds N] [--directory DIR] [--json OUT]

A page is stood for by a program that asks as it does: once for the page, then each second for what is new. The rounds of all cases
alternate. The script needs fio (Debian: fio).
"""

import json
import os
import socket
import subprocess
import threading
import time

from nbd import MIB, Server, bench, fio, median
from scrapes import DESIGN

SIZE = 128 * MIB
# The name of a case, whether the server has --http, the pages, and the pause between their questions.
CASES = [("without --http", False, 0, 0), ("nobody looks", True, 0, 0), ("one page", True, 1, 1), ("four without pause", True, 4, 0)]


def get(path, what):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(path)
        connection.sendall(f"GET {what} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = bytearray()
        while part := connection.recv(1 << 16):
            answer += part
    return bytes(answer).split(b"\r\n\r\n", 1)[1]


def look(path, pause, ended, count):
    row, event = 0, 0
    while not ended.is_set():
        try:
            if not count:
                get(path, "/")
            report = json.loads(get(path, f"/live.json?since={row}&events={event}"))
            row, event = max([row, *(one["number"] for one in report["rows"])]), report["last_event"]
            count.append(1)
        except (OSError, ValueError, IndexError):
            pass
        ended.wait(pause)


def used_ns(server):
    """The processor time of the thread that owns the volume, and of all others, those that have ended included."""
    pid = server.process.pid
    own = int(open(f"/proc/{pid}/task/{pid}/schedstat").read().split()[0])
    # Linux's number of the processor-time clock of a process (clock_getcpuclockid).
    return own, time.clock_gettime_ns((~pid << 3) | 2) - own


def with_pages(path, pages, pause, work):
    ended, counts = threading.Event(), [[] for _ in range(pages)]
    threads = [threading.Thread(target=look, args=(path, pause, ended, count)) for count in counts]
    for thread in threads:
        thread.start()
    began = time.monotonic()
    result = work()
    took = time.monotonic() - began
    ended.set()
    for thread in threads:
        thread.join()
    return {**result, "answers_per_s": sum(map(len, counts)) / took}


def idle(server, seconds):
    # What came before is done, and what polls has begun to sleep.
    time.sleep(1)
    before = used_ns(server)
    time.sleep(seconds)
    own, others = (after - first for first, after in zip(before, used_ns(server)))
    return {"idle_volume_us_per_s": own / 1e3 / seconds, "idle_others_us_per_s": others / 1e3 / seconds}


def measure(peryton, directory, seconds, rounds):
    http = os.path.join(directory, "page.sock")
    servers = []
    try:
        for has_page in [False, True]:
            folder = os.path.join(directory, "with" if has_page else "without")
            os.makedirs(folder, exist_ok=True)
            design = os.path.join(folder, "bench.toml")
            open(design, "w").write(DESIGN)
            subprocess.run([peryton, "create", design, "--force"], check=True, stdout=subprocess.DEVNULL)
            command = [peryton, "serve", design, *(["--http", f"unix:{http}"] if has_page else [])]
            servers.append(Server("peryton", command, os.path.join(folder, "bench.nbd"), folder))
            fio(servers[-1], "write", "1m", 4, None, size=SIZE)
        runs = {name: [] for name, *_ in CASES}
        for _ in range(rounds):
            for name, has_page, pages, pause in CASES:
                server = servers[has_page]
                run = with_pages(http, pages, pause, lambda: fio(server, "randread", "4k", 4, seconds, size=SIZE))
                rest = with_pages(http, pages, pause, lambda: idle(server, seconds))
                runs[name].append({**rest, **run})
        return {name: median(all_runs) for name, all_runs in runs.items()}
    finally:
        for server in servers:
            server.stop()


def show(results):
    first = results[CASES[0][0]]
    print(f"{'':20} {'answers/s':>9} {'reads/s':>8} {'of that without':>15} {'mean us':>8} {'p99 us':>7} {'idle: volume us/s':>18} {'others us/s':>11}")
    for name, run in results.items():
        print(f"{name:20} {run['answers_per_s']:>9.1f} {run['iops']:>8.0f} {run['iops'] / first['iops']:>15.3f} {run['latency_us']:>8.0f} "
              f"{run['p99_us']:>7.0f} {run['idle_volume_us_per_s']:>18.0f} {run['idle_others_us_per_s']:>11.0f}")


if __name__ == "__main__":
    bench(measure, show, ["fio"], seconds=6)
