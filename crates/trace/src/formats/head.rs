//! The start of a trace, by which its format is recognised.

use crate::{
    TraceError,
    decode::{LineFormat, Notes, Sink},
    error::shown,
    input::Input,
};

/// The start of a decompressed trace, by which its format is recognised.
#[derive(Clone, Copy)]
pub(crate) struct Head<'a> {
    pub(crate) bytes: &'a [u8],
    /// Whether this is the whole trace.
    pub(crate) all: bool,
}

impl<'a> Head<'a> {
    /// The head of a trace that has not been read yet.
    pub(crate) fn of(input: &'a mut Input) -> Result<Head<'a>, TraceError> {
        input.head()?;
        let all = input.head_is_all();
        Ok(Head { bytes: input.head()?, all })
    }

    /// The error for a trace that cannot be read as the given format at all.
    pub(crate) fn unfit(self, trace: &str, found: &str, remedy: &str) -> TraceError {
        TraceError::UnknownFormat {
            path: trace.to_owned(),
            found: found.to_owned(),
            start: shown(&self.bytes[..self.bytes.len().min(64)]),
            remedy: remedy.to_owned(),
        }
    }

    /// The complete lines of the head.
    pub(crate) fn lines(self) -> impl Iterator<Item = &'a [u8]> {
        let whole = match memchr::memrchr(b'\n', self.bytes) {
            _ if self.all => self.bytes,
            Some(end) => &self.bytes[..end],
            None => &[],
        };
        whole.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line))
    }

    /// The first line that is not blank.
    pub(crate) fn first_line(self) -> &'a [u8] {
        self.lines().find(|line| !line.trim_ascii().is_empty()).unwrap_or(&[])
    }

    /// Whether this can be text.
    pub(crate) fn is_text(self) -> bool {
        !self.bytes.is_empty()
            && self.bytes.iter().all(|&byte| byte >= b' ' || matches!(byte, b'\t' | b'\r' | b'\n' | 0x1b))
    }
}

/// The likeness of the head to a text format, from 0 to 100 (a table whose names fit has more): the share of its lines that the reader accepts, or 0 if it
/// finds no request.
pub(crate) fn likeness(head: Head<'_>, format: &mut impl LineFormat) -> u32 {
    if !head.is_text() {
        return 0;
    }
    let (mut good, mut lines, mut requests, mut notes) = (0u32, 0u32, Vec::new(), Notes::default());
    for line in head.lines().filter(|line| !line.trim_ascii().is_empty()) {
        lines += 1;
        good += u32::from(format.line(line, &mut Sink::new(&mut requests, &mut notes)).is_ok());
    }
    if requests.is_empty() { 0 } else { 100 * good / lines.max(1) }
}
