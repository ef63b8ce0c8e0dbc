//! Several designs at once.

use peryton_trace::{Source, TraceError};
use rayon::prelude::*;

use crate::{Design, Options, Report, SimError, feed::Feed, report, shared, simulator::simulate, warnings};

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
    let mut reports = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    warnings::compare(&mut reports);
    Ok(reports)
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

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::sync::Arc;

    use peryton_device::flash::Images;
    use peryton_trace::{SynthSource, SynthSpec};
    use peryton_units::Bytes;

    use super::*;

    #[test]
    fn a_prepared_design_reports_what_one_made_anew_does_however_often_it_is_run() {
        let design = "[volume]\nsize = '64MiB'\n[devices.ssd]\nprofile = 'intel-x25-e-32gb'\ncount = 2\n\
                      model = { precondition = 'random' }\n[placement]\nmode = 'single'\n";
        let mut design = Design::parse(design, "design", &[]).unwrap();
        let spec = "requests = 3000\nfootprint = '64MiB'\nread_share = 0.3\narrival = '1ms'\nsize = '4KiB'\naddress = 'uniform'\n";
        let spec = SynthSpec::parse(spec, "spec").unwrap();
        let trace = || Box::new(SynthSource::new(&spec, "spec").unwrap());
        let options = Options::default();
        let anew = run_one(&design, "spec", trace(), &options, &|_| {}).unwrap();
        assert!(
            anew.devices[0].1.erases.is_some_and(|erases| erases > 0),
            "nothing that a second run could find changed"
        );
        design.images = Some(Arc::new(Images::new(Bytes::gib(1))));
        for _ in 0..2 {
            assert_eq!(run_one(&design, "spec", trace(), &options, &|_| {}).unwrap(), anew);
        }
    }

    #[test]
    fn devices_from_images_report_what_those_made_anew_do() {
        let images = Arc::new(Images::new(Bytes::gib(1)));
        let spec = "requests = 3000\nfootprint = '64MiB'\nread_share = 0.3\narrival = '1ms'\nsize = '4KiB'\naddress = 'uniform'\n";
        let spec = SynthSpec::parse(spec, "spec").unwrap();
        let mut reports = Vec::new();
        // What differs must not be taken for the same: the layer, the state, the size, the seed.
        let different = [
            ("64MiB", "precondition = 'random'", 1),
            ("64MiB", "precondition = 'random'", 2),
            // Rounded for people, these are the same.
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
            let anew = run(&design);
            design.images = Some(Arc::clone(&images));
            for _ in 0..2 {
                assert_eq!(run(&design), anew, "{model}");
            }
            assert!(!reports.contains(&anew), "{size} {model} {seed} makes no difference");
            reports.push(anew);
            assert_eq!(images.count(), reports.len());
        }
    }
}
