#!/usr/bin/env python3
"""Asks what to buy for a recorded database on tens of terabytes, and tries the answer.

First `peryton plan` answers: which devices, how set up, what they cost, how long they live; with all flash and all disks beside it. Then the
plan's own design, as small as the recording, is formatted on two files and served over NBD. All requests of the recording are sent to it: half
of them warm it up, as in the plan, and what it measures of the others stands beside what was promised. At the end the drive is killed in the middle of its work, and every block is checked.

It needs Python and the built command, neither root nor any other tool.

usage: scripts/demo.py [--peryton BINARY] [--out FOLDER]
"""

import argparse
import csv
import json
import os
import shlex
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path

READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
BLOCK = 4096
MIB = 1 << 20
ROOT = Path(__file__).resolve().parents[1]
TRACE = "examples/traces/pgbench-ext4.parquet"
# Forty terabytes of such databases. In a time as long as the recording, 1 % of them is in use, at the recorded pace.
QUESTION = ["--capacity", "40TB", "--active", "1%"]
BUDGETS = ["--latency", "2ms", "--lifetime", "5y", "--objective", "ownership"]
# Of each class one that is sold in 2026: the whole catalogue takes minutes.
DEVICES = "micron-7500-pro-1.92tb,solidigm-d5-p5336-61.44tb,seagate-exos-x24-24tb"
# Two files of one disk are no disk and no flash: their twins take as long as half of the commands did. Requests are sent one after the
# other, with the pauses that they had.
LIKE_FILES = ["--profile", "fast=fixed", "--profile", "slow=fixed", "--replay", "qd=1:think=trace"]
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
    """The drive as a separate process, on files in a folder."""

    def __init__(self, peryton, design, devices, folder):
        self.peryton, self.design, self.folder = peryton, design, folder
        paths = [f"devices.{name}.path={folder}/{name}.img" for name in devices]
        self.settings = [part for path in paths for part in ("--set", path)]
        self.nbd, self.control, self.recording = f"{folder}/nbd", f"{folder}/control", f"{folder}/recording"
        self.process = None

    def format(self):
        subprocess.run([self.peryton, "create", self.design, *self.settings], check=True, stdout=subprocess.DEVNULL)

    def start(self, *more):
        for path in (self.nbd, self.control):
            if os.path.exists(path):
                os.remove(path)
        self.process = subprocess.Popen(
            [self.peryton, "serve", self.design, *self.settings, "--nbd", self.nbd, "--control", self.control, *more],
            stdout=subprocess.DEVNULL, env={**os.environ, "PERYTON_LOG": "error"})
        deadline = time.monotonic() + 30
        while not os.path.exists(self.control):
            if self.process.poll() is not None or time.monotonic() > deadline:
                sys.exit("the drive did not start")
            time.sleep(0.01)
        return Nbd(self.nbd)

    def end(self, how):
        self.process.send_signal(how)
        self.process.wait()


class Blocks:
    """The blocks that were written: each holds its number, the number of its version, and a checksum of both."""

    def __init__(self):
        self.version = 0
        self.flushed = {}  # The version of each block that the last flush covered.
        self.since = {}  # The versions that were sent after it.

    def data(self, first, count):
        parts = []
        for block in range(first, first + count):
            self.version += 1
            self.since.setdefault(block, []).append(self.version)
            body = struct.pack("<QQ", block, self.version) * (BLOCK // 16 - 1)
            parts.append(body + struct.pack("<QQ", block, zlib.crc32(body)))
        return b"".join(parts)

    def flush(self):
        self.flushed.update((block, versions[-1]) for block, versions in self.since.items())
        self.since.clear()

    def check(self, block, data):
        """Ends the program unless the block has the version of the last flush, or a later one that was sent."""
        found, version = struct.unpack_from("<QQ", data)
        whole = struct.unpack_from("<QQ", data, BLOCK - 16) == (found, zlib.crc32(data[:-16]))
        allowed = [*self.since.get(block, []), self.flushed.get(block)]
        if not (whole and found == block and version in allowed) and not (None in allowed and not any(data)):
            sys.exit(f"LOST: block {block} should hold version {self.flushed.get(block)} and holds something else")


def command(peryton, *arguments):
    done = subprocess.run([peryton, *map(str, arguments)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1) or not done.stdout:
        sys.exit(f"peryton {shlex.join(map(str, arguments))}\n{done.stderr}")
    return done.stdout


def plan(peryton, out, devices):
    arguments = ["plan", "--trace", TRACE, *QUESTION, *BUDGETS, *devices, "--no-flash-need", "--most", "4", "--runners-up", "1", "--out", out, "--report", f"{out}/plan.html"]
    print(f"$ peryton {shlex.join(map(str, arguments))}\n", flush=True)
    Path(out).mkdir(parents=True, exist_ok=True)
    print(command(peryton, *arguments), flush=True)
    return json.loads((Path(out) / "plan.json").read_text())


def requests(peryton, folder):
    """The requests of the recording: what is read, written and flushed in whole blocks."""
    path = f"{folder}/trace.csv"
    subprocess.run([peryton, "trace", "convert", TRACE, path], cwd=ROOT, check=True, capture_output=True)
    with open(path, newline="") as rows:
        for row in csv.DictReader(rows):
            offset, length = int(row["offset"]), int(row["length"])
            if row["op"] == "F" or (row["op"] in "RW" and offset % BLOCK == 0 and length % BLOCK == 0 and length):
                yield row["op"], offset, length


def replay(nbd, blocks, asked):
    for op, offset, length in asked:
        if op == "R":
            nbd.ask(READ, offset, length)
        elif op == "W":
            nbd.ask(WRITE, offset, length, blocks.data(offset // BLOCK, length // BLOCK))
        else:
            nbd.ask(FLUSH)
            blocks.flush()


def twin(peryton, drive, promised):
    """What the drive measured, beside a simulation of the same requests and what the plan promised for them."""
    def figures_of(*settings):
        return {one["figure"]: one for one in json.loads(command(peryton, "twin", drive.recording, *LIKE_FILES, *settings, "--json"))["figures"]}

    seen = figures_of()
    times = [(device, key, seen.get(f"{device}: a command, {key}s, median")) for device in ("fast", "slow") for key in ("read", "write")]
    figures = figures_of(*(part for device, key, time in times if time
                           for part in ("--set", f"devices.{device}.model.{key}={round(time['measured'] * 1000)}ns")))
    hits = figures["fast hit ratio"]
    print(f"  {'':28} {'the plan':>10} {'simulated':>10} {'measured':>10}")
    share = lambda value: f"{100 * value:.1f} %"
    print(f"  {'served by the fast device':28} {share(promised['fast_hit_ratio']):>10} {share(hits['predicted']):>10} {share(hits['measured']):>10}")
    good = abs(hits["predicted"] - hits["measured"]) <= 0.01
    for name in ("promotions", "demotions", "write-backs"):
        one = figures.get(name)
        if one and (one["measured"] or one["predicted"]):
            print(f"  {name:28} {'':>10} {one['predicted']:>10.0f} {one['measured']:>10.0f}")
            good &= abs(one["predicted"] - one["measured"]) <= max(0.05 * one["measured"], 8)
    if not good:
        print("  Measured and simulated differ by more than a point of hits or 5 % of moves: take the simulated figures of this design with care.")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peryton", default="target/demo/peryton")
    parser.add_argument("--out", default="report/plan")
    parser.add_argument("--devices", default=DEVICES)
    args = parser.parse_args()
    peryton, out = os.path.abspath(args.peryton), os.path.abspath(args.out)
    print("40 TB of PostgreSQL databases like the one that was recorded: what to buy?\n")
    found = plan(peryton, out, ["--devices", args.devices] if args.devices else [])
    best = found.get("best") or sys.exit("nothing meets the budgets")
    if len(best["devices"]) < 2:
        sys.exit(f"the best design is no hybrid: {best['label']}")
    with tempfile.TemporaryDirectory(prefix="peryton-demo-") as folder:
        drive = Drive(peryton, f"{out}/small.toml", [device["role"] for device in best["devices"]], folder)
        drive.format()
        blocks = Blocks()
        try:
            asked = list(requests(peryton, folder))
            half = len(asked) // 2
            print(f"Now for real: the same design, as small as the recording, on two files. As in the plan, {half:,} requests warm it up, and the other "
                  f"{len(asked) - half:,} are measured.", flush=True)
            for part, how in ((asked[:half], ()), (asked[half:], ("--record", drive.recording))):
                nbd = drive.start(*how)
                replay(nbd, blocks, part)
                nbd.close()
                drive.end(signal.SIGTERM)
            twin(peryton, drive, best)
            nbd = drive.start()
            unanswered = sorted(blocks.flushed)[:IN_FLIGHT]
            for block in unanswered:
                nbd.send(WRITE, block * BLOCK, BLOCK, blocks.data(block, 1))
            drive.end(signal.SIGKILL)
            nbd.socket.close()
            nbd = drive.start()
            written = {*blocks.flushed, *blocks.since}
            for start in sorted({block * BLOCK // MIB * MIB for block in written}):
                data = nbd.ask(READ, start, min(MIB, nbd.size - start))
                for at in range(0, len(data), BLOCK):
                    if (start + at) // BLOCK in written:
                        blocks.check((start + at) // BLOCK, data[at:at + BLOCK])
            print(f"\nkill -9 with {len(unanswered)} writes in flight, and a new start: all {len(blocks.flushed):,} blocks that were written were "
                  "read, and each\nhas what was flushed, or what was written later.")
            nbd.close()
            drive.end(signal.SIGTERM)
        finally:
            if drive.process and drive.process.poll() is None:
                drive.process.kill()
    print(f"\nThe plan: {out}/plan.html; its designs, and the commands that give its figures again: {out}")


if __name__ == "__main__":
    main()
