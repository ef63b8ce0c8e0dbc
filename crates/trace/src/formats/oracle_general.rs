//! libCacheSim's oracleGeneral: packed little-endian records of 24 bytes, `u32` time in seconds, `u64` object, `u32` size,
//! `i64` index of the object's next request (unused here).
//!
//! A cache trace has objects, a drive has offsets. Each object gets a slot of [`OBJECT_UNIT`]: object i is read at i ×
//! 4 KiB, and no request is longer than its slot, so that requests for different objects never access the same bytes.
//! With extents of 4 KiB, an extent is an object, and the hit ratio of a cache of n extents is libCacheSim's for n
//! objects of equal size (`--ignore-obj-size`, or a trace of 4 KiB objects). Sizes above a slot are lost. Objects from
//! 2^50 on do not fit below 2^63 bytes and are hashed into the slots from 2^50 to 2^51: two of a million such objects
//! share a slot with a probability below 1 in 2000. Every request is a read.

use peryton_units::{Bytes, Op};

use super::{Head, Input, Opened, ReadOptions, records};
use crate::decode::{Decoded, RecordFormat, Sink};

/// The slot of an object, in bytes.
pub const OBJECT_UNIT: Bytes = Bytes::kib(4);
const RECORD: usize = 24;
const SLOTS: u64 = 1 << 50;

pub(crate) struct OracleGeneral;

struct Fields {
    seconds: u32,
    object: u64,
    size: u32,
    next: i64,
}

fn fields(record: &[u8]) -> Fields {
    let bytes = |from: usize, to: usize| &record[from..to];
    Fields {
        seconds: u32::from_le_bytes(bytes(0, 4).try_into().expect("4 bytes")),
        object: u64::from_le_bytes(bytes(4, 12).try_into().expect("8 bytes")),
        size: u32::from_le_bytes(bytes(12, 16).try_into().expect("4 bytes")),
        next: i64::from_le_bytes(bytes(16, 24).try_into().expect("8 bytes")),
    }
}

/// There is no magic number: times must not go back, sizes must not be zero, and the next request for an object must
/// lie ahead. One record alone is too little to recognise the format by.
pub(crate) fn looks_like(head: Head<'_>) -> u32 {
    let (records, rest) = head.bytes.as_chunks::<RECORD>();
    if records.len() < 2 || (head.all && !rest.is_empty()) {
        return 0;
    }
    let mut last = 0;
    for (index, record) in records.iter().enumerate() {
        let Fields { seconds, size, next, .. } = fields(record);
        // Either the end of the trace, or the index of a request in a trace of less than 2^40.
        let ahead = next == -1 || next == i64::MAX || (next > index as i64 && next < 1 << 40);
        if seconds < last || size == 0 || !ahead {
            return 0;
        }
        last = seconds;
    }
    90
}

pub(crate) fn reader(input: Input, options: &ReadOptions) -> Opened {
    records(input, OracleGeneral, options)
}

pub(crate) fn slot(object: u64) -> u64 {
    if object < SLOTS {
        return object;
    }
    // The finaliser of SplitMix64 (Steele et al., OOPSLA 2014) spreads every bit over all others.
    let mut hash = object;
    hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    SLOTS + ((hash ^ (hash >> 31)) % SLOTS)
}

impl RecordFormat for OracleGeneral {
    const EXPECTED: &'static str = "records of 24 bytes: u32 seconds, u64 object, u32 size, i64 next (oracleGeneral)";

    fn size(&self) -> usize {
        RECORD
    }

    fn record(&mut self, record: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let Fields { seconds, object, size, .. } = fields(record);
        let len = u64::from(size).min(OBJECT_UNIT.0);
        sink.push(u64::from(seconds) * 1_000_000_000, 0, Op::Read, slot(object) * OBJECT_UNIT.0, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_slot_fits_and_small_objects_keep_their_place() {
        for object in [0, 1, SLOTS - 1] {
            assert_eq!(slot(object), object);
        }
        for object in [SLOTS, SLOTS + 1, u64::MAX - 1, u64::MAX] {
            assert!((SLOTS..2 * SLOTS).contains(&slot(object)));
            assert!(
                (slot(object) * OBJECT_UNIT.0).checked_add(OBJECT_UNIT.0).is_some_and(|end| end <= i64::MAX as u64 + 1)
            );
        }
        assert_ne!(slot(u64::MAX), slot(u64::MAX - 1));
    }
}
