"""Designs of hybrid drives."""

import json
import os
import tomllib
from collections.abc import Mapping
from typing import Any

from . import _native
from ._checked import checked, named
from ._keys import DesignKeys, Key
from ._native import Design as _Design


class Design:
    """A hybrid drive on paper: its devices, and how data are placed on them. It is checked when it is made, and whenever it
    is changed, so an error names the file, the line and the key.

    ``Design(path)`` reads a design file (TOML); ``examples/papers`` of the repository has one of each kind with comments.
    :meth:`from_toml` takes the text of such a file, and :meth:`from_dict` a dictionary with the same keys:

    >>> Design.from_dict({
    ...     "devices": {"ssd": {"profile": "intel-320-300gb", "size": "1GiB"},
    ...                 "hdd": {"profile": "seagate-st32000641as", "size": "16GiB"}},
    ...     "placement": {"mode": "caching", "fast": "ssd", "slow": "hdd", "extent": "64KiB"},
    ... }, name="cache").set("placement.promotion.threshold", 1)
    Design('cache', volume of 17,179,869,184 bytes, placement.promotion.threshold=1)

    Sizes are texts with a unit (``"64KiB"``) or numbers of bytes; times are texts (``"5s"``).

    Raises:
        InputError: the file cannot be read, or is not a design that works.
    """

    __slots__ = ("_inner",)
    _inner: _Design

    @checked
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._inner = _Design._load(os.fspath(path))

    @classmethod
    def _of(cls, inner: _Design) -> "Design":
        design = cls.__new__(cls)
        design._inner = inner
        return design

    @classmethod
    @checked
    def from_toml(cls, text: str, name: str = "design") -> "Design":
        """A design from the text of a design file; `name` is its name in errors and, if the text has none, in reports."""
        return cls._of(_Design._parse(text, name))

    @classmethod
    @checked
    def from_dict(cls, keys: DesignKeys | Mapping[str, Any], name: str = "design") -> "Design":
        """A design from a dictionary with the keys of a design file. The order of the devices is theirs in the drive.
        A key whose value is None is absent. :class:`DesignKeys` has the types of all keys, which editors complete in a
        dictionary written here."""
        return cls._of(_Design._from_dict(dict(keys), name))

    @checked
    def set(self, key: Key | str, value: object) -> "Design":
        """Sets a dotted key, such as ``placement.max_moves``, as ``--set`` of the command does; returns the design.

        Raises:
            InputError: the key is unknown, does not apply to this design, or cannot have this value. The design is then as
                it was.
        """
        self._inner._set(key, dict(value) if isinstance(value, Mapping) else value)
        return self

    def copy(self) -> "Design":
        """Another design that is equal to this one, and can be changed by itself."""
        return Design._of(self._inner._copy())

    @property
    def name(self) -> str:
        """The name in reports: the key ``name``, or that of the file without folders and extension."""
        return self._inner.name

    @property
    def volume_bytes(self) -> int:
        """The size of the drive that a host sees; of all volumes together if there are several."""
        return self._inner.volume_bytes

    @property
    def overrides(self) -> list[str]:
        """What was set, as ``key=value``."""
        return self._inner.overrides

    def to_toml(self) -> str:
        """The design as a design file, with what was set, without comments."""
        return self._inner.to_toml()

    def to_dict(self) -> dict[str, Any]:
        """The design as a dictionary, with what was set."""
        return tomllib.loads(self.to_toml())

    def __repr__(self) -> str:
        changed = "".join(f", {text}" for text in self.overrides)
        return f"Design({self.name!r}, volume of {self.volume_bytes:,} bytes{changed})"

    def __copy__(self) -> "Design":
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        return Design.from_toml, (self.to_toml(), self.name)


@checked
def design_keys(prefix: str = "") -> list[dict[str, Any]]:
    """Every key that a design may have, as ``peryton keys --json``; ``docs/design-keys.md`` of the repository is a page of them.

    Args:
        prefix: only keys whose dotted path begins with this, such as ``"placement.writeback"``. ``NAME`` stands for the name
            of a device.

    Returns:
        A dictionary for each key: ``key`` (its path), ``about``, ``type``, ``words`` (the texts that it takes, if they are few),
        ``unit`` (what a number counts), ``default`` (None if ``required``), ``placements`` (those that it applies to), and ``live``
        (whether it may change while a volume is served).
    """
    keys: list[dict[str, Any]] = json.loads(_native.design_keys())
    return [key for key in keys if key["key"].startswith(prefix)]


def designs(given: object) -> list[Design]:
    """The designs that an argument names."""
    if isinstance(given, Design):
        return [given]
    if isinstance(given, Mapping):
        return [Design.from_dict(given)]
    if isinstance(given, str | os.PathLike):
        return [Design(given)]
    if isinstance(given, list | tuple):
        return [design for one in given for design in designs(one)]
    raise TypeError(f"design: expected a Design, the path of a design file, a dictionary or a list of these, not {named(given)}")
