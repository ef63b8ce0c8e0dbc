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
        peryton.greenest(peak="5MB")
    with pytest.raises(peryton.InputError, match="rate 0: use a share"):
        peryton.mrc(sqlite, rate=0)
    with pytest.raises(peryton.InputError, match="latency has two budgets"):
        peryton.plan(sqlite, latency="1ms", subject_to="latency<=2ms")


def test_the_shipped_devices_can_be_used() -> None:
    names = peryton.devices()
    assert len(names) > 20 and "intel-320-300gb" in names
    assert peryton.replacement_policies()[:2] == ["wsclock", "lru"] and "size" in peryton.admission_rules()
