#!/usr/bin/env python3
"""stress-ng's file-system stressors on ext4 and xfs over the drive, while files lie there that were fsynced. Afterwards the file system is
checked and the files are read; then the drive is killed, recovers, and both is done again.
"""

import os
import signal
import subprocess
import sys

import files
from drive import MIB, Drive, Failed, design

FAST, SLOW = 128, 512  # MiB
RUNS = [("ext4", "tiering"), ("xfs", "caching-back")]
STRESSORS = ["access", "chmod", "dentry", "dir", "fallocate", "fiemap", "fpunch", "getdent", "hdd", "iomix", "io", "link",
             "readahead", "rename", "seek", "sendfile", "symlink", "sync-file", "touch", "utime", "xattr"]
FILES = 30
MAKE = {"ext4": ["mkfs.ext4", "-q"], "xfs": ["mkfs.xfs", "-q"]}
CHECK = {"ext4": ["e2fsck", "-fn"], "xfs": ["xfs_repair", "-n"]}
MOUNTED = "/run/mounted"


def check(vm, kind, device):
    """A mount recovers the journal of the file system; then it has to be without fault."""
    vm.sh("mount", device, MOUNTED)
    wrong = files.wrong(f"{MOUNTED}/kept", FILES)
    vm.sh("umount", MOUNTED)
    if wrong:
        raise Failed(f"{kind}: {wrong}")
    vm.sh(*CHECK[kind], device)


def guest(peryton, folder, seconds, stressors):
    import guest as vm
    vm.modules("nbd", "xfs")
    os.makedirs(MOUNTED)
    for index, (kind, placement) in enumerate(RUNS):
        drive = Drive(peryton, f"/run/{kind}", design(placement, FAST, SLOW), f"/dev/vd{'ac'[index]}", f"/dev/vd{'bd'[index]}")
        drive.run("create", "--force")
        drive.start()
        device = vm.attach(drive)
        vm.sh(*MAKE[kind], device)
        vm.sh("mount", device, MOUNTED)
        os.makedirs(f"{MOUNTED}/kept")
        os.makedirs(f"{MOUNTED}/stressed")
        for number in range(1, FILES + 1):
            files.write(f"{MOUNTED}/kept", number)
        for stressor in stressors:
            done = subprocess.run(["stress-ng", f"--{stressor}", "2", "--timeout", f"{seconds}s", "--verify", "--temp-path", f"{MOUNTED}/stressed",
                                   "--hdd-bytes", "8m", "--iomix-bytes", "8m", "--fallocate-bytes", "16m", "--seek-size", "8m",
                                   "--sync-file-bytes", "8m", "--readahead-bytes", "8m"], capture_output=True, text=True)
            # 3: too few resources, 4: not implemented here.
            if done.returncode not in (0, 3, 4):
                raise Failed(f"{kind}: stress-ng --{stressor} ended with {done.returncode}: {(done.stdout + done.stderr)[-400:]}")
        vm.sh("umount", MOUNTED)
        check(vm, kind, device)
        vm.sh("mount", device, MOUNTED)
        hdd = subprocess.Popen(["stress-ng", "--iomix", "1", "--iomix-bytes", "8m", "--timeout", "600s", "--temp-path", f"{MOUNTED}/stressed"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        vm.sh("sleep", "2")
        drive.kill()
        # All of its processes at once, which otherwise end one after the other.
        os.killpg(hdd.pid, signal.SIGKILL)
        hdd.wait()
        # Requests in flight would wait for half a minute.
        vm.sh("nbd-client", "-d", device)
        vm.wait(lambda: subprocess.run(["umount", MOUNTED], capture_output=True, check=False).returncode == 0, "the file system stays in use")
        vm.wait(lambda: not os.path.exists(f"/sys/block/{os.path.basename(device)}/pid"), f"{device} does not let go")
        drive.start()
        vm.attach(drive)
        check(vm, kind, device)
        vm.detach()
        if drive.stop() != 0:
            raise Failed(f"{kind}: the drive did not close in good order: {drive.last_words()}")
        vm.say(f"{kind} on {placement}: {len(stressors)} stressors for {seconds} s each, no fault; the same after the drive was killed")


# Outside.

def host(machine, peryton, folder, cut):
    seconds, stressors = (1, STRESSORS[::4]) if cut else (2, STRESSORS)
    disks = []
    for kind, _ in RUNS:
        for name, mib in (("fast", FAST), ("slow", SLOW)):
            disks.append(f"{folder}/{kind}-{name}.img")
            with open(disks[-1], "wb") as file:
                file.truncate(mib * MIB)
    for line in machine.run(disks, __file__, peryton, folder, seconds, *stressors).splitlines():
        print(f"  {line}", flush=True)


if __name__ == "__main__":
    import guest as vm
    vm.main(guest, sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4:])
