//! `[partition]`: the rules by which a partitioned drive directs writes, and its background work while the host is idle
//! (MixedStore, section 5).

use peryton_engine::{Partition, Predict, Regulation, WearBudget};
use peryton_units::{Bytes, Nanos, SECONDS_PER_YEAR};

use super::{
    devices::OrNever,
    placement::{set, word},
};
use crate::{DesignError, document::Keys};

/// Reads the table. `endurance` is how many bytes may be written to the fast device in its life, and `programmable` how
/// many can be programmed into it, over all its members.
pub(super) fn read(
    root: &mut Keys<'_>,
    partitioned: bool,
    (endurance, programmable): (Option<Bytes>, Option<Bytes>),
    seed: u64,
    tuning: &mut Partition,
) -> Result<(), DesignError> {
    tuning.seed = seed;
    let Some(mut keys) = root.table("partition")? else { return Ok(()) };
    if !partitioned {
        return Err(root.wrong_at("partition", "applies to placement.mode = \"partitioned\" only: remove it"));
    }
    let window = keys.get::<u32>("window")?;
    let training = keys.get::<u32>("training")?;
    if let Some(predict) = keys.get::<String>("predict")? {
        let known = [("linear", tuning.predict), ("last_value", Predict::LastValue), ("off", Predict::Off)];
        tuning.predict = word(&predict, &known, &[])?;
    }
    if let Predict::Linear { window: w, training: t } = &mut tuning.predict {
        *w = window.as_deref().copied().unwrap_or(*w);
        *t = training.as_deref().copied().unwrap_or(*t);
    }
    let share = keys.get::<f64>("regulate")?;
    let lifetime = keys.get::<f64>("lifetime_years")?;
    let amplification = keys.get::<f64>("write_amplification")?;
    match (share, lifetime) {
        (Some(share), _) if *share > 1.0 => {
            return Err(share.wrong(format!("is {}: use a share from 0 to 1", *share)));
        }
        (Some(share), None) => tuning.regulation = Regulation::Share(ppm(*share)),
        (share, Some(years)) => {
            let Some(endurance) = endurance else {
                return Err(years.wrong(
                    "the fast device's profile does not say what may be written to it: give it endurance, or remove this",
                ));
            };
            let lifetime = Nanos((*years * SECONDS_PER_YEAR * 1e9).min(1e19) as u64);
            if lifetime == Nanos::ZERO || endurance == Bytes::ZERO || programmable == Some(Bytes::ZERO) {
                return Err(years.wrong("give it more than zero years"));
            }
            let amplification = match &amplification {
                Some(times) if !(1.0..=1e6).contains(&**times) => {
                    return Err(times.wrong(format!("is {}: use 1 to 1000000", **times)));
                }
                Some(times) => (**times * 1e3) as u32,
                None => 1_000,
            };
            let budget = WearBudget { endurance, programmable, lifetime, amplification };
            tuning.regulation = match share {
                Some(share) => Regulation::ShareBeyond { share: ppm(*share), budget },
                None => Regulation::Lifetime(budget),
            };
        }
        (None, None) => {}
    }
    set::<Nanos>(&mut tuning.idle_after, &mut keys, "idle_after")?;
    if let Some(after) = keys.get::<OrNever>("bust_after")? {
        tuning.bust_after = after.into_inner().0;
    }
    if let Some(free) = keys.get::<f64>("bust_free")? {
        if !(0.0..=1.0).contains(&*free) {
            return Err(free.wrong(format!("is {}: use a share from 0 to 1", *free)));
        }
        tuning.bust_free = ppm(*free);
    }
    set::<u32>(&mut tuning.promote_reads, &mut keys, "promote_reads")?;
    set::<Bytes>(&mut tuning.small, &mut keys, "small")?;
    keys.finish()
}

fn ppm(share: f64) -> u32 {
    (share * 1e6).round() as u32
}
