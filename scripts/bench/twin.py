#!/usr/bin/env python3
"""Compares a drive in service with its twin: three workloads, each run several times, on files with delays and on files as they are.

usage: scripts/bench/twin.py [--peryton BINARY] [--rounds N] [--requests N] [--memory DIRECTORY] [--disk DIRECTORY] [--profile FILE]

For each workload it prints the mean of what the runs measured, how far the runs are apart, and how far the twin is from each run. The models
have constant times: the medians of what each device's commands took in a run of another seed. With --profile, which `peryton calibrate DIRECTORY`
makes, only the files on the disk are compared, and both are modelled by it, with the medians of what flushes took.
"""

import argparse
import json
import os
import random
import signal
import socket
import struct
import subprocess
import threading
import time

DESIGN = """
[devices.ssd]
profile = 'fixed'
size = '32MiB'
path = 'ssd.img'
model = { read = '1ms', write = '1ms', parallelism = 64 }
[devices.hdd]
profile = 'fixed'
size = '64MiB'
path = 'hdd.img'
model = { read = '6ms', write = '6ms', parallelism = 64 }
[placement]
mode = 'caching'
fast = 'ssd'
slow = 'hdd'
extent = '64KiB'
promotion = { threshold = 1 }
demotion = { low = 4, high = 8 }
"""
LAGS_US = [1000, 6000]
# The workload, and its number of clients.
WORKLOADS = [("hot", 1), ("zipf", 4), ("seq", 2)]
READ, WRITE, FLUSH = 0, 1, 3
BLOCK = 4096
SHOWN = [
    "fast hit ratio",
    "promotions",
    "ssd: reads",
    "ssd: written",
    "hdd: reads",
    "hdd: read",
    "all requests: mean",
    "all requests: median",
    "all requests: p99",
]


class Client:
    """A client of NBD with one request at a time."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.receive(18)
        self.socket.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 0))
        self.size = struct.unpack(">Q", self.receive(10)[:8])[0]

    def receive(self, count):
        data = b""
        while len(data) < count:
            data += (more := self.socket.recv(count - len(data)))
            assert more, "the server has gone"
        return data

    def ask(self, command, offset, length, data=b""):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, command, 1, offset, length) + data)
        assert struct.unpack(">I", self.receive(16)[4:8])[0] == 0
        if command == READ:
            self.receive(length)


def ask_as(path, kind, requests, seed):
    client, draw, next_block = Client(path), random.Random(seed), 0
    blocks = client.size // BLOCK
    for number in range(requests):
        if kind == "hot":
            block, reads = draw.randrange(blocks // 10 if draw.random() < 0.8 else blocks), draw.random() < 0.6
        elif kind == "zipf":
            block, reads = int(draw.paretovariate(0.9) * 7) % blocks * 7919 % blocks, draw.random() < 0.8
        else:
            next_block = (next_block + 1) % blocks if draw.random() < 0.9 else draw.randrange(blocks)
            block, reads = next_block, draw.random() < 0.3
        client.ask(READ if reads else WRITE, block * BLOCK, BLOCK, b"" if reads else bytes([number % 256]) * BLOCK)
        if number % (200 if kind == "hot" else 50) == 49:
            client.ask(FLUSH, 0, 0)
        time.sleep(draw.random() * 0.004)


def control(path, request):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(json.dumps(request).encode() + b"\n")
        assert json.loads(client.recv(1 << 16))["ok"]


def run(peryton, folder, kind, clients, requests, seed, name, lags):
    """Serves a new volume, lets the clients ask, and leaves a recording."""
    at = lambda file: os.path.join(folder, file)  # noqa: E731
    for file, mib in [("ssd.img", 32), ("hdd.img", 64)]:
        # Of a file that was never written nothing is read from the disk.
        with open(at(file), "wb") as image:
            for _ in range(mib):
                image.write(os.urandom(1 << 20))
            os.fsync(image.fileno())
    subprocess.run([peryton, "format", at("v.toml"), "--force"], check=True, capture_output=True)
    server = subprocess.Popen(
        [peryton, "serve", at("v.toml"), "--record", at(name)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    server.stdout.readline()
    for device, lag_us in enumerate(lags):
        for only in ["reads", "writes"]:
            fault = {"device": device, "only": only, "effect": "lag", "lag_us": lag_us}
            control(at("v.control"), {"verb": "fault", "fault": fault})
    asked = [
        threading.Thread(target=ask_as, args=(at("v.nbd"), kind, requests // clients, seed * 100 + number))
        for number in range(clients)
    ]
    for thread in asked:
        thread.start()
    for thread in asked:
        thread.join()
    server.send_signal(signal.SIGTERM)
    assert server.wait() == 0


def twin(peryton, recording, models):
    """`models`: arguments of peryton twin."""
    command = [peryton, "twin", recording, "--json", *models]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["figures"]
    return {figure["figure"]: figure for figure in figures}


def measured_times(peryton, folder, lags, requests, kinds):
    """Settings of the models: the medians of what commands of these kinds took in a run of another seed."""
    other = os.path.join(folder, "other.recording")
    run(peryton, folder, "hot", 1, requests, 99, other, lags)
    found, models = twin(peryton, other, []), []
    for device in ["ssd", "hdd"]:
        for kind, key in kinds:
            us = found[f"{device}: a command, {kind}, median"]["measured"]
            models += ["--set", f"devices.{device}.model.{key}={us * 1000:.0f}ns"]
    return models


def compare(peryton, folder, lags, rounds, requests, profile):
    open(os.path.join(folder, "v.toml"), "w").write(DESIGN)
    if profile:
        # Flushes are not part of what is calibrated.
        models = measured_times(peryton, folder, lags, requests, [("flushes", "flush")])
        models += [word for device in ["ssd", "hdd"] for word in ("--profile", f"{device}={os.path.abspath(profile)}")]
    else:
        models = measured_times(peryton, folder, lags, requests, [("reads", "read"), ("writes", "write")])
    for kind, clients in WORKLOADS:
        rows = {}
        for number in range(rounds):
            recording = os.path.join(folder, f"{kind}-{number}.recording")
            run(peryton, folder, kind, clients, requests, 7, recording, lags)
            for name, figure in twin(peryton, recording, models).items():
                rows.setdefault(name, []).append(figure)
        for name in SHOWN:
            measured = [row["measured"] for row in rows[name]]
            mean = sum(measured) / len(measured)
            spread = (max(measured) - min(measured)) / mean * 100
            apart = ", ".join(f"{row['difference'] * 100:+.1f}" for row in rows[name])
            print(f"| {kind} | {name} | {mean:.4g} | {spread:.1f} % | {apart} % |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peryton", default="target/release/peryton")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=2000)
    parser.add_argument("--memory", default="/dev/shm/peryton-twin")
    parser.add_argument("--disk", default="/var/tmp/peryton-twin")
    parser.add_argument("--profile")
    arguments = parser.parse_args()
    peryton = os.path.abspath(arguments.peryton)
    on_disk = (arguments.disk, [])
    for folder, lags in [on_disk] if arguments.profile else [(arguments.memory, LAGS_US), on_disk]:
        os.makedirs(folder, exist_ok=True)
        print(f"\n{'with delays' if lags else 'as they are'}\n\n| workload | figure | measured | runs apart | twin |\n|---|---|---|---|---|")
        compare(peryton, folder, lags, arguments.rounds, arguments.requests, arguments.profile)


if __name__ == "__main__":
    main()
