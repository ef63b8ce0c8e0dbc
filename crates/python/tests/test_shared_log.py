"""The fears: of two volumes that share a log one has the other's data, or is not served because the other's device is missing."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from conftest import PERYTON, REPOSITORY

sys.path.append(os.fspath(REPOSITORY / "scripts"))

DESIGN = """
[devices.log]
size = "16MiB"
path = "log.img"
[devices.a]
size = "8MiB"
path = "a.img"
[devices.b]
size = "4MiB"
path = "b.img"
[placement]
mode = "logging"
primary = ["a", "b"]
log = "log"
# Reads alone migrate nothing.
[triggers]
timeout = "1h"
"""
BLOCK = 4096


def run(directory: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PERYTON, *words], cwd=directory, capture_output=True, text=True)


class Served:
    """The volumes while they are served; they are killed at the end unless they were stopped."""

    def __init__(self, directory: Path, *options: str) -> None:
        (directory / "v.nbd").unlink(missing_ok=True)
        self.directory = directory
        self.server = subprocess.Popen([PERYTON, "serve", "v.toml", *options], cwd=directory, stdout=subprocess.DEVNULL)
        until = time.monotonic() + 60
        while not self.listens():
            assert time.monotonic() < until and self.server.poll() is None, "it does not listen"
            time.sleep(0.02)

    def listens(self) -> bool:
        with socket.socket(socket.AF_UNIX) as client:
            return client.connect_ex(os.fspath(self.directory / "v.nbd")) == 0

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()
        self.server.wait()

    def client(self, name: str):  # noqa: ANN201
        from nbd_client import Nbd

        return Nbd(os.fspath(self.directory / "v.nbd"), name)

    def status(self) -> dict:
        return json.loads(run(self.directory, "status", "v.toml", "--json").stdout)

    def stop(self) -> None:
        self.server.terminate()
        assert self.server.wait(60) == 0


def data(name: str, block: int, turn: int) -> bytes:
    return f"{name} {block} {turn} ".encode().ljust(BLOCK, b".")


def test_two_volumes_share_a_log_and_fare_apart(tmp_path: Path) -> None:
    from nbd_client import nbd

    (tmp_path / "v.toml").write_text(DESIGN)
    made = run(tmp_path, "create", "v.toml")
    assert made.returncode == 0, made.stderr
    blocks = range(0, 256, 3)
    with Served(tmp_path) as served:
        clients = {name: served.client(f"v/{name}") for name in "ab"}
        assert [clients[name].size for name in "ab"] == [8 << 20, 4 << 20]
        for name, client in clients.items():
            for block in blocks:
                client.write(block * BLOCK, data(name, block, 1))
            client.flush()
        parts = served.status()["parts"]
        assert [(part["export"], part["offset"], part["gone"], part["lost_bytes"]) for part in parts] == [
            ("v/a", 0, False, 0),
            ("v/b", 8 << 20, False, 0),
        ]
        for wrong in ["", "v", "v/log"]:
            try:
                served.client(wrong)
            except nbd.Error:
                continue
            raise AssertionError(f"the export {wrong!r} is there")
    # It was killed. Both are as they were.
    with Served(tmp_path) as served:
        for name in "ab":
            client = served.client(f"v/{name}")
            assert all(client.read(block * BLOCK, BLOCK) == data(name, block, 1) for block in blocks)
            assert client.read(BLOCK, BLOCK) == bytes(BLOCK)
        served.stop()
    (tmp_path / "b.img").rename(tmp_path / "away.img")
    refused = run(tmp_path, "serve", "v.toml")
    assert refused.returncode != 0 and "b.img" in refused.stderr and refused.stderr.count("\n") == 1, refused.stderr
    with Served(tmp_path, "--without", "b") as served:
        a, b = served.client("v/a"), served.client("v/b")
        for block in blocks:
            a.write(block * BLOCK, data("a", block, 2))
        a.flush()
        # The log has these, and nothing has the others.
        assert all(b.read(block * BLOCK, BLOCK) == data("b", block, 1) for block in blocks)
        assert b.read(BLOCK, BLOCK) is None
        gone = served.status()["parts"][1]
        assert gone["gone"] and 0 < gone["lost_bytes"] < 4 << 20
        assert "v/b on b" in run(tmp_path, "status", "v.toml").stdout
        served.stop()
    checked = run(tmp_path, "check", "v.toml", "--without", "b").stdout
    assert "in the part of device 'b'" in checked and "device 'a'" not in checked, checked
    (tmp_path / "away.img").rename(tmp_path / "b.img")
    back = run(tmp_path, "re-add", "v.toml", "b")
    assert back.returncode == 0, back.stderr
    with Served(tmp_path) as served:
        for name, turn in [("a", 2), ("b", 1)]:
            client = served.client(f"v/{name}")
            assert all(client.read(block * BLOCK, BLOCK) == data(name, block, turn) for block in blocks)
            assert client.read(BLOCK, BLOCK) == bytes(BLOCK)
        served.stop()
    checked = run(tmp_path, "check", "v.toml")
    assert "0 blocks lost" in checked.stdout, checked.stdout + checked.stderr
    refused = run(tmp_path, "export", "v.toml")
    assert refused.returncode != 0 and refused.stderr.count("\n") == 1 and "none can stand alone" in refused.stderr, refused.stderr
