//! Miss-ratio curves.

use std::sync::Arc;

use peryton_sim::{CacheUnit, CurvePolicy, CurveSizes, Curves};
use peryton_units::{Bytes, Nanos};
use pyo3::{
    prelude::*,
    types::{PyDict, PyString},
};

use crate::{
    arguments::{Size, Time, given, json},
    error::InPython,
    policy,
    running::{Running, run, threads},
    trace::Trace,
};

/// The defaults, as in the command.
const BLOCK: Bytes = Bytes::kib(4);
const WINDOW: Nanos = Nanos::from_s(60);

/// Computes the curves; returns their rows as JSON. The arguments are those of `peryton.mrc`, which has their defaults.
#[pyfunction]
pub(crate) fn mrc(
    py: Python<'_>,
    trace: &Trace,
    arguments: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let policies: Vec<Bound<'_, PyAny>> = given(arguments, "policies")?.unwrap_or_default();
    let unit = match given::<Size>(arguments, "block")? {
        None if trace.opener.objects().in_python()?.is_some() => CacheUnit::Object,
        block => CacheUnit::Block(block.map_or(BLOCK, |size| size.0)),
    };
    let window = given::<Time>(arguments, "window")?.map_or(WINDOW, |time| time.0);
    let sizes: Option<Vec<Size>> = given(arguments, "sizes")?;
    let points: Option<u32> = given(arguments, "points")?;
    let rate: Option<f64> = given(arguments, "rate")?;
    let seed = given(arguments, "seed")?.unwrap_or(0);
    let sizes = match (points, sizes) {
        (Some(points), _) => CurveSizes::Points(points),
        (None, Some(sizes)) => CurveSizes::Given(sizes.into_iter().map(|size| size.0).collect()),
        (None, None) => CurveSizes::Doubling,
    };
    let policies = policies.iter().map(curve_policy).collect::<PyResult<Vec<_>>>()?;
    let curves = Curves { unit, sizes, policies, rate, seed, window };
    curves.check().in_python()?;
    let opener = trace.opener.clone();
    let work = |running: &Arc<Running>| {
        let open = || match curves.unit {
            CacheUnit::Object => opener.reporting_objects(running),
            CacheUnit::Block(_) => opener.reporting(running),
        };
        curves.of(&open, &|_| running.check())
    };
    json(&run(py, threads(given(arguments, "jobs")?)?, progress, work)?.in_python()?)
}

/// A policy, or the bound that only curves have.
fn curve_policy(policy: &Bound<'_, PyAny>) -> PyResult<CurvePolicy> {
    let optimal = policy.cast::<PyString>().is_ok_and(|name| name == "opt");
    if optimal { Ok(CurvePolicy::Optimal) } else { policy::replacement("policies", policy).map(CurvePolicy::from) }
}
