"""The fears: a policy in Rust of another wheel decides otherwise than it should, or brings the interpreter down."""

import importlib.util
import os
from pathlib import Path
from typing import Any

import peryton
import pytest
from conftest import CACHE, SHORT_SEARCHES


@pytest.fixture(scope="module")
def my_policies() -> Any:
    """The module of examples/policy-in-rust, which cargo has built."""
    built = os.environ.get("MY_POLICIES")
    if built is None:
        pytest.skip("MY_POLICIES does not name the module of examples/policy-in-rust")
    spec = importlib.util.spec_from_file_location("my_policies", built)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class SecondChance:
    """The policy of the template, in Python."""

    def __init__(self, capacity: peryton.Capacity) -> None:
        self.queue: dict[int, bool] = {}

    def inserted(self, slot: int, extent: int) -> None:
        self.queue[slot] = False

    def accessed(self, slot: int) -> None:
        self.queue[slot] = True

    def removed(self, slot: int, extent: int, evicted: bool) -> None:
        del self.queue[slot]

    def victim(self, candidates: peryton.Candidates) -> int | None:
        for _ in range(64 if candidates.is_awaited else len(self.queue)):
            slot = next((slot for slot in self.queue if candidates.may_leave(slot)), None)
            if slot is None or not self.queue[slot]:
                return slot
            del self.queue[slot]
            self.queue[slot] = False
        return next((slot for slot in self.queue if candidates.may_leave(slot)), None)


def test_it_decides_like_the_same_policy_in_python(my_policies: Any, sqlite: Path) -> None:
    policies = [my_policies.SECOND_CHANCE, SecondChance, "lru", "clock"]
    curves = peryton.mrc(sqlite, policies=policies, rate=1, sizes=["256KiB", "1MiB"])
    assert curves.policies == ["second_chance", "SecondChance", "lru", "clock"]
    theirs, ours, lru, clock = ([row["all"] for row in curves.of(policy)] for policy in curves.policies)
    assert theirs == ours == clock != lru
    assert [row["all"] for row in peryton.mrc(sqlite, policies=my_policies.SECOND_CHANCE, rate=1, sizes=["256KiB", "1MiB"])] == theirs
    reports = [peryton.simulate(SHORT_SEARCHES, sqlite, fit="wrap", replacement=policy) for policy in policies[:2]]
    assert reports[0]["fast_hit_ratio"] == reports[1]["fast_hit_ratio"] > 0.1
    assert reports[0]["overrides"] == ["placement.replacement=second_chance"]


def test_other_capsules_are_refused(sqlite: Path) -> None:
    import datetime

    other = datetime.datetime_CAPI  # type: ignore[attr-defined]
    with pytest.raises(peryton.InputError, match="no replacement policy of this version"):
        peryton.simulate(CACHE, sqlite, replacement=other)
