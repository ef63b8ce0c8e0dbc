//! The figures that a served volume reports.

use hdrhistogram::Histogram;
use peryton_units::{Bytes, Nanos, Op};
use serde::Serialize;

/// The longest time that is distinguished from longer ones.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// The response times of requests, from arrival (including a write's payload) to answer.
#[derive(Debug)]
pub(crate) struct Latencies {
    reads: Histogram<u64>,
    writes: Histogram<u64>,
    flushes: Histogram<u64>,
    others: Histogram<u64>,
    bytes_read: u64,
    bytes_written: u64,
    failed: u64,
}

impl Default for Latencies {
    fn default() -> Latencies {
        let histogram = || Histogram::new_with_bounds(100, LONGEST_NS, 2).expect("the bounds are constants in order");
        let (reads, writes, flushes, others) = (histogram(), histogram(), histogram(), histogram());
        Latencies { reads, writes, flushes, others, bytes_read: 0, bytes_written: 0, failed: 0 }
    }
}

/// Figures of one kind of request.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Kind {
    /// Number of answered requests.
    pub requests: u64,
    /// Mean latency in microseconds.
    pub mean_us: f64,
    /// Median in microseconds.
    pub p50_us: f64,
    /// 90th percentile in microseconds.
    pub p90_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
    /// 99.9th percentile in microseconds.
    pub p999_us: f64,
    /// The longest in microseconds.
    pub max_us: f64,
}

/// All requests since the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Traffic {
    /// Reads.
    pub read: Kind,
    /// Writes, zeroes included.
    pub write: Kind,
    /// Flushes.
    pub flush: Kind,
    /// Discards, and what is not a request for data.
    pub other: Kind,
    /// Bytes read.
    pub bytes_read: Bytes,
    /// Bytes written.
    pub bytes_written: Bytes,
    /// Requests that were answered with an error.
    pub failed: u64,
}

impl Latencies {
    #[inline]
    pub(crate) fn record(&mut self, op: Op, took: Nanos, len: Bytes, well: bool) {
        let histogram = match op {
            Op::Read => {
                self.bytes_read += len.0;
                &mut self.reads
            }
            Op::Write => {
                self.bytes_written += len.0;
                &mut self.writes
            }
            Op::Flush => &mut self.flushes,
            Op::Discard => &mut self.others,
        };
        histogram.saturating_record(took.0);
        self.failed += u64::from(!well);
    }

    pub(crate) fn traffic(&self) -> Traffic {
        Traffic {
            read: kind(&self.reads),
            write: kind(&self.writes),
            flush: kind(&self.flushes),
            other: kind(&self.others),
            bytes_read: Bytes(self.bytes_read),
            bytes_written: Bytes(self.bytes_written),
            failed: self.failed,
        }
    }
}

fn kind(histogram: &Histogram<u64>) -> Kind {
    let us = |ns: u64| ns as f64 / 1e3;
    let at = |quantile| us(histogram.value_at_quantile(quantile));
    Kind {
        requests: histogram.len(),
        mean_us: histogram.mean() / 1e3,
        p50_us: at(0.5),
        p90_us: at(0.9),
        p99_us: at(0.99),
        p999_us: at(0.999),
        max_us: us(histogram.max()),
    }
}
