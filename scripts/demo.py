#!/usr/bin/env python3
"""Runs a small tiering volume on two files, in about twenty seconds. Data that are used often move to the fast file; then the
script kills the drive in the middle of its work and checks every block.

It needs Python and the built command. It needs neither root nor any other tool.

usage: scripts/demo.py [--peryton BINARY] [--design FILE] [--seconds N] [--seed N]
"""

import argparse
import json
import os
import random
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib

READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
BLOCK = 4096
MIB = 1 << 20
WRITTEN = 256 * MIB  # The part of the volume that the demo uses.
HOT = 40 * MIB  # The part that is used often at a time. It fits the fast device; all data do not.
RATE = 500  # Requests a second.
FLUSH_EVERY = 50  # Requests between two flushes.
IN_FLIGHT = 64  # Writes in flight when the drive is killed.


class Nbd:
    """The part of NBD that the demo needs: simple replies, which `ask` expects in the order of its requests."""

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
            part = self.socket.recv(min(length, MIB))
            if not part:
                sys.exit("the drive hung up")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def send(self, command, offset=0, length=0, data=b""):
        self.cookie += 1
        header = struct.pack(">IHHQQI", 0x25609513, 0, command, self.cookie, offset, length)
        self.socket.sendall(header + data)

    def ask(self, command, offset=0, length=0, data=b""):
        self.send(command, offset, length, data)
        magic, error, cookie = struct.unpack(">IIQ", self.exactly(16))
        assert (magic, cookie) == (0x67446698, self.cookie)
        if error:
            sys.exit(f"the drive answered a request at {offset} with error {error}")
        return self.exactly(length) if command == READ else b""

    def close(self):
        self.send(DISCONNECT)
        self.socket.close()


class Drive:
    """The drive as a separate process, on two files in a folder."""

    def __init__(self, peryton, design, folder):
        self.peryton, self.design = peryton, design
        paths = [f"devices.{name}.path={folder}/{name}.img" for name in ("ssd", "hdd")]
        self.settings = [part for path in paths for part in ("--set", path)]
        self.nbd, self.control = f"{folder}/nbd", f"{folder}/control"
        self.process = None

    def format(self):
        subprocess.run([self.peryton, "create", self.design, *self.settings], check=True, stdout=subprocess.DEVNULL)

    def start(self):
        for path in (self.nbd, self.control):
            if os.path.exists(path):
                os.remove(path)
        self.process = subprocess.Popen(
            [self.peryton, "serve", self.design, *self.settings, "--nbd", self.nbd, "--control", self.control],
            stdout=subprocess.DEVNULL, env={**os.environ, "PERYTON_LOG": "error"})
        deadline = time.monotonic() + 30
        while not os.path.exists(self.control):
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit("the drive did not start")
            time.sleep(0.01)
        return Nbd(self.nbd)

    def status(self):
        answer = subprocess.run([self.peryton, "status", self.design, "--control", self.control, "--json"], capture_output=True, text=True,
                                check=True)
        return json.loads(answer.stdout)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        self.process.terminate()
        if self.process.wait() != 0:
            sys.exit("the drive did not close in good order")


class Blocks:
    """The blocks that were written: each holds its number, the number of its version, and a checksum of both."""

    def __init__(self):
        self.version = 0
        self.flushed = {}  # The version of each block that the last flush covered.
        self.since = {}  # The versions that were sent after it.

    def data(self, block):
        self.version += 1
        self.since.setdefault(block, []).append(self.version)
        body = struct.pack("<QQ", block, self.version) * (BLOCK // 16 - 1)
        return body + struct.pack("<QQ", block, zlib.crc32(body))

    def flush(self):
        self.flushed.update((block, versions[-1]) for block, versions in self.since.items())
        self.since.clear()

    def check(self, block, data):
        """Returns the version, which is the last one flushed or one sent after it; ends the program at any other."""
        found, version = struct.unpack_from("<QQ", data)
        whole = struct.unpack_from("<QQ", data, BLOCK - 16) == (found, zlib.crc32(data[:-16]))
        if not whole or found != block or version not in [self.flushed[block], *self.since.get(block, [])]:
            sys.exit(f"LOST: block {block} should hold version {self.flushed[block]} and holds something else")
        return version


def fill(nbd, blocks, requests):
    step = MIB // BLOCK
    for first in range(0, WRITTEN // BLOCK, step):
        data = b"".join(blocks.data(block) for block in range(first, first + step))
        nbd.ask(WRITE, first * BLOCK, len(data), data)
        requests.append((time.monotonic(), "W", first * BLOCK, len(data)))
    nbd.ask(FLUSH)
    blocks.flush()


def busy(drive, nbd, blocks, chance, hot, seconds, name, requests):
    """Reads and writes for some seconds, nine times out of ten in the hot part, and prints a line about each second."""
    before = drive.status()["ledger"]
    for second in range(seconds):
        began = time.monotonic()
        for number in range(RATE):
            part = hot if chance.random() < 0.9 else (0, WRITTEN)
            block = chance.randrange(part[0] // BLOCK, part[1] // BLOCK)
            if chance.random() < 0.7:
                blocks.check(block, nbd.ask(READ, block * BLOCK, BLOCK))
                requests.append((time.monotonic(), "R", block * BLOCK, BLOCK))
            else:
                nbd.ask(WRITE, block * BLOCK, BLOCK, blocks.data(block))
                requests.append((time.monotonic(), "W", block * BLOCK, BLOCK))
            if number % FLUSH_EVERY == 0:
                nbd.ask(FLUSH)
                blocks.flush()
                requests.append((time.monotonic(), "F", 0, 0))
            time.sleep(max(0.0, began + number / RATE - time.monotonic()))
        now = drive.status()["ledger"]
        hits, misses = now["fast_hits"] - before["fast_hits"], now["fast_misses"] - before["fast_misses"]
        share = 100 * hits / max(hits + misses, 1)
        promoted = now["moves"]["promotions"] - before["moves"]["promotions"]
        demoted = now["moves"]["demotions"] - before["moves"]["demotions"]
        bar = "#" * round(share / 4)
        print(f"  {name:8} {second + 1:3} s   {share:4.0f} % {bar:25} {promoted:6} {demoted:6}", flush=True)
        before = now


def kill_in_the_middle(drive, nbd, blocks, chance, hot):
    """Sends writes without waiting for their answers, and kills the drive while it works on them."""
    for _ in range(IN_FLIGHT):
        block = chance.randrange(hot[0] // BLOCK, hot[1] // BLOCK)
        nbd.send(WRITE, block * BLOCK, BLOCK, blocks.data(block))
    drive.kill()
    nbd.socket.close()


def check_all(nbd, blocks):
    newer, step = 0, MIB // BLOCK
    for first in range(0, WRITTEN // BLOCK, step):
        data = nbd.ask(READ, first * BLOCK, MIB)
        for index in range(step):
            version = blocks.check(first + index, data[index * BLOCK:(index + 1) * BLOCK])
            newer += version != blocks.flushed[first + index]
    return newer


def simulated(peryton, design, folder, requests):
    """Runs the same requests in the simulator."""
    path, start = f"{folder}/demo.csv", requests[0][0]
    with open(path, "w") as trace:
        trace.write("time_us,op,offset,length\n")
        for at, op, offset, length in requests:
            trace.write(f"{(at - start) * 1e6:.3f},{op},{offset},{length}\n")
    answer = subprocess.run([peryton, "sim", design, "--trace", path, "--replay", "sync", "--json", "-"], capture_output=True, text=True,
                            check=True)
    return json.loads(answer.stdout)[0]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peryton", default="target/demo/peryton")
    parser.add_argument("--design", default="examples/demo.toml")
    parser.add_argument("--seconds", type=int, default=6, help="for each of the two hot parts")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    peryton, chance = os.path.abspath(args.peryton), random.Random(args.seed)
    first, second = (0, HOT), (WRITTEN // 2, WRITTEN // 2 + HOT)
    with tempfile.TemporaryDirectory(prefix="peryton-demo-") as folder:
        drive, blocks, requests = Drive(peryton, args.design, folder), Blocks(), []
        drive.format()
        try:
            nbd = drive.start()
            print(f"\nNow for real: {args.design} on two files, served over NBD. The volume has {nbd.size // MIB} MiB, the "
                  f"fast device 64.\nThe client fills {WRITTEN // MIB} MiB with blocks that carry checksums.", flush=True)
            fill(nbd, blocks, requests)
            print(f"Then it works on {HOT // MIB} MiB of them, which lie on the slow device, {RATE} requests a second. What is "
                  f"used\nmoves to the fast device, and what is not makes room:\n")
            print(f"  {'hot part':8} {'':5}   {'served by the fast device':32} {'moved up':>6} {'down':>5}")
            busy(drive, nbd, blocks, chance, first, args.seconds, "first", requests)
            print(f"  Now another {HOT // MIB} MiB are hot.")
            busy(drive, nbd, blocks, chance, second, args.seconds, "second", requests)
            ledger = drive.status()["ledger"]
            kill_in_the_middle(drive, nbd, blocks, chance, second)
            print(f"\nkill -9, with {IN_FLIGHT} writes in flight. The drive starts again ...", flush=True)
            began = time.monotonic()
            nbd = drive.start()
            took = time.monotonic() - began
            newer = check_all(nbd, blocks)
            print(f"It was back after {took:.2f} s. All {WRITTEN // BLOCK} blocks were read and their checksums hold: every block "
                  f"has the\nversion of the last flush, or a later one that was written when the drive was killed ({newer} have "
                  f"one).\nNothing is lost.")
            nbd.close()
            drive.stop()
        finally:
            if drive.process and drive.process.poll() is None:
                drive.kill()
        report = simulated(peryton, args.design, folder, requests)
    accesses = ledger["fast_hits"] + ledger["fast_misses"]
    rows = [
        ("served by the fast device", f"{100 * ledger['fast_hits'] / accesses:.1f} %",
         f"{100 * report['fast_hit_ratio']:.1f} %"),
        ("moved to the fast device", ledger["moves"]["promotions"], report["moves"]["promotions"]),
        ("moved to the slow device", ledger["moves"]["demotions"], report["moves"]["demotions"]),
    ]
    print("\nThe simulator runs the same engine. Given the same requests, one after the other, on models of an SSD and a disk:\n")
    print(f"  {'':28} {'served':>10} {'simulated':>10}")
    for name, served, said in rows:
        print(f"  {name:28} {served!s:>10} {said!s:>10}")


if __name__ == "__main__":
    main()
