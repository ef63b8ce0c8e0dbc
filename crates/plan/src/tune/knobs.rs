//! The knobs: the settings of a design that tuning may change, and the values to try.

use peryton_device::Model;
use peryton_engine::{AdmitBy, Placement, Replacement, Tuning, WritePolicy};
use peryton_sim::Design;
use peryton_units::{Bytes, Nanos};

/// One setting, or a few that only make sense together, and the values to try.
#[derive(Clone, Debug, PartialEq)]
pub struct Knob {
    /// The key in the design file; for several keys, their common part.
    pub name: String,
    /// The values, including the design's own.
    pub choices: Vec<Choice>,
    /// The index of the design's own value.
    pub own: usize,
    /// Whether neighbours in the list have similar effects.
    pub ordered: bool,
    /// Whether the user named it. A value that the design refuses is then an error; otherwise the value is left out.
    pub given: bool,
}

/// One value of a knob.
#[derive(Clone, Debug, PartialEq)]
pub struct Choice {
    /// The value as text for people.
    pub label: String,
    /// The value as overrides of the design; empty for the design's own value.
    pub overrides: Vec<String>,
}

impl Knob {
    /// A knob for a key, with the design's own value, if it is known, and others to try. With `rank`, the list is
    /// ordered and the own value takes its place in it.
    fn of_key<T: Copy + PartialEq>(
        key: &str,
        own: T,
        values: &[T],
        text: impl Fn(T) -> String,
        rank: Option<fn(T) -> f64>,
    ) -> Knob {
        let mut all: Vec<T> = values.iter().copied().filter(|value| *value != own).collect();
        all.push(own);
        if let Some(rank) = rank {
            all.sort_by(|a, b| rank(*a).total_cmp(&rank(*b)));
        }
        let at = all.iter().position(|value| *value == own).expect("it was put in");
        let choice = |value: T| {
            let overrides = if value == own { Vec::new() } else { vec![format!("{key}={}", text(value))] };
            Choice { label: text(value), overrides }
        };
        Knob {
            name: key.to_owned(),
            choices: all.into_iter().map(choice).collect(),
            own: at,
            ordered: rank.is_some(),
            given: false,
        }
    }

    /// A knob with the key and values that the user wrote; the design's own value comes first.
    pub fn given(key: &str, values: &[&str]) -> Knob {
        let own = Choice { label: "as it is".to_owned(), overrides: Vec::new() };
        let given =
            values.iter().map(|value| Choice { label: (*value).to_owned(), overrides: vec![format!("{key}={value}")] });
        Knob {
            name: key.to_owned(),
            choices: std::iter::once(own).chain(given).collect(),
            own: 0,
            ordered: false,
            given: true,
        }
    }

    fn unordered(key: &str, own: String, values: &[&str]) -> Knob {
        let mut knob = Knob { given: false, ..Knob::given(key, values) };
        knob.choices[0].label = own;
        knob
    }

    /// The knobs for all settings of this design that may change while the drive runs; with `format`, also those for
    /// settings that are fixed when it is formatted.
    pub fn list(design: &Design, format: bool) -> Vec<Knob> {
        let tuning = &design.tuning;
        let mut knobs = match &design.placement {
            Placement::Single { .. } | Placement::Linear { .. } => Vec::new(),
            Placement::Tiering(pair) => {
                let fast = design.devices[pair.fast.index()].data.0 / pair.extent.0;
                let mut knobs = promotion(tuning);
                knobs.extend(moving(tuning, fast));
                knobs
            }
            Placement::Caching(pair) => {
                let fast = design.devices[pair.fast.index()].data.0 / pair.extent.0;
                let mut knobs = promotion(tuning);
                knobs.extend(moving(tuning, fast));
                knobs.extend(caching(tuning));
                knobs
            }
            Placement::Partitioned(pair) => {
                let fast = design.devices[pair.fast.index()].data.0 / pair.extent.0;
                let mut knobs = moving(tuning, fast);
                knobs.extend(partition(tuning));
                knobs
            }
            Placement::Logging(_) => logging(tuning),
        };
        if let (true, Placement::Tiering(pair) | Placement::Caching(pair)) = (format, &design.placement) {
            let sizes = [4, 16, 64, 128, 256, 1024].map(Bytes::kib);
            knobs.push(Knob::of_key(
                "placement.extent",
                pair.extent,
                &sizes,
                quoted_bytes,
                Some(|b: Bytes| b.0 as f64),
            ));
        }
        for (index, device) in design.devices.iter().enumerate() {
            if matches!(device.profile.model, Model::Disk(_)) {
                let own = tuning.spin_down_after.get(index).copied().flatten();
                let values = [Some(2), Some(5), Some(15), Some(60), None].map(|s| s.map(Nanos::from_s));
                let key = format!("power.{}.spin_down_after", device.name);
                let text = |after: Option<Nanos>| after.map_or_else(|| "never".to_owned(), |after| after.to_string());
                let rank = |after: Option<Nanos>| after.map_or(f64::INFINITY, |after| after.0 as f64);
                knobs.push(Knob::of_key(&key, own, &values, text, Some(rank)));
            }
        }
        knobs
    }
}

fn quoted_bytes(bytes: Bytes) -> String {
    bytes.to_string()
}

fn seconds(values: &[u64]) -> Vec<Nanos> {
    values.iter().map(|s| Nanos::from_s(*s)).collect()
}

const NUMBER: Option<fn(u32) -> f64> = Some(f64::from);
const TIME: Option<fn(Nanos) -> f64> = Some(|t| t.0 as f64);

fn number(n: u32) -> String {
    n.to_string()
}

fn time(t: Nanos) -> String {
    t.to_string()
}

/// GreenDM's promotion threshold (PT) and time window (TW).
fn promotion(tuning: &Tuning) -> Vec<Knob> {
    let thresholds = [0, 1, 2, 4, 8, 16, 32, 64];
    let windows = seconds(&[1, 5, 15, 60, 300, 1800]);
    vec![
        Knob::of_key("placement.promotion.threshold", tuning.promotion_threshold, &thresholds, number, NUMBER),
        Knob::of_key("placement.promotion.window", tuning.promotion_window, &windows, time, TIME),
    ]
}

/// GreenDM's low and high thresholds (LT, HT), its limit of moves (MCML), and the replacement policy.
fn moving(tuning: &Tuning, fast_extents: u64) -> Vec<Knob> {
    let own = (tuning.demotion_low, tuning.demotion_high);
    let pairs: Vec<(u32, u32)> = [(0, 0), (2, 4), (8, 16), (64, 128), (256, 512)]
        .into_iter()
        // More free extents than a tenth of the device would waste capacity.
        .filter(|(_, high)| u64::from(*high) * 10 <= fast_extents)
        .collect();
    let mut demotion = Knob::of_key(
        "placement.demotion",
        own,
        &pairs,
        |(low, high)| format!("{low}/{high}"),
        Some(|p: (u32, u32)| f64::from(p.1)),
    );
    for choice in &mut demotion.choices {
        if !choice.overrides.is_empty() {
            let (low, high) = choice.label.split_once('/').expect("written so above");
            // The higher bound comes first; the order does not matter, because a design file is read as a whole.
            choice.overrides = vec![format!("placement.demotion.high={high}"), format!("placement.demotion.low={low}")];
        }
    }
    let policies = Replacement::ALL.map(|(_, policy)| policy);
    let name = |policy: Replacement| policy.to_string();
    vec![
        demotion,
        Knob::of_key("placement.max_moves", tuning.max_moves, &[1, 2, 4, 8, 16, 32, 64, 256], number, NUMBER),
        Knob::of_key("placement.replacement", tuning.replacement, &policies, name, None),
    ]
}

/// The settings of caches. The write policy is not among them: it determines what a failure costs, which tuning must
/// not change.
fn caching(tuning: &Tuning) -> Vec<Knob> {
    let mut knobs = Vec::new();
    if tuning.write == WritePolicy::Back {
        // A delay is not longer than the age at which everything goes to the origin.
        let mut delays = seconds(&[0, 1, 5, 30, 120]);
        delays.retain(|delay| *delay <= tuning.cleaning.max_age);
        knobs.push(Knob::of_key("placement.writeback.delay", tuning.writeback_delay, &delays, time, TIME));
    }
    // A rule that the design has chosen stays; only a design that admits everything may become stricter.
    if tuning.admission.by == AdmitBy::All {
        let rules = [
            ("hotness above 1", "hotness", "1"),
            ("hotness above 2", "hotness", "2"),
            ("requests up to 16 KiB", "size", "16KiB"),
            ("requests up to 64 KiB", "size", "64KiB"),
            ("half of the misses", "probability", "0.5"),
            ("a quarter of the misses", "probability", "0.25"),
        ];
        let mut knob = Knob::unordered("admission", "all".to_owned(), &[]);
        knob.choices.extend(rules.map(|(label, by, threshold)| Choice {
            label: label.to_owned(),
            overrides: vec![format!("admission.by={by}"), format!("admission.threshold={threshold}")],
        }));
        knobs.push(knob);
    }
    knobs
}

fn partition(tuning: &Tuning) -> Vec<Knob> {
    let partition = &tuning.partition;
    let idle = [100, 500, 1000, 5000].map(Nanos::from_ms);
    let after = [Some(10), Some(60), Some(300), None].map(|s| s.map(Nanos::from_s));
    let never = |after: Option<Nanos>| after.map_or_else(|| "never".to_owned(), |after| after.to_string());
    let rank = |after: Option<Nanos>| after.map_or(f64::INFINITY, |after| after.0 as f64);
    vec![
        Knob::of_key("partition.idle_after", partition.idle_after, &idle, time, TIME),
        Knob::of_key("partition.bust_after", partition.bust_after, &after, never, Some(rank)),
        Knob::of_key("partition.promote_reads", partition.promote_reads, &[1, 2, 4, 8, 16], number, NUMBER),
    ]
}

fn logging(tuning: &Tuning) -> Vec<Knob> {
    let logging = &tuning.logging;
    let optional = |key: &str, own: Option<String>, values: &[&str]| {
        Knob::unordered(key, own.unwrap_or_else(|| "off".to_owned()), values)
    };
    let delays = [0, 1, 5, 20].map(Nanos::from_ms);
    let share = |ppm: u32| format!("{}", f64::from(ppm) / 1e6);
    let triggers = &logging.triggers;
    vec![
        optional("triggers.timeout", triggers.timeout.map(time), &["60s", "300s", "900s", "1800s", "3600s"]),
        optional("triggers.read_share", triggers.read_share_ppm.map(share), &["0.01", "0.05", "0.1", "0.3"]),
        Knob::unordered("triggers.log_used", "as it is".to_owned(), &["0.3", "0.6", "0.9"]),
        Knob::of_key("placement.gather.delay", logging.gather_delay, &delays, time, TIME),
    ]
}
