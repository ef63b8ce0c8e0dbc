"""Reports: what simulations and plans found."""

import html
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from . import _native

if TYPE_CHECKING:
    import polars
    from matplotlib.axes import Axes


class Answer(Mapping[str, Any]):
    """A dictionary of figures, as the command prints them with ``--json``. Keys may be dotted: ``answer["latency_us.all.p99"]``.
    A figure that does not apply is absent, never zero; ``get`` gives None for it."""

    __slots__ = ("_figures",)

    def __init__(self, figures: Mapping[str, Any]) -> None:
        self._figures = dict(figures)

    def __getitem__(self, key: str) -> Any:
        if key in self._figures:
            return self._figures[key]
        found: Any = self._figures
        for part in key.split("."):
            if not isinstance(found, Mapping) or part not in found:
                raise KeyError(key)
            found = found[part]
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(self._figures)

    def __len__(self) -> int:
        return len(self._figures)

    def to_dict(self) -> dict[str, Any]:
        """All figures as a dictionary of texts, numbers, booleans, lists and dictionaries."""
        copy: dict[str, Any] = json.loads(self.to_json())
        return copy

    def to_json(self, indent: int | None = 2) -> str:
        """All figures as JSON."""
        return json.dumps(self._figures, indent=indent, ensure_ascii=False)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(self._figures)})"


def _flat(figures: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The figures of a report by their dotted names; lists are left out."""
    row: dict[str, Any] = {}
    for key, value in figures.items():
        if isinstance(value, Mapping):
            row |= _flat(value, f"{before}{key}.")
        elif not isinstance(value, list):
            row[before + key] = value
    return row


def _frame(rows: Sequence[Mapping[str, Any]]) -> "polars.DataFrame":
    import polars

    names = list(dict.fromkeys(name for row in rows for name in row))
    return polars.DataFrame({name: [row.get(name) for row in rows] for name in names}, strict=False)


def _number(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _table(rows: Sequence[Sequence[Any]], header: Sequence[str]) -> str:
    cells = ["<tr>" + "".join(f"<th>{html.escape(name)}</th>" for name in header) + "</tr>"]
    for first, *rest in rows:
        figures = "".join(f"<td style='text-align:right'>{html.escape(_number(value))}</td>" for value in rest)
        cells.append(f"<tr><th style='text-align:left'>{html.escape(_number(first))}</th>{figures}</tr>")
    return f"<table>{''.join(cells)}</table>"


_SHOWN = [
    ("IOPS", "iops", 1.0),
    ("mean ms", "latency_us.all.mean", 1e-3),
    ("read p99 ms", "latency_us.read.p99", 1e-3),
    ("write p99 ms", "latency_us.write.p99", 1e-3),
    ("fast hit %", "fast_hit_ratio", 100.0),
    ("energy J", "energy_j", 1.0),
    ("power W", "mean_power_w", 1.0),
    ("lifetime years", "lifetime_years", 1.0),
]
_IN_ALL = ["read", "write", "flush", "discard"]
_QUANTILES = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999), ("max", 1.0)]


def _scaled(report: Mapping[str, Any], key: str, by: float) -> float | None:
    value = report.get(key)
    return None if value is None else value * by


def _warnings(reports: Sequence["Report"]) -> str:
    by_text: dict[str, list[str]] = {}
    for report in reports:
        for warning in report.get("warnings") or []:
            by_text.setdefault(f"{warning['message']}: {warning['remedy']}", []).append(str(report["design"]))
    return "".join(f"<p>⚠ {html.escape(', '.join(names))}: {html.escape(text)}</p>" for text, names in by_text.items())


class Report(Answer):
    """What a simulation of one design found: the figures of ``peryton sim --json``, under the same names.

    ======================================  ==============================================================================
    ``latency_us.all`` (``read``, ``write``, ``flush``)  ``count``, ``mean``, ``p50``, ``p90``, ``p99``, ``p999``, ``max``, in µs
    ``iops``, ``mib_per_s``, ``simulated_s``  requests and MiB per second, and the measured time
    ``fast_hit_ratio``, ``moves``           share of the accesses that the fast device served; promotions, demotions, …
    ``devices.NAME``                        traffic, busy time, energy, erases, write amplification, wear, lifetime
    ``energy_j``, ``mean_power_w``          of all devices
    ``lifetime_years`` (``_low``, ``_high``)  until the first device is worn out, at the rate of the measured span
    ``cost``                                dollars to buy and to run
    ``latency_histogram_us``                whole distributions: :meth:`histogram`
    ``intervals``                           what was counted in each interval, if asked for: :attr:`intervals`
    ``warnings``                            why figures may mislead, and the remedy
    ======================================  ==============================================================================

    A notebook shows the main figures. Sources: ``docs/`` of the repository says by which model each figure comes, and
    which of them rest on estimates (``estimated_values``).
    """

    __slots__ = ()

    @property
    def warnings(self) -> list[str]:
        """Why figures of this report may mislead, and what to do."""
        return [f"{warning['message']}: {warning['remedy']}" for warning in self.get("warnings") or []]

    def histogram(self, kind: str = "all") -> "polars.DataFrame":
        """The distribution of response times: the buckets of an HDR histogram, from short to long, without empty ones.

        Args:
            kind: ``"read"``, ``"write"``, ``"flush"``, ``"discard"``, ``"all"`` (these four together), or ``"write_then_flush"``
                (from a write's arrival to the end of the first flush that covers it).

        Returns:
            A data frame with a row for each bucket, of shape (buckets, 3): ``from_us`` and ``to_us``, the shortest and the longest
            response time of the bucket in µs (both included), and ``count``, the number of requests in it. A frame is a
            source of Arrow data (``__arrow_c_stream__``). The quantile `q` of the report is ``to_us`` of the first bucket up to
            which there are ``ceil(q * n)`` requests, or ``max`` if that is less.

        Raises:
            KeyError: there was no such request.
        """
        import polars

        found = self["latency_histogram_us"]
        kinds = [one for one in _IN_ALL if one in found] if kind == "all" else [kind]
        if not kinds or any(one not in found for one in kinds):
            raise KeyError(f"{kind}: there is no distribution of it, but of {', '.join(['all', *found])}")
        schema = {"from_us": polars.Float64, "to_us": polars.Float64, "count": polars.UInt64}
        frames = [
            polars.DataFrame(
                {"from_us": found[one]["from"], "to_us": found[one]["to"], "count": found[one]["count"]}, schema=schema
            )
            for one in kinds
        ]
        if len(frames) == 1:
            return frames[0]
        together = polars.concat(frames).group_by("from_us", "to_us").agg(polars.col("count").sum())
        return together.select("from_us", "to_us", "count").sort("from_us")

    @property
    def intervals(self) -> "polars.DataFrame":
        """What was counted in each interval of the measured span (``simulate(..., interval="1s")``).

        A data frame of shape (intervals, figures) with a row for each interval, in order, and a column for each figure by its
        dotted name: ``start_s`` and ``end_s`` (seconds from the beginning of the measured span), ``requests``, ``iops``,
        ``mib_per_s``, ``latency_us.read.p99`` (µs), ``fast_hit_ratio`` (a share), ``moves.promotions``, ``dirty_bytes`` (at the end),
        ``mean_power_w``, ``devices.NAME.busy_s``, ``devices.NAME.wear_eu`` (millionths of its life), …; ``docs/reports.md`` of the
        repository lists them. A figure that does not apply to an interval is null.

        Raises:
            KeyError: no intervals were asked for.
        """
        if "intervals" not in self._figures:
            raise KeyError("the report has no intervals: simulate(..., interval='1s') makes them")
        return _frame([_flat(row) for row in self._figures["intervals"]])

    def to_polars(self) -> "polars.DataFrame":
        """A data frame of one row, with a column for each figure by its dotted name; lists are left out."""
        return _frame([_flat(self._figures)])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draws the quantiles of response times of each kind of request with matplotlib; returns the axes."""
        return Reports([self]).plot(ax)

    def _repr_html_(self) -> str:
        return Reports([self])._repr_html_()

    def __repr__(self) -> str:
        mean = _number(_scaled(self, "latency_us.all.mean", 1e-3))
        return f"Report({self['design']!r} under {self['trace']!r}: {self['requests']:,} requests, mean {mean} ms)"


def report_schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a :class:`Report`: each figure with its type, its unit in its name, and a sentence. A
    figure that does not apply is absent, never None."""
    schema: dict[str, Any] = json.loads(_native.report_schema())
    return schema


class Reports(Sequence[Report]):
    """Reports of several designs under one trace, in the order of the designs. ``reports["name"]`` is that of a design."""

    __slots__ = ("_reports",)

    def __init__(self, reports: Sequence[Report]) -> None:
        self._reports = list(reports)

    @overload
    def __getitem__(self, key: int | str) -> Report: ...
    @overload
    def __getitem__(self, key: slice) -> "Reports": ...
    def __getitem__(self, key: int | str | slice) -> "Report | Reports":
        if isinstance(key, slice):
            return Reports(self._reports[key])
        if isinstance(key, int):
            return self._reports[key]
        for report in self._reports:
            if report["design"] == key:
                return report
        raise KeyError(key)

    def __len__(self) -> int:
        return len(self._reports)

    def to_polars(self) -> "polars.DataFrame":
        """A data frame with a row for each design and a column for each figure by its dotted name; a figure that does not
        apply to a design is null."""
        return _frame([_flat(report._figures) for report in self._reports])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draws the quantiles of the response times of all requests, a line for each design, with matplotlib; of one
        design a line for each kind of request. Returns the axes."""
        ax = _axes(ax)
        if len(self._reports) == 1:
            latency = self._reports[0]["latency_us"]
            lines = {kind: latency[kind] for kind in ("read", "write", "flush") if kind in latency}
        else:
            lines = {str(report["design"]): report["latency_us.all"] for report in self._reports}
        places = range(len(_QUANTILES))
        for name, summary in lines.items():
            ax.plot(places, [max(summary[quantile], 1e-3) / 1e3 for quantile, _ in _QUANTILES], marker="o", label=name)
        ax.set_xticks(places, ["median", "90 %", "99 %", "99.9 %", "max"])
        ax.set_yscale("log")
        ax.set_xlabel("requests answered within")
        ax.set_ylabel("response time, ms")
        ax.legend()
        return ax

    def _repr_html_(self) -> str:
        rows = [[report["design"], *(_scaled(report, key, by) for _, key, by in _SHOWN)] for report in self._reports]
        about = ""
        if self._reports:
            first = self._reports[0]
            summary = f"{first['requests']:,} requests of {first['trace']}, replayed {first['replay']}"
            about = f"<p>{html.escape(summary)}; Peryton {html.escape(first['peryton_version'])}</p>"
        return _table(rows, ["design", *(name for name, _, _ in _SHOWN)]) + about + _warnings(self._reports)

    def __repr__(self) -> str:
        return f"Reports({', '.join(repr(report['design']) for report in self._reports)})"


def _axes(ax: "Axes | None") -> "Axes":
    if ax is None:
        from matplotlib import pyplot

        _, ax = pyplot.subplots()
    return ax


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < 1024 or unit == "TiB":
            return f"{size:.4g} {unit}"
        size /= 1024
    return ""


# The sizes that are named below a chart of curves, at most: more names run into each other.
_SIZES = 7


def _marked(row: Mapping[str, Any]) -> Any:
    """The miss ratio, marked as in ``peryton trace mrc`` if few blocks were simulated."""
    return f"~{_number(row['all'])}" if row.get("few_blocks") else row["all"]


class Curves(Sequence[Mapping[str, Any]]):
    """Miss-ratio curves: a row for each policy and size, as of ``peryton trace mrc --json``. Of each row, ``replacement`` is
    the policy, ``cache_bytes`` the size, ``all``, ``read`` and ``write`` the miss ratios by blocks, ``bytes`` those by bytes,
    ``rate`` the share of blocks in the sample, ``interval`` (``low``, ``high``) where the ratio of all blocks lies, ``few_blocks`` that
    this is not known, ``sampling_error`` the error of that sample for LRU, and ``peryton_version``,
    ``trace_hash``, ``accesses``, ``block_bytes`` and ``seed`` what the row is of."""

    __slots__ = ("_rows",)

    def __init__(self, rows: Sequence[Mapping[str, Any]]) -> None:
        self._rows = list(rows)

    @overload
    def __getitem__(self, key: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, key: slice) -> "Curves": ...
    def __getitem__(self, key: int | slice) -> "Mapping[str, Any] | Curves":
        return Curves(self._rows[key]) if isinstance(key, slice) else self._rows[key]

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def policies(self) -> list[str]:
        """The policies, in order."""
        return list(dict.fromkeys(row["replacement"] for row in self._rows))

    def of(self, policy: str) -> "Curves":
        """The curve of one policy."""
        return Curves([row for row in self._rows if row["replacement"] == policy])

    def to_polars(self) -> "polars.DataFrame":
        """A data frame with a row for each policy and size."""
        return _frame([_flat(row) for row in self._rows])

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draws miss ratio against cache size, a line for each policy, with matplotlib; returns the axes. The 95 % intervals of sampled
        curves are shaded; a cross marks a size of which fewer than 100 blocks were simulated."""
        ax = _axes(ax)
        for policy in self.policies:
            rows = self.of(policy)
            (line,) = ax.plot([row["cache_bytes"] for row in rows], [row["all"] for row in rows], marker=".", label=policy)
            known = [(row["cache_bytes"], row["interval"]) for row in rows if row.get("interval")]
            low, high = ([interval[end] for _, interval in known] for end in ("low", "high"))
            ax.fill_between([size for size, _ in known], low, high, color=line.get_color(), alpha=0.2, linewidth=0)
            few = [(row["cache_bytes"], row["all"]) for row in rows if row.get("few_blocks")]
            ax.scatter([size for size, _ in few], [ratio for _, ratio in few], marker="x", color=line.get_color())
        ax.set_xscale("log", base=2)
        ax.locator_params(axis="x", numticks=_SIZES)
        ax.xaxis.set_major_formatter(lambda size, _: _size(size))
        ax.set_ylim(bottom=0)
        ax.set_xlabel("cache size")
        ax.set_ylabel("miss ratio")
        ax.legend()
        return ax

    def _repr_html_(self) -> str:
        sizes = list(dict.fromkeys(row["cache_bytes"] for row in self._rows))
        at = {(row["replacement"], row["cache_bytes"]): _marked(row) for row in self._rows}
        rows = [[_size(size), *(at.get((policy, size)) for policy in self.policies)] for size in sizes]
        return _table(rows, ["cache", *self.policies])

    def __repr__(self) -> str:
        return f"Curves({', '.join(self.policies)}; {len(self._rows)} rows)"


_SIZE_COLUMNS = [
    ("hit %", "fast_hit_ratio", 100.0),
    ("avoidable miss %", "avoidable_miss_ratio", 100.0),
    ("mean ms", "mean_ms", 1.0),
    ("p99 ms", "p99_ms", 1.0),
    ("flush ms", "flush_mean_ms", 1.0),
    ("lifetime years", "lifetime_years_by_size", 1.0),
    ("USD", "fast_usd_by_size", 1.0),
    ("USD per ms saved", "usd_per_ms_saved", 1.0),
]


class SizeCurve(Answer):
    """The figures of a design against the size of its fast device: those of ``peryton size --json``, under the same names.

    ======================================  ==============================================================================
    ``points``                              a dictionary for each size, in ascending order: :attr:`points`
    ``knees``                               where more stops paying, by several figures; the first is the objective
    ``verdict``, ``caveats``, ``assumptions``  sentences: the answer, why it may be wrong, what it rests on
    ``design_bytes``, ``volume_bytes``      the size that the design gives the device, and the size of the volume, in bytes
    ``touched_bytes``, ``holds_all_bytes``  what the trace touches; the smallest size from which on nothing has to leave
    ``unavoidable_miss_ratio``              share of the accesses that miss at any size
    ``worth``                               the best size, if `usd_per_ms` was given
    ``overloaded``                          whether no size keeps up with the requests: then no size is enough, and ``knees`` is empty
    ======================================  ==============================================================================

    A figure that does not apply is absent, never zero. A notebook shows a table and the answer.
    """

    __slots__ = ()

    @property
    def points(self) -> list["Answer"]:
        """The figures of each size, in ascending order: ``size_bytes``, ``mean_ms``, ``p99_ms``, ``flush_mean_ms``, ``fast_hit_ratio`` and
        ``avoidable_miss_ratio`` (shares), ``fast_bytes_written_per_day``, ``fast_usd_by_size`` and ``lifetime_years_by_size`` (of a
        device of that size), ``usd_per_ms_saved``, …"""
        return [Answer(point) for point in self["points"]]

    @property
    def enough_bytes(self) -> int | None:
        """The smallest size simulated, in bytes, whose figure is within `within` of the best; None if no size has the figure,
        or none keeps up with the requests."""
        knees = self["knees"]
        return int(knees[0]["size_bytes"]) if knees else None

    @property
    def warnings(self) -> list[str]:
        """Why the answer may mislead: its caveats, and the warnings of the simulations."""
        return [*self["caveats"], *(warning["text"] for warning in self["warnings"])]

    def to_polars(self) -> "polars.DataFrame":
        """A data frame with a row for each size, in ascending order, and a column for each figure of :attr:`points`. A figure that
        does not apply to a size is null."""
        return _frame([_flat(point) for point in self["points"]])

    def plot(
        self, ax: "Axes | None" = None, figures: Sequence[str] = ("mean_ms", "p99_ms", "flush_mean_ms")
    ) -> "Axes":
        """Draws figures against the size with matplotlib, a line for each, and a dashed line at the size that is enough.

        Args:
            ax: the axes to draw on; by default those of a new figure.
            figures: names of figures of :attr:`points`; by default the mean and the 99th percentile of the response time and the mean
                of flushes, in ms. Those that the trace does not have are left out.

        Returns:
            The axes; both are logarithmic.

        Raises:
            KeyError: no size has any of these figures.
        """
        ax = _axes(ax)
        drawn = []
        for name in figures:
            at = [(point["size_bytes"], point[name]) for point in self.points if point.get(name) is not None]
            if at:
                drawn.append(name)
                ax.plot([size for size, _ in at], [value for _, value in at], marker="o", label=name)
        if not drawn:
            raise KeyError(f"{', '.join(figures)}: no size has such a figure")
        if self.enough_bytes is not None:
            ax.axvline(self.enough_bytes, linestyle="--", color="gray", label=f"enough by {self['objective']}")
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter(lambda size, _: _size(size))
        ax.set_yscale("log")
        ax.set_xlabel(f"size of {self['device']}")
        ax.set_ylabel("ms" if all(name.endswith("_ms") for name in drawn) else "")
        ax.legend()
        return ax

    def _repr_html_(self) -> str:
        rows = []
        for point in self.points:
            mark = " *" if point["size_bytes"] == self.enough_bytes else ""
            figures = (_scaled(point, key, by) for _, key, by in _SIZE_COLUMNS)
            rows.append([_size(point["size_bytes"]) + mark, *figures])
        table = _table(rows, [self["device"], *(name for name, _, _ in _SIZE_COLUMNS)])
        answer = "".join(f"<p>{html.escape(sentence)}.</p>" for sentence in self["verdict"])
        return table + "<p>* enough</p>" + answer + "".join(f"<p>⚠ {html.escape(text)}</p>" for text in self.warnings)

    def __repr__(self) -> str:
        enough = "" if self.enough_bytes is None else f"; enough by {self['objective']}: {_size(self.enough_bytes)}"
        about = f"{self['device']!r} of {self['design']!r} under {self['trace']!r}"
        return f"SizeCurve({about}: {len(self['points'])} sizes{enough})"


class Lifetimes(Sequence[Answer]):
    """Lifetimes of an array for several shares of admitted misses (``admit``), in order."""

    __slots__ = ("_answers",)

    def __init__(self, answers: Sequence[Answer]) -> None:
        self._answers = list(answers)

    @overload
    def __getitem__(self, key: int) -> Answer: ...
    @overload
    def __getitem__(self, key: slice) -> "Lifetimes": ...
    def __getitem__(self, key: int | slice) -> "Answer | Lifetimes":
        return Lifetimes(self._answers[key]) if isinstance(key, slice) else self._answers[key]

    def __len__(self) -> int:
        return len(self._answers)

    def to_polars(self) -> "polars.DataFrame":
        """A data frame with a row for each share."""
        return _frame([_flat(answer) for answer in self._answers])

    def __repr__(self) -> str:
        return f"Lifetimes({', '.join(_number(answer['admit']) for answer in self._answers)})"


class Plan(Answer):
    """What to buy: the figures of ``peryton plan --json``. ``plan.best`` is the best design that meets the budgets, or None;
    ``plan["runners_up"]``, ``plan["budgets"]`` (what each budget costs) and ``plan["assumptions"]`` say more."""

    __slots__ = ()

    @property
    def best(self) -> Mapping[str, Any] | None:
        """The best design that meets the budgets; None if none does, and ``plan["infeasible"]`` says why."""
        return self.get("best")

    def to_polars(self) -> "polars.DataFrame":
        """A data frame with a row for each design that was simulated in full, from the best on."""
        return _frame([_flat(found) for found in self["simulated"]])

    def _repr_html_(self) -> str:
        names = ["meets", "mean_ms", "p99_ms", "lifetime_years", "power_w", "dollars", "ownership_usd"]
        rows = [[found["label"], *(found.get(name) for name in names)] for found in self["simulated"][:10]]
        summary = "no design meets the budgets" if self.best is None else f"buy {self.best['label']}"
        return f"<p>{html.escape(summary)}</p>" + _table(rows, ["design", *names])

    def __repr__(self) -> str:
        return f"Plan({'no design meets the budgets' if self.best is None else self.best['label']})"


class FleetPlan(Answer):
    """What to buy for many volumes: the figures of ``peryton plan --fleet --json``. ``plan["drives"]`` and ``plan["volumes"]`` have a
    row for each; ``plan["meets"]`` says whether all budgets are kept, and ``plan["infeasible"]`` why not."""

    __slots__ = ()

    def to_polars(self) -> "polars.DataFrame":
        """A data frame with a row for each volume."""
        return _frame([_flat(volume) for volume in self["volumes"]])

    def _repr_html_(self) -> str:
        names = ["drive", "stored_bytes", "flash_bytes", "predicted_mean_ms", "mean_ms", "fast_hit_ratio"]
        rows = [[volume["volume"], *(volume.get(name) for name in names)] for volume in self["volumes"][:10]]
        return f"<p>{html.escape(self._summary())}</p>" + _table(rows, ["volume", *names])

    def _summary(self) -> str:
        if not self["meets"]:
            return "no drives meet the budgets"
        return f"{len(self['volumes'])} volumes on {len(self['drives'])} drives for {self['usd']:.0f} USD"

    def __repr__(self) -> str:
        return f"FleetPlan({self._summary()})"
