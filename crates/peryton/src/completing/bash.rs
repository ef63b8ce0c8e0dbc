//! Bash, which takes words apart at each `=`.

use std::{ffi::OsString, io, path::Path};

use clap::Command;
use clap_complete::env::EnvCompleter;

/// The script, in which `COMPLETER` stands for this program.
const SCRIPT: &str = include_str!("bash.sh");

#[derive(Debug)]
pub struct Bash;

impl EnvCompleter for Bash {
    fn name(&self) -> &'static str {
        "bash"
    }

    fn is(&self, name: &str) -> bool {
        name == "bash"
    }

    fn write_registration(
        &self,
        _variable: &str,
        _name: &str,
        _program: &str,
        completer: &str,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        out.write_all(SCRIPT.replace("COMPLETER", completer).as_bytes())
    }

    fn write_complete(
        &self,
        command: &mut Command,
        words: Vec<OsString>,
        folder: Option<&Path>,
        out: &mut dyn io::Write,
    ) -> io::Result<()> {
        let number = |name: &str| std::env::var(name).ok()?.parse().ok();
        let index: usize = number("_CLAP_COMPLETE_INDEX").unwrap_or_default();
        let between = std::env::var("_CLAP_IFS").unwrap_or_else(|_| "\n".to_owned());
        let Whole { words, index, before } = whole(words, index);
        let found = clap_complete::engine::complete(command, words, index, folder)?;
        let found: Vec<String> = found
            .iter()
            .map(|candidate| candidate.get_value().to_string_lossy())
            // Bash replaces the part behind the last "=".
            .map(|value| value.strip_prefix(before.as_str()).map_or_else(|| value.to_string(), str::to_owned))
            .collect();
        out.write_all(found.join(&between).as_bytes())
    }
}

/// Words as they were before Bash took them apart.
#[derive(Debug, PartialEq)]
struct Whole {
    words: Vec<OsString>,
    /// The word that is to be completed, and what of it bash keeps.
    index: usize,
    before: String,
}

fn whole(parts: Vec<OsString>, current: usize) -> Whole {
    let (mut words, mut index, mut before) = (Vec::<OsString>::new(), current, String::new());
    let mut joins = false;
    for (at, part) in parts.into_iter().enumerate() {
        let is_equals = part == "=";
        let whole = match words.last_mut() {
            // A word that follows an "=" belongs to it, as far as Bash shows. The first word is the program.
            Some(last) if at > 1 && (is_equals || joins) => {
                if at == current {
                    before = last.to_string_lossy().into_owned() + if is_equals { "=" } else { "" };
                }
                last.push(&part);
                words.len() - 1
            }
            _ => {
                words.push(part);
                words.len() - 1
            }
        };
        if at == current {
            index = whole;
        }
        joins = is_equals;
    }
    Whole { words, index, before }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_put_together_as_they_were() {
        let of = |parts: &[&str], current| whole(parts.iter().map(OsString::from).collect(), current);
        let found = of(&["peryton", "sim", "a.toml", "--set", "placement.write", "=", "th"], 6);
        assert_eq!(found.words, ["peryton", "sim", "a.toml", "--set", "placement.write=th"]);
        assert_eq!((found.index, found.before.as_str()), (4, "placement.write="));
        let found = of(&["peryton", "sim", "--set", "placement.write", "="], 4);
        assert_eq!((found.words.len(), found.index, found.before.as_str()), (4, 3, "placement.write="));
        let found = of(&["peryton", "sim", "--set", "=", "a", "=", "b", "x"], 7);
        assert_eq!(found.words, ["peryton", "sim", "--set=a=b", "x"]);
        assert_eq!((found.index, found.before.as_str()), (3, ""));
    }
}
