//! libCacheSim's oracleGeneral: packed little-endian records of 24 bytes, `u32` time in seconds, `u64` object, `u32` size,
//! `i64` index of the object's next request (unused here). Every request is a read of an object.

use peryton_units::Op;

use super::{Head, Input, Opened, ReadOptions, records};
use crate::{
    decode::{RecordFormat, Sink},
    problem::Decoded,
};

const RECORD: usize = 24;

pub(crate) struct OracleGeneral;

struct Fields {
    seconds: u32,
    object: u64,
    size: u32,
    next: i64,
}

fn fields(record: &[u8; RECORD]) -> Fields {
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

impl RecordFormat for OracleGeneral {
    const EXPECTED: &'static str = "records of 24 bytes: u32 seconds, u64 object, u32 size, i64 next (oracleGeneral)";

    const IS_OF_OBJECTS: bool = true;

    fn size(&self) -> usize {
        RECORD
    }

    fn record(&mut self, record: &[u8], sink: &mut Sink<'_>) -> Decoded {
        let record = record.try_into().expect("a record of that size");
        let Fields { seconds, object, size, .. } = fields(record);
        sink.push_object(u64::from(seconds) * 1_000_000_000, 0, Op::Read, object, u64::from(size))
    }
}
