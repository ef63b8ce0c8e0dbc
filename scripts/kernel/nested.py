#!/usr/bin/env python3
"""Three tiers: the block device of a volume (ublk) is the slow device of another volume, which is served over NBD. docs/placements.md says
which guarantees compose; this tests them.

* kills: the outer server, the inner one, and both are killed amid writes and started again. Nothing that was answered is missing.
* fails: the inner volume loses its slow device. The outer one reports that its slow device fails, and serves what its fast device has.
* order: the outer server does not start without the inner volume and says which device is missing; an inner server that stops leaves its
  device as long as the outer one has it open.
* grow: the inner volume grows, then the outer one.
* resets: the machine is reset amid writes, and both volumes recover. What was flushed is there.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

from block_device import BlockDrive, kill
from drive import MIB, PATIENCE, Drive, Failed, design
from load import Load
from machine import end
from records import read_journal

# Of the inner volume's devices, and the outer one's fast device, in MiB.
FAST, SLOW, FASTEST = 64, 192, 48
# The slow device of the outer volume: the inner volume, less the outer one's metadata.
INNER = {"caching-back": SLOW // 2, "tiering": SLOW // 2}
SEED = 29


class Pair:
    """An inner volume, and an outer one whose slow device it is."""

    def __init__(self, vm, peryton, folder, inner, outer, disks=("/dev/vda", "/dev/vdb", "/dev/vdc"), journal=None):
        self.vm, self.journal = vm, journal or f"{folder}/journal"
        self.below = BlockDrive(peryton, f"{folder}/inner", design(inner, FAST, SLOW, "5s"), *disks[:2])
        text = design(outer, FASTEST, INNER[inner], "5s")
        self.above = Drive(peryton, f"{folder}/outer", text, disks[2], "absent")

    def create(self):
        self.below.run("create", "--force")
        self.start_below()
        self.above.run("create", "--force")

    def start_below(self):
        self.device = self.below.start()
        self.above.paths[-1] = f"devices.slow.path={self.device}"

    def start_above(self):
        """Also returns a load that goes on with what was written before."""
        self.above.start()
        return Load(self.vm.attach(self.above), self.journal, SEED)

    def kill(self, what, load):
        """Ends servers at once, and starts them again."""
        if what != "inner":
            os.close(load.device)
            self.vm.detach()
            self.above.kill()
        if what != "outer":
            kill(self.below)
            before = self.device
            self.start_below()
            if self.device != before:
                raise Failed(f"the inner volume was {before} and is {self.device}")
        return load if what == "inner" else self.start_above()

    def status(self, drive):
        """Its exit status says how the volume is, too."""
        command = [drive.peryton, "status", drive.file, "--control", drive.control, "--json"]
        return json.loads(subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE).stdout)

    def close(self, load):
        os.close(load.device)
        self.vm.detach()
        for name, drive in (("outer", self.above), ("inner", self.below)):
            if drive.stop() != 0:
                raise Failed(f"the {name} volume did not close in good order: {drive.last_words()}")


def whole(load, after):
    errors = load.read_all()
    if errors:
        raise Failed(f"{after}: {errors} ranges cannot be read")


def kills(vm, peryton, inner, outer, count):
    pair = Pair(vm, peryton, f"/run/{inner}", inner, outer)
    pair.create()
    load, chance = pair.start_above(), random.Random(f"{SEED} {inner}")
    for number in range(count):
        what = ["inner", "outer", "both"][number % 3]
        over = threading.Event()

        def write():
            while not over.is_set() and not load.wrong:
                try:
                    if not load.epoch():
                        load.wrong.append("a flush failed")
                except Failed as failure:
                    load.wrong.append(str(failure))

        load.wrong = []
        writer = threading.Thread(target=write)
        if what == "inner":
            # The requests of the outer server that are in flight wait for the next inner server.
            writer.start()
            time.sleep(0.5 + chance.random())
            pair.kill("inner", load)
            time.sleep(0.5)
            over.set()
            writer.join(PATIENCE)
            if load.wrong or pair.status(pair.above)["state"] != "healthy":
                raise Failed(f"the outer volume noticed that the inner server was killed: {load.wrong} {pair.above.last_words()}")
        else:
            for _ in range(2):
                load.epoch()
            load = pair.kill(what, load)
        whole(load, f"after {what} was killed")
    blocks = len(load.model.possible)
    pair.close(load)
    vm.say(f"kills {outer} over {inner}: {count} times the inner server, the outer one or both; no request failed while the inner one was away, {blocks} blocks verified")


def fails(vm, peryton):
    """The disk of the inner volume fails for good: reads fail that need it, and each volume names the device that it lost."""
    vm.modules("dm-mod")
    disk = vm.dm("disk", vm.linear(SLOW, "/dev/vdb", 0))
    pair = Pair(vm, peryton, "/run/fails", "caching-back", "caching-back", ("/dev/vda", disk, "/dev/vdc"))
    pair.create()
    load = pair.start_above()
    for _ in range(3):
        load.epoch()
    vm.dm_change("disk", f"0 {SLOW * vm.SECTORS_PER_MIB} error")

    def state(drive):
        load.epoch()
        return pair.status(drive)["state"]

    vm.wait(lambda: state(pair.below) == "degraded", f"the inner volume does not give its disk up: {pair.below.last_words()}")
    seen = set()

    def is_noticed():
        seen.add(state(pair.above))
        return seen & {"outage", "degraded"}

    vm.wait(is_noticed, f"the outer volume does not notice: {seen} {pair.above.last_words()}")
    inner, outer = pair.status(pair.below)["devices"], pair.status(pair.above)["devices"]
    if inner["slow"]["state"] != "gone" or inner["fast"]["state"] != "ok" or outer["fast"]["state"] != "ok" or outer["slow"]["errors"] == 0:
        raise Failed(f"inner {inner}, outer {outer}")
    checked = load.checked
    errors = load.read_all()
    if load.checked == checked or errors == 0:
        raise Failed(f"{errors} ranges cannot be read, and {load.checked - checked} blocks were")
    vm.say(f"fails: the inner volume is degraded, the outer one says {' and then '.join(sorted(seen - {'healthy'}))} of its slow device; "
           f"{load.checked - checked} blocks read as they have to be, {errors} ranges fail")


def order(vm, peryton):
    pair = Pair(vm, peryton, "/run/order", "tiering", "caching-back")
    pair.create()
    load = pair.start_above()
    load.epoch()
    # The inner server is told to stop while the outer one has its device.
    pair.below.process.send_signal(signal.SIGTERM)
    time.sleep(3)
    if pair.below.process.poll() is not None or not load.epoch() or "is in use" not in pair.below.last_words():
        raise Failed(f"the inner server let its device go: {pair.below.last_words()}")
    whole(load, "after the inner server was told to stop")
    pair.close(load)
    # The outer server needs the device of the inner one.
    done = pair.above.run("serve", "--nbd", pair.above.nbd, check=False)
    if done.returncode == 0 or pair.device not in done.stderr:
        raise Failed(f"the outer server without the inner volume: {done.returncode} {done.stderr}")
    # Another inner volume in its place is not the device of the outer one.
    other = Pair(vm, peryton, "/run/other", "tiering", "caching-back")
    other.below.run("create", "--force")
    other.start_below()
    done = pair.above.run("serve", "--nbd", pair.above.nbd, check=False)
    if done.returncode == 0 or "slow" not in done.stderr:
        raise Failed(f"the outer server took another inner volume: {done.returncode} {done.stderr}")
    other.below.stop()
    vm.say("order: the inner volume outlives its user; without it, and with another in its place, the outer one is refused")


def resets(vm, peryton, folder, number, seconds):
    pair = Pair(vm, peryton, "/run/pair", "caching-back", "caching-back", journal=f"{folder}/journal")
    if number == 0:
        pair.create()
    else:
        pair.start_below()
    load = pair.start_above()
    whole(load, f"after reset {number}")
    load.epoch()  # The reset comes after at least one flush, however slow this machine is.
    vm.say(f"writing; {len(load.model.possible)} blocks verified")
    threading.Timer(seconds, lambda: open("/proc/sysrq-trigger", "w").write("b")).start()
    while load.epoch():
        pass
    raise Failed("a flush failed, and no device did")


def guest(peryton, part, *arguments):
    import guest as vm
    vm.modules("nbd", "ublk_drv")
    if part == "kills":
        inner, outer, count = arguments
        kills(vm, peryton, inner, outer, int(count))
    elif part == "resets":
        folder, number, seconds = arguments
        resets(vm, peryton, folder, int(number), float(seconds))
    else:
        {"fails": fails, "order": order}[part](vm, peryton)


# Outside.

def disks(folder):
    paths = [f"{folder}/{name}.img" for name in ("fast", "slow", "fastest")]
    for path, mib in zip(paths, (FAST, SLOW, FASTEST)):
        with open(path, "wb") as file:
            file.truncate(mib * MIB)
    return paths


def reset_amid_writes(machine, peryton, folder, count):
    paths, flushes, chance = disks(folder), 0, random.Random(SEED)
    for number in range(count + 1):
        process = machine.start(paths, __file__, peryton, "resets", folder, number, 1.5 + 3 * chance.random())
        try:
            lines = [line.rstrip() for line in process.stdout]
            process.wait()
        finally:
            end(process)
        writing = [line for line in lines if line.startswith("writing")]
        if not writing or any(line.startswith(("FAILED", "Traceback")) for line in lines):
            raise Failed(f"before reset {number + 1}: {' / '.join(lines[-6:])}")
        now = read_journal(f"{folder}/journal", SEED).flushes
        if now == flushes:
            raise Failed("the reset came before the first flush, so it showed nothing")
        flushes = now
        if number:
            print(f"  resets {number}: {writing[0].split('; ')[1]}, {flushes} flushes by now", flush=True)


def host(machine, peryton, folder, cut):
    parts = [("kills", "caching-back", "caching-back", 3 if cut else 9)]
    parts += [] if cut else [("kills", "tiering", "caching-back", 9), ("kills", "caching-back", "tiering", 9)]
    for part in [*parts, ("fails",), ("order",)]:
        for line in machine.run(disks(folder), __file__, peryton, *part).splitlines():
            if line.startswith((part[0], "FAILED")):
                print(f"  {line}", flush=True)
    reset_amid_writes(machine, peryton, folder, 1 if cut else 4)


if __name__ == "__main__":
    import guest as vm
    vm.main(guest, *sys.argv[1:])
