"""The fear: Python gives other figures than the command."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peryton
import pytest
from conftest import DESIGNS, REPOSITORY, TRACES

Command = Callable[..., Any]


def same(ours: Any, theirs: Any) -> None:
    """Everything but the command line is the same, to the last digit and in the same order."""
    for figures in theirs if isinstance(theirs, list) else [theirs]:
        del figures["command"]
    assert ours == theirs
    assert repr(ours) == repr(theirs)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, []),
        ({"replay": "qd=8", "new": True}, ["--replay", "qd=8", "--new"]),
        ({"speed": 0.5, "warm_up_requests": 2000}, ["--speed", "0.5", "--warm-up-requests", "2000"]),
        ({"replay": "sync", "limit": 5000, "fit": "skip"}, ["--replay", "sync", "--limit", "5000", "--fit", "skip"]),
        ({"interval": "100ms", "limit": 5000}, ["--interval", "100ms", "--limit", "5000"]),
    ],
)
def test_simulations(command: Command, sqlite: Path, options: dict[str, Any], words: list[str]) -> None:
    paths = [DESIGNS / name for name in ("caching-back.toml", "tiering.toml", "griffin.toml", "hdd-only.toml")]
    reports = peryton.simulate(paths, sqlite, **options)
    same([report.to_dict() for report in reports], command("sim", *paths, "--trace", sqlite, *words, "--json", "-"))


def test_a_design_that_was_changed(command: Command, sqlite: Path) -> None:
    path = DESIGNS / "tiering.toml"
    design = peryton.Design(path).set("placement.promotion.threshold", 1).set("devices.ssd.size", "2GiB")
    report = peryton.simulate(design, sqlite, fit="wrap")
    words = ["--set", "placement.promotion.threshold=1", "--set", "devices.ssd.size=2GiB", "--fit", "wrap"]
    found = command("sim", path, "--trace", sqlite, *words, "--json", "-")
    # The command has the words as they were written, here a text is quoted.
    assert found[0].pop("overrides") == ["placement.promotion.threshold=1", "devices.ssd.size=2GiB"]
    figures = report.to_dict()
    assert figures.pop("overrides") == ["placement.promotion.threshold=1", 'devices.ssd.size="2GiB"']
    same([figures], found)


@pytest.mark.parametrize("trace", [TRACES / "sqlite-ext4.ftrace", REPOSITORY / "examples/workloads/smoke.toml"])
def test_traces_of_other_formats_and_specifications(command: Command, trace: Path) -> None:
    path = DESIGNS / "ssd-only.toml"
    report = peryton.simulate(path, trace, fit="wrap")
    same([report.to_dict()], command("sim", path, "--trace", trace, "--fit", "wrap", "--json", "-"))


def test_descriptions_of_a_trace(command: Command, sqlite: Path) -> None:
    trace = peryton.Trace(sqlite)
    assert trace.info() == command("trace", "info", sqlite, "--json")
    assert trace.overwrites() == command("trace", "overwrites", sqlite, "--json")


def test_miss_ratios(command: Command, sqlite: Path) -> None:
    curves = peryton.mrc(sqlite, policies=["lru", "s3fifo", "arc"], rate=0.5, points=6, block="16KiB")
    words = ["--replacement", "lru,s3fifo,arc", "--rate", "0.5", "--points", "6", "--block", "16KiB"]
    assert list(curves) == command("trace", "mrc", sqlite, *words, "--json")
    assert list(peryton.mrc(sqlite)) == command("trace", "mrc", sqlite, "--json")
    sizes = ["--sizes", "64KiB,1MiB", "--replacement", "wsclock", "--window", "1s"]
    found = peryton.mrc(sqlite, sizes=[65536, "1MiB"], policies="wsclock", window=1)
    assert list(found) == command("trace", "mrc", sqlite, *sizes, "--json")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, []),
        ({"points": 4, "objective": "p99", "within": "10%"}, ["--points", "4", "--objective", "p99", "--within", "10%"]),
        ({"sizes": ["512MiB", 1 << 28], "replay": "qd=4"}, ["--sizes", "512MiB,256MiB", "--replay", "qd=4"]),
        (
            {"sizes": "64MiB..1GiB", "points": 3, "usd_per_ms": 100, "run_for": "3y", "new": True},
            ["--sizes", "64MiB..1GiB", "--points", "3", "--usd-per-ms", "100", "--for", "3y", "--new"],
        ),
        ({"limit": 6000, "warm_up_requests": 1000, "fit": "wrap"}, "--limit 6000 --warm-up-requests 1000 --fit wrap".split()),
    ],
)
def test_curves_against_the_size(command: Command, sqlite: Path, options: dict[str, Any], words: list[str]) -> None:
    for name in ("caching-back.toml", "tiering.toml"):
        curve = peryton.size(DESIGNS / name, sqlite, **options)
        same(curve.to_dict(), command("size", "--trace", sqlite, "--design", DESIGNS / name, *words, "--json"))


def test_a_curve_of_a_design_that_was_changed(command: Command, sqlite: Path) -> None:
    path = DESIGNS / "caching-back.toml"
    design = peryton.Design(path).set("placement.promotion.threshold", 2).set("placement.replacement", "arc")
    words = ["--set", "placement.promotion.threshold=2", "--set", "placement.replacement=arc", "--points", 3]
    found = command("size", "--trace", sqlite, "--design", path, *words, "--json")
    same(peryton.size(design, sqlite, points=3).to_dict(), found)


def test_sweeps(command: Command, sqlite: Path) -> None:
    paths = [DESIGNS / "caching-back.toml", DESIGNS / "hdd-only.toml"]
    values = {"devices.ssd.size": ["256MiB", "1GiB"], "placement.promotion": [{"threshold": 0}, {"threshold": 2}]}
    words = ["--sweep", "devices.ssd.size=256MiB,1GiB", "--sweep", "placement.promotion={ threshold = 0 },{ threshold = 2 }"]
    reports = peryton.simulate(paths, sqlite, sweep=values, replay="qd=8")
    found = command("sim", *paths, "--trace", sqlite, *words, "--replay", "qd=8", "--json", "-")
    same([report.to_dict() for report in reports], found)
    assert [report["sweep"]["devices.ssd.size"] for report in reports[:4]] == ["256MiB", "256MiB", "1GiB", "1GiB"]
    # The disk alone has neither key, so there is one report of it.
    assert len(reports) == 5 and "sweep" not in reports[4]
    numbers = peryton.simulate(paths[0], sqlite, sweep={"placement.max_moves": [4, 16]})
    found = command("sim", paths[0], "--trace", sqlite, "--sweep", "placement.max_moves=4,16", "--json", "-")
    same([report.to_dict() for report in numbers], found)
    assert numbers.to_polars()["sweep.placement.max_moves"].to_list() == ["4", "16"]


def test_lifetimes(command: Command, tmp_path: Path) -> None:
    array = {
        "workload": {
            "read": "160MB",
            "write": 200_000_000,
            "read_hit": 0.9,
            "write_hit": 0.85,
            "dirty": 0.65,
            "read_size": "16KiB",
            "write_size": "16KiB",
        },
        "cache": {"profile": "mixed-array-high-end-100gb"},
        "storage": {"profile": "mixed-array-low-end-200gb", "count": 3},
    }
    text = "\n".join(f"{table}.{key} = {json.dumps(value)}" for table, keys in array.items() for key, value in keys.items())
    (tmp_path / "array.toml").write_text(text)
    words = ["lifetime", tmp_path / "array.toml", "--json"]
    same(peryton.lifetime(array).to_dict(), command(*words))
    several = peryton.lifetime(array, admit=[0.25, 1])
    same([answer.to_dict() for answer in several], command(*words, "--admit", "0.25,1"))
    # Values that are given besides replace those of the array.
    key = "storage.lifetime_years"
    assert peryton.lifetime(array, storage={"count": 4})[key] > peryton.lifetime(array)[key]


def test_the_greenest_devices(command: Command, sqlite: Path) -> None:
    devices = ["seagate-exos-x24-24tb", "micron-7500-pro-1.92tb", "solidigm-d5-p5336-61.44tb"]
    these = ["--devices", ",".join(devices), "--json"]
    answer = peryton.energy(
        peak="50MB",
        average="50MB",
        capacity="12TB",
        workload="rand-write",
        by="cost",
        run_for="3y",
        devices=devices,
    )
    words = "--peak 50MB --average 50MB --workload rand-write --capacity 12TB --by cost --for 3y"
    same(answer.to_dict(), command("energy", *words.split(), *these))
    answer = peryton.energy(sqlite, capacity="4TB", mixed=True, prices={devices[0]: 450.0}, devices=devices)
    words = "--capacity 4TB --mixed --price seagate-exos-x24-24tb=450"
    same(answer.to_dict(), command("energy", "--trace", sqlite, *words.split(), *these))


def test_plans(command: Command, sqlite: Path) -> None:
    devices = ["super-talent-32gb", "ibm-ultrastar-36z15"]
    plan = peryton.plan(sqlite, latency="100s", lifetime="1d", devices=devices, runners_up=2, most=2, redundancy="mirror")
    words = "--latency 100s --lifetime 1d --devices super-talent-32gb,ibm-ultrastar-36z15 --runners-up 2 --most 2"
    found = command("plan", "--trace", sqlite, *words.split(), "--redundancy", "mirror", "--json")
    assert plan.best is not None and plan.best["meets"]
    same(plan.to_dict(), found)
    plan = peryton.plan(sqlite, latency="100s", lifetime="1d", devices=devices, flash="any", flash_need=False)
    words = "--latency 100s --lifetime 1d --devices super-talent-32gb,ibm-ultrastar-36z15 --flash any --no-flash-need"
    same(plan.to_dict(), command("plan", "--trace", sqlite, *words.split(), "--json"))
