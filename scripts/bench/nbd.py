#!/usr/bin/env python3
"""Compares Peryton with qemu-nbd: the same fio jobs on the same file system, in turn, in one run.

usage: scripts/bench/nbd.py [--peryton BINARY] [--seconds N] [--rounds N] [--directory DIR] [--json OUT]

Peryton serves a tiering volume whose working set is on its fast device (a file), qemu-nbd a raw file of the same size with
--cache=none --aio=io_uring, both over a unix socket. Figures are medians over the rounds; only their ratios mean much on a
machine that does other things as well. Needs fio and qemu-nbd (Debian: fio, qemu-utils).
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20
SIZE = 1024 * MIB

DESIGN = """
[devices.fast]
profile = "intel-320-300gb"
size = "{fast}MiB"
path = "fast.img"

[devices.slow]
profile = "seagate-st32000641as"
size = "2GiB"
path = "slow.img"

[placement]
mode = "tiering"
fast = "fast"
slow = "slow"
extent = "1MiB"
"""

# name, rw, bs, iodepth, the figure that counts, and its aim as a ratio to qemu-nbd's
LINES = [
    ("4 KiB random read, depth 32", "randread", "4k", 32, "iops", 1.0),
    ("4 KiB random write, depth 32", "randwrite", "4k", 32, "iops", 1.0),
    ("4 KiB random read, depth 1", "randread", "4k", 1, "latency_us", 0.6),
    ("4 KiB random write, depth 1", "randwrite", "4k", 1, "latency_us", 0.6),
    ("1 MiB read, depth 4", "read", "1m", 4, "mib_per_s", 1.0),
    ("1 MiB write, depth 4", "write", "1m", 4, "mib_per_s", 1.0),
]


class Server:
    """A server with a socket, and the processor time that it uses."""

    def __init__(self, name, command, socket, cwd):
        if os.path.exists(socket):
            os.unlink(socket)
        self.name, self.socket = name, socket
        self.process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for _ in range(200):
            if os.path.exists(socket):
                return
            if self.process.poll() is not None:
                sys.exit(f"{name} did not start: {self.process.stderr.read().strip()}")
            time.sleep(0.05)
        sys.exit(f"{name} does not listen on {socket}")

    def cpu_s(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self):
        self.process.terminate()
        self.process.wait()


def fio(server, rw, bs, depth, seconds, more=(), size=SIZE):
    before = server.cpu_s()
    command = ["fio", "--name=t", "--ioengine=nbd", f"--uri=nbd+unix:///?socket={server.socket}", f"--rw={rw}",
               f"--bs={bs}", f"--iodepth={depth}", f"--size={size}", "--output-format=json", *more]
    if seconds:
        command += ["--time_based", f"--runtime={seconds}"]
    out = subprocess.run(command, capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"fio on {server.name}: {(out.stderr or out.stdout).strip()}")
    job = json.loads(out.stdout[out.stdout.index("{"):])["jobs"][0]
    side = job["read" if "read" in rw else "write"]
    return {
        "iops": side["iops"],
        "mib_per_s": side["bw_bytes"] / MIB,
        "latency_us": side["lat_ns"]["mean"] / 1e3,
        "p99_us": side["clat_ns"].get("percentile", {}).get("99.000000", 0) / 1e3,
        "cpu_us_per_request": (server.cpu_s() - before) * 1e6 / max(1, side["total_ios"]),
    }


def bench(measure, show, tools, seconds):
    """The command line of a benchmark of the drive: `measure` fills a directory, `show` prints what it returns."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--peryton", default="target/release/peryton")
    parser.add_argument("--seconds", type=int, default=seconds)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--directory", help="where the files go; a temporary directory otherwise")
    parser.add_argument("--json", help="write all figures to a file")
    args = parser.parse_args()
    for tool in tools:
        if not shutil.which(tool):
            print(f"skipped: {tool} is not installed (Debian: fio, qemu-utils)")
            return
    with tempfile.TemporaryDirectory(dir=args.directory) as directory:
        results = measure(os.path.abspath(args.peryton), directory, args.seconds, args.rounds)
    if args.json:
        json.dump(results, open(args.json, "w"), indent=1)
    show(results)


def median(runs):
    """The medians of several runs, figure by figure."""
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}


def measure(peryton, directory, seconds, rounds):
    design = os.path.join(directory, "bench.toml")
    open(design, "w").write(DESIGN.format(fast=SIZE // MIB + 256))
    subprocess.run([peryton, "create", design], check=True, stdout=subprocess.DEVNULL)
    raw = os.path.join(directory, "raw.img")
    subprocess.run(["truncate", "-s", str(SIZE), raw], check=True)
    ours, theirs = os.path.join(directory, "p.sock"), os.path.join(directory, "q.sock")
    servers = [
        Server("peryton", [peryton, "serve", design, "--nbd", ours], ours, directory),
        Server("qemu-nbd", ["qemu-nbd", "-f", "raw", "--cache=none", "--aio=io_uring", "-k", theirs, "-t", "-e", "4", raw],
               theirs, directory),
    ]
    try:
        for server in servers:
            # Write every byte, so that it is on the device from which it will be read.
            fio(server, "write", "1m", 4, None)
            fio(server, "write", "1m", 4, None)
        results = {}
        for name, rw, bs, depth, _, _ in LINES:
            runs = {server.name: [] for server in servers}
            for _ in range(rounds):
                for server in servers:
                    runs[server.name].append(fio(server, rw, bs, depth, seconds))
            results[name] = {server: median(all_runs) for server, all_runs in runs.items()}
        return results
    finally:
        for server in servers:
            server.stop()


def show(results):
    print(f"{'':30} {'peryton':>10} {'qemu-nbd':>10} {'ratio':>6} {'wanted':>7} {'cpu us/request':>15}")
    for name, _, _, _, key, wanted in LINES:
        ours, theirs = results[name]["peryton"], results[name]["qemu-nbd"]
        ratio = ours[key] / theirs[key]
        sign = "<=" if key == "latency_us" else ">="
        unit = {"iops": "", "latency_us": " us", "mib_per_s": " M/s"}[key]
        cpu = f"{ours['cpu_us_per_request']:.1f} / {theirs['cpu_us_per_request']:.1f}"
        print(f"{name:30} {ours[key]:>8.0f}{unit:<2} {theirs[key]:>8.0f}{unit:<2} {ratio:>6.2f} {sign:>3} {wanted:<3} {cpu:>15}")


if __name__ == "__main__":
    bench(measure, show, ["fio", "qemu-nbd"], seconds=4)
