//! `[climb]`: settings that the drive adjusts while it runs.

use peryton_device::Profile;
use peryton_engine::{Climb, Placement};
use peryton_units::{Bytes, Nanos, SECONDS_PER_YEAR};

use super::{
    devices::Spec,
    key::{
        KeyDefault::{Else, Value},
        keys,
    },
    placement::{PROMOTING, set},
};
use crate::{
    DesignError,
    document::{FromToml, Keys},
};

const DAYS_PER_YEAR: f64 = SECONDS_PER_YEAR / 86_400.0;

keys! {
    /// The shortest length of a span. A span is a trial of a changed setting, or an observation of the old setting before or
    /// after the trial. The table `[climb]` turns hill climbing on: the drive changes its own settings, one step at a time, and
    /// keeps a step that improves the score.
    EVERY: Nanos = "climb.every" {
        default: Value("'30s'"), placements: PROMOTING, live: true, example: "'10s'", needs: &["climb.requests=1000"],
    }
    /// A span with fewer requests than this continues until it has as many.
    REQUESTS: u32 = "climb.requests" {
        default: Value("1000"), unit: "requests", placements: PROMOTING, live: true, example: "500", needs: &["climb.every='30s'"],
    }
    /// The weight of the mean response time in the score. The score is the product of response time and bytes written, each
    /// raised to the power of its weight.
    LATENCY: f64 = "climb.latency" {
        default: Value("1"), unit: "weight", placements: PROMOTING, live: true, example: "0.5", needs: &["climb.every='30s'"],
    }
    /// The weight of the bytes written to the fast device.
    WEAR: f64 = "climb.wear" {
        default: Value("0"), unit: "weight", placements: PROMOTING, live: true, example: "0.5", needs: &["climb.every='30s'"],
    }
    /// The highest mean response time in any span.
    MEAN: Nanos = "climb.caps.mean" { default: Else("none"), placements: PROMOTING, live: true, example: "'5ms'" }
    /// The highest 99th percentile of response times in any span.
    P99: Nanos = "climb.caps.p99" { default: Else("none"), placements: PROMOTING, live: true, example: "'50ms'" }
    /// The most bytes written to the fast device in a day, on a long average.
    FAST_WRITES_PER_DAY: Bytes = "climb.caps.fast_writes_per_day" {
        default: Else("none"), placements: PROMOTING, live: true, example: "'100GiB'",
    }
    /// The lifetime that the fast device must reach, on a long average; an alternative to `fast_writes_per_day`.
    LIFETIME_YEARS: f64 = "climb.caps.lifetime_years" {
        default: Else("none"), unit: "years", placements: PROMOTING, live: true, example: "5",
    }
    /// The highest power of all devices together, on a long average. Simulations only: a served volume cannot measure its
    /// power.
    POWER: Watts = "climb.caps.power" { default: Else("none"), placements: PROMOTING, example: "'8W'" }
}

/// A power, as in `power<=8W` of `peryton tune`.
pub(super) struct Watts(f64);

impl FromToml for Watts {
    const TYPE: &'static str = "power";
    const EXPECTED: &'static str = "a power above 0, such as \"8W\" or \"800mW\"";
    fn from_toml(value: &toml::Value) -> Result<Watts, Option<String>> {
        let text = value.as_str().ok_or(None)?;
        let (digits, unit) = match text.strip_suffix("mW") {
            Some(digits) => (digits, 1e-3),
            None => (text.strip_suffix('W').ok_or(None)?, 1.0),
        };
        let watts = digits.trim_end().parse::<f64>().map_err(|_| None)? * unit;
        if watts > 0.0 && watts.is_finite() { Ok(Watts(watts)) } else { Err(None) }
    }
}

/// Reads the table. `endurance` is how many bytes may be written to the fast device in its life, and `programmable` how
/// many can be programmed into it, over all its members.
pub(super) fn read(
    root: &mut Keys<'_>,
    placement: &Placement,
    devices: &[Spec<'_>],
    (endurance, programmable): (Option<Bytes>, Option<Bytes>),
) -> Result<Option<Climb>, DesignError> {
    let Some(mut keys) = root.table("climb")? else { return Ok(None) };
    if !placement.promotes() {
        return Err(root.wrong_at("climb", "applies to placement.mode = \"tiering\" and \"caching\" only: remove it"));
    }
    let mut climb = Climb::default();
    set(&mut climb.every, &mut keys, &EVERY)?;
    set(&mut climb.requests, &mut keys, &REQUESTS)?;
    set(&mut climb.latency, &mut keys, &LATENCY)?;
    set(&mut climb.wear, &mut keys, &WEAR)?;
    if let Some(mut caps) = keys.table("caps")? {
        climb.mean_cap = caps.get(&MEAN)?.map(|cap| *cap);
        climb.p99_cap = caps.get(&P99)?.map(|cap| *cap);
        let day = caps.get(&FAST_WRITES_PER_DAY)?;
        let years = caps.get(&LIFETIME_YEARS)?;
        climb.fast_bytes_per_day = match (day, years) {
            (Some(_), Some(years)) => {
                return Err(years.wrong("fast_writes_per_day says the same: remove one of them"));
            }
            (Some(day), None) => Some(*day),
            (None, Some(years)) => {
                let Some(endurance) = endurance else {
                    return Err(years.wrong(
                        "nothing says what may be written to the fast device: give endurance.NAME.written, a profile that \
                         has it, or fast_writes_per_day here",
                    ));
                };
                if *years <= 0.0 {
                    return Err(years.wrong("give it more than zero years"));
                }
                let a_day = |life: Bytes| Bytes((life.0 as f64 / *years / DAYS_PER_YEAR) as u64);
                climb.fast_programmed_per_day = programmable.map(a_day);
                // If the model does not report programmed bytes, the written bytes count, which are the least possible.
                Some(a_day(programmable.map_or(endurance, |programmable| endurance.min(programmable))))
            }
            (None, None) => None,
        };
        if let Some(cap) = caps.get(&POWER)? {
            if let Some(device) = devices.iter().find(|device| !device.given_profile().is_some_and(Profile::has_power))
            {
                return Err(cap.wrong(format!(
                    "the profile of '{}' does not say what it draws: give its model active_w, idle_w and standby_w, or \
                     remove this",
                    *device.name
                )));
            }
            climb.power_cap_w = Some(cap.0);
        }
        caps.finish()?;
    }
    keys.finish()?;
    Ok(Some(climb))
}
