//! What to buy: the planner, and the greenest devices.

use std::{collections::BTreeMap, sync::Arc};

use peryton_device::{Era, PriceList};
use peryton_plan::{
    capacity::{
        self, Active, Ask, Catalogue, FILL_LIMIT, FillLimit, Flash, OWN_PRICE, PlanError, Protection, Spares, Workload,
    },
    constraint::{Constraint, Metric},
    energy::{Accesses, Order, Policy, Question, Unneeded, Zone},
    evaluate::Account,
};
use peryton_sim::{Options, Redundancy, TraceFactory};
use peryton_units::{Nanos, SECONDS_PER_YEAR};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    arguments::{Size, Time, given, json, one_of, pairs, word, word_given},
    error::{InPython, input},
    running::{Running, run, threads},
    simulate,
    trace::Trace,
};

/// Makes a plan; returns it as JSON. The arguments are those of `peryton.plan`, which has their defaults.
#[pyfunction]
pub(crate) fn plan(
    py: Python<'_>,
    trace: &Trace,
    arguments: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let ask = ask(arguments)?;
    let warm_up_requests: Option<u64> = given(arguments, "warm_up_requests")?;
    let catalogue = catalogue(arguments)?;
    let opener = trace.opener.clone();
    let work = |running: &Arc<Running>| -> Result<_, PlanError> {
        let report = |what: &str, done: u64, of: u64| running.report(what, done, of);
        let open = || opener.stoppable(running);
        report("reading the trace", 0, 0);
        let workload = Workload::measure(&opener.name, &open)?;
        let mut ask = ask;
        ask.options.warm_up_requests = warm_up_requests.unwrap_or_else(|| workload.warm_up_requests());
        capacity::plan(&ask, &catalogue, &workload, &report)
    };
    json(&run(py, threads(given(arguments, "jobs")?)?, progress, work)?.in_python()?)
}

/// What is asked of a planner.
pub(crate) fn ask(arguments: &Bound<'_, PyDict>) -> PyResult<Ask> {
    let latency: Option<Time> = given(arguments, "latency")?;
    let lifetime: Option<Time> = given(arguments, "lifetime")?;
    let subject_to: Vec<String> = given(arguments, "subject_to")?.unwrap_or_default();
    let constraints = Constraint::gather(latency.map(|time| time.0), lifetime.map(|time| time.0), &subject_to);
    let constraints = constraints.map_err(input)?;
    let run_for: Nanos =
        given::<Time>(arguments, "run_for")?.map_or_else(|| word("run_for", "5y"), |time| Ok(time.0))?;
    if run_for == Nanos::ZERO {
        return Err(input("run_for 0s: give a time such as '5y'"));
    }
    let electricity: f64 = given(arguments, "electricity")?.unwrap_or(0.12);
    if !(electricity >= 0.0 && electricity.is_finite()) {
        return Err(input(format!("electricity {electricity}: use a price such as 0.12")));
    }
    let duty: f64 = given(arguments, "duty")?.unwrap_or(1.0);
    if !(duty > 0.0 && duty <= 1.0) {
        return Err(input(format!("duty {duty}: give a share above 0 and up to 1, such as 0.05")));
    }
    let replay: String = given(arguments, "replay")?.unwrap_or_else(|| "timed".to_owned());
    let replay = simulate::replay(&replay, given(arguments, "speed")?)?;
    Ok(Ask {
        constraints,
        objective: word_given::<Metric>(arguments, "objective")?.unwrap_or(Metric::Dollars),
        capacity: given::<Size>(arguments, "capacity")?.map(|size| size.0),
        active: word_given::<Active>(arguments, "active")?,
        most: given(arguments, "most")?.unwrap_or(8),
        runners_up: given(arguments, "runners_up")?.unwrap_or(3),
        protection: protection(arguments)?,
        flash: word_given::<Flash>(arguments, "flash")?.unwrap_or_default(),
        flash_need: given(arguments, "flash_need")?.unwrap_or(true),
        account: Account { years: run_for.as_s_f64() / SECONDS_PER_YEAR, usd_per_kwh: electricity },
        duty,
        options: Options { replay, ..Options::default() },
    })
}

/// Devices with their prices, those owned, and their failure rates.
pub(crate) fn catalogue(arguments: &Bound<'_, PyDict>) -> PyResult<Catalogue> {
    let devices: Vec<String> = given(arguments, "devices")?.unwrap_or_default();
    let prices: Option<BTreeMap<String, f64>> = given(arguments, "prices")?;
    let era = word_given::<Era>(arguments, "era")?.unwrap_or_default();
    let owned = pairs(given(arguments, "own")?);
    let prices = prices.into_iter().flatten();
    let prices = prices.fold(PriceList::default(), |list, (name, usd)| list.with(&name, usd, OWN_PRICE));
    let mut catalogue = Catalogue::with_owned(&devices, &prices, &owned, &era).in_python()?;
    for (name, rate) in pairs(given(arguments, "afr")?) {
        catalogue.fails(&name, rate).in_python()?;
    }
    Ok(catalogue)
}

fn protection(arguments: &Bound<'_, PyDict>) -> PyResult<Protection> {
    let redundancy = word_given::<Redundancy>(arguments, "redundancy")?.unwrap_or(Redundancy::None);
    let fast = word_given::<Redundancy>(arguments, "fast_redundancy")?;
    let slow = word_given::<Redundancy>(arguments, "slow_redundancy")?;
    Ok(Protection {
        fast: fast.unwrap_or(redundancy),
        slow: slow.unwrap_or(redundancy),
        copies: fast.is_some(),
        spares: word_given::<Spares>(arguments, "spares")?.map_or_else(|| word("spares", "0"), Ok)?,
        fill_limit: word_given::<FillLimit>(arguments, "fill_limit")?.unwrap_or(FillLimit(FILL_LIMIT)).0,
        replace_within: given::<Time>(arguments, "replace_within")?.map(|time| time.0),
    })
}

/// Ranks devices by energy or cost; returns the answer as JSON. The arguments are those of `peryton.energy`.
#[pyfunction]
#[pyo3(signature = (trace, arguments, progress))]
pub(crate) fn energy(
    py: Python<'_>,
    trace: Option<&Trace>,
    arguments: &Bound<'_, PyDict>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let accesses = [
        ("seq-read", Accesses::SeqRead),
        ("seq-write", Accesses::SeqWrite),
        ("rand-read", Accesses::RandRead),
        ("rand-write", Accesses::RandWrite),
        ("rand-mixed", Accesses::RandMixed),
    ];
    let zones = [("head", Zone::Head), ("tail", Zone::Tail)];
    let unneeded = [
        ("best", Unneeded::Best),
        ("idle", Unneeded::Always(Policy::Idle)),
        ("standby", Unneeded::Always(Policy::Standby)),
        ("all-active", Unneeded::Always(Policy::AllActive)),
    ];
    let text = |name: &str, default: &str| -> PyResult<String> {
        Ok(given(arguments, name)?.unwrap_or_else(|| default.to_owned()))
    };
    let size = |name: &str| -> PyResult<_> { Ok(given::<Size>(arguments, name)?.map(|size| size.0)) };
    let question = Question {
        peak: size("peak")?,
        average: size("average")?,
        capacity: size("capacity")?,
        accesses: one_of("workload", &text("workload", "seq-read")?, &accesses)?,
        zone: one_of("zone", &text("zone", "head")?, &zones)?,
        request_size: size("request_size")?,
        queue_depth: given(arguments, "queue_depth")?,
        devices: given(arguments, "devices")?.unwrap_or_default(),
        era: word_given::<Era>(arguments, "era")?.unwrap_or_default(),
        prices: pairs(given(arguments, "prices")?),
        failure_rates: pairs(given(arguments, "afr")?),
        alpha: given(arguments, "alpha")?.unwrap_or(1.0),
        unneeded: one_of("policy", &text("policy", "best")?, &unneeded)?,
        run_for: given::<Time>(arguments, "run_for")?.map(|time| time.0),
        usd_per_kwh: given(arguments, "electricity")?.unwrap_or(0.12),
        shelf_w_per_device: given(arguments, "shelf_power")?.unwrap_or(0.0),
        emerald: given(arguments, "emerald")?.unwrap_or(false),
        order: one_of("by", &text("by", "energy")?, &[("energy", Order::Energy), ("cost", Order::Cost)])?,
        model: given(arguments, "model")?.unwrap_or(false),
        mixed: given(arguments, "mixed")?.unwrap_or(false),
    };
    question.check().in_python()?;
    let opener = trace.map(|trace| trace.opener.clone());
    if opener.is_none() && (question.peak.is_none() || question.average.is_none() || question.capacity.is_none()) {
        return Err(input("give peak, average and capacity, or a trace on which they are measured"));
    }
    let work = |running: &Arc<Running>| {
        let Some(opener) = &opener else { return question.answer(None) };
        let open = || opener.reporting(running);
        question.answer(Some((&opener.name, &open as &TraceFactory<'_>)))
    };
    json(&run(py, threads(given(arguments, "jobs")?)?, progress, work)?.in_python()?)
}
