//! `[admission]`: which misses may bring their extents into the cache.

use peryton_engine::{Adaptive, Admission, AdmitBy, Objective, Threshold};
use peryton_units::{Bytes, Nanos};

use super::placement::{set, word};
use crate::{
    DesignError,
    document::{FromToml, Keys},
};

const RULES: &[(&str, AdmitBy)] = &[
    ("all", AdmitBy::All),
    ("size", AdmitBy::Size),
    ("hotness", AdmitBy::Hotness),
    ("hottest_share", AdmitBy::HottestShare),
    ("probability", AdmitBy::Probability),
];

/// α where the design does not say ("Mixed SSD arrays", section V-B): the fewer are sampled, the noisier a frame.
fn smoothing(rate: f64) -> f64 {
    if rate <= 0.01 { 0.8 } else { 0.9 }
}

/// A threshold in the unit of its rule.
struct Plain(f64);

impl FromToml for Plain {
    const EXPECTED: &'static str = "a share such as 0.5, a size such as \"64KiB\", or a count";
    fn from_toml(value: &toml::Value) -> Result<Plain, Option<String>> {
        match value {
            toml::Value::String(_) => Bytes::from_toml(value).map(|size| Plain(size.0 as f64)),
            _ => f64::from_toml(value).map(Plain),
        }
    }
}

/// The admission of a caching design; `seed` is the design's.
pub(super) fn read(root: &mut Keys<'_>, caching: bool, seed: u64) -> Result<Option<Admission>, DesignError> {
    let Some(mut keys) = root.table("admission")? else { return Ok(None) };
    let rule = keys.require::<String>("by")?;
    let by = word(&rule, RULES, &[])?;
    if !caching && by != AdmitBy::All {
        return Err(rule.wrong("applies to placement.mode = \"caching\" alone: remove the table [admission]"));
    }
    let fixed = keys.get::<Plain>("threshold")?;
    let adaptive = keys.table("adaptive")?;
    let threshold = match (fixed, adaptive) {
        (Some(fixed), Some(_)) => {
            return Err(fixed.wrong("is given, and adaptive as well: keep one of the two"));
        }
        (Some(fixed), None) => {
            let share = matches!(by, AdmitBy::Probability | AdmitBy::HottestShare);
            if share && fixed.0 > 1.0 {
                return Err(fixed.wrong(format!("is {}: use a share from 0 to 1", fixed.0)));
            }
            Threshold::Fixed(fixed.0)
        }
        (None, Some(keys)) => adapts(by, keys)?,
        (None, None) => match by {
            AdmitBy::All => Threshold::Fixed(1.0),
            AdmitBy::HottestShare => Threshold::Fixed(0.1),
            _ => return Err(keys.wrong_at("threshold", "missing: give a threshold, or adaptive = { rate = 0.01 }")),
        },
    };
    keys.finish()?;
    Ok(Some(Admission { by, threshold, seed, endurance: Vec::new() }))
}

fn adapts(by: AdmitBy, mut keys: Keys<'_>) -> Result<Threshold, DesignError> {
    if matches!(by, AdmitBy::All | AdmitBy::HottestShare) {
        return Err(keys.wrong_at("", "applies to admission by size, hotness or probability: remove it"));
    }
    let rate = keys.get::<f64>("rate")?;
    if let Some(rate) = rate.as_ref().filter(|rate| !(***rate > 0.0 && ***rate <= 0.5)) {
        return Err(rate.wrong(format!("is {}: use a share above 0 and up to 0.5", **rate)));
    }
    let rate = rate.map_or(0.01, |rate| *rate);
    let caches = keys.get::<u32>("caches")?;
    if let Some(caches) = caches.as_ref().filter(|caches| !(2..=64).contains(&***caches)) {
        return Err(caches.wrong(format!("is {}: use 2 to 64", **caches)));
    }
    let weight = keys.get::<f64>("smoothing")?;
    if let Some(weight) = weight.as_ref().filter(|weight| ***weight >= 1.0) {
        return Err(weight.wrong(format!("is {}: use 0 or more, and less than 1", **weight)));
    }
    let frame = keys.get::<Nanos>("frame")?;
    if let Some(frame) = frame.as_ref().filter(|frame| ***frame == Nanos::ZERO) {
        return Err(frame.wrong("is 0: use a time such as 10s"));
    }
    let target_latency = keys.get::<Nanos>("target_latency")?.map(|target| *target);
    let mut objective = Objective::default();
    if let Some(mut weights) = keys.table("objective")? {
        set(&mut objective.latency, &mut weights, "latency")?;
        set(&mut objective.wear, &mut weights, "wear")?;
        weights.finish()?;
    }
    keys.finish()?;
    Ok(Threshold::Adaptive(Adaptive {
        rate,
        caches: caches.map_or(10, |caches| *caches),
        target_latency,
        frame: frame.map_or(Nanos::from_s(10), |frame| *frame),
        smoothing: weight.map_or(smoothing(rate), |weight| *weight),
        objective,
    }))
}
