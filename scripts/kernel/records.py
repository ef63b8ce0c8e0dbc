"""Blocks that say what they are, the journal of what was written, and the contents that a correct drive may return.

Each sector of a block carries its number, the version of the block and a checksum. The program that writes appends to a journal
what it is about to do and what came of it, so the contents that are allowed can be computed after any crash:

    w EPOCH FIRST COUNT   blocks FIRST.. are about to be written with version EPOCH
    z EPOCH FIRST COUNT   ... to be zeroed, which a flush makes durable
    t EPOCH FIRST COUNT   ... to be discarded, after which they hold what they held or zeros
    e EPOCH FIRST COUNT   this request of the epoch failed: old or new, until the blocks are written again
    s EPOCH               the flush at the end of the epoch succeeded
    x EPOCH               it failed: everything in the epoch is in doubt
    i COUNT               so many reads of blocks failed with EIO
"""

import struct
import zlib

BLOCK = 4096
SECTOR = 512
SECTORS = BLOCK // SECTOR
ZEROS = bytes(SECTOR)
HEADER = struct.Struct("<4sIQQII")  # 32 bytes: magic, seed, sector, version, checksum, nothing.


def sector_bytes(seed, sector, version):
    if version == 0:
        return ZEROS
    head = struct.pack("<4sIQQ", b"PRec", seed, sector, version)
    return (head + struct.pack("<II", zlib.crc32(head), 0)) * (SECTOR // HEADER.size)


def block_bytes(seed, block, version):
    return b"".join(sector_bytes(seed, block * SECTORS + index, version) for index in range(SECTORS))


def describe(seed, sector, data):
    """What a sector holds, in words."""
    if data == ZEROS:
        return "zeros"
    magic, its_seed, its_sector, version, _, _ = HEADER.unpack_from(data)
    if magic != b"PRec":
        return f"bytes of something else ({data[:8].hex()}...)"
    whole = data == sector_bytes(its_seed, its_sector, version)
    where = "" if (its_seed, its_sector) == (seed, sector) else f" of sector {its_sector} (seed {its_seed})"
    return f"version {version}{where}{'' if whole else ', damaged'}"


class Model:
    """The versions that each block may have. Version 0 is zeros, which a block that was never written holds."""

    def __init__(self, seed):
        self.seed = seed
        self.possible = {}  # A set of versions for each block that was touched.
        self.epoch = 0
        self.under_way = []  # The requests of the epoch: kind, first, count.
        self.failed = set()  # Those that failed: first, count.
        self.flushes = self.failed_flushes = self.failed_requests = self.failed_reads = 0

    def apply(self, line):
        kind, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        if kind in "wzt":
            epoch, first, count = numbers
            self.epoch = epoch
            self.under_way.append((kind, first, count))
            for block in range(first, first + count):
                self.possible.setdefault(block, {0}).add(epoch if kind == "w" else 0)
        elif kind == "e":
            self.failed.add((numbers[1], numbers[2]))
            self.failed_requests += 1
        elif kind == "i":
            self.failed_reads += numbers[0]
        elif kind in "sx":
            self.epoch = numbers[0]
            if kind == "s":
                self.flushes += 1
                for request, first, count in self.under_way:
                    if request != "t" and (first, count) not in self.failed:
                        self.possible.update((block, {self.epoch if request == "w" else 0}) for block in range(first, first + count))
            else:
                self.failed_flushes += 1
            self.under_way, self.failed = [], set()

    def wrong(self, block, data):
        """None if the block may hold these data, or a sentence."""
        allowed = self.possible.get(block, {0})
        for index in range(SECTORS):
            sector = block * SECTORS + index
            part = data[index * SECTOR:(index + 1) * SECTOR]
            if not any(part == sector_bytes(self.seed, sector, version) for version in allowed):
                return (f"block {block}, sector {index}: {describe(self.seed, sector, part)}, "
                        f"where only {sorted(allowed)} may be")
        return None


def read_journal(path, seed, until=None):
    """The model after the journal. With `until`, the flush of that epoch is the last that counts; what was about to be
    written in the next one is possible as well."""
    model = Model(seed)
    settled = until == 0
    with open(path) as journal:
        for line in journal:
            if not line.endswith("\n"):
                break  # The machine was reset while it wrote this line.
            if settled and line[0] in "esx":
                break
            model.apply(line)
            settled = settled or (until is not None and line[0] == "s" and int(line.split()[1]) == until)
    return model
