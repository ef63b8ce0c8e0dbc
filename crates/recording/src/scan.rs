//! Reading a recording: chunk after chunk, past what is damaged.

use std::io::{self, Read};

use crate::{
    End, Figures, Head, Row, SettingsChange, StateRead,
    chunk::{self, HEADER, Header, LONGEST, MAGIC},
    described, rows,
};

/// The most bytes that are read at once.
const AT_ONCE: usize = 1 << 20;

/// The content of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// What is recorded.
    Head(Box<Head>),
    /// Reads of the opening of the volume.
    State(Vec<StateRead>),
    /// Requests, in the order of their answers.
    Requests(Vec<Row>),
    /// What the drive had counted by then.
    Figures(Box<Figures>),
    /// Settings that changed.
    Settings(SettingsChange),
    /// The recording ends here.
    End(End),
    /// A kind of a later version, or a content that cannot be decoded.
    Unknown,
}

/// A chunk that was found whole.
#[derive(Clone, Debug)]
pub struct ScannedChunk {
    /// The kind of its content.
    pub kind: u32,
    /// Its number; those between it and the one before were dropped.
    pub number: u64,
    /// How many requests had been dropped when it was written.
    pub dropped: u64,
    version: u32,
    payload: Vec<u8>,
}

impl ScannedChunk {
    /// Decodes the content.
    pub fn content(&self) -> Content {
        fn json<T: serde::de::DeserializeOwned>(payload: &[u8], of: impl Fn(T) -> Content) -> Content {
            serde_json::from_slice(payload).map_or(Content::Unknown, of)
        }
        if self.version != chunk::VERSION {
            return Content::Unknown;
        }
        match self.kind {
            chunk::HEAD => json(&self.payload, |head| Content::Head(Box::new(head))),
            chunk::STATE => described::decode_state(&self.payload).map_or(Content::Unknown, Content::State),
            chunk::REQUESTS => rows::decode(&self.payload).map_or(Content::Unknown, Content::Requests),
            chunk::FIGURES => json(&self.payload, |figures| Content::Figures(Box::new(figures))),
            chunk::SETTINGS => json(&self.payload, Content::Settings),
            chunk::END => json(&self.payload, Content::End),
            _ => Content::Unknown,
        }
    }

    /// The version of the format, if it is not that of this crate.
    pub fn other_version(&self) -> Option<u32> {
        (self.version != chunk::VERSION).then_some(self.version)
    }
}

/// The chunks of a recording, from any stream. Memory is bounded by the longest chunk.
#[derive(Debug)]
pub struct Scan<R> {
    from: R,
    buffer: Vec<u8>,
    /// What is before this was returned.
    at: usize,
    ended: bool,
    damaged: u64,
}

impl<R: Read> Scan<R> {
    /// Reads from here.
    pub fn new(from: R) -> Scan<R> {
        Scan { from, buffer: Vec::new(), at: 0, ended: false, damaged: 0 }
    }

    /// Number of bytes so far that belong to no whole chunk: the end of a recording whose writer was killed, or damage.
    pub fn damaged_bytes(&self) -> u64 {
        self.damaged
    }

    /// Makes at least `len` bytes available, if there are as many.
    fn fill(&mut self, len: usize) -> io::Result<bool> {
        while self.buffer.len() - self.at < len && !self.ended {
            if self.at > 0 {
                self.buffer.drain(..self.at);
                self.at = 0;
            }
            let before = self.buffer.len();
            let more = (&mut self.from).take(AT_ONCE as u64).read_to_end(&mut self.buffer)?;
            self.ended = more == 0;
            debug_assert_eq!(self.buffer.len(), before + more);
        }
        Ok(self.buffer.len() - self.at >= len)
    }

    /// The next whole chunk; `None` at the end.
    ///
    /// # Errors
    /// The stream cannot be read.
    pub fn next_chunk(&mut self) -> io::Result<Option<ScannedChunk>> {
        loop {
            if !self.fill(HEADER)? {
                self.damaged += (self.buffer.len() - self.at) as u64;
                self.at = self.buffer.len();
                return Ok(None);
            }
            if let Some(header) = Header::decode(&self.buffer[self.at..])
                && self.fill(HEADER + header.len.min(LONGEST))?
            {
                let payload = &self.buffer[self.at + HEADER..self.at + HEADER + header.len];
                if header.fits(payload) {
                    let Header { kind, number, dropped, version, len, .. } = header;
                    let payload = payload.to_vec();
                    self.at += HEADER + len;
                    return Ok(Some(ScannedChunk { kind, number, dropped, version, payload }));
                }
            }
            // The next chunk begins where the next magic is.
            let rest = &self.buffer[self.at + 1..];
            let skip = rest.windows(MAGIC.len()).position(|window| window == MAGIC);
            let skip = 1 + skip.unwrap_or_else(|| rest.len().saturating_sub(MAGIC.len() - 1));
            self.damaged += skip as u64;
            self.at += skip;
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use peryton_units::{Bytes, Nanos, Op};
    use proptest::prelude::*;

    use super::*;
    use crate::{Flags, Rows};

    fn row(number: u64) -> Row {
        Row {
            at: Nanos(number),
            op: Op::Write,
            flags: Flags::DURABLE,
            offset: Bytes(number * 512),
            len: Bytes(512),
            latency: Nanos(9),
        }
    }

    fn file(chunks: u64) -> (Vec<u8>, Vec<usize>) {
        let (mut file, mut ends) = (Vec::new(), Vec::new());
        for number in 0..chunks {
            let mut rows = Rows::default();
            (0..number % 7 * 40).for_each(|index| rows.push(&row(number * 1000 + index)));
            file.extend(chunk::chunk(chunk::REQUESTS, number, 3, &rows.take()));
            ends.push(file.len());
        }
        (file, ends)
    }

    fn numbers(file: &[u8]) -> (Vec<u64>, u64) {
        let (mut scan, mut numbers) = (Scan::new(file), Vec::new());
        while let Some(chunk) = scan.next_chunk().unwrap() {
            assert_ne!(chunk.content(), Content::Unknown);
            assert_eq!(chunk.dropped, 3);
            numbers.push(chunk.number);
        }
        (numbers, scan.damaged_bytes())
    }

    proptest! {
        /// The fear: a writer that is killed costs more than the chunk that it was writing.
        #[test]
        fn a_file_that_is_cut_anywhere_is_read_up_to_there(cut in 0.0..1.0_f64) {
            let (file, ends) = file(20);
            let cut = (file.len() as f64 * cut) as usize;
            let whole = ends.iter().filter(|end| **end <= cut).count();
            let (found, damaged) = numbers(&file[..cut]);
            prop_assert_eq!(found, (0..whole as u64).collect::<Vec<_>>());
            prop_assert_eq!(damaged as usize, cut - if whole > 0 { ends[whole - 1] } else { 0 });
        }

        /// Damage costs the chunks that it touches, and no other.
        #[test]
        fn damage_is_passed_over(at in 0.0..1.0_f64, bit in 0..8_u32) {
            let (mut file, ends) = file(20);
            let at = ((file.len() - 1) as f64 * at) as usize;
            file[at] ^= 1 << bit;
            let hit = ends.iter().position(|end| at < *end).unwrap() as u64;
            let (found, damaged) = numbers(&file);
            prop_assert_eq!(found, (0..20).filter(|number| *number != hit).collect::<Vec<_>>());
            prop_assert!(damaged > 0);
        }

        #[test]
        fn rubbish_ends(bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'P'), Just(b'E')], 0..3000)) {
            let mut scan = Scan::new(&bytes[..]);
            while scan.next_chunk().unwrap().is_some() {}
            prop_assert_eq!(scan.damaged_bytes(), bytes.len() as u64);
        }
    }
}
