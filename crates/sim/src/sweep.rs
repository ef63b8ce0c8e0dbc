//! A design for each combination of values of some of its keys.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::{Design, DesignError, DesignText, KeyValues, design::meant_by, is_design_key, key_values::combination};

/// The most designs of a sweep: each is a row, and a simulation.
const MOST_DESIGNS: usize = 1_000;

/// A design of a sweep, and the values of the swept keys that apply to it.
#[derive(Debug)]
pub struct Swept {
    /// The design; the values are part of its name.
    pub design: Design,
    /// The values by key.
    pub values: BTreeMap<String, String>,
}

/// The reason why there is no sweep. Every message is one line.
#[derive(Debug, Error)]
pub enum SweepError {
    /// No design has such a key.
    #[error("--sweep {key}: no design has such a key: {hint}")]
    UnknownKey {
        /// The key.
        key: String,
        /// What was probably meant.
        hint: String,
    },
    /// A key has values in two places.
    #[error("--sweep {key} is given twice: put all of its values into one")]
    Twice {
        /// The key.
        key: String,
    },
    /// A key has no values.
    #[error("--sweep {key}: there are no values to simulate: give some")]
    NoValues {
        /// The key.
        key: String,
    },
    /// There are too many combinations.
    #[error("--sweep: {combinations} simulations, more than {MOST_DESIGNS}: give fewer values")]
    TooMany {
        /// Their number.
        combinations: usize,
    },
    /// A design refuses a value.
    #[error("--sweep: {0}")]
    Design(#[from] DesignError),
    /// No design has the feature of a key.
    #[error("--sweep {key}: does not apply to any of the designs: remove it")]
    NotApplicable {
        /// The key.
        key: String,
    },
}

/// Makes of each design, which has overrides already, one for each combination of the values. Values of a key that does not
/// apply to a design make no other design of it.
///
/// ```
/// use peryton_sim::{DesignText, KeyValues, sweep};
///
/// let one = DesignText::new("[devices.only]\nprofile = 'fixed'\nsize = '8GiB'\n[placement]\nmode = 'single'\n", "one");
/// let sizes = KeyValues::parse("devices.only.size=1GiB,2GiB").expect("it is a key with values");
/// let designs = sweep(&[(one, Vec::new())], &[sizes])?;
/// assert_eq!(designs[1].design.name, "one size=2GiB");
/// assert_eq!(designs[1].values["devices.only.size"], "2GiB");
/// # Ok::<(), peryton_sim::SweepError>(())
/// ```
///
/// # Errors
/// A key that no design has, or none of these; a value that a design refuses; too many combinations.
pub fn sweep(bases: &[(DesignText, Vec<String>)], keys: &[KeyValues]) -> Result<Vec<Swept>, SweepError> {
    check(keys)?;
    let all: Vec<&[String]> = keys.iter().map(|key| &key.values[..]).collect();
    let each = all.iter().map(|values| values.len()).fold(1, usize::saturating_mul);
    let combinations = each.saturating_mul(bases.len());
    if combinations > MOST_DESIGNS {
        return Err(SweepError::TooMany { combinations });
    }
    let (mut swept, mut applies) = (Vec::new(), vec![false; keys.len()]);
    for (text, set) in bases {
        let mut seen: Vec<BTreeMap<String, String>> = Vec::new();
        for number in 0..each {
            let values = combination(&all, number);
            let pairs = keys.iter().zip(&values).map(|(key, value)| format!("{}={value}", key.key));
            let overrides: Vec<String> = set.iter().cloned().chain(pairs).collect();
            let mut design = text.design(&overrides)?;
            let is_ignored = |index: usize| design.ignored_overrides.contains(&index);
            let mine: Vec<usize> = (0..keys.len()).filter(|index| !is_ignored(set.len() + index)).collect();
            mine.iter().for_each(|index| applies[*index] = true);
            let applied: BTreeMap<String, String> =
                mine.iter().map(|index| (keys[*index].key.clone(), values[*index].clone())).collect();
            if seen.contains(&applied) {
                continue;
            }
            seen.push(applied.clone());
            for index in mine {
                design.name += &format!(" {}={}", short(&keys[index].key, keys), values[index]);
            }
            swept.push(Swept { design, values: applied });
        }
    }
    match applies.iter().position(|applies| !applies) {
        Some(index) => Err(SweepError::NotApplicable { key: keys[index].key.clone() }),
        None => Ok(swept),
    }
}

/// Looks at the keys alone.
fn check(keys: &[KeyValues]) -> Result<(), SweepError> {
    for (index, KeyValues { key, values }) in keys.iter().enumerate() {
        if !is_design_key(key) {
            let hint = meant_by(key);
            return Err(SweepError::UnknownKey { key: key.clone(), hint });
        }
        if keys[..index].iter().any(|known| known.key == *key) {
            return Err(SweepError::Twice { key: key.clone() });
        }
        if values.is_empty() {
            return Err(SweepError::NoValues { key: key.clone() });
        }
    }
    Ok(())
}

/// The end of a key that distinguishes it from the others.
fn short<'a>(key: &'a str, keys: &[KeyValues]) -> &'a str {
    let starts = key.rmatch_indices('.').map(|(at, _)| at + 1).chain([0]);
    let is_alone = |end: &str| {
        let same = |other: &&KeyValues| {
            other.key == end || other.key.strip_suffix(end).is_some_and(|rest| rest.ends_with('.'))
        };
        keys.iter().filter(same).count() < 2
    };
    starts.map(|at| &key[at..]).find(|end| is_alone(end)).unwrap_or(key)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn every_combination_comes_once_and_keys_are_as_short_as_they_can_be() {
        let texts = ["devices.a.size=1GiB,2GiB", "devices.b.size=3GiB", "placement.promotion.threshold=0,1,2"];
        let keys = texts.map(|text| KeyValues::parse(text).unwrap());
        check(&keys).unwrap();
        let values: Vec<&[String]> = keys.iter().map(|key| &key.values[..]).collect();
        let all: Vec<String> = (0..6).map(|number| combination(&values, number).join(" ")).collect();
        let wanted = ["1GiB 3GiB 0", "1GiB 3GiB 1", "1GiB 3GiB 2", "2GiB 3GiB 0", "2GiB 3GiB 1", "2GiB 3GiB 2"];
        assert_eq!(all, wanted);
        let short: Vec<&str> = keys.iter().map(|key| short(&key.key, &keys)).collect();
        assert_eq!(short, ["a.size", "b.size", "threshold"]);
    }
}
