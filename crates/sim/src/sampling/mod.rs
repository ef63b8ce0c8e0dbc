//! A sample of a trace in place of the whole: what the planner does for many candidates, for designs that are given, with its error.
//!
//! A sample keeps some regions of the address space, chosen by a hash of their address (SHARDS: Waldspurger et al., FAST 2015),
//! and every request that begins in one of them. Caches and tiers are smaller by as much, and time is denser by as much, so that
//! devices get requests at the rate of the trace. So hit ratios, response times, power and wear per time stay about the same;
//! counts and bytes are multiplied.
//!
//! The error is computed from the sample itself: its regions are in eight disjoint slices, by the same hash, each of which is
//! simulated as a sample of its own. How the slices differ shows how a sample differs from another one (random groups; Wolter,
//! "Introduction to Variance Estimation", chapter 2); how their mean differs from the whole sample shows what smallness itself does to
//! a figure.

mod draw;
pub(crate) mod estimates;
mod regions;
mod scaled;
pub(crate) mod share;

use std::{collections::BTreeMap, sync::Arc};

use peryton_device::Class;
use peryton_trace::Source;
use peryton_units::{Bytes, Nanos};
use rayon::prelude::*;

use self::{
    draw::{Drawn, Part},
    scaled::Layout,
    share::SLICES,
};
pub use self::{
    estimates::{SampleFigure, SampleReport},
    regions::{Held, REGION, compress_times, pack_regions},
    share::{ParseSamplingError, Sampling},
};
use crate::{
    Design, Fit, Options, Report, SimError, Warning,
    report::usd_per_gb,
    run::run_whole,
    warnings::{SAMPLED, percent, warning},
};

/// Student's t for 95 % of a normal distribution with seven degrees of freedom.
const STUDENT_T: f64 = 2.365;
/// The share of samples whose intervals contain the figure of the whole. It is less than 95 %, because what the slices find is not
/// distributed normally: a few regions often have most of the requests.
const PROMISED: f64 = 0.9;
/// The least half-widths of intervals, as shares of the estimate, for what a sample changes in the same way in all slices: times
/// between requests become more irregular, runs of sequential requests are cut, and each flush has other writes before it. They
/// are what was measured where slices are nearly alike (docs/sampling.md): without disks, with a disk, and of response times with
/// a disk, without and with flushes.
const LEAST_ERROR: f64 = 0.02;
const LEAST_WITH_DISK: f64 = 0.05;
const LEAST_OF_RESPONSES: f64 = 0.1;
const LEAST_WITH_FLUSHES: f64 = 0.2;
/// The share of flushes from which they count.
const FLUSHING: f64 = 0.01;
/// The share of requests in long sequential streams from which they count.
const STREAMING: f64 = 0.01;

/// Replays a sample of the trace on the design.
pub(crate) fn run(
    design: &Design,
    trace_name: &str,
    trace: Box<dyn Source>,
    options: &Options,
    sampling: Sampling,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Report, SimError> {
    let wrong = |problem: &str| SimError::Sample { sample: sampling.to_string(), problem: problem.to_owned() };
    if options.interval.is_some() {
        return Err(wrong(
            "the time of a sample is denser than the trace's, so it has no intervals: leave --interval out",
        ));
    }
    scaled::check(design, sampling)?;
    let drawn = Drawn::of(sampling, design, trace, options, progress)?;
    let parts: Vec<Option<usize>> = std::iter::once(None).chain((0..SLICES).map(Some)).collect();
    let one = |slice: &Option<usize>| {
        let part = drawn.part(*slice);
        let warm_up = part.warm_up;
        let times = 1.0 / part.rate;
        simulated(design, trace_name, part, *slice, &drawn, options, sampling)
            .map_err(|error| match error {
                SimError::NoRequests { .. } | SimError::WarmUpTooLong { .. } => {
                    wrong("an eighth of it has no measured requests: sample more, or leave it out")
                }
                other => other,
            })
            .map(|report| (figures(&report, times), report, warm_up))
    };
    let mut found = parts.par_iter().map(one).collect::<Result<Vec<_>, SimError>>()?;
    let (whole, mut report, warm_up) = found.remove(0);
    let slices: Vec<BTreeMap<String, f64>> = found.into_iter().map(|(figures, ..)| figures).collect();
    let has_disk = design.bought().iter().any(|device| device.profile.class == Class::Hdd);
    let flushes = drawn.flushes as f64 >= FLUSHING * drawn.requests() as f64;
    let denser = scaled::is_denser_on_disk(design);
    let streams = streaming(design, &drawn).is_some();
    let is_known = |name: &str| (!denser || is_count(name)) && (!streams || is_of_requests(name));
    let figures = whole.into_iter().filter(|(name, _)| is_known(name)).filter_map(|(name, estimate)| {
        let of_slices: Vec<f64> = slices.iter().filter_map(|figures| figures.get(&name).copied()).collect();
        let most = if name.ends_with("_ratio") { 1.0 } else { f64::INFINITY };
        (of_slices.len() == SLICES).then(|| {
            let least = least_error(&name, has_disk, flushes);
            (name, around(estimate, &of_slices, most, least))
        })
    });
    report.sample = Some(SampleReport {
        share: sampling.share(),
        seed: sampling.seed,
        region_bytes: drawn.region.0,
        requests: drawn.requests(),
        requests_share: drawn.requests() as f64 / drawn.read.max(1) as f64,
        slices: SLICES,
        confidence: PROMISED,
        figures: figures.collect(),
    });
    report.warm_up_requests = warm_up;
    // What the design and the trace are, and not what was simulated in their place.
    report.trace_hash = drawn.hash;
    report.trace_requests = drawn.read;
    (report.wrapped_requests, report.skipped_requests) = (drawn.wrapped, drawn.skipped);
    report.empty_requests = drawn.empty;
    report.design.clone_from(&design.name);
    report.volume_bytes = design.volume_bytes().0;
    report.design_toml.clone_from(&design.toml);
    report.overrides.clone_from(&design.overrides);
    report.cost.usd_per_gb = usd_per_gb(design, report.cost.devices_usd);
    warn(&mut report, design, &drawn, sampling);
    Ok(report)
}

/// Simulates a part of the sample on a design of its size.
fn simulated(
    design: &Design,
    trace_name: &str,
    part: Part,
    slice: Option<usize>,
    drawn: &Drawn,
    options: &Options,
    sampling: Sampling,
) -> Result<Report, SimError> {
    let share = if slice.is_some() { sampling.share() / SLICES as f64 } else { sampling.share() };
    let Part { mut requests, warm_up, rate } = part;
    compress_times(&mut requests, rate);
    let mut reach = Bytes::ZERO;
    if scaled::layout(design) == Layout::Packed {
        (requests, reach) = pack_regions(&requests, drawn.region);
    }
    let small = scaled::scaled(design, sampling, share, reach)?;
    // Sizes are rounded to extents.
    let options = Options {
        fit: Fit::Wrap,
        warm_up_requests: warm_up,
        limit: None,
        sample: None,
        picture: options.picture && slice.is_none(),
        ..options.clone()
    };
    run_whole(&small, trace_name, Box::new(Held::new(Arc::new(requests))), &options, false, &|_| {})
}

/// The figures of the whole trace that a part of it has an estimate of. Counts are multiplied.
fn figures(report: &Report, times: f64) -> BTreeMap<String, f64> {
    let mut found = BTreeMap::new();
    let mut put = |name: String, value: Option<f64>| value.map(|value| found.insert(name, value));
    put("fast_hit_ratio".to_owned(), report.fast_hit_ratio);
    let latency = &report.latency_us;
    for (name, summary) in [("all", &latency.all), ("read", &latency.read), ("write", &latency.write)] {
        put(format!("latency_us.{name}.mean"), summary.as_ref().map(|summary| summary.mean));
    }
    for (name, device) in &report.devices {
        put(format!("devices.{name}.bytes_read"), Some(device.bytes_read as f64 * times));
        put(format!("devices.{name}.bytes_written"), Some(device.bytes_written as f64 * times));
        put(format!("devices.{name}.wear_eu"), device.wear_eu.map(|wear| wear * times));
    }
    put("lifetime_years".to_owned(), report.lifetime_years);
    put("mean_power_w".to_owned(), report.mean_power_w);
    found
}

/// Whether a figure does not depend on how long a disk takes.
fn is_count(name: &str) -> bool {
    name.starts_with("devices.") || name == "fast_hit_ratio"
}

/// Whether a figure is about requests, and not about what the devices do for them.
fn is_of_requests(name: &str) -> bool {
    name.starts_with("latency_us.") || name == "fast_hit_ratio"
}

/// The share of requests in long sequential streams, if a cache has to do with them and they count.
fn streaming(design: &Design, drawn: &Drawn) -> Option<f64> {
    let share = drawn.streaming as f64 / drawn.read.max(1) as f64;
    (draw::bypassing(design).is_some() && share >= STREAMING).then_some(share)
}

fn least_error(name: &str, has_disk: bool, flushes: bool) -> f64 {
    match (has_disk, name.starts_with("latency_us"), flushes) {
        (false, _, _) => LEAST_ERROR,
        (true, false, _) => LEAST_WITH_DISK,
        (true, true, false) => LEAST_OF_RESPONSES,
        (true, true, true) => LEAST_WITH_FLUSHES,
    }
}

/// The interval of an estimate: by how much the slices differ from each other, and their mean from it.
fn around(estimate: f64, slices: &[f64], most: f64, least: f64) -> SampleFigure {
    let count = slices.len() as f64;
    let mean = slices.iter().sum::<f64>() / count;
    let variance = slices.iter().map(|slice| (slice - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = (STUDENT_T * (variance / count).sqrt() + (estimate - mean).abs()).max(least * estimate.abs());
    SampleFigure { estimate, low: (estimate - half).max(0.0), high: (estimate + half).min(most) }
}

fn warn(report: &mut Report, design: &Design, drawn: &Drawn, sampling: Sampling) {
    let whole = "simulate the whole trace, without --sample";
    let mut message = format!(
        "a sample of {} was simulated ({} of {} requests), in which bursts are thinner; counts, bytes, energy and simulated time are its own",
        percent(sampling.share()),
        drawn.requests(),
        drawn.read
    );
    let figures = report.sample.iter().flat_map(|sample| &sample.figures);
    let shown = |name: &str| figures.clone().find(|(known, _)| *known == name).map(|(_, figure)| *figure);
    if let Some(SampleFigure { estimate, low, high }) = shown("latency_us.all.mean").map(|figure| figure.times(1e-3)) {
        message += &format!("; of the whole trace the mean response time is {estimate:.3} ms ({low:.3} to {high:.3})");
    }
    if let Some(SampleFigure { estimate, low, high }) = shown("fast_hit_ratio").map(|figure| figure.times(1e2)) {
        message += &format!(" and the hit ratio {estimate:.1} % ({low:.1} to {high:.1})");
    }
    let mut warned: Vec<Warning> = vec![warning(
        SAMPLED,
        message,
        "simulate the whole trace before you rely on tails, or on differences within these intervals",
    )];
    if let Some(share) = streaming(design, drawn) {
        let message = format!(
            "{} of the requests are in long sequential streams, which would go past the fast device (placement.bypass), but the sample cuts \
             these into regions of {}, which do not: there are no estimates of the devices' traffic, wear, power and lifetime",
            percent(share),
            drawn.region
        );
        warned.push(warning("sample_streams", message, whole));
    }
    if scaled::is_denser_on_disk(design) {
        let message = "the sample's data lie closer together on the disk than the trace's, so its seeks are shorter: there are no estimates of \
                       response times, power and lifetime (tiering)"
            .to_owned();
        warned.push(warning("sample_seeks", message, whole));
    }
    if drawn.flushes as f64 >= FLUSHING * drawn.requests() as f64 {
        let message = format!(
            "{} of the sample's requests are flushes, each with other writes before it than in the trace: there is no estimate of their response times, and \
             those of reads and writes are less sure",
            percent(drawn.flushes as f64 / drawn.requests().max(1) as f64)
        );
        warned.push(warning("sample_flushes", message, whole));
    }
    if let Some(span) = shortest_span(report).filter(|span| *span < MEASURED_AT_LEAST) {
        let message = format!(
            "the measured span of the sample is only {span} long: pauses and background work hardly fit into it"
        );
        warned.push(warning("sample_short", message, "sample more"));
    }
    warned.append(&mut report.warnings);
    report.warnings = warned;
}

/// The shortest span in which the times of drives (commits, idle time, standby) have an effect.
const MEASURED_AT_LEAST: Nanos = Nanos::from_s(1);

fn shortest_span(report: &Report) -> Option<Nanos> {
    report.replay.starts_with("timed").then_some(Nanos((report.simulated_s * 1e9) as u64))
}
