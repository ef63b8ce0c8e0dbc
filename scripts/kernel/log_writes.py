#!/usr/bin/env python3
"""Reads the log of the kernel's device-mapper target `log-writes`, and replays it.

The target writes to the log what had completed when a flush was sent, then the flush. So a replay up to a flush holds what a
disk holds that loses everything after that flush, and a disk that loses power later holds some of the writes after it as well.

Layout, in little endian: in the first sector the superblock {magic, version, entries: 64 bits; sector size: 32 bits}; then for
each entry a sector with {sector, sectors, flags, length of inline data: 64 bits each}, in marks followed by the text; then, but
for discards, the data. Sectors are of the size in the superblock.

usage: log_writes.py FILE [OFFSET]    lists the entries of the log that begins at the offset
"""

import ctypes
import mmap
import os
import struct
import sys
from dataclasses import dataclass

MAGIC, VERSION = 0x6A736677736872, 1
FLUSH, FUA, DISCARD, MARK, METADATA = 1, 2, 4, 8, 16
FALLOC_FL_KEEP_SIZE, FALLOC_FL_PUNCH_HOLE = 1, 2
libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Entry:
    offset: int  # In bytes, on the device that was logged.
    length: int
    flags: int
    data: int  # Where the data lie in the log.
    mark: str

    @property
    def flushed(self):
        """The number N of a mark `sN`, which the load leaves after its flush N. The kernel adds marks of its own."""
        return int(self.mark[1:]) if self.flags & MARK and self.mark[:1] == "s" else None


class Log:
    def __init__(self, path, offset=0):
        self.file = os.open(path, os.O_RDONLY)
        self.bytes = mmap.mmap(self.file, os.fstat(self.file).st_size, prot=mmap.PROT_READ)
        magic, version, count, size = struct.unpack_from("<QQQI", self.bytes, offset)
        if (magic, version) != (MAGIC, VERSION):
            raise ValueError(f"{path}: no log of dm-log-writes at {offset} (magic {magic:#x}, version {version})")
        self.entries, at = [], offset + size
        for _ in range(count):
            sector, sectors, flags, inline = struct.unpack_from("<QQQQ", self.bytes, at)
            mark = self.bytes[at + 32:at + 32 + inline].rstrip(b"\0").decode() if flags & MARK else ""
            at += size
            self.entries.append(Entry(sector * size, sectors * size, flags, at, mark))
            if not flags & DISCARD:
                at += sectors * size

    def data(self, entry):
        return self.bytes[entry.data:entry.data + entry.length]


class Images:
    """The devices that were carved from the logged one, one after the other, as files."""

    def __init__(self, paths, sizes):
        self.files, self.ends = [], []
        for path, size in zip(paths, sizes):
            self.files.append(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            os.ftruncate(self.files[-1], size)
            self.ends.append(size + (self.ends[-1] if self.ends else 0))

    def apply(self, log, entry):
        """No entry reaches over the end of a device, because each request went to one of them."""
        if entry.flags & MARK or not entry.length:
            return
        index = next(index for index, end in enumerate(self.ends) if entry.offset < end)
        offset = entry.offset - (self.ends[index - 1] if index else 0)
        if entry.flags & DISCARD:
            mode = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
            if libc.fallocate(self.files[index], mode, ctypes.c_int64(offset), ctypes.c_int64(entry.length)) != 0:
                raise OSError(ctypes.get_errno(), "fallocate")
        else:
            os.pwrite(self.files[index], log.data(entry), offset)

    def close(self):
        for file in self.files:
            os.close(file)


def main():
    log = Log(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 0)
    names = {FLUSH: "flush", FUA: "fua", DISCARD: "discard", MARK: "mark", METADATA: "metadata"}
    for number, entry in enumerate(log.entries):
        flags = ",".join(name for flag, name in names.items() if entry.flags & flag) or "write"
        print(f"{number:6} {flags:14} {entry.offset:12} {entry.length:8} {entry.mark}")


if __name__ == "__main__":
    main()
