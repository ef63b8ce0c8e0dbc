"""The fears: rows of Python differ from those of the command, points are simulated twice, a bad point ends the rest."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peryton
import pytest
from conftest import CACHE, DESIGNS, REPOSITORY

SPACE: dict[str, Any] = {
    "designs": os.fspath(DESIGNS / "caching-back.toml"),
    "traces": [os.fspath(REPOSITORY / "examples" / "traces" / "sqlite-ext4.parquet")],
    "replay": ["timed", "qd=4"],
    "fit": "wrap",
    "limit": 2000,
    "keys": {
        "placement.replacement": ["lru", "arc"],
        "devices": {"ssd": {"size": {"from": "512MiB", "to": "2GiB", "points": 3, "scale": "log"}}},
    },
}


def parts(folder: Path) -> list[tuple[str, bytes]]:
    return sorted((part.name, part.read_bytes()) for part in folder.glob("part-*.parquet"))


def test_rows_are_those_of_the_command_to_the_bit(tmp_path: Path) -> None:
    file = tmp_path / "space.toml"
    file.write_text(
        f"designs = {str(SPACE['designs'])!r}\ntraces = {SPACE['traces'][0]!r}\nreplay = ['timed', 'qd=4']\nfit = 'wrap'\nlimit = 2000\n"
        "[keys]\nplacement.replacement = ['lru', 'arc']\n"
        "devices.ssd.size = { from = '512MiB', to = '2GiB', points = 3, scale = 'log' }\n"
    )
    peryton_command = os.environ.get("PERYTON", os.fspath(REPOSITORY / "target" / "debug" / "peryton"))
    subprocess.run([peryton_command, "sweep", file, "--out", tmp_path / "command", "--quiet"], check=True, capture_output=True)
    found = peryton.sweep(SPACE, tmp_path / "python", jobs=2)
    assert dict(found) == {"points": 12, "known": 0, "simulated": 12, "errors": 0}
    assert parts(tmp_path / "python") == parts(tmp_path / "command")
    assert dict(peryton.sweep(file, tmp_path / "python")) == {"points": 12, "known": 12, "simulated": 0, "errors": 0}
    frame = found.to_polars()
    assert frame.shape[0] == 12 and frame["sweep.devices.ssd.size"].to_list()[:3] == ["512MiB", "1GiB", "2GiB"]
    values = {"devices.ssd.size": "1GiB", "placement.replacement": "arc"}
    design = peryton.Design(SPACE["designs"])
    for key, value in values.items():
        design.set(key, value)
    report = peryton.simulate(design, SPACE["traces"][0], replay="qd=4", fit="wrap", limit=2000)
    (row,) = frame.filter(replay="qd=4", **{f"sweep.{key}": value for key, value in values.items()}).to_dicts()
    for name in ("iops", "latency_us.all.p99", "fast_hit_ratio", "devices.ssd.bytes_written", "trace_hash"):
        assert row[name] == report[name], name


def test_designs_may_be_dictionaries_and_bad_values_are_rows(tmp_path: Path, sqlite: Path) -> None:
    space = {
        "designs": [CACHE, peryton.Design.from_dict(CACHE, name="second").set("placement.extent", "32KiB")],
        "traces": {"files": [sqlite], "name": "database"},
        "limit": 500,
        "fit": "wrap",
        "keys": {"devices.ssd.size": ["8MiB", "no size"]},
    }
    found = peryton.sweep(space, tmp_path / "rows", progress=False)
    assert (found["simulated"], found["errors"]) == (4, 2)
    frame = found.to_polars()
    assert frame["design_file"].to_list() == ["design 1", "design 1", "second", "second"]
    assert frame["status"].to_list() == ["ok", "error", "ok", "error"]
    assert "no size" in frame["error"][1] and frame["trace"].to_list() == ["database"] * 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"designs": []}, "no design"),
        ({"traces": "none.parquet"}, "none.parquet"),
        ({"traces": "s3://"}, "s3://"),
        ({"traces": "file:///none/at/all.parquet"}, "no such file"),
        ({"keys": {"placement.extend": ["4KiB"]}}, "did you mean 'placement.extent'?"),
        ({"keys": {"placement.extent": {"from": "4KiB", "to": "1MiB"}}}, "say how many"),
        ({"draw": {"by": "random", "points": 0}}, "draw.points"),
        ({"unknown": 1}, "unknown"),
        *[({"sample": share}, "sample: ") for share in ("1%", "abc", 0, -1, 2, True, [], [0.1, "x"], {}, float("nan"))],
        ({"sample": "1%"}, "'1%': give a number above 0 and up to 1, such as 0.01"),
        ({"speed": "2x"}, "speed: '2x': give a number above 0, such as 2"),
        ({"limit": 0.5}, "limit: '0.5': give a whole number, 0 or more"),
    ],
)
def test_bad_spaces_are_one_line(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    pytest.importorskip("pyarrow")
    with pytest.raises(peryton.InputError, match="(?s).*") as caught:
        peryton.sweep({**SPACE, **change}, tmp_path / "rows")
    assert words in str(caught.value) and "\n" not in str(caught.value), caught.value


def test_arguments_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    for wrong in (
        {"trials": 5},
        {"constraints": "lifetime_years >= 5"},
        {"objectives": "iops"},
        {"objectives": "iops", "trials": 0},
        {"objectives": "iops", "trials": 1, "constraints": "long lifetime"},
        {"share": "magic"},
        {"jobs": 0},
    ):
        with pytest.raises(peryton.InputError):
            peryton.sweep(SPACE, tmp_path / "rows", **wrong)  # type: ignore[arg-type]
    with pytest.raises(peryton.InputError, match=r"space\.toml"):
        peryton.sweep(tmp_path / "space.toml", tmp_path / "rows")
    assert not (tmp_path / "rows").exists()


def test_ctrl_c_keeps_the_rows_that_are_there(tmp_path: Path) -> None:
    program = "import sys, peryton; exec(sys.argv[1]); peryton.sweep(space, sys.argv[2], jobs=1, progress=False)"
    space = {**SPACE, "limit": None, "keys": {"seed.value": {"from": 1, "to": 400}}}
    space.pop("limit")
    folder = tmp_path / "rows"
    running = subprocess.Popen([sys.executable, "-c", program, f"space = {space!r}", folder], stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while len(parts(folder)) < 3 and time.monotonic() < deadline:
            time.sleep(0.01)
        running.send_signal(signal.SIGINT)
        assert running.wait(30) != 0
        assert b"KeyboardInterrupt" in (running.stderr.read() if running.stderr else b"")
    finally:
        running.kill()
        if running.stderr:
            running.stderr.close()
    there = peryton.rows(folder).shape[0]
    assert 3 <= there < 800
    space["keys"] = {"seed.value": {"from": 1, "to": 2}}
    assert peryton.sweep(space, folder)["known"] >= 2


def test_a_file_at_an_address_is_fetched_once(tmp_path: Path, sqlite: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.setattr("tempfile.tempdir", os.fspath(tmp_path))
    address = f"file://{sqlite}"
    space = {**SPACE, "traces": address, "keys": {}}
    first = peryton.sweep(space, tmp_path / "rows")
    kept = list(tmp_path.glob("peryton-traces-*/*/sqlite-ext4.parquet"))
    assert len(kept) == 1 and kept[0].read_bytes() == sqlite.read_bytes()
    # It is the same trace wherever it was read from.
    second = peryton.sweep({**space, "traces": sqlite}, tmp_path / "rows")
    assert (first["simulated"], second["known"]) == (2, 2)


def test_a_function_is_called_with_the_progress(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    callback: Callable[[str, int, int], object] = lambda step, done, of: seen.append((step, done, of))
    peryton.sweep({**SPACE, "limit": None}, tmp_path / "rows", progress=callback)
    assert all(step in ("points", "") and done <= of for step, done, of in seen) and seen
