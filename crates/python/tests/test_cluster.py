"""Sweeps by an optimiser, and on a cluster of Ray with several nodes on this machine. The fears: work is lost or done twice when a
process or a node dies, and results differ from those of one machine."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import peryton
import pytest
from conftest import CACHE, TRACES

pytestmark = [
    pytest.mark.cluster,
    # Ray leaves sockets and files open, and warns about its own future.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore::UserWarning"),
]

SPACE: dict[str, Any] = {
    "designs": [{**CACHE, "name": "cache"}],
    "traces": [TRACES / "sqlite-ext4.parquet"],
    "replay": "qd=4",
    "fit": "wrap",
    "keys": {"seed.value": {"from": 1, "to": 20}, "devices.ssd.size": ["8MiB", "16MiB"]},
}


def parts(folder: Path) -> list[tuple[str, bytes]]:
    return sorted((part.name, part.read_bytes()) for part in folder.glob("part-*.parquet"))


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The rows of the space, simulated on threads."""
    folder = tmp_path_factory.mktemp("local") / "rows"
    assert peryton.sweep(SPACE, folder)["simulated"] == 40
    return folder


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster whose head has no processors, so all work is done on the nodes that a test adds."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    started = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "object_store_memory": 100 << 20})
    yield started
    ray.shutdown()
    started.shutdown()


def add_node(cluster: Any) -> Any:
    return cluster.add_node(num_cpus=1, object_store_memory=100 << 20)


def test_rows_of_a_cluster_are_the_same_bytes_though_a_node_is_killed(cluster: Any, local: Path, tmp_path: Path) -> None:
    import ray

    nodes = [add_node(cluster), add_node(cluster)]
    ray.init(address=cluster.address, log_to_driver=False)
    cluster.wait_for_nodes()
    before = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    assert len(before) == 3
    killed: list[int] = []

    def killer() -> None:
        # In the middle: when some rows are there, and many are not.
        while True:
            try:
                if peryton.rows(tmp_path / "rows").shape[0] >= 4:
                    break
            except Exception:  # noqa: BLE001, S110
                pass
            time.sleep(0.01)
        killed.append(peryton.rows(tmp_path / "rows").shape[0])
        cluster.remove_node(nodes[0], allow_graceful=False)
        # One more comes, as an autoscaler would add it.
        nodes.append(add_node(cluster))

    thread = threading.Thread(target=killer, daemon=True)
    thread.start()
    found = peryton.sweep(SPACE, tmp_path / "rows", ray=True, progress=False)
    thread.join(60)
    assert killed and 4 <= killed[0] < 36, killed
    # Ray takes some seconds to notice.
    until = time.monotonic() + 60
    while all(node["Alive"] for node in ray.nodes()) and time.monotonic() < until:
        time.sleep(0.1)
    assert sum(not node["Alive"] for node in ray.nodes()) == 1
    assert dict(found) == {"points": 40, "known": 0, "simulated": 40, "errors": 0}
    assert parts(tmp_path / "rows") == parts(local)
    assert peryton.sweep(SPACE, tmp_path / "rows", ray=True)["known"] == 40


def test_a_cluster_goes_on_where_threads_were_stopped(cluster: Any, local: Path, tmp_path: Path) -> None:
    add_node(cluster)
    some = {**SPACE, "keys": {**SPACE["keys"], "seed.value": {"from": 1, "to": 10}}}
    assert peryton.sweep(some, tmp_path / "rows")["simulated"] == 20
    found = peryton.sweep(SPACE, tmp_path / "rows", ray=cluster.address, share="path")
    assert (found["known"], found["simulated"]) == (20, 20)
    assert parts(tmp_path / "rows") == parts(local)


def test_bad_points_are_rows_and_other_files_are_refused(cluster: Any, tmp_path: Path) -> None:
    add_node(cluster)
    bad = {**SPACE, "keys": {"devices.ssd.size": ["8MiB", "none"]}}
    found = peryton.sweep(bad, tmp_path / "rows", ray=cluster.address)
    assert (found["simulated"], found["errors"]) == (2, 1)
    assert found.to_polars()["status"].to_list() == ["ok", "error"]
    # A machine on which the path is another file must not contribute rows: here the file changes after it was read.
    trace = tmp_path / "trace.parquet"
    trace.write_bytes((TRACES / "sqlite-ext4.parquet").read_bytes())
    from peryton import _sweep

    point = {"trace": {"hashes": [peryton._native.file_hash(os.fspath(trace))]}}
    assert _sweep._same_file(os.fspath(trace), point["trace"]["hashes"][0]) == os.fspath(trace)
    trace.write_bytes((TRACES / "pgbench-ext4.parquet").read_bytes())
    with pytest.raises(peryton.InputError, match="is another file on this machine"):
        _sweep._same_file(os.fspath(trace), point["trace"]["hashes"][0])
    with pytest.raises(peryton.InputError, match="is not on every machine"):
        _sweep._same_file(os.fspath(tmp_path / "none"), "")


class Bucket(BaseHTTPRequestHandler):
    """As much of S3 as reading an object takes."""

    def answer(self, with_body: bool) -> None:
        if not self.path.startswith("/bucket/"):
            self.send_error(404)
            return
        data = (TRACES / self.path.split("?")[0].removeprefix("/bucket/")).read_bytes()
        span = self.headers.get("Range")
        first, last = 0, len(data) - 1
        if span:
            a, b = span.removeprefix("bytes=").split("-")
            first, last = int(a), min(int(b or last), last)
        body = data[first : last + 1]
        self.send_response(206 if span else 200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", "Mon, 02 Mar 2026 10:00:00 GMT")
        self.send_header("ETag", '"1"')
        if span:
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(data)}")
        self.end_headers()
        if with_body:
            self.wfile.write(body)

    def do_GET(self) -> None:  # noqa: N802
        self.answer(True)

    def do_HEAD(self) -> None:  # noqa: N802
        self.answer(False)

    def log_message(self, *_: object) -> None:
        pass


def test_traces_of_a_bucket_are_the_same_traces(cluster: Any, local: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Bucket)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        port = server.server_address[1]
        address = f"s3://bucket/sqlite-ext4.parquet?endpoint_override=127.0.0.1:{port}&scheme=http&region=us-east-1"
        add_node(cluster)
        found = peryton.sweep({**SPACE, "traces": address}, tmp_path / "rows", ray=cluster.address, share="path")
    finally:
        server.shutdown()
        server.server_close()
    assert (found["simulated"], found["errors"]) == (40, 0)
    assert parts(tmp_path / "rows") == parts(local)


SEARCH: dict[str, Any] = {
    "designs": [CACHE],
    "traces": [TRACES / "sqlite-ext4.parquet"],
    "fit": "wrap",
    "limit": 3000,
    "keys": {
        "devices.ssd.size": {"from": "1MiB", "to": "64MiB"},
        "placement.replacement": ["lru", "arc", "sieve"],
        "placement.promotion.threshold": {"from": 0, "to": 4},
    },
}


def test_an_optimiser_finds_what_a_grid_finds(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    grid = {**SEARCH, "keys": {**SEARCH["keys"], "devices.ssd.size": {"from": "1MiB", "to": "64MiB", "points": 8}}}
    frame = peryton.sweep(grid, tmp_path / "grid").to_polars()
    best = frame["latency_us.all.mean"].min()
    found = peryton.sweep(SEARCH, tmp_path / "rows", objectives="latency_us.all.mean", trials=60)
    # Several may be the best: where all data fit, every policy does the same.
    trial = found.best[0]
    assert {one["objectives"]["latency_us.all.mean"] for one in found.best} == {trial["objectives"]["latency_us.all.mean"]}
    assert trial["objectives"]["latency_us.all.mean"] <= 1.1 * best
    # The row of the trial has its figure.
    (row,) = found.to_polars().filter(point=trial["points"][0]).to_dicts()
    assert row["latency_us.all.mean"] == trial["objectives"]["latency_us.all.mean"]
    assert {key: row[f"sweep.{key}"] for key in trial["keys"]} == trial["keys"]


def test_constraints_are_met(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    objectives: dict[str, Any] = {"latency_us.all.mean": "minimize", "fast_hit_ratio": "maximize"}
    frame = peryton.sweep({**SEARCH, "draw": {"by": "latin-hypercube", "points": 30}}, tmp_path / "drawn").to_polars()
    limit = frame["devices.ssd.bytes_written"].median()
    bounds = [f"devices.ssd.bytes_written <= {limit}", "lifetime_years >= 0.0001"]
    found = peryton.sweep(SEARCH, tmp_path / "rows", objectives=objectives, constraints=bounds, trials=40)
    assert found.best
    rows = {row["point"]: row for row in found.to_polars().to_dicts()}
    for trial in found.best:
        assert all(value <= 0 for value in trial["constraints"].values())
        assert rows[trial["points"][0]]["devices.ssd.bytes_written"] <= limit
    violated = [row for row in rows.values() if row["devices.ssd.bytes_written"] > limit]
    assert violated, "the constraint excludes nothing, so this tests nothing"
    with pytest.raises(peryton.InputError, match="trials for other keys"):
        peryton.sweep(SEARCH, tmp_path / "rows", objectives="iops", trials=50)


def test_an_optimiser_that_is_killed_simulates_nothing_twice(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    program = (
        "import sys, peryton; exec(sys.argv[1]); "
        "peryton.sweep(space, sys.argv[2], objectives='latency_us.all.mean', trials=40, jobs=2, progress=False)"
    )
    space = {**SEARCH, "traces": [os.fspath(TRACES / "sqlite-ext4.parquet")]}
    folder = tmp_path / "rows"
    for round in range(2):
        running = subprocess.Popen([sys.executable, "-c", program, f"space = {space!r}", folder])
        try:
            deadline = time.monotonic() + 60
            wanted = (peryton.rows(folder).shape[0] if round else 0) + 6
            while (not folder.is_dir() or peryton.rows(folder).shape[0] < wanted) and time.monotonic() < deadline:
                time.sleep(0.01)
        finally:
            running.send_signal(signal.SIGKILL)
            running.wait()
    there = peryton.rows(folder).shape[0]
    found = peryton.sweep(space, folder, objectives="latency_us.all.mean", trials=40)
    frame = found.to_polars()
    assert 12 <= there <= 40
    assert found["simulated"] == frame.shape[0] - there, "what was there was not simulated again"
    assert frame["point"].n_unique() == frame.shape[0]
    # All trials ended, those that were under way at the kill too.
    import optuna
    from optuna.storages.journal import JournalFileBackend

    kept = optuna.storages.JournalStorage(JournalFileBackend(os.fspath(folder / "_study.journal")))
    study = optuna.load_study(study_name="peryton sweep", storage=kept)
    assert {trial.state.name for trial in study.trials} == {"COMPLETE"}
    assert len(study.trials) == 40


def test_an_optimiser_on_a_cluster_chooses_what_it_chooses_here(cluster: Any, tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    add_node(cluster)
    ask: dict[str, Any] = {"objectives": "latency_us.all.mean", "trials": 12, "batch": 4}
    here = peryton.sweep(SEARCH, tmp_path / "here", **ask)
    there = peryton.sweep(SEARCH, tmp_path / "there", ray=cluster.address, **ask)
    assert here.best == there.best and parts(tmp_path / "here") == parts(tmp_path / "there")


def test_points_that_fail_do_not_end_the_search(tmp_path: Path) -> None:
    pytest.importorskip("optuna")
    space = {**SEARCH, "keys": {"devices.ssd.size": ["8MiB", "none", "16MiB"]}}
    found = peryton.sweep(space, tmp_path / "rows", objectives="latency_us.all.mean", trials=10, batch=2)
    assert found["errors"] == 1 and found.best[0]["keys"]["devices.ssd.size"] in ("8MiB", "16MiB")
    # A design without a cache has no hits.
    nothing = peryton.sweep(space, tmp_path / "none", objectives="admission.admitted", trials=2)
    assert nothing.best == []
    with pytest.raises(peryton.InputError, match="no report has such a figure"):
        peryton.sweep(space, tmp_path / "wrong", objectives="no.such.figure", trials=2)
