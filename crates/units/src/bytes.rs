use std::{
    fmt,
    ops::{Add, AddAssign, Mul, Sub, SubAssign},
    str::FromStr,
};

use serde::{Deserialize, Deserializer, Serialize, de};

use crate::parse::{self, ParseUnitError};

/// A length, a size, or an offset on a device or volume, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct Bytes(pub u64);

const UNITS: &[(u64, &str)] =
    &[(1 << 50, "PiB"), (1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")];

impl Bytes {
    /// Zero bytes; the start of a device.
    pub const ZERO: Bytes = Bytes(0);

    /// `n` KiB.
    pub const fn kib(n: u64) -> Bytes {
        Bytes(n << 10)
    }
    /// `n` MiB.
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }
    /// `n` GiB.
    pub const fn gib(n: u64) -> Bytes {
        Bytes(n << 30)
    }
    /// Whether the offset or length is a multiple of `unit`.
    pub const fn is_multiple_of(self, unit: Bytes) -> bool {
        self.0.is_multiple_of(unit.0)
    }
    /// The text that is read back as exactly this size: with a unit if that loses nothing, otherwise the number of bytes.
    ///
    /// ```
    /// use peryton_units::Bytes;
    ///
    /// assert_eq!(Bytes::gib(4).exact(), "4GiB");
    /// assert_eq!(Bytes(1_000_000_000_000).exact(), "1000000000000");
    /// ```
    pub fn exact(self) -> String {
        let text = self.to_string();
        if text.parse() == Ok(self) { text } else { self.0.to_string() }
    }
    /// `self + other`, where the sum fits.
    pub fn checked_add(self, other: Bytes) -> Option<Bytes> {
        self.0.checked_add(other.0).map(Bytes)
    }
    /// `self + other`, or the largest value.
    pub const fn saturating_add(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_add(other.0))
    }
    /// `self` times `n`, or the largest value.
    pub const fn saturating_mul(self, n: u64) -> Bytes {
        Bytes(self.0.saturating_mul(n))
    }
    /// `self - other`, or zero.
    pub fn saturating_sub(self, other: Bytes) -> Bytes {
        Bytes(self.0.saturating_sub(other.0))
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}
impl Sub for Bytes {
    type Output = Bytes;
    fn sub(self, other: Bytes) -> Bytes {
        Bytes(self.0 - other.0)
    }
}
impl Mul<u64> for Bytes {
    type Output = Bytes;
    fn mul(self, n: u64) -> Bytes {
        Bytes(self.0 * n)
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}
impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        self.0 -= other.0;
    }
}

impl FromStr for Bytes {
    type Err = ParseUnitError;
    /// Reads `4096`, `4KiB`, `1.5 GiB`, decimal `kB`, `MB`, `GB`, `TB` as in data sheets, and binary `4k`, `4K`, `1M`
    /// as in fio.
    fn from_str(text: &str) -> Result<Bytes, ParseUnitError> {
        let known = "B, KiB, MiB, GiB, TiB, PiB, kB, MB, GB, TB, PB";
        parse::scaled(text, "a size such as 8GiB", "bytes", known, |unit| {
            Some(match unit {
                "" | "B" => 1,
                "KiB" | "k" | "K" => 1 << 10,
                "MiB" | "m" | "M" => 1 << 20,
                "GiB" | "g" | "G" => 1 << 30,
                "TiB" | "t" | "T" => 1 << 40,
                "PiB" => 1 << 50,
                "kB" | "KB" => 1_000,
                "MB" => 1_000_000,
                "GB" => 1_000_000_000,
                "TB" => 1_000_000_000_000,
                "PB" => 1_000_000_000_000_000,
                _ => return None,
            })
        })
        .map(Bytes)
    }
}

impl Bytes {
    /// The size in a sentence that says that it differs from another one: as a number of bytes if the two would read the same.
    ///
    /// ```
    /// use peryton_units::Bytes;
    ///
    /// let (has, needs) = (Bytes::mib(70), Bytes(Bytes::mib(70).0 + 4096));
    /// assert_eq!(format!("has {}, needs {}", has.beside(needs), needs.beside(has)), "has 70MiB, needs 71684KiB");
    /// assert_eq!(Bytes(73_400_321).beside(Bytes(73_404_416)), "70MiB");
    /// assert_eq!(Bytes::mib(70).beside(Bytes::gib(1)), "70MiB");
    /// ```
    pub fn beside(self, other: Bytes) -> String {
        let text = |one: Bytes, other: Bytes| if one > other { one.at_least() } else { one.to_string() };
        let mine = text(self, other);
        if self != other && mine == text(other, self) { format!("{} bytes", self.0) } else { mine }
    }

    /// The text of the least that is needed. It can be read back, and is no less than this size and at most a hundredth more.
    ///
    /// ```
    /// use peryton_units::Bytes;
    ///
    /// let need = Bytes(Bytes::mib(322).0 + 4096);
    /// assert_eq!((need.to_string(), need.at_least()), ("322MiB".to_owned(), "323MiB".to_owned()));
    /// assert_eq!(Bytes::gib(4).at_least(), "4GiB");
    /// ```
    pub fn at_least(self) -> String {
        let (scale, name) = self.unit_of_a_hundredth();
        format!("{}{name}", self.0.div_ceil(scale))
    }

    /// The text of the most that is allowed. It can be read back, and is no more than this size and at most a hundredth less.
    ///
    /// ```
    /// use peryton_units::Bytes;
    ///
    /// assert_eq!(Bytes(Bytes::mib(323).0 - 4096).at_most(), "322MiB");
    /// assert_eq!(Bytes::gib(4).at_most(), "4GiB");
    /// ```
    pub fn at_most(self) -> String {
        let (scale, name) = self.unit_of_a_hundredth();
        format!("{}{name}", self.0 / scale)
    }

    /// The largest unit of which this is a whole number, or at least a hundred.
    fn unit_of_a_hundredth(self) -> (u64, &'static str) {
        let enough = |scale: u64| self.0.is_multiple_of(scale) || self.0 / scale >= 100;
        let unit = UNITS.iter().find(|(scale, _)| self.0 >= *scale && enough(*scale));
        unit.copied().unwrap_or((1, "B"))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&parse::shortest(self.0, UNITS))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bytes, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = Bytes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a size such as \"8GiB\", or a whole number of bytes")
            }
            fn visit_str<E: de::Error>(self, text: &str) -> Result<Bytes, E> {
                text.parse().map_err(E::custom)
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Bytes, E> {
                Ok(Bytes(value))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Bytes, E> {
                u64::try_from(value).map(Bytes).map_err(|_| E::custom(format!("a size cannot be negative: {value}")))
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn human_sizes_read_exactly() {
        for (text, value) in [
            ("0", 0),
            ("512", 512),
            ("4KiB", 4096),
            ("1.5 KiB", 1536),
            ("300GB", 300_000_000_000),
            ("16TiB", 16 << 40),
            ("4k", 4096),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(value)), "{text}");
        }
        for text in ["", "GiB", "1.2.3GiB", "8 GiBs", "0.3B", "99999999999PiB", "-1"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_is_printed_reads_back() {
        for value in [0, 1, 512, 4096, 1 << 20, (8 << 30) + (1 << 29), 36_500_000_000] {
            let text = Bytes(value).to_string();
            let back = text.parse::<Bytes>().map(|b| b.0).unwrap_or(value);
            let error = back.abs_diff(value) as f64 / (value.max(1)) as f64;
            assert!(error < 0.01, "{value} printed as {text} reads {back}");
        }
    }
}
