//! Simulations.

use std::{
    num::NonZeroU32,
    slice::from_ref,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use peryton_sim::{Design as Parsed, Fit, KeyValues, Options, Replay, Sampling, SimError, Swept, sweep};
use peryton_units::Nanos;
use pyo3::{prelude::*, types::PyDict};
use rayon::prelude::*;

use crate::{
    arguments::{Time, given, json, one_of, override_text, word},
    design::Design,
    error::{InPython, input},
    policy,
    running::{Running, run, threads},
    trace::Trace,
};

/// How requests arrive.
pub(crate) fn replay(replay: &str, speed: Option<f64>) -> PyResult<Replay> {
    word::<Replay>("replay", replay)?.at_speed(speed).in_python()
}

/// What to do with requests past the end of the volume.
pub(crate) fn fit(fit: &str) -> PyResult<Fit> {
    one_of("fit", fit, &Fit::NAMES)
}

/// A key of designs with values.
type Key<'py> = (String, Vec<Bound<'py, PyAny>>);

/// The designs with every combination of values of some keys.
fn swept(designs: &[PyRef<'_, Design>], keys: &[Key<'_>]) -> PyResult<Vec<Swept>> {
    let texts = |(key, values): &Key<'_>| {
        let values = values.iter().map(override_text).collect::<PyResult<Vec<_>>>()?;
        Ok(KeyValues { key: key.clone(), values })
    };
    let keys = keys.iter().map(texts).collect::<PyResult<Vec<_>>>()?;
    sweep(&designs.iter().map(|design| design.written()).collect::<Vec<_>>(), &keys).in_python()
}

/// Simulates the designs; returns their reports as JSON. The arguments are those of `peryton.simulate`, which has their defaults.
#[pyfunction]
pub(crate) fn simulate(
    py: Python<'_>,
    designs: Vec<PyRef<'_, Design>>,
    trace: &Trace,
    sweep: Vec<Key<'_>>,
    arguments: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let text = |name: &str, default: &str| -> PyResult<String> {
        Ok(given(arguments, name)?.unwrap_or_else(|| default.to_owned()))
    };
    let replay = self::replay(&text("replay", "timed")?, given(arguments, "speed")?)?;
    let new_volume = given(arguments, "new")?.unwrap_or(false);
    let warm_up_requests = given(arguments, "warm_up_requests")?.unwrap_or(0);
    let limit: Option<u64> = given(arguments, "limit")?;
    let interval: Option<Time> = given(arguments, "interval")?;
    let sample_seed = given(arguments, "sample_seed")?.unwrap_or(0);
    let replacement: Option<Bound<'_, PyAny>> = given(arguments, "replacement")?;
    let admission: Option<Bound<'_, PyAny>> = given(arguments, "admission")?;
    let interval = interval.map(|interval| interval.0);
    if interval == Some(Nanos::ZERO) {
        return Err(input("interval: give a time above 0, such as '1s'"));
    }
    let sample = given(arguments, "sample")?.map(|share| Sampling::new(share, sample_seed)).transpose();
    let sample = sample.map_err(|error| input(format!("sample: {error}")))?;
    let fit = self::fit(&text("fit", "error")?)?;
    let replications: Option<u32> = given(arguments, "replicate")?;
    let replications = replications
        .map(|runs| NonZeroU32::new(runs).ok_or_else(|| input("replicate 0: give the number of runs, 1 or more")))
        .transpose()?;
    if replications.is_some() && sample.is_some() {
        return Err(input("replicate: a sample has intervals of its own: leave replicate or sample out"));
    }
    let options = Options {
        replay,
        fit,
        new_volume,
        warm_up_requests,
        limit,
        interval,
        sample,
        replications,
        ..Options::default()
    };
    if designs.is_empty() {
        return Err(input("there is no design to simulate: give one"));
    }
    let policies = [(replacement.is_some(), "placement.replacement"), (admission.is_some(), "admission.by")];
    if let Some((_, key)) = policies.iter().find(|(given, name)| *given && sweep.iter().any(|(key, _)| key == name)) {
        return Err(input(format!("sweep {key}: a class is given in its place as well: leave one of them out")));
    }
    let (mut parsed, values): (Vec<Parsed>, Vec<_>) = match &sweep[..] {
        [] => (designs.iter().map(|design| design.parsed()).collect::<PyResult<_>>()?, Vec::new()),
        keys => swept(&designs, keys)?.into_iter().map(|one| (one.design, one.values)).unzip(),
    };
    if let Some(replacement) = &replacement {
        let replacement = policy::replacement("replacement", replacement)?;
        parsed.iter_mut().try_for_each(|design| design.use_replacement(replacement)).in_python()?;
    }
    if let Some(admission) = &admission {
        let admission = policy::admission("admission", admission)?;
        parsed.iter_mut().try_for_each(|design| design.use_admission(admission)).in_python()?;
    }
    let parsed = peryton_sim::with_shared_images(&parsed);
    let is_python = replacement.is_some() || admission.is_some();
    let opener = trace.opener.clone();
    let jobs = threads(given(arguments, "jobs")?)?;
    let requests = opener
        .requests()
        .map_or(0, |requests| requests.min(limit.unwrap_or(u64::MAX)).saturating_mul(parsed.len() as u64));
    let work = |running: &Arc<Running>| {
        let trace = || opener.stoppable(running);
        let simulated = |designs: &[Parsed], told: &(dyn Fn(u64) + Sync)| {
            peryton_sim::run(designs, &opener.name, &trace, &options, told)
        };
        if !is_python {
            return simulated(&parsed, &|done| running.report("requests simulated", done, requests));
        }
        // Many designs have threads which Python does not know: it would take a policy of Python longer to begin on them than it takes
        // to read the trace for each design.
        let all = AtomicU64::new(0);
        let one = |design: &Parsed| {
            let before = AtomicU64::new(0);
            simulated(from_ref(design), &|done| {
                // Replicas report from several threads, so a smaller sum may come after a larger one.
                let more = done.saturating_sub(before.fetch_max(done, Relaxed));
                running.report("requests simulated", all.fetch_add(more, Relaxed) + more, requests);
            })
        };
        let reports = parsed.par_iter().map(one).collect::<Result<Vec<_>, SimError>>()?;
        Ok(reports.into_iter().flatten().collect())
    };
    let mut reports = run(py, jobs, progress, work)?.map_err(|error: SimError| error).in_python()?;
    reports.iter_mut().zip(values.clone()).for_each(|(report, values)| report.sweep = values);
    json(&reports)
}
