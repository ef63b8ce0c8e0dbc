//! libCacheSim's lcs, versions 1 to 8: a header of 8,192 bytes and packed little-endian records.
//!
//! | version | record |
//! |---|---|
//! | 1 | `u32` seconds, `u64` object, `u32` size, `i64` index of the object's next request |
//! | 2 | `u32` seconds, `u64` object, `u32` size, `u8` operation, `u24` tenant, `i64` next |
//! | 3 | `u32` seconds, `u64` object, `i64` size, `u8` operation, `u24` tenant, `u32` time to live, `i64` next |
//! | 4 to 8 | version 3 and 1, 2, 4, 8 or 16 features of 4 bytes |
//!
//! The header begins and ends with a magic number; the version follows the first. In the older header of 1,024 bytes the place
//! of the second differs. What stores an object is a write, a
//! deletion is a discard, everything else is a read. The next request, tenants, times to live and features are not used: as in
//! libCacheSim, an object is the same for every tenant.

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, records};
use crate::{
    decode::{RecordFormat, Sink},
    problem::Decoded,
};

const MAGIC: u64 = 0x1234_5678_9abc_def0;
/// The lengths that a header may have.
const HEADERS: [usize; 2] = [8_192, 1_024];

pub(crate) struct Lcs {
    version: u64,
}

/// The version, and the length of the header.
fn header(bytes: &[u8]) -> Option<(u64, usize)> {
    let word = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
    let len = HEADERS.into_iter().find(|len| word(len - 8) == Some(MAGIC))?;
    (word(0)? == MAGIC).then_some((word(8)?, len))
}

pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    if header(head.bytes).is_some() { 100 } else { 0 }
}

pub(crate) fn reader(mut input: Input, options: &ReadOptions) -> Opened {
    let (name, head) = (input.name().clone(), Head::of(&mut input)?);
    let remedy = "an lcs file begins with libCacheSim's header, of versions 1 to 8";
    let found = header(head.bytes).filter(|(version, _)| (1..=8).contains(version));
    let (version, len) = found.ok_or_else(|| head.unfit(&name, "not an lcs trace that can be read", remedy))?;
    input.skip(len)?;
    records(input, Lcs { version }, options)
}

/// The operations of libCacheSim (`req_op_e`), by their number.
fn op(number: u8) -> Op {
    match number {
        // Set, add, compare-and-set, replace, append, prepend; increment, decrement; write, update.
        3..=8 | 10 | 11 | 13 | 14 => Op::Write,
        9 => Op::Discard,
        _ => Op::Read,
    }
}

impl RecordFormat for Lcs {
    const EXPECTED: &'static str = "records of libCacheSim's lcs, versions 1 to 8";

    const IS_OF_OBJECTS: bool = true;

    fn size(&self) -> usize {
        match self.version {
            1 => 24,
            2 => 28,
            3 => 36,
            features => 36 + (4 << (features - 4)),
        }
    }

    fn record(&mut self, record: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let number = |from: usize, bytes: usize| {
            let mut word = [0; 8];
            word[..bytes].copy_from_slice(&record[from..from + bytes]);
            u64::from_le_bytes(word)
        };
        let (seconds, object) = (number(0, 4), number(4, 8));
        let (size, op) = match self.version {
            1 => (number(12, 4), Op::Read),
            2 => (number(12, 4), op(record[16])),
            _ => (number(12, 8), op(record[20])),
        };
        sink.push_object(seconds * 1_000_000_000, 0, op, object, size)
    }
}
