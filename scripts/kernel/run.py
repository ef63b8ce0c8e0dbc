#!/usr/bin/env python3
"""Tests the built drive under a real Linux kernel, in a virtual machine (scripts/vm).

usage: scripts/kernel/run.py [--build] [--peryton BINARY] [--cut] [--keep] [--at-once N] [TEST...]

Without --peryton it builds one: optimised, with the features that serving a volume needs.
Without TESTs it runs all that can be begun in time (20 minutes; with --cut four), several at once.
Each test prints what it found and a line PASS or FAIL when it has ended. Exit status: 0 if all pass, 1 otherwise. Where the machine cannot be prepared (no root, no apt-get, no network) the
line says `skipped`, and the status is 0.
"""

import argparse
import concurrent.futures
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback

from drive import Failed
from machine import VM, Machine

# Those that take longest come first, so that two at once end at about the same time.
TESTS = {
    "block_device": "the volume as a block device (ublk), whose server is killed",
    "resets": "the machine is reset amid writes",
    "nested": "a volume as the slow device of another: killed, failing, reset",
    "replay": "a power loss at every flush: the log of dm-log-writes is replayed",
    "faults": "errors of dm-flakey, dm-error and QEMU's blkdebug",
    "pulled": "a disk is pulled and put back under load",
    "health": "health and standby of NVMe, ATA and SCSI drives",
    "stress": "stress-ng's file-system stressors on ext4 and xfs",
    "adopted": "disks with ext4, xfs and LVM are taken over and given back, killed again and again",
    "boot": "Debian with the package and systemd: boot, kills, hangs, upgrade, removal, reset",
    "speed": "fio over NBD and ublk in turn",
}
# What runs only if it is named: it fetches a Debian and takes minutes, or it checks nothing.
ASKED_FOR = ["boot", "speed"]


# How often a test is begun again in whose machine the emulator failed. QEMU's emulation of several processors sometimes
# executes the breakpoints that the kernel uses to patch its own code; no mistake of a drive makes a kernel do that.
MOST_AGAIN = 2
EMULATOR_FAILED = "Oops: int3"

# Seconds after which no further test is begun: the whole is to take 25 minutes at most, the cut five.
LATEST = {False: 20 * 60, True: 4 * 60}


def build():
    cargo, root = os.environ.get("CARGO", "cargo"), os.path.dirname(os.path.dirname(VM))
    what = ["--profile", "quick", "--package", "peryton", "--no-default-features"]
    if subprocess.run([cargo, "build", "--quiet", "--locked", *what], cwd=root).returncode != 0:
        sys.exit("FAIL: peryton cannot be built")
    return os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target")), "quick", "peryton")


def run(test, peryton, cut, keep):
    """Runs a test here; returns whether it passed."""
    since = time.monotonic()
    print(f"{test}: {TESTS[test]}", flush=True)
    for again in range(MOST_AGAIN + 1):
        folder, verdict = tempfile.mkdtemp(prefix=f"peryton-kernel-{test}-", dir="/var/tmp"), "PASS"
        try:
            importlib.import_module(test).host(Machine(folder), peryton, folder, cut)
        except Failed as failure:
            verdict = f"FAIL: {failure}"
        except Exception:  # A mistake of the test itself must not keep the others from being run.
            traceback.print_exc()
            verdict = "FAIL: the test itself"
        if again == MOST_AGAIN or EMULATOR_FAILED not in verdict:
            break
        print(f"  the emulator failed, so the test is begun again ({folder} has what there is of it)", flush=True)
    print(f"{test}: {verdict} ({time.monotonic() - since:.0f} s)", flush=True)
    if keep or verdict != "PASS":
        print(f"  kept: {folder}", flush=True)
    else:
        shutil.rmtree(folder)
    return verdict == "PASS"


def run_apart(test, began, latest, command):
    """Runs a test in a process of its own, and prints what it has printed; returns whether it passed."""
    late = time.monotonic() - began
    if late > latest:
        print(f"{test}: left out, because this machine is slow and the others took {late:.0f} s", flush=True)
        return True
    print(f"{test}: begins", flush=True)
    ended = subprocess.run([*command, test], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    print(ended.stdout, end="", flush=True)
    return ended.returncode == 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].splitlines()[0])
    parser.add_argument("--peryton")
    parser.add_argument("--cut", action="store_true", help="at most five minutes")
    parser.add_argument("--keep", action="store_true", help="keep the folder with images and journals")
    parser.add_argument("--at-once", type=int, default=min(3, (os.cpu_count() or 1) + 1), metavar="N",
                        help="how many tests run at once; by default one more than there are processors and at most 3, because each waits now and then")
    parser.add_argument("tests", nargs="*", metavar="TEST", help=", ".join(TESTS))
    parser.add_argument("--build", action="store_true", help="compile the program to be tested, and run nothing")
    args = parser.parse_args()
    if args.build:
        build()
        return 0
    unknown = [test for test in args.tests if test not in TESTS]
    if unknown:
        parser.error(f"there is no test {unknown[0]}; there are {', '.join(TESTS)}")
    prepared = subprocess.run([VM, "prepare"], stderr=subprocess.PIPE, text=True)
    if prepared.returncode != 0:
        print(f"skipped: the tests under a real kernel: {prepared.stderr.strip()}")
        return 0 if prepared.returncode == 77 else 1
    peryton = os.path.abspath(args.peryton or build())
    if len(args.tests) == 1:
        return 0 if run(args.tests[0], peryton, args.cut, args.keep) else 1
    command = [sys.executable, os.path.abspath(__file__), "--peryton", peryton]
    command += ["--cut"] * args.cut + ["--keep"] * args.keep
    tests = args.tests or [test for test in TESTS if test not in ASKED_FOR]
    began, latest = time.monotonic(), float("inf") if args.tests else LATEST[args.cut]
    with concurrent.futures.ThreadPoolExecutor(max(args.at_once, 1)) as pool:
        passed = list(pool.map(lambda test: run_apart(test, began, latest, command), tests))
    verdict = "PASS" if all(passed) else "FAIL"
    print(f"{verdict}: the tests under a real kernel, {time.monotonic() - began:.0f} s", flush=True)
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
