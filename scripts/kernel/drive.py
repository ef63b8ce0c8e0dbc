"""The built drive as a process, on two block devices or files, and a client of NBD in user space."""

import json
import os
import signal
import socket
import subprocess
import sys
import time

from records import BLOCK

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from nbd_client import Nbd  # noqa: E402, F401

MIB = 1 << 20
PATIENCE = 900  # Seconds before something counts as hung. The emulated machine may be slow, or stopped for a while.

HYBRID = 'fast = "fast"\nslow = "slow"\n'
PROMOTES = 'extent = "64KiB"\npromotion = { threshold = 1, window = "60s" }\n'
PLACEMENTS = {
    "tiering": f'mode = "tiering"\n{HYBRID}{PROMOTES}',
    "caching-back": f'mode = "caching"\n{HYBRID}{PROMOTES}write = "back"\nwriteback = {{ delay = "500ms" }}\n',
    "caching-through": f'mode = "caching"\n{HYBRID}{PROMOTES}write = "through"\n',
    "logging": 'mode = "logging"\nprimary = "slow"\nlog = "fast"\nblock = "4KiB"\n[triggers]\ntimeout = "3s"\n',
    "partitioned": f'mode = "partitioned"\n{HYBRID}extent = "4KiB"\nreplacement = "lru"\n[partition]\nbust_after = "2s"\n',
}


def usable(mib):
    """MiB of a device beside superblocks, journal, checkpoints and a cache's spare slots."""
    return mib * 3 // 4


def design(placement, fast_mib, slow_mib, patience="2min"):
    """A design for two devices of these sizes."""
    sizes = {"fast": usable(fast_mib), "slow": usable(slow_mib)}
    devices = "".join(f'[devices.{name}]\nprofile = "fixed"\nsize = "{mib}MiB"\n' for name, mib in sizes.items())
    return f'{devices}[failure]\npatience = "{patience}"\n[placement]\n{PLACEMENTS[placement]}'


class Failed(Exception):
    """Something that makes the test fail; its text says what and where."""


class Drive:
    def __init__(self, peryton, folder, text, fast, slow):
        os.makedirs(folder, exist_ok=True)
        self.peryton, self.folder = peryton, folder
        self.file = f"{folder}/design.toml"
        with open(self.file, "w") as file:
            file.write(text)
        self.paths = ["--set", f"devices.fast.path={fast}", "--set", f"devices.slow.path={slow}"]
        self.nbd, self.control, self.log = f"{folder}/nbd", f"{folder}/control", f"{folder}/log"
        self.process = None

    def run(self, verb, *arguments, check=True):
        done = subprocess.run([self.peryton, verb, self.file, *self.paths, *arguments], capture_output=True, text=True, timeout=PATIENCE)
        if check and done.returncode != 0:
            raise Failed(f"peryton {verb} ended with {done.returncode}: {done.stderr.strip()}")
        return done

    def status(self):
        done = subprocess.run([self.peryton, "status", self.file, "--control", self.control, "--json"], capture_output=True, text=True, timeout=PATIENCE)
        # 32: data of the volume are lost.
        if done.returncode not in (0, 32):
            done.check_returncode()
        return done.stdout

    def ask(self, what):
        """Sends a request to the control socket; returns the answer."""
        with socket.socket(socket.AF_UNIX) as control:
            control.settimeout(PATIENCE)
            control.connect(self.control)
            control.sendall(json.dumps(what).encode() + b"\n")
            answer = json.loads(control.makefile().readline())
        if "error" in answer:
            raise Failed(f"{what['verb']}: {answer['error']}")
        return answer

    def start(self, *arguments):
        for path in (self.nbd, self.control):
            if os.path.exists(path):
                os.remove(path)
        with open(self.log, "a") as log:
            self.process = subprocess.Popen(
                [self.peryton, "serve", self.file, *self.paths, "--nbd", self.nbd, "--control", self.control, *arguments],
                stdout=subprocess.DEVNULL, stderr=log)
        deadline = time.monotonic() + PATIENCE
        while not os.path.exists(self.control):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise Failed(f"the drive did not start: {self.last_words()}")
            time.sleep(0.01)

    def last_words(self):
        with open(self.log) as log:
            return " / ".join(log.read().strip().splitlines()[-3:])

    def stop(self):
        """Closes the volume and returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(PATIENCE)

    def kill(self):
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


def verify(nbd, model, errors_allowed=False):
    """Reads the whole volume. Returns how many blocks were checked, and how many could not be read."""
    nothing, checked, unreadable = bytes(MIB), 0, 0
    for offset in range(0, nbd.size, MIB):
        length = min(MIB, nbd.size - offset)
        data = nbd.read(offset, length)
        touched = [block for block in range(offset // BLOCK, (offset + length) // BLOCK) if block in model.possible]
        if data is not None and not touched and data == nothing[:length]:
            continue
        for block in range(offset // BLOCK, (offset + length) // BLOCK):
            at = block * BLOCK - offset
            part = bytes(data[at:at + BLOCK]) if data is not None else nbd.read(block * BLOCK, BLOCK)
            if part is None:
                if not errors_allowed:
                    raise Failed(f"block {block} cannot be read")
                unreadable += 1
                continue
            wrong = model.wrong(block, bytes(part))
            if wrong:
                raise Failed(wrong)
            checked += block in model.possible
    return checked, unreadable
