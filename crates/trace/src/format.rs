//! The names of formats, and the recognition of a trace's format.

use std::{fmt, str::FromStr};

use crate::{
    TraceError, columns,
    error::{shown, shown_hex},
    formats::{Format, Head, fields, separator_of},
};

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is not a format; the message lists the known names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a trace format: use one of {known}", known = names(Format::ALL))]
pub struct UnknownFormatName(pub String);

impl FromStr for Format {
    type Err = UnknownFormatName;
    fn from_str(text: &str) -> Result<Format, UnknownFormatName> {
        let known = Format::ALL.iter().find(|format| format.name() == text);
        known.copied().ok_or_else(|| UnknownFormatName(text.to_owned()))
    }
}

fn names(formats: &[Format]) -> String {
    formats.iter().map(|format| format.name()).collect::<Vec<_>>().join(", ")
}

/// The least likeness of a format that is chosen. With a lower one, more lines are bad than in a trace that was cut by
/// hand.
const LIKELY: u32 = 50;

/// The format with the highest likeness, if it is the only one, and nothing speaks against it. A trace whose units are given
/// is not doubted.
pub(crate) fn detect(path: &str, head: Head<'_>, may_doubt: bool) -> Result<Format, TraceError> {
    let scores: Vec<(u32, Format)> = Format::ALL.iter().map(|&format| (format.likeness(head), format)).collect();
    let best = scores.iter().map(|score| score.0).max().unwrap_or(0);
    let fitting: Vec<Format> =
        scores.iter().filter(|score| score.0 == best && best >= LIKELY).map(|score| score.1).collect();
    let doubt = match fitting[..] {
        [format] => match format.doubt(head).filter(|_| may_doubt) {
            Some(doubt) => Some((format, doubt)),
            None => return Ok(format),
        },
        _ => None,
    };
    if head.bytes.is_empty() {
        let expected = "a file that is not empty".to_owned();
        return Err(TraceError::Empty { path: path.to_owned(), expected });
    }
    // A character that the end of the head cuts is text.
    let is_text = head.is_text()
        && std::str::from_utf8(head.first_line()).map_or_else(|error| error.error_len().is_none(), |_| true);
    let (found, remedy) = match head.bytes {
        _ if let Some((format, doubt)) = doubt => (
            format!("might be {format}, but {doubt}"),
            format!(
                "give --format {format} if it is, --unit offset=bytes,size=bytes if it counts bytes, or {}",
                the_columns(head)
            ),
        ),
        _ if fitting.len() > 1 => {
            let names = names(&fitting);
            (format!("fits more than one format: {names}"), format!("give --format with one of {names}"))
        }
        [b'P', b'K', 3, 4, ..] => ("a zip archive".to_owned(), "unzip it and give one trace".to_owned()),
        bytes if bytes.get(257..262) == Some(b"ustar") => {
            ("a tar archive".to_owned(), "unpack it and give one trace".to_owned())
        }
        _ if is_text => {
            let remedy =
                format!("{} (--format names one of those that peryton trace info --help lists)", the_columns(head));
            ("fits no trace format".to_owned(), remedy)
        }
        _ => ("fits no trace format".to_owned(), format!("give --format with one of {}", names(Format::ALL))),
    };
    if is_text {
        let start = shown(head.first_line());
        return Err(TraceError::UnknownFormat { path: path.to_owned(), found, start, remedy });
    }
    let start = shown_hex(head.bytes);
    Err(TraceError::UnknownFormat { path: path.to_owned(), found, start, remedy })
}

/// The most rows that a guess looks at.
const GUESSED: usize = 1_000;

/// What to say of the columns of a table: a guess, if there is one.
fn the_columns(head: Head<'_>) -> String {
    let separator = separator_of(head.first_line());
    let lines = head.lines().filter(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#"));
    let rows: Vec<Vec<&[u8]>> = lines.map(|line| fields(line, separator)).skip(1).take(GUESSED).collect();
    let columns = columns::guess(&rows).unwrap_or_else(|| "time=1,op=2,offset=3,size=4".to_owned());
    format!(
        "say which columns are what, by name or number, such as --columns {columns} --unit time=us,offset=bytes,size=bytes"
    )
}

#[cfg(test)]
#[path = "../tests/all/samples/mod.rs"]
mod samples;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_is_taken_for_its_own_format_and_for_no_other() {
        for sample in samples::all() {
            assert!(!sample.requests.is_empty());
            let bytes = sample.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&sample.bytes);
            let head = Head { bytes, all: true };
            let own = sample.format.likeness(head);
            for &format in Format::ALL {
                let likeness = format.likeness(head);
                // Of two tables whose columns have names, that with more of them fits better.
                let fits_less = likeness > 100 && likeness < own;
                if format == sample.format {
                    assert!(likeness >= LIKELY, "{} is {likeness} {format}", sample.name);
                } else {
                    assert!(likeness < LIKELY || fits_less, "{} is {likeness} {format}", sample.name);
                }
            }
            assert_eq!(detect("t", head, true).unwrap(), sample.format);
        }
    }

    #[test]
    fn every_format_has_a_sample() {
        let sampled: Vec<Format> = samples::all().iter().map(|sample| sample.format).collect();
        for &format in Format::ALL {
            // Parquet has its own tests.
            assert!(
                format == Format::Parquet || samples::NAMED_ONLY.contains(&format) || sampled.contains(&format),
                "add a sample of {format} to tests/all/samples/mod.rs"
            );
        }
    }

    #[test]
    fn a_head_that_is_cut_anywhere_is_never_taken_for_another_format() {
        for sample in samples::all() {
            let bytes = sample.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&sample.bytes);
            // A part of the first line may be a whole line of another table.
            let first = bytes.iter().position(|byte| *byte == b'\n').filter(|_| Head { bytes, all: true }.is_text());
            for end in first.unwrap_or(0)..bytes.len() {
                for all in [false, true] {
                    if let Ok(format) = detect("t", Head { bytes: &bytes[..end], all }, true) {
                        assert_eq!(format, sample.format, "{} cut at {end}", sample.name);
                    }
                }
            }
        }
    }

    #[test]
    fn names_read_back_and_unknown_ones_get_the_list() {
        for &format in Format::ALL {
            assert_eq!(format.name().parse(), Ok(format));
        }
        let error = "blktrac".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("blktrac") && error.contains("oracle-general") && !error.contains('\n'), "{error}");
    }

    #[test]
    fn what_is_no_trace_gets_a_remedy() {
        let mut tar = vec![0u8; 512];
        tar[..5].copy_from_slice(b"x.csv");
        tar[257..262].copy_from_slice(b"ustar");
        for (bytes, word) in [
            (&b""[..], "empty"),
            (b"PK\x03\x04....", "zip"),
            (&tar, "tar"),
            (b"<html>Not found</html>\n", "format"),
            (&[0; 4096], "format"),
            (&[0xff; 4096], "format"),
        ] {
            let message = detect("some/file", Head { bytes, all: true }, true).unwrap_err().to_string();
            assert!(message.starts_with("some/file: ") && message.contains(word), "{message}");
            assert!(!message.contains('\n') && message.len() < 600, "{message}");
        }
    }
}
