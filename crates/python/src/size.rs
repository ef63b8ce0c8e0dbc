//! A design against the size of its fast device.

use std::sync::Arc;

use peryton_plan::{
    capacity::{PlanError, Workload},
    constraint::Metric,
    evaluate::Account,
    size::{Ask, POINTS, SizeCurve, SizeError, Sizes, WITHIN, size as curve, within as share},
};
use peryton_sim::Options;
use peryton_units::{Nanos, SECONDS_PER_YEAR};
use pyo3::{
    prelude::*,
    types::{PyDict, PyString},
};

use crate::{
    arguments::{Size, Time, given, json, taken, word, word_given},
    design::Design,
    error::{InPython, input},
    running::{Running, run, threads},
    simulate,
    trace::Trace,
};

/// Simulates a design with several sizes of its fast device; returns the curve as JSON. The arguments are those of
/// `peryton.size`, which has their defaults.
#[pyfunction]
pub(crate) fn size(
    py: Python<'_>,
    design: PyRef<'_, Design>,
    trace: &Trace,
    arguments: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let replay: String = given(arguments, "replay")?.unwrap_or_else(|| "timed".to_owned());
    let fit: String = given(arguments, "fit")?.unwrap_or_else(|| "error".to_owned());
    let new_volume: bool = given(arguments, "new")?.unwrap_or(false);
    let warm_up_requests: Option<u64> = given(arguments, "warm_up_requests")?;
    let options = Options {
        replay: simulate::replay(&replay, given(arguments, "speed")?)?,
        fit: simulate::fit(&fit)?,
        new_volume,
        warm_up_requests: warm_up_requests.unwrap_or(0),
        limit: given(arguments, "limit")?,
        ..Options::default()
    };
    let run_for: Nanos =
        given::<Time>(arguments, "run_for")?.map_or_else(|| word("run_for", "5y"), |time| Ok(time.0))?;
    if run_for == Nanos::ZERO {
        return Err(input("run_for 0s: give a time such as '5y'"));
    }
    let within = match given::<Bound<'_, PyAny>>(arguments, "within")? {
        Some(given) => share(&given.str()?.to_string()).map_err(|error| input(format!("within: {error}")))?,
        None => WITHIN,
    };
    let electricity = design.parsed()?.electricity_usd_per_kwh;
    let (design, overrides) = design.written();
    let ask = Ask {
        design,
        overrides,
        sizes: given::<Bound<'_, PyAny>>(arguments, "sizes")?.map_or(Ok(Sizes::Chosen), |sizes| self::sizes(&sizes))?,
        points: given(arguments, "points")?.unwrap_or(POINTS),
        objective: word_given::<Metric>(arguments, "objective")?.unwrap_or(Metric::Latency),
        within,
        usd_per_ms: given(arguments, "usd_per_ms")?,
        account: Account { years: run_for.as_s_f64() / SECONDS_PER_YEAR, usd_per_kwh: electricity },
        options,
    };
    ask.check().in_python()?;
    let opener = trace.opener.clone();
    let work = |running: &Arc<Running>| -> Result<Result<SizeCurve, SizeError>, PlanError> {
        let report = |what: &str, done: u64, of: u64| running.report(what, done, of);
        let open = || opener.stoppable(running);
        report("reading the trace", 0, 0);
        let workload = Workload::measure(&opener.name, &open)?;
        let mut ask = ask;
        if warm_up_requests.is_none() {
            ask.options.warm_up_requests = ask.warm_up_requests(&workload);
        }
        Ok(curve(&ask, &workload, &report))
    };
    json(&run(py, threads(given(arguments, "jobs")?)?, progress, work)?.in_python()?.in_python()?)
}

/// A text such as `1GiB..4GiB` or `1GiB,2GiB`, or several sizes.
fn sizes(sizes: &Bound<'_, PyAny>) -> PyResult<Sizes> {
    if let Ok(text) = sizes.cast::<PyString>() {
        return word("sizes", &text.to_string());
    }
    let sizes = sizes.try_iter()?.map(|size| Ok(taken::<Size>("sizes", &size?)?.0));
    sizes.collect::<PyResult<Vec<_>>>().map(Sizes::Given)
}
