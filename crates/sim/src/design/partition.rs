//! `[partition]`: the rules by which a partitioned drive directs writes, and its background work while the host is idle
//! (MixedStore, section 5).

use peryton_engine::{Partition, Predict, Regulation, WearBudget};
use peryton_units::{Bytes, Nanos, SECONDS_PER_YEAR};

use super::{
    devices::OrNever,
    key::{
        KeyDefault::{Else, Value},
        keys, names,
    },
    placement::{PARTITIONED, set, word},
};
use crate::{DesignError, document::Keys};

keys! {
    /// The number of latest requests from which the linear model predicts the fast device's response time (`predict =
    /// "linear"`).
    WINDOW: u32 = "partition.window" { default: Value("32"), unit: "requests", placements: PARTITIONED, live: true, example: "16" }
    /// The number of host writes during which the linear model learns. With 0 it learns all the time, and old requests lose
    /// weight.
    TRAINING: u32 = "partition.training" { default: Value("0"), unit: "requests", placements: PARTITIONED, live: true, example: "1000" }
    /// How the fast device's response time is predicted (MixedStore, section 5.1). `linear`: by a linear model. `last_value`: by
    /// the last response time. `off`: not at all, and every write goes to the fast device.
    PREDICT: String = "partition.predict" {
        default: Value("'linear'"), words: || names(&predictions(Predict::Off)), placements: PARTITIONED, live: true,
        example: "'last_value'",
    }
    /// The share of the writes for the fast device that go to the slow one, so that the fast device wears less (MixedStore,
    /// section 5.4).
    REGULATE: f64 = "partition.regulate" { default: Else("0"), unit: "share", placements: PARTITIONED, live: true, example: "0.3" }
    /// The lifetime that the fast device must reach. It gives a budget of writes, and writes beyond the budget go to the slow
    /// device. With `regulate`, only that share of the writes goes there, and only while the host writes more than the budget.
    LIFETIME_YEARS: f64 = "partition.lifetime_years" {
        default: Else("no bound"), unit: "years", placements: PARTITIONED, live: true, example: "5",
    }
    /// The write amplification of the fast device, for as long as the device does not report the bytes that it programs.
    WRITE_AMPLIFICATION: f64 = "partition.write_amplification" {
        default: Value("1"), unit: "factor", placements: PARTITIONED, live: true, example: "1.5", needs: &["partition.lifetime_years=5"],
    }
    /// The time without a request after which the host counts as idle.
    IDLE_AFTER: Nanos = "partition.idle_after" { default: Value("'20ms'"), placements: PARTITIONED, live: true, example: "'50ms'" }
    /// Fragmentation busting (MixedStore, section 5.3): when the host is idle, the drive moves extents that were unused for
    /// this time to the slow device, and discards their slots.
    BUST_AFTER: OrNever = "partition.bust_after" { default: Value("'60s'"), placements: PARTITIONED, live: true, example: "'never'" }
    /// Fragmentation busting stops when this share of the fast device is empty.
    BUST_FREE: f64 = "partition.bust_free" { default: Value("0.2"), unit: "share", placements: PARTITIONED, live: true, example: "0.5" }
    /// The number of reads by small requests after which an idle host lets the drive copy an extent to the fast device. With 0
    /// no extent is copied.
    PROMOTE_READS: u32 = "partition.promote_reads" {
        default: Value("4"), unit: "reads", placements: PARTITIONED, live: true, example: "8",
    }
    /// The size of the largest small request.
    SMALL: Bytes = "partition.small" { default: Value("'64KiB'"), placements: PARTITIONED, live: true, example: "'128KiB'" }
}

/// The words for how response times are predicted; `linear` has settings of its own.
fn predictions(linear: Predict) -> [(&'static str, Predict); 3] {
    [("linear", linear), ("last_value", Predict::LastValue), ("off", Predict::Off)]
}

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
    let window = keys.get(&WINDOW)?;
    let training = keys.get(&TRAINING)?;
    if let Some(predict) = keys.get(&PREDICT)? {
        tuning.predict = word(&predict, &predictions(tuning.predict))?;
    }
    if let Predict::Linear { window: w, training: t } = &mut tuning.predict {
        *w = window.as_deref().copied().unwrap_or(*w);
        *t = training.as_deref().copied().unwrap_or(*t);
    }
    let share = keys.get(&REGULATE)?;
    let lifetime = keys.get(&LIFETIME_YEARS)?;
    let amplification = keys.get(&WRITE_AMPLIFICATION)?;
    match (share, lifetime) {
        (Some(share), _) if *share > 1.0 => {
            return Err(share.wrong(format!("is {}: use a share from 0 to 1", *share)));
        }
        (Some(share), None) => tuning.regulation = Regulation::Share(ppm(*share)),
        (share, Some(years)) => {
            let Some(endurance) = endurance else {
                return Err(years.wrong(
                    "nothing says what may be written to the fast device: give endurance.NAME.written or a profile that has it, \
                     or remove this",
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
    set(&mut tuning.idle_after, &mut keys, &IDLE_AFTER)?;
    if let Some(after) = keys.get(&BUST_AFTER)? {
        tuning.bust_after = after.into_inner().0;
    }
    if let Some(free) = keys.get(&BUST_FREE)? {
        if !(0.0..=1.0).contains(&*free) {
            return Err(free.wrong(format!("is {}: use a share from 0 to 1", *free)));
        }
        tuning.bust_free = ppm(*free);
    }
    set(&mut tuning.promote_reads, &mut keys, &PROMOTE_READS)?;
    set(&mut tuning.small, &mut keys, &SMALL)?;
    keys.finish()
}

fn ppm(share: f64) -> u32 {
    (share * 1e6).round() as u32
}
