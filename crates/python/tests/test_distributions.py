"""The fears: a distribution or an interval is lost, doubled or shifted on its way into a data frame."""

import math
from pathlib import Path

import peryton
import pytest
from conftest import CACHE

polars = pytest.importorskip("polars")


@pytest.fixture(scope="module")
def report() -> peryton.Report:
    trace = Path(__file__).parents[3] / "examples" / "traces" / "sqlite-ext4.parquet"
    return peryton.simulate(CACHE, trace, fit="wrap", replay="qd=2", interval=0.5)


@pytest.mark.parametrize("kind", ["all", "read", "write", "flush", "write_then_flush"])
def test_quantiles_follow_from_the_histogram(report: peryton.Report, kind: str) -> None:
    buckets, summary = report.histogram(kind), report["latency_us"][kind]
    assert buckets.columns == ["from_us", "to_us", "count"]
    assert buckets["count"].sum() == summary["count"]
    assert buckets["from_us"].is_sorted() and (buckets["from_us"] <= buckets["to_us"]).all()
    upto = buckets["count"].cum_sum()
    for name, q in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)]:
        first = buckets.filter(upto >= math.ceil(q * summary["count"]))["to_us"][0]
        assert min(first, summary["max"]) == summary[name]


def test_a_kind_without_requests_is_an_error_that_names_the_others(report: peryton.Report) -> None:
    with pytest.raises(KeyError, match="reads: there is no distribution of it, but of all, read"):
        report.histogram("reads")


def test_intervals_add_up_to_the_report(report: peryton.Report) -> None:
    rows = report.intervals
    assert rows.height > 2 and rows["requests"].sum() == report["requests"]
    assert rows["start_s"][1:].to_list() == rows["end_s"][:-1].to_list()
    assert rows["end_s"][-1] == report["simulated_s"] and report["interval_s"] == 0.5
    assert rows["moves.promotions"].sum() == report["moves.promotions"]
    busy = report["devices.hdd.busy_s"]
    assert rows["devices.hdd.busy_s"].sum() == pytest.approx(busy, rel=1e-9)
    assert {"latency_us.read.p99", "dirty_bytes", "mean_power_w", "devices.ssd.wear_eu"} <= set(rows.columns)
    assert hasattr(rows, "__arrow_c_stream__")


def test_intervals_are_made_on_demand_and_rubbish_is_refused(sqlite: Path) -> None:
    plain = peryton.simulate(CACHE, sqlite, fit="wrap", limit=100)
    with pytest.raises(KeyError, match="interval='1s'"):
        plain.intervals  # noqa: B018
    for rubbish in (0, "0s", -1, "soon", "1ns"):
        with pytest.raises(peryton.InputError):
            peryton.simulate(CACHE, sqlite, fit="wrap", interval=rubbish)


def test_a_report_has_what_its_schema_names(report: peryton.Report) -> None:
    schema = peryton.report_schema()
    assert set(schema["required"]) <= set(report) <= set(schema["properties"])
    row = schema["$defs"]["IntervalReport"]
    assert all(set(row["required"]) <= set(interval) <= set(row["properties"]) for interval in report["intervals"])


def test_the_keys_of_a_design_are_in_the_reference() -> None:
    keys = {key["key"]: key for key in peryton.design_keys()}
    assert keys["placement.write"]["words"] == ["back", "through", "around"] and keys["placement.write"]["live"]
    assert keys["placement.mode"]["required"] and keys["placement.mode"]["default"] is None
    assert {key["key"] for key in peryton.design_keys("placement.bypass.")} == {
        "placement.bypass.sequential",
        "placement.bypass.congested",
    }
    used = [f"placement.{key}" for key in CACHE["placement"] if key != "promotion"]
    assert set(used) <= set(keys)


def test_columns_go_to_arrow_and_numpy(report: peryton.Report) -> None:
    pyarrow, numpy = pytest.importorskip("pyarrow"), pytest.importorskip("numpy")
    table = pyarrow.table(report.intervals)
    assert table.num_rows == report.intervals.height and table.schema.field("requests").type == pyarrow.int64()
    buckets = report.histogram("read")
    assert numpy.asarray(buckets["count"]).sum() == report["latency_us.read.count"]
    assert buckets.schema["count"] == polars.UInt64
