//! References in documents: links to files, paths, and names of tests and keys in inline code. A reference to something
//! that does not exist is a false statement.

use std::{collections::BTreeSet, fs, io, path::Path};

use crate::files::files;

/// Folders of the repository with which a path in inline code begins.
const FOLDERS: &[&str] = &["crates/", "docs/", "examples/", "scripts/", "fuzz/"];
/// Paths that exist only after a command has run.
const MADE: &[&str] = &["fuzz/corpus"];
/// The document that may name things that no longer exist.
const HISTORY: &str = "CHANGELOG.md";
/// How names of metrics begin. They are made of parts in the source code, and `crates/peryton/tests/all/metrics.rs` compares them with it.
const METRICS: &[&str] = &["peryton_", "process_"];
/// Inline code with at least this many words joined by underscores is taken for a name in the source code.
const LEAST_WORDS: usize = 4;

/// Reads all Markdown beneath `root` and returns a line for each reference to a file or a name that does not exist.
///
/// # Errors
/// If a folder or a file cannot be read.
pub fn broken_references(root: &Path) -> io::Result<Vec<String>> {
    let all = files(root)?;
    let is = |file: &Path, end: &str| file.extension().is_some_and(|extension| extension == end);
    let mut names = BTreeSet::new();
    for file in all.iter().filter(|file| ["rs", "py", "toml"].iter().any(|end| is(file, end))) {
        let text = fs::read_to_string(file)?;
        names.extend(text.split(|c: char| !is_name(c)).filter(|word| is_long(word)).map(str::to_owned));
    }
    let mut found = Vec::new();
    for file in all.iter().filter(|file| is(file, "md")) {
        let shown = file.strip_prefix(root).unwrap_or(file).display().to_string();
        let folder = file.parent().unwrap_or(root);
        let mut fenced = false;
        for (number, line) in fs::read_to_string(file)?.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            let is_command = fenced || line.starts_with("    ");
            let commanded =
                line.split([' ', '=', ',', '\'', '"', '(', ')']).filter(|word| is_command && !exists(root, word));
            let broken = links(line)
                .filter(|link| !folder.join(link).exists())
                .chain(commanded)
                .chain(code(line).filter(|text| is_path(text) && !root.join(text).exists()))
                .chain(code(line).filter(|text| shown != HISTORY && is_long(text) && !names.contains(*text)));
            found.extend(broken.map(|what| format!("{shown}:{}: '{what}' does not exist", number + 1)));
        }
    }
    Ok(found)
}

fn is_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_long(word: &str) -> bool {
    let is_metric = METRICS.iter().any(|start| word.starts_with(start));
    !is_metric && word.chars().all(is_name) && word.split('_').filter(|part| !part.is_empty()).count() >= LEAST_WORDS
}

fn is_path(text: &str) -> bool {
    FOLDERS.iter().any(|folder| text.starts_with(folder))
        && !MADE.contains(&text)
        && text.chars().all(|c| is_name(c) || "/.-".contains(c))
}

/// Whether a word of a command, if it is a path of the repository, exists; one with a `*` has to match a file.
fn exists(root: &Path, word: &str) -> bool {
    let word = word.trim_end_matches([':', ';', '.']);
    let Some((folder, pattern)) = word.rsplit_once('/').filter(|_| word.contains('*')) else {
        return !is_path(word) || root.join(word).exists();
    };
    if !FOLDERS.iter().any(|start| word.starts_with(start)) || folder.contains('*') {
        return true;
    }
    let (before, after) = pattern.split_once('*').unwrap_or((pattern, ""));
    let names = fs::read_dir(root.join(folder)).into_iter().flatten().flatten().map(|entry| entry.file_name());
    names.into_iter().any(|name| name.to_string_lossy().starts_with(before) && name.to_string_lossy().ends_with(after))
}

/// The files that a line of Markdown links to, without anchors.
fn links(line: &str) -> impl Iterator<Item = &str> {
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.filter(|target| !target.contains("://") && !target.contains(' '));
    files.filter_map(|target| target.split('#').next()).filter(|file| !file.is_empty())
}

/// The inline code of a line of Markdown.
fn code(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}
