#!/usr/bin/env python3
"""A power loss at every flush: both devices of a volume are carved from one that the kernel's dm-log-writes logs, so the order of all
their writes and flushes is known. In the virtual machine records, or files on ext4, are written through the kernel's NBD client.
Outside of it the log is replayed up to flushes; the drive is opened on what is there; what had been flushed has to be there.

Half of the replays also take, at random, some of the writes after the flush, as a disk does that loses power a little later.
"""

import concurrent.futures
import os
import random
import shutil
import subprocess
import sys
import tempfile

import files
from drive import MIB, Drive, Failed, Nbd, design, verify
from log_writes import FLUSH, FUA, MARK, Images, Log
from records import read_journal

FAST, SLOW = 48, 112  # MiB
LOG_SPAN = 1024  # MiB of the log's disk for each run.
HOLDER = (4096, 4096)  # Where a device has the block that names its server, and the length of it (docs/format.md).
SEED = 14


def sizes(placement):
    """MiB of the two devices. A log of fewer than 48 MiB would be full of its own migrations."""
    return FAST, SLOW


def runs(placements):
    return [(placement, load) for placement in placements for load in ("records", "ext4")]


# Inside the virtual machine.

def guest(peryton, folder, epochs, numbers, placements):
    import guest as vm
    from load import Load
    vm.modules("nbd", "dm-log-writes")
    for index, (placement, load) in enumerate(runs(placements)):
        fast, slow = sizes(placement)
        logged = vm.dm("part", vm.linear(fast + slow, "/dev/vda", index * (fast + slow)))
        log = vm.dm("log", vm.linear(LOG_SPAN, "/dev/vdb", index * LOG_SPAN))
        whole = vm.dm("whole", f"0 {(fast + slow) * vm.SECTORS_PER_MIB} log-writes {logged} {log}")
        drive = Drive(peryton, f"/run/{placement}-{load}", design(placement, fast, slow),
                      vm.dm("fast", vm.linear(fast, whole, 0)), vm.dm("slow", vm.linear(slow, whole, fast)))
        drive.run("create")
        drive.start()
        device, journal = vm.attach(drive), f"{folder}/{placement}-{load}.journal"
        mark = lambda number: vm.sh("dmsetup", "message", "whole", "0", "mark", f"s{number}")
        if load == "records":
            mark(0)
            writer = Load(device, journal + ".new", SEED)
            for _ in range(epochs):
                if not writer.epoch():
                    raise Failed(f"{placement}: a flush failed, and no device did")
                mark(writer.model.epoch)
            writer.close()
            os.rename(journal + ".new", journal)
        else:
            vm.sh("mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", device)
            os.makedirs("/run/mounted", exist_ok=True)
            vm.sh("mount", device, "/run/mounted")
            files.fsync("/run/mounted")
            vm.sh("sync", "-f", "/run/mounted")
            mark(0)
            for number in range(1, numbers + 1):
                files.write("/run/mounted", number)
                mark(number)
            vm.sh("umount", "/run/mounted")
        vm.detach()
        if drive.stop() != 0:
            raise Failed(f"{placement}: the drive did not close in good order: {drive.last_words()}")
        vm.dm_remove("fast", "slow", "whole", "log", "part")
        vm.say(f"written: {placement}, {load}")


# Outside.

def points(log, most, chance):
    """The flushes after the first mark, and how many of them there are; at most `most`, spread evenly, the last among them."""
    start = next(number for number, entry in enumerate(log.entries) if entry.mark == "s0")
    flushes = [number for number, entry in enumerate(log.entries) if number > start and entry.flags & FLUSH]
    if len(flushes) <= most:
        return flushes, len(flushes)
    step = len(flushes) / most
    chosen = {flushes[min(int(index * step + chance.random() * step), len(flushes) - 1)] for index in range(most - 1)}
    return sorted(chosen | {flushes[-1]}), len(flushes)


def memory():
    """A folder in memory: what a replay writes need not outlive this machine."""
    return "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def no_holder(image):
    at, length = HOLDER
    with open(image, "r+b") as file:
        file.seek(at)
        file.write(bytes(length))


class Replay:
    """The log of one run, replayed onto copies of the two devices."""

    def __init__(self, peryton, folder, scratch, placement, load, index):
        self.peryton, self.scratch, self.placement, self.load = peryton, scratch, placement, load
        self.journal = f"{folder}/{placement}-{load}.journal"
        self.log = Log(f"{folder}/log.img", index * LOG_SPAN * MIB)
        self.chance = random.Random(f"{SEED} {placement} {load}")
        self.base = [f"{scratch}/{name}.img" for name in ("fast", "slow")]
        self.copy = [f"{scratch}/{name}-copy.img" for name in ("fast", "slow")]
        self.mib = sizes(placement)

    def all(self, most):
        """Returns a sentence about what was found, or raises `Failed`."""
        images = Images(self.base, [mib * MIB for mib in self.mib])
        chosen, flushes = points(self.log, most, self.chance)
        applied, last, checked, torn = 0, 0, 0, 0
        for turn, point in enumerate(chosen):
            for entry in self.log.entries[applied:point + 1]:
                images.apply(self.log, entry)
                last = last if entry.flushed is None else entry.flushed
            applied = point + 1
            for source, target in zip(self.base, self.copy):
                subprocess.run(["cp", "--sparse=always", source, target], check=True)
            taken, flushed = "", last
            if turn % 2:
                torn += 1
                taken, flushed = self.some_of_the_next(point, last)
            # The machine that had the volume is known to be off, so nothing waits for a sign of it.
            for image in self.copy:
                no_holder(image)
            drive = Drive(self.peryton, f"{self.scratch}/drive", design(self.placement, *self.mib), *self.copy)
            try:
                checked += self.examine(drive, flushed, turn)
            except Failed as failure:
                raise Failed(f"{self.placement}, {self.load}: log replayed to entry {point}{taken} (after flush {flushed} of the load): "
                             f"{failure}") from None
            finally:
                drive.kill()
        what = "blocks" if self.load == "records" else "files"
        return (f"{self.placement}, {self.load}: {len(chosen)} of {flushes} flushes replayed ({torn} of them with some later writes), "
                f"{len(self.log.entries)} entries in the log, {checked} {what} verified")

    def some_of_the_next(self, point, last):
        """Adds some of the writes between this flush and the next. What was written with FUA is durable in its turn."""
        images, later = Images(self.copy, [mib * MIB for mib in self.mib]), []
        for entry in self.log.entries[point + 1:]:
            if entry.flags & FLUSH:
                break
            later.append(entry)
        cut, count = self.chance.randrange(len(later) + 1), 0
        for entry in later[:cut]:
            if entry.flags & MARK:
                last = last if entry.flushed is None else entry.flushed  # All that this mark vouches for was flushed before it.
            elif entry.flags & FUA or self.chance.random() < 0.5:
                images.apply(self.log, entry)
                count += 1
        images.close()
        return f" and {count} of the {len(later)} writes after it", last

    def examine(self, drive, last, turn):
        """Opens the drive, and returns how much was verified."""
        found = drive.run("check", check=False)
        # Not closed, dirty, or both (peryton help exit-codes).
        if found.returncode & ~12:
            raise Failed(f"check ended with {found.returncode}: {(found.stderr or found.stdout).strip()}")
        if turn % 5 == 4:
            drive.run("repair")
        drive.start()
        nbd = Nbd(drive.nbd)
        if self.load == "records":
            checked, _ = verify(nbd, read_journal(self.journal, SEED, until=last))
        else:
            checked = self.examine_ext4(nbd, last)
        nbd.close()
        if drive.stop() != 0:
            raise Failed(f"the drive did not close in good order: {drive.last_words()}")
        return checked

    def examine_ext4(self, nbd, last):
        image, out, nothing = f"{self.scratch}/volume.img", f"{self.scratch}/files", bytes(MIB)
        with open(image, "wb") as file:
            file.truncate(nbd.size)
            for offset in range(0, nbd.size, MIB):
                data = nbd.read(offset, min(MIB, nbd.size - offset))
                if data is None:
                    raise Failed(f"the volume cannot be read at {offset}")
                if data != nothing[:len(data)]:
                    file.seek(offset)
                    file.write(data)
        # The file system recovers its journal, as a mount would, and has to be without fault then.
        subprocess.run(["e2fsck", "-E", "journal_only", "-y", image], capture_output=True)
        fsck = subprocess.run(["e2fsck", "-fn", image], capture_output=True, text=True)
        if fsck.returncode != 0:
            raise Failed(f"e2fsck ended with {fsck.returncode}: {' / '.join(fsck.stdout.strip().splitlines()[:8])}")
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        subprocess.run(["debugfs", "-R", f"rdump / {out}", image], capture_output=True, check=True)
        wrong = files.wrong(out, last)
        if wrong:
            raise Failed(f"{wrong} (the last file that was fsynced is {last})")
        return last


def replay(peryton, folder, placement, load, index, most):
    with tempfile.TemporaryDirectory(prefix="peryton-replay-", dir=memory()) as scratch:
        try:
            return Replay(peryton, folder, scratch, placement, load, index).all(most)
        except Failed as failure:
            raise Failed(f"{failure} (again: scripts/kernel/replay.py again {peryton} {folder} {placement} {load} {index} {most})") from None


def host(machine, peryton, folder, cut):
    placements = ["tiering", "caching-back"] if cut else ["tiering", "caching-back", "caching-through", "logging", "partitioned"]
    epochs, numbers, most = (20, 15, 10) if cut else (60, 40, 60)
    data, log = f"{folder}/data.img", f"{folder}/log.img"
    for path, mib in ((data, sum((sum(sizes(placement)) for placement, _ in runs(placements)))), (log, LOG_SPAN * len(runs(placements)))):
        with open(path, "wb") as file:
            file.truncate(mib * MIB)
    machine.run([data, log], __file__, peryton, folder, epochs, numbers, *placements)
    os.remove(data)
    with concurrent.futures.ProcessPoolExecutor(max_workers=2) as pool:
        work = [pool.submit(replay, peryton, folder, placement, load, index, most)
                for index, (placement, load) in enumerate(runs(placements))]
        lines, failures = [], []
        for each in work:
            try:
                lines.append(each.result())
            except Failed as failure:
                failures.append(str(failure))
    for line in lines:
        print(f"  {line}", flush=True)
    if failures:
        raise Failed("; ".join(failures))


if __name__ == "__main__":
    if sys.argv[1] == "again":
        print(replay(*sys.argv[2:6], int(sys.argv[6]), int(sys.argv[7])))
    else:
        import guest as vm
        vm.main(guest, sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5:])
