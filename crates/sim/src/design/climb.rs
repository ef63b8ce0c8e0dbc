//! `[climb]`: settings that the drive moves by itself while it runs.

use peryton_engine::{Climb, Placement};
use peryton_units::{Bytes, Nanos, SECONDS_PER_YEAR};

use super::placement::set;
use crate::{DesignError, document::Keys};

const DAYS_PER_YEAR: f64 = SECONDS_PER_YEAR / 86_400.0;

/// Reads the table; `endurance` is what may be written to the fast device in its life, over all its members.
pub(super) fn read(
    root: &mut Keys<'_>,
    placement: &Placement,
    endurance: Option<Bytes>,
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
                Some(Bytes((endurance.0 as f64 / *years / DAYS_PER_YEAR) as u64))
            }
            (None, None) => None,
        };
        caps.finish()?;
    }
    keys.finish()?;
    Ok(Some(climb))
}
