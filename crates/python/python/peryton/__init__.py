"""Plan and simulate hybrid drives: disk and flash, or fast and cheap flash, behind one block device.

>>> import peryton
>>> trace = peryton.Trace("examples/traces/pgbench-ext4.parquet")
>>> report = peryton.simulate("examples/papers/tiering.toml", trace, replay="qd=8", fit="wrap")
>>> report["latency_us.all.p99"]  # doctest: +SKIP

The figures are those of the command ``peryton`` for the same input, to the last digit: both call the same libraries.
``docs/python.md`` of the repository is a tutorial.
"""

from ._api import energy, lifetime, mrc, plan, plan_fleet, simulate, size
from ._design import Design, design_keys
from ._keys import DesignKeys
from ._live import extents
from ._native import Candidates, Capacity, InputError, SimulationError, __version__, formats, profiles
from ._policy import DISCARD, FLUSH, READ, WRITE, AdmissionRule, ReplacementPolicy, admission_rules, replacement_policies
from ._report import Answer, Curves, FleetPlan, Lifetimes, Plan, Report, Reports, SizeCurve, report_schema
from ._sweep import Sweep, rows, sweep
from ._trace import Trace

__all__ = [
    "DISCARD",
    "FLUSH",
    "READ",
    "WRITE",
    "AdmissionRule",
    "Answer",
    "Candidates",
    "Capacity",
    "Curves",
    "Design",
    "DesignKeys",
    "FleetPlan",
    "InputError",
    "Lifetimes",
    "Plan",
    "ReplacementPolicy",
    "Report",
    "Reports",
    "SimulationError",
    "SizeCurve",
    "Sweep",
    "Trace",
    "__version__",
    "admission_rules",
    "design_keys",
    "energy",
    "extents",
    "formats",
    "lifetime",
    "mrc",
    "plan",
    "plan_fleet",
    "profiles",
    "replacement_policies",
    "report_schema",
    "rows",
    "simulate",
    "size",
    "sweep",
]
