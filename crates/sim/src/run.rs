//! Experiments: designs under a trace. Every command that simulates does it with [`run`], or a design at a time with [`run_one`].

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use peryton_device::flash::Images;
use peryton_engine::Stats;
use peryton_trace::{Source, TraceError};

use crate::{
    Design, Options, Picture, Report, SimError, interval_report,
    machine::Machine,
    observe::{Observer, Watch},
    outcome::Outcome,
    precision::Precision,
    report::{self, usd_per_gb},
    request_source::{RequestSource, Spread},
    sampling,
    simulator::simulate,
    together, warnings,
};

/// A function that opens the trace at its start.
pub type TraceFactory<'a> = dyn Fn() -> Result<Box<dyn Source>, TraceError> + Sync + 'a;

/// A function for reports of progress, called from time to time with the number of requests that all designs have been given.
pub type Progress<'a> = dyn Fn(u64) + Sync + 'a;

/// Replays the trace on each design, in parallel on all cores; returns reports in the order of the designs. The trace is read once for
/// as many designs as fit in memory.
///
/// ```
/// use peryton_sim::{Design, Options, run};
/// use peryton_trace::{OpenOptions, Source, TraceError, open};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let design = |profile: &str| {
///     let text = format!("[devices.only]\nprofile = '{profile}'\n[placement]\nmode = 'single'\n");
///     Design::parse(&text, profile, &[])
/// };
/// let designs = [design("griffin-barracuda-7200")?, design("seagate-st32000641as")?];
/// let trace = || -> Result<Box<dyn Source>, TraceError> {
///     Ok(Box::new(open("../../examples/traces/sqlite-ext4.parquet", &OpenOptions::default())?))
/// };
/// let options = Options { limit: Some(1_000), ..Options::default() };
/// for report in run(&designs, "sqlite", &trace, &options, &|_requests| {})? {
///     println!("{}: {:?}", report.design, report.latency_us.all);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The error of the first design, in their order, that fails.
pub fn run(
    designs: &[Design],
    trace_name: &str,
    trace: &TraceFactory<'_>,
    options: &Options,
    progress: &Progress<'_>,
) -> Result<Vec<Report>, SimError> {
    let (designs, each) = replicas(designs, options);
    let jobs = rayon::current_num_threads().max(1);
    let so_far: Vec<AtomicU64> = designs.iter().map(|_| AtomicU64::new(0)).collect();
    let mut reports = Vec::with_capacity(designs.len());
    while reports.len() < designs.len() {
        let from = reports.len();
        let group = &designs[from..from + together::fitting(&designs[from..], jobs)];
        let watch = |index: usize, requests: u64| {
            so_far[from + index].store(requests, Relaxed);
            progress(so_far.iter().map(|one| one.load(Relaxed)).sum());
        };
        match group {
            // Another processor reads the trace.
            [design] => {
                let watch = |requests: u64| watch(0, requests);
                reports.push(run_reading(design, trace_name, trace()?, options, jobs > 1, &watch)?);
            }
            group => reports.extend(together::one_reading(group, trace_name, trace()?, options, jobs, &watch)?),
        }
    }
    let mut reports = put_together(reports, each);
    warnings::compare(&mut reports);
    Ok(reports)
}

/// The designs with each of the seeds that are asked for, the first seed of a design being its own; and their number.
fn replicas(designs: &[Design], options: &Options) -> (Vec<Design>, usize) {
    let each = options.replications.map_or(1, |replications| replications.get() as usize);
    let designs = if designs.len() * each > 1 { with_shared_images(designs) } else { designs.to_vec() };
    let with_seeds = |design: &Design| {
        (0..each as u64).map(|more| design.with_seed(design.seed.wrapping_add(more))).collect::<Vec<_>>()
    };
    (designs.iter().flat_map(with_seeds).collect(), each)
}

/// These designs, which share the images of preconditioned flash. Designs that are compared often have the same flash.
pub fn with_shared_images(designs: &[Design]) -> Vec<Design> {
    let images = Images::shared();
    let one = |design: &Design| {
        let images = design.images.clone().unwrap_or_else(|| Arc::clone(&images));
        Design { images: Some(images), ..design.clone() }
    };
    designs.iter().map(one).collect()
}

/// The report of each design with its own seed, whose precision is of all its runs.
fn put_together(reports: Vec<Report>, each: usize) -> Vec<Report> {
    if each == 1 {
        return reports;
    }
    let one = |runs: &[Report]| Report { precision: Some(Precision::together(runs)), ..runs[0].clone() };
    reports.chunks(each).map(one).collect()
}

/// Replays the trace on one design, on this thread. (With [`Options::sample`], other threads may simulate parts of the sample.)
///
/// ```
/// use peryton_sim::{Design, Options, run_one};
/// use peryton_trace::{OpenOptions, open};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let design = "[devices.only]\nprofile = 'fixed'\nsize = '8GiB'\n[placement]\nmode = 'single'\n";
/// let design = Design::parse(design, "my design", &[])?;
/// let trace = open("../../examples/traces/sqlite-ext4.parquet", &OpenOptions::default())?;
/// let report = run_one(&design, "sqlite", Box::new(trace), &Options::default(), &|_requests| {})?;
/// println!("{} requests in {} s", report.requests, report.simulated_s);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// The design cannot be built, the trace cannot be read, or it does not fit the volume.
pub fn run_one(
    design: &Design,
    trace_name: &str,
    trace: Box<dyn Source>,
    options: &Options,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Report, SimError> {
    run_reading(design, trace_name, trace, options, false, progress)
}

/// The same; `ahead`: on two threads, of which one reads the trace.
pub(crate) fn run_reading(
    design: &Design,
    trace_name: &str,
    trace: Box<dyn Source>,
    options: &Options,
    ahead: bool,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Report, SimError> {
    // A recording is of the drive itself.
    if let (Some(load), None) = (&design.load, &options.recorded) {
        let found = run_reading(&design.with_load(load)?, trace_name, trace, options, ahead, progress);
        let mut report = found.map_err(SimError::of_load)?;
        // What the design is, and not what was simulated in its place.
        report.simulated_share = Some(load.share);
        report.volume_bytes = design.volume_bytes().0;
        report.design_toml.clone_from(&design.toml);
        report.overrides.clone_from(&design.overrides);
        report.cost.usd_per_gb = usd_per_gb(design, report.cost.devices_usd);
        return Ok(report);
    }
    match options.sample.filter(|sample| !sample.is_whole()) {
        Some(sample) => sampling::run(design, trace_name, trace, options, sample, progress),
        None => run_whole(design, trace_name, trace, options, ahead, progress),
    }
}

/// The same, without a sample.
pub(crate) fn run_whole(
    design: &Design,
    trace_name: &str,
    trace: Box<dyn Source>,
    options: &Options,
    ahead: bool,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Report, SimError> {
    let mut outcome = replay(design, trace, options, Watch::default(), ahead, progress)?;
    let intervals = std::mem::take(&mut outcome.intervals);
    let picture = outcome.picture.take();
    let picture = picture.map(|(course, map)| Picture { course: interval_report::of(design, course), map });
    let report = report::make(design, trace_name, options, &outcome);
    Ok(Report { intervals: interval_report::of(design, intervals), picture, ..report })
}

/// Builds the design and replays the trace on it.
pub(crate) fn replay(
    design: &Design,
    trace: Box<dyn Source>,
    options: &Options,
    watch: Watch,
    ahead: bool,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Outcome, SimError> {
    let mut machine = Machine { watch, ..design.build(!options.new_volume && options.recorded.is_none())? };
    if let Some(recorded) = &options.recorded {
        recorded.begin(design, &mut machine)?;
    }
    let (size, count) = match design.stream {
        Some(stream) => (stream.size, stream.count as usize),
        None => (design.volume, machine.volumes.len()),
    };
    let volumes = if machine.same_requests { 1 } else { count };
    let mut source = RequestSource::new(trace, size, volumes, options.fit, options.limit, progress)?;
    if let Some(stream) = design.stream {
        source.spread(Spread { copies: if machine.same_requests { stream.count } else { 1 }, apart: stream.apart });
    }
    simulate(design, machine, source, options, ahead)
}

/// Replays the trace on one design, as [`run_one`](crate::run_one) does, and calls `observer` with each event. It replays the whole,
/// whatever [`Options::sample`] is.
///
/// ```
/// use std::{cell::Cell, rc::Rc};
///
/// use peryton_sim::{Design, Moment, Options, run_observed};
/// use peryton_trace::{OpenOptions, open};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let design = "[devices.only]\nprofile = 'fixed'\nsize = '8GiB'\n[placement]\nmode = 'single'\n";
/// let design = Design::parse(design, "my design", &[])?;
/// let trace = open("../../examples/traces/sqlite-ext4.parquet", &OpenOptions::default())?;
/// let commands = Rc::new(Cell::new(0));
/// let counter = commands.clone();
/// let observer = move |_now, _volume, moment| {
///     if let Moment::Commanded(_) = moment {
///         counter.set(counter.get() + 1);
///     }
/// };
/// run_observed(&design, Box::new(trace), &Options { limit: Some(100), ..Options::default() }, Box::new(observer))?;
/// println!("the engine gave {} commands for 100 requests", commands.get());
/// # assert!(commands.get() >= 100);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`run_one`](crate::run_one).
pub fn run_observed(
    design: &Design,
    trace: Box<dyn Source>,
    options: &Options,
    observer: Observer,
) -> Result<(), SimError> {
    let design = design.simulated()?;
    replay(&design, trace, options, Watch(Some(observer)), false, &|_| {}).map(drop)
}

/// Replays the trace on one design as [`run_one`](crate::run_one) does, without a sample, and calls `observer` with each event. Also
/// returns the statistics of the engine, in the form in which a drive in service has them.
///
/// ```
/// use peryton_sim::{AsRecorded, Design, Options, run_as_recorded};
/// use peryton_trace::{OpenOptions, open};
/// use peryton_units::Nanos;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let design = "[devices.only]\nprofile = 'fixed'\nsize = '8GiB'\n[placement]\nmode = 'single'\n";
/// let design = Design::parse(design, "my design", &[])?;
/// let trace = open("../../examples/traces/sqlite-ext4.parquet", &OpenOptions::default())?;
/// let recorded = AsRecorded { until: Nanos::from_s(3600), ..AsRecorded::default() };
/// let options = Options { limit: Some(100), recorded: Some(recorded.into()), ..Options::default() };
/// let (report, stats) = run_as_recorded(&design, "sqlite", Box::new(trace), &options, Box::new(|_, _, _| {}))?;
/// assert_eq!((report.simulated_s, stats.requests.iter().sum::<u64>()), (3600.0, 100));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`run_one`](crate::run_one); the state is not one of this design.
pub fn run_as_recorded(
    design: &Design,
    trace_name: &str,
    trace: Box<dyn Source>,
    options: &Options,
    observer: Observer,
) -> Result<(Report, Stats), SimError> {
    let outcome = replay(design, trace, options, Watch(Some(observer)), false, &|_| {})?;
    Ok((report::make(design, trace_name, options, &outcome), outcome.stats))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use peryton_device::flash::Images;
    use peryton_trace::{SynthSource, SynthSpec};
    use peryton_units::Bytes;

    use super::*;

    #[test]
    fn a_prepared_design_reports_what_a_new_one_does_however_often_it_is_run() {
        let design = "[volume]\nsize = '64MiB'\n[devices.ssd]\nprofile = 'intel-x25-e-32gb'\ncount = 2\n\
                      model = { precondition = 'random' }\n[placement]\nmode = 'single'\n";
        let mut design = Design::parse(design, "design", &[]).unwrap();
        let spec = "requests = 3000\nfootprint = '64MiB'\nread_share = 0.3\narrival = '1ms'\nsize = '4KiB'\naddress = 'uniform'\n";
        let spec = SynthSpec::parse(spec, "spec").unwrap();
        let trace = || Box::new(SynthSource::new(&spec, "spec").unwrap());
        let options = Options::default();
        let new = run_one(&design, "spec", trace(), &options, &|_| {}).unwrap();
        assert!(
            new.devices[0].1.nand_bytes_owed.is_some_and(|bytes| bytes > 0),
            "nothing that a second run could find changed"
        );
        design.images = Some(Arc::new(Images::new(Bytes::gib(1))));
        for _ in 0..2 {
            assert_eq!(run_one(&design, "spec", trace(), &options, &|_| {}).unwrap(), new);
        }
    }

    #[test]
    fn devices_from_images_report_what_new_ones_do() {
        let images = Arc::new(Images::new(Bytes::gib(1)));
        let spec = "requests = 3000\nfootprint = '64MiB'\nread_share = 0.3\narrival = '1ms'\nsize = '4KiB'\naddress = 'uniform'\n";
        let spec = SynthSpec::parse(spec, "spec").unwrap();
        let (mut reports, mut made) = (Vec::new(), 0);
        // Different inputs must give different results: the layer, the state, the size, the seed.
        let different = [
            ("64MiB", "precondition = 'random'", 1),
            ("64MiB", "precondition = 'random'", 2),
            // As texts for people, these two sizes are the same.
            ("1048576KiB", "precondition = 'sequential'", 1),
            ("1048592KiB", "precondition = 'sequential'", 1),
            ("64MiB", "precondition = 'sequential'", 1),
            ("96MiB", "precondition = 'random'", 1),
            ("64MiB", "precondition = 'random', ftl = 'dftl', map_cache = '2KiB'", 1),
            ("64MiB", "precondition = 'random', ftl = 'log-block'", 1),
        ];
        for (size, model, seed) in different {
            let text = format!(
                "seed.value = {seed}\n[volume]\nsize = '{size}'\n[devices.ssd]\nprofile = 'intel-x25-e-32gb'\n\
                 model = {{ {model} }}\n[placement]\nmode = 'single'\n"
            );
            let mut design = Design::parse(&text, "design", &[]).unwrap();
            let run = |design: &Design| {
                let trace = Box::new(SynthSource::new(&spec, "spec").unwrap());
                run_one(design, "spec", trace, &Options::default(), &|_| {}).unwrap()
            };
            let new = run(&design);
            design.images = Some(Arc::clone(&images));
            for _ in 0..2 {
                assert_eq!(run(&design), new, "{model}");
            }
            assert!(!reports.contains(&new), "{size} {model} {seed} makes no difference");
            reports.push(new);
            // What was written in order is made at once, so no image of it is kept.
            made += usize::from(!model.contains("sequential"));
            assert_eq!(images.count(), made);
        }
    }
}
