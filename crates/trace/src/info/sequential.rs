use peryton_units::Op;
use rustc_hash::FxHashMap;
use serde::Serialize;

use crate::Request;

/// The most interleaved streams that are distinguished on each volume.
pub const STREAMS: usize = 32;

/// Shares of reads and writes that are sequential: they begin at the byte where an earlier request of the same volume
/// ended. The shares differ in *which* earlier request counts. A share is absent if there is no such request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Sequentiality {
    /// Of reads and writes: the previous read or write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<f64>,
    /// Of reads: the previous read, regardless of writes in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<f64>,
    /// Of writes: the previous write, regardless of reads in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<f64>,
    /// Of reads and writes: the end of any of the last [`STREAMS`] streams.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub streams: Option<f64>,
}

/// Counts sequential requests.
#[derive(Default)]
pub(crate) struct Tracker {
    volumes: FxHashMap<u32, Ends>,
    counts: [u64; 4],
    reads: u64,
    writes: u64,
}

/// The ends of the last requests of a volume. No request can have the offset `NOWHERE`.
struct Ends {
    all: u64,
    by_op: [u64; 2],
    /// The most recent first.
    streams: [u64; STREAMS],
}

const NOWHERE: u64 = u64::MAX;

/// The most volumes with known ends; requests of further ones count as not sequential.
const MAX_VOLUMES: usize = 1 << 16;

impl Tracker {
    /// Records a read or a write.
    pub(crate) fn record(&mut self, request: &Request) {
        let op = usize::from(request.op == Op::Write);
        if op == 0 {
            self.reads += 1
        } else {
            self.writes += 1
        }
        if self.volumes.len() >= MAX_VOLUMES && !self.volumes.contains_key(&request.volume) {
            return;
        }
        let ends = self.volumes.entry(request.volume).or_insert(Ends {
            all: NOWHERE,
            by_op: [NOWHERE; 2],
            streams: [NOWHERE; STREAMS],
        });
        let (start, end) = (request.offset.0, request.offset.0.saturating_add(request.len.0));
        self.counts[0] += u64::from(ends.all == start);
        self.counts[1 + op] += u64::from(ends.by_op[op] == start);
        let stream = ends.streams.iter().position(|&end| end == start);
        self.counts[3] += u64::from(stream.is_some());
        // The stream that continues, or otherwise the one that has been idle longest, becomes the most recent.
        let stream = stream.unwrap_or(STREAMS - 1);
        ends.streams.copy_within(..stream, 1);
        ends.streams[0] = end;
        ends.all = end;
        ends.by_op[op] = end;
    }

    pub(crate) fn summary(&self) -> Sequentiality {
        let share = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
        let both = self.reads + self.writes;
        Sequentiality {
            all: share(self.counts[0], both),
            read: share(self.counts[1], self.reads),
            write: share(self.counts[2], self.writes),
            streams: share(self.counts[3], both),
        }
    }
}
