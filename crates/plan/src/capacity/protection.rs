//! What a plan keeps for the day when devices fail: redundancy in each tier, spare devices, and room that stays free.

use std::{fmt, str::FromStr};

use peryton_sim::Redundancy;
use peryton_units::Nanos;
use serde::{Serialize, Serializer};

use super::candidate::Mode;

/// The protection that every design of a plan has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Protection {
    /// Of fast devices, and of designs of one kind of device that are not disks.
    pub fast: Redundancy,
    /// Of slow devices, and of designs of disks alone.
    pub slow: Redundancy,
    /// Caches that write through have the redundancy of fast devices too, though they hold copies only.
    pub copies: bool,
    /// Spare devices for each tier.
    pub spares: Spares,
    /// The share of each device that is filled at most.
    pub fill_limit: f64,
    /// Time from the failure of a device to the beginning of its rebuild; where none is given, a day if there are spares
    /// and a week if one has to be ordered.
    pub replace_within: Option<Nanos>,
}

/// The share of a device that is filled unless a plan says otherwise.
pub const FILL_LIMIT: f64 = 0.8;
const WITH_SPARES: Nanos = Nanos::from_s(86_400);
const WITHOUT_SPARES: Nanos = Nanos::from_s(7 * 86_400);

impl Default for Protection {
    fn default() -> Protection {
        Protection {
            fast: Redundancy::None,
            slow: Redundancy::None,
            copies: false,
            spares: Spares::Count(0),
            fill_limit: FILL_LIMIT,
            replace_within: None,
        }
    }
}

impl Protection {
    /// The redundancy of the fast devices of a hybrid.
    pub(super) fn of_fast(&self, mode: Mode) -> Redundancy {
        if mode == Mode::CachingThrough && !self.copies { Redundancy::None } else { self.fast }
    }

    /// Time from a failure to the beginning of the rebuild of a tier with so many spares.
    pub(super) fn replaced_after(&self, spares: u32) -> Nanos {
        self.replace_within.unwrap_or(if spares > 0 { WITH_SPARES } else { WITHOUT_SPARES })
    }
}

/// The share of each device that is filled at most, as text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FillLimit(pub f64);

impl FromStr for FillLimit {
    type Err = String;
    /// `80%`.
    fn from_str(text: &str) -> Result<FillLimit, String> {
        let share = text.trim().strip_suffix('%').and_then(|number| number.trim().parse::<f64>().ok());
        let share = share.filter(|percent| (1.0..=100.0).contains(percent)).map(|percent| FillLimit(percent / 100.0));
        share.ok_or_else(|| {
            format!("'{text}' is no fill limit: give a share of each device from 1% to 100%, such as 80%")
        })
    }
}

impl fmt::Display for FillLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.0 * 100.0)
    }
}

/// How many spare devices a tier has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Spares {
    /// So many.
    Count(u32),
    /// This share of its devices, rounded up.
    Share(f64),
}

impl Spares {
    /// The number for a tier of so many devices.
    pub fn of(self, devices: u32) -> u32 {
        match self {
            Spares::Count(count) => count,
            Spares::Share(share) => (f64::from(devices) * share - 1e-9).ceil() as u32,
        }
    }
}

/// The most spares of a tier.
const MOST_SPARES: u32 = 256;

impl FromStr for Spares {
    type Err = String;
    /// `2` or `5%`.
    fn from_str(text: &str) -> Result<Spares, String> {
        let expected = || {
            format!(
                "'{text}' is no number of spares: give 0 to {MOST_SPARES} for each tier, or a share of its devices such as 5%"
            )
        };
        match text.trim().strip_suffix('%') {
            Some(number) => {
                let share: f64 = number.trim().parse().map_err(|_| expected())?;
                if (0.0..=100.0).contains(&share) { Ok(Spares::Share(share / 100.0)) } else { Err(expected()) }
            }
            None => {
                let count = text.trim().parse().ok().filter(|count| *count <= MOST_SPARES);
                count.map(Spares::Count).ok_or_else(expected)
            }
        }
    }
}

impl Serialize for Spares {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Spares::Count(count) => serializer.serialize_u32(*count),
            Spares::Share(share) => serializer.serialize_str(&format!("{}%", share * 100.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fill_limit_is_a_share() {
        assert_eq!("80%".parse(), Ok(FillLimit(0.8)));
        assert_eq!(FillLimit(FILL_LIMIT).to_string().parse(), Ok(FillLimit(FILL_LIMIT)));
        for text in ["0", "0%", "-5%", "101%", "x", "", "80", "NaN%", "inf%"] {
            let error = text.parse::<FillLimit>().err().unwrap_or_default();
            assert!(error.contains("no fill limit") && !error.contains('\n'), "{text}: {error}");
        }
    }

    #[test]
    fn spares_are_a_number_or_a_share() {
        assert_eq!("2".parse(), Ok(Spares::Count(2)));
        assert_eq!("5%".parse::<Spares>().map(|spares| [1, 20, 21].map(|devices| spares.of(devices))), Ok([1, 1, 2]));
        for text in ["-1", "", "x", "1.5", "101%", "-5%", "NaN%", "257", "%"] {
            let error = text.parse::<Spares>().err().unwrap_or_default();
            assert!(error.contains("number of spares") && !error.contains('\n'), "{text}: {error}");
        }
    }
}
