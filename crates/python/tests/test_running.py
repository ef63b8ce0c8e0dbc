"""The fears: the interpreter waits while Rust works, Ctrl-C does nothing, progress goes wrong."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import peryton
import pytest
from conftest import CACHE, DESIGNS

ENDLESS = """
requests = 2000000000
footprint = "64MiB"
read_share = 0.5
arrival = "1us"
size = "4KiB"
address = "uniform"
"""
FIXED = {"devices": {"only": {"profile": "fixed", "size": "8GiB"}}, "placement": {"mode": "single"}}


@pytest.fixture
def endless(tmp_path: Path) -> peryton.Trace:
    """A trace that is never read to its end."""
    path = tmp_path / "endless.toml"
    path.write_text(ENDLESS)
    return peryton.Trace(path)


class Enough(Exception):
    pass


def test_other_threads_run_while_rust_works(endless: peryton.Trace) -> None:
    counted, running = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        running.wait()
        while running.is_set():
            counted += 1
            time.sleep(0.001)

    counter = threading.Thread(target=count)
    counter.start()

    def progress(_step: str, _done: int, _of: int) -> None:
        running.set()
        if counted > 20:
            raise Enough

    try:
        with pytest.raises(Enough):
            peryton.simulate(FIXED, endless, progress=progress)
    finally:
        running.clear()
        counter.join()
    assert counted > 20


@pytest.mark.parametrize(
    "work",
    [
        "peryton.simulate(design, trace)",
        "peryton.simulate([design, design], trace, jobs=2)",
        "peryton.simulate(cache, trace, sweep={'placement.max_moves': [1, 2, 4]}, jobs=2)",
        "peryton.simulate(cache, trace, sweep={'placement.max_moves': [1, 2, 4]}, replacement=Fifo)",
        "peryton.size(cache, trace)",
        "peryton.mrc(trace, policies=['lru', 's3fifo'])",
        "peryton.simulate(cache, trace, replacement=Fifo)",
        "peryton.energy(trace)",
        "peryton.plan(trace, latency='1s')",
        "trace.info()",
        "trace.to_numpy()",
    ],
)
def test_ctrl_c_ends_work_at_once(tmp_path: Path, work: str) -> None:
    (tmp_path / "endless.toml").write_text(ENDLESS)
    program = f"""
import _thread, sys, threading, time
import peryton
class Fifo:
    def __init__(self, capacity): self.queue = {{}}
    def inserted(self, slot, extent): self.queue[slot] = None
    def removed(self, slot, extent, evicted): del self.queue[slot]
    def victim(self, candidates): return next((slot for slot in self.queue if candidates.may_leave(slot)), None)
design, cache = {FIXED!r}, {CACHE!r}
trace = peryton.Trace("endless.toml")
print("begins", flush=True)
try:
    {work}
except KeyboardInterrupt:
    print("interrupted", flush=True)
    sys.exit(0)
"""
    process = subprocess.Popen([sys.executable, "-c", program], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "begins\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert (out, process.returncode) == ("interrupted\n", 0)


def test_progress_is_reported_and_its_exceptions_end_the_work(endless: peryton.Trace) -> None:
    seen: list[tuple[str, int, int]] = []

    def progress(step: str, done: int, of: int) -> None:
        seen.append((step, done, of))
        if len(seen) == 3:
            raise Enough

    with pytest.raises(Enough):
        peryton.simulate([FIXED, FIXED], endless, progress=progress)
    assert [step for step, _, _ in seen] == ["requests simulated"] * 3
    assert seen[0][1] < seen[1][1] < seen[2][1] and seen[0][2] == 0
    with pytest.raises(Enough):
        peryton.mrc(endless, policies="arc", rate=1, progress=raises)


def raises(*_: object) -> None:
    raise Enough


def test_a_bar_appears_on_a_terminal_alone(tmp_path: Path) -> None:
    (tmp_path / "t.toml").write_text(ENDLESS)
    program = f"import peryton; peryton.simulate({FIXED!r}, 't.toml', limit=LIMIT, progress=PROGRESS)"
    # A bar appears after a while only, so the run that has one must be long enough on a fast machine too.
    for progress, limit, shown in (("None", "1_500_000", False), ("False", "1_500_000", False), ("True", "15_000_000", True)):
        ran = subprocess.run(
            [sys.executable, "-c", program.replace("PROGRESS", progress).replace("LIMIT", limit)],
            cwd=tmp_path,
            stderr=subprocess.PIPE,
            check=True,
            timeout=120,
        )
        assert (b"requests simulated: " in ran.stderr) == shown
        # It leaves nothing behind.
        assert not shown or ran.stderr.endswith(b"\r\x1b[K")


def test_a_notebook_gets_a_bar_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[str] = []

    class Handle:
        def update(self, markup: str) -> None:
            shown.append(markup)

    def display(markup: str, display_id: bool) -> Handle:
        assert display_id
        shown.append(markup)
        return Handle()

    class ZMQInteractiveShell:
        pass

    class Module:
        HTML = str

        @staticmethod
        def get_ipython() -> ZMQInteractiveShell:
            return ZMQInteractiveShell()

    Module.display = staticmethod(display)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", Module)  # type: ignore[arg-type]
    monkeypatch.setitem(sys.modules, "IPython.display", Module)  # type: ignore[arg-type]
    monkeypatch.setattr("peryton._progress._PATIENCE", 0.0)
    from peryton._progress import shown as following

    with following(None) as callback:
        assert callback is not None
        callback("requests simulated", 5, 10)
    assert shown == ["<progress max='1' value='0.5000'></progress> requests simulated: 5 of 10 (50 %)", ""]


def test_work_can_be_done_after_a_fork(sqlite: Path) -> None:
    peryton.simulate(FIXED, sqlite)
    # `os.fork` in a process that has several threads is deprecated; the simulation above leaves none behind.
    child = os.fork()
    if child == 0:
        os._exit(0 if peryton.simulate(FIXED, sqlite)["requests"] == 15_066 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_threads_can_simulate_at_the_same_time(sqlite: Path) -> None:
    found: list[float] = []
    work = [
        threading.Thread(target=lambda: found.append(peryton.simulate(CACHE, sqlite, fit="wrap", jobs=1)["iops"]))
        for _ in range(4)
    ]
    for thread in work:
        thread.start()
    for thread in work:
        thread.join()
    assert len(found) == 4 and len(set(found)) == 1


def test_results_do_not_depend_on_the_number_of_threads(sqlite: Path) -> None:
    designs = [DESIGNS / "tiering.toml", DESIGNS / "caching-back.toml", CACHE]
    reports = [peryton.simulate(designs, sqlite, fit="wrap", jobs=jobs) for jobs in (1, 3)]
    assert [report.to_dict() for report in reports[0]] == [report.to_dict() for report in reports[1]]
    found = [peryton.simulate(CACHE, sqlite, sweep={"placement.max_moves": [1, 4]}, fit="wrap", jobs=jobs) for jobs in (1, 3)]
    assert [report.to_dict() for report in found[0]] == [report.to_dict() for report in found[1]]
    curves = [peryton.size(CACHE, sqlite, points=3, fit="wrap", jobs=jobs).to_dict() for jobs in (1, 3)]
    assert curves[0] == curves[1]
    with pytest.raises(peryton.InputError, match="jobs 0: use 1 to 1024"):
        peryton.simulate(CACHE, sqlite, jobs=0)


@pytest.mark.parametrize("share", ["1%", "abc", 0, -1, 2, float("nan"), True, []])
def test_a_share_that_is_none_is_named_with_what_belongs_there(share: object, sqlite: Path) -> None:
    with pytest.raises((peryton.InputError, TypeError)) as caught:
        peryton.simulate(CACHE, sqlite, sample=share)  # type: ignore[arg-type]
    said = str(caught.value)
    assert "sample" in said and "a number above 0 and up to 1, such as 0.01" in said and "\n" not in said
