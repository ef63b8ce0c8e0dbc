//! Requests, as they are recorded when they are answered.

use peryton_units::{Bytes, Nanos, Op};

use crate::varint::{put, put_signed, take, take_signed};

/// What a request was besides its operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags(u8);

impl Flags {
    /// Nothing.
    pub const NONE: Flags = Flags(0);
    /// The request was to be durable before its answer: a flush of its own came after it.
    pub const DURABLE: Flags = Flags(1);
    /// A write of zeros, which came without data.
    pub const ZEROS: Flags = Flags(2);
    /// It was answered with an error.
    pub const FAILED: Flags = Flags(4);
    const KNOWN: u8 = 7;

    /// Both.
    #[must_use]
    pub fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// The same if the condition holds, else none.
    #[must_use]
    pub fn when(self, condition: bool) -> Flags {
        if condition { self } else { Flags::NONE }
    }

    /// Whether it has all of these.
    pub fn has(self, other: Flags) -> bool {
        self.0 & other.0 == other.0
    }
}

/// A request that was answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// When it arrived, counted from the start of the server.
    pub at: Nanos,
    /// The operation. A write of zeros is a write.
    pub op: Op,
    /// What else it was.
    pub flags: Flags,
    /// The first byte of the volume; 0 for a flush.
    pub offset: Bytes,
    /// The number of bytes; 0 for a flush.
    pub len: Bytes,
    /// From its arrival to its answer.
    pub latency: Nanos,
}

/// The content of a chunk of requests while it grows. Rows are in the order of their answers.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    bytes: Vec<u8>,
    count: u64,
    before: Before,
}

/// What a row is encoded against.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    at: u64,
    end: u64,
}

impl Rows {
    /// Adds a request.
    #[inline]
    pub fn push(&mut self, row: &Row) {
        self.bytes.push(row.op as u8 | row.flags.0 << 2);
        put_signed(&mut self.bytes, row.at.0.wrapping_sub(self.before.at) as i64);
        put_signed(&mut self.bytes, row.offset.0.wrapping_sub(self.before.end) as i64);
        put(&mut self.bytes, row.len.0);
        put(&mut self.bytes, row.latency.0);
        self.before = Before { at: row.at.0, end: row.offset.0.wrapping_add(row.len.0) };
        self.count += 1;
    }

    /// The number of bytes so far.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The number of requests so far.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Takes what was added: the payload of a chunk.
    pub fn take(&mut self) -> Vec<u8> {
        (self.count, self.before) = (0, Before::default());
        std::mem::take(&mut self.bytes)
    }
}

/// The requests in the payload of a chunk; `None` if they are not encoded as they should be.
pub(crate) fn decode(mut from: &[u8]) -> Option<Vec<Row>> {
    let (mut rows, mut before) = (Vec::new(), Before::default());
    while let Some((first, rest)) = from.split_first() {
        from = rest;
        let (op, flags) = (Op::from_code(first & 3)?, first >> 2);
        if flags & !Flags::KNOWN != 0 {
            return None;
        }
        let at = before.at.wrapping_add(take_signed(&mut from)? as u64);
        let offset = before.end.wrapping_add(take_signed(&mut from)? as u64);
        let (len, latency) = (take(&mut from)?, take(&mut from)?);
        before = Before { at, end: offset.wrapping_add(len) };
        rows.push(Row {
            at: Nanos(at),
            op,
            flags: Flags(flags),
            offset: Bytes(offset),
            len: Bytes(len),
            latency: Nanos(latency),
        });
    }
    Some(rows)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn row() -> impl Strategy<Value = Row> {
        (any::<u64>(), 0..4_u8, 0..8_u8, any::<u64>(), any::<u64>(), any::<u64>()).prop_map(
            |(at, op, flags, offset, len, latency)| Row {
                at: Nanos(at),
                op: Op::from_code(op).unwrap_or(Op::Read),
                flags: Flags(flags),
                offset: Bytes(offset),
                len: Bytes(len),
                latency: Nanos(latency),
            },
        )
    }

    proptest! {
        #[test]
        fn rows_come_back(rows in prop::collection::vec(row(), 0..50)) {
            let mut chunk = Rows::default();
            rows.iter().for_each(|row| chunk.push(row));
            prop_assert_eq!(chunk.count(), rows.len() as u64);
            prop_assert_eq!(decode(&chunk.take()), Some(rows));
            prop_assert_eq!((chunk.bytes(), chunk.count()), (0, 0));
        }

        #[test]
        fn rubbish_does_no_harm(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&bytes);
        }
    }

    #[test]
    fn a_usual_row_takes_few_bytes() {
        let mut chunk = Rows::default();
        for index in 0..1000_u64 {
            chunk.push(&Row {
                at: Nanos(index * 150_000),
                op: Op::Read,
                flags: Flags::NONE,
                offset: Bytes(index.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 40) / 4096 * 4096),
                len: Bytes(4096),
                latency: Nanos(80_000 + index),
            });
        }
        assert!(chunk.bytes() < 16_000, "{}", chunk.bytes());
    }
}
