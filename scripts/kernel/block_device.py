#!/usr/bin/env python3
"""The volume as a block device of the machine (peryton serve --ublk), whose server is killed again and again.

* kills: threads write, zero, read and flush blocks and know what each of them has to be, while the server is killed and started again. No
  request may fail, and every read has to return what was answered last, flushed or not. Finally all of it is read over NBD.
* sqlite: the same with ext4 and SQLite; a transaction is open while the server is killed. Every committed row has to be there.
* stop: SIGTERM leaves a device that is mounted, and removes one that is not; limits and errors are as docs/making-a-volume.md says.
* full: the server is killed while it has as many requests as it can have. The next one takes over soon, and carries them out.
* supervise: `peryton supervise` starts a killed server again; if that fails for --give-up-after, requests fail instead of waiting.
* grow: the volume grows beneath a mounted file system, and is taken over afterwards. From Linux 6.16 on the device follows; before, the
  command says that it does not, and it has the new size when it is made again.
* records: servers are killed that keep no records; the next flush of the host fails, once.
* memory: the server and a program that writes more than fits share a memory cgroup, which is full of dirty pages.

The test `speed` runs the last part, fio over NBD and over ublk in turn.
"""

import fcntl
import json
import mmap
import os
import random
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import threading
import time

from drive import MIB, PATIENCE, Drive, Failed, Nbd, design
from records import BLOCK

FAST, SLOW = 64, 192  # MiB
SEED = 23
BLKZEROOUT, BLKDISCARD = 0x127F, 0x1277
PLACEMENTS = ["tiering", "caching-back", "caching-through", "logging", "partitioned"]
CONTROL_DEVICE = "/dev/ublk-control"


class BlockDrive(Drive):
    """A drive that is a block device of this machine."""

    def begin(self, *arguments, group=None):
        """Starts the server without waiting for it."""
        for path in (self.nbd, self.control):
            if os.path.exists(path):
                os.remove(path)
        def enter():
            with open(f"{group}/cgroup.procs", "w") as file:
                file.write(str(os.getpid()))
        self.answer = f"{self.folder}/answer"
        with open(self.log, "a") as log, open(self.answer, "w") as answer:
            self.process = subprocess.Popen(
                [self.peryton, "serve", self.file, *self.paths, "--nbd", self.nbd, "--control", self.control, "--ublk", "--json", "--drills", *arguments],
                stdout=answer, stderr=log, preexec_fn=enter if group else None)

    def start(self, *arguments, group=None):
        """Starts the server and waits until the block device can be used; returns its path."""
        self.begin(*arguments, group=group)
        deadline = time.monotonic() + PATIENCE
        while not open(self.answer).read().endswith("\n"):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"the drive did not start: {self.last_words()}")
            time.sleep(0.01)
        return json.loads(open(self.answer).readline())["ublk"]

    def stop(self):
        """Closes the volume and returns the exit status. A server whose device is in use has to be asked twice."""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(5)
        except subprocess.TimeoutExpired:
            return super().stop()

    def block_device(self):
        return json.loads(self.status())["ublk"]


def new(peryton, placement, name):
    drive = BlockDrive(peryton, f"/run/{name}", design(placement, FAST, SLOW), "/dev/vda", "/dev/vdb")
    drive.run("create", "--force")
    return drive


class Checker:
    """Threads that write and read blocks of their own. What a block has to be is known at every moment: the last answer counts."""

    THREADS, SPAN = 6, 1500

    def __init__(self, device, unit):
        self.device, self.unit = os.open(device, os.O_RDWR | os.O_DIRECT), unit
        self.blocks = int(open(f"/sys/block/{os.path.basename(device)}/size").read()) * 512 // BLOCK
        self.versions = [{} for _ in range(self.THREADS)]
        self.over, self.wrong, self.done = threading.Event(), [], [0] * self.THREADS
        self.threads = [threading.Thread(target=self.work, args=(number,), daemon=True) for number in range(self.THREADS)]
        for thread in self.threads:
            thread.start()

    @staticmethod
    def content(block, version, length):
        """The bytes of a block, or of the start of one; version 0 is zeros."""
        return struct.pack("<QQ", block * (version > 0), version) * (length // 16)

    def place(self, number, index):
        """Each thread has every THREADS-th block, and few enough to come back to them."""
        return (index * self.THREADS + number) * max(1, self.blocks // (self.SPAN * self.THREADS)) % self.blocks // self.THREADS * self.THREADS + number

    def work(self, number):
        chance, buffer = random.Random(f"{SEED} {number}"), mmap.mmap(-1, BLOCK)
        versions, version = self.versions[number], 0
        try:
            while not self.over.is_set():
                block, draw = self.place(number, chance.randrange(self.SPAN)), chance.random()
                if block >= self.blocks:
                    continue
                if draw < 0.5:
                    # Some writes are shorter than 4 KiB: the drive reads the rest of the block first.
                    length = BLOCK if chance.random() < 0.7 or block not in versions else self.unit
                    version += 1
                    before = versions.get(block, (0, 0))
                    buffer[:length] = self.content(block, version, length)
                    if os.pwritev(self.device, [memoryview(buffer)[:length]], block * BLOCK) != length:
                        raise OSError("a short write")
                    versions[block] = (version, before[1] if length < BLOCK else version)
                elif draw < 0.55:
                    fcntl.ioctl(self.device, BLKZEROOUT, struct.pack("<QQ", block * BLOCK, BLOCK))
                    versions[block] = (0, 0)
                elif draw < 0.6:
                    os.fdatasync(self.device)
                elif block in versions:
                    os.preadv(self.device, [buffer], block * BLOCK)
                    self.check(block, versions[block], bytes(buffer))
                self.done[number] += 1
        except OSError as error:
            self.wrong.append(f"a request failed: {error}")
        except Failed as failure:
            self.wrong.append(str(failure))

    def check(self, block, versions, data):
        first, rest = versions
        expected = self.content(block, first, self.unit) + self.content(block, rest, BLOCK - self.unit)
        if self.unit == BLOCK:
            expected = self.content(block, first, BLOCK)
        if data != expected:
            raise Failed(f"block {block} has version {struct.unpack_from('<QQ', data)}, not {versions}")

    def finish(self):
        """Ends the load; returns how many requests there were."""
        self.over.set()
        for thread in self.threads:
            thread.join(PATIENCE)
        os.close(self.device)
        if self.wrong:
            raise Failed(self.wrong[0])
        return sum(self.done)

    def read_over(self, nbd):
        """Checks every block over NBD."""
        for versions in self.versions:
            for block, expected in versions.items():
                self.check(block, expected, bytes(nbd.read(block * BLOCK, BLOCK)))
        return sum(map(len, self.versions))


def kill(drive):
    drive.process.kill()
    drive.process.wait()


def kills(vm, peryton, placement, count, unit):
    chance = random.Random(f"{SEED} {placement}")
    drive = new(peryton, placement, f"kills-{placement}")
    device = drive.start("--ublk-block", f"{unit}B")
    if int(open(f"/sys/block/{os.path.basename(device)}/queue/logical_block_size").read()) != unit:
        raise Failed(f"the blocks have not {unit} bytes")
    checker, early = Checker(device, unit), 0
    for number in range(count):
        time.sleep(0.5 + 1.5 * chance.random())
        if checker.wrong:
            break
        kill(drive)
        # Every second time the next server is killed while it starts: before, amid and after it takes the device over.
        if number % 2 == 1:
            drive.begin()
            time.sleep(2.5 * chance.random())
            early += not open(drive.answer).read()
            kill(drive)
        if drive.start() != device:
            raise Failed("another device was made")
        if not drive.block_device()["taken_over"]:
            raise Failed("the device was not taken over")
    requests = checker.finish()
    nbd = Nbd(drive.nbd)
    blocks = checker.read_over(nbd)
    nbd.close()
    if drive.stop() != 0 or os.path.exists(device):
        raise Failed(f"the device stays, or the volume was not closed: {drive.last_words()}")
    vm.say(f"kills {placement}: {count} servers killed, and {early} while they started; {requests} requests, none failed, "
           f"{blocks} blocks of {unit} bytes verified")


def sqlite(vm, peryton, count):
    drive = new(peryton, "tiering", "sqlite")
    device, folder = drive.start(), "/run/sqlite/mounted"
    os.makedirs(folder)
    vm.sh("mkfs.ext4", "-q", device)
    vm.sh("mount", device, folder)
    over, committed, wrong = threading.Event(), [], []

    def insert(mode):
        try:
            base = sqlite3.connect(f"{folder}/{mode}.db", timeout=PATIENCE, isolation_level=None)
            # A small cache, so that a transaction writes to the file before it is committed.
            base.executescript(f"PRAGMA journal_mode={mode}; PRAGMA synchronous=FULL; PRAGMA cache_size=10; CREATE TABLE rows(id INTEGER PRIMARY KEY, text)")
            number = 0
            while not over.is_set():
                base.execute("BEGIN")
                for _ in range(40):
                    base.execute("INSERT INTO rows VALUES(?, ?)", (number, f"{number:08}" * 100))
                    number += 1
                base.execute("COMMIT")
                committed.append((mode, number))
            base.close()
        except sqlite3.Error as error:
            wrong.append(f"SQLite ({mode}): {error}")

    threads = [threading.Thread(target=insert, args=(mode,), daemon=True) for mode in ("WAL", "DELETE")]
    for thread in threads:
        thread.start()
    open_one = sqlite3.connect(f"{folder}/open.db", isolation_level=None)
    open_one.executescript("PRAGMA cache_size=10; CREATE TABLE rows(id INTEGER PRIMARY KEY, text); BEGIN")
    rows = 0
    for _ in range(count):
        for _ in range(60):
            open_one.execute("INSERT INTO rows VALUES(?, ?)", (rows, f"{rows:08}" * 100))
            rows += 1
        kill(drive)
        before = len(committed)
        time.sleep(1)
        drive.start()
        # The others go on before the next server dies.
        vm.wait(lambda: len(committed) >= before + 3 or wrong, "nothing is committed any more")
    open_one.execute("COMMIT")
    over.set()
    for thread in threads:
        thread.join(PATIENCE)
    if wrong:
        raise Failed(wrong[0])
    # What was committed has to be there for a kernel that has not seen it: the file system is mounted again.
    open_one.close()
    kill(drive)
    drive.start()
    vm.sh("umount", folder)
    vm.sh("e2fsck", "-fn", device)
    vm.sh("mount", device, folder)
    for mode, expected in [("open", rows), *((mode, max((number for other, number in committed if other == mode), default=0)) for mode in ("WAL", "DELETE"))]:
        base = sqlite3.connect(f"{folder}/{mode}.db")
        if base.execute("PRAGMA integrity_check").fetchone()[0] != "ok":
            raise Failed(f"{mode}: SQLite finds damage")
        found = base.execute("SELECT count(*), sum(text = printf('%08d', id) || substr(text, 9) AND length(text) = 800) FROM rows").fetchone()
        if found[0] < expected or found[0] != found[1] or not expected:
            raise Failed(f"{mode}: {found} rows, {expected} were committed")
        base.close()
    vm.sh("umount", folder)
    if drive.stop() != 0:
        raise Failed(f"the drive did not close in good order: {drive.last_words()}")
    vm.say(f"sqlite: {count + 1} servers killed, one transaction of {rows} rows throughout, {len(committed)} others; all of them there")


def stop(vm, peryton):
    drive = new(peryton, "caching-back", "stop")
    nowhere = subprocess.run([peryton, "serve", drive.file, *drive.paths, "--ublk", "--nbd", "/run/stop/none"], capture_output=True, text=True,
                             preexec_fn=lambda: os.setuid(65534), timeout=PATIENCE)
    if nowhere.returncode != 2 or "permission" not in nowhere.stderr or len(nowhere.stderr.splitlines()) != 1:
        raise Failed(f"without permission: {nowhere.returncode} {nowhere.stderr}")
    device, folder = drive.start("--ublk-queues", "1", "--ublk-depth", "16"), "/run/stop/mounted"
    queue = f"/sys/block/{os.path.basename(device)}/queue"
    found = {name: open(f"{queue}/{name}").read().strip() for name in
             ("write_cache", "fua", "discard_granularity", "discard_max_bytes", "write_zeroes_max_bytes", "max_hw_sectors_kb", "physical_block_size")}
    wanted = {"write_cache": "write back", "fua": "1", "discard_granularity": "4096", "discard_max_bytes": str(64 * MIB),
              "write_zeroes_max_bytes": str(MIB), "max_hw_sectors_kb": "1024", "physical_block_size": "4096"}
    if found != wanted or os.listdir(f"/sys/block/{os.path.basename(device)}/mq") != ["0"]:
        raise Failed(f"the limits are {found}")
    state = drive.block_device()
    if not state["io_flusher"] or state["memory_locked_bytes"] < 64 * MIB:
        raise Failed(f"memory is not locked: {state}")
    with open("/run/peryton/" + os.path.basename(device)) as file:
        if "PERYTON_NAME=design\n" not in file.readlines():
            raise Failed("udev would not find the name")
    # A discard gives space back, and what is behind it stays.
    with open(device, "r+b", buffering=0) as raw:
        raw.write(b"x" * 8 * MIB)
        os.fsync(raw)
        fcntl.ioctl(raw, BLKDISCARD, struct.pack("<QQ", 0, 4 * MIB))
        raw.seek(4 * MIB)
        if raw.read(MIB) != b"x" * MIB:
            raise Failed("a discard took too much")
    os.makedirs(folder)
    vm.sh("mkfs.ext4", "-q", device)
    vm.sh("mount", device, folder)
    with open(f"{folder}/file", "w") as file:
        file.write("written before")  # And not flushed.
    if drive.stop() != 0 or not os.path.exists(device):
        raise Failed(f"a device that was mounted did not stay: {drive.last_words()}")
    listed = json.loads(subprocess.run([peryton, "list", "--json"], capture_output=True, text=True, check=True).stdout)
    if [(one["path"], one["state"], one["design"]) for one in listed] != [(device, "waiting", drive.file)]:
        raise Failed(f"the list is {listed}")
    if drive.start() != device or not json.loads(open(drive.answer).readline())["clean"]:
        raise Failed("the volume had not been closed in good order, or has another device")
    # Peryton's own upgrade: a server ends, the next one goes on.
    for _ in range(3):
        writer = threading.Thread(target=lambda: vm.sh("dd", "if=/dev/zero", f"of={folder}/other", "bs=1M", "count=24", "conv=fsync"))
        writer.start()
        time.sleep(0.3)
        if drive.stop() != 0:
            raise Failed(f"the drive did not close in good order: {drive.last_words()}")
        drive.start()
        writer.join()
    vm.sh("umount", folder)
    vm.sh("mount", device, folder)
    if open(f"{folder}/file").read() != "written before":
        raise Failed("what was written before is not there")
    vm.sh("umount", folder)
    if drive.stop() != 0 or os.path.exists(device) or set(os.listdir("/run/peryton")) - {"handoff"}:
        raise Failed("a device that nobody used stays")
    # A device that waits for the server of another volume is left alone, and can be removed.
    device = drive.start()
    kill(drive)
    other = new(peryton, "tiering", "other")
    if other.start() == device:
        raise Failed("a device of another volume was taken over")
    if other.stop() != 0:
        raise Failed(f"the other drive did not close: {other.last_words()}")
    removed = subprocess.run([peryton, "disconnect", device], capture_output=True, text=True, timeout=PATIENCE)
    if removed.returncode != 0 or os.path.exists(device):
        raise Failed(f"it was not removed: {removed.stderr}")
    vm.say("stop: limits, permission, SIGTERM with and without users, three handovers beneath a writer, removal: as described")


def full(vm, peryton, count):
    """If all of a server's commands hold requests, no command of it ends with it, and the kernel has to look for it."""
    drive, depth = new(peryton, "tiering", "full"), 8
    device, longest = drive.start("--ublk-queues", "1", "--ublk-depth", str(depth)), 0
    for round in range(1, count + 1):
        for index in (0, 1):
            drive.ask({"verb": "fault", "fault": {"device": index, "effect": "lag", "lag_us": 60_000_000}})
        writer = subprocess.Popen(["fio", "--name=x", f"--filename={device}", "--rw=write", "--bs=4k", f"--iodepth={2 * depth}", "--size=1m",
                                   "--direct=1", "--ioengine=libaio", f"--verify_pattern={round:#x}", "--verify=pattern", "--do_verify=1"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        # The kernel hands over as many as the server has commands, and counts those.
        vm.wait(lambda: sum(map(int, open(f"/sys/block/{os.path.basename(device)}/inflight").read().split())) >= depth, "no requests are under way")
        time.sleep(1)
        kill(drive)
        began = time.monotonic()
        if drive.start() != device:
            raise Failed("another device was made")
        longest = max(longest, time.monotonic() - began)
        output, _ = writer.communicate(timeout=PATIENCE)
        if writer.returncode != 0:
            raise Failed(f"requests that waited were not carried out: {output[-300:]}")
    if drive.stop() != 0:
        raise Failed(f"the drive did not close in good order: {drive.last_words()}")
    if longest > 20:
        raise Failed(f"the next server could take over only after {longest:.0f} s")
    vm.say(f"full: {count} servers killed with all of {depth} requests under way; the next one served after {longest:.1f} s at most")


def grow(vm, peryton):
    """The slow device of a cache uses half of its disk, and then the rest."""
    before = SLOW // 2 * MIB
    drive = BlockDrive(peryton, "/run/grow", design("caching-back", FAST, SLOW), "/dev/vda", "/dev/vdb")
    text = open(drive.file).read()
    resized = [line for line in text.splitlines() if line.startswith("size")][1]
    with open(drive.file, "w") as file:
        file.write(text.replace(resized, f"size = {before}"))
    drive.run("create", "--force")
    # A device whose size changes says itself how large it is.
    with open(drive.file, "w") as file:
        file.write(text.replace(resized, ""))
    device = drive.start()

    def size():
        return int(open(f"/sys/block/{os.path.basename(device)}/size").read()) * 512

    if size() != before:
        raise Failed(f"the device has {size()} bytes, and the volume {before}")
    vm.sh("mkfs.ext4", "-q", device)
    os.makedirs("/run/grow/m", exist_ok=True)
    vm.sh("mount", device, "/run/grow/m")
    wanted = random.Random(SEED).randbytes(8 * MIB)
    with open("/run/grow/m/file", "wb") as file:
        file.write(wanted)
    grown = subprocess.run([peryton, "resize", drive.file, "slow", "--control", drive.control, "--wait"], capture_output=True, text=True, timeout=PATIENCE)
    if grown.returncode != 0:
        raise Failed(f"peryton resize ended with {grown.returncode}: {grown.stderr}")
    volume = json.loads(drive.status())["size"]
    follows = "keeps its size" not in grown.stdout
    version = tuple(int(part) for part in os.uname().release.split(".")[:2])
    if follows != (version >= (6, 16)) or volume <= before:
        raise Failed(f"Linux {version}, a volume of {volume} bytes: {grown.stdout}")
    if follows:
        vm.wait(lambda: size() == volume, f"the device has {size()} bytes, and the volume {volume}")
        vm.sh("resize2fs", device)
    kill(drive)
    if drive.start() != device or size() != (volume if follows else before):
        raise Failed(f"after the next server took it over: {device} has {size()} bytes")
    vm.sh("umount", "/run/grow/m")
    if drive.stop() != 0:
        raise Failed(f"the drive did not close in good order: {drive.last_words()}")
    device = drive.start()
    if size() != volume:
        raise Failed(f"made again, the device has {size()} bytes, and the volume {volume}")
    vm.sh("e2fsck", "-fn", device)
    vm.sh("mount", device, "/run/grow/m")
    if open("/run/grow/m/file", "rb").read() != wanted:
        raise Failed("a file has other content")
    vm.sh("umount", "/run/grow/m")
    if drive.stop() != 0:
        raise Failed(f"the drive did not close in good order: {drive.last_words()}")
    vm.say(f"grow: from {before // MIB} to {volume // MIB} MiB, {'in service' if follows else 'when it was made again, as this kernel requires'}; the file system is whole")


def records(vm, peryton):
    """A host goes on whose server was killed and has left no records: its next flush fails, once, also if the server after that is killed."""
    drive = new(peryton, "tiering", "records")
    device = drive.start("--set", "durability.process_death=off")
    raw = os.open(device, os.O_RDWR)

    def flush():
        try:
            os.fsync(raw)
            return "succeeds"
        except OSError:
            return "fails"

    write = ["dd", "if=/dev/zero", f"of={device}", "bs=4k", "count=4", "oflag=direct", "conv=notrunc"]
    found = []
    # The second and the third server owe the failure, and are killed before the host has heard of it.
    for kept, flushes in (("off", 0), ("shared-memory", 0), ("shared-memory", 2), ("shared-memory", 1)):
        vm.sh(*write)
        kill(drive)
        if drive.start("--set", f"durability.process_death={kept}") != device:
            raise Failed("another device was made")
        found += [flush() for _ in range(flushes)]
    os.close(raw)
    if found != ["fails", "succeeds", "succeeds"]:
        raise Failed(f"after servers that left no records, and one that did, the flushes are: {found}")
    if drive.stop() != 0:
        raise Failed(f"the drive did not close in good order: {drive.last_words()}")
    vm.say("records: a flush fails once after servers that were killed without records")


def supervise(vm, peryton, patience):
    drive = new(peryton, "tiering", "supervise")
    program, folder = "/run/supervise/peryton", "/run/supervise/mounted"
    shutil.copy(peryton, program)
    os.makedirs(folder)
    log = open("/run/supervise/supervisor.log", "w+")
    supervisor = subprocess.Popen([program, "supervise", drive.file, *drive.paths, "--give-up-after", f"{patience}s", "--", "--nbd", drive.nbd,
                                   "--control", drive.control], stdout=log, stderr=log)

    def server():
        """The process that serves the device, if it is there and the device is live."""
        done = subprocess.run([peryton, "list", "--json"], capture_output=True, text=True, check=True)
        served = [one for one in json.loads(done.stdout) if one["state"] == "served"]
        return (served[0]["pid"], served[0]["path"]) if served else None

    vm.wait(lambda: server() and os.path.exists(server()[1]), "the supervisor starts no server")
    pid, device = server()
    # The list says so before partitions were looked for.
    vm.wait(lambda: subprocess.run([peryton, "status", drive.file, "--control", drive.control], capture_output=True, check=False).returncode == 0, "no status")
    vm.sh("mkfs.ext4", "-q", device)
    vm.sh("mount", device, folder)
    for _ in range(3):
        os.kill(pid, signal.SIGKILL)
        with open(f"{folder}/file", "a") as file:
            file.write("line\n")
            file.flush()
            os.fsync(file.fileno())  # Waits until there is a server again.
        vm.wait(lambda: server() and server()[0] != pid, "the server was not started again")
        pid, again = server()
        if again != device:
            raise Failed("another device was made")
    # The next servers end at once. Programs wait, then get errors.
    os.remove(program)
    with open(program, "w") as file:
        file.write("#!/bin/sh\nexit 1\n")
    os.chmod(program, 0o755)
    began = time.monotonic()
    os.kill(pid, signal.SIGKILL)
    reader = subprocess.run(["dd", f"if={device}", "of=/dev/null", "bs=4k", "count=1", "skip=20000", "iflag=direct"], capture_output=True, text=True, timeout=PATIENCE)
    waited = time.monotonic() - began
    if reader.returncode == 0 or not patience - 2 < waited < patience + 20:
        raise Failed(f"a reader ended with {reader.returncode} after {waited:.0f} s: {reader.stderr}")
    if supervisor.wait(PATIENCE) != 1:
        raise Failed("the supervisor ended as if all were well")
    vm.sh("umount", folder)
    if os.path.exists(device):
        raise Failed("the device stays")
    # Nothing that was flushed is lost by that.
    device = drive.start()
    vm.sh("mount", device, folder)
    found = open(f"{folder}/file").read()
    if found != "line\n" * 3:
        raise Failed(f"what was flushed is not there, but {found!r}")
    vm.sh("umount", folder)
    if drive.stop() != 0:
        raise Failed(f"the drive did not close in good order: {drive.last_words()}")
    log.seek(0)
    if "stayed away" not in log.read():
        raise Failed("the supervisor does not say why it ended")
    # As at a shutdown: the supervisor is to end while a file system is mounted, which is unmounted meanwhile.
    shutil.copy(peryton, program)
    supervisor = subprocess.Popen([program, "supervise", drive.file, *drive.paths, "--", "--nbd", drive.nbd, "--control", drive.control],
                                  stdout=log, stderr=log)
    vm.wait(lambda: server() and os.path.exists(server()[1]), "the supervisor starts no server")
    device = server()[1]
    vm.sh("mount", device, folder)
    supervisor.terminate()
    time.sleep(3)
    with open(f"{folder}/late", "w") as file:
        file.write("x" * 4 * MIB)
    vm.sh("umount", folder)
    if supervisor.wait(PATIENCE) != 0 or os.path.exists(device):
        raise Failed("the server did not wait until its device was unmounted, or the device stays")
    device = drive.start()
    vm.sh("mount", device, folder)
    if os.path.getsize(f"{folder}/late") != 4 * MIB:
        raise Failed("what was written before the unmount is lost")
    vm.sh("umount", folder)
    if drive.stop() != 0:
        raise Failed(f"the drive did not close in good order: {drive.last_words()}")
    vm.say(f"supervise: three servers killed and started again; given up after {waited:.1f} s of {patience}, with errors for programs; "
           "a stop waits for the unmount")


def memory(vm, peryton):
    vm.sh("mount", "-t", "cgroup2", "none", "/run/cgroup") if not os.makedirs("/run/cgroup") else None
    with open("/run/cgroup/cgroup.subtree_control", "w") as file:
        file.write("+memory")
    group, folder = "/run/cgroup/peryton", "/run/memory/mounted"
    os.mkdir(group)
    drive = new(peryton, "caching-back", "memory")
    device = drive.start(group=group)
    os.makedirs(folder)
    vm.sh("mkfs.ext4", "-q", device)
    vm.sh("mount", device, folder)
    if open(f"/proc/{drive.process.pid}/oom_score_adj").read().strip() != "-1000":
        raise Failed("the kernel may kill the server when memory is short")
    # Nothing is written before memory is short.
    for name, value in (("dirty_ratio", 100), ("dirty_background_ratio", 99), ("dirty_expire_centisecs", 360000), ("dirty_writeback_centisecs", 0)):
        with open(f"/proc/sys/vm/{name}", "w") as file:
            file.write(str(value))
    own = int(open(f"{group}/memory.current").read())
    room = 24 * MIB
    with open(f"{group}/memory.max", "w") as file:
        file.write(str(own + room))
    most = 0
    for attempt in range(1, 4):
        began = time.monotonic()
        writer = subprocess.Popen(["sh", "-c", f"echo $$ > {group}/cgroup.procs; for n in 1 2 3; do dd if=/dev/zero of={folder}/$n bs=1M count=40 || exit 1; done"],
                                  stderr=subprocess.DEVNULL)
        while writer.poll() is None:
            stat = dict(line.split() for line in open(f"{group}/memory.stat"))
            most = max(most, int(stat["file_dirty"]) + int(stat["file_writeback"]))
            if drive.process.poll() is not None:
                raise Failed(f"the server ended: {drive.last_words()}")
            if time.monotonic() - began > PATIENCE / 3:
                raise Failed(f"the server and a writer in one memory cgroup wait for each other: {drive.status()}")
            time.sleep(0.05)
        events = dict(line.split() for line in open(f"{group}/memory.events"))
        if writer.returncode == 0:
            break
        # The kernel gives up waiting for dirty pages now and then. Then the writer may be what it kills, but never the server.
        if int(events["oom_kill"]) < attempt or attempt == 3:
            raise Failed(f"the writer ended with {writer.returncode}: {events}")
    if not int(events["max"]) or most < room // 2:
        raise Failed(f"the cgroup was not full of dirty pages ({most} bytes of {room}), so this showed nothing")
    vm.sh("umount", folder)
    if drive.stop() != 0:
        raise Failed(f"the drive did not close in good order: {drive.last_words()}")
    vm.say(f"memory: 120 MiB written in {time.monotonic() - began:.0f} s with {room // MIB} MiB beside the server's {own // MIB}; at most "
           f"{most // MIB} MiB dirty or under way, the limit was met {events['max']} times{f', and a writer was killed {attempt - 1} times' if attempt > 1 else ''}")


def speed(vm, peryton, seconds):
    drive = new(peryton, "tiering", "speed")
    ublk = drive.start()
    vm.modules("nbd")
    nbd = vm.attach(drive)
    # The same part of the volume for both, all of it written before.
    vm.sh("dd", "if=/dev/zero", f"of={ublk}", "bs=1M", "count=24", "oflag=direct")
    for name, mode, size, depth in [("4 KiB reads, depth 1", "randread", "4k", 1), ("4 KiB reads, depth 32", "randread", "4k", 32),
                                    ("4 KiB writes, depth 32", "randwrite", "4k", 32), ("256 KiB reads, depth 4", "read", "256k", 4)]:
        rates = {"nbd": [], "ublk": []}
        for _ in range(3):
            for kind, path in (("nbd", nbd), ("ublk", ublk)):
                done = vm.sh("fio", "--name=x", f"--filename={path}", f"--rw={mode}", f"--bs={size}", f"--iodepth={depth}", "--size=24m", "--direct=1",
                             "--ioengine=libaio", "--time_based", f"--runtime={seconds}", "--output-format=json")
                job = json.loads(done.stdout[done.stdout.index("{"):])["jobs"][0]
                rates[kind].append(job["read"]["iops"] + job["write"]["iops"])
        middle = {kind: sorted(found)[1] for kind, found in rates.items()}
        vm.say(f"speed, {name}: NBD {middle['nbd']:.0f}/s, ublk {middle['ublk']:.0f}/s ({middle['ublk'] / middle['nbd']:.2f})")
    vm.detach(nbd)
    if drive.stop() != 0:
        raise Failed(f"the drive did not close in good order: {drive.last_words()}")


def guest(peryton, part, *arguments):
    import guest as vm
    if not os.path.exists(CONTROL_DEVICE):
        os.makedirs("/run/without", exist_ok=True)
        drive = new(peryton, "tiering", "without")
        done = drive.run("serve", "--ublk", "--nbd", "/run/without/nbd", check=False)
        if done.returncode != 2 or not all(word in done.stderr for word in ("6.0", "ublk_drv", "NBD")):
            raise Failed(f"without the module: {done.returncode} {done.stderr}")
    vm.modules("ublk_drv")
    if part == "kills":
        placement, count, unit = arguments
        kills(vm, peryton, placement, int(count), int(unit))
    elif part == "sqlite":
        sqlite(vm, peryton, int(arguments[0]))
    elif part == "full":
        full(vm, peryton, int(arguments[0]))
    elif part == "supervise":
        supervise(vm, peryton, int(arguments[0]))
    elif part == "speed":
        speed(vm, peryton, int(arguments[0]))
    else:
        {"stop": stop, "grow": grow, "memory": memory, "records": records}[part](vm, peryton)


# Outside.

def host(machine, peryton, folder, cut):
    placements = PLACEMENTS[:1] if cut else PLACEMENTS
    parts = [("kills", placement, 3 if cut else 6, 512 if number % 2 == 0 else 4096) for number, placement in enumerate(placements)]
    parts += [("sqlite", 2 if cut else 5), ("full", 1 if cut else 3), ("stop",), ("grow",), ("records",), ("supervise", 8 if cut else 15)]
    parts += [] if cut else [("memory",)]
    run(machine, peryton, folder, parts)


def run(machine, peryton, folder, parts):
    """Runs these parts, each in a machine of its own with new disks."""
    disks = [f"{folder}/{name}.img" for name in ("fast", "slow")]
    for part in parts:
        for path, mib in zip(disks, (FAST, SLOW)):
            with open(path, "wb") as file:
                file.truncate(mib * MIB)
        output = machine.run(disks, __file__, peryton, *part)
        for line in output.splitlines():
            if line.startswith((part[0], "FAILED")):
                print(f"  {line}", flush=True)


if __name__ == "__main__":
    import guest as vm
    vm.main(guest, *sys.argv[1:])
