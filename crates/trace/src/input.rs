//! A trace as lines or as records of bytes, through one buffer of fixed size.

use std::{
    io::{self, ErrorKind, Read},
    sync::Arc,
};

use crate::{TraceError, compression};

/// The number of bytes of a trace that are in memory at a time.
const BUFFER: usize = 256 << 10;
/// The longest line, in bytes; a request takes about a hundred.
pub(crate) const MAX_LINE: usize = 64 << 10;
/// The number of bytes of the decompressed trace from which the format is recognised.
pub(crate) const HEAD: usize = 64 << 10;

/// A decompressed trace, read once from its start to its end.
pub(crate) struct Input {
    name: Arc<str>,
    read: Box<dyn Read + Send>,
    codec: Option<&'static str>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    ended: bool,
    /// The number of the last returned line, counted from 1.
    line: u64,
    /// The position of the buffer's start in the trace.
    base: u64,
    /// Whether the rest of the line is to be dropped, because the line was too long.
    dropping: bool,
}

impl Input {
    pub(crate) fn new(name: &str, raw: Box<dyn Read + Send>) -> Result<Input, TraceError> {
        let plain = compression::decompress(raw).map_err(|source| TraceError::Io { path: name.to_owned(), source })?;
        let mut input = Input {
            name: name.into(),
            read: plain.read,
            codec: plain.codec,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            start: 0,
            end: 0,
            ended: false,
            line: 0,
            base: 0,
            dropping: false,
        };
        if input.head()?.starts_with(b"\xef\xbb\xbf") {
            input.start = 3; // A byte order mark, as spreadsheets write it.
        }
        Ok(input)
    }

    pub(crate) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// Whether the trace was compressed.
    pub(crate) fn is_compressed(&self) -> bool {
        self.codec.is_some()
    }

    /// The first [`HEAD`] bytes, or all of a shorter trace. Must be called before anything else is read.
    pub(crate) fn head(&mut self) -> Result<&[u8], TraceError> {
        while !self.ended && self.end - self.start < HEAD {
            self.fill()?;
        }
        Ok(&self.buffer[self.start..self.end.min(self.start + HEAD)])
    }

    /// Whether [`Self::head`] is the whole trace.
    pub(crate) fn head_is_all(&self) -> bool {
        self.ended && self.end - self.start <= HEAD
    }

    /// Reads once, after moving the rest of the buffer to its front.
    fn fill(&mut self) -> Result<(), TraceError> {
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.base += self.start as u64;
            self.end -= self.start;
            self.start = 0;
        }
        debug_assert!(self.end < self.buffer.len(), "nothing to fill");
        loop {
            match self.read.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.ended = true,
                Ok(n) => self.end += n,
                Err(source) if source.kind() == ErrorKind::Interrupted => continue,
                Err(source) => return Err(self.failed(source)),
            }
            return Ok(());
        }
    }

    fn failed(&mut self, source: io::Error) -> TraceError {
        self.ended = true;
        let path = self.name.to_string();
        match self.codec {
            // An error with a system code comes from the file, not from the decompressor.
            Some(codec) if source.raw_os_error().is_none() => {
                TraceError::Compression { path, codec, read: self.base + self.end as u64, source }
            }
            _ => TraceError::Io { path, source },
        }
    }

    /// The next line without its end (`\n` or `\r\n`), and its number; `None` at the end of the trace.
    #[inline]
    pub(crate) fn next_line(&mut self) -> Result<Option<(u64, &[u8])>, TraceError> {
        let mut searched = 0;
        loop {
            let from = self.start + searched;
            if let Some(at) = memchr::memchr(b'\n', &self.buffer[from..self.end]) {
                let (start, end) = (self.start, from + at);
                self.start = end + 1;
                if std::mem::take(&mut self.dropping) {
                    searched = 0;
                    continue;
                }
                self.line += 1;
                if end - start > MAX_LINE {
                    return Err(self.long_line());
                }
                return Ok(Some((self.line, trim_return(&self.buffer[start..end]))));
            }
            searched = self.end - self.start;
            if self.dropping {
                self.start = self.end;
                searched = 0;
            } else if searched > MAX_LINE {
                self.dropping = true;
                self.line += 1;
                return Err(self.long_line());
            }
            if self.ended {
                if self.start == self.end {
                    return Ok(None);
                }
                let start = std::mem::replace(&mut self.start, self.end);
                self.line += 1;
                return Ok(Some((self.line, trim_return(&self.buffer[start..self.end]))));
            }
            self.fill()?;
        }
    }

    fn long_line(&self) -> TraceError {
        TraceError::LongLine { path: self.name.to_string(), line: self.line, limit: MAX_LINE }
    }

    /// The next `size` bytes without taking them; fewer only at the end of the trace.
    #[inline]
    pub(crate) fn peek(&mut self, size: usize) -> Result<&[u8], TraceError> {
        debug_assert!(size <= HEAD, "records are small");
        while self.end - self.start < size && !self.ended {
            self.fill()?;
        }
        Ok(&self.buffer[self.start..self.end.min(self.start + size)])
    }

    /// The next records of `size` bytes, as many as are in the buffer, without taking them: at least one, unless the trace ends before
    /// its end.
    #[inline]
    pub(crate) fn peek_records(&mut self, size: usize) -> Result<&[u8], TraceError> {
        self.peek(size)?;
        let held = self.end - self.start;
        let whole = if held < size { held } else { held - held % size };
        Ok(&self.buffer[self.start..self.start + whole])
    }

    /// The position of the next byte in the decompressed trace.
    pub(crate) fn position(&self) -> u64 {
        self.base + self.start as u64
    }

    /// Skips `size` bytes; returns whether there were as many.
    pub(crate) fn skip(&mut self, mut size: usize) -> Result<bool, TraceError> {
        loop {
            let here = size.min(self.end - self.start);
            self.start += here;
            size -= here;
            if size == 0 || self.ended {
                return Ok(size == 0);
            }
            self.fill()?;
        }
    }

    /// Skips bytes up to the next `pattern`, or to the end of the trace.
    pub(crate) fn skip_to(&mut self, pattern: &[u8]) -> Result<(), TraceError> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.buffer[self.start..self.end], pattern) {
                self.start += at;
                return Ok(());
            }
            // The pattern may begin in the rest of the buffer.
            self.start = self.start.max(self.end.saturating_sub(pattern.len() - 1));
            if self.ended {
                self.start = self.end;
                return Ok(());
            }
            self.fill()?;
        }
    }
}

#[inline]
fn trim_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `step` bytes at a time, so that every boundary falls inside a line.
    struct Trickle(Vec<u8>, usize, usize);
    impl Read for Trickle {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            let n = self.2.min(out.len()).min(self.0.len() - self.1);
            out[..n].copy_from_slice(&self.0[self.1..self.1 + n]);
            self.1 += n;
            Ok(n)
        }
    }

    fn lines(bytes: &[u8], step: usize) -> Vec<Result<(u64, Vec<u8>), String>> {
        let mut input = Input::new("t", Box::new(Trickle(bytes.to_vec(), 0, step))).unwrap();
        let mut all = Vec::new();
        loop {
            match input.next_line() {
                Ok(None) => return all,
                Ok(Some((n, line))) => all.push(Ok((n, line.to_vec()))),
                Err(error) => all.push(Err(error.to_string())),
            }
        }
    }

    #[test]
    fn lines_do_not_depend_on_how_the_bytes_arrive() {
        let text = b"\xef\xbb\xbfone\r\n\n  two\nlast without end";
        let expected: Vec<_> = ["one", "", "  two", "last without end"]
            .iter()
            .zip(1..)
            .map(|(l, n)| Ok((n, l.as_bytes().to_vec())))
            .collect();
        for step in [1, 2, 3, 5, 1 << 20] {
            assert_eq!(lines(text, step), expected, "{step}");
        }
    }

    #[test]
    fn an_endless_line_is_an_error_and_the_next_one_is_read() {
        for length in [MAX_LINE + 1, BUFFER, 5 * BUFFER + 3] {
            let mut text = b"a\n".to_vec();
            text.extend(vec![b'x'; length]);
            text.extend(b"\nb\n");
            for step in [4096, 1 << 20] {
                let read = lines(&text, step);
                assert_eq!(read.len(), 3, "{length}");
                assert_eq!(read[0], Ok((1, b"a".to_vec())));
                assert!(read[1].as_ref().is_err_and(|e| e.starts_with("t:2: ")), "{:?}", read[1]);
                assert_eq!(read[2], Ok((3, b"b".to_vec())));
            }
        }
        let endless = lines(&vec![b'x'; 3 * BUFFER], 4096);
        assert_eq!(endless.len(), 1);
        assert!(endless[0].is_err());
    }

    #[test]
    fn a_pattern_across_two_reads_is_found() {
        let mut bytes = vec![0u8; BUFFER + 100];
        bytes.extend(b"MAGI");
        bytes.extend(b"MAGIC");
        for step in [1000, 7, 1 << 20] {
            let mut input = Input::new("t", Box::new(Trickle(bytes.clone(), 0, step))).unwrap();
            input.skip_to(b"MAGIC").unwrap();
            assert_eq!(input.position(), BUFFER as u64 + 104);
            assert_eq!(input.peek(100).unwrap(), b"MAGIC");
            assert!(!input.skip(6).unwrap());
        }
    }
}
