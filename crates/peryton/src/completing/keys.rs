//! Completion of design keys and of their values.

use std::{ffi::OsStr, path::Path};

use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use peryton_sim::{DesignKey, KeyDefault, design_keys, model_keys};

/// The largest file in which names of devices are looked for.
const LARGEST_FILE: u64 = 1 << 20;
/// What stands for the name of a device in the path of a key.
const NAME: &str = "NAME";

/// `KEY=VALUE` of a design.
pub fn key_value() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| settings(word, false, false, &devices()))
}

/// `KEY=VALUE,VALUE` of a design.
pub fn key_values() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| settings(word, false, true, &devices()))
}

/// `KEY=VALUE` of a volume that is being served.
pub fn live_key_value() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| settings(word, true, false, &[]))
}

/// A key of a volume that is being served.
pub fn live_key() -> ArgValueCompleter {
    ArgValueCompleter::new(|word: &OsStr| {
        keys(word, true, &[]).into_iter().map(|(key, about)| candidate(&key, &about)).collect()
    })
}

/// The beginning of a key.
pub fn prefix() -> ArgValueCompleter {
    let names = [NAME.to_owned()];
    ArgValueCompleter::new(move |word: &OsStr| {
        keys(word, false, &names).into_iter().map(|(key, about)| candidate(&key, &about)).collect()
    })
}

fn candidate(value: &str, about: &str) -> CompletionCandidate {
    let sentence = about.split_once(". ").map_or(about, |(first, _)| first);
    CompletionCandidate::new(value).help((!sentence.is_empty()).then(|| sentence.to_owned().into()))
}

fn settings(word: &OsStr, live: bool, several: bool, devices: &[String]) -> Vec<CompletionCandidate> {
    let Some(text) = word.to_str() else { return Vec::new() };
    match text.split_once('=') {
        None => {
            let of = |(key, about): (String, String)| candidate(&format!("{key}="), &about);
            keys(word, live, devices).into_iter().map(of).collect()
        }
        Some((key, value)) => {
            // Of several values the last is being written.
            let begun = if several { value.rfind(',').map_or(0, |at| at + 1) } else { 0 };
            let (before, begun) = value.split_at(begun);
            let found = values(key).into_iter().filter(|(value, _)| value.starts_with(begun));
            found.map(|(value, about)| candidate(&format!("{key}={before}{value}"), about)).collect()
        }
    }
}

/// The keys that begin with a word, and what they are.
fn keys(word: &OsStr, live: bool, devices: &[String]) -> Vec<(String, String)> {
    let Some(word) = word.to_str() else { return Vec::new() };
    // A device that is already named need not be in a file.
    let named = word.split('.').collect::<Vec<_>>();
    let written: Option<String> = match named[..] {
        ["devices" | "power" | "endurance", name, _, ..] => Some(name.to_owned()),
        _ => None,
    };
    let devices: Vec<String> = written.map_or_else(|| devices.to_vec(), |name| vec![name]);
    let all = design_keys().filter(|key| key.live || !live).map(|key| (key.path.to_owned(), key.about().to_owned()));
    let parameters = model_keys().into_iter().filter(|key| !live && !key.path.contains("[]"));
    let parameters = parameters.map(|key| (format!("devices.{NAME}.model.{}", key.path), key.about));
    let mut found: Vec<(String, String)> = Vec::new();
    for (path, about) in all.chain(parameters) {
        match path.split('.').any(|part| part == NAME) {
            true => found.extend(devices.iter().map(|name| (with_name(&path, name), about.clone()))),
            false => found.push((path, about)),
        }
    }
    // The parameters of a model are many: they come once they are asked for.
    let asks_for_model = word.contains(".model");
    found.retain(|(path, _)| path.starts_with(word) && (asks_for_model || !path.contains(".model.")));
    found.sort();
    found.dedup_by(|a, b| a.0 == b.0);
    found
}

fn with_name(path: &str, name: &str) -> String {
    path.split('.').map(|part| if part == NAME { name } else { part }).collect::<Vec<_>>().join(".")
}

/// The words that a key takes, or its default.
fn values(path: &str) -> Vec<(String, &'static str)> {
    let Some(key) = design_keys().find(|key: &&DesignKey| key.is_at(path)) else { return Vec::new() };
    let words = (key.words)();
    if !words.is_empty() {
        return words.into_iter().map(|word| (word.to_owned(), "")).collect();
    }
    match (key.type_name, key.default) {
        ("true or false", _) => ["true", "false"].map(|word| (word.to_owned(), "")).to_vec(),
        (_, KeyDefault::Value(default)) => vec![(default.trim_matches('\'').to_owned(), "the default")],
        _ => Vec::new(),
    }
}

/// The devices of the designs on the command line.
fn devices() -> Vec<String> {
    let mut names = Vec::new();
    for word in std::env::args_os() {
        let path = Path::new(&word);
        let is_design = path.extension().is_some_and(|extension| extension == "toml");
        if !is_design || !path.metadata().is_ok_and(|about| about.is_file() && about.len() <= LARGEST_FILE) {
            continue;
        }
        let table = std::fs::read_to_string(path).ok().and_then(|text| text.parse::<toml::Table>().ok());
        let devices = table.as_ref().and_then(|table| table.get("devices")?.as_table());
        names.extend(devices.into_iter().flat_map(|devices| devices.keys().cloned()));
    }
    names.sort();
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered(word: &str, several: bool, devices: &[&str]) -> Vec<String> {
        let devices: Vec<String> = devices.iter().map(|name| (*name).to_owned()).collect();
        let found = settings(OsStr::new(word), false, several, &devices);
        found.iter().map(|candidate| candidate.get_value().to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn keys_have_the_names_of_devices_and_go_on_with_their_values() {
        assert_eq!(offered("placement.max", false, &[]), ["placement.max_moves="]);
        assert_eq!(
            offered("devices.s", false, &["ssd", "hdd"]).first().map(String::as_str),
            Some("devices.ssd.capacity=")
        );
        assert_eq!(offered("devices.x.siz", false, &["ssd"]), ["devices.x.size="]);
        assert!(offered("devices.", false, &[]).is_empty() && offered("colour", false, &[]).is_empty());
        assert_eq!(offered("devices.hdd.model.rpm", false, &[]), ["devices.hdd.model.rpm="]);
        assert!(offered("devices.hdd.", false, &[]).iter().all(|key| !key.contains(".model.")));
        assert_eq!(offered("placement.write=t", false, &[]), ["placement.write=through"]);
        assert_eq!(offered("placement.write=back,a", true, &[]), ["placement.write=back,around"]);
        assert!(offered("placement.write=back,a", false, &[]).is_empty());
        assert_eq!(offered("placement.promotion.window=", false, &[]), ["placement.promotion.window=60s"]);
    }

    #[test]
    fn a_volume_that_is_served_is_offered_what_may_change() {
        let live = |word: &str| settings(OsStr::new(word), true, false, &[]).len();
        assert!(live("placement.max_moves") == 1 && live("placement.extent") == 0);
    }
}
