"""The fears: a page of findings that begins with a wall of numbers, or a figure of other rows than those that the page has."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import REPOSITORY

SCRIPTS = REPOSITORY / "scripts" / "findings"


@pytest.fixture
def figures(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(SCRIPTS)
    monkeypatch.delitem(sys.modules, "figures", raising=False)
    import figures

    return figures


def test_every_page_has_figures_first_short_tables_and_its_rows_beside_it(figures: Any) -> None:
    assert figures.wrong() == []
    assert {page for page, _ in figures.tables()} == {path.stem for path in figures.FINDINGS.glob("*.md")}


def test_what_a_reader_would_miss_is_found(figures: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "FINDINGS", tmp_path)
    table = ["| trace | savings |", "|---|--:|", *[f"| t{n} | {n} |" for n in range(13)]]
    (tmp_path / "long.md").write_text("\n".join(["# Long", "", *table, ""]))
    assert [problem.split(": ", 1)[1][:20] for problem in figures.wrong()] == ["there is no figure b", "the table has 13 row"]
    # Without a specification it has no figure: the page has its first rows.
    page = tmp_path / "long.md"
    page.write_text(f"# Long\n\n![else](else.svg)\n\n<!-- table all -->\n\n{figures.placed('long', 'all', chr(10).join(table))}\n\n<!-- end -->\n")
    assert page.read_text().count("\n| t") == 1 + 12 and "The first 12 of [13 rows as CSV](long/all.csv)" in page.read_text()
    assert figures.wrong() == []
    page.write_text(page.read_text().replace("| t3 | 3 |", "| t3 | 4 |"))
    assert figures.wrong() == ["long.md: table all is not what long/all.csv says: ['t3', '3']"]
    # With its figure, which stands for the rows, but was not drawn from them.
    monkeypatch.setitem(figures.SPECS, "long", {"all": figures.spec("Savings", [0], figures.panel("savings, %", 1))})
    page.write_text(f"# Long\n\n<!-- table all -->\n\n{figures.placed('long', 'all', chr(10).join(table))}\n\n<!-- end -->\n")
    assert "![Savings, 13 rows](long/all.svg)" in page.read_text()
    assert page.read_text().count("\n| t") == 0 and "[13 rows as CSV](long/all.csv)" in page.read_text()
    assert figures.wrong() == ["long/all.svg is not drawn from all.csv as it is: scripts/findings/figures.py"]
    pytest.importorskip("matplotlib")
    (tmp_path / "long" / "all.svg").write_text(figures.svg("long", "all"))
    assert figures.wrong() == []


# Matplotlib warns of fonts that the machine lacks.
@pytest.mark.filterwarnings("default")
def test_the_same_rows_give_the_same_figure(figures: Any) -> None:
    pytest.importorskip("matplotlib")
    found = figures.redrawn()
    if found is None:
        pytest.skip("the figures were drawn by another version of Matplotlib")
    assert found == []


def test_the_script_says_so_in_one_line() -> None:
    ran = subprocess.run(
        [sys.executable, SCRIPTS / "figures.py", "--check"], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("\n") == 1 and "tables of docs/findings" in ran.stdout
