"""The interface of policies written in Python."""

from typing import Any, Protocol, TypeAlias

from ._native import Candidates, Capacity, policies

READ, WRITE, DISCARD, FLUSH = range(4)

#: A replacement policy in Rust that another wheel has compiled in: a capsule with its table of functions. The folder
#: ``examples/policy-in-rust`` of the repository is a template of such a wheel.
PolicyCapsule: TypeAlias = Any


class ReplacementPolicy(Protocol):
    """Which extent leaves the fast device: the methods of a class that ``simulate(..., replacement=...)`` and
    ``mrc(..., policies=[...])`` take. (This is a protocol: a policy need not inherit from it.)

    An instance is made for each cache, with its :class:`Capacity`. Slots are numbers from 0 to ``capacity.slots - 1``:
    the places of the fast device, each with room for one extent. Only ``victim`` is required.
    ``docs/extending.md`` of the repository has the rules for policies. An exception ends the simulation.

        Each call takes about half a microsecond. ``simulate`` and ``mrc`` also take a policy in Rust, as a capsule
    (``examples/policy-in-rust`` of the repository is a template).
    """

    def __init__(self, capacity: Capacity) -> None: ...

    def victim(self, candidates: Candidates) -> int | None:
        """The slot whose extent should leave: one for which ``candidates.may_leave(slot)`` is true; None if there is none.
        The extent leaves only with :meth:`removed`. A request waits for the answer, so bound the search."""
        ...

    def inserted(self, slot: int, extent: int) -> None:
        """An extent was given this slot."""

    def accessed(self, slot: int) -> None:
        """The extent in this slot was accessed."""

    def removed(self, slot: int, extent: int, evicted: bool) -> None:
        """The slot was given up: to make room if ``evicted``, otherwise because its extent was discarded or failed."""

    def admitting(self, extent: int) -> None:
        """An extent missed and is about to be given a slot."""


class AdmissionRule(Protocol):
    """Which misses may bring their extents into the cache: the methods of a class that ``simulate(..., admission=...)``
    takes, for designs with ``placement.mode = "caching"``.

    An instance is made for each cache, with the number of extents that it has room for, and the design's seed.
    """

    def __init__(self, extents: int, seed: int) -> None: ...

    def admits(self, extent: int, op: int, request_bytes: int) -> bool:
        """Whether this miss may bring its extent in; called once for each miss. ``op`` is ``peryton.READ`` or
        ``peryton.WRITE``; ``request_bytes`` is the length of the whole request, which may span extents."""
        ...


def replacement_policies() -> list[str]:
    """The names of Peryton's replacement policies, for ``placement.replacement`` and :func:`peryton.mrc`."""
    return policies()[0]


def admission_rules() -> list[str]:
    """The names of Peryton's admission rules, for ``admission.by``."""
    return policies()[1]
