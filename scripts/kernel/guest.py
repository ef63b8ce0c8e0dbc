"""What the tests need inside the virtual machine: device-mapper devices and the kernel's NBD client."""

import os
import subprocess
import sys
import time
import traceback

from drive import PATIENCE, Failed

SECTORS_PER_MIB = 2048


def sh(*command, check=True):
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    if check and done.returncode != 0:
        raise Failed(f"{' '.join(command)} ended with {done.returncode}: {(done.stderr or done.stdout).strip()}")
    return done


def modules(*names):
    for name in names:
        sh("modprobe", name)


def dm(name, *lines):
    """Makes a device-mapper device and returns its path."""
    sh("dmsetup", "create", name, "--table", "\n".join(lines))
    path = f"/dev/mapper/{name}"
    wait(lambda: os.path.exists(path), f"{path} does not appear")
    return path


def dm_change(name, *lines):
    """Gives a device another table, without waiting for requests to the old one."""
    sh("dmsetup", "suspend", "--noflush", "--nolockfs", name)
    sh("dmsetup", "load", name, "--table", "\n".join(lines))
    sh("dmsetup", "resume", name)


def dm_remove(*names):
    for name in names:
        sh("dmsetup", "remove", "--retry", name)


def linear(mib, path, from_mib):
    return f"0 {mib * SECTORS_PER_MIB} linear {path} {from_mib * SECTORS_PER_MIB}"


def attach(drive, device="/dev/nbd0"):
    """Connects the kernel's client to the drive."""
    sh("nbd-client", "-unix", drive.nbd, device, "-C", "2")
    size = f"/sys/block/{os.path.basename(device)}/size"
    wait(lambda: int(open(size).read()) > 0, f"{device} has no size")
    return device


def detach(device="/dev/nbd0"):
    sh("nbd-client", "-d", device)
    pid = f"/sys/block/{os.path.basename(device)}/pid"
    wait(lambda: not os.path.exists(pid), f"{device} does not let go")


def wait(condition, otherwise, seconds=PATIENCE):
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise Failed(otherwise)
        time.sleep(0.05)


def say(text):
    print(text, flush=True)


def main(function, *arguments):
    """Runs the part of a test that is inside the machine."""
    try:
        function(*arguments)
    except Failed as failure:
        say(f"FAILED: {failure}")
    except Exception:
        say("FAILED: the test itself")
        traceback.print_exc()
    else:
        return
    # Threads may wait for a device without end, so nothing waits for them.
    try:
        subprocess.run("dmesg --level=emerg,alert,crit,err | tail -5", shell=True)
    finally:
        sys.stdout.flush()
        os._exit(1)
