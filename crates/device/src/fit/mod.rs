//! Fits a profile to requests that were measured on a device.
//!
//! The requests are halved by time. The first half is fitted: a search from several starts changes the values of a profile
//! until the model takes as long for the requests as the device did. The second half is only scored: nothing of it is read
//! before the profile is done. Beside it stands how far the latencies of the first half are from those of the second without any model:
//! a profile that is no nearer than that is of no use for such requests.

mod estimate;
mod knobs;
mod null;
mod program;
mod search;
mod written;

pub use crate::kind::Kind;
use knobs::Knob;
use peryton_units::{Bytes, Nanos, Op};
pub use program::{Knee, MeasuredFit, fit_measurement, knee};
use search::{Search, UNUSUAL};
use serde::Serialize;
use written::Written;

use crate::{
    Profile, ProfileError,
    validate::{Measured, Validation, footprint, model, most_in_flight, replay_on, replay_timed, score},
};

/// Requests of the fitted half that are replayed for each try at most: it bounds the time of a fit, whatever the trace.
pub const MOST_FITTED: usize = 50_000;
/// Fewer requests than this in a half say nothing about a distribution.
pub const LEAST_HALF: usize = 200;
/// Parts of the fitted half whose distributions count by themselves: a model that is right on the whole because two errors
/// cancel is wrong on them.
const PARTS: usize = 8;
/// Costs of a value that is not the usual one. Cross-validation chooses among them: it fits one window of the fitted half, and scores
/// the other.
const PENALTIES: [f64; 3] = [0.2 * UNUSUAL, UNUSUAL, 5.0 * UNUSUAL];
/// The share of the tries that goes to one fit of cross-validation, which has half of the requests.
const CROSS: u32 = 12;
/// What an error of the reads alone, and of the writes alone, costs in addition to that of all.
const CLASSES: [(Op, f64); 2] = [(Op::Read, 0.3), (Op::Write, 0.2)];

impl Kind {
    fn template(self) -> &'static str {
        match self {
            Kind::Disk => include_str!("disk.toml"),
            Kind::Flash => include_str!("flash.toml"),
            Kind::Fixed => include_str!("fixed.toml"),
        }
    }

    fn knobs(self) -> &'static [Knob] {
        match self {
            Kind::Disk => knobs::DISK,
            Kind::Flash => knobs::FLASH,
            Kind::Fixed => knobs::FIXED,
        }
    }

    fn table(self) -> &'static str {
        match self {
            Kind::Disk => "disk",
            Kind::Flash => "flash",
            Kind::Fixed => "fixed",
        }
    }
}

/// How to fit.
#[derive(Clone, Debug)]
pub struct FitOptions {
    /// The profile's name.
    pub name: String,
    /// Where the requests come from, for the profile's list of sources.
    pub source: String,
    /// The kind of model.
    pub kind: Kind,
    /// Addressable bytes; absent: a power of two that holds what the fitted half touches.
    pub capacity: Option<Bytes>,
    /// The number of models that are tried.
    pub tries: u32,
    /// The seed of what is drawn.
    pub seed: u64,
}

/// A fitted profile, and how far it is from the device.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The text of the profile.
    pub text: String,
    /// The profile.
    pub profile: Profile,
    /// The kind of its model.
    pub kind: Kind,
    /// The half that was fitted.
    pub fitted: Validation,
    /// The half that was not.
    pub other: Validation,
    /// The half that was not, beside the latencies of the one that was: what is known without a model.
    pub null: Validation,
    /// Of a measurement: the demerits of both halves as shares of their means, without the slowest of every 200 requests.
    pub without_slowest: Option<[f64; 2]>,
    /// The steps of the measurement, where it has any.
    pub steps: Vec<StepFit>,
    /// Models that were tried.
    pub tries: u32,
}

/// How the model did on one step of a measurement. A half may have no requests of it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StepFit {
    /// The step.
    pub step: String,
    /// Its fitted half.
    pub fitted: Validation,
    /// The half that was not.
    pub other: Validation,
}

impl StepFit {
    /// The half that was not fitted, or the one that was if the other has no requests of this step.
    pub fn shown(&self) -> &Validation {
        if self.other.requests > 0 { &self.other } else { &self.fitted }
    }
}

/// Fits a profile to the first half of these requests, which are in the order of their times, and scores it on the second.
/// `progress` gets the number of tries and the demerit so far.
///
/// # Errors
/// Too few requests, or requests past the capacity.
pub fn fit(requests: &[Measured], options: &FitOptions, progress: &dyn Fn(u32, f64)) -> Result<Fit, ProfileError> {
    let half = requests.len() / 2;
    let bad = |what: String| ProfileError::Parse { place: options.source.clone(), what };
    if half < LEAST_HALF {
        return Err(bad(format!(
            "{} requests are too few to fit one half and score the other: measure at least {}",
            requests.len(),
            2 * LEAST_HALF
        )));
    }
    let first = &requests[..half];
    let learnt = &first[..first.len().min(MOST_FITTED)];
    let capacity = options.capacity.unwrap_or_else(|| room(options.kind, learnt));
    let start = Profile::parse(&written::blank(options.kind, capacity), "the profile to fit")?;
    let knobs = options.kind.knobs();
    // A capacity that is too small is reported before the work.
    model(&start, learnt)?;
    let tries = options.tries.max(1);
    let (unusual, crossed) = penalty(&start, learnt, options);
    let cost = |places: &[f64]| distance_on(&start, knobs, places, learnt);
    let told = |tried: u32, cost: f64| progress(crossed + tried, cost);
    let search = Search::new(knobs, &cost, (options.seed, unusual), &told);
    let places = search.search((tries - crossed.min(tries)).max(1));
    let tries = crossed + search.found().0;
    let values = knobs::overrides(knobs, &places);
    let text = finished(options, capacity, learnt, &values)?;
    let profile = Profile::parse(&text, &options.name)?;
    let fitted = replay_on(&format!("{}, the half that was fitted", options.name), &profile, first)?;
    let other = other_half(options, &profile, requests, half, &values)?;
    let null = null::score(&options.name, first, &requests[half..]);
    Ok(Fit { text, profile, kind: options.kind, fitted, other, null, without_slowest: None, steps: Vec::new(), tries })
}

/// How far the model with values at these places is from the device on these requests; none: the model refuses them.
fn distance_on(start: &Profile, knobs: &[Knob], places: &[f64], requests: &[Measured]) -> Option<f64> {
    let profile = start.clone().with_model(&knobs::overrides(knobs, places)).ok()?;
    let mut device = model(&profile, requests).ok()?;
    Some(cost(requests, &replay_timed(&mut device, requests, most_in_flight(requests))))
}

/// The penalty on unusual values with which a fit to one window of the fitted half does best on the other, both ways, and the tries that
/// took: a fit that follows its window too closely does worse there.
fn penalty(start: &Profile, learnt: &[Measured], options: &FitOptions) -> (f64, u32) {
    let windows = learnt.split_at(learnt.len() / 2);
    let tries = options.tries / CROSS;
    let knobs = options.kind.knobs();
    if windows.0.len() < LEAST_HALF || (tries as usize) < knobs.len() {
        return (UNUSUAL, 0);
    }
    let mut best = (f64::INFINITY, UNUSUAL);
    let mut taken = 0;
    for unusual in PENALTIES {
        let mut apart = 0.0;
        for (fitted, kept) in [(windows.0, windows.1), (windows.1, windows.0)] {
            let cost = |places: &[f64]| distance_on(start, knobs, places, fitted);
            let search = Search::new(knobs, &cost, (options.seed, unusual), &|_, _| ());
            let places = search.search(tries);
            taken += search.found().0;
            apart += distance_on(start, knobs, &places, kept).unwrap_or(f64::INFINITY);
        }
        if apart < best.0 {
            best = (apart, unusual);
        }
    }
    (best.1, taken)
}

/// The second half, replayed after the first as it was on the device.
fn other_half(
    options: &FitOptions,
    profile: &Profile,
    requests: &[Measured],
    half: usize,
    values: &toml::Table,
) -> Result<Validation, ProfileError> {
    // What the second half touches may lie past what the first did; the drive is the same.
    let larger;
    let mut profile = profile;
    if footprint(requests) > profile.capacity && options.capacity.is_none() {
        let text = finished(options, room(options.kind, requests), requests, values)?;
        larger = Profile::parse(&text, &options.name)?;
        profile = &larger;
    }
    let mut device = model(profile, requests)?;
    let took = replay_timed(&mut device, requests, most_in_flight(requests));
    Ok(score(&format!("{}, the half that was not fitted", options.name), &requests[half..], &took[half..]))
}

/// The profile with the fitted values, and where each value comes from.
fn finished(
    options: &FitOptions,
    capacity: Bytes,
    learnt: &[Measured],
    values: &toml::Table,
) -> Result<String, ProfileError> {
    let source = written::one_line(&options.source);
    let keys: Vec<&str> = options.kind.knobs().iter().flat_map(|knob| knob.keys).copied().collect();
    Written {
        name: &options.name,
        kind: options.kind,
        capacity,
        source: format!("{source}: {} requests, of which the first half was fitted", learnt.len()),
        description: format!("fitted by peryton calibrate to {source}"),
        values,
        fitted: &keys,
        fitted_to: "the latencies of the first half of the requests in [1]",
        capacity_is: match options.capacity {
            Some(_) => "given: with the command",
            None => {
                "estimated: a power of two that holds every address of the fitted half (256 GiB for flash, if that is more)"
            }
        },
        measured: None,
    }
    .text()
}

/// A capacity that holds what requests touch. Seeks depend on the capacity of a disk, so that of a disk is no larger than it has to
/// be. Of flash, requests touch a part, whose blocks and spare are a share of a drive as they are sold.
fn room(kind: Kind, requests: &[Measured]) -> Bytes {
    let least = match kind {
        Kind::Disk | Kind::Fixed => Bytes::gib(1),
        Kind::Flash => Bytes::gib(256),
    };
    Bytes(footprint(requests).0.next_power_of_two()).max(least)
}

/// How far the model is from the device, on the whole and in each part, as a share of the mean.
fn cost(requests: &[Measured], took: &[Nanos]) -> f64 {
    let part = (requests.len() / PARTS).max(1);
    let parts: f64 =
        requests.chunks(part).zip(took.chunks(part)).take(PARTS).map(|(asked, took)| distance(asked, took)).sum();
    0.5 * distance(requests, took) + 0.5 * parts / PARTS as f64
}

/// The demerit as a share of the mean, and in addition those of the reads and of the writes.
fn distance(requests: &[Measured], took: &[Nanos]) -> f64 {
    let whole = score("", requests, took);
    let share = |demerit: f64, mean: f64| if mean > 0.0 { demerit / mean } else { 0.0 };
    let mut distance = share(whole.demerit_ms, whole.mean_ms);
    for (op, weight) in CLASSES {
        let class = if op == Op::Read { "read" } else { "write" };
        if let Some(found) = whole.classes.iter().find(|found| found.class == class) {
            // A kind with few requests counts little.
            let much = (found.requests as f64 / requests.len() as f64 * 4.0).min(1.0);
            distance += weight * much * share(found.demerit_ms, found.mean_ms);
        }
    }
    distance
}
