//! `--sweep`: a design for each combination of values of some keys.

use std::{collections::BTreeMap, path::PathBuf};

use peryton_sim::{Design, DesignText, is_design_key, nearest_design_key};

use crate::{failure::Failure, key_values::KeyValues};

/// The most designs of a sweep: each is a row, and a simulation.
const MOST_DESIGNS: usize = 1_000;

/// A design of a sweep, and the values of the swept keys that apply to it.
pub struct Swept {
    pub design: Design,
    pub values: BTreeMap<String, String>,
}

/// Reads the keys with their values.
pub fn parse(texts: &[String]) -> Result<Vec<KeyValues>, Failure> {
    let mut keys: Vec<KeyValues> = Vec::with_capacity(texts.len());
    for text in texts {
        let found = KeyValues::parse(text).ok_or_else(|| {
            Failure::bad_input(format!("--sweep {text}: write KEY=VALUE,VALUE such as placement.max_moves=4,16"))
        })?;
        let key = &found.key;
        if !is_design_key(key) {
            let hint = nearest_design_key(key)
                .map_or_else(|| "peryton keys lists all".to_owned(), |meant| format!("did you mean '{meant}'?"));
            return Err(Failure::bad_input(format!("--sweep {key}: no design has such a key: {hint}")));
        }
        if keys.iter().any(|known| known.key == *key) {
            return Err(Failure::bad_input(format!("--sweep {key} is given twice: put all of its values into one")));
        }
        keys.push(found);
    }
    Ok(keys)
}

/// The designs of these files with every combination of the values, beside what `set` sets.
pub fn designs(files: &[PathBuf], set: &[String], keys: &[KeyValues]) -> Result<Vec<Swept>, Failure> {
    let combinations = keys.iter().map(|key| key.values.len()).fold(files.len(), usize::saturating_mul);
    if combinations > MOST_DESIGNS {
        return Err(Failure::bad_input(format!(
            "--sweep: {combinations} simulations, more than {MOST_DESIGNS}: give fewer values"
        )));
    }
    let (mut swept, mut applies) = (Vec::new(), vec![false; keys.len()]);
    for file in files {
        let text = DesignText::read(file)?;
        let mut seen: Vec<BTreeMap<String, String>> = Vec::new();
        for number in 0..combinations / files.len() {
            let values = combination(keys, number);
            let pairs = keys.iter().zip(&values).map(|(key, value)| format!("{}={value}", key.key));
            let overrides: Vec<String> = set.iter().cloned().chain(pairs).collect();
            let mut design =
                text.design(&overrides).map_err(|error| Failure::bad_input(format!("--sweep: {error}")))?;
            let is_ignored = |index: usize| design.ignored_overrides.contains(&index);
            let mine: Vec<usize> = (0..keys.len()).filter(|index| !is_ignored(set.len() + index)).collect();
            mine.iter().for_each(|index| applies[*index] = true);
            // Values of keys that do not apply to a design make no other design of it.
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
        Some(index) => {
            let key = &keys[index].key;
            Err(Failure::bad_input(format!("--sweep {key}: does not apply to any of the designs: remove it")))
        }
        None => Ok(swept),
    }
}

/// The values of a combination; those of the last key change first.
fn combination(keys: &[KeyValues], mut number: usize) -> Vec<String> {
    let mut values: Vec<String> = Vec::with_capacity(keys.len());
    for key in keys.iter().rev() {
        values.push(key.values[number % key.values.len()].clone());
        number /= key.values.len();
    }
    values.reverse();
    values
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
        let keys = parse(&texts.map(str::to_owned)).unwrap();
        let all: Vec<String> = (0..6).map(|number| combination(&keys, number).join(" ")).collect();
        let wanted = ["1GiB 3GiB 0", "1GiB 3GiB 1", "1GiB 3GiB 2", "2GiB 3GiB 0", "2GiB 3GiB 1", "2GiB 3GiB 2"];
        assert_eq!(all, wanted);
        let short: Vec<&str> = keys.iter().map(|key| short(&key.key, &keys)).collect();
        assert_eq!(short, ["a.size", "b.size", "threshold"]);
    }
}
