//! Fits a profile to requests that were measured on a device.
//!
//! The requests are halved by time. The first half is fitted: a search from several starts changes the values of a profile
//! until the model takes as long for the requests as the device did. The second half is only scored: nothing of it is read
//! before the profile is done. Beside it stands how far the latencies of the first half are from those of the second without any model:
//! a profile that is no nearer than that is of no use for such requests.

mod direct;
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
use search::Search;
use serde::Serialize;
use written::Written;

use crate::{
    Profile, ProfileError,
    measure::SLOWEST,
    validate::{Measured, Validation, footprint, model, most_in_flight, replay_timed, score},
};

/// Requests of the fitted half that are replayed for each try at most: it bounds the time of a fit, whatever the trace.
pub const MOST_FITTED: usize = 50_000;
/// Fewer requests than this in a half say nothing about a distribution.
pub const LEAST_HALF: usize = 200;
/// Parts of the fitted half whose distributions count by themselves: a model that is right on the whole because two errors
/// cancel is wrong on them. The search fits to the even ones, and chooses by the odd ones.
const PARTS: usize = 8;
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

    /// The values to search for, near what these requests say directly.
    fn near(self, requests: &[Measured]) -> Vec<Knob> {
        match self {
            Kind::Flash => direct::flash(self.knobs(), requests),
            Kind::Disk | Kind::Fixed => self.knobs().to_vec(),
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
    /// The same demerits as shares of the means, without the slowest of every 200 requests: those of the fitted half, of the other, and of
    /// that without a model.
    pub without_slowest: [f64; 3],
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
    let knobs = &options.kind.near(learnt)[..];
    // A capacity that is too small is reported before the work.
    model(&start, learnt)?;
    let tries = options.tries.max(1);
    let cost = |places: &[f64]| distances_on(&start, knobs, places, learnt);
    let search = Search::new(knobs, &cost, options.seed, progress);
    let places = search.search(tries);
    let tries = search.found().0;
    let values = knobs::overrides(knobs, &places);
    let text = finished(options, capacity, learnt, &values)?;
    let profile = Profile::parse(&text, &options.name)?;
    let took = replay_timed(&mut model(&profile, first)?, first, most_in_flight(first));
    let (fitted, fitted_body) = scored(&format!("{}, the half that was fitted", options.name), first, &took);
    let (other, other_body) = other_half(options, &profile, requests, half, &values)?;
    let (null, null_body) = null::score(&options.name, first, &requests[half..]);
    let without_slowest = [fitted_body, other_body, null_body];
    Ok(Fit { text, profile, kind: options.kind, fitted, other, null, without_slowest, steps: Vec::new(), tries })
}

/// How far the model with values at these places is from the device on the even and on the odd parts of these requests; none: the model
/// refuses them.
fn distances_on(start: &Profile, knobs: &[Knob], places: &[f64], requests: &[Measured]) -> Option<[f64; 2]> {
    let profile = start.clone().with_model(&knobs::overrides(knobs, places)).ok()?;
    let mut device = model(&profile, requests).ok()?;
    Some(costs(requests, &replay_timed(&mut device, requests, most_in_flight(requests))))
}

/// The second half, replayed after the first as it was on the device.
fn other_half(
    options: &FitOptions,
    profile: &Profile,
    requests: &[Measured],
    half: usize,
    values: &toml::Table,
) -> Result<(Validation, f64), ProfileError> {
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
    Ok(scored(&format!("{}, the half that was not fitted", options.name), &requests[half..], &took[half..]))
}

/// The distances of all requests, and that without the slowest.
fn scored(name: &str, requests: &[Measured], took: &[Nanos]) -> (Validation, f64) {
    (score(name, requests, took), without_slowest(&sorted(requests, took, None)).unwrap_or(0.0))
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

/// How far the model is from the device on the even and on the odd parts, as shares of the means: half of it on all of them together, and
/// half of it on each.
fn costs(requests: &[Measured], took: &[Nanos]) -> [f64; 2] {
    let part = (requests.len() / PARTS).max(1);
    [0, 1].map(|set| {
        let (mut all, mut all_took, mut each) = (Vec::new(), Vec::new(), 0.0);
        for (asked, took) in requests.chunks(part).zip(took.chunks(part)).take(PARTS).skip(set).step_by(2) {
            each += distance(asked, took);
            all.extend_from_slice(asked);
            all_took.extend_from_slice(took);
        }
        0.5 * distance(&all, &all_took) + 0.5 * each / (PARTS / 2) as f64
    })
}

/// The demerit as a share of the mean, and in addition those of the reads and of the writes.
fn distance(requests: &[Measured], took: &[Nanos]) -> f64 {
    let mut distance = without_slowest(&sorted(requests, took, None)).unwrap_or(0.0);
    for (op, weight) in CLASSES {
        let class = sorted(requests, took, Some(op));
        // A kind with few requests counts little.
        let much = (class.0.len() as f64 / requests.len() as f64 * 4.0).min(1.0);
        distance += weight * much * without_slowest(&class).unwrap_or(0.0);
    }
    distance
}

/// The latencies of one kind of request, or of all, rising: those of the device, and those of the model.
fn sorted(requests: &[Measured], took: &[Nanos], op: Option<Op>) -> (Vec<u64>, Vec<u64>) {
    let of = requests.iter().zip(took).filter(|(request, _)| op.is_none_or(|op| request.io.op == op));
    let (mut measured, mut modelled): (Vec<u64>, Vec<u64>) =
        of.map(|(request, took)| (request.latency.0, took.0)).unzip();
    measured.sort_unstable();
    modelled.sort_unstable();
    (measured, modelled)
}

/// The demerit as a share of the mean, without the slowest requests of both: single events of a thousand times the usual latency weigh more
/// in a root mean square than everything else, and say nothing about values.
fn without_slowest((measured, modelled): &(Vec<u64>, Vec<u64>)) -> Option<f64> {
    let kept = measured.len() - measured.len().div_ceil(SLOWEST);
    let pairs = measured[..kept].iter().zip(&modelled[..kept]);
    let squares: f64 = pairs.map(|(&a, &b)| (a as f64 - b as f64).powi(2)).sum();
    let mean = measured[..kept].iter().sum::<u64>() as f64 / kept as f64;
    (kept > 0 && mean > 0.0).then(|| (squares / kept as f64).sqrt() / mean)
}
