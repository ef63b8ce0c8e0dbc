"""The fears: a policy in Python decides otherwise than the same one in Rust, or brings the interpreter down."""

import time
from collections import OrderedDict
from pathlib import Path
from typing import Any

import peryton
import pytest
from conftest import CACHE, SHORT_SEARCHES


class Lru:
    """Least recently used."""

    def __init__(self, capacity: peryton.Capacity) -> None:
        assert capacity.slots > capacity.size >= 1
        self.order: OrderedDict[int, None] = OrderedDict()
        self.accessed = self.order.move_to_end

    def inserted(self, slot: int, extent: int) -> None:
        self.order[slot] = None

    def removed(self, slot: int, extent: int, evicted: bool) -> None:
        del self.order[slot]

    def victim(self, candidates: peryton.Candidates) -> int | None:
        for slot in self.order:
            if candidates.may_leave(slot):
                return slot
        return None


class Sieve:
    """SIEVE, by the use bits that the cache keeps."""

    def __init__(self, capacity: peryton.Capacity) -> None:
        self.queue: OrderedDict[int, bool] = OrderedDict()

    def inserted(self, slot: int, extent: int) -> None:
        self.queue[slot] = False

    def accessed(self, slot: int) -> None:
        self.queue[slot] = True

    def removed(self, slot: int, extent: int, evicted: bool) -> None:
        del self.queue[slot]

    def victim(self, candidates: peryton.Candidates) -> int | None:
        # Not the published hand, which moves on: enough to see that marks survive between calls.
        for slot in self.queue:
            if self.queue[slot]:
                self.queue[slot] = False
            elif candidates.may_leave(slot):
                return slot
        return next((slot for slot in self.queue if candidates.may_leave(slot)), None)


def figures(report: peryton.Report) -> dict[str, Any]:
    return {key: value for key, value in report.to_dict().items() if key not in ("overrides", "design_toml")}


def test_lru_in_python_decides_like_lru_in_rust(sqlite: Path) -> None:
    builtin = peryton.Design.from_dict(SHORT_SEARCHES).set("placement.replacement", "lru")
    ours = peryton.simulate(SHORT_SEARCHES, sqlite, fit="wrap", replacement=Lru)
    theirs = peryton.simulate(builtin, sqlite, fit="wrap")
    assert theirs["moves.demotions"] > 100
    assert figures(ours) == figures(theirs)
    assert ours["overrides"] == ["placement.replacement=Lru"]
    curves = peryton.mrc(sqlite, policies=[Lru, "lru", Sieve, "sieve"], sizes=["256KiB", "4MiB"], rate=1)
    assert curves.policies == ["Lru", "lru", "Sieve", "sieve"]
    assert [row["all"] for row in curves.of("Lru")] == [row["all"] for row in curves.of("lru")]
    sieves = zip(curves.of("Sieve"), curves.of("sieve"), strict=True)
    assert all(abs(ours["all"] - theirs["all"]) < 0.05 for ours, theirs in sieves)


def test_a_rule_in_python_admits_like_the_same_one_in_rust(sqlite: Path) -> None:
    class UpTo8KiB:
        def __init__(self, extents: int, seed: int) -> None:
            assert 500 < extents <= 1024 and seed == 1

        def admits(self, extent: int, op: int, request_bytes: int) -> bool:
            assert op in (peryton.READ, peryton.WRITE)
            return request_bytes <= 8192

    builtin = peryton.Design.from_dict(CACHE).set("admission", {"by": "size", "threshold": "8KiB"})
    ours = peryton.simulate(CACHE, sqlite, fit="wrap", admission=UpTo8KiB)
    assert figures(ours) == figures(peryton.simulate(builtin, sqlite, fit="wrap"))
    assert ours["admission.bypassed"] > 100


@pytest.mark.parametrize("method", ["__init__", "victim", "inserted", "accessed", "removed", "admitting"])
def test_an_exception_of_a_policy_ends_the_simulation(sqlite: Path, method: str) -> None:
    def fails(*_: object) -> None:
        raise ZeroDivisionError(f"in {method}")

    broken = type("Broken", (Lru,), {method: fails})
    if method == "accessed":
        broken = type("Broken", (Sieve,), {method: fails})
    for run in (
        lambda: peryton.simulate(CACHE, sqlite, fit="wrap", replacement=broken),
        lambda: peryton.mrc(sqlite, policies=["lru", broken, "arc"], sizes=["256KiB"]),
    ):
        with pytest.raises(ZeroDivisionError, match=f"in {method}"):
            run()


@pytest.mark.parametrize(("slot", "error"), [(10**6, ValueError), (-1, OverflowError), ("2", TypeError), (1.5, TypeError)])
def test_a_victim_that_may_not_leave_is_an_error(sqlite: Path, slot: Any, error: type[Exception]) -> None:
    class Wrong(Lru):
        def victim(self, candidates: peryton.Candidates) -> int | None:
            return slot

    with pytest.raises(error):
        peryton.mrc(sqlite, policies=Wrong, sizes=["256KiB"])
    with pytest.raises(error):
        peryton.simulate(CACHE, sqlite, fit="wrap", replacement=Wrong)


def test_a_policy_that_finds_no_victim_is_an_error_and_not_a_crash(sqlite: Path) -> None:
    class Never(Lru):
        def victim(self, candidates: peryton.Candidates) -> int | None:
            return None

    with pytest.raises(peryton.SimulationError, match="finds a victim"):
        peryton.mrc(sqlite, policies=Never, sizes=["256KiB"])


def test_candidates_can_be_asked_only_within_victim(sqlite: Path) -> None:
    kept = []

    class Keeps(Lru):
        def victim(self, candidates: peryton.Candidates) -> int | None:
            kept.append(candidates)
            assert candidates.now_ns >= 0 and candidates.window_ns == 60 * 10**9
            slot = super().victim(candidates)
            assert slot is not None and candidates.last_access_ns(slot) is not None
            candidates.clear_referenced(slot)
            assert candidates.referenced(slot) is False
            with pytest.raises(IndexError):
                candidates.may_leave(10**6)
            return slot

    peryton.mrc(sqlite, policies=Keeps, sizes=["256KiB"])
    assert kept
    for ask in (lambda: kept[0].may_leave(0), lambda: kept[0].now_ns, lambda: kept[0].referenced(1)):
        with pytest.raises(RuntimeError, match="only while victim is called"):
            ask()


def test_what_is_no_policy_is_refused_before_the_trace_is_read(sqlite: Path) -> None:
    with pytest.raises(peryton.InputError, match="'mru': use one of wsclock, lru"):
        peryton.mrc(sqlite, policies="mru")
    with pytest.raises(TypeError, match="dict has no method victim"):
        peryton.mrc(sqlite, policies=[dict])
    with pytest.raises(TypeError, match="has no method admits"):
        peryton.simulate(CACHE, sqlite, admission=Lru)  # type: ignore[arg-type]
    with pytest.raises(peryton.InputError, match="only tiering, caching and partitioned designs have one"):
        single = {"devices": {"only": {"profile": "fixed", "size": "8GiB"}}, "placement": {"mode": "single"}}
        peryton.simulate(single, sqlite, replacement=Lru)


def test_a_policy_in_python_is_slow_but_not_that_slow(pgbench: Path) -> None:
    # docs/python.md has the speed of an optimised build. This one may be built for testing, on a busy machine.
    trace = peryton.Trace.from_polars(peryton.Trace(pgbench).to_polars())
    before = time.process_time()
    peryton.mrc(trace, policies=Lru, sizes=["16MiB"], rate=1)
    rate = len(trace) / (time.process_time() - before)
    assert rate > 20_000, f"{rate:,.0f} requests a second"
