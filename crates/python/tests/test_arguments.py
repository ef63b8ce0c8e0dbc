"""The fear: a wrong argument ends in a message that does not say which argument, what it was given, or what belongs there."""

import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import peryton
import pytest
from conftest import CACHE

FIXED = {"devices": {"only": {"profile": "fixed", "size": "8GiB"}}, "placement": {"mode": "single"}}
# What each function needs besides the argument that is wrong.
NEEDED: dict[Callable[..., Any], dict[str, Any]] = {
    peryton.simulate: {"design": FIXED, "trace": "t.csv"},
    peryton.size: {"design": CACHE, "trace": "t.csv"},
    peryton.mrc: {"trace": "t.csv"},
    peryton.lifetime: {},
    peryton.plan: {"trace": "t.csv"},
    peryton.plan_fleet: {"recordings": "recordings"},
    peryton.energy: {},
    peryton.sweep: {"space": "space.toml", "out": "rows"},
    peryton.rows: {},
    peryton.design_keys: {},
    peryton.Trace: {"paths": "t.csv"},
    peryton.extents: {"volume": "v.toml"},
    peryton.Design: {},
    peryton.Design.from_toml: {"text": ""},
    peryton.Design.from_dict: {"keys": FIXED},
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.csv").write_text("time_us,op,offset,length\n0,R,0,4096\n1,W,4096,4096\n")


class Wrong:
    """No function takes this."""


def arguments() -> list[tuple[Callable[..., Any], str]]:
    return [(function, name) for function in NEEDED for name in inspect.signature(function).parameters]


@pytest.mark.parametrize(("function", "name"), arguments())
def test_an_argument_of_the_wrong_type_is_named(function: Callable[..., Any], name: str) -> None:
    label = "table" if name == "tables" else name
    with pytest.raises(TypeError, match=rf"^{label}: expected .+, not Wrong$"):
        function(**{**NEEDED[function], label: Wrong()})
    with pytest.raises(TypeError, match=rf"^{label}.*: expected .+, not ((a list of )?Wrong|list)$"):
        function(**{**NEEDED[function], label: [Wrong()]})


def test_every_public_function_is_tried() -> None:
    public = {name for name in peryton.__all__ if inspect.isfunction(getattr(peryton, name))}
    with_arguments = {name for name in public if inspect.signature(getattr(peryton, name)).parameters}
    assert with_arguments <= {function.__name__ for function in NEEDED}


@pytest.mark.parametrize(
    ("function", "wrong", "message"),
    [
        (peryton.simulate, {"replay": 3}, "replay: expected a text, not int"),
        (peryton.simulate, {"new": 1}, "new: expected True or False, not int"),
        (peryton.simulate, {"limit": True}, "limit: expected a whole number or None, not bool"),
        (peryton.simulate, {"limit": 1.5}, "limit: expected a whole number or None, not float"),
        (peryton.simulate, {"limit": -1}, "limit -1: use a number that is not below 0, nor beyond 64 bits"),
        (peryton.simulate, {"interval": "1 fortnight"}, "interval: "),
        (peryton.simulate, {"replacement": 7}, "replacement: expected a policy's name, or a class with the method victim, not int"),
        (peryton.simulate, {"sweep": {"placement.max_moves": 3}}, "sweep placement.max_moves: expected a list of values, not int"),
        (peryton.mrc, {"block": "4 pages"}, "block: "),
        (peryton.mrc, {"block": -4096}, "block -4096: use a number"),
        (peryton.mrc, {"sizes": ["1GiB", "big"]}, "sizes: "),
        (peryton.mrc, {"sizes": ["1GiB", None]}, "sizes: expected a list of which each is a number of bytes, or a text"),
        (peryton.mrc, {"policies": ["lru", 3]}, "policies: expected a policy's name, or a class"),
        (peryton.mrc, {"sizes": []}, "sizes: there is none"),
        (peryton.mrc, {"policies": []}, "there is no policy to simulate"),
        (peryton.lifetime, {"array": {"workload": {"read": -1}}}, "the array: a size cannot be negative"),
        (peryton.rows, {"path": "nowhere"}, "nowhere: there is no such folder"),
        (peryton.mrc, {"trace": {}}, "numpy: has no columns"),
        (peryton.size, {"sizes": ["1GiB", -1]}, "sizes -1: use a number"),
        (peryton.plan, {"latency": [2]}, "latency: expected a number of seconds, or a text such as '60s' or None, not a list of int"),
        (peryton.plan, {"prices": {"intel-320-300gb": "dear"}}, "prices intel-320-300gb: expected a number, not str"),
        (peryton.plan, {"most": -1}, "most -1: use a number"),
        (peryton.energy, {"capacity": -5}, "capacity -5: use a number"),
        (peryton.energy, {"queue_depth": "many"}, "queue_depth: expected a whole number or None, not str"),
        (peryton.Trace, {"volumes": [1.5]}, "volumes: expected a list of which each is a whole number or a text or None, not a list of float"),
    ],
)
def test_the_message_says_what_was_given_and_what_belongs_there(function: Any, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, peryton.InputError), match=f"^{re.escape(message)}") as caught:
        function(**{**NEEDED[function], **wrong})
    assert "\n" not in str(caught.value)


def test_numbers_of_numpy_are_numbers() -> None:
    numpy = pytest.importorskip("numpy")
    report = peryton.simulate(FIXED, "t.csv", limit=numpy.int64(1), interval=numpy.float64(1.0))
    assert report["requests"] == 1
    assert list(peryton.mrc("t.csv", sizes=numpy.array([4096, 8192])).policies) == ["lru"]


def test_a_misspelt_argument_is_as_in_any_function() -> None:
    with pytest.raises(TypeError, match=r"simulate\(\) got an unexpected keyword argument 'replai'"):
        peryton.simulate(FIXED, "t.csv", replai="sync")
    with pytest.raises(TypeError, match=r"simulate\(\) missing 1 required positional argument: 'trace'"):
        peryton.simulate(FIXED)  # type: ignore[call-overload]
