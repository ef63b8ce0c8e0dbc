//! CloudPhysics vscsi traces, both versions (Waldspurger et al., "Efficient MRC Construction with SHARDS", FAST 2015): records
//! of a SCSI command each, little-endian, as libCacheSim reads them.
//!
//! | | 0 | 2 | 4 | 8 | 12 | 14 | 16 | 24 | 32 |
//! |---|---|---|---|---|---|---|---|---|---|
//! | version 1, 32 bytes | number | | length | segments | command | version | block | time µs | |
//! | version 2, 40 bytes | command | version | number | length | segments | | block | time µs | response |
//!
//! Lengths are in bytes, blocks of 512. Commands that transfer no data (inquiries, reservations) are left out and counted, and so is
//! UNMAP, whose ranges are not in the record.

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, records};
use crate::{
    decode::{RecordFormat, Sink},
    problem::{Decoded, Or},
};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

impl Version {
    const fn size(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    fn fits(self, record: &[u8]) -> bool {
        let (command, version) = match self {
            Version::One => (&record[12..14], record[15]),
            Version::Two => (&record[0..2], record[3]),
        };
        // A SCSI operation code is one byte.
        command[1] == 0 && version == if self == Version::One { 1 } else { 2 }
    }

    /// The version of every record in the head. As in libCacheSim, version 2 is tried first.
    fn of(head: Head<'_>) -> Option<Version> {
        [Version::Two, Version::One].into_iter().find(|version| {
            let mut records = head.bytes.chunks_exact(version.size());
            let whole = !head.all || records.remainder().is_empty();
            whole && records.len() > 0 && records.all(|record| version.fits(record))
        })
    }
}

pub(crate) struct Vscsi {
    version: Version,
}

impl Vscsi {
    /// `None` if the first record has neither version.
    pub(crate) fn new(head: Head<'_>) -> Option<Vscsi> {
        let by_first = || {
            [Version::Two, Version::One]
                .into_iter()
                .find(|version| head.bytes.get(..version.size()).is_some_and(|record| version.fits(record)))
        };
        Some(Vscsi { version: Version::of(head).or_else(by_first)? })
    }
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    // A version in each record is almost as reliable as a magic number.
    if Version::of(head).is_some() { 95 } else { 0 }
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let (name, head) = (input.name().clone(), Head::of(&mut input)?);
    let remedy = "records must be of version 1 (32 bytes) or 2 (40 bytes)";
    let vscsi = Vscsi::new(head).ok_or_else(|| head.unfit(&name, "not a vscsi trace", remedy))?;
    records(input, vscsi, options)
}

impl RecordFormat for Vscsi {
    const EXPECTED: &'static str = "records of 32 (version 1) or 40 bytes (version 2) with a SCSI command (vscsi)";

    fn size(&self) -> usize {
        self.version.size()
    }

    fn record(&mut self, record: &[u8], sink: &mut Sink<'_>) -> Decoded {
        if !self.version.fits(record) {
            return Err("another version, or not a SCSI command".into());
        }
        let (command, length) = match self.version {
            Version::One => (record[12], &record[4..8]),
            Version::Two => (record[0], &record[8..12]),
        };
        let number = |at: usize| u64::from_le_bytes(record[at..at + 8].try_into().expect("8 bytes"));
        let length = u64::from(u32::from_le_bytes(length.try_into().expect("4 bytes")));
        // SBC-3: READ(6), (10), (12), (16); WRITE and WRITE AND VERIFY; SYNCHRONIZE CACHE (10), (16).
        let op = match command {
            0x08 | 0x28 | 0xa8 | 0x88 => Op::Read,
            0x0a | 0x2a | 0xaa | 0x8a | 0x2e | 0xae | 0x8e => Op::Write,
            0x35 | 0x91 => Op::Flush,
            0x42 => return sink.leave_out("UNMAP commands, whose ranges the trace has not"),
            _ => return sink.leave_out("SCSI commands that transfer no data of the disk"),
        };
        let at = number(24).checked_mul(1_000).or_problem("the time is out of range")?;
        let offset = number(16).checked_mul(512).or_problem("the request ends past 2^63 bytes")?;
        sink.push(at, 0, op, offset, length)
    }
}
