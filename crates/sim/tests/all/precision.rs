//! The fear: a difference between two designs is reported that another seed or another part of the trace would turn round.

use std::num::NonZeroU32;

use peryton_sim::{Design, Options, Replay, Report, run};
use peryton_trace::{Source, SynthSource, SynthSpec, TraceError};

fn design(name: &str, fast: &str, more: &str) -> Design {
    let text = format!(
        "name = '{name}'\n[devices.fast]\nprofile = 'fixed'\nsize = '{fast}'\nmodel = {{ read = '40us', write = '60us', idle_w = 1 }}\n\
         [devices.slow]\nprofile = 'fixed'\nsize = '256MiB'\nmodel = {{ read = '4ms', write = '4ms', idle_w = 5, active_w = 8 }}\n\
         [placement]\nmode = 'caching'\nfast = 'fast'\nslow = 'slow'\nextent = '16KiB'\npromotion = {{ threshold = 0 }}\n{more}"
    );
    Design::parse(&text, "test.toml", &[]).unwrap()
}

fn simulated(designs: &[Design], replications: Option<u32>, warm_up_requests: u64) -> Vec<Report> {
    let spec = "requests = 30000\nfootprint = '25MiB'\nread_share = 0.7\narrival = '1ms'\nsize = '4KiB'\naddress = 'uniform'\n";
    let spec = SynthSpec::parse(spec, "spec").unwrap();
    let trace = || -> Result<Box<dyn Source>, TraceError> { Ok(Box::new(SynthSource::new(&spec, "spec").unwrap())) };
    let replications = replications.map(|runs| NonZeroU32::new(runs).unwrap());
    let options = Options { replay: Replay::Sync, replications, warm_up_requests, ..Options::default() };
    run(designs, "spec", &trace, &options, &|_| {}).unwrap()
}

#[test]
fn a_run_is_the_same_with_and_without_its_precision() {
    let designs = [design("a", "5MiB", ""), design("b", "9MiB", "")];
    let plain = simulated(&designs, None, 2_000);
    let with: Vec<Report> = simulated(&designs, Some(1), 2_000)
        .into_iter()
        .map(|report| {
            assert!(report.precision.is_some());
            Report { precision: None, ..report }
        })
        .collect();
    assert_eq!(plain, with);
}

#[test]
fn a_larger_cache_is_told_apart_and_the_same_cache_is_not() {
    let by = "[admission]\nby = 'probability'\nthreshold = 0.5\n";
    let designs = [design("small", "5MiB", by), design("large", "13MiB", by), design("again", "13MiB", by)];
    let reports = simulated(&designs, Some(3), 10_000);
    let precision: Vec<_> = reports.iter().map(|report| report.precision.as_ref().unwrap()).collect();
    let less = precision[1].difference_us(precision[0]).unwrap();
    assert!(less.value < 0.0 && less.half_width.unwrap() < -less.value, "{less:?}");
    assert_eq!(precision[1].difference_us(precision[2]).unwrap().value, 0.0);
    for (report, precision) in reports.iter().zip(&precision) {
        assert_eq!((precision.replications, precision.requests_per_part * precision.parts as u64 <= 20_000), (3, true));
        let mean = precision.figures["latency_us.all.mean"];
        let own = report.latency_us.all.as_ref().unwrap().mean;
        let half = mean.half_width.unwrap();
        assert!(half > 0.0 && (mean.value - own).abs() <= 2.0 * half, "{own} for {mean:?}");
        let hits = precision.figures["fast_hit_ratio"];
        assert!(hits.half_width.unwrap() < 0.02, "{hits:?}");
        // One request is in flight, so a part takes as long as its requests, and energy is known about as well as their mean time.
        let energy = precision.figures["energy_j"];
        let of_time = half / mean.value;
        let of_energy = energy.half_width.unwrap() / energy.value;
        assert!((0.3 * of_time..3.0 * of_time).contains(&of_energy), "{energy:?} for {mean:?}");
    }
}

#[test]
fn a_cache_that_fills_is_no_steady_state_from_the_start() {
    let reports = simulated(&[design("large", "20MiB", "journal = 'mirrored'\n")], Some(1), 0);
    let precision = reports[0].precision.as_ref().unwrap();
    assert!(
        precision.steady_after_requests.is_none_or(|requests| requests > 1_000),
        "{:?}",
        precision.steady_after_requests
    );
}
