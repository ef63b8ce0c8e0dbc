//! Output of results to standard output, or to files.

use std::{
    fs,
    io::{self, BufWriter, Write},
    path::Path,
};

use serde::Serialize;
use textwrap::WordSplitter;

use crate::{failure::Failure, terminal};

/// The heading of options for output in the help of verbs that have many.
pub const GROUP: &str = "Output";

/// Prints to standard output.
pub fn print(text: &str) -> Result<(), Failure> {
    lines(|out| out.write_all(text.as_bytes()))
}

/// Prints text for people: on a terminal, lines that are longer than it is wide go on below, unless `--wide` is given.
pub fn tell(text: &str) -> Result<(), Failure> {
    match terminal::table_columns() {
        Some(columns) => print(&wrapped(text, columns)),
        None => print(text),
    }
}

/// Where the columns of a line have to begin at the latest for it to go on beneath the last of them.
const LAST_COLUMN: usize = 48;

/// Breaks lines between words. A line goes on beneath the last of its columns, which have two spaces between them, and where it
/// has none, a little to the right of its beginning.
fn wrapped(text: &str, columns: usize) -> String {
    let lines = text.split('\n').map(|line| match line.chars().count() <= columns {
        true => line.to_owned(),
        false => {
            let (begins, margin) = column_of(line);
            // An option or a file's name stays in one piece.
            let options = textwrap::Options::new(columns).break_words(false).word_splitter(WordSplitter::NoHyphenation);
            let margin = " ".repeat(margin);
            textwrap::fill(&line[begins..], options.initial_indent(&line[..begins]).subsequent_indent(&margin))
        }
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// The byte of a line from which it may be broken, and how far to the right it goes on.
fn column_of(line: &str) -> (usize, usize) {
    let begins = |at: usize| at + line[at..].len() - line[at..].trim_start().len();
    let columns = line.match_indices("  ").map(|(at, _)| begins(at)).map(|at| (at, line[..at].chars().count()));
    let last = columns.filter(|(at, _)| *at > begins(0)).take_while(|(_, margin)| *margin <= LAST_COLUMN).last();
    last.unwrap_or((begins(0), begins(0) + 2))
}

/// Prints a value as JSON.
pub fn print_json<T: Serialize + ?Sized>(value: &T) -> Result<(), Failure> {
    print(&(serde_json::to_string_pretty(value).map_err(Failure::failed)? + "\n"))
}

/// Prints a value as one line of JSON, which can be read while the verb goes on.
pub fn print_json_line<T: Serialize + ?Sized>(value: &T) -> Result<(), Failure> {
    let line = serde_json::to_string(value).map_err(Failure::failed)? + "\n";
    print(&line)
}

/// Writes a value as JSON to a file, atomically; `-` is standard output.
pub fn write_json<T: Serialize + ?Sized>(path: &Path, value: &T) -> Result<(), Failure> {
    stream(path, |out| {
        serde_json::to_writer_pretty(&mut *out, value)?;
        out.write_all(b"\n")
    })
}

/// Whether the name stands for standard output.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Refuses several outputs (`outputs` names their options) to standard output, which takes one.
pub fn only_one_to_stdout(outputs: &[impl AsRef<str>]) -> Result<(), Failure> {
    if outputs.len() < 2 {
        return Ok(());
    }
    let several = outputs.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(" and ");
    Err(Failure::bad_input(format!("{several}: standard output takes one of them: give the other a file")))
}

/// Whether the page of `--report` goes to standard output, which the other results then leave alone. It is refused
/// together with `--json`.
pub fn report_to_stdout(report: Option<&Path>, json: bool) -> Result<bool, Failure> {
    let to_stdout = report.is_some_and(is_stdout);
    if to_stdout && json {
        only_one_to_stdout(&["--report", "--json"])?;
    }
    Ok(to_stdout)
}

/// Prints a result as JSON or as text, unless standard output has the page of `--report`.
pub fn print_result<T: Serialize + ?Sized>(
    value: &T,
    json: bool,
    report_to_stdout: bool,
    shown: impl FnOnce() -> String,
) -> Result<(), Failure> {
    match (json, report_to_stdout) {
        (true, _) => print_json(value),
        (false, true) => Ok(()),
        (false, false) => tell(&shown()),
    }
}

/// Writes text to a file, atomically; `-` is standard output.
pub fn write(path: &Path, text: String) -> Result<(), Failure> {
    stream(path, |out| out.write_all(text.as_bytes()))
}

/// Writes a file piece by piece, atomically; `-` is standard output.
pub fn stream(path: &Path, content: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    if is_stdout(path) {
        return lines(content);
    }
    let to = |path: &Path| -> io::Result<()> {
        let mut out = BufWriter::new(fs::File::create(path)?);
        content(&mut out)?;
        out.flush()
    };
    // A device or pipe cannot be replaced, so it is written directly; a file must not be left half-written.
    let is_special = fs::metadata(path).is_ok_and(|about| !about.is_file());
    let written = if is_special {
        to(path)
    } else {
        let mut partial = path.as_os_str().to_owned();
        partial.push(format!(".partial-{}", std::process::id()));
        to(partial.as_ref()).and_then(|()| fs::rename(&partial, path)).inspect_err(|_| {
            // The first error is the one to report.
            let _ = fs::remove_file(&partial);
        })
    };
    written.map_err(|error| Failure::writing(&path.display().to_string(), &error))
}

/// A buffered standard output, for long listings.
pub fn lines(write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    write(&mut out).and_then(|()| out.flush()).map_err(|error| Failure::writing("standard output", &error))
}
