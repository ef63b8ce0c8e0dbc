//! Whether the host is a synchronous writer: one that flushes after every few writes, as databases do. A write that goes to the slow device
//! makes the next flush of the host wait for that device.

use peryton_units::Op;

use crate::cache::step::CacheIo;

/// The host counts as synchronous if it flushes, on average, after no more writes than this.
const MOST_WRITES_A_FLUSH: u64 = 8;
/// The average is one of about this many flushes.
const FLUSHES: u64 = 16;
/// Further writes between two flushes do not count, so that the average falls again soon.
const MOST_COUNTED: u64 = 256;

/// How many writes come to a flush.
#[derive(Debug)]
pub(in crate::cache) struct SyncWriter {
    /// The average number of writes for a flush, times [`FLUSHES`].
    average: u64,
    /// Writes of the host before the last flush.
    before: u64,
}

impl SyncWriter {
    /// Nothing is known of the host: it does not wait.
    pub(in crate::cache) fn new() -> SyncWriter {
        SyncWriter { average: MOST_COUNTED * FLUSHES, before: 0 }
    }

    /// The host flushes.
    pub(in crate::cache) fn flushed(&mut self, io: &CacheIo) {
        self.count(io.stats.requests[Op::Write as usize]);
    }

    fn count(&mut self, writes: u64) {
        let since = self.since(writes);
        self.before = writes;
        // A flush after no write says nothing about writes.
        if since > 0 {
            self.average = self.average - self.average / FLUSHES + since.min(MOST_COUNTED);
        }
    }

    /// Writes since the last flush. The count begins again when statistics do.
    fn since(&self, writes: u64) -> u64 {
        writes.checked_sub(self.before).unwrap_or(writes)
    }

    /// Whether the host waits for its writes.
    pub(in crate::cache) fn is_likely(&self, io: &CacheIo) -> bool {
        self.is_soon(io.stats.requests[Op::Write as usize])
    }

    fn is_soon(&self, writes: u64) -> bool {
        self.average <= MOST_WRITES_A_FLUSH * FLUSHES && self.since(writes) <= MOST_COUNTED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_that_flushes_after_a_few_writes_waits_for_them() {
        let mut waited = SyncWriter::new();
        let mut writes = 0;
        let mut postflush = |waited: &mut SyncWriter, each: u64, times: u32| {
            for _ in 0..times {
                writes += each;
                waited.count(writes);
            }
            writes
        };
        assert!(!waited.is_soon(0));
        let now = postflush(&mut waited, 4, 100);
        assert!(waited.is_soon(now) && !waited.is_soon(now + 1_000), "without a further flush it waits no more");
        let now = postflush(&mut waited, 0, 100);
        assert!(waited.is_soon(now), "flushes of nothing change nothing");
        let now = postflush(&mut waited, 100, 10);
        assert!(!waited.is_soon(now));
        assert!(!waited.is_soon(3), "the count has begun again, and the average is still high");
    }
}
