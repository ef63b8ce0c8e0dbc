//! The figures of a design that budgets can bound and that planning and tuning can optimise: one table.
//! `docs/extending.md` shows how to add one.

use std::{fmt, str::FromStr};

use peryton_units::{Nanos, SECONDS_PER_YEAR, person, person_ms, person_years};
use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::evaluate::Metrics;

/// Which of two values is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Better {
    Less,
    More,
}

/// The unit of a value, which determines how it is read and written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Milliseconds,
    Years,
    Watts,
    KilowattHoursAYear,
    Dollars,
    PerSecond,
    PerSecondAndWatt,
}

macro_rules! metrics {
    ($($variant:ident [$name:literal $(, $alias:literal)*] $unit:ident $better:ident $of:expr, $description:literal;)*) => {
        /// A figure of a design under a trace that can be bounded, or made least or most.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Metric {
            $(#[doc = $description] $variant,)*
        }

        impl Metric {
            /// Every metric.
            pub const ALL: &[Metric] = &[$(Metric::$variant),*];

            /// The name that it is printed with.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Metric::$variant => $name,)*
                }
            }

            /// Other names that are understood.
            pub const fn aliases(self) -> &'static [&'static str] {
                match self {
                    $(Metric::$variant => &[$($alias),*],)*
                }
            }

            /// What it is, in a few words.
            pub const fn description(self) -> &'static str {
                match self {
                    $(Metric::$variant => $description,)*
                }
            }

            const fn unit(self) -> Unit {
                match self {
                    $(Metric::$variant => Unit::$unit,)*
                }
            }

            const fn better(self) -> Better {
                match self {
                    $(Metric::$variant => Better::$better,)*
                }
            }

            /// Its value: ms, years, W, kWh a year, USD or a number per second. `None` if it is not known. A design
            /// that never wears out has an infinite lifetime.
            pub fn of(self, metrics: &Metrics) -> Option<f64> {
                let of: fn(&Metrics) -> Option<f64> = match self {
                    $(Metric::$variant => $of,)*
                };
                of(metrics)
            }
        }
    };
}

// The variant, its names (the first is printed), its unit, which values are better, its value, and a description.
metrics! {
    Latency ["latency", "mean", "mean_ms"] Milliseconds Less |m| Some(m.mean_ms), "mean response time of all requests";
    Read ["read", "read_mean_ms"] Milliseconds Less |m| m.read_mean_ms, "mean response time of reads";
    Write ["write", "write_mean_ms"] Milliseconds Less |m| m.write_mean_ms, "mean response time of writes";
    Flush ["flush", "flush_mean_ms"] Milliseconds Less |m| m.flush_mean_ms, "mean response time of flushes";
    WriteThenFlush ["write_then_flush", "write_then_flush_mean_ms"] Milliseconds Less |m| m.write_then_flush_mean_ms,
        "mean time from a write's arrival to the end of the first flush that covers it";
    P50 ["p50", "p50_ms", "median"] Milliseconds Less |m| Some(m.p50_ms), "median response time";
    P99 ["p99", "p99_ms"] Milliseconds Less |m| Some(m.p99_ms), "99 % of requests are answered within";
    P999 ["p999", "p999_ms", "p99.9"] Milliseconds Less |m| Some(m.p999_ms), "99.9 % of requests are answered within";
    Iops ["iops"] PerSecond More |m| m.iops, "requests per second";
    Lifetime ["lifetime", "years", "lifetime_years"] Years More |m| Some(m.lifetime_years.unwrap_or(f64::INFINITY)),
        "years until the first device is worn out";
    Power ["power", "watts", "power_w"] Watts Less |m| m.power_w, "mean power of all devices";
    Energy ["energy", "energy_kwh_per_year"] KilowattHoursAYear Less |m| m.energy_kwh_per_year,
        "energy of all devices in a year";
    IopsPerWatt ["iops_per_watt"] PerSecondAndWatt More |m| m.iops.zip(m.power_w).map(|(iops, watts)| iops / watts),
        "requests per second and watt";
    Dollars ["dollars", "usd", "price"] Dollars Less |m| m.dollars, "purchase of all devices";
    Ownership ["ownership", "ownership_usd", "tco"] Dollars Less |m| m.ownership_usd,
        "purchase, replacements of what wears out, and electricity, over some years";
}

/// A unit in a budget, and its factor to the metric's own unit.
type Scale = (&'static str, f64);

const WATTS: &[Scale] = &[("W", 1.0), ("mW", 1e-3), ("kW", 1e3)];
const KILOWATT_HOURS: &[Scale] = &[
    ("kWh", 1.0),
    ("Wh", 1e-3),
    ("MWh", 1e3),
    ("J", 1.0 / 3.6e6),
    ("kJ", 1.0 / 3.6e3),
    ("MJ", 1.0 / 3.6),
    ("GJ", 1e3 / 3.6),
];

/// The text names no metric, or the value does not fit its unit.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MetricError {
    /// The metric does not exist.
    #[error("'{name}' is no figure of a design: use one of {known}", known = names())]
    Unknown {
        /// The name given.
        name: String,
    },
    /// The value does not fit the metric's unit.
    #[error("{metric} cannot be '{value}': give {expected}")]
    Value {
        /// The metric.
        metric: &'static str,
        /// The value given.
        value: String,
        /// The values that are accepted.
        expected: &'static str,
    },
}

fn names() -> String {
    Metric::ALL.iter().map(|metric| metric.name()).collect::<Vec<_>>().join(", ")
}

impl Metric {
    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        self.better() == Better::More
    }

    /// Whether spinning disks down can improve it.
    pub fn about_energy(self) -> bool {
        matches!(self.unit(), Unit::Watts | Unit::KilowattHoursAYear | Unit::PerSecondAndWatt)
            || self == Metric::Ownership
    }

    /// Advice for a design that has no value of it.
    pub fn remedy(self) -> &'static str {
        match self.unit() {
            Unit::Dollars => "give its devices prices (cost.price_usd), or leave it out",
            Unit::Watts | Unit::KilowattHoursAYear | Unit::PerSecondAndWatt => {
                "use device profiles with power figures, or leave it out"
            }
            Unit::Milliseconds | Unit::Years | Unit::PerSecond => "leave it out, or use a trace that has such requests",
        }
    }

    /// Its value with a sign such that less is better, for sorting; unknown values come last.
    pub fn cost(self, metrics: &Metrics) -> f64 {
        let value = self.of(metrics).filter(|value| !value.is_nan());
        value.map_or(f64::INFINITY, |value| if self.more_is_better() { -value } else { value })
    }

    /// Reads a value of this metric, such as `10ms` or `8W`.
    ///
    /// # Errors
    /// The text is not a value of its unit.
    pub fn parse_value(self, text: &str) -> Result<f64, MetricError> {
        let text = text.trim();
        let bad = |expected| MetricError::Value { metric: self.name(), value: short(text), expected };
        let time = |expected| text.parse::<Nanos>().map_err(|_| bad(expected));
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        let scaled = |units: &[Scale], expected| {
            let end = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(|| bad(expected))?;
            let (digits, unit) = text.split_at(end);
            let scale = units.iter().find(|(name, _)| *name == unit).ok_or_else(|| bad(expected))?.1;
            Ok(number(digits).ok_or_else(|| bad(expected))? * scale)
        };
        match self.unit() {
            Unit::Milliseconds => Ok(time("a time such as 2ms or 500us")?.as_s_f64() * 1e3),
            Unit::Years => Ok(time("a time such as 5y or 18000h")?.as_s_f64() / SECONDS_PER_YEAR),
            Unit::Watts => scaled(WATTS, "watts such as 8W"),
            Unit::KilowattHoursAYear => scaled(KILOWATT_HOURS, "energy a year, such as 70kWh"),
            Unit::Dollars => {
                let digits = text.strip_prefix('$').unwrap_or_else(|| text.strip_suffix("USD").unwrap_or(text));
                number(digits).ok_or_else(|| bad("dollars such as 500"))
            }
            Unit::PerSecond | Unit::PerSecondAndWatt => number(text).ok_or_else(|| bad("a number such as 500")),
        }
    }

    /// Writes a value of this metric with its unit.
    pub fn show(self, value: f64) -> String {
        if value.is_infinite() {
            return "unlimited".to_owned();
        }
        let digits = person(value);
        match self.unit() {
            Unit::Milliseconds => person_ms(value),
            Unit::Years => person_years(value),
            Unit::Watts => format!("{digits} W"),
            Unit::KilowattHoursAYear => format!("{digits} kWh/y"),
            Unit::Dollars => format!("{digits} USD"),
            Unit::PerSecond => format!("{digits}/s"),
            Unit::PerSecondAndWatt => format!("{digits}/s/W"),
        }
    }
}

/// Shortens a text for a quotation in a message: of bounded length, in one line.
pub(crate) fn short(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(60).collect()
}

impl FromStr for Metric {
    type Err = MetricError;
    fn from_str(text: &str) -> Result<Metric, MetricError> {
        let text = text.trim();
        let known = Metric::ALL.iter().find(|metric| metric.name() == text || metric.aliases().contains(&text));
        known.copied().ok_or_else(|| MetricError::Unknown { name: short(text) })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_name_is_read_back_and_means_one_metric() {
        let mut seen = Vec::new();
        for &metric in Metric::ALL {
            for name in [metric.name()].iter().chain(metric.aliases()) {
                assert_eq!(name.parse::<Metric>().unwrap(), metric);
                assert!(!seen.contains(name), "{name} means two metrics");
                seen.push(*name);
            }
            assert!(metric.parse_value("furlongs").is_err() && !metric.show(1.0).is_empty());
        }
        let error = "speed".parse::<Metric>().unwrap_err().to_string();
        assert!(error.contains("ownership") && !error.contains('\n'), "{error}");
    }
}
