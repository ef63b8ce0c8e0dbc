#!/usr/bin/env python3
"""Devices that fail now and then. Nothing that was acknowledged and flushed may be wrong without a word; EIO is a right answer where
the only copy cannot be read.

* flakey: dm-flakey with `error_writes` fails all writes and flushes of a device for two seconds of every six. The drive waits for
  the device (failure.patience), so nothing may be lost for good, and no read may fail.
* ranges: dm-error takes the place of some ranges of sectors while data lie there. Reads of these may fail. When the ranges are whole
  again, the device is taken back if the drive had given it up.
* blkdebug: QEMU fails single writes, reads and flushes below the machine's kernel.

After each the drive is killed, recovers, and everything is read again.
"""

import json
import random
import sys

from drive import MIB, Drive, Failed, design
from load import Load

FAST, SLOW = 48, 112  # MiB
SEED = 15
PLACEMENTS = ["tiering", "caching-back", "caching-through", "logging", "partitioned"]
CASES = ["flakey", "ranges", "blkdebug"]


class Run:
    """A placement on two devices of the device mapper, `fast` and `slow`, whose tables change."""

    def __init__(self, vm, peryton, folder, placement, case, index):
        self.vm, self.placement, self.case = vm, placement, case
        # blkdebug sits below the first two disks, the others have none.
        self.disks = ("/dev/vda", "/dev/vdb") if case == "blkdebug" else ("/dev/vdc", "/dev/vdd")
        self.at = index  # Which part of the disks.
        # Bad sectors are for good, so there the drive has little patience.
        text = design(placement, FAST, SLOW, patience="2s" if case == "ranges" else "2min")
        self.drive = Drive(peryton, f"/run/{placement}-{case}", text, self.dm("fast"), self.dm("slow"))
        self.again(lambda: self.drive.run("create", "--force"))
        self.restarts = self.readmitted = 0
        self.again(self.drive.start)
        self.load = Load(vm.attach(self.drive), f"{folder}/{placement}-{case}.journal", SEED)

    def again(self, what):
        """A flush that fails while the volume is formatted or opened ends the command with an error, which says: try again."""
        for attempt in range(3):
            try:
                return what()
            except Failed as failure:
                if self.case != "blkdebug" or attempt == 2 or "could not be read or written" not in str(failure):
                    raise

    def mib(self, name):
        return FAST if name == "fast" else SLOW

    def whole(self, name):
        disk = self.disks[0] if name == "fast" else self.disks[1]
        return disk, self.at * self.mib(name), self.vm.linear(self.mib(name), disk, self.at * self.mib(name))

    def dm(self, name):
        return self.vm.dm(name, self.whole(name)[2])

    def load_for(self, seconds):
        """A log stops at a flush that fails until it is opened again; the others go on."""
        good = failed = 0
        for _ in range(3):
            in_a_row = [0]

            def stopped():
                in_a_row[0] = in_a_row[0] + 1 if self.load.model.under_way == [] and self.last_failed() else 0
                return self.placement == "logging" and in_a_row[0] >= 3
            now = self.load.run(seconds / 3, stopped)
            good, failed = good + now[0], failed + now[1]
            if stopped():
                self.restart(allowed=True)
        return good, failed

    def last_failed(self):
        failed = self.load.model.failed_flushes
        known, self.known = getattr(self, "known", 0), failed
        return failed > known

    def restart(self, allowed):
        """Kills the drive and recovers; a device that was given up is taken back. Returns how many reads then fail."""
        self.load.close()
        self.vm.detach()
        self.drive.kill()
        self.restarts += 1
        try:
            self.again(self.drive.start)
        except Failed:
            self.take_back()
            self.again(self.drive.start)
        self.vm.attach(self.drive)
        self.load.reopen()
        errors = self.load.read_all()
        if errors and not allowed:
            raise Failed(f"{self.placement}, {self.case}: {errors} ranges cannot be read after the device came back")
        return errors

    def take_back(self):
        refused = self.drive.last_words()
        for name in ("fast", "slow"):
            if self.drive.run("re-add", name, check=False).returncode == 0:
                self.readmitted += 1
                return
        raise Failed(f"{self.placement}, {self.case}: no device can be taken back: {refused}")

    def end(self):
        self.load.close()
        self.vm.detach()
        self.drive.stop()
        self.vm.dm_remove("fast", "slow")


def flakey(run, seconds):
    vm, counts = run.vm, []
    for name in ("fast", "slow"):
        disk, start, linear = run.whole(name)
        sectors, offset = run.mib(name) * vm.SECTORS_PER_MIB, start * vm.SECTORS_PER_MIB
        vm.dm_change(name, f"0 {sectors} flakey {disk} {offset} 4 2 1 error_writes")
        counts.append(run.load_for(seconds))
        vm.dm_change(name, linear)
        run.load.run(3)
    status = json.loads(run.drive.status())
    if status["state"] != "healthy":
        raise Failed(f"{run.placement}: {status['state']} after outages of two seconds")
    # What failed is tried again where the drive still has it, or the host's flush fails.
    seen = run.restarts or run.load.model.failed_flushes or any(device["retries"] for device in status["devices"].values())
    if not seen:
        raise Failed(f"{run.placement}: no command failed, so the test showed nothing")
    return counts


def ranges(run, seconds, chance):
    vm, counts = run.vm, []
    run.load.run(seconds / 2)
    for name in ("fast", "slow"):
        disk, start, linear = run.whole(name)
        sectors, offset, lines, at = run.mib(name) * vm.SECTORS_PER_MIB, start * vm.SECTORS_PER_MIB, [], 0
        for begin in sorted(chance.sample(range(0, sectors - 512, 512), 6)):
            if begin > at:
                lines.append(f"{at} {begin - at} linear {disk} {offset + at}")
            lines.append(f"{begin} 64 error")
            at = begin + 64
        lines.append(f"{at} {sectors - at} linear {disk} {offset + at}")
        vm.dm_change(name, *lines)
        counts.append(run.load.run(seconds))
        run.load.read_all()
        vm.dm_change(name, linear)
    return counts


def guest(peryton, folder, seconds, cases, placements):
    import guest as vm
    vm.modules("nbd", "dm-flakey")
    index = 0
    for case in cases:
        for placement in placements:
            chance = random.Random(f"{SEED} {case} {placement}")
            run = Run(vm, peryton, folder, placement, case, index)
            index += 1
            if case == "flakey":
                counts, allowed = flakey(run, seconds), False
            elif case == "ranges":
                counts, allowed = ranges(run, seconds, chance), True
            else:
                counts, allowed = [run.load_for(2 * seconds)], True
            unreadable = run.restart(allowed)
            model, good = run.load.model, sum(count[0] for count in counts)
            if good == 0:
                raise Failed(f"{placement}, {case}: no flush succeeded, so the test showed nothing")
            vm.say(f"{placement}, {case}: {model.flushes} flushes succeeded and {model.failed_flushes} failed, {model.failed_requests} writes "
                   f"and {model.failed_reads} reads failed, {run.load.checked} blocks verified, at the end {unreadable} ranges unreadable"
                   f"{f', {run.restarts - 1} restarts' if run.restarts > 1 else ''}{f', {run.readmitted} readmitted' if run.readmitted else ''}")
            run.end()


# Outside.

def blkdebug_rules(path, chance, faults, first, last):
    """Counts the writes of the disk in QEMU's states, and at some of them fails a write, or the next read or flush, once."""
    with open(path, "w") as file:
        for state in range(1, last):
            file.write(f'[set-state]\nevent = "pwritev"\nstate = "{state}"\nnew_state = "{state + 1}"\n')
        for state in sorted(chance.sample(range(first, last), faults)):
            kind = chance.choice(["write", "write", "read", "flush"])
            file.write(f'[inject-error]\nevent = "pwritev"\nstate = "{state}"\niotype = "{kind}"\nerrno = "5"\nonce = "on"\n')


def host(machine, peryton, folder, cut):
    placements, cases, seconds = (["tiering"], CASES, 4) if cut else (PLACEMENTS, CASES, 8)
    count, disks, chance = len(placements) * len(cases), [], random.Random(SEED)
    for name, mib in (("fast-blkdebug", FAST), ("slow-blkdebug", SLOW), ("fast", FAST), ("slow", SLOW)):
        path = f"{folder}/{name}.img"
        with open(path, "wb") as file:
            file.truncate(mib * count * MIB)
        if name.endswith("blkdebug"):
            rules = f"{folder}/{name}.rules"
            blkdebug_rules(rules, chance, 12 * len(placements), 50, 1500 * len(placements))
            path += f",blkdebug={rules}"
        disks.append(path)
    for line in machine.run(disks, __file__, peryton, folder, seconds, ",".join(cases), *placements).splitlines():
        print(f"  {line}", flush=True)


if __name__ == "__main__":
    import guest as vm
    vm.main(guest, sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4].split(","), sys.argv[5:])
