"""Sweeps: many simulations into a data set; here, on a cluster, or as an optimiser chooses them."""

import hashlib
import json
import math
import os
import re
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from . import _native
from ._checked import checked
from ._design import Design
from ._native import InputError
from ._progress import Progress, shown
from ._report import _frame

if TYPE_CHECKING:
    import polars

Path: TypeAlias = str | os.PathLike[str]
Direction: TypeAlias = Literal["minimize", "maximize"]
# Points that are under way or wait on a cluster, for each of its processors.
_AHEAD = 4
# How often a cluster tries a simulation again whose machine or process died.
_RETRIES = 8


class Sweep(Mapping[str, Any]):
    """What a sweep did: ``points`` (their number), ``known`` (those that were in the folder before, or are equal to others),
    ``simulated`` (now) and ``errors`` (rows with an error, of an earlier run too). The rows are in the folder :attr:`path`; if an
    optimiser chose the points, :attr:`best` are the best of them."""

    __slots__ = ("_best", "_counts", "path")
    path: FilePath
    """The folder of the rows."""

    def __init__(self, path: FilePath, counts: Mapping[str, int], best: Sequence[Mapping[str, Any]] | None = None) -> None:
        self.path = path
        self._counts = dict(counts)
        self._best = None if best is None else list(best)

    def __getitem__(self, key: str) -> Any:
        return self._counts[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    @property
    def best(self) -> list[Mapping[str, Any]]:
        """Of an optimised sweep, the trials that meet the constraints and that no other one beats in every objective; with one
        objective the best trial. Each has ``keys`` (the values), ``objectives``, ``constraints`` (by how much each is violated; 0
        or less if it is met) and ``points`` (the hashes of its rows)."""
        if self._best is None:
            raise AttributeError("the points of this sweep were not chosen by an optimiser: it has no best")
        return self._best

    def to_polars(self) -> "polars.DataFrame":
        """A data frame with a row for each point. A figure that does not apply to a point is null; ``status`` is ``"ok"`` or
        ``"error"``. The rows of all sweeps into this folder are in it."""
        return rows(self.path)

    def __repr__(self) -> str:
        counts = ", ".join(f"{count:,} {name}" for name, count in self._counts.items())
        return f"Sweep({os.fspath(self.path)!r}: {counts})"


@checked
def rows(path: Path) -> "polars.DataFrame":
    """The rows of a sweep as a data frame, also while it runs.

    Raises:
        InputError: there is no such folder.
    """
    import polars

    if not FilePath(path).is_dir():
        raise InputError(f"{os.fspath(path)}: there is no such folder: give that of a sweep")
    while True:
        parts = sorted(FilePath(path).glob("part-*.parquet"))
        if not parts:
            return _frame([])
        try:
            frame = polars.concat([polars.read_parquet(part) for part in parts], how="diagonal_relaxed")
        except FileNotFoundError:
            # The sweep has put several parts into one meanwhile.
            continue
        return frame.unique(subset="point", keep="last", maintain_order=True)


@checked
def sweep(
    space: Path | Mapping[str, Any],
    out: Path,
    *,
    objectives: str | Mapping[str, Direction] | None = None,
    constraints: str | Iterable[str] = (),
    trials: int | None = None,
    batch: int = 8,
    seed: int = 1,
    storage: str | None = None,
    ray: bool | str = False,
    share: Literal["store", "path"] = "store",
    retry_errors: bool = False,
    jobs: int | None = None,
    progress: Progress = None,
) -> Sweep:
    """Simulates designs, traces, replays and values of design keys, in every combination, or as an optimiser chooses them. Adds a row
    for each to a Parquet data set as soon as it is done; as ``peryton sweep``.

    The same call again goes on where an earlier one ended or was killed: a point that is in the folder is not simulated again.
    A point is known by its design with all values, its trace's bytes, its replay and the version of Peryton, whatever the files are
    called and wherever it was simulated. A point that cannot be simulated is a row with an error.

    Args:
        space: the path of a file, or a dictionary with its keys (``docs/sampling.md`` of the repository): ``designs``, ``traces``,
            ``replay``, ``speed``, ``new``, ``warm_up_requests``, ``limit``, ``sample``, ``fit``, ``set``, ``keys``, ``draw``. In a
            dictionary a design may also be a :class:`Design`. A file of a trace may be an address that pyarrow can read, such as
            ``s3://bucket/trace.parquet``.
        out: the folder of the rows: a new or empty one, or that of the sweep to go on with.
        objectives: optimise this figure, the lower the better, or several with the direction of each:
            ``{"latency_us.all.p99": "minimize", "lifetime_years": "maximize"}``. Figures are columns of the rows. The space then
            has one design and no ``draw``; with several traces or replays, the mean counts. Needs Optuna
            (the extra ``[optuna]`` of the wheel).
        constraints: what a solution has to meet under every trace and replay, such as ``"lifetime_years >= 5"``. A lifetime that a row does
            not have is unlimited: nothing wears out.
        trials: how many trials the optimiser makes in all, those before a kill included.
        batch: how many trials it chooses at a time. They are simulated in parallel, and what they give is known to the next ones.
        seed: the seed of the optimiser.
        storage: where the optimiser keeps its trials: an address of a database for Optuna; by default a file in `out`.
        ray: simulate on a cluster of Ray (the extra ``[ray]`` of the wheel): its address, or True for the one that is connected, that of
            ``RAY_ADDRESS``, or else one on this machine. The rows are the same to the bit. A simulation whose machine dies is begun
            again on another one.
        share: how machines of a cluster get traces: ``"store"`` (through Ray's object store, each once), or ``"path"`` (every machine
            reads the same paths or addresses, and checks that the bytes are the same).
        retry_errors: simulate points again whose row has an error.
        jobs: the number of simulations at a time; by default one on each core, here or of the cluster.
        progress: as in :func:`simulate`.

    Returns:
        A :class:`Sweep`.

    Raises:
        InputError: the space, a design, a trace or an argument is wrong.
        SimulationError: the rows cannot be written, or the machine failed.
        ImportError: Optuna, Ray or pyarrow is needed and not installed.
    """
    wanted = {objectives: "minimize"} if isinstance(objectives, str) else dict(objectives or {})
    bounds = [_Bound(text) for text in ([constraints] if isinstance(constraints, str) else constraints)]
    if not wanted and (bounds or trials is not None or storage is not None):
        raise InputError("constraints, trials, storage: are for an optimiser: give objectives, or leave them out")
    if wanted and (trials is None or trials < 1 or batch < 1):
        raise InputError("trials, batch: say how many trials the optimiser makes, and how many at a time: 1 or more")
    if share not in ("store", "path"):
        raise InputError(f"share {share!r}: use 'store' or 'path'")
    if jobs is not None and not 1 <= jobs <= 1024:
        raise InputError(f"jobs {jobs}: use 1 to 1024, or None for one on each core")
    described, place, folder = _described(space)
    addresses = _fetched(described)
    inner = _native.Space._from_dict(described, place, folder, bool(wanted))
    path = FilePath(out)
    data = _native.Rows._open(os.fspath(path))
    try:
        with shown(progress) as callback:
            if not wanted and not ray:
                points, known, simulated, errors = inner._sweep(data, retry_errors, jobs, callback)
                return Sweep(path, {"points": points, "known": known, "simulated": simulated, "errors": errors})
            where: _Threads | _Cluster = _Cluster(ray, share, addresses, jobs) if ray else _Threads(jobs)
            with where:
                work = _Work(data, where, retry_errors)
                if wanted:
                    return _optimised(path, inner, work, wanted, bounds, int(trials or 0), batch, seed, storage, callback)
                return _all(path, inner, work, callback)
    finally:
        data._close()


def _described(space: Path | Mapping[str, Any]) -> tuple[dict[str, Any], str, str]:
    """The space as a dictionary, its name in errors, and the folder of its paths."""
    if not isinstance(space, Mapping):
        path = FilePath(space)
        try:
            return tomllib.loads(path.read_text(encoding="utf-8")), os.fspath(path), os.fspath(path.parent)
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            what = error.strerror if isinstance(error, OSError) else error
            raise InputError(f"{path}: {what}: give a file that describes a sweep (TOML)") from None
    found = dict(space)
    designs = found.get("designs", [])
    listed = list(designs) if isinstance(designs, list | tuple) else [designs]
    found["designs"] = [_design(one) for one in listed]
    return found, "space", ""


def _design(design: Any) -> Any:
    if isinstance(design, Design):
        return {**design.to_dict(), "name": design.name}
    return dict(design) if isinstance(design, Mapping) else design


# Addresses of files on other machines.


def _fetched(space: dict[str, Any]) -> dict[str, str]:
    """Puts a copy of each file that has an address in its place; returns the addresses of the copies."""
    addresses: dict[str, str] = {}

    def local(file: Any) -> Any:
        if not isinstance(file, str | os.PathLike) or not re.match(r"[a-z][a-z0-9+.-]*://", os.fspath(file)):
            return file
        copy = os.fspath(_copy_of(os.fspath(file)))
        addresses[copy] = os.fspath(file)
        return copy

    def trace(one: Any) -> Any:
        if isinstance(one, Mapping) and "files" in one:
            files = one["files"]
            return {**one, "files": [local(file) for file in files] if isinstance(files, list | tuple) else local(files)}
        return local(one)

    traces = space.get("traces")
    if traces is not None:
        space["traces"] = [trace(one) for one in traces] if isinstance(traces, list | tuple) else trace(traces)
    return addresses


def _kept() -> FilePath:
    """The folder of this user for copies of traces."""
    folder = FilePath(tempfile.gettempdir()) / f"peryton-traces-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.is_symlink() or folder.stat().st_uid != os.getuid():
        raise InputError(f"{folder}: belongs to another user: set TMPDIR to a folder of your own")
    return folder


def _put(file: FilePath, data: Iterable[Any]) -> None:
    """Writes a file that is complete or not there."""
    file.parent.mkdir(mode=0o700, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=file.parent, prefix="partial-", delete=False) as partial:
        try:
            for piece in data:
                partial.write(piece)
            partial.close()
            os.replace(partial.name, file)
        except BaseException:
            os.unlink(partial.name)
            raise


def _copy_of(address: str) -> FilePath:
    """A copy of the file at an address, which is fetched once as long as it does not change."""
    try:
        from pyarrow import fs  # type: ignore[import-untyped, unused-ignore]
    except ImportError:
        raise ImportError(f"{address}: reading addresses needs pyarrow: pip install pyarrow") from None
    try:
        system, path = fs.FileSystem.from_uri(address)
        about = system.get_file_info(path)
        if about.type != fs.FileType.File:
            raise InputError(f"{address}: there is no such file")
        state = f"{address} {about.size} {about.mtime_ns}"
        copy: FilePath = _kept() / hashlib.sha256(state.encode()).hexdigest()[:32] / path.rsplit("/", 1)[-1]
        if not copy.is_file():
            with system.open_input_stream(path) as stream:
                _put(copy, iter(lambda: stream.read(1 << 20), b""))
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise InputError(f"{address}: {' '.join(str(error).split())}") from None
    return copy


# Where points are simulated.


class _Threads:
    """Threads of this process; the interpreter's lock is released while they simulate."""

    def __init__(self, jobs: int | None) -> None:
        self.jobs = jobs or os.cpu_count() or 1
        self.most = 2 * self.jobs
        self._pool = ThreadPoolExecutor(self.jobs, "peryton-sweep")
        self._waiting: dict[Future[str], str] = {}

    def __enter__(self) -> "_Threads":
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, point: str, hash: str) -> None:
        files = json.loads(point)["trace"]["files"]
        self._waiting[self._pool.submit(_native.point_row, point, files)] = hash

    def ended(self) -> list[tuple[str, str]]:
        done, _ = wait(self._waiting, return_when=FIRST_COMPLETED)
        return [(self._waiting.pop(one), one.result()) for one in done]


def _file_of(hash: str, name: str, data: Callable[[], Any]) -> str:
    """A copy of a file with this hash on this machine."""
    file = _kept() / hash / name
    if not file.is_file():
        _put(file, [data()])
    return os.fspath(file)


_CHECKED: set[tuple[str, int, int, str]] = set()


def _same_file(file: str, hash: str) -> str:
    """The file at a path or an address, if its bytes are those that were to be simulated."""
    path = os.fspath(_copy_of(file)) if "://" in file else file
    try:
        about = os.stat(path)
        state = (path, about.st_size, about.st_mtime_ns, hash)
        if state not in _CHECKED and _native.file_hash(path) != hash:
            raise InputError(f"{file}: is another file on this machine than where the sweep was begun: use share='store'")
    except FileNotFoundError:
        raise InputError(f"{file}: is not on every machine: use share='store', or a folder that all of them have") from None
    _CHECKED.add(state)
    return path


def _on_cluster(point: str, stored: Mapping[str, Any], files: Sequence[str]) -> str:
    """Does a point, or a part of a fleet's plan, on a machine of a cluster. `stored` has references to the bytes of files by their hashes, if they come
    through the object store; otherwise `files` are paths or addresses."""
    import ray  # type: ignore[import-not-found, import-untyped, unused-ignore]

    parsed = json.loads(point)
    hashes = parsed["trace"]["hashes"]
    if stored:
        names = [os.path.basename(file) for file in files]
        # A machine fetches the bytes only if it does not have them.
        found = [_file_of(hash, name, lambda hash=hash: ray.get(stored[hash])) for hash, name in zip(hashes, names, strict=True)]  # type: ignore[misc]
    else:
        found = [_same_file(file, hash) for file, hash in zip(files, hashes, strict=True)]
    return _native.fleet_row(point, found) if "what" in parsed else _native.point_row(point, found)


class _Cluster:
    """A cluster of Ray."""

    def __init__(self, address: bool | str, share: str, addresses: Mapping[str, str], jobs: int | None) -> None:
        try:
            import ray  # type: ignore[import-not-found, import-untyped, unused-ignore]
        except ImportError:
            raise ImportError("ray: a sweep on a cluster needs Ray: install the wheel with its extra [ray] (docs/python-research.md)") from None
        self._ray = ray
        self._began = not ray.is_initialized()
        if self._began:
            try:
                ray.init(address=address if isinstance(address, str) else None, log_to_driver=False, logging_level="ERROR")
            except ConnectionError as error:
                raise InputError(f"ray {address!r}: {' '.join(str(error).split())}") from None
        self._jobs, self._share, self._addresses = jobs, share, addresses
        self._stored: dict[str, Any] = {}
        self._waiting: dict[Any, str] = {}
        self._task = ray.remote(num_cpus=1, max_retries=_RETRIES)(_on_cluster)

    @property
    def most(self) -> int:
        # Machines may come and go.
        return self._jobs or _AHEAD * max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def __enter__(self) -> "_Cluster":
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._waiting:
            self._ray.cancel(one)
        self._waiting.clear()
        self._stored.clear()
        if self._began:
            self._ray.shutdown()

    def begin(self, point: str, hash: str) -> None:
        trace = json.loads(point)["trace"]
        stored: dict[str, Any] = {}
        if self._share == "store":
            for content, file in zip(trace["hashes"], trace["files"], strict=True):
                if content not in self._stored:
                    self._stored[content] = self._ray.put(FilePath(file).read_bytes())
                stored[content] = self._stored[content]
            files = list(trace["files"])
        else:
            files = [self._addresses.get(file, os.path.abspath(file)) for file in trace["files"]]
        self._waiting[self._task.remote(point, stored, files)] = hash

    def ended(self) -> list[tuple[str, str]]:
        done, _ = self._ray.wait(list(self._waiting), num_returns=1)
        more, _ = self._ray.wait(list(self._waiting), num_returns=len(self._waiting), timeout=0)
        found = []
        for one in dict.fromkeys([*done, *more]):
            hash = self._waiting.pop(one)
            try:
                found.append((hash, self._ray.get(one)))
            except self._ray.exceptions.RayTaskError as error:
                if isinstance(error.cause, InputError):
                    raise InputError(str(error.cause)) from None
                raise _native.SimulationError(f"ray: {' '.join(str(error.cause).split())}") from error
            except self._ray.exceptions.RayError as error:
                what = str(error).strip().splitlines()[0]
                raise _native.SimulationError(f"ray: a simulation was begun {_RETRIES + 1} times and did not end: {what}") from error
        return found


def on_cluster(
    ray: bool | str, share: str, jobs: int | None, work: Callable[[Callable[[Sequence[str]], list[str]]], Any]
) -> Any:
    """Gives `work` a function that does points on a cluster and returns their rows in the same order."""
    with _Cluster(ray, share, {}, jobs) as cluster:

        def rows(points: Sequence[str]) -> list[str]:
            found: dict[str, str] = {}
            for number, point in enumerate(points):
                while number - len(found) >= cluster.most:
                    found.update(cluster.ended())
                cluster.begin(point, str(number))
            while len(found) < len(points):
                found.update(cluster.ended())
            return [found[str(number)] for number in range(len(points))]

        return work(rows)


class _Work:
    """Points that are simulated, and their rows, which are kept as soon as they are there."""

    def __init__(self, data: "_native.Rows", place: "_Threads | _Cluster", retry_errors: bool) -> None:
        self.data, self.place, self.retry_errors = data, place, retry_errors
        self.begun: set[str] = set()
        self.under_way = 0
        self.counts = {"points": 0, "known": 0, "simulated": 0, "errors": 0}

    def begin(self, point: str, hash: str) -> bool:
        """Begins to simulate a point that is not known."""
        self.counts["points"] += 1
        known = self.data._known(hash)
        if hash in self.begun or known or (known is False and not self.retry_errors):
            self.counts["known"] += 1
            # A row that is kept, once.
            self.counts["errors"] += hash not in self.begun and known is False
            self.begun.add(hash)
            return False
        self.begun.add(hash)
        self.place.begin(point, hash)
        self.under_way += 1
        return True

    def ended(self) -> list[tuple[str, Mapping[str, Any]]]:
        """Waits until points have ended, and keeps their rows."""
        found = self.place.ended()
        self.data._add([row for _, row in found])
        parsed = [(hash, json.loads(row)) for hash, row in found]
        self.under_way -= len(found)
        self.counts["simulated"] += len(found)
        self.counts["errors"] += sum(row["status"] != "ok" for _, row in parsed)
        return parsed


def _all(path: FilePath, space: "_native.Space", work: _Work, callback: Callable[[str, int, int], object] | None) -> Sweep:
    order = []

    def show() -> None:
        if callback is not None:
            callback("points", work.counts["known"] + work.counts["simulated"], len(space))

    for index in range(len(space)):
        point, hash = space._point(index)
        order.append(hash)
        if work.begin(point, hash):
            while work.under_way >= work.place.most:
                work.ended()
                show()
    while work.under_way:
        work.ended()
        show()
    work.data._finish(order)
    return Sweep(path, work.counts)


# Points that an optimiser chooses.


class _Bound:
    """A constraint: a figure that is not above or not below a number."""

    def __init__(self, text: str) -> None:
        found = re.fullmatch(r"\s*([A-Za-z_][\w.]*)\s*(<=|>=)\s*([-+0-9.eE]+)\s*", text)
        try:
            self.figure, self.sign, self.limit = found[1], found[2], float(found[3])  # type: ignore[index]
        except (TypeError, ValueError):
            raise InputError(f"constraints: {text!r}: write FIGURE >= NUMBER or FIGURE <= NUMBER, such as lifetime_years >= 5") from None
        self.text = f"{self.figure} {self.sign} {self.limit:g}"

    def violated_by(self, row: Mapping[str, Any]) -> float:
        """By how much a row violates it: above 0 if it does."""
        value = _figure(row, self.figure)
        return self.limit - value if self.sign == ">=" else value - self.limit


# What stands for a lifetime without end: Optuna compares, adds and stores numbers.
_NEVER = 1e9


class _Absent(Exception):
    """A row does not have a figure."""


def _figure(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    if value is None and name.startswith("lifetime_") and name.endswith("years"):
        return _NEVER
    if not isinstance(value, int | float) or not math.isfinite(value):
        raise _Absent(f"the figure {name} does not apply, or is no number")
    return float(value)


def _optimised(
    path: FilePath,
    space: "_native.Space",
    work: _Work,
    objectives: Mapping[str, str],
    bounds: Sequence[_Bound],
    trials: int,
    batch: int,
    seed: int,
    storage: str | None,
    callback: Callable[[str, int, int], object] | None,
) -> Sweep:
    try:
        import optuna  # type: ignore[import-not-found, import-untyped, unused-ignore]
        from optuna.storages.journal import JournalFileBackend  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError:
        raise ImportError("objectives: an optimiser needs Optuna: install the wheel with its extra [optuna] (docs/python-research.md)") from None
    wrong = [way for way in objectives.values() if way not in ("minimize", "maximize")]
    if wrong:
        raise InputError(f"objectives: {wrong[0]!r}: use 'minimize' or 'maximize'")
    names = list(dict.fromkeys([*objectives, *(bound.figure for bound in bounds)]))
    figures = json.loads(_native.report_schema())["properties"]
    for name in names:
        if name.split(".")[0] not in figures:
            raise InputError(f"{name}: no report has such a figure: docs/reports.md and the columns of a sweep name them")
    axes = json.loads(space._keys())
    if not axes:
        raise InputError("keys: there are none whose values an optimiser could choose: give some")
    known = json.loads(work.data._figures(names))
    rows = {row["point"]: row for row in known}
    said = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        kept: Any = storage or optuna.storages.JournalStorage(JournalFileBackend(os.fspath(path / "_study.journal")))
        study = optuna.create_study(
            storage=kept, study_name="peryton sweep", directions=list(objectives.values()), load_if_exists=True
        )
        _same_question(study, axes, objectives, bounds)
        states = optuna.trial.TrialState
        while True:
            done = [trial for trial in study.trials if trial.state.is_finished()]
            if callback is not None:
                callback("trials", len(done), trials)
            # Trials that were under way when an earlier call was killed.
            left = [trial for trial in study.trials if trial.state == states.RUNNING]
            asked = [(optuna.trial.Trial(study, trial._trial_id), trial.params) for trial in left]
            if not asked:
                if len(done) >= trials:
                    break
                # The choice depends on the trials before it and the seed, also after a kill.
                study.sampler = optuna.samplers.TPESampler(seed=seed + len(study.trials))
                asked = [(study.ask(), None) for _ in range(min(batch, trials - len(done)))]
            chosen = []
            for trial, _ in asked:
                values = {axis["key"]: _suggested(space, trial, axis) for axis in axes}
                points = space._at(values)
                trial.set_user_attr("keys", values)
                trial.set_user_attr("points", [hash for _, hash in points])
                chosen.append((trial, points))
            for _, points in chosen:
                for point, hash in points:
                    work.begin(point, hash)
                    while work.under_way >= work.place.most:
                        rows.update(work.ended())
            while work.under_way:
                rows.update(work.ended())
            for trial, points in chosen:
                _reported(study, trial, [rows[hash] for _, hash in points], objectives, bounds, states)
        work.data._finish([])
        return Sweep(path, work.counts, _best(study, objectives))
    finally:
        optuna.logging.set_verbosity(said)


def _same_question(study: Any, axes: Any, objectives: Mapping[str, str], bounds: Sequence[_Bound]) -> None:
    """Trials of another question say nothing about this one."""
    asked = json.dumps([axes, list(objectives.items()), [bound.text for bound in bounds]])
    before = study.user_attrs.get("question")
    if before is None:
        study.set_user_attr("question", asked)
    elif before != asked:
        raise InputError("out: has trials for other keys, objectives or constraints: give another folder, or the same ones")


def _suggested(space: "_native.Space", trial: Any, axis: Mapping[str, Any]) -> str:
    key = axis["key"]
    if axis["kind"] == "list":
        return str(trial.suggest_categorical(key, axis["values"]))
    low, high, log = axis["from"], axis["to"], axis["scale"] == "log"
    if axis["unit"] == "number":
        step = None if log else axis["step"]
        return space._value(key, trial.suggest_float(key, low, high, log=log, step=step))
    # In steps, which whole numbers count.
    step = axis["step"] or 1.0
    if log:
        return space._value(key, trial.suggest_float(key, low, high, log=True))
    return space._value(key, low + step * trial.suggest_int(key, 0, int((high - low) // step)))


def _reported(
    study: Any,
    trial: Any,
    found: Sequence[Mapping[str, Any]],
    objectives: Mapping[str, str],
    bounds: Sequence[_Bound],
    states: Any,
) -> None:
    errors = [row["error"] for row in found if row["status"] != "ok"]
    try:
        if errors:
            raise _Absent(errors[0])
        values = [math.fsum(_figure(row, name) for row in found) / len(found) for name in objectives]
        violated = {bound.text: max(bound.violated_by(row) for row in found) for bound in bounds}
    except _Absent as why:
        # It is no reason to end the others; the optimiser goes elsewhere.
        trial.set_user_attr("error", str(why))
        study.tell(trial, state=states.FAIL)
        return
    for name, value in violated.items():
        if name not in trial.constraints:
            trial.set_constraint(name, value)
    study.tell(trial, values)


def _best(study: Any, objectives: Mapping[str, str]) -> list[Mapping[str, Any]]:
    complete = [trial for trial in study.trials if trial.state.name == "COMPLETE"]
    allowed = [trial for trial in complete if all(value <= 0 for value in trial.constraints.values())]
    signs = [1.0 if way == "minimize" else -1.0 for way in objectives.values()]

    def figures(trial: Any) -> list[float]:
        return [sign * value for sign, value in zip(signs, trial.values, strict=True)]

    def beats(one: Any, other: Any) -> bool:
        pairs = list(zip(figures(one), figures(other), strict=True))
        return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)

    best: dict[str, Mapping[str, Any]] = {}
    for trial in allowed:
        if any(beats(other, trial) for other in allowed):
            continue
        keys = trial.user_attrs["keys"]
        found = {
            "keys": keys,
            "objectives": dict(zip(objectives, trial.values, strict=True)),
            "constraints": dict(trial.constraints),
            "points": trial.user_attrs["points"],
        }
        # The same values may have been tried again.
        best.setdefault(json.dumps(keys), found)
    return list(best.values())
