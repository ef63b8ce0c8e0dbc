//! A key of designs and the values that it may have.

use peryton_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

/// A key of designs with the values that it is to have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Axis {
    /// The dotted key.
    pub key: String,
    /// Its values.
    #[serde(flatten)]
    pub values: Values,
}

/// The values of a key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Values {
    /// Values one by one, written as in an override.
    List {
        /// The values.
        values: Vec<String>,
    },
    /// Numbers between two. Sizes are bytes and times nanoseconds.
    Range {
        /// The unit of the numbers.
        unit: Unit,
        /// The smallest.
        from: f64,
        /// The largest.
        to: f64,
        /// Values are the smallest and whole multiples of this above it; `None`: they are not rounded.
        step: Option<f64>,
        /// How many values a grid has.
        points: Option<usize>,
        /// How they are spread.
        scale: Scale,
    },
}

/// What a number of a range is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// A whole number.
    Whole,
    /// A number.
    Number,
    /// A size in bytes.
    Size,
    /// A time in nanoseconds.
    Time,
}

/// How the values of a range are spread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// Evenly.
    #[default]
    Linear,
    /// Each larger by the same factor.
    Log,
}

impl Axis {
    /// The values of a grid; `None` for a range that does not say how many.
    pub(super) fn grid(&self) -> Option<Vec<String>> {
        let mut values: Vec<String> = match &self.values {
            Values::List { values } => values.clone(),
            Values::Range { points: Some(points), .. } => {
                let share = |index: usize| index as f64 / (points - 1).max(1) as f64;
                (0..*points).map(|index| self.at(share(index))).collect()
            }
            Values::Range { points: None, .. } => return None,
        };
        // Rounding makes neighbours equal.
        values.dedup();
        Some(values)
    }

    /// The value at a share of the range, or of the list, from 0 up to 1.
    pub(super) fn at(&self, share: f64) -> String {
        match &self.values {
            Values::List { values } => values[((share * values.len() as f64) as usize).min(values.len() - 1)].clone(),
            Values::Range { from, to, scale: Scale::Linear, .. } => self.rounded(from + share * (to - from)),
            Values::Range { from, to, scale: Scale::Log, .. } => {
                self.rounded((from.ln() + share * (to.ln() - from.ln())).exp())
            }
        }
    }

    /// A number of a range as a value of the key, rounded to the step and kept within the range.
    pub fn rounded(&self, number: f64) -> String {
        let Values::Range { from, to, step, .. } = &self.values else { return number.to_string() };
        let number = step.map_or(number, |step| from + ((number - from) / step).round() * step);
        self.text(number.clamp(*from, *to))
    }

    fn text(&self, number: f64) -> String {
        let Values::Range { unit, .. } = &self.values else { return number.to_string() };
        match unit {
            Unit::Whole => format!("{}", number.round() as i64),
            Unit::Number => format!("{number:?}"),
            Unit::Size => Bytes(number.round() as u64).to_string(),
            Unit::Time => Nanos(number.round() as u64).to_string(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(unit: Unit, from: f64, to: f64, step: Option<f64>, points: Option<usize>, scale: Scale) -> Axis {
        Axis { key: "k".to_owned(), values: Values::Range { unit, from, to, step, points, scale } }
    }

    #[test]
    fn ranges_become_the_values_that_a_person_would_write() {
        let sizes = range(Unit::Size, (1u64 << 30) as f64, (16u64 << 30) as f64, Some(1048576.0), Some(5), Scale::Log);
        assert_eq!(sizes.grid().unwrap_or_default(), ["1GiB", "2GiB", "4GiB", "8GiB", "16GiB"]);
        let steps = range(Unit::Whole, 1.0, 7.0, Some(3.0), Some(3), Scale::Linear);
        assert_eq!(steps.grid().unwrap_or_default(), ["1", "4", "7"]);
        let few = range(Unit::Whole, 0.0, 2.0, Some(1.0), Some(9), Scale::Linear);
        assert_eq!(few.grid().unwrap_or_default(), ["0", "1", "2"], "values that are rounded to one number are one");
        let shares = range(Unit::Number, 0.0, 1.0, Some(0.25), Some(5), Scale::Linear);
        assert_eq!(shares.grid().unwrap_or_default(), ["0.0", "0.25", "0.5", "0.75", "1.0"]);
        assert_eq!(
            range(Unit::Time, 1e6, 3e6, None, Some(2), Scale::Linear).grid().unwrap_or_default(),
            ["1ms", "3ms"]
        );
        assert_eq!(range(Unit::Number, 0.0, 1.0, None, None, Scale::Linear).grid(), None);
    }

    #[test]
    fn no_share_leaves_the_range() {
        let axis = range(Unit::Whole, 1.0, 6.0, Some(4.0), None, Scale::Linear);
        let list = Axis { key: "k".to_owned(), values: Values::List { values: vec!["a".into(), "b".into()] } };
        for share in [0.0, 0.3, 0.5, 0.99999999, 1.0] {
            let number: i64 = axis.at(share).parse().unwrap_or(-1);
            assert!((1..=6).contains(&number), "{share}: {number}");
            assert!(["a", "b"].contains(&list.at(share).as_str()));
        }
    }
}
