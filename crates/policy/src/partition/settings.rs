//! What can be set of a partitioned drive.

use peryton_units::{Bytes, Nanos};

use crate::SettingError;

/// What a partitioned drive does (MixedStore, section 5); each part can be switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// How the fast device's response time is predicted.
    pub predict: Predict,
    /// How its wear is bounded.
    pub regulation: Regulation,
    /// The host is idle at the earliest when it has asked nothing for this long.
    pub idle_after: Nanos,
    /// Fragmentation busting: extents of the fast device that were not used for this long go to the slow one when the
    /// host is idle, and the fast device is told (section 5.3).
    pub bust_after: Option<Nanos>,
    /// Until this share of the fast device, in parts per million, holds nothing: more room does its cleaning less good
    /// than the slow device's reads do harm.
    pub bust_free: u32,
    /// Extents that were read so often, by requests of no more than `small` bytes, come to the fast device when the host
    /// is idle (section 5.2). 0: none do.
    pub promote_reads: u32,
    /// What a small request is.
    pub small: Bytes,
    /// Seeds the regulator's choice.
    pub seed: u64,
}

/// How the fast device's response time is predicted (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predict {
    /// A linear model of the last `window` requests and of what the device took for them. It learns during the first
    /// `training` writes and then stays as it is, as in the paper; with 0 it goes on learning, and forgets.
    Linear {
        /// Requests in the window.
        window: u32,
        /// Writes of the host while it learns, wherever they go.
        training: u32,
    },
    /// What the last request took: the paper's baseline.
    LastValue,
    /// No prediction: every write goes to the fast device.
    Off,
}

/// How writes to the fast device are held back (section 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regulation {
    /// Not at all.
    Off,
    /// This share of them, in parts per million, is sent to the slow device instead: 250,000 is the paper's Red25.
    Share(u32),
    /// This share of them (as [`Regulation::Share`]), but only while the host writes more than the fast device can
    /// stand for as long as it shall last: the paper's own use.
    ShareBeyond {
        /// Parts per million.
        share: u32,
        /// What it can stand.
        budget: WearBudget,
    },
    /// As many as it takes to make the fast device last.
    Lifetime(WearBudget),
}

/// What a device may be made to bear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WearBudget {
    /// What may be written to it in its life, as its maker rates it.
    pub endurance: Bytes,
    /// What can be programmed into its flash in its life; nothing where that is not known. The budget holds for whichever is
    /// used up first.
    pub programmable: Option<Bytes>,
    /// How long it shall last.
    pub lifetime: Nanos,
    /// Its write amplification, in thousandths, while nothing reports what it programs
    /// ([`Controller::programmed`](super::Controller::programmed)).
    pub amplification: u32,
}

impl Default for Partition {
    fn default() -> Partition {
        Partition {
            predict: Predict::Linear { window: 32, training: 0 },
            regulation: Regulation::Off,
            idle_after: Nanos::from_ms(20),
            bust_after: Some(Nanos::from_s(60)),
            bust_free: 200_000,
            promote_reads: 4,
            small: Bytes::kib(64),
            seed: 1,
        }
    }
}

/// The longest window: longer ones hardly move.
const MOST_WINDOW: u32 = 4096;

impl Partition {
    /// Whether the values can work together.
    ///
    /// # Errors
    /// The first setting that cannot work, with its design key.
    pub fn check(&self) -> Result<(), SettingError> {
        let range = |key, value: String, remedy| Err(SettingError::Range { key, value, remedy });
        if let Predict::Linear { window, .. } = self.predict
            && !(1..=MOST_WINDOW).contains(&window)
        {
            return range("partition.window", window.to_string(), "use 1 to 4096");
        }
        if self.bust_free > 1_000_000 {
            return range("partition.bust_free", format!("{} ppm", self.bust_free), "use a share from 0 to 1");
        }
        match self.regulation {
            Regulation::Share(share) | Regulation::ShareBeyond { share, .. } if share > 1_000_000 => {
                range("partition.regulation", format!("{share} ppm"), "use a share from 0 to 1")
            }
            Regulation::Lifetime(budget) | Regulation::ShareBeyond { budget, .. }
                if budget.endurance == Bytes::ZERO
                    || budget.programmable == Some(Bytes::ZERO)
                    || budget.lifetime == Nanos::ZERO =>
            {
                range("partition.lifetime", budget.lifetime.to_string(), "use more than zero, of a device that wears")
            }
            Regulation::Lifetime(budget) | Regulation::ShareBeyond { budget, .. } if budget.amplification < 1_000 => {
                range(
                    "partition.write_amplification",
                    format!("{}/1000", budget.amplification),
                    "use 1 or more: what the host writes is programmed at the least once",
                )
            }
            _ => Ok(()),
        }
    }
}
