//! `[admission]`: the rule for misses whose extents are admitted to the cache.

use peryton_device::{Model, Profile};
use peryton_policy::{AccessEnergy, Adaptive, Admission, AdmitBy, Objective, Threshold, WriteHits, admission::Unit};
use peryton_units::{Bytes, Nanos};

use super::{
    key::{
        KeyDefault::{Else, Required, Value},
        keys, names,
    },
    placement::{CACHING, set, word},
};
use crate::{
    DesignError,
    document::{FromToml, Keys},
};

keys! {
    /// The rule by which misses are admitted to the cache. Without the table `[admission]` all misses are admitted.
    BY: String = "admission.by" {
        default: Required, words: || names(&AdmitBy::ALL), placements: CACHING, live: true,
        example: "'hottest_share'",
    }
    /// The fixed threshold of the rule. `size`: the largest request that is admitted. `hotness`: the references that an extent
    /// has to exceed. `hottest_share`: the share of the extents, those with the most references, that is admitted.
    /// `probability`: the share of the misses that is admitted.
    THRESHOLD: Plain = "admission.threshold" {
        default: Else("the rule's own, if it has one"), placements: CACHING, live: true, example: "0.5",
        needs: &["admission.by='hottest_share'"],
    }
    /// Whether the rule judges misses only (`cache`), or also writes to cached extents, which then may bypass their copies
    /// (`bypass`).
    WRITE_HITS: String = "admission.write_hits" {
        default: Else("bypass with the rule probability, otherwise cache"), words: || names(WRITE_HITS_WORDS), placements: CACHING, live: true, example: "'cache'",
        needs: &["admission.by='probability'", "admission.threshold=0.5"],
    }
    /// The share of the extents that is sampled, above 0 and up to 0.5. The table `[admission.adaptive]` makes the threshold adaptive
    /// ("Mixed SSD arrays", section V).
    RATE: f64 = "admission.adaptive.rate" {
        default: Value("0.01"), unit: "share", placements: CACHING, live: true, example: "0.05",
        needs: &["admission.by='probability'", "admission.adaptive.caches=10", "admission.adaptive.smoothing=0.8"],
    }
    /// The number of sampled caches, from 2 to 64. The sampled extents are divided among them, and each tries its own
    /// threshold.
    CACHES: u32 = "admission.adaptive.caches" {
        default: Value("10"), unit: "caches", placements: CACHING, live: true, example: "5",
        needs: &["admission.by='probability'", "admission.adaptive.rate=0.01"],
    }
    /// The weight of the past in the bytes that the sampled caches write (α of equations 12 and 14): from 0 to less than 1.
    SMOOTHING: f64 = "admission.adaptive.smoothing" {
        default: Else("0.8 for rates up to 0.01, above 0.9"), unit: "share", placements: CACHING, live: true, example: "0.5",
        needs: &["admission.by='probability'", "admission.adaptive.rate=0.01"],
    }
    /// The number of sampled accesses after which the threshold is set.
    FRAME: u32 = "admission.adaptive.frame" {
        default: Value("1000"), unit: "accesses", placements: CACHING, live: true, example: "2000",
        needs: &["admission.by='probability'", "admission.adaptive.rate=0.01"],
    }
    /// The highest mean response time of a sampled cache. Thresholds above it are dropped; if none is left, everything is
    /// admitted.
    TARGET_LATENCY: Nanos = "admission.adaptive.target_latency" {
        default: Else("none"), placements: CACHING, live: true, example: "'400us'",
        needs: &["admission.by='probability'", "admission.adaptive.rate=0.01"],
    }
    /// The weight of the mean response time in the objective. The objective is the product of response time, wear and energy of
    /// an access, each raised to the power of its weight.
    OBJECTIVE_LATENCY: f64 = "admission.adaptive.objective.latency" {
        default: Value("1"), unit: "weight", placements: CACHING, live: true, example: "0.5",
        needs: &["admission.by='probability'", "admission.adaptive.rate=0.01"],
    }
    /// The weight of the wear, the reciprocal of the lifetime.
    OBJECTIVE_WEAR: f64 = "admission.adaptive.objective.wear" {
        default: Value("1"), unit: "weight", placements: CACHING, live: true, example: "0.5",
        needs: &["admission.by='probability'", "admission.adaptive.rate=0.01"],
    }
    /// The weight of the energy of an access; every device needs a profile with its power.
    OBJECTIVE_ENERGY: f64 = "admission.adaptive.objective.energy" {
        default: Value("0"), unit: "weight", placements: CACHING, live: true, example: "0.5",
        needs: &["admission.by='probability'", "admission.adaptive.rate=0.01"],
    }
}

const WRITE_HITS_WORDS: &[(&str, WriteHits)] = &[("cache", WriteHits::Cache), ("bypass", WriteHits::Bypass)];

/// The names of the rules for which `applies` is true, as in "size, hotness or probability".
fn those(applies: fn(AdmitBy) -> bool) -> String {
    let names: Vec<&str> = AdmitBy::ALL.into_iter().filter(|(_, by)| applies(*by)).map(|(name, _)| name).collect();
    match names.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => names.concat(),
    }
}

/// The default of α ("Mixed SSD arrays", section V-B): the smaller the sample, the noisier a time frame.
fn smoothing(rate: f64) -> f64 {
    if rate <= 0.01 { 0.8 } else { 0.9 }
}

/// A threshold in the unit of its rule.
pub(super) struct Plain(f64);

impl FromToml for Plain {
    const TYPE: &'static str = "share, size or whole number";
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
    let rule = keys.require(&BY)?;
    let by = word(&rule, &AdmitBy::ALL)?;
    if !caching && by != AdmitBy::All {
        return Err(rule.wrong("applies to placement.mode = \"caching\" alone: remove the table [admission]"));
    }
    let fixed = keys.get(&THRESHOLD)?;
    let adaptive = keys.table("adaptive")?;
    let threshold = match (fixed, adaptive) {
        (Some(fixed), Some(_)) => {
            return Err(fixed.wrong("is given, and adaptive as well: keep one of the two"));
        }
        (Some(fixed), None) => {
            if by.unit() == Unit::Share && fixed.0 > 1.0 {
                return Err(fixed.wrong(format!("is {}: use a share from 0 to 1", fixed.0)));
            }
            Threshold::Fixed(fixed.0)
        }
        (None, Some(keys)) => adapts(by, keys)?,
        (None, None) => match by.default_threshold() {
            Some(threshold) => Threshold::Fixed(threshold),
            None => return Err(keys.wrong_at("threshold", "missing: give a threshold, or adaptive = { rate = 0.01 }")),
        },
    };
    let write_hits = match keys.get(&WRITE_HITS)? {
        Some(given) if by.write_hits().is_none() => {
            return Err(
                given.wrong(format!("applies to admission by {}: remove it", those(|by| by.write_hits().is_some())))
            );
        }
        Some(given) => word(&given, WRITE_HITS_WORDS)?,
        None => by.write_hits().unwrap_or_default(),
    };
    keys.finish()?;
    Ok(Some(Admission { by, threshold, seed, write_hits, ..Admission::default() }))
}

/// If the objective weighs energy, a device of unknown energy would count as free, so it is refused.
pub(super) fn check_energy(
    root: &Keys<'_>,
    admission: &Admission,
    devices: &[(&str, Option<AccessEnergy>)],
) -> Result<(), DesignError> {
    let weighs = matches!(&admission.threshold, Threshold::Adaptive(adaptive) if adaptive.objective.energy > 0.0);
    match devices.iter().find(|(_, energy)| energy.is_none()) {
        Some((name, _)) if weighs => Err(root.wrong_at(
            "admission.adaptive.objective.energy",
            format!(
                "needs the power of device '{name}', whose profile has none: give its model active_w above idle_w, or set \
                 the weight to 0"
            ),
        )),
        _ => Ok(()),
    }
}

/// The energy of an access beyond that of an idle device, from the parameters of the model; `None` if they do not give
/// it. For flash it includes the pages and their share of an erase, for a disk the arm and the platter.
pub(super) fn access_energy(profile: &Profile) -> Option<AccessEnergy> {
    const UJ: f64 = 1e-6;
    let energy = match &profile.model {
        Model::Fixed(fixed) => AccessEnergy { active_w: [fixed.active_w - fixed.idle_w; 2], ..AccessEnergy::default() },
        Model::Flash(flash) => {
            let page = flash.page.0 as f64;
            let transfer = flash.transfer_uj_per_kib / 1024.0;
            let erase = flash.erase_uj / (page * f64::from(flash.pages_per_block));
            AccessEnergy {
                active_w: [flash.busy_w; 2],
                per_byte_j: [flash.read_uj / page + transfer, flash.program_uj / page + transfer + erase]
                    .map(|microjoules| microjoules * UJ),
            }
        }
        Model::Disk(disk) => {
            let power = &disk.power;
            // Most of the time of a random access is spent by the arm and the platter.
            AccessEnergy { active_w: [power.seek_w - power.idle_w; 2], ..AccessEnergy::default() }
        }
    };
    energy.active_w.iter().chain(&energy.per_byte_j).any(|value| *value > 0.0).then_some(energy)
}

fn adapts(by: AdmitBy, mut keys: Keys<'_>) -> Result<Threshold, DesignError> {
    if !by.adapts() {
        let others = those(AdmitBy::adapts);
        return Err(keys.wrong_at("", format!("applies to admission by {others}: remove it")));
    }
    let rate = keys.get(&RATE)?;
    if let Some(rate) = rate.as_ref().filter(|rate| !(***rate > 0.0 && ***rate <= 0.5)) {
        return Err(rate.wrong(format!("is {}: use a share above 0 and up to 0.5", **rate)));
    }
    let rate = rate.map_or(0.01, |rate| *rate);
    let caches = keys.get(&CACHES)?;
    if let Some(caches) = caches.as_ref().filter(|caches| !(2..=64).contains(&***caches)) {
        return Err(caches.wrong(format!("is {}: use 2 to 64", **caches)));
    }
    let weight = keys.get(&SMOOTHING)?;
    if let Some(weight) = weight.as_ref().filter(|weight| ***weight >= 1.0) {
        return Err(weight.wrong(format!("is {}: use 0 or more, and less than 1", **weight)));
    }
    let frame = keys.get(&FRAME)?;
    if let Some(frame) = frame.as_ref().filter(|frame| ***frame == 0) {
        return Err(frame.wrong("is 0: use a number of accesses such as 1000"));
    }
    let target_latency = keys.get(&TARGET_LATENCY)?.map(|target| *target);
    let mut objective = Objective::default();
    if let Some(mut weights) = keys.table("objective")? {
        set(&mut objective.latency, &mut weights, &OBJECTIVE_LATENCY)?;
        set(&mut objective.wear, &mut weights, &OBJECTIVE_WEAR)?;
        set(&mut objective.energy, &mut weights, &OBJECTIVE_ENERGY)?;
        weights.finish()?;
    }
    keys.finish()?;
    Ok(Threshold::Adaptive(Adaptive {
        rate,
        caches: caches.map_or(10, |caches| *caches),
        target_latency,
        frame: frame.map_or(1_000, |frame| *frame),
        smoothing: weight.map_or(smoothing(rate), |weight| *weight),
        objective,
    }))
}
