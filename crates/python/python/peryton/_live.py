"""Volumes that are being served, by the control sockets of their servers."""

import json
import os
import socket
from pathlib import Path
from typing import Any

from ._checked import checked
from ._native import InputError

COLUMNS = ["offset", "len", "device", "at", "state", "dirty", "lost", "blocks", "accesses", "last_access_unix_s"]


def _places() -> list[tuple[Path, Path]]:
    """Where designs lie, and where the sockets of their servers are."""
    config = Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
    run = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    return [(Path("/etc/peryton"), Path("/run/peryton")), (config / "peryton", run / "peryton")]


def _socket_of(volume: str | os.PathLike[str]) -> Path:
    """The control socket of a volume, which is named as on the command line; or the path of the socket itself."""
    text = os.fspath(volume)
    path = Path(text)
    if path.is_socket():
        return path
    if "/" not in text and path.suffix != ".toml":
        there = [sockets for designs, sockets in _places() if (designs / f"{text}.toml").exists()]
        if len(there) != 1:
            raise InputError(f"{text}: {len(there)} volumes have this name: give the path of a design")
        return there[0] / text / "control"
    for designs, sockets in _places():
        if designs.resolve() == path.parent.resolve():
            return sockets / path.stem / "control"
    return path.with_suffix(".control")


@checked
def extents(volume: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The mapping table of a volume that is being served: a row for each extent that has a place, or was accessed.

    ``volume`` is its name, the path of its design, or that of its control socket. A row has ``offset`` and ``len`` on the volume; ``device``
    and ``at``, where it is, or ``None`` if it is not mapped or not cached; ``state``, ``dirty``, ``lost``, ``blocks``; ``accesses`` and
    ``last_access_unix_s``, or ``None`` where they are not known. Of a log it has the ranges that are newest there.

    >>> import polars  # doctest: +SKIP
    >>> polars.DataFrame(peryton.extents("data")).sort("accesses").tail()  # doctest: +SKIP
    """
    path = _socket_of(volume)
    rows: list[dict[str, Any]] = []
    try:
        with socket.socket(socket.AF_UNIX) as stream:
            stream.connect(os.fspath(path))
            stream.sendall(b'{"verb":"map"}\n')
            for line in stream.makefile("r", encoding="utf-8"):
                said = json.loads(line)
                if said.get("ok") is False:
                    raise InputError(f"{path}: {said['error']}")
                for row in said.get("map", []):
                    name = said["devices"][row["device"]] if "device" in row else None
                    row |= {"device": name, "dirty": row.get("dirty", False), "lost": row.get("lost", False)}
                    rows.append({column: row.get(column) for column in COLUMNS})
                if "ok" in said:
                    return rows
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}: is the volume being served?") from error
    raise InputError(f"{path}: it hung up: the volume may have been closed")
