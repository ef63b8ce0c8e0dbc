"""Starts the virtual machine, and speaks to its monitor."""

import json
import os
import socket
import subprocess
import time

from drive import PATIENCE, Failed

VM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "vm")


class Monitor:
    """QMP, the protocol of QEMU's monitor."""

    def __init__(self, path):
        deadline = time.monotonic() + PATIENCE
        while True:
            self.socket = socket.socket(socket.AF_UNIX)
            try:
                self.socket.connect(path)
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise Failed("the machine has no monitor") from None
                time.sleep(0.1)
        self.socket.settimeout(PATIENCE)
        self.lines, self.events = self.socket.makefile("r"), []
        json.loads(self.lines.readline())
        self.ask("qmp_capabilities")

    def next(self):
        line = self.lines.readline()
        if not line:
            raise Failed("the machine ended")
        answer = json.loads(line)
        if "event" in answer:
            self.events.append(answer)
        return answer

    def ask(self, command, **arguments):
        self.socket.sendall(json.dumps({"execute": command, "arguments": arguments}).encode() + b"\n")
        while "return" not in (answer := self.next()):
            if "error" in answer:
                raise Failed(f"QEMU refuses {command}: {answer['error']['desc']}")
        return answer["return"]

    def wait_for(self, event, **data):
        def matches(answer):
            return answer["event"] == event and all(answer.get("data", {}).get(key) == value for key, value in data.items())
        while not any(matches(answer) for answer in self.events):
            self.next()
        self.events.clear()

    def pull(self, number):
        self.ask("device_del", id=f"disk{number}")
        self.wait_for("DEVICE_DELETED", device=f"disk{number}")

    def put_back(self, number):
        self.ask("device_add", driver="virtio-blk-pci", drive=f"node{number}", id=f"disk{number}", serial=f"disk{number}",
                 werror="report", rerror="report")

    def quit(self):
        """Ends the machine at once, as if its power failed."""
        self.socket.sendall(b'{"execute": "quit"}\n')


class Machine:
    """Runs a script of this folder in the machine, with `folder` shared."""

    def __init__(self, folder):
        self.folder = folder

    def start(self, disks, script, *arguments, monitor=False):
        command = [VM]
        for disk in disks:
            command += ["--disk", disk]
        if monitor:
            command += ["--monitor", f"{self.folder}/monitor"]
            if os.path.exists(f"{self.folder}/monitor"):
                os.remove(f"{self.folder}/monitor")
        command += ["--", "python3", script, *map(str, arguments)]
        return subprocess.Popen(command, cwd=self.folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, disks, script, *arguments):
        """Returns what the script printed; fails if it does."""
        process = self.start(disks, script, *arguments)
        try:
            output, _ = process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            end(process)
            output, _ = process.communicate()
            raise Failed(f"the machine did not end within {PATIENCE} s: {' / '.join(output.strip().splitlines()[-20:])}") from None
        finally:
            end(process)
        if process.returncode != 0:
            raise Failed(f"in the machine: {' / '.join(output.strip().splitlines()[-20:])}")
        return output


def end(process):
    """Ends the machine and the script that runs it."""
    if process.poll() is None:
        subprocess.run(["pkill", "-P", str(process.pid)], check=False)
        process.terminate()
        process.wait()
