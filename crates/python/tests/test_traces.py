"""The fear: a trace that comes from columns, or goes into columns, is another one."""

from pathlib import Path
from typing import Any

import numpy
import pandas
import peryton
import polars
import pyarrow
import pytest
from conftest import DESIGNS, TRACES

CANONICAL = {
    "time_ns": polars.UInt64,
    "op": polars.UInt8,
    "volume": polars.UInt32,
    "offset": polars.UInt64,
    "length": polars.UInt64,
}


def hashed(trace: Any) -> str:
    report = peryton.simulate(DESIGNS / "ssd-only.toml", trace, fit="wrap", replay="sync", limit=20_000)
    return str(report["trace_hash"])


def test_a_trace_is_the_same_in_every_kind_of_columns(sqlite: Path, tmp_path: Path) -> None:
    trace = peryton.Trace(sqlite)
    frame = trace.to_polars()
    assert dict(frame.schema) == CANONICAL and len(frame) == 15_066
    table = trace.to_arrow()
    assert polars.DataFrame(table).equals(frame)
    arrays = trace.to_numpy()
    assert all((frame[name].to_numpy() == array).all() for name, array in arrays.items())
    assert polars.DataFrame(dict(trace.to_pandas())).equals(frame)
    expected = hashed(trace)
    for same in (
        peryton.Trace.from_polars(frame),
        peryton.Trace.from_polars(frame.lazy()),
        peryton.Trace.from_arrow(table),
        peryton.Trace.from_arrow(pyarrow.concat_tables([table.slice(0, 7), table.slice(7)])),
        peryton.Trace.from_pandas(trace.to_pandas()),
        peryton.Trace.from_numpy(arrays),
        frame,
        arrays,
    ):
        assert hashed(same) == expected
    for name in ("t.parquet", "t.csv"):
        assert trace.save(tmp_path / name) == 15_066
        assert hashed(tmp_path / name) == expected


def test_columns_in_memory_are_not_copied() -> None:
    count = 100_000
    arrays = {
        "time_ns": numpy.arange(count, dtype=numpy.uint64) * 1000,
        "op": numpy.zeros(count, dtype=numpy.uint8),
        "volume": numpy.zeros(count, dtype=numpy.uint32),
        "offset": numpy.arange(count, dtype=numpy.uint64) * 4096,
        "length": numpy.full(count, 4096, dtype=numpy.uint64),
    }
    trace = peryton.Trace.from_numpy(arrays)
    assert len(trace) == count
    for name, array in trace.to_numpy().items():
        assert array.ctypes.data == arrays[name].ctypes.data and not array.flags.writeable
    table = trace.to_arrow()
    assert table["offset"].chunk(0).buffers()[1].address == arrays["offset"].ctypes.data
    frame = polars.DataFrame(arrays)
    again = peryton.Trace.from_polars(frame).to_arrow()
    address = again["offset"].chunk(0).buffers()[1].address
    assert address == frame.to_arrow()["offset"].chunk(0).buffers()[1].address
    # The memory lives as long as the trace does.
    view = peryton.Trace.from_numpy({name: array.copy() for name, array in arrays.items()}).to_numpy()["offset"]
    assert (view == arrays["offset"]).all()


def test_columns_of_other_names_and_types_mean_the_same(sqlite: Path) -> None:
    frame = peryton.Trace(sqlite).to_polars()
    words = polars.Series(["read", "W", "Discard", "f"])
    other = {
        "note": ["x"] * len(frame),
        "time_s": frame["time_ns"].cast(polars.Float64) / 1e9 + 5.0,
        "op": words[frame["op"].cast(polars.UInt32)],
        "sector": (frame["offset"] // 512).cast(polars.Int64),
        "sectors": (frame["length"] // 512).cast(polars.Int32),
    }
    theirs = polars.DataFrame(other)
    whole = peryton.Trace.from_polars(frame).info()
    for same in (
        peryton.Trace.from_polars(theirs),
        peryton.Trace.from_arrow(theirs.to_arrow()),
        peryton.Trace.from_pandas(pandas.DataFrame({name: list(column) for name, column in other.items()})),
        peryton.Trace.from_numpy({name: theirs[name].to_numpy() for name in ("time_s", "op", "sector", "sectors")}),
    ):
        info = same.info()
        assert info["requests"] == whole["requests"] and info["footprint"] == whole["footprint"]


def wrong(**columns: Any) -> dict[str, Any]:
    right = {
        "time_ns": numpy.arange(3, dtype=numpy.uint64),
        "op": numpy.zeros(3, dtype=numpy.uint8),
        "offset": numpy.zeros(3, dtype=numpy.int64),
        "length": numpy.full(3, 512, dtype=numpy.int32),
    }
    return {name: value for name, value in {**right, **columns}.items() if value is not None}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (wrong(op=None), "numpy: has no column 'op'"),
        (wrong(op=["read", "write", "erase"]), "op: is 'erase'"),
        (wrong(op=numpy.array([0, 1, 9])), "numpy: row 3: op has code"),
        (wrong(offset=numpy.array([0, -512, 0])), "numpy: row 2: offset is -512"),
        (wrong(offset=numpy.zeros((3, 1))), "offset: has several dimensions"),
        (wrong(offset=numpy.zeros(2, dtype=numpy.uint64)), "numpy: the columns do not fit together"),
        (wrong(offset=["a", "b", "c"]), "offset: has texts or objects"),
        (wrong(offset=numpy.zeros(3, dtype=complex)), "offset: has elements of the format"),
        (wrong(time_ns=numpy.array(["2024-01-01"] * 3, dtype="datetime64[ns]")), "time_ns: "),
    ],
)
def test_what_is_no_trace_is_refused_with_its_column_and_row(columns: dict[str, Any], message: str) -> None:
    with pytest.raises(peryton.InputError) as error:
        peryton.Trace.from_numpy(columns).info()
    assert str(error.value).startswith(message), str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_no_trace_are_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing of the kind\n" * 10)
    (tmp_path / "spec.toml").write_text("requests = 'many'\n")
    for name, message in (("notes.txt", "notes.txt"), ("missing.csv", "No such file"), ("spec.toml", r"spec\.toml:1: invalid type")):
        with pytest.raises(peryton.InputError, match=message):
            peryton.Trace(tmp_path / name)
    with pytest.raises(peryton.InputError, match="format: "):
        peryton.Trace(TRACES / "sqlite-ext4.ftrace", format="nonsense")
    with pytest.raises(peryton.InputError, match="standard input only once"):
        peryton.Trace("-")
    with pytest.raises(TypeError, match="__arrow_c_stream__"):
        peryton.Trace.from_arrow([1, 2])


def test_bad_lines_are_counted_if_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time_us,op,offset,length\n0,W,0,4096\nnonsense\n9,R,0,4096\n")
    with pytest.raises(peryton.InputError, match=r"t\.csv:3: .*nonsense"):
        peryton.Trace(path).info()
    trace = peryton.Trace(path, skip_bad=True)
    assert trace.info()["requests"] == 2
    assert trace.skipped is not None and trace.skipped["count"] == 1


def test_a_stream_that_fails_is_an_error_of_its_reader(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    path.write_text("time_us,op,offset,length\n0,W,0,4096\n" + "1,W,0,4096\n" * 100_000 + "nonsense\n")
    reader = pyarrow.RecordBatchReader.from_stream(peryton.Trace(path))
    with pytest.raises(Exception, match="nonsense"):
        reader.read_all()


def test_only_traces_in_memory_have_a_length(sqlite: Path) -> None:
    trace = peryton.Trace(sqlite)
    with pytest.raises(TypeError, match="known when it has been read"):
        len(trace)
    assert trace and repr(trace) == "Trace('sqlite-ext4.parquet')"
    assert repr(peryton.Trace.from_polars(trace.to_polars())) == "Trace('polars', 15,066 requests)"
    assert {"msr", "csv", "parquet"} <= {name for name, _ in peryton.formats()}


def test_a_foreign_table_is_read_by_its_columns(tmp_path: Path) -> None:
    path = tmp_path / "t.txt"
    path.write_text("0.5 sda 1 16 8\n0.75 sdb 0 0 1\n")
    columns, unit = "time=1,volume=2,op=3,offset=4,size=5", "time=ms,offset=sectors,size=sectors,op=read:0+write:1"
    found = peryton.Trace(path, columns=columns, unit=unit).to_numpy()
    assert found["time_ns"].tolist() == [0, 250_000] and found["offset"].tolist() == [8192, 0] and found["op"].tolist() == [1, 0]
    assert peryton.Trace(path, columns=columns, unit=unit, volumes=["sdb"]).to_numpy()["length"].tolist() == [512]
    with pytest.raises(peryton.InputError, match="columns: 'when' is no column"):
        peryton.Trace(path, columns="when=1")


def test_a_frame_in_any_order_is_read_in_the_order_of_time() -> None:
    columns = {"time_s": numpy.array([30.0, 0.0]), "op": numpy.array([0, 1]), "offset": numpy.array([0, 4096]), "length": numpy.array([512, 512])}
    trace = peryton.Trace.from_numpy(columns)
    info = trace.info()
    assert info["span_s"] == 30.0 and info["account"]["moved"] == 1
    assert trace.remarks is not None and trace.remarks[0].startswith("1 of 2 requests stood after a later one")
