//! Fits a profile to a measurement with steps: rounds with even numbers are fitted, and the others are scored.

use peryton_units::{Bytes, Nanos};
use serde::Serialize;

use super::{
    Fit, Kind, LEAST_HALF, StepFit,
    estimate::{self, OfStep, Start},
    knobs, null,
    search::Search,
    sorted, without_slowest,
    written::{self, Written},
};
use crate::{
    DataSheet, Device, Profile, ProfileError,
    measure::{Measurement, Order, Step},
    validate::{Measured, Validation, replay_closed, score},
};

/// The part of a flash drive that is modelled in a try, so that the time of a try does not depend on the size of the drive.
const MOST_FLASH: u64 = 1 << 28;
/// The tries for a model with few values.
const FEW: u32 = 3;
/// The largest error that counts for a step.
const WORST: f64 = 3.0;
const SEED: u64 = 1;

/// How to fit a measurement.
#[derive(Clone, Debug)]
pub struct MeasuredFit {
    /// The profile's name.
    pub name: String,
    /// The kind of model. None: the measurement decides, and if several kinds are possible, the nearest on the fitted half.
    pub kind: Option<Kind>,
    /// Addressable bytes; none: what the measurement says.
    pub capacity: Option<Bytes>,
    /// The number of models that are tried.
    pub tries: u32,
    /// The seed of what is drawn.
    pub seed: u64,
    /// The time that flushes took after the commands before them, if it was measured. The model with fixed times has it as a value; in
    /// the others it follows from their buffers.
    pub flush: Option<Nanos>,
}

/// The point from which the sustained write stays slower.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Knee {
    /// Bytes that were written before.
    pub after: Bytes,
    /// MB/s before.
    pub before_mb_per_s: f64,
    /// MB/s from then on.
    pub then_mb_per_s: f64,
}

/// Fits a profile to the even rounds of a measurement, and scores it on the odd ones. `progress` gets the number of tries and the cost so
/// far.
///
/// # Errors
/// Too few rounds or requests.
pub fn fit_measurement(
    measurement: &Measurement,
    options: &MeasuredFit,
    progress: &dyn Fn(u32, f64),
) -> Result<Fit, ProfileError> {
    let bad = |what: String| ProfileError::Parse { place: measurement.device.path.clone(), what };
    let halves = Halves::of(measurement);
    let counts = [true, false].map(|fitted| halves.count(fitted));
    if counts.iter().any(|&count| count < LEAST_HALF) {
        return Err(bad(format!(
            "{} requests in even rounds and {} in odd ones are too few to fit the ones and score the others: measure two rounds and {LEAST_HALF} \
             requests of each at least",
            counts[0], counts[1]
        )));
    }
    let kinds: &[Kind] = match options.kind.unwrap_or(measurement.device.kind) {
        kind if options.kind.is_some() || kind == Kind::Disk => &[kind],
        _ => &[Kind::Fixed, Kind::Flash],
    };
    let mut best: Option<(f64, Kind, Vec<String>, toml::Table)> = None;
    let mut before = 0;
    let fitted_steps = halves.steps(true);
    let starts = kinds
        .iter()
        .flat_map(|&kind| estimate::starts(kind, &fitted_steps).into_iter().map(move |start| (kind, start)));
    for (kind, start) in starts {
        let bench = Bench::new(kind, start, measurement, options, &halves)?;
        let Start { knobs, values } = &bench.start;
        let cost = |places: &[f64]| bench.cost(&bench.values(places)).map(|cost| [cost; 2]);
        let told = |tries: u32, cost: f64| progress(before + tries, cost);
        let search = Search::new(knobs, &cost, options.seed, &told);
        let tries = if kind == Kind::Fixed { options.tries / FEW } else { options.tries };
        let places = search.refine(tries.max(1));
        let (tries, _) = search.found();
        before += tries;
        let found = bench.values(&places);
        // The search prefers what is usual; what decides between kinds is the distance alone.
        let distance = bench.cost(&found).unwrap_or(f64::INFINITY);
        if best.as_ref().is_none_or(|(least, ..)| distance < *least) {
            let keys = knobs.iter().flat_map(|knob| knob.keys).map(|&key| key.to_owned()).chain(names(values));
            best = Some((distance, kind, keys.collect(), found));
        }
    }
    let Some((_, kind, mut keys, mut values)) = best else { return Err(bad("no kind of model".to_owned())) };
    let flush = options.flush.or(measurement.flush(true).map(|(mean, _)| mean));
    if let Some(flush) = flush.filter(|_| kind == Kind::Fixed) {
        values.insert("flush".to_owned(), toml::Value::String(format!("{}ns", flush.0)));
        keys.push("flush".to_owned());
    }
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    let figures = figures(&halves);
    let device = &measurement.device;
    let capacity = capacity(kind, measurement, options);
    let model = device.model.as_deref().map(|model| format!(" ({model})")).unwrap_or_default();
    let text = Written {
        name: &options.name,
        kind,
        capacity,
        source: format!(
            "{}{model}: {} requests in {} rounds",
            device.path,
            measurement.requests(),
            measurement.complete_rounds()
        ),
        description: format!("measured and fitted by peryton calibrate: {}{model}", device.path),
        values: &values,
        fitted: &keys,
        fitted_to: "the latencies of the even rounds in [1]",
        capacity_is: match (options.capacity, device.capacity) {
            (Some(_), _) => "given: with the command",
            (None, Some(_)) if kind != Kind::Disk => "measured [1]: the size that the system states",
            _ => "measured [1]: the size of what was measured",
        },
        measured: Some((&figures, "the odd rounds, which were not fitted")),
    }
    .text()?;
    let profile = Profile::parse(&text, &options.name)?;
    let used = used(kind, capacity);
    let score_of = |fitted: bool| -> Result<_, ProfileError> {
        let mut device = profile.build(used, SEED)?;
        // What was fitted is replayed alone, as it was fitted; the other half comes on a device that has seen both.
        let played = halves.replay(&mut device, kind, !fitted);
        let name = if fitted { "the half that was fitted" } else { "the half that was not fitted" };
        let (whole, steps) = halves.score(&format!("{}, {name}", options.name), &played, fitted);
        Ok((whole, steps, without_slowest(&rising(&gather(&played, fitted, None))).unwrap_or(0.0)))
    };
    let ((fitted, of_fitted, fitted_body), (other, of_other, other_body)) = (score_of(true)?, score_of(false)?);
    let steps = of_fitted.into_iter().zip(of_other).zip(&measurement.steps);
    let steps = steps
        .filter(|((fitted, other), _)| fitted.requests + other.requests > 0)
        .map(|((fitted, other), step)| StepFit { step: step.name(), fitted, other })
        .collect();

    let (null, null_body) = null::score(&options.name, &halves.requests(true), &halves.requests(false));
    let without_slowest = [fitted_body, other_body, null_body];
    Ok(Fit { text, profile, kind, fitted, other, null, without_slowest, steps, tries: before })
}

/// The keys of values, with a dot for those of inner tables.
fn names(values: &toml::Table) -> Vec<String> {
    let of = |(key, value): (&String, &toml::Value)| match value {
        toml::Value::Table(inner) => inner.keys().map(|inner| format!("{key}.{inner}")).collect(),
        _ => vec![key.clone()],
    };
    values.iter().flat_map(of).collect()
}

fn capacity(kind: Kind, measurement: &Measurement, options: &MeasuredFit) -> Bytes {
    let device = &measurement.device;
    let whole = if kind == Kind::Disk { None } else { device.capacity };
    options.capacity.or(whole).unwrap_or(device.size).max(device.size)
}

fn used(kind: Kind, capacity: Bytes) -> Option<Bytes> {
    (kind == Kind::Flash).then(|| Bytes(capacity.0.min(MOST_FLASH)))
}

/// The blocks of a measurement. Every second round is fitted.
struct Halves<'a> {
    measurement: &'a Measurement,
}

type Played<'a> = Vec<(u32, bool, &'a [Measured], Vec<Nanos>)>;

impl<'a> Halves<'a> {
    fn of(measurement: &'a Measurement) -> Halves<'a> {
        Halves { measurement }
    }

    fn count(&self, fitted: bool) -> usize {
        let blocks = self.measurement.blocks.iter().filter(|block| (block.round % 2 == 0) == fitted);
        blocks.map(|block| block.requests.0.len()).sum()
    }

    fn requests(&self, fitted: bool) -> Vec<Measured> {
        let blocks = self.measurement.blocks.iter().filter(|block| (block.round % 2 == 0) == fitted);
        blocks.flat_map(|block| block.requests.0.iter().copied()).collect()
    }

    fn steps(&self, fitted: bool) -> Vec<OfStep<'a>> {
        let blocks = |number: usize| {
            let of = self.measurement.blocks.iter();
            let of = of.filter(move |block| block.step as usize == number && (block.round % 2 == 0) == fitted);
            of.map(|block| &block.requests.0[..]).collect()
        };
        let steps = self.measurement.steps.iter().enumerate().map(|(number, step)| (step, blocks(number)));
        steps.filter(|(_, blocks): &OfStep<'a>| !blocks.is_empty()).collect()
    }

    /// Replays the fitted blocks, or all, in their order.
    fn replay(&self, device: &mut Device, kind: Kind, all: bool) -> Played<'a> {
        let mut played = Vec::new();
        let mut clock = Nanos::ZERO;
        let room = device.capacity().0;
        for block in self.measurement.blocks.iter().filter(|block| all || block.round % 2 == 0) {
            let requests = &block.requests.0[..];
            let Some(first) = requests.first() else { continue };
            clock = clock.max(first.at);
            let folded: Vec<Measured>;
            let asked = if kind == Kind::Flash {
                folded = requests.iter().map(|request| fold(request, room)).collect();
                &folded[..]
            } else {
                requests
            };
            let (took, end) = replay_closed(device, asked, clock);
            clock = end;
            played.push((block.step, block.round % 2 == 0, requests, took));
        }
        played
    }

    /// The distance of all requests, and of those of each step.
    fn score(&self, name: &str, played: &Played<'_>, fitted: bool) -> (Validation, Vec<Validation>) {
        let (asked, took) = gather(played, fitted, None);
        let steps = (0..self.measurement.steps.len() as u32).map(|number| {
            let (asked, took) = gather(played, fitted, Some(number));
            score(&self.measurement.steps[number as usize].name(), &asked, &took)
        });
        (score(name, &asked, &took), steps.collect())
    }
}

/// Requests of one half, of one step or of all, and how long they took on the model.
fn gather(played: &Played<'_>, fitted: bool, number: Option<u32>) -> (Vec<Measured>, Vec<Nanos>) {
    let (mut asked, mut took) = (Vec::new(), Vec::new());
    let wanted = |step: u32, is: bool| is == fitted && number.is_none_or(|number| number == step);
    for (_, _, requests, times) in played.iter().filter(|(step, is, ..)| wanted(*step, *is)) {
        asked.extend_from_slice(requests);
        took.extend_from_slice(times);
    }
    (asked, took)
}

fn rising((asked, took): &(Vec<Measured>, Vec<Nanos>)) -> (Vec<u64>, Vec<u64>) {
    sorted(asked, took, None)
}

/// A request in the part of the flash that is modelled.
fn fold(request: &Measured, room: u64) -> Measured {
    let mut folded = *request;
    let places = room / request.io.len.0.max(1);
    if (request.io.at + request.io.len).0 > room && places > 0 {
        folded.io.at = Bytes(request.io.at.0 / request.io.len.0 % places * request.io.len.0);
    }
    folded
}

/// Tries values of one kind of model on the fitted half.
struct Bench<'a> {
    kind: Kind,
    start: Start,
    blank: Profile,
    used: Option<Bytes>,
    halves: &'a Halves<'a>,
}

impl<'a> Bench<'a> {
    fn new(
        kind: Kind,
        start: Start,
        measurement: &Measurement,
        options: &MeasuredFit,
        halves: &'a Halves<'a>,
    ) -> Result<Bench<'a>, ProfileError> {
        let capacity = capacity(kind, measurement, options);
        let blank = Profile::parse(&written::blank(kind, capacity), "the profile to fit")?;
        Ok(Bench { kind, start, blank, used: used(kind, capacity), halves })
    }

    fn values(&self, places: &[f64]) -> toml::Table {
        let mut values = knobs::overrides(&self.start.knobs, places);
        for (key, value) in &self.start.values {
            match (values.get_mut(key), value) {
                (Some(toml::Value::Table(old)), toml::Value::Table(new)) => old.extend(new.clone()),
                _ => drop(values.insert(key.clone(), value.clone())),
            }
        }
        values
    }

    /// How far the model is from the device: half of it of all requests together, in which slow steps weigh most, and half of it of the
    /// steps, which weigh alike.
    fn cost(&self, values: &toml::Table) -> Option<f64> {
        let profile = self.blank.clone().with_model(values).ok()?;
        let mut device = profile.build(self.used, SEED).ok()?;
        let played = self.halves.replay(&mut device, self.kind, false);
        let whole = without_slowest(&rising(&gather(&played, true, None)))?;
        // Steps with a rest have few requests, so that one slow one decides how far they are away, and what a rest adds is not searched for.
        let steps = self.halves.measurement.steps.iter().enumerate().filter(|(_, step)| step.rest == 0);
        let steps = steps.map(|(number, _)| gather(&played, true, Some(number as u32)));
        let shares: Vec<f64> =
            steps.filter_map(|step| without_slowest(&rising(&step))).map(|share| share.min(WORST)).collect();
        Some(0.5 * whole + 0.5 * shares.iter().sum::<f64>() / shares.len().max(1) as f64)
    }
}

/// What the half that is not fitted says of the figures that data sheets have.
fn figures(halves: &Halves<'_>) -> DataSheet {
    let steps = halves.steps(false);
    let of = |holds: &dyn Fn(&Step) -> bool| {
        let (mut count, mut bytes, mut busy, mut latencies) = (0u64, 0u64, 0u64, 0u64);
        let mut depth = 0;
        for (step, blocks) in steps.iter().filter(|(step, _)| holds(step)) {
            for block in blocks {
                let ends = block.iter().map(|request| request.at + request.latency).max();
                let (Some(first), Some(end)) = (block.first(), ends) else { continue };
                busy += (end - first.at).0;
                count += block.len() as u64;
                bytes += step.size.0 * block.len() as u64;
                latencies += block.iter().map(|request| request.latency.0).sum::<u64>();
                depth = step.depth;
            }
        }
        (busy > 0 && count >= 20).then_some((count as f64, bytes as f64, busy as f64, latencies as f64, depth))
    };
    let short = |value: f64| {
        let scale = 10f64.powf(value.log10().floor() - 3.0);
        (value / scale).round() * scale
    };
    let short = |value: f64| if value > 0.0 { format!("{:.6}", short(value)).parse().unwrap_or(value) } else { value };
    let rate = |reads: u32, order: Order| {
        let found =
            of(&|step: &Step| step.order == order && step.reads == reads && step.size.0 >= 65_536 && step.depth >= 8)
                .or_else(|| of(&|step: &Step| step.order == order && step.reads == reads && step.size.0 >= 65_536));
        found.map(|(_, bytes, busy, ..)| short(bytes / busy * 1e3))
    };
    let small = |reads: u32, depth: u32| {
        of(&|step: &Step| {
            step.order == Order::Random
                && step.reads == reads
                && step.size.0 <= 8192
                && step.depth == depth
                && step.rest == 0
        })
    };
    let deepest = |reads: u32| [64, 32, 16, 8].into_iter().find_map(|depth| small(reads, depth));
    let alone = |reads: u32| small(reads, 1).map(|(count, _, _, latencies, _)| short(latencies / count / 1e6));
    DataSheet {
        seq_read_mb_per_s: rate(100, Order::Sequential),
        seq_write_mb_per_s: rate(0, Order::Sequential),
        rand_read_iops: deepest(100).map(|(count, _, busy, ..)| short(count / busy * 1e9)),
        rand_read_depth: deepest(100).map(|(.., depth)| depth),
        rand_write_iops: deepest(0).map(|(count, _, busy, ..)| short(count / busy * 1e9)),
        rand_read_ms: alone(100),
        rand_write_ms: alone(0),
        ..DataSheet::default()
    }
}

/// Where a sustained write became slower for good: the split into two rates that explains the intervals best, if the first is at least half
/// as fast again as the second.
pub fn knee(intervals: &[crate::measure::Interval]) -> Option<Knee> {
    /// Intervals on each side.
    const LEAST: usize = 10;
    const FASTER: f64 = 1.5;
    let rates: Vec<f64> = intervals.iter().map(|i| i.written as f64 * 1e3 / i.took.max(1) as f64).collect();
    let n = rates.len();
    if n < 2 * LEAST {
        return None;
    }
    let (mut sums, mut squares) = (vec![0.0], vec![0.0]);
    for rate in &rates {
        sums.push(sums.last().copied().unwrap_or_default() + rate);
        squares.push(squares.last().copied().unwrap_or_default() + rate * rate);
    }
    let mean = |from: usize, to: usize| (sums[to] - sums[from]) / (to - from) as f64;
    let error = |from: usize, to: usize| squares[to] - squares[from] - mean(from, to).powi(2) * (to - from) as f64;
    let split =
        (LEAST..=n - LEAST).min_by(|&a, &b| (error(0, a) + error(a, n)).total_cmp(&(error(0, b) + error(b, n))))?;
    let (before, then) = (mean(0, split), mean(split, n));
    // Noise also has a best split, but it explains little.
    let explained = 1.0 - (error(0, split) + error(split, n)) / error(0, n).max(f64::MIN_POSITIVE);
    let is_knee = before > FASTER * then && explained > 0.5;
    let after = Bytes(intervals[..split].iter().map(|interval| interval.written).sum());
    is_knee.then_some(Knee { after, before_mb_per_s: before, then_mb_per_s: then })
}
