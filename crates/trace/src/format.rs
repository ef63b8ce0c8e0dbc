//! The names of formats, and the recognition of a trace's format.

use std::{fmt, str::FromStr};

use crate::{
    TraceError,
    error::shown,
    formats::{Format, Head},
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

/// The format with the highest likeness, if it is the only one.
pub(crate) fn detect(path: &str, head: Head<'_>) -> Result<Format, TraceError> {
    let scores: Vec<(u32, Format)> = Format::ALL.iter().map(|&format| (format.likeness(head), format)).collect();
    let best = scores.iter().map(|score| score.0).max().unwrap_or(0);
    let fitting: Vec<Format> =
        scores.iter().filter(|score| score.0 == best && best >= LIKELY).map(|score| score.1).collect();
    if let [format] = fitting[..] {
        return Ok(format);
    }
    if head.bytes.is_empty() {
        let expected = "a file that is not empty".to_owned();
        return Err(TraceError::Empty { path: path.to_owned(), expected });
    }
    let remedy = format!("give the format, one of {}", names(Format::ALL));
    let (found, remedy) = match head.bytes {
        _ if fitting.len() > 1 => (format!("fits more than one format: {}", names(&fitting)), remedy),
        [b'P', b'K', 3, 4, ..] => ("a zip archive".to_owned(), "unzip it and give one trace".to_owned()),
        bytes if bytes.get(257..262) == Some(b"ustar") => {
            ("a tar archive".to_owned(), "unpack it and give one trace".to_owned())
        }
        _ => ("fits no trace format".to_owned(), remedy),
    };
    let start = shown(&head.bytes[..head.bytes.len().min(64)]);
    Err(TraceError::UnknownFormat { path: path.to_owned(), found, start, remedy })
}

#[cfg(test)]
#[path = "../tests/samples/mod.rs"]
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
            for &format in Format::ALL {
                let likeness = format.likeness(head);
                if format == sample.format {
                    assert!(likeness >= LIKELY, "{} is {likeness} {format}", sample.name);
                } else {
                    assert!(likeness < LIKELY, "{} is {likeness} {format}", sample.name);
                }
            }
            assert_eq!(detect("t", head).unwrap(), sample.format);
        }
    }

    #[test]
    fn every_format_has_a_sample() {
        let sampled: Vec<Format> = samples::all().iter().map(|sample| sample.format).collect();
        for &format in Format::ALL {
            // Parquet has its own tests.
            assert!(
                format == Format::Parquet || sampled.contains(&format),
                "add a sample of {format} to tests/samples/mod.rs"
            );
        }
    }

    #[test]
    fn a_head_that_is_cut_anywhere_is_never_taken_for_another_format() {
        for sample in samples::all() {
            let bytes = sample.bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&sample.bytes);
            for end in 0..bytes.len() {
                for all in [false, true] {
                    if let Ok(format) = detect("t", Head { bytes: &bytes[..end], all }) {
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
            let message = detect("some/file", Head { bytes, all: true }).unwrap_err().to_string();
            assert!(message.starts_with("some/file: ") && message.contains(word), "{message}");
            assert!(!message.contains('\n') && message.len() < 600, "{message}");
        }
    }
}
