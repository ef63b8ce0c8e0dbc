//! Miss-ratio curves.

use std::sync::Arc;

use peryton_sim::{CurvePolicy, CurveSizes, Curves};
use pyo3::{prelude::*, types::PyString};

use crate::{
    arguments::{Size, Time, json},
    error::InPython,
    policy,
    running::{Running, run, threads},
    trace::Trace,
};

/// Computes the curves; returns their rows as JSON.
#[pyfunction]
#[pyo3(signature = (trace, *, policies, block, sizes, points, rate, window, jobs, progress))]
#[allow(clippy::too_many_arguments)]
pub(crate) fn mrc(
    py: Python<'_>,
    trace: &Trace,
    policies: Vec<Bound<'_, PyAny>>,
    block: Size,
    sizes: Option<Vec<Size>>,
    points: Option<u32>,
    rate: Option<f64>,
    window: Time,
    jobs: Option<usize>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let sizes = match (points, sizes) {
        (Some(points), _) => CurveSizes::Points(points),
        (None, Some(sizes)) => CurveSizes::Given(sizes.into_iter().map(|size| size.0).collect()),
        (None, None) => CurveSizes::Doubling,
    };
    let policies = policies.iter().map(curve_policy).collect::<PyResult<Vec<_>>>()?;
    let curves = Curves { block: block.0, sizes, policies, rate, window: window.0 };
    curves.check().in_python()?;
    let opener = trace.opener.clone();
    let work = |running: &Arc<Running>| curves.of(&|| opener.reporting(running), &|_| running.check());
    json(&run(py, threads(jobs)?, progress, work)?.in_python()?)
}

/// A policy, or the bound that only curves have.
fn curve_policy(policy: &Bound<'_, PyAny>) -> PyResult<CurvePolicy> {
    let optimal = policy.cast::<PyString>().is_ok_and(|name| name == CurvePolicy::Optimal.name());
    if optimal { Ok(CurvePolicy::Optimal) } else { policy::replacement(policy).map(CurvePolicy::from) }
}
