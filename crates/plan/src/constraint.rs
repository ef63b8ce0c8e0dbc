//! Budgets as text: `lifetime>=5y,p99<=10ms,power<=8W`.

use std::{fmt, str::FromStr};

use peryton_units::{Nanos, SECONDS_PER_YEAR};
use serde::{Serialize, Serializer};
use thiserror::Error;

pub use crate::metric::{Metric, MetricError};
use crate::{evaluate::Metrics, metric::short};

/// A bound on a metric: a lower bound if more is better, otherwise an upper bound.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Constraint {
    /// The bounded metric.
    pub metric: Metric,
    /// The bound, in the unit of [`Metric::of`]; above zero.
    pub limit: f64,
}

/// A budget or metric that cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ConstraintError {
    /// The metric does not exist or does not accept the value.
    #[error(transparent)]
    Metric(#[from] MetricError),
    /// The text has no comparison.
    #[error("'{text}' is no budget: write one such as p99<=10ms, lifetime>=5y or power<=8W")]
    Form {
        /// The text.
        text: String,
    },
    /// The comparison has the wrong direction.
    #[error("{metric} is bounded the other way: write {metric}{right}…")]
    Side {
        /// The metric.
        metric: &'static str,
        /// The comparison in the right direction.
        right: &'static str,
    },
    /// A metric has two bounds.
    #[error("{metric} has two budgets: leave one of them out")]
    Twice {
        /// The metric.
        metric: &'static str,
    },
    /// A bound in a list cannot be read.
    #[error("{option}: {why}")]
    Listed {
        /// The option with the list.
        option: &'static str,
        /// The error.
        why: Box<ConstraintError>,
    },
    /// No design can meet the bound, or every design does.
    #[error("a budget of {value} for {metric} {why}: use one above zero")]
    Zero {
        /// The metric.
        metric: &'static str,
        /// The value given.
        value: String,
        /// The reason.
        why: &'static str,
    },
}

impl Constraint {
    /// A bound on a metric.
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

    /// Reads several bounds, separated by commas.
    ///
    /// # Errors
    /// The error of the first bound that cannot be read.
    pub fn list(text: &str) -> Result<Vec<Constraint>, ConstraintError> {
        text.split(',').map(str::parse).collect()
    }

    /// The budgets of a mean response time, of a lifetime, and of texts that each list several.
    ///
    /// # Errors
    /// The first text that cannot be read, or a metric that has two budgets.
    pub fn gather(
        latency: Option<Nanos>,
        lifetime: Option<Nanos>,
        subject_to: &[String],
    ) -> Result<Vec<Constraint>, ConstraintError> {
        let mut all = Vec::new();
        let given = [
            (Metric::Latency, latency.map(|time| time.as_s_f64() * 1e3)),
            (Metric::Lifetime, lifetime.map(|time| time.as_s_f64() / SECONDS_PER_YEAR)),
        ];
        for (metric, limit) in given {
            if let Some(limit) = limit {
                all.push(Constraint::new(metric, limit)?);
            }
        }
        for text in subject_to {
            let listed = Constraint::list(text)
                .map_err(|why| ConstraintError::Listed { option: "--subject-to", why: Box::new(why) })?;
            for constraint in listed {
                if all.iter().any(|known: &Constraint| known.metric == constraint.metric) {
                    return Err(ConstraintError::Twice { metric: constraint.metric.name() });
                }
                all.push(constraint);
            }
        }
        Ok(all)
    }

    /// The ratio of a design's figure to this bound: at most 1 if the bound is met, 2 if the figure would have to be
    /// twice as good. An unknown figure meets no bound.
    pub fn strain(&self, metrics: &Metrics) -> f64 {
        match self.metric.of(metrics) {
            Some(value) if self.metric.more_is_better() => self.limit / value.max(0.0),
            Some(value) => value / self.limit,
            None => f64::INFINITY,
        }
    }

    /// Whether a design meets this bound.
    pub fn met(&self, metrics: &Metrics) -> bool {
        self.strain(metrics) <= 1.0
    }

    /// The same bound, looser by this factor.
    pub fn loosened(&self, by: f64) -> Constraint {
        let limit = if self.metric.more_is_better() { self.limit / by } else { self.limit * by };
        Constraint { metric: self.metric, limit }
    }
}

/// The least lifetime of a design that anybody would buy, in years: a month.
pub const LEAST_LIFETIME_YEARS: f64 = 1.0 / 12.0;
/// The strain of a design that does not keep up with its load, whose response times depend on the length of the trace: beyond that of any
/// other, and by its mean response time in days.
const OVERLOADED: f64 = 1e6;
const MS_PER_DAY: f64 = 86_400_000.0;

/// The largest strain of a design over all bounds, and over what holds without being asked for: it keeps up with its load, and lives for a
/// month unless a lifetime is asked for. Zero if nothing strains it.
pub fn strain(constraints: &[Constraint], metrics: &Metrics) -> f64 {
    if metrics.is_overloaded() {
        return OVERLOADED + metrics.mean_ms / MS_PER_DAY;
    }
    let is_asked = constraints.iter().any(|one| one.metric == Metric::Lifetime);
    let life = metrics
        .lifetime_years
        .filter(|_| !is_asked)
        .map_or(0.0, |years| LEAST_LIFETIME_YEARS / years.max(f64::MIN_POSITIVE));
    let unasked = if life > 1.0 { life } else { 0.0 };
    constraints.iter().map(|constraint| constraint.strain(metrics)).fold(unasked, f64::max)
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
        Constraint::new(metric, metric.parse_value(value)?)
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
