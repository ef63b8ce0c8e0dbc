#!/usr/bin/env python3
"""Runs the demo's design: a tiering volume on two files, served over NBD, given the first requests of the demo's trace one
after the other, with every read checked; then the drive's own figures beside the simulator's.

usage: scripts/demo.py [--peryton BINARY] [--design FILE] [--trace FILE] [--requests N]
"""

import argparse
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import time

READ, WRITE, DISCONNECT, FLUSH, TRIM = 0, 1, 2, 3, 4


class Nbd:
    """Just enough of NBD: one request at a time, simple replies."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        assert self.exactly(18)[:8] == b"NBDMAGIC"
        self.socket.sendall(struct.pack(">I", 3) + b"IHAVEOPT" + struct.pack(">II", 1, 0))
        self.size = struct.unpack(">Q", self.exactly(10)[:8])[0]
        self.cookie = 0

    def exactly(self, length):
        parts = []
        while length:
            part = self.socket.recv(min(length, 1 << 20))
            if not part:
                sys.exit("the drive hung up")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def ask(self, command, offset, length, data=b""):
        self.cookie += 1
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, command, self.cookie, offset, length) + data)
        magic, error, cookie = struct.unpack(">IIQ", self.exactly(16))
        assert (magic, cookie) == (0x67446698, self.cookie)
        if error:
            sys.exit(f"the drive answered a request at {offset} with error {error}")
        return self.exactly(length) if command == READ else b""

    def close(self):
        self.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, DISCONNECT, 0, 0, 0))
        self.socket.close()


def replay(nbd, requests):
    """Replays, and compares each read with what was written before it; returns how much that was."""
    sectors, zeros, stamp, checked = {}, bytes(512), 0, 0
    for op, offset, length in requests:
        first, last = offset // 512, (offset + length) // 512
        if op == "W":
            data = bytearray()
            for sector in range(first, last):
                stamp += 1
                sectors[sector] = struct.pack("<Q", stamp) * 64
                data += sectors[sector]
            nbd.ask(WRITE, offset, length, bytes(data))
        elif op == "R":
            if nbd.ask(READ, offset, length) != b"".join(sectors.get(sector, zeros) for sector in range(first, last)):
                sys.exit(f"the drive returned other data than was written at {offset}")
            checked += length
        elif op == "F":
            nbd.ask(FLUSH, 0, 0)
        # What a discard leaves is open; leaving it out keeps every read comparable.
    return checked


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peryton", default="target/release/peryton")
    parser.add_argument("--design", default="examples/designs/tiering.toml")
    parser.add_argument("--trace", default="examples/traces/pgbench-ext4.parquet")
    parser.add_argument("--requests", type=int, default=20_000)
    args = parser.parse_args()
    peryton = os.path.abspath(args.peryton)
    lines = subprocess.run([peryton, "trace", "head", args.trace, "-n", str(args.requests)], capture_output=True,
                           text=True, check=True).stdout.splitlines()[1:]
    requests = [(op, int(offset), int(length)) for _, op, offset, length, *_ in (line.split(",") for line in lines)]
    simulated = json.loads(subprocess.run(
        [peryton, "sim", args.design, "--trace", args.trace, "--replay", "sync", "--limit", str(args.requests),
         "--json", "-"], capture_output=True, text=True, check=True).stdout)[0]
    with tempfile.TemporaryDirectory(prefix="peryton-demo-") as directory:
        status, checked, seconds = serve(peryton, args.design, directory, requests)
    print(f"\nServed {args.design} on two files: {len(requests)} requests in {seconds:.1f} s, "
          f"{checked >> 20} MiB read back and compared.")
    show(simulated, status)


def serve(peryton, design, directory, requests):
    paths = [f"devices.{name}.path={directory}/{name}.img" for name in ("ssd", "hdd")]
    settings = [part for path in paths for part in ("--set", path)]
    subprocess.run([peryton, "format", design, *settings], check=True, stdout=subprocess.DEVNULL)
    nbd_path, control = f"{directory}/nbd", f"{directory}/control"
    server = subprocess.Popen([peryton, "serve", design, *settings, "--nbd", nbd_path, "--control", control],
                              stdout=subprocess.DEVNULL, env={**os.environ, "PERYTON_LOG": "warn"})
    try:
        for _ in range(200):
            if os.path.exists(control) or server.poll() is not None:
                break
            time.sleep(0.05)
        nbd = Nbd(nbd_path)
        began = time.monotonic()
        checked = replay(nbd, requests)
        seconds = time.monotonic() - began
        nbd.close()
        status = json.loads(subprocess.run([peryton, "status", control, "--json"], capture_output=True, text=True,
                                           check=True).stdout)
    finally:
        server.terminate()
        server.wait()
    if server.returncode != 0:
        sys.exit("the drive did not close in good order")
    return status, checked, seconds


def show(simulated, status):
    ledger, traffic = status["ledger"], status["traffic"]
    latency, moves = simulated["latency_us"], simulated.get("moves", {})

    def total(device, key):
        row = list(status["devices"]).index(device)
        return sum(ledger["devices"][row][key])

    rows = [
        ("hits on the fast device", f"{simulated['fast_hit_ratio']:.4f}", f"{status['fast_hit_ratio']:.4f}"),
        ("promotions", moves.get("promotions"), ledger["moves"]["promotions"]),
        ("demotions", moves.get("demotions"), ledger["moves"]["demotions"]),
    ]
    for name in status["devices"]:
        for key in ("reads", "writes"):
            rows.append((f"{name}: {key}", simulated["devices"][name][key], total(name, key)))
    for kind in ("read", "write"):
        rows.append((f"mean {kind}, us (the simulator's devices are others)", f"{latency[kind]['mean']:.0f}",
                     f"{traffic[kind]['mean_us']:.0f}"))
    print(f"{'':52} {'simulated':>12} {'served':>12}")
    for name, one, other in rows:
        print(f"{name:52} {one!s:>12} {other!s:>12}")


if __name__ == "__main__":
    main()
