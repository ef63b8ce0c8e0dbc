//! Several designs at once.

use peryton_trace::{Source, TraceError};
use rayon::prelude::*;

use crate::{Design, Options, Report, SimError, feed::Feed, report, shared, simulator::simulate};

/// Opens the trace anew, from its start.
pub type TraceFactory<'a> = dyn Fn() -> Result<Box<dyn Source>, TraceError> + Sync + 'a;

/// Is told, now and then, how many requests the design at an index has been given so far.
pub type Progress<'a> = dyn Fn(usize, u64) + Sync + 'a;

/// Replays the trace on each design, as many at a time as there are cores; reports come in the order of the designs.
///
/// # Errors
/// That of the first design, in their order, that has one.
pub fn run(
    designs: &[Design],
    trace_name: &str,
    trace: &TraceFactory<'_>,
    options: &Options,
    progress: &Progress<'_>,
) -> Result<Vec<Report>, SimError> {
    let one = |(index, design)| run_one(design, trace_name, trace()?, options, &|requests| progress(index, requests));
    let results: Vec<Result<Report, SimError>> = designs.par_iter().enumerate().map(one).collect();
    results.into_iter().collect()
}

/// Replays the trace on one design, on this thread.
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
    if design.volumes > 1 {
        let machine = design.build_shared(options.warm_up)?;
        let count = if machine.same_requests { 1 } else { machine.volumes.len() };
        let feed = Feed::of_volumes(trace, design.volume, count, options.fit, options.limit, progress)?;
        let (outcome, volumes) = shared::simulate(machine, feed, options)?;
        return Ok(report::of_volumes(design, trace_name, options, &outcome, &volumes));
    }
    let machine = design.build(options.warm_up)?;
    let feed = Feed::new(trace, design.volume, options.fit, options.limit, progress)?;
    let outcome = simulate(machine, feed, options)?;
    Ok(report::make(design, trace_name, options, &outcome))
}
