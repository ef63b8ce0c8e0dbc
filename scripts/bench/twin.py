#!/usr/bin/env python3
"""Compares a drive in service with its twin: three workloads, each run several times, on files with delays and on files as they are.

usage: scripts/bench/twin.py [--peryton BINARY] [--rounds N] [--requests N] [--memory DIRECTORY] [--disk DIRECTORY] [--profile FILE]

For each workload it prints the mean of what the runs measured, how far the runs are apart, and how far the twin is from each run. The models
have constant times: the medians of what each device's commands took in a run of another seed. With --profile, which `peryton calibrate DIRECTORY`
makes, one device is a file on the disk and modelled by it, and the other one is in memory: the fast one as it is or, with --fast-on-disk, the slow one
with its delay. With both on one disk, each would end the rests of the other, which no model of one device knows.

Before a run all of the volume is written, and then every place of the cache, because what was never written is not read from a disk.
"""

import argparse
import json
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from nbd_client import Nbd  # noqa: E402

DESIGN = """
[devices.ssd]
profile = 'fixed'
size = '32MiB'
path = 'FAST/ssd.img'
model = { read = '1ms', write = '1ms', parallelism = 64 }
[devices.hdd]
profile = 'fixed'
size = '64MiB'
path = 'SLOW/hdd.img'
model = { read = '6ms', write = '6ms', parallelism = 64 }
[placement]
mode = 'caching'
fast = 'ssd'
slow = 'hdd'
extent = '64KiB'
promotion = { threshold = 1 }
demotion = { low = 4, high = 8 }
"""
# Of the devices, in microseconds.
LAGS_US = [(0, 1000), (1, 6000)]
# The workload, and its number of clients.
WORKLOADS = [("hot", 1), ("zipf", 4), ("seq", 2)]
BLOCK = 4096
EXTENT = 64 << 10
FAST_MIB, SLOW_MIB = 32, 64
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


def ask_as(path, kind, requests, seed):
    client, draw, next_block = Nbd(path), random.Random(seed), 0
    blocks = client.size // BLOCK
    for number in range(requests):
        if kind == "hot":
            block, reads = draw.randrange(blocks // 10 if draw.random() < 0.8 else blocks), draw.random() < 0.6
        elif kind == "zipf":
            block, reads = int(draw.paretovariate(0.9) * 7) % blocks * 7919 % blocks, draw.random() < 0.8
        else:
            next_block = (next_block + 1) % blocks if draw.random() < 0.9 else draw.randrange(blocks)
            block, reads = next_block, draw.random() < 0.3
        if reads:
            assert client.read(block * BLOCK, BLOCK) is not None
        else:
            client.write(block * BLOCK, bytes([number % 256]) * BLOCK)
        if number % (200 if kind == "hot" else 50) == 49:
            client.flush()
        time.sleep(draw.random() * 0.004)


def control(path, request):
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
        client.sendall(json.dumps(request).encode() + b"\n")
        assert json.loads(client.recv(1 << 16))["ok"]


def serve(peryton, design, *more):
    server = subprocess.Popen([peryton, "serve", "--drills", design, *more], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    server.stdout.readline()
    return server


def stop(server):
    server.send_signal(signal.SIGTERM)
    assert server.wait() == 0


def fill(path):
    """Writes all of the volume, one extent after the other and then in another order, so that all places of the cache are written as well."""
    client, extents = Nbd(path), list(range(SLOW_MIB * 16 - 1))
    for _ in range(3):
        for extent in extents:
            client.write(extent * EXTENT, os.urandom(EXTENT))
        random.Random(1).shuffle(extents)
    client.flush()


def run(peryton, folders, kind, clients, requests, seed, name, lags):
    """Serves a new volume that was filled, lets the clients ask, and leaves a recording. `folders`: those of the fast and of the slow device."""
    at = lambda file: os.path.join(folders[1], file)  # noqa: E731
    for folder, file, mib in zip(folders, ["ssd.img", "hdd.img"], [FAST_MIB, SLOW_MIB]):
        with open(os.path.join(folder, file), "wb") as image:
            image.truncate(mib << 20)
    subprocess.run([peryton, "create", at("v.toml"), "--force"], check=True, capture_output=True)
    filling = serve(peryton, at("v.toml"))
    fill(at("v.nbd"))
    subprocess.run([peryton, "writeback", at("v.toml"), "--wait"], check=True, capture_output=True)
    stop(filling)
    server = serve(peryton, at("v.toml"), "--record", at(name))
    for device, lag_us in lags:
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
    stop(server)


def twin(peryton, recording, models):
    """`models`: arguments of peryton twin."""
    command = [peryton, "twin", recording, "--json", *models]
    figures = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["figures"]
    return {figure["figure"]: figure for figure in figures}


def measured_times(peryton, folders, kind, clients, requests, lags, devices):
    """Settings of the models: the medians of what commands took in a run of another seed."""
    other = os.path.join(folders[1], "other.recording")
    run(peryton, folders, kind, clients, requests, 99, other, lags)
    found, models = twin(peryton, other, []), []
    for device in devices:
        for kind, key in [("reads", "read"), ("writes", "write")]:
            us = found[f"{device}: a command, {kind}, median"]["measured"]
            models += ["--set", f"devices.{device}.model.{key}={us * 1000:.0f}ns"]
    return models


def compare(peryton, folders, lags, rounds, requests, profile):
    """`profile`: the device that it is of, and the file."""
    with open(os.path.join(folders[1], "v.toml"), "w") as design:
        design.write(DESIGN.replace("FAST", folders[0]).replace("SLOW", folders[1]))
    if not profile:
        models = measured_times(peryton, folders, *WORKLOADS[0], requests, lags, ["ssd", "hdd"])
    for kind, clients in WORKLOADS:
        if profile:
            # What memory takes depends on how busy the processors are.
            others = [device for device in ["ssd", "hdd"] if device != profile[0]]
            models = measured_times(peryton, folders, kind, clients, requests, lags, others)
            models += ["--profile", f"{profile[0]}={os.path.abspath(profile[1])}"]
        rows = {}
        for number in range(rounds):
            recording = os.path.join(folders[1], f"{kind}-{number}.recording")
            run(peryton, folders, kind, clients, requests, 7, recording, lags)
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
    parser.add_argument("--fast-on-disk", action="store_true")
    arguments = parser.parse_args()
    peryton = os.path.abspath(arguments.peryton)
    memory, disk = map(os.path.abspath, [arguments.memory, arguments.disk])
    kinds = [("with delays", [memory, memory], LAGS_US, None), ("on the disk", [disk, disk], [], None)]
    if arguments.profile and arguments.fast_on_disk:
        kinds = [("the fast device on the disk", [disk, memory], LAGS_US[1:], ("ssd", arguments.profile))]
    elif arguments.profile:
        kinds = [("the slow device on the disk", [memory, disk], [], ("hdd", arguments.profile))]
    for title, folders, lags, profile in kinds:
        for folder in folders:
            os.makedirs(folder, exist_ok=True)
        print(f"\n{title}\n\n| workload | figure | measured | runs apart | twin |\n|---|---|---|---|---|")
        compare(peryton, folders, lags, arguments.rounds, arguments.requests, profile)


if __name__ == "__main__":
    main()
