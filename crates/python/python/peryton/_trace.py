"""Traces: recorded or generated workloads."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ._checked import checked, named
from ._native import InputError
from ._native import Trace as _Trace

if TYPE_CHECKING:
    import numpy
    import pandas  # type: ignore[import-untyped, unused-ignore]
    import polars
    import pyarrow  # type: ignore[import-untyped, unused-ignore]

_TIMES = ("time_ns", "time_us", "time_ms", "time_s")
_OFFSETS = ("offset", "sector")
_LENGTHS = ("length", "sectors")
_CODES = {"r": 0, "read": 0, "w": 1, "write": 1, "d": 2, "discard": 2, "trim": 2, "unmap": 2, "f": 3, "flush": 3}


class Trace:
    """A trace of block requests, in the order of their arrival, that is read as often as needed.

    ``Trace(path)`` opens a file of any format that Peryton knows (:func:`peryton.formats`), compressed or not, or a
    specification (``.toml``) from which a trace is drawn; several files are merged by time. Files are read piece by piece
    whenever they are used, so they may be larger than the memory. :meth:`from_arrow`, :meth:`from_polars`,
    :meth:`from_pandas` and :meth:`from_numpy` make a trace of columns in memory, which are looked at and not copied: do not
    change them while the trace is in use.

    A trace in columns has one column of each row of this table; other columns are ignored:

    ======================================== ==================================================================
    ``time_ns``, ``_us``, ``_ms``, ``_s``    arrival, in this unit; counted from the first request
    ``op``                                   0, 1, 2, 3 or ``read``, ``write``, ``discard``, ``flush`` (or R, W, D, F)
    ``offset`` or ``sector``                 bytes, or sectors of 512 bytes
    ``length`` or ``sectors``                bytes, or sectors of 512 bytes; 0 for a flush
    ``volume`` (may be absent)               the number of the volume or disk
    ======================================== ==================================================================

    Args:
        paths: a path, or several that are merged by time.
        format: the format, if Peryton does not recognise it.
        columns: the columns of a table, by name or number: ``"time=1,op=2,offset=3,size=4,volume=5"``.
        unit: the units of its numbers: ``"time=ns,offset=sectors,size=bytes,op=read:1+write:0"``.
        skip_bad: skip bad lines and records and count them (:attr:`skipped`) instead of stopping at the first.
        volumes: read these volumes only, by number or name; a device is ``"253,0"``.
        concatenate: put the volumes one after the other into one address space.
        files_as_volumes: number the volumes by file, whatever numbers the files contain.
        sort: sort the whole trace by time, in temporary files.
        spread: spread requests whose times are whole seconds evenly over their second.

    Raises:
        InputError: a file cannot be read or is not a trace. Wrong lines are found when the trace is read.
    """

    __slots__ = ("_inner",)
    _inner: _Trace

    @checked
    def __init__(
        self,
        paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]],
        *,
        format: str | None = None,
        columns: str | None = None,
        unit: str | None = None,
        skip_bad: bool = False,
        volumes: Iterable[int | str] | None = None,
        concatenate: bool = False,
        files_as_volumes: bool = False,
        sort: bool = False,
        spread: bool = False,
    ) -> None:
        all_paths = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
        self._inner = _Trace._open(
            [os.fspath(path) for path in all_paths],
            format,
            columns,
            unit,
            skip_bad,
            None if volumes is None else [part for volume in volumes for part in str(volume).split(",")],
            concatenate,
            files_as_volumes,
            sort,
            spread,
        )

    @classmethod
    def _of(cls, inner: _Trace) -> "Trace":
        trace = cls.__new__(cls)
        trace._inner = inner
        return trace

    @classmethod
    def from_arrow(cls, columns: Any, name: str = "columns") -> "Trace":
        """A trace of any object with Arrow's ``__arrow_c_stream__``: a table of pyarrow, a frame of polars, a relation of
        DuckDB. The columns are not copied. Rows may be in any order."""
        if not hasattr(columns, "__arrow_c_stream__"):
            raise TypeError(f"columns: expected a table or a data frame of Arrow (with __arrow_c_stream__), not {type(columns).__name__}")
        return cls._of(_Trace._from_arrow(columns, name))

    @classmethod
    def from_polars(cls, frame: "polars.DataFrame | polars.LazyFrame", name: str = "polars") -> "Trace":
        """A trace of a data frame of polars, which is not copied."""
        collected: Any = frame.collect() if hasattr(frame, "collect") else frame
        return cls.from_arrow(collected, name)

    @classmethod
    def from_pandas(cls, frame: "pandas.DataFrame", name: str = "pandas") -> "Trace":
        """A trace of a data frame of pandas. Columns of numbers are not copied if they are contiguous."""
        known = [name for name in (*_TIMES, "op", *_OFFSETS, *_LENGTHS, "volume") if name in frame.columns]
        return cls.from_numpy({column: frame[column].to_numpy() for column in known}, name=name)

    @classmethod
    @checked
    def from_numpy(cls, columns: Mapping[str, Any], name: str = "numpy") -> "Trace":
        """A trace of a dictionary of arrays of NumPy, all of one dimension and equally long. Contiguous arrays of whole
        numbers, and times in float64, are not copied; others are."""
        if not columns:
            raise InputError(f"{name}: has no columns: give time, op, offset and length")
        given = [(column, _array(column, values)) for column, values in columns.items()]
        return cls._of(_Trace._from_buffers(given, name))

    @property
    def name(self) -> str:
        """The name in reports: of the files without folders, or the one given."""
        return self._inner.name

    @property
    def skipped(self) -> dict[str, Any] | None:
        """With `skip_bad`: the ``count`` of bad lines when the trace was last read, and the messages of the ``first``."""
        found = self._inner._skipped
        return None if found is None else {"count": found[0], "first": found[1]}

    @property
    def remarks(self) -> list[str] | None:
        """What was skipped, left out, moved in time, cut or spread when the trace was last read, a sentence each."""
        return self._inner._remarks

    def info(self) -> dict[str, Any]:
        """Describes the trace: counts, sizes, arrivals, sequentiality, footprint, working set; as ``peryton trace info
        --json``. Of a trace of objects, the objects with their whole sizes. Reads it once."""
        return json.loads(self._inner._info())  # type: ignore[no-any-return]

    def overwrites(self) -> dict[str, Any]:
        """Which blocks are overwritten and how soon, and how much a write cache could save; as ``peryton trace
        overwrites --json``. Reads it once."""
        return json.loads(self._inner._overwrites())  # type: ignore[no-any-return]

    @checked
    def save(self, path: str | os.PathLike[str]) -> int:
        """Writes the trace as Parquet, or as CSV if the name ends in ``.csv``; returns the number of requests. A file in
        Parquet gets its name when it is complete."""
        return self._inner._save(os.fspath(path))

    def to_numpy(self) -> "dict[str, numpy.ndarray[Any, Any]]":
        """The requests as arrays: ``time_ns`` (uint64), ``op`` (uint8: 0 read, 1 write, 2 discard, 3 flush), ``volume``
        (uint32), ``offset`` and ``length`` (uint64, bytes). Read-only views where the trace has these columns in memory."""
        import numpy

        return {name: numpy.asarray(column) for name, column in self._inner._columns().items()}

    def to_polars(self) -> "polars.DataFrame":
        """The requests as a data frame of polars, with the columns of :meth:`to_numpy`; not copied from memory."""
        import polars

        return polars.DataFrame(self)

    def to_arrow(self) -> "pyarrow.Table":
        """The requests as a table of pyarrow, with the columns of :meth:`to_numpy`; not copied from memory. To read a file
        larger than memory piece by piece, use ``pyarrow.RecordBatchReader.from_stream(trace)``."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """The requests as a data frame of pandas, with the columns of :meth:`to_numpy`."""
        import pandas  # type: ignore[import-untyped, unused-ignore]

        return pandas.DataFrame(self.to_numpy(), copy=False)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """The requests for any library that reads Arrow."""
        return self._inner.__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        """The number of requests; only traces in memory know it."""
        requests = self._inner._requests
        if requests is None:
            raise TypeError("the length of a trace in files is known when it has been read: info()['requests']")
        return requests

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        requests = self._inner._requests
        return f"Trace({self.name!r})" if requests is None else f"Trace({self.name!r}, {requests:,} requests)"


def _array(column: str, values: Any) -> Any:
    """An array that can be looked at: contiguous, of numbers."""
    import numpy

    array = numpy.asarray(values)
    if array.dtype == object or array.dtype.kind in "UST":
        if column != "op":
            raise InputError(f"{column}: has texts or objects: give numbers")
        words, places = numpy.unique(array.astype(str), return_inverse=True)
        unknown = [word for word in words.tolist() if word.lower() not in _CODES]
        if unknown:
            raise InputError(f"op: is {unknown[0]!r}, expected read, write, discard or flush")
        codes = numpy.array([_CODES[word.lower()] for word in words.tolist()], dtype=numpy.uint8)
        array = codes[places.reshape(-1)]
    if array.dtype.kind == "f" and array.dtype.itemsize != 8:
        array = array.astype(numpy.float64)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return numpy.ascontiguousarray(array)


def traced(given: object) -> Trace:
    """The trace that an argument names."""
    if isinstance(given, Trace):
        return given
    if isinstance(given, str | os.PathLike):
        return Trace(given)
    if isinstance(given, list | tuple) and all(isinstance(one, str | os.PathLike) for one in given):
        return Trace(given)
    if hasattr(given, "__arrow_c_stream__"):
        return Trace.from_arrow(given)
    if isinstance(given, Mapping):
        return Trace.from_numpy(given)
    raise TypeError(f"trace: expected a Trace, paths, a data frame or a dictionary of arrays, not {named(given)}")
