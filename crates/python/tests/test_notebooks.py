"""The fears: a notebook that a reader opens first does not run, shows figures of another version, or shows nothing: six equal bars, or no
answer to the question that it asks."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import REPOSITORY

NOTEBOOKS = sorted((REPOSITORY / "notebooks").glob("*.ipynb"))


def test_all_of_them_are_there() -> None:
    assert [path.stem for path in NOTEBOOKS] == sorted(CONCLUSIONS)


def numbers(pattern: str, text: str) -> list[float]:
    return [float(number) for number in re.findall(pattern, text)]


def policies_differ(said: str, shown: str) -> None:
    # Each policy has a row of the table; the same policy in Python and in Rust has the same time.
    times = numbers(r"(?m)^│ \w+ +┆ (\d+\.\d+) *┆", shown)
    assert len(times) == 6 and len(set(times)) == 5, shown
    assert max(times) > 1.02 * min(times), times
    miss, best = numbers(r"MiB: .* (\d\.\d+), the", said), numbers(r"the optimum (\d\.\d+)", said)
    assert len(miss) == len(best) == 6 and miss == sorted(miss, reverse=True) and all(a > b for a, b in zip(miss, best, strict=True)), said
    assert len(set(re.findall(r"MiB: (.*?) \d", said))) >= 3, "no policy is the best everywhere"


def a_drive_is_chosen(said: str, shown: str) -> None:
    means = {name: float(mean) for name, mean in re.findall(r"(?m)^│ (disk|flash|caching|tiering) +┆ (\d+\.\d+) +┆", shown)}
    assert means["flash"] < means["caching"] < means["tiering"] < means["disk"], means
    assert "The cheapest is caching." in said and "flash: " in said, said
    (enough,) = numbers(r"Of the cache, (\d+) MiB", said)
    assert 288 < enough <= 1920, said


def papers_hold(said: str, _: str) -> None:
    (best,) = numbers(r"Best at p = (\d\.\d+)", said)
    assert best == 1.0, said
    assert "less energy at [1000, 3000] MB/s of" in said, said
    saved, read = numbers(r"s: (\d+\.\d) % of the writes", said), numbers(r"saved, (\d+\.\d) % of the reads", said)
    assert len(saved) == 4 and saved == sorted(saved) and read == sorted(read) and read[-1] > 10 * read[0], said


CONCLUSIONS: dict[str, Callable[[str, str], None]] = {
    "papers": papers_hold,
    "policies": policies_differ,
    "which-drive": a_drive_is_chosen,
}


# Jupyter warns about its own future and leaves sockets open.
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_runs_and_the_conclusion_holds(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient")
    import nbformat

    # No setting of the user and no cache of the machine takes part.
    for name in ("IPYTHONDIR", "JUPYTER_CONFIG_DIR", "JUPYTER_RUNTIME_DIR", "MPLCONFIGDIR"):
        monkeypatch.setenv(name, os.fspath(tmp_path / name.lower()))
    monkeypatch.setenv("PERYTON_REPOSITORY", os.fspath(REPOSITORY))
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert not any(cell.outputs or cell.execution_count for cell in code), "outputs are not committed: clear them"
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()
    outputs = [output for cell in code for output in cell.outputs]
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2, "it has pictures"
    streams = {name: "".join(output.text for output in outputs if output.get("name") == name) for name in ("stdout", "stderr")}
    assert "Warning" not in streams["stderr"], streams["stderr"]
    shown = "\n".join(output["data"].get("text/plain", "") for output in outputs if "data" in output)
    CONCLUSIONS[path.stem](streams["stdout"], shown)
