#!/usr/bin/env python3
"""A disk is pulled out of the running machine and put back, while records are written.

* returns: the disk is below the device mapper, which keeps its path as a multipath device would. The drive waits for it
  (failure.patience); afterwards nothing is lost, no read fails, and the volume is healthy.
* gone: the drive has the disk itself, and the patience with it ends. What it alone had answers EIO; when the disk is there again,
  `peryton re-add` takes it back, and everything that had been flushed before is there. A log cannot take a device back.

The script in the machine asks for the disk by a line `pull N` or `put back N`, and the one outside does it through QEMU's monitor.
"""

import glob
import json
import sys
import threading

from drive import MIB, Drive, Failed, design
from load import Load
from machine import Monitor, end

FAST, SLOW = 48, 112  # MiB
SEED = 16


def disk(number):
    """Where disk N is now, which changes when it is put back; None while it is not there."""
    for path in glob.glob("/sys/block/vd*/serial"):
        try:
            if open(path).read().strip() == f"disk{number}":
                return f"/dev/{path.split('/')[3]}"
        except OSError:
            pass  # It went away meanwhile.
    return None


def ask(vm, what, number):
    vm.say(f"{what} {number}")
    vm.wait(lambda: (disk(number) is None) == (what == "pull"), f"disk {number}: {what} had no effect")


def returns(vm, peryton, folder, placement, number, seconds):
    name, mib = (("fast", FAST), ("slow", SLOW))[number]
    drive = Drive(peryton, f"/run/{placement}-{name}", design(placement, FAST, SLOW),
                  vm.dm("fast", vm.linear(FAST, disk(0), 0)), vm.dm("slow", vm.linear(SLOW, disk(1), 0)))
    drive.run("create", "--force")
    drive.start()
    load = Load(vm.attach(drive), f"{folder}/{placement}-{name}.journal", SEED)
    load.run(seconds / 2)
    over, counts = threading.Event(), []
    # Requests wait while the disk is away, so the load has a thread of its own.
    thread = threading.Thread(target=lambda: counts.append(attempt(lambda: load.run(1000, over.is_set))))
    thread.start()
    ask(vm, "pull", number)
    waited = threading.Event()
    waited.wait(3)
    outage = json.loads(drive.status())["state"]
    ask(vm, "put back", number)
    vm.dm_change(name, vm.linear(mib, disk(number), 0))
    waited.wait(seconds)
    over.set()
    thread.join(900)
    if thread.is_alive():
        raise Failed(f"{placement}: requests still wait for {name}, which is there again")
    if isinstance(counts[0], Failed):
        raise counts[0]
    state, failed = json.loads(drive.status())["state"], load.model.failed_flushes
    if outage != "outage" and placement != "logging":
        raise Failed(f"{placement}: the volume was {outage} while {name} was pulled")
    if state != "healthy":
        raise Failed(f"{placement}: {state} after {name} was put back")
    if placement == "logging" and failed:
        restart(vm, drive, load)
    good, bad = load.run(seconds / 2)
    if bad:
        raise Failed(f"{placement}: a flush failed after {name} was put back")
    restart(vm, drive, load)
    errors = load.read_all()
    if errors:
        raise Failed(f"{placement}: {errors} ranges cannot be read after {name} was put back")
    vm.say(f"{placement}, {name} pulled and put back: {outage}, then {state}; {load.model.flushes} flushes succeeded ({good} afterwards) and "
           f"{failed} failed, {load.checked} blocks verified")
    finish(vm, drive, load)
    vm.dm_remove("fast", "slow")


def attempt(what):
    try:
        return what()
    except Failed as failure:
        return failure


def restart(vm, drive, load):
    load.close()
    vm.detach()
    drive.kill()
    drive.start()
    vm.attach(drive)
    load.reopen()


def finish(vm, drive, load):
    load.close()
    vm.detach()
    if drive.stop() != 0:
        raise Failed(f"the drive did not close in good order: {drive.last_words()}")


def gone(vm, peryton, folder, placement, number, seconds):
    name = ("fast", "slow")[number]
    drive = Drive(peryton, f"/run/{placement}-{name}-gone", design(placement, FAST, SLOW, patience="1s"), disk(0), disk(1))
    drive.run("create", "--force")
    drive.start()
    load = Load(vm.attach(drive), f"{folder}/{placement}-{name}-gone.journal", SEED)
    load.run(seconds / 2)
    ask(vm, "pull", number)
    degraded = lambda: json.loads(drive.status())["state"] == "degraded"
    load.run(60, degraded)
    if not degraded():
        raise Failed(f"{placement}: {name} was not given up although it is gone")
    load.run(seconds / 2)
    without = load.read_all()
    load.close()
    vm.detach()
    drive.stop()
    ask(vm, "put back", number)
    drive.paths = Drive(peryton, drive.folder, design(placement, FAST, SLOW), disk(0), disk(1)).paths
    drive.run("re-add", name)
    drive.start()
    vm.attach(drive)
    load.reopen()
    errors = load.read_all()
    good, bad = load.run(seconds / 2)
    if bad or not good:
        raise Failed(f"{placement}: flushes fail although {name} was taken back")
    vm.say(f"{placement}, {name} gone and readmitted: {without} ranges unreadable without it, {errors} afterwards (moves that were under "
           f"way); {load.model.flushes} flushes succeeded and {load.model.failed_flushes} failed, {load.checked} blocks verified")
    finish(vm, drive, load)


def guest(peryton, folder, seconds, cases):
    import guest as vm
    vm.modules("nbd", "dm-mod")
    for case in cases:
        kind, placement, number = case.split(",")
        (returns if kind == "returns" else gone)(vm, peryton, folder, placement, int(number), seconds)


# Outside.

def host(machine, peryton, folder, cut):
    cases = ["returns,tiering,0", "gone,tiering,0"] if cut else [
        "returns,tiering,0", "returns,tiering,1", "returns,caching-back,0", "returns,caching-back,1", "returns,caching-through,1",
        "returns,partitioned,0", "returns,logging,0", "gone,tiering,0", "gone,tiering,1", "gone,caching-back,0", "gone,caching-through,0"]
    disks = []
    for name, mib in (("fast", FAST), ("slow", SLOW)):
        disks.append(f"{folder}/{name}.img")
        with open(disks[-1], "wb") as file:
            file.truncate(mib * MIB)
    process = machine.start(disks, __file__, peryton, folder, 4 if cut else 8, *cases, monitor=True)
    lines, monitor = [], None
    try:
        for line in process.stdout:
            words = line.split()
            if words[:1] == ["pull"] or words[:2] == ["put", "back"]:
                monitor = monitor or Monitor(f"{folder}/monitor")
                (monitor.pull if words[0] == "pull" else monitor.put_back)(int(words[-1]))
            else:
                lines.append(line.rstrip())
                print(f"  {line.rstrip()}", flush=True)
        if process.wait() != 0:
            raise Failed(f"in the machine: {' / '.join(lines[-8:])}")
    finally:
        end(process)


if __name__ == "__main__":
    import guest as vm
    vm.main(guest, sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
