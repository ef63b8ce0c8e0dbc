#!/usr/bin/env python3
"""The machine is reset amid writes, twenty times: by sysrq-b from within, or by QEMU's quit from outside. The memory of the kernel and of
the server is lost; what reached the disks stays. Then the drive recovers outside of the machine, every block is read, and everything that
was flushed has to be there. The next reset goes on with the same volume.

Meanwhile fio writes and verifies a quarter of the volume of its own.
"""

import os
import random
import subprocess
import sys
import threading
import time

from drive import MIB, PATIENCE, Drive, Failed, Nbd, design, verify
from load import Load
from machine import Monitor, end
from records import read_journal

FAST, SLOW = 48, 112  # MiB
SEED = 17
RECORDS = 72  # MiB of the volume for records; the rest is fio's.
PLACEMENTS = ["tiering", "caching-back", "caching-through", "logging", "partitioned"]


def guest(peryton, folder, placement, reset_after):
    import guest as vm
    vm.modules("nbd", "dm-mod")
    drive = Drive(peryton, "/run/drive", design(placement, FAST, SLOW), "/dev/vda", "/dev/vdb")
    drive.start()
    device = vm.attach(drive)
    mib = int(open("/sys/block/nbd0/size").read()) // vm.SECTORS_PER_MIB
    load = Load(vm.dm("records", vm.linear(RECORDS, device, 0)), f"{folder}/{placement}.journal", SEED)
    rest = vm.dm("rest", vm.linear(mib - RECORDS, device, RECORDS))
    fio = subprocess.Popen(["fio", "--name=verified", f"--filename={rest}", "--direct=1", "--ioengine=libaio",
                            "--iodepth=8", "--rw=randwrite", "--bsrange=4k-64k", "--fsync=32", "--verify=crc32c", "--verify_backlog=64",
                            "--verify_fatal=1", "--time_based", "--runtime=3600", "--eta=never", "--output=/run/fio.log"])
    errors = load.read_all()
    if errors:
        raise Failed(f"{errors} ranges cannot be read")
    load.epoch()  # The reset comes after at least one flush, however slow this machine is.
    vm.say("writing")
    if reset_after:
        threading.Timer(reset_after, lambda: open("/proc/sysrq-trigger", "w").write("b")).start()
    while True:
        if not load.epoch():
            raise Failed("a flush failed, and no device did")
        if fio.poll() is not None:
            raise Failed(f"fio ended with {fio.returncode}: {open('/run/fio.log').read()[-300:]}")


# Outside.

def one(machine, peryton, folder, placement, drive, disks, number, chance):
    """Returns how many flushes succeeded before the reset, and how many blocks were verified after it."""
    journal, seconds = f"{folder}/{placement}.journal", 1.5 + 3 * chance.random()
    before = read_journal(journal, SEED).flushes if os.path.exists(journal) else 0
    by_quit = number % 2 == 1
    process = machine.start(disks, __file__, peryton, folder, placement, 0 if by_quit else seconds, monitor=by_quit)
    try:
        lines, deadline = [], time.monotonic() + PATIENCE
        for line in process.stdout:
            lines.append(line.rstrip())
            if line.startswith("writing") and by_quit:
                # Not before: a machine that is started again has another monitor.
                monitor = Monitor(f"{folder}/monitor")
                time.sleep(seconds)
                monitor.quit()
            if time.monotonic() > deadline:
                raise Failed("the machine was not reset")
        process.wait()
    finally:
        end(process)
    wrong = [line for line in lines if line.startswith("FAILED") or line.startswith("Traceback")]
    if wrong or "writing" not in lines:
        raise Failed(f"{placement}, before reset {number + 1}: {' / '.join(lines[-6:])}")
    model = read_journal(journal, SEED)
    drive.start()
    nbd = Nbd(drive.nbd)
    nbd.size = RECORDS * MIB
    checked, _ = verify(nbd, model)
    nbd.close()
    if drive.stop() != 0:
        raise Failed(f"{placement}: the drive did not close in good order: {drive.last_words()}")
    return model.flushes - before, checked


def host(machine, peryton, folder, cut):
    placements, resets = (PLACEMENTS[:2], 3) if cut else (PLACEMENTS, 20)
    chance, drives = random.Random(SEED), {}
    for number in range(resets):
        placement = placements[number % len(placements)]
        disks = [f"{folder}/{placement}-{name}.img" for name in ("fast", "slow")]
        if placement not in drives:
            for path, mib in zip(disks, (FAST, SLOW)):
                with open(path, "wb") as file:
                    file.truncate(mib * MIB)
            drives[placement] = Drive(peryton, f"{folder}/drive-{placement}", design(placement, FAST, SLOW), *disks)
            drives[placement].run("create")
        try:
            flushes, blocks = one(machine, peryton, folder, placement, drives[placement], disks, number, chance)
        finally:
            drives[placement].kill()
        print(f"  {number + 1}: {placement}, {'quit' if number % 2 else 'sysrq-b'} after {flushes} flushes, {blocks} blocks verified", flush=True)
        if not flushes:
            raise Failed("the reset came before the first flush, so it showed nothing")


if __name__ == "__main__":
    import guest as vm
    vm.main(guest, sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
