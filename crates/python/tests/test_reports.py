"""The fears: a report loses or invents figures on its way into a table, a page or a picture."""

import html
import json
import pickle
from pathlib import Path

import peryton
import pytest
from conftest import CACHE, DESIGNS

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")


@pytest.fixture(scope="module")
def reports() -> peryton.Reports:
    trace = Path(DESIGNS).parent / "traces" / "sqlite-ext4.parquet"
    evil = peryton.Design.from_dict({**CACHE, "name": "<script>alert(1)</script>"})
    return peryton.simulate([evil, DESIGNS / "hdd-only.toml"], trace, fit="wrap")


def test_figures_have_dotted_names_and_absent_ones_are_absent(reports: peryton.Reports) -> None:
    cache, disk = reports
    assert cache["latency_us.all.p99"] == cache["latency_us"]["all"]["p99"] > 0
    assert "fast_hit_ratio" in cache and "fast_hit_ratio" not in disk and disk.get("fast_hit_ratio") is None
    with pytest.raises(KeyError, match="latency_us.all.p42"):
        cache["latency_us.all.p42"]
    assert reports["hdd-only"] is disk and reports[1:][0] is disk
    assert json.loads(cache.to_json()) == cache.to_dict() == pickle.loads(pickle.dumps(cache)).to_dict()
    assert cache.warnings and all(": " in warning for warning in cache.warnings)
    assert "under 'sqlite-ext4.parquet': 15,066 requests" in repr(disk)


def test_a_table_has_a_row_for_each_design_and_every_figure(reports: peryton.Reports) -> None:
    frame = reports.to_polars()
    assert frame.height == 2
    assert frame["latency_us.all.mean"].to_list() == [report["latency_us.all.mean"] for report in reports]
    assert frame["fast_hit_ratio"].to_list()[1] is None
    assert frame["devices.hdd.reads"].to_list() == [report["devices.hdd.reads"] for report in reports]
    assert reports[0].to_polars().height == 1


def test_a_curve_against_the_size_is_a_table_a_picture_and_an_answer(sqlite: Path) -> None:
    evil = peryton.Design.from_dict({**CACHE, "name": "<script>alert(1)</script>"})
    curve = peryton.size(evil, sqlite, sizes=["4MiB", "8MiB", "32MiB"], fit="wrap")
    assert [point["size_bytes"] >> 20 for point in curve.points] == [4, 8, 32]
    assert curve.enough_bytes == curve["knees"][0]["size_bytes"] and f"{len(curve.points)} sizes" in repr(curve)
    frame = curve.to_polars()
    assert frame["mean_ms"].to_list() == [point["mean_ms"] for point in curve.points]
    assert frame["usd_per_ms_saved"].to_list()[0] is None and "usd_per_ms_saved" not in curve.points[0]
    axes = curve.plot()
    assert [line.get_label() for line in axes.lines] == ["mean_ms", "p99_ms", "flush_mean_ms", "enough by latency"]
    assert list(axes.lines[0].get_ydata()) == frame["mean_ms"].to_list()
    assert len(curve.plot(figures=["fast_usd_by_size", "no_such_figure"]).lines) == 2
    with pytest.raises(KeyError, match="no_such_figure"):
        curve.plot(figures=["no_such_figure"])
    markup = curve._repr_html_()
    assert markup.count("<tr>") == 4 and curve["verdict"][0].split(",")[0] in html.unescape(markup)
    assert curve.warnings and all(text in html.unescape(markup) for text in curve.warnings)
    assert "<script>" not in markup
    assert pickle.loads(pickle.dumps(curve)).to_dict() == curve.to_dict()
    matplotlib.pyplot.close("all")


def test_a_notebook_shows_figures_and_warnings_and_escapes_names(reports: peryton.Reports) -> None:
    markup = reports._repr_html_()
    assert "<script>" not in markup and "&lt;script&gt;" in markup
    assert "hdd-only" in markup and "⚠" in markup and "lifetime years" in markup
    assert f"{reports[1]['iops']:,.4g}" in markup
    assert reports[0]._repr_html_().count("<tr>") == 2


def test_pictures_show_every_design_and_policy(reports: peryton.Reports, sqlite: Path, tmp_path: Path) -> None:
    axes = reports.plot()
    assert [line.get_label() for line in axes.lines] == ["<script>alert(1)</script>", "hdd-only"]
    assert [line.get_label() for line in reports[1].plot().lines] == ["read", "write", "flush"]
    curves = peryton.mrc(sqlite, policies=["lru", "arc"])
    axes = curves.plot()
    assert [line.get_label() for line in axes.lines] == ["lru", "arc"]
    axes.figure.savefig(tmp_path / "curves.png")
    assert (tmp_path / "curves.png").stat().st_size > 5_000
    frame = curves.to_polars()
    assert frame.height == len(curves) and {"replacement", "cache_bytes", "all", "bytes.all"} <= set(frame.columns)
    assert "<th>arc</th>" in curves._repr_html_() and "~" not in curves._repr_html_()
    sampled = peryton.mrc(sqlite, policies=["lru", "arc"], rate=0.25)
    few = [row for row in sampled.of("arc") if row.get("few_blocks")]
    band, crosses = sampled.of("arc").plot().collections
    assert 0 < len(few) == len(crosses.get_offsets()) < len(sampled.of("arc"))
    assert len(band.get_paths()) == 1 and sampled._repr_html_().count("~") == len(few)
    matplotlib.pyplot.close("all")
