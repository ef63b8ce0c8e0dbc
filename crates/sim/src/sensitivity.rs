//! The effect on simulated figures of an error in an estimated value.
//!
//! Every estimated value of the designs' profiles is lowered and raised by a share, one at a time, in all of the
//! designs that use it, and these designs are simulated again.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use peryton_device::{OFF_BY, Origin};
use rayon::prelude::*;
use serde::Serialize;

use crate::{
    Design, DeviceDesign, Options, Report, SimError, TraceFactory,
    off_estimate::{MainFigures, OffEstimate},
    run_one,
};

/// A design that was simulated.
#[derive(Clone, Debug)]
pub struct Subject {
    /// The design's name.
    pub name: String,
    /// The full design as TOML.
    pub toml: String,
}

/// A change of one value, and its effects.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Swing<T> {
    /// The profile of the value.
    pub profile: String,
    /// The path of the value, such as `flash.read`.
    pub value: String,
    /// The change, as a share: 0.3 is 30 % more.
    pub off_by: f64,
    /// The figures of each design that uses the profile.
    pub designs: BTreeMap<String, T>,
}

/// The changes that were simulated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sensitivity<T> {
    /// The changes, in the order of profiles and values.
    pub swings: Vec<Swing<T>>,
    /// Estimates that are no quantities, or whose model refuses a change of 30 %.
    pub not_varied: Vec<String>,
    /// Number of estimates beyond the most that are tried.
    pub left_out: usize,
}

impl MainFigures {
    /// The figures of a report.
    pub fn of(report: &Report) -> MainFigures {
        let all = report.latency_us.all.as_ref();
        MainFigures {
            mean_ms: all.map(|summary| summary.mean / 1e3),
            p99_ms: all.map(|summary| summary.p99 / 1e3),
            lifetime_years: report.lifetime_years,
            mean_power_w: report.mean_power_w,
        }
    }
}

impl Sensitivity<MainFigures> {
    /// What the changes make of one design.
    pub fn of_design(&self, design: &str) -> Vec<OffEstimate> {
        let mine = self.swings.iter().filter_map(|swing| {
            let figures = swing.designs.get(design)?.clone();
            let (profile, value) = (swing.profile.clone(), swing.value.clone());
            Some(OffEstimate { profile, value, off_by: swing.off_by, figures })
        });
        mine.collect()
    }
}

/// The most values that are varied; each takes two simulations of every design that uses it.
const MOST_VALUES: usize = 64;

/// A change of a value: its profile, and the overrides that make the change, by design.
struct Variation {
    profile: String,
    value: String,
    off_by: f64,
    designs: Vec<(usize, Vec<String>)>,
}

/// Called with the number of simulations done, and the number of all.
pub type SimulationsDone<'a> = dyn Fn(u64, u64) + Sync + 'a;

/// Simulates designs again with each estimate 30 % lower and 30 % higher; `figures` selects figures from a report.
/// ```
/// use peryton_sim::{Design, Options, Subject, sensitivity};
/// use peryton_trace::{Source, TraceError, open};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let text = "[volume]\nsize = '64MiB'\n[devices.ssd]\nprofile = 'intel-320-300gb'\n[placement]\nmode = 'single'\n";
/// let subjects = [Subject { name: "ssd".to_owned(), toml: text.to_owned() }];
/// let trace = || -> Result<Box<dyn Source>, TraceError> {
///     Ok(Box::new(open("../../examples/traces/sqlite-ext4.parquet", &Default::default())?))
/// };
/// let options = Options { fit: peryton_sim::Fit::Wrap, limit: Some(200), ..Options::default() };
/// let mean = |_: &Design, report: &peryton_sim::Report| report.latency_us.all.as_ref().map(|all| all.mean);
/// for swing in sensitivity(&subjects, &trace, &options, &mean, &|_done, _all| {})?.swings {
///     println!("{} {} off by {:+}: mean {:?} µs", swing.profile, swing.value, swing.off_by, swing.designs["ssd"]);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// Those of [`run_one`].
pub fn sensitivity<T: Send>(
    subjects: &[Subject],
    trace: &TraceFactory<'_>,
    options: &Options,
    figures: &(dyn Fn(&Design, &Report) -> T + Sync),
    progress: &SimulationsDone<'_>,
) -> Result<Sensitivity<T>, SimError> {
    let designs = subjects.iter().map(|subject| Design::parse(&subject.toml, &subject.name, &[]));
    let designs = designs.collect::<Result<Vec<_>, _>>()?;
    let (variations, not_varied, left_out) = variations(&designs);
    let total: usize = variations.iter().map(|variation| variation.designs.len()).sum();
    let done = AtomicU64::new(0);
    progress(0, total as u64);
    let swing = |variation: &Variation| -> Result<Swing<T>, SimError> {
        let mut found = BTreeMap::new();
        for (index, overrides) in &variation.designs {
            let subject = &subjects[*index];
            let design = Design::parse(&subject.toml, &subject.name, overrides)?;
            let report = run_one(&design, "", trace()?, options, &|_| {})?;
            found.insert(subject.name.clone(), figures(&design, &report));
            progress(done.fetch_add(1, Relaxed) + 1, total as u64);
        }
        let (profile, value) = (variation.profile.clone(), variation.value.clone());
        Ok(Swing { profile, value, off_by: variation.off_by, designs: found })
    };
    let swings = variations.par_iter().map(swing).collect::<Result<Vec<_>, _>>()?;
    Ok(Sensitivity { swings, not_varied, left_out })
}

fn variations(designs: &[Design]) -> (Vec<Variation>, Vec<String>, usize) {
    let mut all: Vec<Variation> = Vec::new();
    let (mut not_varied, mut left_out, mut values) = (Vec::new(), 0, 0);
    let mut seen: Vec<&str> = Vec::new();
    for leaf in designs.iter().flat_map(Design::leaves) {
        let profile = &leaf.device.profile;
        if seen.contains(&profile.name.as_str()) {
            continue;
        }
        seen.push(&profile.name);
        let (mut estimated, _) = profile.estimated();
        if profile.provenance.of("price_usd").is_some_and(|said| said.origin == Origin::Estimated) {
            estimated.push("price_usd");
        }
        for path in estimated {
            let off = [-OFF_BY, OFF_BY].map(|off_by| {
                let value = profile.varied(path, 1.0 + off_by);
                let usable = path == "price_usd" || profile.with_varied(path, 1.0 + off_by).is_some();
                value.filter(|_| usable).map(|value| (off_by, value))
            });
            if off.iter().all(Option::is_none) {
                not_varied.push(format!("{}: {path}", profile.name));
                continue;
            }
            if values == MOST_VALUES {
                left_out += 1;
                continue;
            }
            values += 1;
            for (off_by, value) in off.into_iter().flatten() {
                let uses = designs.iter().enumerate().filter_map(|(index, design)| {
                    let leaves = design.leaves().into_iter();
                    let roles = leaves.filter(|leaf| leaf.device.profile.name == profile.name);
                    let key = path.split_once('.').map_or_else(|| path.to_owned(), |(_, keys)| format!("model.{keys}"));
                    let overrides: Vec<String> = roles
                        .map(|leaf| format!("{}.{key}={}", leaf.path, of_each(leaf.device, path, &value)))
                        .collect();
                    (!overrides.is_empty()).then_some((index, overrides))
                });
                let (profile, value) = (profile.name.clone(), path.to_owned());
                all.push(Variation { profile, value, off_by, designs: uses.collect() });
            }
        }
    }
    (all, not_varied, left_out)
}

/// The value for a device that may be smaller than its profile's: its price is in proportion.
fn of_each(device: &DeviceDesign, path: &str, value: &toml::Value) -> toml::Value {
    match value.as_float().or(value.as_integer().map(|usd| usd as f64)) {
        Some(usd) if path == "price_usd" && device.part() < 1.0 => (usd * device.part()).into(),
        _ => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use peryton_trace::{SynthSource, SynthSpec};

    use super::*;

    /// The read time of this flash is an estimate; that of the other is the paper's.
    const DESIGN: &str = "[volume]\nsize = '64MiB'\n[devices.ssd]\nprofile = 'PROFILE'\n[placement]\nmode = 'single'\n";

    #[test]
    fn each_estimate_is_tried_less_and_more_and_what_follows_is_reported() {
        let spec = "requests = 500\nfootprint = '64MiB'\nread_share = 1.0\narrival = '10ms'\nsize = '4KiB'\naddress = 'uniform'\n";
        let spec = SynthSpec::parse(spec, "spec").unwrap();
        let subjects = ["samsung-870-evo-1tb", "fixed"].map(|profile| Subject {
            name: profile.to_owned(),
            toml: DESIGN
                .replace("PROFILE", profile)
                .replace("'samsung-870-evo-1tb'\n", "'samsung-870-evo-1tb'\nmodel = { precondition = 'sequential' }\n"),
        });
        let trace =
            || -> Result<Box<dyn peryton_trace::Source>, _> { Ok(Box::new(SynthSource::new(&spec, "spec").unwrap())) };
        let mean = |_: &Design, report: &Report| report.latency_us.all.as_ref().unwrap().mean / 1e3;
        let found = sensitivity(&subjects, &trace, &Options::default(), &mean, &|_, _| {}).unwrap();
        let mean = |value: &str, off_by: f64| {
            let one = found.swings.iter().find(|swing| swing.value == value && swing.off_by == off_by);
            one.unwrap_or_else(|| panic!("{value} was tried")).designs["samsung-870-evo-1tb"]
        };
        // A change of 30 % of 45 µs for each read.
        let swing = mean("flash.read", 0.3) - mean("flash.read", -0.3);
        assert!((swing - 0.027).abs() < 0.001, "{swing} ms");
        assert_eq!(mean("flash.erase", 0.3), mean("flash.erase", -0.3), "nothing is erased");
        assert!(found.swings.iter().all(|swing| swing.profile != "fixed"), "the values of that model are given");
        assert!(found.swings.iter().all(|swing| !swing.value.contains("interface")), "fitted, not estimated");
        assert!(found.not_varied.iter().any(|one| one.contains("flash.planes")), "{:?}", found.not_varied);
    }
}
