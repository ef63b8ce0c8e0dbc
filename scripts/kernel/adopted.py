#!/usr/bin/env python3
"""Disks with ext4, xfs and LVM are taken over (peryton import), used and given back (peryton export), each killed again and again.

The file systems are mounted by the kernel before, from the volume, and after. A disk in use is refused; the disk alone cannot be mounted
while it is part of the volume; all files have their checksums at any time, also after the server was killed beneath the file system.
"""

import hashlib
import os
import random
import subprocess
import sys
import time

from drive import MIB, Drive, Failed

FAST, SLOW = 64, 320  # MiB
KINDS = ["ext4", "xfs", "lvm"]
MOUNTED = "/run/mounted"
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F"], "xfs": ["mkfs.xfs", "-q", "-f"], "lvm": ["mkfs.ext4", "-q", "-F"]}
GROUP, MAPPED = "group", "/dev/mapper/group-data"
KILLS = 8


def lvm(vm, device, *command, check=True):
    """LVM as it sees this device only, in a machine without udev."""
    settings = f'devices {{ use_devicesfile=0 filter=["a|^{device}$|","r|.*|"] }} activation {{ udev_sync=0 udev_rules=0 }}'
    return vm.sh("lvm", command[0], "--config", settings, *command[1:], check=check)


def make(vm, kind, disk):
    """A file system on the disk; returns the device to mount."""
    if kind != "lvm":
        vm.sh(*MAKE[kind], disk)
        return disk
    lvm(vm, disk, "pvcreate", "-y", disk)
    lvm(vm, disk, "vgcreate", GROUP, disk)
    lvm(vm, disk, "lvcreate", "-y", "-l", "100%FREE", "-n", "data", GROUP)
    vm.sh(*MAKE[kind], MAPPED)
    return MAPPED


def activate(vm, kind, disk):
    if kind != "lvm":
        return disk
    lvm(vm, disk, "vgchange", "-ay", GROUP)
    return MAPPED


def deactivate(vm, kind, disk):
    if kind == "lvm":
        lvm(vm, disk, "vgchange", "-an", GROUP)


def write(folder, first, last):
    os.makedirs(folder, exist_ok=True)
    for number in range(first, last):
        with open(f"{folder}/file{number}", "wb") as file:
            file.write(random.Random(number).randbytes(1000 + 5003 * (number % 60)))
            file.flush()
            os.fsync(file.fileno())


def sums(folder):
    found = {}
    for at, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(at, name)
            found[path] = hashlib.sha256(open(path, "rb").read()).hexdigest()
    return found


def must_have(folder, expected, when):
    found = sums(folder)
    if found != expected:
        differ = [path for path in expected if found.get(path) != expected[path]]
        raise Failed(f"{when}: {len(differ)} of {len(expected)} files differ, such as {differ[:1]}")


def killed(vm, command, chance):
    """Runs a command that is killed after a while, again and again, and then to its end; returns what it printed, and how many were killed."""
    count = 0
    for attempt in range(KILLS):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # How long the program takes to begin depends on the machine, so later attempts are killed later.
        time.sleep(chance.uniform(0.3, 1.0) * (attempt + 1))
        if process.poll() is not None:
            break
        process.kill()
        count += process.wait() != 0
    done = vm.sh(*command, check=False)
    return done, count


def refused(vm, command, reason):
    done = vm.sh(*command, check=False)
    if done.returncode != 2 or reason not in done.stderr or len(done.stderr.splitlines()) != 1:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()}, not with '{reason}'")


def guest(peryton):
    import guest as vm
    vm.modules("nbd", "xfs", "dm_mod")
    os.makedirs(MOUNTED)
    for index, kind in enumerate(KINDS):
        fast, disk, chance = f"/dev/vd{'ace'[index]}", f"/dev/vd{'bdf'[index]}", random.Random(kind)
        mountable = make(vm, kind, disk)
        vm.sh("mount", mountable, MOUNTED)
        write(f"{MOUNTED}/first", 0, 120)
        drive = Drive(peryton, f"/run/{kind}", "", fast, disk)
        os.remove(drive.file)
        drive.paths = []
        adopt = [peryton, "import", drive.file, "--slow", disk, "--fast", fast]
        refused(vm, adopt, "LVM" if kind == "lvm" else "mounted")
        expected = sums(MOUNTED)
        vm.sh("umount", MOUNTED)
        deactivate(vm, kind, disk)

        done, kills = killed(vm, adopt, chance)
        if done.returncode != 0:
            raise Failed(f"{kind}: adopt after {kills} kills: {done.stderr.strip()}")
        how = done.stdout.splitlines()[0]
        alone = vm.sh("mount", disk, MOUNTED, check=False)
        named = vm.sh("blkid", "-p", disk, check=False).stdout.strip()
        if alone.returncode == 0 or named:
            raise Failed(f"{kind}: the disk alone can be mounted, or is {named}")

        for last in (180, 240):
            drive.start()
            device = vm.attach(drive)
            vm.sh("mount", activate(vm, kind, device), MOUNTED)
            must_have(MOUNTED, expected, f"{kind} from the volume")
            write(f"{MOUNTED}/second", last - 60, last)
            expected = sums(MOUNTED)
            # The server is killed beneath the file system, once.
            if last == 180:
                drive.kill()
            vm.sh("umount", MOUNTED, check=last != 180)
            if kind == "lvm":
                lvm(vm, device, "vgchange", "-an", GROUP, check=False)
                vm.sh("dmsetup", "remove", "--force", "group-data", check=False)
            vm.detach(device)
            if last != 180 and drive.stop() != 0:
                raise Failed(f"{kind}: the server did not close the volume: {drive.last_words()}")

        done, kills_back = killed(vm, [peryton, "export", drive.file], chance)
        if done.returncode != 0 and "is not part of a Peryton volume" not in done.stderr:
            raise Failed(f"{kind}: detach after {kills_back} kills: {done.stderr.strip()}")
        vm.sh("mount", activate(vm, kind, disk), MOUNTED)
        must_have(MOUNTED, expected, f"{kind} given back")
        vm.sh("umount", MOUNTED)
        check = {"ext4": ["e2fsck", "-fn", disk], "xfs": ["xfs_repair", "-n", disk], "lvm": ["e2fsck", "-fn", MAPPED]}
        vm.sh(*check[kind])
        deactivate(vm, kind, disk)
        vm.say(f"{kind}: {len(expected)} files; adopt killed {kills} times ({how}), detach {kills_back} times")


def host(machine, peryton, folder, cut):
    disks = []
    for kind in KINDS:
        for name, mib in (("fast", FAST), ("slow", SLOW)):
            disks.append(f"{folder}/{kind}-{name}.img")
            with open(disks[-1], "wb") as file:
                file.truncate(mib * MIB)
    for line in machine.run(disks, __file__, peryton).splitlines():
        print(f"  {line}", flush=True)


if __name__ == "__main__":
    import guest as vm
    vm.main(guest, sys.argv[1])
