use std::{borrow::Cow, io};

use peryton_units::Nanos;

/// An error in a trace: its place, the problem, and the accepted form. Every message is one line.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The trace.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// A line of a text format is not a request.
    #[error("{path}:{line}: {problem} in '{content}': expected {expected}")]
    Line {
        /// The trace.
        path: String,
        /// The line number, counted from 1.
        line: u64,
        /// The line, shortened and escaped.
        content: String,
        /// The problem.
        problem: String,
        /// The form of a line of this format.
        expected: Cow<'static, str>,
    },
    /// A line is too long for a trace.
    #[error("{path}:{line}: the line is longer than {limit} bytes: expected a text trace with one request in a line")]
    LongLine {
        /// The trace.
        path: String,
        /// The line number, counted from 1.
        line: u64,
        /// The limit, in bytes.
        limit: usize,
    },
    /// A record of a binary format is not a request.
    #[error("{path}: byte {byte}: {problem} in '{content}': expected {expected}")]
    Record {
        /// The trace.
        path: String,
        /// The start of the record, in bytes of the decompressed trace.
        byte: u64,
        /// The record in hexadecimal, shortened.
        content: String,
        /// The problem.
        problem: String,
        /// The form of a record of this format.
        expected: &'static str,
    },
    /// A compressed stream cannot be decompressed to its end.
    #[error(
        "{path}: broken or truncated {codec} stream after {read} decompressed bytes ({source}): fetch the file again"
    )]
    Compression {
        /// The trace.
        path: String,
        /// `gzip`, `zstd`, `xz` or `bzip2`.
        codec: &'static str,
        /// Number of bytes that could be decompressed.
        read: u64,
        /// The decompressor's error.
        source: io::Error,
    },
    /// No format, or more than one, fits the start of the file.
    #[error("{path}: {found} (starts with '{start}'): {remedy}")]
    UnknownFormat {
        /// The trace.
        path: String,
        /// The apparent format of the file.
        found: String,
        /// The first bytes, shortened and escaped.
        start: String,
        /// The remedy.
        remedy: String,
    },
    /// The trace was read to its end and contains no request.
    #[error("{path}: no request in it: expected {expected}")]
    Empty {
        /// The trace.
        path: String,
        /// The format of such a trace.
        expected: String,
    },
    /// None of the selected volumes is in the trace.
    #[error("{path}: no request of volume {wanted}: the trace has volumes {present}")]
    NoSuchVolume {
        /// The trace.
        path: String,
        /// The volumes selected.
        wanted: String,
        /// The volumes of the trace.
        present: String,
    },
    /// A request comes long after later ones, so that the order of time is not that of the file.
    #[error(
        "{path}: request {request} arrives {by} before one that stands more than {window} requests before it: sort the \
         whole trace with --sort",
        window = crate::REORDER_WINDOW
    )]
    Late {
        /// The trace.
        path: String,
        /// The number of the request in the order of the trace, counted from 1.
        request: u64,
        /// How much it comes before the latest request before it.
        by: Nanos,
    },
    /// Columns in memory are not a trace.
    #[error("{trace}: {problem}")]
    Columns {
        /// The name of the trace.
        trace: String,
        /// The row or column, the problem, and what was expected.
        problem: String,
    },
    /// The options cannot be applied to this trace.
    #[error("{path}: {problem}: {remedy}")]
    Options {
        /// The trace.
        path: String,
        /// The reason.
        problem: String,
        /// The remedy.
        remedy: String,
    },
}

/// The longest piece of a bad line that a message repeats, in characters.
const SHOWN: usize = 120;
/// The longest piece of a bad record that a message repeats, in bytes.
const SHOWN_BYTES: usize = 48;

/// `bytes` as one line of printable text of bounded length.
pub(crate) fn shown(bytes: &[u8]) -> String {
    // Escapes make text longer, never shorter, so this much input is enough.
    let piece = &bytes[..bytes.len().min(SHOWN * 4)];
    let mut text = String::new();
    for c in String::from_utf8_lossy(piece).chars() {
        if text.chars().count() >= SHOWN {
            text.push('…');
            return text;
        }
        if c == '\t' {
            text.push_str("\\t");
        } else if c.is_control() {
            text.extend(c.escape_unicode());
        } else {
            text.push(c);
        }
    }
    if piece.len() < bytes.len() {
        text.push('…');
    }
    text
}

/// The start of a binary record in hexadecimal.
pub(crate) fn shown_hex(bytes: &[u8]) -> String {
    let mut text: String = bytes.iter().take(SHOWN_BYTES).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > SHOWN_BYTES {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_is_one_bounded_printable_line() {
        assert_eq!(shown(b"1,2\tx\r\n\x1b[31m"), "1,2\\tx\\u{d}\\u{a}\\u{1b}[31m");
        let long = shown(&vec![0xff; 1 << 20]);
        assert!(long.chars().count() <= SHOWN + 1 && long.ends_with('…'), "{long}");
    }
}
