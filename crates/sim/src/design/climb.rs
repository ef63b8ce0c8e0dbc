//! `[climb]`: settings that the drive adjusts while it runs.

use peryton_engine::{Climb, Placement};
use peryton_units::{Bytes, Nanos, SECONDS_PER_YEAR};

use super::{devices::Spec, placement::set};
use crate::{
    DesignError,
    document::{FromToml, Keys},
};

const DAYS_PER_YEAR: f64 = SECONDS_PER_YEAR / 86_400.0;

/// A power, as in `power<=8W` of `peryton tune`.
struct Watts(f64);

impl FromToml for Watts {
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
    if !matches!(placement, Placement::Tiering(_) | Placement::Caching(_)) {
        return Err(root.wrong_at("climb", "applies to placement.mode = \"tiering\" and \"caching\" only: remove it"));
    }
    let mut climb = Climb::default();
    set::<Nanos>(&mut climb.every, &mut keys, "every")?;
    set::<u32>(&mut climb.requests, &mut keys, "requests")?;
    set::<f64>(&mut climb.latency, &mut keys, "latency")?;
    set::<f64>(&mut climb.wear, &mut keys, "wear")?;
    if let Some(mut caps) = keys.table("caps")? {
        climb.mean_cap = caps.get::<Nanos>("mean")?.map(|cap| *cap);
        climb.p99_cap = caps.get::<Nanos>("p99")?.map(|cap| *cap);
        let day = caps.get::<Bytes>("fast_writes_per_day")?;
        let years = caps.get::<f64>("lifetime_years")?;
        climb.fast_bytes_per_day = match (day, years) {
            (Some(_), Some(years)) => {
                return Err(years.wrong("fast_writes_per_day says the same: remove one of them"));
            }
            (Some(day), None) => Some(*day),
            (None, Some(years)) => {
                let Some(endurance) = endurance else {
                    return Err(years.wrong(
                        "the fast device's profile does not say what may be written to it: give it endurance, or \
                         fast_writes_per_day here",
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
        if let Some(cap) = caps.get::<Watts>("power")? {
            if let Some(device) = devices.iter().find(|device| !device.profile.has_power()) {
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
