"""The functions of the package."""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, TypedDict, Unpack, overload

from . import _native
from ._checked import checked
from ._design import Design, designs
from ._policy import AdmissionRule, PolicyCapsule, ReplacementPolicy
from ._progress import Progress, shown
from ._report import Answer, Curves, FleetPlan, Lifetimes, Plan, Report, Reports, SizeCurve
from ._sweep import on_cluster
from ._trace import Trace, traced

Path: TypeAlias = str | os.PathLike[str]
Size: TypeAlias = Annotated[int | str, "a number of bytes, or a text such as '4KiB'"]
Time: TypeAlias = Annotated[float | str, "a number of seconds, or a text such as '60s'"]
Share: TypeAlias = Annotated[float, "a number above 0 and up to 1, such as 0.01"]


class Options(TypedDict, total=False):
    """The options of :func:`simulate`, which describes them."""

    replay: str
    speed: float | None
    new: bool
    warm_up_requests: int
    limit: int | None
    fit: Literal["error", "wrap", "skip"]
    interval: Time | None
    sample: Share | None
    sample_seed: int
    replicate: int | None
    replacement: type[ReplacementPolicy] | PolicyCapsule | None
    admission: type[AdmissionRule] | None
    jobs: int | None
    progress: Progress


@overload
def simulate(
    design: Design | Path | Mapping[str, Any] | Sequence[Design | Path | Mapping[str, Any]],
    trace: Any,
    *,
    sweep: Mapping[str, Iterable[object]],
    **options: Unpack[Options],
) -> Reports: ...
@overload
def simulate(
    design: Design | Path | Mapping[str, Any], trace: Any, *, sweep: None = None, **options: Unpack[Options]
) -> Report: ...
@overload
def simulate(
    design: Sequence[Design | Path | Mapping[str, Any]],
    trace: Any,
    *,
    sweep: None = None,
    **options: Unpack[Options],
) -> Reports: ...
@checked
def simulate(
    design: Any,
    trace: Any,
    *,
    sweep: Mapping[str, Iterable[object]] | None = None,
    replay: str = "timed",
    speed: float | None = None,
    new: bool = False,
    warm_up_requests: int = 0,
    limit: int | None = None,
    fit: str = "error",
    interval: Time | None = None,
    sample: Share | None = None,
    sample_seed: int = 0,
    replicate: int | None = None,
    replacement: type[ReplacementPolicy] | PolicyCapsule | None = None,
    admission: type[AdmissionRule] | None = None,
    jobs: int | None = None,
    progress: Progress = None,
) -> Report | Reports:
    """Replays a trace on models of a design's devices.

    The interpreter's lock is released meanwhile, and Ctrl-C ends the simulation. The same input gives the same figures,
    those of ``peryton sim --json``.

    Args:
        design: a :class:`Design`, the path of a design file, or a dictionary with its keys; or a list of these, which are
            simulated in parallel and share the flash images of equal devices.
        trace: a :class:`Trace`, a path, several paths, a data frame, or a dictionary of arrays.
        sweep: simulate each design with each of these values of a key, of several keys with every combination, as ``peryton sim
            --sweep``: ``{"devices.ssd.size": ["1GiB", "2GiB"], "placement.replacement": ["lru", "arc"]}``. The trace is read
            once for all of them, at most 1,000; each report has its values (``report["sweep"]``), and they are part of the
            design's name. A key that does not apply to a design makes no further designs of it.
        replay: when requests arrive: ``"timed"`` (as recorded), ``"sync"`` (one after the other, without think time), or
            ``"qd=N"`` (N in flight at all times, 1 to 65536). ``"qd=N:think=1ms"`` waits this long after each reply, and
            ``"qd=N:think=trace"`` as long as the trace has between the two requests.
        speed: with timed replay, how many times faster than recorded.
        new: the volume is new, so that a tier begins empty; otherwise it is in use.
        warm_up_requests: replay this many requests before the measured ones.
        limit: stop after this many requests.
        fit: what to do with requests past the end of the volume: ``"error"``, ``"wrap"`` (offsets modulo the volume) or
            ``"skip"``.
        interval: also report what is counted in each interval of this length, in seconds or as a text (``"1s"``):
            :attr:`Report.intervals`.
        sample: simulate this share of the trace (above 0, up to 1), chosen by address, on designs that are smaller by as much.
            ``report["sample"]["figures"]`` has the figures of the whole trace as estimated, each with its interval (``estimate``,
            ``low``, ``high``): hit ratio, mean response times in µs, bytes and wear of each device, lifetime, power.
        sample_seed: which sample of this share; 0 or more.
        replicate: run each design this often, each time with the next seed; ``report["precision"]["figures"]`` has figures with half
            the width of their 95 % intervals (``value``, ``half_width``). 1 for intervals by parts of the trace alone.
        replacement: a class with the methods of :class:`ReplacementPolicy`, or the capsule of a policy in Rust, in place of
            the design's policy (tiering, caching, partitioned).
        admission: a class with the methods of :class:`AdmissionRule`, in place of the design's rule (caching).
        jobs: the number of threads; by default one on each core.
        progress: a bar on a terminal and in a notebook (None), always (True), never (False), or a function that is called
            with a text, the amount done and the whole amount (0 if it is not known).

    Returns:
        A :class:`Report`; for a list of designs, :class:`Reports` in their order, and for a sweep one of each combination, in
        which the values of the last key change first.

    Raises:
        InputError: the design, the trace or an argument is wrong; the line says where and what to do.
        SimulationError: the machine or Peryton failed, or a policy broke its contract.
    """
    all_designs = designs(design)
    arguments = {
        "replay": replay,
        "speed": speed,
        "new": new,
        "warm_up_requests": warm_up_requests,
        "limit": limit,
        "fit": fit,
        "interval": interval,
        "sample": sample,
        "sample_seed": sample_seed,
        "replicate": replicate,
        "replacement": replacement,
        "admission": admission,
        "jobs": jobs,
    }
    inner = [one._inner for one in all_designs]
    with shown(progress) as callback:
        found = _native.simulate(inner, traced(trace)._inner, _swept(sweep), arguments, callback)
    reports = [Report(report) for report in json.loads(found)]
    return Reports(reports) if isinstance(design, list | tuple) or sweep else reports[0]


def _swept(sweep: Mapping[str, Iterable[object]] | None) -> list[tuple[str, list[object]]]:
    keys = [] if sweep is None else list(sweep.items())
    for key, values in keys:
        if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
            raise TypeError(f"sweep {key}: expected a list of values, not {type(values).__name__}")
    return [(key, list(values)) for key, values in keys]


@checked
def size(
    design: Design | Path | Mapping[str, Any],
    trace: Any,
    *,
    sizes: str | Iterable[Size] | None = None,
    points: int = 12,
    objective: str = "latency",
    within: float | str = 0.05,
    usd_per_ms: float | None = None,
    run_for: Time = "5y",
    replay: str = "timed",
    speed: float | None = None,
    new: bool = False,
    warm_up_requests: int | None = None,
    limit: int | None = None,
    fit: Literal["error", "wrap", "skip"] = "error",
    jobs: int | None = None,
    progress: Progress = None,
) -> SizeCurve:
    """How large the fast device of a design should be: response times, hits, lifetime and price against its size; as
    ``peryton size --json``.

    The design is simulated with several sizes of its fast device, on one reading of the trace; everything else stays as it
    is, the volume too. ``docs/planning.md`` of the repository says how the sizes are chosen, and what is assumed. Ctrl-C ends
    the work, and the interpreter's lock is released meanwhile.

    Args:
        design: a caching, tiering or partitioned design: a :class:`Design`, the path of a design file, or a dictionary.
        trace: as in :func:`simulate`.
        sizes: the sizes to simulate, in bytes or as texts (at most 64); or a range to choose them from, ``"1GiB..64GiB"``. By
            default they are chosen by the miss-ratio curve of the trace, up to the smallest size from which no extent
            has to leave.
        points: how many sizes to choose, 2 to 64.
        objective: the figure by which a size is enough: ``"latency"`` (mean response time), ``"p99"``, ``"flush"``,
            ``"write_then_flush"``, ``"lifetime"`` or another of those in :func:`plan`.
        within: by how much that figure may be worse than the best, as a share (0.05) or a text (``"5%"``).
        usd_per_ms: also say which size is best if a millisecond of mean response time is worth this many US dollars.
        run_for: the time for which ownership is computed, in seconds or as a text.
        replay, speed, new, limit, fit: as in :func:`simulate`.
        warm_up_requests: replay this many requests before the measured ones; by default half of them.
        jobs, progress: as in :func:`simulate`.

    Returns:
        A :class:`SizeCurve`.

    Raises:
        InputError: the design has no fast device whose size could differ, or refuses every size; the trace or an argument is
            wrong.
        SimulationError: the machine or Peryton failed.
    """
    (one,) = designs(design)
    arguments = {
        "sizes": sizes if sizes is None or isinstance(sizes, str) else list(sizes),
        "points": points,
        "objective": objective,
        "within": within,
        "usd_per_ms": usd_per_ms,
        "run_for": run_for,
        "replay": replay,
        "speed": speed,
        "new": new,
        "warm_up_requests": warm_up_requests,
        "limit": limit,
        "fit": fit,
        "jobs": jobs,
    }
    with shown(progress) as callback:
        return SizeCurve(json.loads(_native.size(one._inner, traced(trace)._inner, arguments, callback)))


@checked
def mrc(
    trace: Any,
    *,
    policies: str | type | PolicyCapsule | Iterable[str | type | PolicyCapsule] = "lru",
    block: Size | None = None,
    sizes: Iterable[Size] | None = None,
    points: int | None = None,
    rate: Share | None = None,
    seed: int = 0,
    window: Time = "60s",
    jobs: int | None = None,
    progress: Progress = None,
) -> Curves:
    """Miss ratios of caches of several sizes under replacement policies, without devices; as ``peryton trace mrc --json``.

    LRU is exact, from one pass. Other policies are simulated on a sample of the blocks, in caches that are smaller by as
    much (SHARDS, and miniature simulation: Waldspurger et al., FAST 2015 and USENIX ATC 2017); ``docs/comparing.md`` of the
    repository says how far that can be trusted.

    Args:
        trace: as in :func:`simulate`.
        policies: names of policies (:func:`replacement_policies`), or classes with the methods of :class:`ReplacementPolicy`, or
            capsules of policies in Rust; ``"opt"`` is Belady's optimum, a bound that knows the future.
        block: the size of a cached block, in bytes or as a text; by default 4 KiB, or objects of their own sizes if the trace has objects.
        sizes: the sizes of the caches; by default each power of two of blocks up to the footprint.
        points: in place of them, this many sizes up to the footprint, each larger by the same factor.
        rate: the share of blocks that is simulated, above 0 and up to 1; by default all of up to 524,288, or else the
            share that leaves 131,072; all objects.
        seed: which sample of this size is simulated.
        window: WSClock's working-set window, in seconds or as a text.
        jobs, progress: as in :func:`simulate`.

    Returns:
        :class:`Curves`, for each policy in turn each size in ascending order.

    Raises:
        InputError: the trace or an argument is wrong.
        SimulationError: a policy broke its contract.
    """
    chosen = [policies] if isinstance(policies, str | type) or callable(policies) or not isinstance(policies, Iterable) else list(policies)
    arguments = {
        "policies": chosen,
        "block": block,
        "sizes": None if sizes is None else list(sizes),
        "points": points,
        "rate": rate,
        "seed": seed,
        "window": window,
        "jobs": jobs,
    }
    with shown(progress) as callback:
        found = _native.mrc(traced(trace)._inner, arguments, callback)
    return Curves(json.loads(found))


@overload
def lifetime(
    array: Path | Mapping[str, Any] | None = None, *, admit: float | None = None, **tables: Mapping[str, Any]
) -> Answer: ...
@overload
def lifetime(
    array: Path | Mapping[str, Any] | None = None, *, admit: Iterable[float], **tables: Mapping[str, Any]
) -> Lifetimes: ...
@checked
def lifetime(
    array: Path | Mapping[str, Any] | None = None,
    *,
    admit: float | Iterable[float] | None = None,
    **tables: Mapping[str, Any],
) -> Answer | Lifetimes:
    """How long an array of a cache and a storage lives, by arithmetic; as ``peryton lifetime --json``.

    The model is that of "Mixed SSD arrays", section IV, equations (2) to (6): every miss is written to the cache, every
    dirty block that leaves it is written to the storage, all cells of a device wear equally, and no request waits for
    another.

    Args:
        array: the path of a file, or a dictionary with its tables ``workload`` (``read`` and ``write`` in bytes per second,
            ``read_hit``, ``write_hit`` and ``dirty`` as shares, ``read_size``, ``write_size``), ``cache`` and ``storage``
            (``profile``, ``count``; or ``capacity``, ``cycles``, ``read``, ``write``, ``write_amplification``).
        admit: the share of the misses that may enter the cache; several give an answer each.
        tables: tables or single values that are added to the array, or replace its own.

    Returns:
        An :class:`Answer` with ``lifetime_years``, ``mean_latency_ms``, ``latency_over_lifetime`` and more; for several shares,
        :class:`Lifetimes`.

    Raises:
        InputError: a key is unknown, missing or out of range.
    """
    path, values = (None, dict(array)) if isinstance(array, Mapping) else (array, {})
    for name, table in tables.items():
        values[name] = {**values.get(name, {}), **table}
    shares = [] if admit is None else [admit] if isinstance(admit, int | float) else list(admit)
    found = _native.lifetime(None if path is None else os.fspath(path), values, [float(share) for share in shares])
    answers = [Answer(one) for one in json.loads(found)]
    single = admit is None or isinstance(admit, int | float)
    return answers[0] if single else Lifetimes(answers)


@checked
def plan(
    trace: Any,
    *,
    latency: Time | None = None,
    lifetime: Time | None = None,
    subject_to: str | Iterable[str] = (),
    objective: str = "dollars",
    capacity: Size | None = None,
    active: Size | None = None,
    devices: Iterable[Path] = (),
    era: str | None = None,
    prices: Mapping[str, float] | None = None,
    own: Mapping[str, int] | None = None,
    afr: Mapping[str, float] | None = None,
    flash: str = "whole",
    flash_need: bool = True,
    redundancy: str = "none",
    fast_redundancy: str | None = None,
    slow_redundancy: str | None = None,
    spares: int | str = 0,
    fill_limit: str | None = None,
    replace_within: Time | None = None,
    most: int = 8,
    runners_up: int = 3,
    run_for: Time = "5y",
    electricity: float = 0.12,
    duty: float = 1.0,
    replay: str = "timed",
    speed: float | None = None,
    warm_up_requests: int | None = None,
    jobs: int | None = None,
    progress: Progress = None,
) -> Plan:
    """The cheapest devices that meet budgets under a workload, by simulation; as ``peryton plan --json``.

    ``docs/planning.md`` of the repository describes the planner.

    Args:
        trace: as in :func:`simulate`.
        latency: the highest mean response time, in seconds or as a text such as ``"2ms"``.
        lifetime: the shortest time until the first device is worn out, such as ``"5y"``.
        subject_to: more budgets, such as ``"p99<=10ms,power<=8W"``: of latency, read, write, flush, write_then_flush, p50,
            p99, p999, lifetime, power, energy (a year), dollars, ownership, iops.
        objective: the figure to minimise (lifetime and iops: to maximise), one of those.
        capacity: data to be stored, in bytes or as a text; by default the span of addresses in the trace.
        active: how much of the data is used during a time as long as the trace, such as ``"5%"`` or ``"200GiB"``.
        devices: names of profiles (:func:`profiles`), files of your own, or folders of them; by default every profile of the
            era with a price.
        era: the years in which devices were on sale, such as ``"2015-2020"``, or ``"all"``; by default ``"2022-2026"``.
        prices: US dollars by device, in place of the profiles'.
        own: how many of a device cost nothing to buy.
        afr: annual failure rates as shares by device, in place of the profiles': ``{"seagate-st4000dm000": 0.015}``.
        flash: ``"whole"`` buys flash in devices of the catalogue, ``"any"`` in any capacity up to theirs, at a price and with an
            endurance in proportion; the planner chooses the capacity. ``plan.best["flash"]`` has it, and the figures of others.
        flash_need: find out how much of the bought flash the workload needs, if the best design is a hybrid of whole devices.
        redundancy: how each tier survives failed devices: ``"none"``, ``"mirror"``, ``"raid5"`` or ``"raid6"``.
        fast_redundancy, slow_redundancy: others for the fast and the slow devices.
        spares: spare devices for each tier, or a share of its devices such as ``"5%"``.
        fill_limit: the share of each device that is filled at most, such as ``"80%"``.
        replace_within: time from a failure to the beginning of the rebuild.
        most: the most devices of a kind to buy.
        runners_up: how many designs to report beside the best.
        run_for: the time for which ownership is computed.
        electricity: US dollars per kWh.
        duty: the share of the time for which the load goes on; devices live longer in proportion.
        replay, speed: as in :func:`simulate`.
        warm_up_requests: replay this many requests before the measured ones; by default half of the trace.
        jobs, progress: as in :func:`simulate`.

    Returns:
        A :class:`Plan`.

    Raises:
        InputError: the trace, a profile or an argument is wrong.
        SimulationError: no design could be simulated.
    """
    arguments = {
        "latency": latency,
        "lifetime": lifetime,
        "subject_to": [subject_to] if isinstance(subject_to, str) else list(subject_to),
        "objective": objective,
        "capacity": capacity,
        "active": active,
        "devices": [os.fspath(device) for device in devices],
        "era": era,
        "prices": None if prices is None else dict(prices),
        "own": None if own is None else dict(own),
        "afr": None if afr is None else dict(afr),
        "flash": flash,
        "flash_need": flash_need,
        "redundancy": redundancy,
        "fast_redundancy": fast_redundancy,
        "slow_redundancy": slow_redundancy,
        "spares": spares,
        "fill_limit": fill_limit,
        "replace_within": replace_within,
        "most": most,
        "runners_up": runners_up,
        "run_for": run_for,
        "electricity": electricity,
        "duty": duty,
        "replay": replay,
        "speed": speed,
        "warm_up_requests": warm_up_requests,
        "jobs": jobs,
    }
    with shown(progress) as callback:
        return Plan(json.loads(_native.plan(traced(trace)._inner, arguments, callback)))


@checked
def plan_fleet(
    recordings: Path,
    *,
    latency: Time | None = None,
    lifetime: Time | None = None,
    subject_to: str | Iterable[str] = (),
    objective: str = "dollars",
    devices: Iterable[Path] = (),
    era: str | None = None,
    prices: Mapping[str, float] | None = None,
    redundancy: str = "none",
    fast_redundancy: str | None = None,
    slow_redundancy: str | None = None,
    spares: int | str = 0,
    fill_limit: str | None = None,
    most: int = 8,
    run_for: Time = "5y",
    electricity: float = 0.12,
    duty: float = 1.0,
    speed: float | None = None,
    format: str | None = None,
    columns: str | None = None,
    unit: str | None = None,
    volumes: Iterable[int | str] | None = None,
    skip_bad: bool = False,
    sort: bool = False,
    spread: bool = False,
    ray: bool | str = False,
    share: Literal["store", "path"] = "store",
    jobs: int | None = None,
    progress: Progress = None,
) -> FleetPlan:
    """The cheapest drives for many volumes, which share them; as ``peryton plan --fleet --json``.

    ``docs/planning.md`` of the repository says how drives are chosen, and within which bounds.

    Args:
        recordings: a folder with a recording of each volume, or a trace whose requests name their volumes.
        latency: the highest mean response time of each volume.
        lifetime: the shortest time until the first device of any drive is worn out.
        subject_to: more budgets, of read and write (each volume), and of dollars (all drives together).
        objective: ``"dollars"`` or ``"ownership"``, which is minimised.
        devices, era, prices, redundancy, fast_redundancy, slow_redundancy, spares, fill_limit, most, run_for, electricity, duty: as in
            :func:`plan`.
        speed: how many times faster than recorded.
        format, columns, unit, volumes, skip_bad, sort, spread: as in :class:`Trace`.
        ray, share: measure and simulate on a cluster of Ray, as in :func:`sweep`; the plan is the same to the bit.
        jobs, progress: as in :func:`simulate`.

    Returns:
        A :class:`FleetPlan`.

    Raises:
        InputError: a recording, a profile or an argument is wrong.
        SimulationError: a simulation failed.
        ImportError: Ray is needed and not installed.
    """
    if share not in ("store", "path"):
        raise _native.InputError(f"share {share!r}: use 'store' or 'path'")
    path = os.fspath(recordings)
    arguments = {
        "latency": latency,
        "lifetime": lifetime,
        "subject_to": [subject_to] if isinstance(subject_to, str) else list(subject_to),
        "objective": objective,
        "devices": [os.fspath(device) for device in devices],
        "era": era,
        "prices": None if prices is None else dict(prices),
        "redundancy": redundancy,
        "fast_redundancy": fast_redundancy,
        "slow_redundancy": slow_redundancy,
        "spares": spares,
        "fill_limit": fill_limit,
        "most": most,
        "run_for": run_for,
        "electricity": electricity,
        "duty": duty,
        "speed": speed,
        "format": format,
        "columns": columns,
        "unit": unit,
        "volumes": None if volumes is None else [part for volume in volumes for part in str(volume).split(",")],
        "skip_bad": skip_bad,
        "sort": sort,
        "spread": spread,
        "jobs": jobs,
    }
    with shown(progress) as callback:
        if not ray:
            return FleetPlan(json.loads(_native.plan_fleet(path, arguments, None, None, callback)))

        def on_rows(rows: Callable[[Sequence[str]], list[str]]) -> str:
            measured = rows(_native.fleet_points(path, arguments))
            return _native.plan_fleet(path, arguments, measured, rows, callback)

        return FleetPlan(json.loads(on_cluster(ray, share, jobs, on_rows)))


@checked
def energy(
    trace: Any = None,
    *,
    peak: Size | None = None,
    average: Size | None = None,
    capacity: Size | None = None,
    workload: str = "seq-read",
    zone: str = "head",
    request_size: Size | None = None,
    queue_depth: int | None = None,
    devices: Iterable[Path] = (),
    era: str | None = None,
    prices: Mapping[str, float] | None = None,
    afr: Mapping[str, float] | None = None,
    alpha: float = 1.0,
    policy: str = "best",
    run_for: Time | None = None,
    electricity: float = 0.12,
    shelf_power: float = 0.0,
    emerald: bool = False,
    by: str = "energy",
    model: bool = False,
    mixed: bool = False,
    jobs: int | None = None,
    progress: Progress = None,
) -> Answer:
    """Which devices need the least energy, and which the least money; as ``peryton energy --json``.

    The models are those of "Which Storage Device is the Greenest?" (Li and Long), equations (2) to (7). MB are 10⁶ bytes.

    Args:
        trace: a trace on which the workload is measured, as in :func:`simulate`; what is given besides has precedence.
            Without a trace, `peak`, `average` and `capacity` are needed.
        peak, average: bandwidth, in bytes per second, such as ``"400MB"``.
        capacity: amount of data to be stored.
        workload: without a trace, how data are accessed: ``"seq-read"``, ``"seq-write"``, ``"rand-read"``, ``"rand-write"`` or
            ``"rand-mixed"``.
        zone: tracks of a disk that sequential accesses lie on: ``"head"``, the outermost, or ``"tail"``, the innermost.
        request_size: size of a request, a multiple of 512 bytes; by default the trace's, or 1 MiB as in the paper.
        queue_depth: number of requests in flight on a device, 1 to 1024.
        devices: names of profiles (:func:`profiles`) or files of your own; by default every profile of the era with power
            figures.
        era, prices, afr: as in :func:`plan`.
        alpha: power management efficiency: the number of active devices for each that is needed, at least 1.
        policy: the state of devices that the average bandwidth does not need: ``"best"``, ``"idle"``, ``"standby"`` or
            ``"all-active"``.
        run_for: the run time; by default until the data have been moved once, or a year.
        electricity: US dollars per kWh.
        shelf_power: watts of the shelf for each device; counts in ``"ownership"`` and ``"emerald"``.
        emerald: also compute the ratios of SNIA's Emerald, ``answer["emerald"]``; takes a few seconds.
        by: the order: ``"energy"`` or ``"cost"`` (purchase and electricity).
        model: use bandwidth and busy power of Peryton's models even if published figures exist.
        mixed: also find the best mix of devices; reads the trace twice.
        jobs, progress: as in :func:`simulate`.

    Returns:
        An :class:`Answer`; ``answer["devices"]`` has the devices in order, each with its number, energy, cost and break-even times; ``answer["ownership"]`` has the cost of each over five years.

    Raises:
        InputError: the trace, a profile or an argument is wrong, or no device can take part.
    """
    arguments = {
        "peak": peak,
        "average": average,
        "capacity": capacity,
        "workload": workload,
        "zone": zone,
        "request_size": request_size,
        "queue_depth": queue_depth,
        "devices": [os.fspath(device) for device in devices],
        "era": era,
        "prices": None if prices is None else dict(prices),
        "afr": None if afr is None else dict(afr),
        "alpha": alpha,
        "policy": policy,
        "run_for": run_for,
        "electricity": electricity,
        "shelf_power": shelf_power,
        "emerald": emerald,
        "by": by,
        "model": model,
        "mixed": mixed,
        "jobs": jobs,
    }
    inner = None if trace is None else traced(trace)._inner
    with shown(progress) as callback:
        return Answer(json.loads(_native.energy(inner, arguments, callback)))
