//! Budgets in words: `lifetime>=5y,p99<=10ms,power<=8W`, and what is to be least or most.

use std::{fmt, str::FromStr};

use peryton_units::{Nanos, SECONDS_PER_YEAR};
use serde::{Serialize, Serializer};
use thiserror::Error;

use crate::evaluate::Metrics;

/// A figure of a design under a trace that can be bounded, or made least or most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Mean response time of all requests.
    Latency,
    /// Mean response time of reads.
    Read,
    /// Mean response time of writes.
    Write,
    /// Median response time.
    P50,
    /// 99 % of requests are answered within.
    P99,
    /// 99.9 % of requests are answered within.
    P999,
    /// Years until the first device is worn out.
    Lifetime,
    /// Mean power of all devices.
    Power,
    /// Energy of all devices in a year.
    Energy,
    /// Purchase of all devices.
    Dollars,
    /// Purchase, replacements of what wears out, and electricity, over some years.
    Ownership,
    /// Requests per second.
    Iops,
}

/// How the values of a metric are written.
enum Unit {
    Time,
    Years,
    Scaled(&'static [(&'static str, f64)]),
    Dollars,
    Plain,
}

const WATTS: Unit = Unit::Scaled(&[("W", 1.0), ("mW", 1e-3), ("kW", 1e3)]);
/// Kilowatt-hours a year.
const ENERGY: Unit = Unit::Scaled(&[
    ("kWh", 1.0),
    ("Wh", 1e-3),
    ("MWh", 1e3),
    ("J", 1.0 / 3.6e6),
    ("kJ", 1.0 / 3.6e3),
    ("MJ", 1.0 / 3.6),
    ("GJ", 1e3 / 3.6),
]);

impl Metric {
    /// Every metric, and its names, of which the first is the one that is printed.
    const NAMES: &'static [(Metric, &'static [&'static str])] = &[
        (Metric::Latency, &["latency", "mean", "mean_ms"]),
        (Metric::Read, &["read", "read_mean_ms"]),
        (Metric::Write, &["write", "write_mean_ms"]),
        (Metric::P50, &["p50", "p50_ms", "median"]),
        (Metric::P99, &["p99", "p99_ms"]),
        (Metric::P999, &["p999", "p999_ms", "p99.9"]),
        (Metric::Lifetime, &["lifetime", "years", "lifetime_years"]),
        (Metric::Power, &["power", "watts", "power_w"]),
        (Metric::Energy, &["energy", "energy_kwh_per_year"]),
        (Metric::Dollars, &["dollars", "usd", "price"]),
        (Metric::Ownership, &["ownership", "ownership_usd", "tco"]),
        (Metric::Iops, &["iops"]),
    ];

    /// Every metric.
    pub const ALL: [Metric; 12] = [
        Metric::Latency,
        Metric::Read,
        Metric::Write,
        Metric::P50,
        Metric::P99,
        Metric::P999,
        Metric::Iops,
        Metric::Lifetime,
        Metric::Power,
        Metric::Energy,
        Metric::Dollars,
        Metric::Ownership,
    ];

    /// The name that it is printed with.
    pub fn name(self) -> &'static str {
        Metric::NAMES.iter().find(|(metric, _)| *metric == self).map_or("", |(_, names)| names[0])
    }

    /// Whether more of it is better.
    pub fn more_is_better(self) -> bool {
        matches!(self, Metric::Lifetime | Metric::Iops)
    }

    /// Its value: ms, years, W, kWh a year, USD or requests per second. Absent where it is not known. What never wears
    /// out lives for infinitely many years.
    pub fn of(self, metrics: &Metrics) -> Option<f64> {
        match self {
            Metric::Latency => Some(metrics.mean_ms),
            Metric::Read => metrics.read_mean_ms,
            Metric::Write => metrics.write_mean_ms,
            Metric::P50 => Some(metrics.p50_ms),
            Metric::P99 => Some(metrics.p99_ms),
            Metric::P999 => Some(metrics.p999_ms),
            Metric::Lifetime => Some(metrics.lifetime_years.unwrap_or(f64::INFINITY)),
            Metric::Power => metrics.power_w,
            Metric::Energy => metrics.energy_kwh_per_year,
            Metric::Dollars => metrics.dollars,
            Metric::Ownership => metrics.ownership_usd,
            Metric::Iops => metrics.iops,
        }
    }

    /// Its value so that less is better, for sorting; what is not known comes last.
    pub fn cost(self, metrics: &Metrics) -> f64 {
        let value = self.of(metrics).filter(|value| !value.is_nan());
        value.map_or(f64::INFINITY, |value| if self.more_is_better() { -value } else { value })
    }

    fn unit(self) -> Unit {
        match self {
            Metric::Latency | Metric::Read | Metric::Write | Metric::P50 | Metric::P99 | Metric::P999 => Unit::Time,
            Metric::Lifetime => Unit::Years,
            Metric::Power => WATTS,
            Metric::Energy => ENERGY,
            Metric::Dollars | Metric::Ownership => Unit::Dollars,
            Metric::Iops => Unit::Plain,
        }
    }

    /// Reads a value of this metric, such as `10ms` or `8W`.
    fn value(self, text: &str) -> Result<f64, ConstraintError> {
        let text = text.trim();
        let bad = |expected| ConstraintError::Value { metric: self.name(), value: short(text), expected };
        let time = |expected| text.parse::<Nanos>().map_err(|_| bad(expected));
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        match self.unit() {
            Unit::Time => Ok(time("a time such as 2ms or 500us")?.as_s_f64() * 1e3),
            Unit::Years => Ok(time("a time such as 5y or 18000h")?.as_s_f64() / SECONDS_PER_YEAR),
            Unit::Scaled(units) => {
                let expected = if self == Metric::Power { "watts such as 8W" } else { "energy a year, such as 70kWh" };
                let end = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(|| bad(expected))?;
                let (digits, unit) = text.split_at(end);
                let scale = units.iter().find(|(name, _)| *name == unit).ok_or_else(|| bad(expected))?.1;
                Ok(number(digits).ok_or_else(|| bad(expected))? * scale)
            }
            Unit::Dollars => {
                let digits = text.strip_prefix('$').unwrap_or_else(|| text.strip_suffix("USD").unwrap_or(text));
                number(digits).ok_or_else(|| bad("dollars such as 500"))
            }
            Unit::Plain => number(text).ok_or_else(|| bad("a number such as 500")),
        }
    }

    /// Writes a value of this metric with its unit.
    pub fn show(self, value: f64) -> String {
        let digits = |value: f64| if value.abs() >= 99.5 { format!("{value:.0}") } else { trimmed(value) };
        match self.unit() {
            _ if value.is_infinite() => "unlimited".to_owned(),
            Unit::Time => format!("{} ms", digits(value)),
            Unit::Years => format!("{} y", digits(value)),
            Unit::Scaled(_) if self == Metric::Power => format!("{} W", digits(value)),
            Unit::Scaled(_) => format!("{} kWh/y", digits(value)),
            Unit::Dollars => format!("{} USD", digits(value)),
            Unit::Plain => format!("{}/s", digits(value)),
        }
    }
}

fn trimmed(value: f64) -> String {
    // Three significant digits, without the zeros that say nothing.
    let before = value.abs().max(1e-9).log10().floor() as i32;
    let text = format!("{value:.*}", (2 - before).clamp(0, 9) as usize);
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

fn short(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(60).collect()
}

impl FromStr for Metric {
    type Err = ConstraintError;
    fn from_str(text: &str) -> Result<Metric, ConstraintError> {
        let known = Metric::NAMES.iter().find(|(_, names)| names.contains(&text.trim()));
        known.map(|(metric, _)| *metric).ok_or_else(|| ConstraintError::Metric { name: short(text.trim()) })
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Metric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A bound on a metric: from below where more is better, else from above.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constraint {
    /// What is bounded.
    pub metric: Metric,
    /// By what, in the unit of [`Metric::of`]; above zero.
    pub limit: f64,
}

/// A budget or metric that cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConstraintError {
    /// No such metric.
    #[error(
        "'{name}' is no figure of a design: use latency, read, write, p50, p99, p999, lifetime, power, energy, dollars, \
         ownership or iops"
    )]
    Metric {
        /// What was given.
        name: String,
    },
    /// No comparison.
    #[error("'{text}' is no budget: write one such as p99<=10ms, lifetime>=5y or power<=8W")]
    Form {
        /// What was given.
        text: String,
    },
    /// Bounded from the wrong side.
    #[error("{metric} is bounded the other way: write {metric}{right}…")]
    Side {
        /// Which.
        metric: &'static str,
        /// The comparison that makes sense.
        right: &'static str,
    },
    /// A value without meaning.
    #[error("{metric} cannot be '{value}': give {expected}")]
    Value {
        /// Of what.
        metric: &'static str,
        /// What was given.
        value: String,
        /// What would be accepted.
        expected: &'static str,
    },
    /// A bound that nothing can meet, or that says nothing.
    #[error("a budget of {value} for {metric} {why}: use one above zero")]
    Zero {
        /// Of what.
        metric: &'static str,
        /// What was given.
        value: String,
        /// What is wrong with it.
        why: &'static str,
    },
}

impl Constraint {
    /// A bound.
    ///
    /// # Errors
    /// A limit that is not above zero and finite.
    pub fn new(metric: Metric, limit: f64) -> Result<Constraint, ConstraintError> {
        if limit > 0.0 && limit.is_finite() {
            return Ok(Constraint { metric, limit });
        }
        let why = if metric.more_is_better() { "asks for nothing" } else { "cannot be met" };
        Err(ConstraintError::Zero { metric: metric.name(), value: metric.show(limit), why })
    }

    /// Several, with commas between them.
    ///
    /// # Errors
    /// That of the first that cannot be read.
    pub fn list(text: &str) -> Result<Vec<Constraint>, ConstraintError> {
        text.split(',').map(str::parse).collect()
    }

    /// How far a design is from this bound: at most 1 where it is met, 2 where it would have to be twice as good. A
    /// figure that is not known meets no bound.
    pub fn strain(&self, metrics: &Metrics) -> f64 {
        match self.metric.of(metrics) {
            Some(value) if self.metric.more_is_better() => self.limit / value.max(0.0),
            Some(value) => value / self.limit,
            None => f64::INFINITY,
        }
    }

    /// Whether a design meets it.
    pub fn met(&self, metrics: &Metrics) -> bool {
        self.strain(metrics) <= 1.0
    }

    /// The same bound, so many times as loose.
    pub fn loosened(&self, by: f64) -> Constraint {
        let limit = if self.metric.more_is_better() { self.limit / by } else { self.limit * by };
        Constraint { metric: self.metric, limit }
    }
}

/// Of all bounds, how far a design is from the one that it is furthest from; zero where there are none.
pub fn strain(constraints: &[Constraint], metrics: &Metrics) -> f64 {
    constraints.iter().map(|constraint| constraint.strain(metrics)).fold(0.0, f64::max)
}

impl FromStr for Constraint {
    type Err = ConstraintError;
    fn from_str(text: &str) -> Result<Constraint, ConstraintError> {
        let form = || ConstraintError::Form { text: short(text.trim()) };
        let signs = [("<=", false), (">=", true), ("≤", false), ("≥", true)];
        let (name, more, value) = signs
            .iter()
            .find_map(|(sign, more)| text.split_once(sign).map(|(name, value)| (name, *more, value)))
            .ok_or_else(form)?;
        let metric: Metric = name.parse()?;
        if more != metric.more_is_better() {
            let right = if more { "<=" } else { ">=" };
            return Err(ConstraintError::Side { metric: metric.name(), right });
        }
        Constraint::new(metric, metric.value(value)?)
    }
}

impl fmt::Display for Constraint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.metric.more_is_better() { "≥" } else { "≤" };
        write!(f, "{} {sign} {}", self.metric, self.metric.show(self.limit))
    }
}

impl Serialize for Constraint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeStruct;
        let mut fields = serializer.serialize_struct("Constraint", 2)?;
        fields.serialize_field("metric", &self.metric)?;
        fields.serialize_field("limit", &self.limit)?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn budgets_are_read_with_their_units() {
        let read =
            Constraint::list("lifetime>=5y, p99<=10ms,power <= 8W,energy≤70kWh,dollars<=$500,latency<=500us").unwrap();
        let limits: Vec<(Metric, f64)> = read.iter().map(|one| (one.metric, one.limit)).collect();
        let wanted = [
            (Metric::Lifetime, 5.0),
            (Metric::P99, 10.0),
            (Metric::Power, 8.0),
            (Metric::Energy, 70.0),
            (Metric::Dollars, 500.0),
            (Metric::Latency, 0.5),
        ];
        assert_eq!(limits, wanted);
        assert_eq!("energy<=3.6MJ".parse::<Constraint>().unwrap().limit, 1.0);
        assert_eq!(read[0].to_string(), "lifetime ≥ 5 y");
        assert_eq!(read[5].to_string(), "latency ≤ 0.5 ms");
    }

    #[test]
    fn what_is_no_budget_is_told_in_one_line() {
        for (text, part) in [
            ("latency=2ms", "is no budget"),
            ("speed<=2", "no figure of a design"),
            ("latency>=2ms", "write latency<=…"),
            ("lifetime<=2y", "write lifetime>=…"),
            ("latency<=2", "a time such as 2ms"),
            ("latency<=0ms", "cannot be met"),
            ("lifetime>=0y", "asks for nothing"),
            ("power<=8", "watts such as 8W"),
            ("power<=8furlongs", "watts such as 8W"),
            ("dollars<=-5", "above zero"),
            ("dollars<=inf", "dollars such as 500"),
            ("", "is no budget"),
        ] {
            let error = text.parse::<Constraint>().unwrap_err().to_string();
            assert!(error.contains(part) && !error.contains('\n'), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in "\\PC*", metric in "latency|lifetime|power|energy|dollars|iops|", sign in "<=|>=|≤|") {
            let _ = Constraint::list(&text);
            let _ = Constraint::list(&format!("{metric}{sign}{text}"));
        }
    }
}
