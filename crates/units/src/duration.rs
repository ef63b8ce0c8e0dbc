use std::{
    fmt,
    ops::{Add, AddAssign, Mul, Sub, SubAssign},
    str::FromStr,
};

use bytemuck::Zeroable;
use serde::{Deserialize, Deserializer, Serialize, de};

use crate::parse::{self, ParseUnitError};

/// A point on the engine's clock, or a span of it, in nanoseconds. The clock starts at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Zeroable)]
#[serde(transparent)]
pub struct Nanos(pub u64);

const UNITS: &[(u64, &str)] = &[
    (86_400_000_000_000, "d"),
    (3_600_000_000_000, "h"),
    (60_000_000_000, "min"),
    (1_000_000_000, "s"),
    (1_000_000, "ms"),
    (1_000, "us"),
    (1, "ns"),
];

impl Nanos {
    /// The start of the clock; a span of zero length.
    pub const ZERO: Nanos = Nanos(0);
    /// The largest time, later than any event.
    pub const MAX: Nanos = Nanos(u64::MAX);

    /// `n` microseconds.
    pub const fn from_us(n: u64) -> Nanos {
        Nanos(n * 1_000)
    }
    /// `n` milliseconds.
    pub const fn from_ms(n: u64) -> Nanos {
        Nanos(n * 1_000_000)
    }
    /// `n` seconds.
    pub const fn from_s(n: u64) -> Nanos {
        Nanos(n * 1_000_000_000)
    }
    /// Seconds, rounded to the nearest nanosecond; negative values and NaN give zero.
    pub fn from_s_f64(seconds: f64) -> Nanos {
        Nanos((seconds * 1e9).round() as u64)
    }
    /// In seconds.
    pub fn as_s_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }
    /// In microseconds.
    pub fn as_us_f64(self) -> f64 {
        self.0 as f64 / 1e3
    }
    /// `self - earlier`, or zero.
    pub const fn saturating_sub(self, earlier: Nanos) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
    /// `self + span`, or `Nanos::MAX`.
    pub const fn saturating_add(self, span: Nanos) -> Nanos {
        Nanos(self.0.saturating_add(span.0))
    }
}

impl Add for Nanos {
    type Output = Nanos;
    fn add(self, other: Nanos) -> Nanos {
        Nanos(self.0 + other.0)
    }
}
impl Sub for Nanos {
    type Output = Nanos;
    fn sub(self, other: Nanos) -> Nanos {
        Nanos(self.0 - other.0)
    }
}
impl Mul<u64> for Nanos {
    type Output = Nanos;
    fn mul(self, n: u64) -> Nanos {
        Nanos(self.0 * n)
    }
}
impl AddAssign for Nanos {
    fn add_assign(&mut self, other: Nanos) {
        self.0 += other.0;
    }
}
impl SubAssign for Nanos {
    fn sub_assign(&mut self, other: Nanos) {
        self.0 -= other.0;
    }
}

impl FromStr for Nanos {
    type Err = ParseUnitError;
    /// `5s`, `400us`, `1.5ms`, `15min`, `5y`. A bare number is refused, because it does not say its unit.
    fn from_str(text: &str) -> Result<Nanos, ParseUnitError> {
        let known = "ns, us, ms, s, min, h, d, y";
        parse::scaled(text, "a time such as 5s", "nanoseconds", known, |unit| {
            Some(match unit {
                "ns" => 1,
                "us" | "µs" => 1_000,
                "ms" => 1_000_000,
                "s" => 1_000_000_000,
                "min" => 60_000_000_000,
                "h" => 3_600_000_000_000,
                "d" => 86_400_000_000_000,
                "y" => 31_557_600_000_000_000,
                _ => return None,
            })
        })
        .map(Nanos)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.pad("0s");
        }
        f.pad(&parse::shortest(self.0, UNITS))
    }
}

impl<'de> Deserialize<'de> for Nanos {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Nanos;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a time with its unit, such as \"5s\" or \"400us\"")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Nanos, E> {
                text.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn human_times_read_exactly() {
        for (text, value) in
            [("5s", 5_000_000_000), ("400us", 400_000), ("1.5ms", 1_500_000), ("15 min", 900_000_000_000), ("0s", 0)]
        {
            assert_eq!(text.parse(), Ok(Nanos(value)), "{text}");
        }
        for text in ["", "5", "s", "0.5ns", "-1s", "1 fortnight", "999999y"] {
            assert!(text.parse::<Nanos>().is_err(), "{text}");
        }
    }
}
