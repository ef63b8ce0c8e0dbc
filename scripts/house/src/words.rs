//! Private words in prose. A reader who knows the field should need no dictionary, so documents, comments, messages and help
//! texts use the field's words. Each entry of the list names the word to use instead.
//!
//! The check reads Markdown without code and quotations, comments and string literals of Rust, and whole files of Python, shell,
//! TOML, CSS and make. It does not read names in Rust code, nor string literals of a single word, which are names as well
//! (keys of JSON, for example), nor the names in their braces.

use std::{fs, io, path::Path};

use crate::files::files;

/// A word or a phrase that prose does not use, in lower case, and what to write instead.
const FORBIDDEN: &[(&str, &str)] = &[
    ("anew", "again"),
    ("books", "statistics"),
    ("burial", "fencing"),
    ("buried", "fenced"),
    ("busting", "defragmentation, or the paper's words 'fragmentation busting'"),
    ("homebound", "awaiting the slow device's flush"),
    ("ledger", "statistics"),
    ("limbo", "pending free"),
    ("parked", "deferred"),
    ("somebody", "the name of the person or program"),
    ("starving", "waiting for allocation"),
    ("strand", "mark lost"),
    ("stranded", "lost"),
    ("strands", "marks lost"),
    ("tells", "reports, says or shows"),
    ("told", "reported, notified or said"),
    ("whereabouts", "location"),
    ("whoever", "the name of the person or program"),
    ("whomever", "the name of the person or program"),
];

/// Exceptions: the end of a path and the word, with the reason as a comment.
const ALLOWED: &[(&str, &str)] = &[
    // The list itself, and its tests.
    ("scripts/house/src/words.rs", "*"),
    ("scripts/house/tests/words.rs", "*"),
    // They read a JSON key of `peryton status --json`.
    ("scripts/demo.py", "ledger"),
    ("scripts/bench/moves.py", "ledger"),
    // The name of a table in a database that the tests fill.
    ("crates/drive/tests/killed_beneath_databases.rs", "ledger"),
];

/// Preceding words that make a forbidden one acceptable: MixedStore's name for its mechanism.
const QUALIFIED: &[(&str, &str)] = &[("fragmentation", "busting")];

/// Reads all prose beneath `root` and returns a line for each forbidden word: where it is, and what to write instead.
///
/// # Errors
/// If a folder or a file cannot be read.
pub fn forbidden_words(root: &Path) -> io::Result<Vec<String>> {
    let mut found = Vec::new();
    for file in files(root)? {
        let path = file.strip_prefix(root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        let Some(kind) = Kind::of(&path) else { continue };
        let text = fs::read_to_string(&file)?;
        for (line, word, instead) in in_text(kind, &text) {
            let allowed = |(end, what): &(&str, &str)| path.ends_with(end) && (*what == "*" || *what == word);
            if !ALLOWED.iter().any(allowed) {
                found.push(format!("{path}:{line}: '{word}': say {instead}"));
            }
        }
    }
    Ok(found)
}

/// The form of prose in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Comments, and string literals of several words.
    Rust,
    /// Everything but code and quotations.
    Markdown,
    /// Everything.
    Plain,
}

impl Kind {
    fn of(path: &str) -> Option<Kind> {
        let name = path.rsplit('/').next().unwrap_or(path);
        match name.rsplit_once('.') {
            Some((_, "rs")) => Some(Kind::Rust),
            Some((_, "md")) => Some(Kind::Markdown),
            Some((_, "py" | "sh" | "toml" | "css")) => Some(Kind::Plain),
            None if name == "Makefile" => Some(Kind::Plain),
            _ => None,
        }
    }
}

/// The forbidden words of a text: the line, the word, and what to write instead.
pub fn in_text(kind: Kind, text: &str) -> Vec<(usize, &'static str, &'static str)> {
    let prose = match kind {
        Kind::Rust => rust_prose(text),
        Kind::Markdown => markdown_prose(text),
        Kind::Plain => text.to_owned(),
    };
    let mut found = Vec::new();
    let mut before = String::new();
    for (number, line) in prose.lines().enumerate() {
        for word in line.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
            let word = word.to_lowercase();
            if let Some((forbidden, instead)) = FORBIDDEN.iter().find(|(forbidden, _)| *forbidden == word)
                && !QUALIFIED.contains(&(before.as_str(), *forbidden))
            {
                found.push((number + 1, *forbidden, *instead));
            }
            before = word;
        }
    }
    found
}

/// The text with code and quotations replaced by blanks, so that line numbers do not change. Inline code and quotations
/// may continue on the next line, but not in the next paragraph.
fn markdown_prose(text: &str) -> String {
    let mut prose = String::with_capacity(text.len());
    let mut fenced = false;
    let mut until = None;
    for line in text.lines() {
        let trimmed = line.trim_start();
        if trimmed.is_empty() {
            until = None;
        }
        if trimmed.starts_with("```") {
            fenced = !fenced;
        } else if !fenced {
            blank_quoted(line, &['`', '"'], &mut until, &mut prose);
        }
        prose.push('\n');
    }
    prose
}

/// Adds a line with blanks in place of text between two marks of the same kind. `until` is the mark that ends a
/// quotation from an earlier line.
fn blank_quoted(line: &str, marks: &[char], until: &mut Option<char>, prose: &mut String) {
    for c in line.chars() {
        match *until {
            Some(mark) if c == mark => *until = None,
            Some(_) => {}
            None if marks.contains(&c) => *until = Some(c),
            None => {
                prose.push(c);
                continue;
            }
        }
        prose.push(' ');
    }
}

/// Comments of a Rust file without inline code and quotations, and its string literals of several words. The rest is
/// blank.
fn rust_prose(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut prose = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let end = match (chars[at], chars.get(at + 1)) {
            ('/', Some('/')) => {
                let end = position(&chars, at, |c, _| c == '\n');
                let comment: String = chars[at..end].iter().collect();
                blank_quoted(&comment, &['`', '"'], &mut None, &mut prose);
                at = end;
                continue;
            }
            ('/', Some('*')) => {
                let end = position(&chars, at + 2, |c, next| c == '*' && next == Some('/')) + 2;
                prose.extend(&chars[at..end.min(chars.len())]);
                at = end;
                continue;
            }
            ('"', _) => literal(&chars, at),
            ('r', Some('"' | '#')) if at == 0 || !is_name(chars[at - 1]) || chars[at - 1] == 'b' => {
                raw_literal(&chars, at)
            }
            ('\'', _) => {
                at = character(&chars, at);
                prose.push(' ');
                continue;
            }
            _ => None,
        };
        match end {
            Some(end) => {
                message(&chars[at..end], &mut prose);
                at = end;
            }
            None => {
                prose.push(if chars[at] == '\n' { '\n' } else { ' ' });
                at += 1;
            }
        }
    }
    prose
}

/// Adds a string literal without the names in its braces, or blanks if it is a single word.
fn message(text: &[char], prose: &mut String) {
    let is_prose = text.iter().any(|c| c.is_whitespace());
    let mut in_braces = false;
    for &c in text {
        in_braces = (in_braces || c == '{') && c != '}';
        prose.push(if c == '\n' || (is_prose && !in_braces) { c } else { ' ' });
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The first position from `at` on where `ends` is true of the character and the next one, or the end.
fn position(chars: &[char], at: usize, ends: impl Fn(char, Option<char>) -> bool) -> usize {
    (at..chars.len()).find(|&i| ends(chars[i], chars.get(i + 1).copied())).unwrap_or(chars.len())
}

/// The end of a string literal that begins at `at`.
fn literal(chars: &[char], at: usize) -> Option<usize> {
    let mut i = at + 1;
    while i < chars.len() {
        match chars[i] {
            '\\' => i += 2,
            '"' => return Some(i + 1),
            _ => i += 1,
        }
    }
    Some(chars.len())
}

/// The end of a raw string literal that begins at `at`, if one does.
fn raw_literal(chars: &[char], at: usize) -> Option<usize> {
    let hashes = chars[at + 1..].iter().take_while(|c| **c == '#').count();
    let start = at + 1 + hashes;
    if chars.get(start) != Some(&'"') {
        return None;
    }
    let closes = |i: usize| chars[i] == '"' && chars[i + 1..].iter().take_while(|c| **c == '#').count() >= hashes;
    Some((start + 1..chars.len()).find(|&i| closes(i)).map_or(chars.len(), |i| i + 1 + hashes))
}

/// The end of a character literal or a lifetime that begins at `at`.
fn character(chars: &[char], at: usize) -> usize {
    match (chars.get(at + 1), chars.get(at + 2)) {
        (Some('\\'), _) => position(chars, at + 3, |c, _| c == '\'') + 1,
        (Some(_), Some('\'')) => at + 3,
        _ => at + 1,
    }
}
