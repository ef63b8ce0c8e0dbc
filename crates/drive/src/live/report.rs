//! What the page of a served volume draws over time: rows, maps and distributions. A figure that does not apply is absent.

use serde::Serialize;

/// What happened in an interval.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LiveRow {
    /// The number of the row, from 1.
    pub(super) number: u64,
    /// The end of the interval in milliseconds since 1970.
    pub(super) end_unix_ms: u64,
    /// Its length, about a second.
    pub(super) span_ms: u64,
    pub(super) reads: u64,
    /// Writes, also of zeros.
    pub(super) writes: u64,
    pub(super) flushes: u64,
    pub(super) discards: u64,
    pub(super) failed: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    /// Response times of reads; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) read_ns: Option<LiveQuantiles>,
    /// Response times of writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) write_ns: Option<LiveQuantiles>,
    /// Response times of flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) flush_ns: Option<LiveQuantiles>,
    pub(super) requests_in_flight: u64,
    /// Accesses and moves, where the volume has two kinds of devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache: Option<LiveCacheRow>,
    /// What happened in the log (logging).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) log: Option<LiveLogRow>,
    /// The traffic of each device, in the order of the design.
    pub(super) devices: Vec<LiveDeviceRow>,
}

/// Response times in nanoseconds, within 1 % or 64 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) struct LiveQuantiles {
    pub(super) p50: u64,
    pub(super) p99: u64,
    pub(super) p999: u64,
    pub(super) max: u64,
}

/// Accesses and moves in an interval.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LiveCacheRow {
    pub(super) fast_hits: u64,
    pub(super) fast_misses: u64,
    /// Accesses that went past the fast device.
    pub(super) bypassed: u64,
    pub(super) promotions: u64,
    pub(super) demotions: u64,
    pub(super) writebacks: u64,
    pub(super) moved_bytes: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dirty_bytes: Option<u64>,
    /// How long the oldest has been dirty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) oldest_ms: Option<u64>,
}

/// What happened in the log in an interval.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LiveLogRow {
    pub(super) appended_bytes: u64,
    pub(super) direct_bytes: u64,
    pub(super) migrated_bytes: u64,
    pub(super) reads_from_log: u64,
    pub(super) reads: u64,
    /// The age of the oldest write that the primary does not have, at the end of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) oldest_ms: Option<u64>,
}

/// The traffic of a device in an interval, of all causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct LiveDeviceRow {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
}

/// Which parts of the volume were used when: address × time.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LiveMap {
    /// Bytes of the volume in a cell; the first begins at 0.
    pub(super) cell_bytes: u64,
    pub(super) cells: u64,
    /// Rows, of a second each, that a column is for.
    pub(super) rows_per_column: u64,
    pub(super) most_columns: u64,
    /// The columns that have changed since the row that the reader has, the oldest first.
    pub(super) columns: Vec<LiveColumn>,
}

/// A column of a map: requests that began in each cell.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LiveColumn {
    /// Its number: that of its last row, divided by `rows_per_column` and rounded up.
    pub(super) number: u64,
    /// The beginning of its first interval in milliseconds since 1970.
    pub(super) begin_unix_ms: u64,
    /// Reads. A negative number stands for this many zeros.
    pub(super) reads: Vec<i64>,
    /// Writes, in the same form.
    pub(super) writes: Vec<i64>,
}

/// Response times of a span: pairs of an upper bound in nanoseconds and the number of requests that took that long, and longer than
/// the bound before. Bounds are up to one part in eight too high.
#[derive(Clone, Debug, Serialize)]
pub(super) struct LiveDistribution {
    pub(super) span_ms: u64,
    pub(super) read: Vec<(u64, u64)>,
    pub(super) write: Vec<(u64, u64)>,
    pub(super) flush: Vec<(u64, u64)>,
}
