//! Fits a profile to requests that were measured on a device.
//!
//! The requests are halved by time. The first half is fitted: simulated annealing (argmin) changes the values of a profile
//! until the model takes as long for the requests as the device did. The second half is only scored: nothing of it is read
//! before the profile is done.

mod knobs;

use std::{cell::RefCell, fmt::Write as _};

use argmin::{
    core::{CostFunction, Error, Executor, State},
    solver::simulatedannealing::{Anneal, SATempFunc, SimulatedAnnealing},
};
use knobs::Knob;
use peryton_units::{Bytes, Nanos, Op};
use rand_xoshiro::{
    Xoshiro256PlusPlus,
    rand_core::{RngCore, SeedableRng},
};
use serde::Serialize;

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
/// What an error of the reads alone, and of the writes alone, costs in addition to that of all.
const CLASSES: [(Op, f64); 2] = [(Op::Read, 0.3), (Op::Write, 0.2)];
/// What a value costs that is e times the usual one or an e-th of it: it decides where requests do not.
const UNUSUAL: f64 = 0.006;
/// The share of the tries that are drawn from everywhere, before those near the best.
const ANYWHERE: u32 = 10;
/// The share of the tries at the end that change one value at a time.
const POLISH: u32 = 3;
/// Differences of cost at which annealing begins, and their fall by the last try.
const FIRST_TEMPERATURE: f64 = 0.002;
const LAST_TEMPERATURE: f64 = 0.01;
/// The cost of what the model refuses.
const REFUSED: f64 = 1e6;

/// The kind of model to fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A magnetic disk.
    Disk,
    /// A flash drive.
    Flash,
}

impl Kind {
    /// What these requests were measured on: no flash takes milliseconds for the typical read, and no disk does not.
    pub fn of(requests: &[Measured]) -> Kind {
        const SLOW: Nanos = Nanos(1_500_000);
        let mut alone: Vec<Nanos> = Vec::new();
        let mut until = Nanos::ZERO;
        for request in requests.iter().filter(|request| request.io.op == Op::Read) {
            // With others in flight the latency would say how many they are.
            if request.at >= until {
                alone.push(request.latency);
            }
            until = until.max(request.at + request.latency);
        }
        alone.sort_unstable();
        match alone.get(alone.len() / 2) {
            Some(&median) if median >= SLOW => Kind::Disk,
            _ => Kind::Flash,
        }
    }

    fn template(self) -> &'static str {
        match self {
            Kind::Disk => include_str!("disk.toml"),
            Kind::Flash => include_str!("flash.toml"),
        }
    }

    fn knobs(self) -> &'static [Knob] {
        match self {
            Kind::Disk => knobs::DISK,
            Kind::Flash => knobs::FLASH,
        }
    }

    fn table(self) -> &'static str {
        match self {
            Kind::Disk => "disk",
            Kind::Flash => "flash",
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
    /// The half that was fitted.
    pub fitted: Validation,
    /// The half that was not.
    pub other: Validation,
    /// Models that were tried.
    pub tries: u32,
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
    let start = Profile::parse(&blank(options, capacity), "the profile to fit")?;
    let bench = Bench {
        start: &start,
        knobs: options.kind.knobs(),
        requests: learnt,
        in_flight: most_in_flight(learnt),
        state: RefCell::new(Progress { tries: 0, best: f64::INFINITY }),
        random: RefCell::new(Xoshiro256PlusPlus::seed_from_u64(options.seed)),
        progress,
    };
    // A capacity that is too small is reported before the work.
    model(&start, learnt)?;
    let places = bench.search(options.tries.max(1), options.seed);
    let tries = bench.state.borrow().tries;
    let values = knobs::overrides(options.kind.knobs(), &places);
    let text = finished(options, capacity, learnt, &values)?;
    let profile = Profile::parse(&text, &options.name)?;
    let fitted = replay_on(&format!("{}, the half that was fitted", options.name), &profile, first)?;
    let other = other_half(options, &profile, requests, half, &values)?;
    Ok(Fit { text, profile, fitted, other, tries })
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

/// A capacity that holds what requests touch. Seeks depend on the capacity of a disk, so that of a disk is no larger than it has to
/// be. Of flash, requests touch a part, whose blocks and spare are a share of a drive as they are sold.
fn room(kind: Kind, requests: &[Measured]) -> Bytes {
    let least = match kind {
        Kind::Disk => Bytes::gib(1),
        Kind::Flash => Bytes::gib(256),
    };
    Bytes(footprint(requests).0.next_power_of_two()).max(least)
}

/// The profile before it is fitted.
fn blank(options: &FitOptions, capacity: Bytes) -> String {
    let text = options.kind.template().replacen("class =", &format!("capacity = \"{}B\"\nclass =", capacity.0), 1);
    text.replace("capacity = \"1GiB\"", &format!("capacity = \"{}B\"", capacity.0))
}

/// The profile with the fitted values, and where each value comes from.
fn finished(
    options: &FitOptions,
    capacity: Bytes,
    learnt: &[Measured],
    values: &toml::Table,
) -> Result<String, ProfileError> {
    let bad = |what: String| ProfileError::Parse { place: options.name.clone(), what };
    let mut table: toml::Table = blank(options, capacity).parse().map_err(|error| bad(format!("{error}")))?;
    let model = options.kind.table();
    if let Some(toml::Value::Table(model)) = table.get_mut(model) {
        replace(model, values);
    }
    let text = |text: String| toml::Value::String(text);
    table.insert("name".into(), text(options.name.clone()));
    table.insert("description".into(), text(format!("fitted by peryton calibrate to {}", one_line(&options.source))));
    let source =
        format!("{}: {} requests, of which the first half was fitted", one_line(&options.source), learnt.len());
    table.insert("sources".into(), toml::Value::Array(vec![text(source)]));
    let mut out = String::new();
    // Plain values come before tables in TOML.
    let (tables, plain): (Vec<_>, Vec<_>) = table.into_iter().partition(|(_, value)| value.is_table());
    let ordered = toml::Table::from_iter(plain.into_iter().chain(tables));
    out += &toml::to_string(&ordered).map_err(|error| bad(error.to_string()))?;
    let mut fitted: Vec<String> = Vec::new();
    let mut rest: Vec<String> = Vec::new();
    let profile = Profile::parse(&out, &options.name)?;
    let keys: Vec<&str> = options.kind.knobs().iter().flat_map(|knob| knob.keys).copied().collect();
    for (path, _) in profile.provenance.values().filter(|(path, _)| path.starts_with(model)) {
        let inner = &path[model.len() + 1..];
        let is = |key: &&str| inner == *key || inner.strip_prefix(*key).is_some_and(|rest| rest.starts_with('.'));
        if keys.iter().any(is) { fitted.push(path.to_owned()) } else { rest.push(path.to_owned()) }
    }
    let _ = writeln!(out, "\n[provenance]");
    let _ = writeln!(
        out,
        "{} = \"fitted: to the latencies of the first half of the requests in [1]\"",
        toml::Value::String(fitted.join(", "))
    );
    let _ = writeln!(
        out,
        "{} = \"estimated: usual for such a device; latencies say nothing about it\"",
        toml::Value::String(rest.join(", "))
    );
    let why = match options.capacity {
        Some(_) => "given: with the command",
        None => {
            "estimated: a power of two that holds every address of the fitted half (256 GiB for flash, if that is more)"
        }
    };
    let _ = writeln!(out, "\"capacity\" = \"{why}\"");
    Ok(out)
}

fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(200).collect()
}

fn replace(table: &mut toml::Table, values: &toml::Table) {
    for (key, value) in values {
        match (table.get_mut(key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) if !new.contains_key("after_read") => {
                replace(old, new)
            }
            _ => {
                table.insert(key.clone(), value.clone());
            }
        }
    }
}

struct Progress {
    tries: u32,
    best: f64,
}

/// Tries values on the fitted half.
struct Bench<'a> {
    start: &'a Profile,
    knobs: &'a [Knob],
    requests: &'a [Measured],
    in_flight: usize,
    state: RefCell<Progress>,
    random: RefCell<Xoshiro256PlusPlus>,
    progress: &'a dyn Fn(u32, f64),
}

impl Bench<'_> {
    /// A number from 0 to below 1.
    fn draw(&self) -> f64 {
        (self.random.borrow_mut().next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn search(&self, tries: u32, seed: u64) -> Vec<f64> {
        let usual: Vec<f64> = self.knobs.iter().map(Knob::usual_place).collect();
        let mut best = (self.try_places(&usual), usual);
        let anywhere = tries / ANYWHERE;
        for _ in 0..anywhere {
            let places: Vec<f64> = self.knobs.iter().map(|_| self.draw()).collect();
            let cost = self.try_places(&places);
            if cost < best.0 {
                best = (cost, places);
            }
        }
        let steps = u64::from((tries - anywhere - tries / POLISH).max(1));
        let cooling = LAST_TEMPERATURE.powf(1.0 / steps.max(1) as f64);
        let solver = SimulatedAnnealing::new_with_rng(FIRST_TEMPERATURE, Xoshiro256PlusPlus::seed_from_u64(seed ^ 1))
            .expect("the temperature is above zero")
            .with_temp_func(SATempFunc::Exponential(cooling));
        let run = Executor::new(Annealed(self), solver)
            .configure(|state| state.param(best.1.clone()).cost(best.0).max_iters(steps))
            .run()
            .expect("neither cost nor step fails");
        let state = run.state();
        if let Some(places) = state.get_best_param().filter(|_| state.get_best_cost() < best.0) {
            best = (state.get_best_cost(), places.clone());
        }
        self.polish(best, tries / POLISH)
    }

    /// Changes one value at a time, in steps that become smaller when none of them helps.
    fn polish(&self, mut best: (f64, Vec<f64>), mut left: u32) -> Vec<f64> {
        const LEAST_STEP: f64 = 0.01;
        let mut step = 0.5;
        while step > LEAST_STEP {
            let before = best.0;
            for (index, knob) in self.knobs.iter().enumerate() {
                for way in [step, -step] {
                    if left == 0 {
                        return best.1;
                    }
                    left -= 1;
                    let mut places = best.1.clone();
                    places[index] = (places[index] + way / knob.width().max(1.0)).clamp(0.0, 1.0);
                    let cost = self.try_places(&places);
                    if cost < best.0 {
                        best = (cost, places);
                    }
                }
            }
            if best.0 >= before {
                step /= 2.0;
            }
        }
        best.1
    }

    fn try_places(&self, places: &[f64]) -> f64 {
        let cost = self.cost(places).unwrap_or(REFUSED);
        let mut state = self.state.borrow_mut();
        state.tries += 1;
        state.best = state.best.min(cost);
        (self.progress)(state.tries, state.best);
        cost
    }

    /// How far the model is from the device, on the whole and in each part, as a share of the mean.
    fn cost(&self, places: &[f64]) -> Option<f64> {
        let profile = self.start.clone().with_model(&knobs::overrides(self.knobs, places)).ok()?;
        let mut device = model(&profile, self.requests).ok()?;
        let took = replay_timed(&mut device, self.requests, self.in_flight);
        let part = (self.requests.len() / PARTS).max(1);
        let parts: f64 = self
            .requests
            .chunks(part)
            .zip(took.chunks(part))
            .take(PARTS)
            .map(|(asked, took)| distance(asked, took))
            .sum();
        let unusual: f64 = self
            .knobs
            .iter()
            .zip(places)
            .map(|(knob, place)| ((place - knob.usual_place()) * knob.width()).powi(2))
            .sum();
        Some(0.5 * distance(self.requests, &took) + 0.5 * parts / PARTS as f64 + UNUSUAL * unusual)
    }
}

/// The demerit as a share of the mean, and in addition those of the reads and of the writes.
fn distance(requests: &[Measured], took: &[Nanos]) -> f64 {
    let whole = score("", requests, took);
    let share = |demerit: f64, mean: f64| if mean > 0.0 { demerit / mean } else { 0.0 };
    let mut distance = share(whole.demerit_ms, whole.mean_ms);
    for (op, weight) in CLASSES {
        let class = if op == Op::Read { "read" } else { "write" };
        if let Some(found) = whole.classes.iter().find(|found| found.class == class) {
            // A kind of which there are few counts little.
            let much = (found.requests as f64 / requests.len() as f64 * 4.0).min(1.0);
            distance += weight * much * share(found.demerit_ms, found.mean_ms);
        }
    }
    distance
}

struct Annealed<'a, 'b>(&'a Bench<'b>);

impl CostFunction for Annealed<'_, '_> {
    type Param = Vec<f64>;
    type Output = f64;

    fn cost(&self, places: &Vec<f64>) -> Result<f64, Error> {
        Ok(self.0.try_places(places))
    }
}

impl Anneal for Annealed<'_, '_> {
    type Param = Vec<f64>;
    type Output = Vec<f64>;
    type Float = f64;

    /// Moves about a third of the values, the less the colder it is.
    fn anneal(&self, places: &Vec<f64>, temperature: f64) -> Result<Vec<f64>, Error> {
        let warmth = (temperature / FIRST_TEMPERATURE).clamp(0.0, 1.0).powf(0.4);
        let mut next: Vec<f64> = places.clone();
        let (mut moved, sure) = (false, (self.0.draw() * next.len() as f64) as usize);
        for (index, (place, knob)) in next.iter_mut().zip(self.0.knobs).enumerate() {
            if self.0.draw() < 0.3 || (index == sure && !moved) {
                let step = (self.0.draw() + self.0.draw() - 1.0) * (0.05 + 0.95 * warmth);
                // Steps are ratios: a range of three decades is moved through in steps as large as one of a decade.
                *place = (*place + step / knob.width().max(1.0)).clamp(0.0, 1.0);
                moved = true;
            }
        }
        Ok(next)
    }
}
