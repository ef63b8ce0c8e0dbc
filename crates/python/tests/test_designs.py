"""The fears: a design of a dictionary is another than that of a file; an error says nothing."""

import copy
import pickle
from pathlib import Path
from typing import Any

import peryton
import pytest
from conftest import CACHE, DESIGNS


def test_files_texts_and_dictionaries_make_the_same_design(tmp_path: Path) -> None:
    for path in sorted(DESIGNS.glob("*.toml")):
        design = peryton.Design(path)
        assert design.name == path.stem
        for same in (
            peryton.Design.from_toml(path.read_text(), name=path.stem),
            peryton.Design.from_dict(design.to_dict(), name=path.stem),
            copy.copy(design),
            pickle.loads(pickle.dumps(design)),
        ):
            assert (same.to_toml(), same.name, same.volume_bytes) == (design.to_toml(), design.name, design.volume_bytes)


def test_what_is_set_stays_within_its_design() -> None:
    design = peryton.Design.from_dict(CACHE, name="cache")
    other = design.copy().set("devices.ssd.size", 1 << 25).set("placement.promotion", {"threshold": 2, "window": "30s"})
    assert other.to_dict()["placement"]["promotion"] == {"threshold": 2, "window": "30s"}
    assert design.to_dict() == peryton.Design.from_dict(CACHE).to_dict()
    # A later value for a key replaces an earlier one.
    design.set("placement.max_moves", 4).set("placement.max_moves", 8)
    assert design.overrides == ["placement.max_moves=8"]
    assert repr(design) == "Design('cache', volume of 268,435,456 bytes, placement.max_moves=8)"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("placement.replacment", "lru", "replacment"),
        ("placement.replacement", "mru", "mru"),
        ("placement.max_moves", 0, "placement.max_moves: is 0"),
        ("triggers.size", "1GiB", "triggers"),
        ("", 1, "the key is a dotted path"),
        ("devices.ssd.size", "1 parsec", "devices.ssd.size"),
    ],
)
def test_a_wrong_key_is_one_line_that_names_it_and_changes_nothing(key: str, value: Any, message: str) -> None:
    design = peryton.Design.from_dict(CACHE)
    before = design.to_toml()
    with pytest.raises(peryton.InputError) as error:
        design.set(key, value)
    assert message in str(error.value) and "\n" not in str(error.value) and "--" not in str(error.value)
    assert design.to_toml() == before and design.overrides == []


def test_errors_name_the_file_and_the_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text("[devices.only]\nprofile = 'fixed'\nsize = '8GiB'\n[placement]\nmode = 'singel'\n")
    with pytest.raises(peryton.InputError, match=r"bad\.toml:5: placement\.mode"):
        peryton.Design(path)
    with pytest.raises(peryton.InputError, match="give the path of a design file"):
        peryton.Design(tmp_path / "missing.toml")
    with pytest.raises(TypeError, match="a design has texts, numbers"):
        peryton.Design.from_dict({"devices": {"only": object()}})
    with pytest.raises(TypeError, match="expected a Design"):
        peryton.simulate(5, path)  # type: ignore[call-overload]
    assert issubclass(peryton.InputError, ValueError)


def test_messages_name_arguments_and_not_options_of_the_command(sqlite: Path) -> None:
    with pytest.raises(peryton.InputError, match=r'use a larger volume, or fit="wrap" \(offsets modulo the volume\) or fit="skip"'):
        peryton.simulate(peryton.Design.from_dict(CACHE).set("devices.hdd.size", "16MiB"), sqlite)
    with pytest.raises(peryton.InputError, match="shorten warm_up_requests"):
        peryton.simulate(CACHE, sqlite, fit="wrap", warm_up_requests=10**6)
    with pytest.raises(peryton.InputError, match="speed: only replay timed has a speed"):
        peryton.simulate(CACHE, sqlite, replay="sync", speed=2)
    with pytest.raises(peryton.InputError, match="fit 'wrp': use one of error, wrap, skip"):
        peryton.simulate(CACHE, sqlite, fit="wrp")  # type: ignore[call-overload]
    with pytest.raises(peryton.InputError, match="give peak, average and capacity, or a trace"):
        peryton.energy(peak="5MB")
    with pytest.raises(peryton.InputError, match="rate 0: use a share"):
        peryton.mrc(sqlite, rate=0)
    with pytest.raises(peryton.InputError, match="latency has two budgets"):
        peryton.plan(sqlite, latency="1ms", subject_to="latency<=2ms")


def test_the_shipped_devices_can_be_used() -> None:
    names = peryton.profiles()
    assert len(names) > 20 and "intel-320-300gb" in names
    assert peryton.replacement_policies()[:2] == ["wsclock", "lru"] and "size" in peryton.admission_rules()


@pytest.mark.parametrize(
    ("sweep", "message"),
    [
        ({"placement.promotion.treshold": [1, 2]}, "sweep placement.promotion.treshold: .*did you mean 'placement.promotion.threshold'"),
        ({"placement.max_moves": []}, "sweep placement.max_moves: there are no values"),
        ({"placement.max_moves": [4, "many"]}, "sweep: .*placement.max_moves=many.*whole number"),
        ({"placement.max_moves": ["4"]}, "sweep: .*whole number"),
        ({"devices.nvme.size": ["1GiB"]}, "sweep devices.nvme.size: does not apply to any"),
        ({"placement.max_moves": range(1, 1002)}, "sweep: 1001 simulations, more than 1000"),
    ],
)
def test_a_sweep_that_is_wrong_says_so(sqlite: Path, sweep: dict[str, Any], message: str) -> None:
    with pytest.raises(peryton.InputError, match=message):
        peryton.simulate(CACHE, sqlite, sweep=sweep, fit="wrap")


def test_a_sweep_is_of_lists_and_not_of_a_policy_that_is_given(sqlite: Path) -> None:
    with pytest.raises(TypeError, match="sweep placement.replacement: expected a list of values, not str"):
        peryton.simulate(CACHE, sqlite, sweep={"placement.replacement": "lru"})

    class First:
        def __init__(self, capacity: peryton.Capacity) -> None:
            self.slots = capacity.slots

        def victim(self, candidates: peryton.Candidates) -> int | None:
            return next((slot for slot in range(self.slots) if candidates.may_leave(slot)), None)

    with pytest.raises(peryton.InputError, match="sweep placement.replacement: a class is given"):
        peryton.simulate(CACHE, sqlite, sweep={"placement.replacement": ["lru"]}, replacement=First)
    swept = peryton.simulate(CACHE, sqlite, sweep={"placement.max_moves": [4, 8]}, replacement=First, fit="wrap")
    alone = peryton.Design.from_dict(CACHE).set("placement.max_moves", 8)
    assert swept[1]["latency_us"] == peryton.simulate(alone, sqlite, replacement=First, fit="wrap")["latency_us"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sizes": "large"}, "sizes: .*large"),
        ({"sizes": "2GiB..1GiB"}, "sizes: give a range from a smaller size"),
        ({"sizes": []}, "sizes: give sizes above 0"),
        ({"points": 1}, "points 1: use 2 to 64"),
        ({"within": 0}, "within: use a share"),
        ({"within": "100%"}, "within: use a share"),
        ({"objective": "speed"}, "objective: 'speed' is no figure"),
        ({"usd_per_ms": -1}, "usd_per_ms: give US dollars above 0"),
        ({"run_for": 0}, "run_for 0s: give a time"),
        ({"fit": "cut"}, "fit 'cut': use one of error, wrap, skip"),
    ],
)
def test_a_curve_that_cannot_be_says_why(sqlite: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(peryton.InputError, match=message) as caught:
        peryton.size(CACHE, sqlite, **options)
    assert "--" not in str(caught.value)


def test_a_design_without_a_fast_device_has_no_curve(sqlite: Path) -> None:
    with pytest.raises(peryton.InputError, match=r'no fast device whose size could differ.*simulate\(\.\.\., sweep=') as caught:
        peryton.size(DESIGNS / "hdd-only.toml", sqlite)
    assert "--" not in str(caught.value)
    with pytest.raises(TypeError, match="design: expected a Design, a path or a dictionary, not a list of dict"):
        peryton.size([CACHE], sqlite)  # type: ignore[arg-type]
