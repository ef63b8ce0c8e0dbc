//! What a workload asks of storage, given or measured on a trace.

use peryton_trace::{Characteristics, Source, TraceError};
use peryton_units::Bytes;
use serde::Serialize;
use thiserror::Error;

/// Table I: `S_pb`, `S_ab` and `S_c`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// Peak bandwidth, MB/s.
    pub peak_mb_per_s: f64,
    /// Average bandwidth, MB/s.
    pub average_mb_per_s: f64,
    /// Data, MB.
    pub capacity_mb: f64,
}

/// How the data is accessed; a device's bandwidth and power depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Pattern {
    /// At random, or one after the other.
    pub random: bool,
    /// Share of reads; the others are writes.
    pub read_share: f64,
    /// Bytes of a request.
    pub request: Bytes,
    /// Requests that a device is given at a time.
    pub queue_depth: u32,
    /// Where sequential accesses lie on a disk.
    pub zone: Zone,
}

/// The tracks of a disk that sequential accesses lie on. Random ones reach over all of them, and flash has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Zone {
    /// The outermost, where its first addresses are.
    #[default]
    Head,
    /// The innermost, which are slower.
    Tail,
}

/// A demand that cannot be.
#[derive(Debug, Error)]
pub enum DemandError {
    /// A figure out of its range.
    #[error("{key} is {value}: use {remedy}")]
    Range {
        /// Which.
        key: &'static str,
        /// What was given.
        value: f64,
        /// What would be accepted.
        remedy: &'static str,
    },
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The trace does not say how fast it was.
    #[error(
        "the trace has no reads or writes, no times, or all at one moment: it has no bandwidth; leave it out, and give --peak, --average \
         and --capacity"
    )]
    NoBandwidth,
}

impl Demand {
    /// Checks the figures.
    ///
    /// # Errors
    /// A figure that is negative or infinite, an average above the peak, or nothing asked at all.
    pub fn new(peak_mb_per_s: f64, average_mb_per_s: f64, capacity_mb: f64) -> Result<Demand, DemandError> {
        let range = |key, value, remedy| Err(DemandError::Range { key, value, remedy });
        for (key, value) in [
            ("the peak bandwidth", peak_mb_per_s),
            ("the average bandwidth", average_mb_per_s),
            ("the capacity", capacity_mb),
        ] {
            if !(value.is_finite() && value >= 0.0) {
                return range(key, value, "a number of MB, or MB per second, that is not negative");
            }
        }
        if average_mb_per_s > peak_mb_per_s * (1.0 + 1e-9) {
            return range("the average bandwidth in MB/s", average_mb_per_s, "no more than the peak bandwidth");
        }
        if peak_mb_per_s == 0.0 && capacity_mb == 0.0 {
            return range("the capacity", 0.0, "some capacity, or some bandwidth: this workload asks for nothing");
        }
        Ok(Demand { peak_mb_per_s, average_mb_per_s: average_mb_per_s.min(peak_mb_per_s), capacity_mb })
    }

    /// `T = S_c/S_ab`: seconds to move the data once; absent if nothing moves.
    pub fn time_to_finish_s(&self) -> Option<f64> {
        Some(self.capacity_mb / self.average_mb_per_s).filter(|seconds| seconds.is_finite() && *seconds > 0.0)
    }
}

impl Pattern {
    /// As the paper measured: requests of 1 MiB, one at a time at random, read-ahead where they follow each other.
    pub fn large(random: bool, read_share: f64) -> Pattern {
        let queue_depth = if random { 1 } else { SEQUENTIAL_DEPTH };
        Pattern { random, read_share, request: Bytes::mib(1), queue_depth, zone: Zone::Head }
    }
}

/// What keeps a device streaming.
pub(super) const SEQUENTIAL_DEPTH: u32 = 8;
/// Requests in flight at random, of a trace and where a device is to show what it can: as deep as SATA goes.
pub(super) const DEEP: u32 = 32;
/// Above this share of requests that continue a stream, a trace is sequential.
const SEQUENTIAL: f64 = 0.5;

/// A demand and pattern measured on a trace.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct MeasuredDemand {
    /// Bandwidths, and the space that the trace reaches over.
    pub demand: Demand,
    /// How it is accessed.
    pub pattern: Pattern,
    /// The unique data that was touched, MB.
    pub footprint_mb: f64,
    /// Over how long it was measured, in seconds.
    pub span_s: f64,
}

impl MeasuredDemand {
    /// Reads a trace to its end: the bandwidth of its busiest second, the mean over its span, and of each volume the
    /// space up to its furthest request.
    ///
    /// # Errors
    /// A trace that cannot be read, or that has no bandwidth.
    pub fn of(source: &mut dyn Source) -> Result<MeasuredDemand, DemandError> {
        let found = Characteristics::of(source)?;
        let mb = |mib: f64| mib * f64::from(1 << 20) / 1e6;
        let is_timed = found.account.untimed == 0;
        let mean = found.mean_mib_per_s.filter(|mean| is_timed && *mean > 0.0).ok_or(DemandError::NoBandwidth)?;
        let end: u64 = found.volumes.iter().fold(0, |sum, volume| sum.saturating_add(volume.end_bytes));
        let requests = found.reads + found.writes;
        let request =
            Bytes(((found.bytes_read + found.bytes_written) / requests.max(1)).next_multiple_of(4096).max(4096));
        let random = found.sequential_share.streams.unwrap_or(0.0) < SEQUENTIAL;
        let read_share = found.bytes_read as f64 / (found.bytes_read + found.bytes_written) as f64;
        let queue_depth = if random { DEEP } else { SEQUENTIAL_DEPTH };
        Ok(MeasuredDemand {
            demand: Demand::new(mb(found.peak_mib_per_s).max(mb(mean)), mb(mean), end as f64 / 1e6)?,
            pattern: Pattern { random, read_share, request, queue_depth, zone: Zone::Head },
            footprint_mb: found.footprint.bytes as f64 / 1e6,
            span_s: found.span_s,
        })
    }
}
