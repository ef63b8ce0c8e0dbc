# The part of the package that is written in Rust; `peryton` has the documentation.
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

__all__ = [
    "__version__",
    "InputError",
    "SimulationError",
    "Trace",
    "Design",
    "Space",
    "Rows",
    "Capacity",
    "Candidates",
    "simulate",
    "size",
    "point_row",
    "file_hash",
    "mrc",
    "lifetime",
    "plan",
    "plan_fleet",
    "fleet_points",
    "fleet_row",
    "energy",
    "profiles",
    "design_keys",
    "report_schema",
    "formats",
    "policies",
]

__version__: str

class InputError(ValueError):
    """A trace, design, profile or argument is wrong; the line says where, and what to do."""

class SimulationError(RuntimeError):
    """The machine or Peryton failed, or a policy broke its contract."""

@final
class Trace:
    @staticmethod
    def _open(
        paths: Sequence[str],
        format: str | None,
        columns: str | None,
        unit: str | None,
        skip_bad: bool,
        volumes: Sequence[str] | None,
        concatenate: bool,
        files_as_volumes: bool,
        sort: bool,
        spread: bool,
    ) -> Trace: ...
    @property
    def _remarks(self) -> list[str] | None: ...
    @staticmethod
    def _from_arrow(object: object, name: str) -> Trace: ...
    @staticmethod
    def _from_buffers(columns: Sequence[tuple[str, object]], name: str) -> Trace: ...
    @property
    def name(self) -> str: ...
    @property
    def _requests(self) -> int | None: ...
    @property
    def _skipped(self) -> tuple[int, list[str]] | None: ...
    def __arrow_c_stream__(self, requested_schema: object = None) -> object: ...
    def _columns(self) -> dict[str, object]: ...
    def _save(self, path: str) -> int: ...
    def _info(self) -> str: ...
    def _overwrites(self) -> str: ...

@final
class Design:
    @staticmethod
    def _load(path: str) -> Design: ...
    @staticmethod
    def _parse(text: str, name: str) -> Design: ...
    @staticmethod
    def _from_dict(table: dict[str, Any], name: str) -> Design: ...
    def _set(self, key: str, value: object) -> None: ...
    def _copy(self) -> Design: ...
    @property
    def name(self) -> str: ...
    @property
    def volume_bytes(self) -> int: ...
    @property
    def overrides(self) -> list[str]: ...
    def to_toml(self) -> str: ...

@final
class Space:
    @staticmethod
    def _load(path: str) -> Space: ...
    @staticmethod
    def _from_dict(table: dict[str, Any], place: str, folder: str, optimised: bool) -> Space: ...
    def __len__(self) -> int: ...
    def _keys(self) -> str: ...
    def _point(self, index: int) -> tuple[str, str]: ...
    def _at(self, values: Mapping[str, str]) -> list[tuple[str, str]]: ...
    def _value(self, key: str, number: float) -> str: ...
    def _sweep(
        self, rows: Rows, retry_errors: bool, jobs: int | None, progress: Callable[[str, int, int], object] | None
    ) -> tuple[int, int, int, int]: ...

@final
class Rows:
    @staticmethod
    def _open(path: str) -> Rows: ...
    def _known(self, point: str) -> bool | None: ...
    def _figures(self, names: Sequence[str]) -> str: ...
    def _add(self, rows: Sequence[str]) -> None: ...
    def _finish(self, points: Sequence[str]) -> None: ...
    def _close(self) -> None: ...

@final
class Capacity:
    """The capacity of a cache, for a policy that is made for it."""

    @property
    def slots(self) -> int:
        """Number of slots, numbered from 0."""
    @property
    def size(self) -> int:
        """The most slots that hold an extent at the same time; the others are spare."""

@final
class Candidates:
    """The extents that may leave, for the time of a call of ``victim``.

    Raises:
        IndexError: the cache has no such slot.
        RuntimeError: no victim is being chosen.
    """

    def may_leave(self, slot: int) -> bool:
        """Whether the slot has an extent that may leave now."""
    def last_access_ns(self, slot: int) -> int | None:
        """When the extent in the slot was last accessed, in nanoseconds; None if it may not leave."""
    def referenced(self, slot: int) -> bool | None:
        """The use bit of the extent in the slot, which every access sets; None if it may not leave."""
    def clear_referenced(self, slot: int) -> None:
        """Clears the use bit of the extent in the slot."""
    @property
    def is_awaited(self) -> bool:
        """Whether a request waits for the choice, so that the search must be bounded."""
    @property
    def now_ns(self) -> int:
        """The time of the choice, in nanoseconds."""
    @property
    def window_ns(self) -> int:
        """The working-set window, in nanoseconds."""

def simulate(
    designs: Sequence[Design],
    trace: Trace,
    sweep: Sequence[tuple[str, Sequence[object]]],
    arguments: Mapping[str, Any],
    progress: Callable[[str, int, int], object] | None,
) -> str: ...
def size(
    design: Design, trace: Trace, arguments: Mapping[str, Any], progress: Callable[[str, int, int], object] | None
) -> str: ...
def point_row(point: str, files: Sequence[str]) -> str: ...
def file_hash(path: str) -> str: ...
def mrc(trace: Trace, arguments: Mapping[str, Any], progress: Callable[[str, int, int], object] | None) -> str: ...
def lifetime(file: str | None, values: Mapping[str, Any], admit: Sequence[float]) -> str: ...
def plan(trace: Trace, arguments: Mapping[str, Any], progress: Callable[[str, int, int], object] | None) -> str: ...
def plan_fleet(
    path: str,
    arguments: Mapping[str, Any],
    rows: Sequence[str] | None,
    simulate: Callable[[Sequence[str]], list[str]] | None,
    progress: Callable[[str, int, int], object] | None,
) -> str: ...
def fleet_points(path: str, arguments: Mapping[str, Any]) -> list[str]: ...
def fleet_row(point: str, files: Sequence[str]) -> str: ...
def energy(
    trace: Trace | None, arguments: Mapping[str, Any], progress: Callable[[str, int, int], object] | None
) -> str: ...
def profiles() -> list[str]:
    """The names of the shipped profiles of devices."""

def design_keys() -> str: ...
def report_schema() -> str: ...
def formats() -> list[tuple[str, str]]:
    """The formats of traces, with their descriptions."""

def policies() -> tuple[list[str], list[str]]: ...
