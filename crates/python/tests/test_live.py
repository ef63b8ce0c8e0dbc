"""The fears: the map of a served volume is not what its server says, and what is not served ends in a traceback."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import peryton
import pytest
from conftest import PERYTON, REPOSITORY

sys.path.append(os.fspath(REPOSITORY / "scripts"))

DESIGN = """
[devices.small]
size = "8MiB"
path = "small.img"
[devices.large]
size = "16MiB"
path = "large.img"
[placement]
mode = "caching"
fast = "small"
slow = "large"
extent = "64KiB"
promotion = { threshold = 0 }
demotion = { low = 4, high = 8 }
"""


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Path]:
    """The design of a volume that is being served."""
    design = tmp_path / "v.toml"
    design.write_text(DESIGN)
    subprocess.run([PERYTON, "create", "v.toml"], cwd=tmp_path, check=True, capture_output=True)
    with subprocess.Popen([PERYTON, "serve", "v.toml"], cwd=tmp_path, stdout=subprocess.PIPE) as server:
        try:
            until = time.monotonic() + 60
            while not (tmp_path / "v.nbd").exists():
                assert time.monotonic() < until, "it does not listen"
                time.sleep(0.02)
            yield design
        finally:
            server.kill()


def test_a_data_frame_of_extents_is_what_dump_says(served: Path) -> None:
    from nbd_client import Nbd

    client = Nbd(os.fspath(served.with_suffix(".nbd")))
    for extent in range(5):
        for _ in range(extent + 1):
            client.write(extent << 16, b"\7" * 4096)
    rows = peryton.extents(served)
    assert [(row["offset"], row["accesses"]) for row in rows] == [(extent << 16, extent + 1) for extent in range(5)]
    assert all(row["device"] == "small" and row["dirty"] and not row["lost"] for row in rows), rows
    assert all(abs(row["last_access_unix_s"] - time.time()) < 60 for row in rows), rows
    assert peryton.extents(served.with_suffix(".control")) == rows
    dumped = json.loads(subprocess.run([PERYTON, "dump", served, "--json"], check=True, capture_output=True).stdout)
    assert [row["at"] for row in dumped["map"]] == [row["at"] for row in rows]
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(rows)
    assert (frame["accesses"].sum(), frame.filter(polars.col("dirty")).height) == (15, 5)


@pytest.mark.parametrize("name", ["nothing.toml", "no-such-volume"])
def test_what_is_not_served_is_said_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(peryton.InputError) as refused:
        peryton.extents(tmp_path / name if name.endswith(".toml") else name)
    assert "\n" not in str(refused.value) and name.removesuffix(".toml") in str(refused.value)
