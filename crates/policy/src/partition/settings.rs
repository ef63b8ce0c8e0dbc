//! The settings of a partitioned drive.

use peryton_units::{Bytes, Nanos};

use crate::SettingError;

/// The features of a partitioned drive (MixedStore, section 5); each can be switched off.
///
/// ```
/// use peryton_policy::{Partition, Regulation, WearBudget};
/// use peryton_units::{Bytes, Nanos};
///
/// // The fast device may be written 100 TB in its life and must last five years.
/// let budget = WearBudget {
///     endurance: Bytes(100_000_000_000_000),
///     programmable: None,
///     lifetime: "5y".parse()?,
///     amplification: 1_500,
/// };
/// let settings = Partition { regulation: Regulation::Lifetime(budget), bust_after: None, ..Partition::default() };
/// settings.check()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Partition {
    /// How the fast device's response time is predicted.
    pub predict: Predict,
    /// How its wear is bounded.
    pub regulation: Regulation,
    /// The host counts as idle after this long without a request, at the earliest.
    pub idle_after: Nanos,
    /// Defragmentation ("fragmentation busting", section 5.3): when the host is idle, extents of the fast device that
    /// were not used for this long move to the slow one, and the fast device discards their places.
    pub bust_after: Option<Nanos>,
    /// Defragmentation stops when this share of the fast device, in parts per million, is empty: further space improves
    /// its garbage collection less than the moves slow the reads of the slow device.
    pub bust_free: u32,
    /// Extents that were read this often, by requests of at most `small` bytes, are copied to the fast device when the
    /// host is idle (section 5.2); 0 for none.
    pub promote_reads: u32,
    /// The size of the largest small request.
    pub small: Bytes,
    /// The seed of the regulator's random choice.
    pub seed: u64,
}

/// How the fast device's response time is predicted (section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Predict {
    /// A linear model of the last `window` requests and of the device's service times for them. It learns during the
    /// first `training` writes and then does not change, as in the paper; with 0 it keeps learning, and forgets.
    Linear {
        /// Requests in the window.
        window: u32,
        /// Number of host writes during which it learns, wherever they go.
        training: u32,
    },
    /// The response time of the last request: the paper's baseline.
    LastValue,
    /// No prediction: every write goes to the fast device.
    Off,
}

/// How writes to the fast device are limited (section 5.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Regulation {
    /// No limit.
    Off,
    /// This share of them, in parts per million, is sent to the slow device instead: 250,000 is the paper's Red25.
    Share(u32),
    /// This share of them (as [`Regulation::Share`]), but only while the host writes more than the budget of the fast
    /// device allows: the paper's own use.
    ShareBeyond {
        /// Parts per million.
        share: u32,
        /// The budget.
        budget: WearBudget,
    },
    /// As large a share as keeps the fast device within this budget.
    Lifetime(WearBudget),
}

/// The wear budget of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WearBudget {
    /// Bytes that may be written to it in its life, according to its rating.
    pub endurance: Bytes,
    /// Bytes that can be programmed into its flash in its life; `None` if that is not known. The budget applies to the
    /// one that is used up first.
    pub programmable: Option<Bytes>,
    /// How long the device must last.
    pub lifetime: Nanos,
    /// Its write amplification, in thousandths, while nothing reports what it programs
    /// ([`Controller::programmed`](super::Controller::programmed)).
    pub amplification: u32,
}

/// A device that is older than it has to become may spend its rest as if it had this share of the whole time before it.
const LEAST_TIME_LEFT: f64 = 0.1;

impl WearBudget {
    /// The rate at which a device may be written that says how worn it is, in proportion to that of a new one: the rest of its life is
    /// spent in the rest of its time. `used_ppm`: the share of its life that is used up; `age`: how long it has been in use.
    ///
    /// ```
    /// use peryton_policy::WearBudget;
    /// use peryton_units::{Bytes, Nanos};
    ///
    /// let lifetime: Nanos = "5y".parse()?;
    /// let budget = WearBudget { endurance: Bytes(1 << 40), programmable: None, lifetime, amplification: 1_000 };
    /// // Half worn when half of its time is over, and when a fifth is.
    /// assert_eq!(budget.share_when_worn(500_000, Some(Nanos(lifetime.0 / 2))), 1.0);
    /// assert_eq!(budget.share_when_worn(500_000, Some(Nanos(lifetime.0 / 5))), 0.625);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn share_when_worn(&self, used_ppm: u32, age: Option<Nanos>) -> f64 {
        let life_left = 1.0 - f64::from(used_ppm.min(1_000_000)) / 1e6;
        let time_left = age.map_or(1.0, |age| 1.0 - age.0 as f64 / self.lifetime.0 as f64);
        life_left / time_left.max(LEAST_TIME_LEFT)
    }
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

/// The longest window; the mean of a longer one would hardly change.
const MOST_WINDOW: u32 = 4096;

impl Partition {
    /// Checks that the values can work together.
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
