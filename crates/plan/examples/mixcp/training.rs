//! The training set of the models: synthetic traces with drawn characteristics, simulated one by one (section 4.4).

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use peryton_device::{Class, Model, flash::Images};
use peryton_plan::capacity::Kind;
use peryton_sim::{Design, Options, Replay, run_one};
use peryton_trace::{Address, Arrival, Size, SynthSource, SynthSpec};
use peryton_units::{Bytes, Nanos, SECONDS_PER_YEAR};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use serde::Serialize;

use crate::{
    Error,
    models::{DeviceModels, Fitted, Form, MODEL_VERSION, Predictors},
};

/// The number of traces in the paper.
pub const TRAINING_TRACES: u32 = 900;
/// One trace is held out of training for this many in the training set.
const HELD_OUT: u32 = 4;
/// The number of measured requests of a trace; others before them bring the device into a steady state.
const REQUESTS: u64 = 1_000;
const WARM_UP: u64 = 200;
/// Fewer traces than this would be fewer than the unknowns of a model.
const LEAST_TRACES: u32 = 40;
const MOST_TRACES: u32 = 100_000;

/// How models are trained.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Training {
    /// Number of traces in the training set.
    pub traces: u32,
    /// The seed by which the traces are drawn.
    pub seed: u64,
}

impl Default for Training {
    fn default() -> Training {
        Training { traces: TRAINING_TRACES, seed: 1 }
    }
}

/// The figures measured with one trace.
struct Observed {
    of: Predictors,
    mean_ms: Option<f64>,
    erases_per_s: Option<f64>,
}

impl Training {
    /// The key of a device's models: it contains everything that they depend on.
    pub fn key(&self, kind: &Kind) -> String {
        // The parameters of the profile's model, without its name, which does not affect the models.
        let what = format!("{:?}|{:?}|{:?}", kind.profile.model, kind.profile.capacity, kind.profile.endurance);
        let hash = what
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3));
        format!("{}-{hash:016x}-v{MODEL_VERSION}-n{}-s{}", kind.profile.name, self.traces, self.seed)
    }

    /// Trains the models of one device, on all cores.
    pub fn train(&self, kind: &Kind, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<DeviceModels, Error> {
        if !(LEAST_TRACES..=MOST_TRACES).contains(&self.traces) {
            return Err(format!("--training-traces {}: use {LEAST_TRACES} to {MOST_TRACES}", self.traces).into());
        }
        let bench = Bench::new(kind)?;
        let count = self.traces + self.traces.div_ceil(HELD_OUT);
        let done = AtomicU64::new(0);
        let one = |index: u32| {
            let mut random = Pcg64Mcg::seed_from_u64(self.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ u64::from(index));
            let observed = bench.observe(&mut random);
            progress(done.fetch_add(1, Relaxed) + 1, u64::from(count));
            observed
        };
        let observed: Vec<Observed> = (0..count).into_par_iter().map(one).collect::<Result<_, _>>()?;
        let pick = |of: fn(&Observed) -> Option<f64>, from: &[Observed]| -> Vec<(Predictors, f64)> {
            from.iter().filter_map(|one| Some((one.of, of(one).filter(|value| *value > 0.0)?))).collect()
        };
        let (seen, unseen) = observed.split_at(self.traces as usize);
        let fit = |of: fn(&Observed) -> Option<f64>, extended| -> Result<Vec<Fitted>, Error> {
            let fitted = [Form::Paper, extended].map(|form| Fitted::fit(form, &pick(of, seen), &pick(of, unseen)));
            let failed = |error| Error::from(format!("the models of {} cannot be fitted: {error}", kind.profile.name));
            fitted.into_iter().map(|one| one.map_err(failed)).collect()
        };
        let response = fit(|one| one.mean_ms, Form::Extended)?;
        let enough = pick(|one| one.erases_per_s, seen).len() >= LEAST_TRACES as usize;
        let erases = if enough { fit(|one| one.erases_per_s, Form::ExtendedWrites)? } else { Vec::new() };
        let kept = || seen.iter().filter(|one| one.mean_ms.is_some());
        let range = |of: fn(&Predictors) -> f64| {
            let values = || kept().map(|one| of(&one.of));
            (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max))
        };
        Ok(DeviceModels {
            response,
            erases,
            rated_erases: bench.rated_erases,
            rated_written: kind.profile.writable().map(|bytes| bytes.0 as f64).filter(|_| kind.wears()),
            ranges: [
                range(|of| of.read_share),
                range(|of| of.sequential_share),
                range(|of| of.inter_arrival_ms),
                range(|of| of.request_kib),
                range(|of| of.utilisation),
            ],
            overloaded: seen.iter().filter(|one| one.mean_ms.is_none()).count() as u64,
            no_erases: kept().filter(|one| one.erases_per_s.is_none()).count() as u64,
        })
    }
}

/// A device under training.
struct Bench<'a> {
    kind: &'a Kind,
    design: Design,
    /// The used part of its capacity.
    slice: Bytes,
    /// Service times in milliseconds of a read and a write, of the smallest and of the largest size.
    service_ms: [[f64; 2]; 2],
    rated_erases: Option<f64>,
}

const SMALL_KIB: f64 = 4.0;
const LARGE_KIB: f64 = 128.0;
/// The used part of each die, with enough blocks for cleaning to behave as on a whole die.
const OF_A_DIE: Bytes = Bytes::mib(16);
/// The erase block size of a device whose profile has none.
const BLOCK: u64 = 128 << 10;

impl<'a> Bench<'a> {
    fn new(kind: &'a Kind) -> Result<Bench<'a>, Error> {
        let slice = match &kind.profile.model {
            Model::Flash(flash) => {
                let dies = u64::from(flash.channels) * u64::from(flash.dies_per_channel);
                (OF_A_DIE * dies).clamp(Bytes::mib(256), Bytes::gib(2)).min(kind.usable())
            }
            Model::Disk(_) | Model::Fixed(_) => kind.usable(),
        };
        let precondition = match &kind.profile.model {
            Model::Flash(_) => "model = { precondition = \"random\" }\n",
            _ => "",
        };
        let reference = toml::Value::from(kind.reference.as_str());
        let text = format!(
            "[volume]\nsize = \"{}B\"\n[devices.data]\nprofile = {reference}\n{precondition}[placement]\nmode = \"single\"\n",
            slice.0
        );
        let mut design = Design::parse(&text, &kind.profile.name, &[])?;
        let rated_erases = match &kind.profile.model {
            Model::Flash(flash) => {
                let block = flash.page.0 * u64::from(flash.pages_per_block);
                let physical = kind.profile.capacity.0 as f64 * (1.0 + flash.over_provisioning);
                Some(physical / block as f64 * f64::from(flash.cycles))
            }
            Model::Fixed(fixed) => {
                fixed.cycles.map(|cycles| kind.profile.capacity.0 as f64 / BLOCK as f64 * f64::from(cycles))
            }
            Model::Disk(_) => None,
        };
        // Preconditioning its flash takes longer than simulating a few thousand requests, so the images are kept.
        design.images = Some(Images::shared());
        let mut bench = Bench { kind, design, slice, service_ms: [[0.0; 2]; 2], rated_erases };
        for (read, read_share) in [1.0, 0.0].into_iter().enumerate() {
            for (large, kib) in [SMALL_KIB, LARGE_KIB].into_iter().enumerate() {
                let of = Predictors {
                    read_share,
                    sequential_share: 0.0,
                    inter_arrival_ms: 1.0,
                    request_kib: kib,
                    utilisation: 0.5,
                };
                let alone = Options { replay: Replay::Sync, limit: Some(300), ..Options::default() };
                let report = bench.replay(&of, 1, alone)?;
                bench.service_ms[read][large] = report.latency_us.all.map_or(1.0, |all| all.mean / 1e3).max(1e-3);
            }
        }
        Ok(bench)
    }

    fn is_disk(&self) -> bool {
        self.kind.profile.class == Class::Hdd
    }

    /// The approximate service time of a request, without queueing.
    fn service(&self, read_share: f64, kib: f64) -> f64 {
        let at = |[small, large]: [f64; 2]| {
            small + (large - small) * ((kib - SMALL_KIB) / (LARGE_KIB - SMALL_KIB)).clamp(0.0, 1.0)
        };
        read_share * at(self.service_ms[0]) + (1.0 - read_share) * at(self.service_ms[1])
    }

    /// Draws a workload and simulates it.
    fn observe(&self, random: &mut Pcg64Mcg) -> Result<Observed, Error> {
        let mut uniform = |least: f64, most: f64| least + (most - least) * random.random::<f64>();
        // The paper's traces are all write-only; every third of ours is.
        let read_share = if uniform(0.0, 3.0) < 1.0 { 0.0 } else { uniform(0.0, 1.0) };
        let sequential_share = uniform(0.0, 0.9);
        let request_kib = uniform(SMALL_KIB.ln(), LARGE_KIB.ln()).exp();
        let utilisation = if self.is_disk() { uniform(0.0005f64.ln(), 0.95f64.ln()).exp() } else { uniform(0.05, 1.0) };
        // The load ranges from almost idle to saturated; flash serves several requests at once.
        let busiest = if self.is_disk() { 0.8 } else { 1.5 };
        let load = uniform(0.002f64.ln(), f64::ln(busiest)).exp();
        let inter_arrival_ms = self.service(read_share, request_kib) / load;
        let seed = random.random::<u64>();
        let drawn = Predictors { read_share, sequential_share, inter_arrival_ms, request_kib, utilisation };
        let options = Options { warm_up_requests: WARM_UP, ..Options::default() };
        let report = self.replay(&drawn, seed, options)?;
        let seconds = report.simulated_s;
        let expected = REQUESTS as f64 * inter_arrival_ms / 1e3;
        let latency = report.latency_us.all.as_ref().map(|all| all.mean / 1e3);
        // A queue that grows throughout the trace has no mean response time.
        let kept_up = seconds < expected * 1.25 && latency.is_some_and(|mean| mean < 0.02 * expected * 1e3);
        let erased = report.devices.first().is_some_and(|(_, device)| device.erases != Some(0));
        let lifetime = report.lifetime_physical_years.filter(|_| erased && kept_up);
        let kib = report.mib_per_s.zip(report.iops).map_or(request_kib, |(mib, iops)| mib * 1024.0 / iops);
        Ok(Observed {
            // The characteristics as drawn, except the size, which is rounded and limited.
            of: Predictors { request_kib: kib, ..drawn },
            mean_ms: latency.filter(|_| kept_up),
            erases_per_s: self.rated_erases.zip(lifetime).map(|(rated, years)| rated / (years * SECONDS_PER_YEAR)),
        })
    }

    fn replay(&self, of: &Predictors, seed: u64, options: Options) -> Result<peryton_sim::Report, Error> {
        let mean = Bytes((of.request_kib * 1024.0) as u64);
        let spec = SynthSpec {
            name: None,
            requests: Some(REQUESTS + WARM_UP),
            footprint: Bytes(((self.slice.0 as f64 * of.utilisation) as u64).next_multiple_of(4096))
                .min(self.slice)
                .max(Bytes::mib(4)),
            start: Bytes::ZERO,
            alignment: Bytes::kib(4),
            volume: 0,
            seed,
            read_share: Some(of.read_share),
            sequential_share: Some(of.sequential_share),
            arrival: Some(Arrival::Poisson { mean: Nanos::from_s_f64(of.inter_arrival_ms / 1e3) }),
            size: Some(Size::Gamma { mean, shape: 2.0, max: Bytes::mib(1) }),
            address: Some(Address::Uniform),
            read: None,
            write: None,
            rewrite: None,
            flush: None,
            phases: Vec::new(),
        };
        let source = SynthSource::new(&spec, "training")?;
        let options = Options { fit: peryton_sim::Fit::Wrap, ..options };
        Ok(run_one(&self.design, "training", Box::new(source), &options, &|_| {})?)
    }
}
