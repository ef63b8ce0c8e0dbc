"""Writes, zeroes, discards, reads and flushes blocks that say what they are (records.py) on a block device, with several requests
in flight, and checks everything that it reads. It runs inside the virtual machine."""

import concurrent.futures
import fcntl
import mmap
import os
import random
import struct
import threading
import time

from drive import Failed
from records import BLOCK, block_bytes, read_journal

BLKDISCARD, BLKZEROOUT, BLKGETSIZE64 = 0x1277, 0x127F, 0x80081272
LONGEST = 16  # Blocks in a request.


class Load:
    """Everything that was ever written to the device has to be in the journal, which may be from before a reset."""

    def __init__(self, device, journal, seed, in_flight=6, requests=24):
        self.model = read_journal(journal, seed) if os.path.exists(journal) else read_journal(os.devnull, seed)
        # A reset may have cut off the last line, and left an epoch without its end.
        whole = open(journal, "rb").read() if os.path.exists(journal) else b""
        with open(journal, "wb") as file:
            file.write(whole[:whole.rfind(b"\n") + 1])
        self.journal = os.open(journal, os.O_WRONLY | os.O_APPEND)
        if self.model.under_way:
            self.say(f"x {self.model.epoch}\n")
        self.path = device
        self.device = os.open(device, os.O_RDWR | os.O_DIRECT)
        size = struct.unpack("<Q", fcntl.ioctl(self.device, BLKGETSIZE64, bytes(8)))[0]
        self.blocks, self.requests = size // BLOCK, requests
        self.random = random.Random(f"{seed} {self.model.epoch}")
        self.workers = concurrent.futures.ThreadPoolExecutor(in_flight)
        self.buffers = threading.local()
        self.checked = 0

    def say(self, text):
        """Adds to the journal, which a reset of the machine does not take back: it is a file of the machine outside."""
        if text:
            os.write(self.journal, text.encode())
            for line in text.splitlines():
                self.model.apply(line)

    def draw(self):
        """A range of which most lie in the hot eighth of the device."""
        count = self.random.choice([1, 1, 1, 2, 4, LONGEST])
        span = self.blocks // 8 if self.random.random() < 0.7 else self.blocks
        return self.random.randrange(0, span - count), count

    def buffer(self):
        if not hasattr(self.buffers, "memory"):
            self.buffers.memory = mmap.mmap(-1, LONGEST * BLOCK)
        return memoryview(self.buffers.memory)

    def request(self, kind, epoch, first, count):
        """Returns false if the device answers with an error, and for a read its data."""
        try:
            if kind == "w":
                part = self.buffer()[:count * BLOCK]
                part[:] = b"".join(block_bytes(self.model.seed, block, epoch) for block in range(first, first + count))
                return os.pwritev(self.device, [part], first * BLOCK) == len(part)
            if kind == "r":
                part = self.buffer()[:count * BLOCK]
                return bytes(part) if os.preadv(self.device, [part], first * BLOCK) == len(part) else False
            what = BLKZEROOUT if kind == "z" else BLKDISCARD
            fcntl.ioctl(self.device, what, struct.pack("<QQ", first * BLOCK, count * BLOCK))
            return True
        except OSError:
            return False

    def read(self, ranges):
        """Reads and checks. No write of these ranges is in flight. Returns how many could not be read."""
        errors = 0
        for (first, count), data in zip(ranges, self.workers.map(lambda part: self.request("r", 0, *part), ranges)):
            if data is False:
                errors += 1
                continue
            for index in range(count):
                wrong = self.model.wrong(first + index, data[index * BLOCK:(index + 1) * BLOCK])
                if wrong:
                    raise Failed(f"read amid the load: {wrong}")
                self.checked += 1
        if errors:
            self.say(f"i {errors}\n")
        return errors

    def epoch(self):
        """Some requests and a flush. Returns whether the flush succeeded."""
        epoch, taken, requests = self.model.epoch + 1, set(), []
        while len(requests) < self.requests:
            first, count = self.draw()
            if taken.isdisjoint(range(first, first + count)):
                taken.update(range(first, first + count))
                kind = "w" if self.random.random() < 0.92 else self.random.choice("zt")
                requests.append((kind, epoch, first, count))
        self.say("".join(f"{kind} {epoch} {first} {count}\n" for kind, _, first, count in requests))
        answers = list(self.workers.map(lambda request: self.request(*request), requests))
        self.say("".join(f"e {epoch} {first} {count}\n" for (_, _, first, count), good in zip(requests, answers) if not good))
        try:
            os.fsync(self.device)
            good = True
        except OSError:
            good = False
        self.say(f"{'s' if good else 'x'} {epoch}\n")
        self.read([self.draw() for _ in range(self.requests // 3)])
        return good

    def read_all(self):
        """Reads everything that was touched. Returns how many ranges could not be read."""
        touched, ranges = sorted(self.model.possible), []
        for block in touched:
            if ranges and block == sum(ranges[-1]) and ranges[-1][1] < LONGEST:
                ranges[-1] = (ranges[-1][0], ranges[-1][1] + 1)
            else:
                ranges.append((block, 1))
        return self.read(ranges)

    def run(self, seconds, ended=lambda: False):
        """Epochs for some seconds, or until `ended`. Returns how many flushes succeeded and failed."""
        until, before = time.monotonic() + seconds, (self.model.flushes, self.model.failed_flushes)
        while time.monotonic() < until and not ended():
            self.epoch()
        return self.model.flushes - before[0], self.model.failed_flushes - before[1]

    def reopen(self):
        """After `close`, when the device has another server."""
        self.device = os.open(self.path, os.O_RDWR | os.O_DIRECT)

    def close(self):
        """The kernel's client does not let go of a device that is open."""
        os.close(self.device)
