//! The figures that a served volume reports.

use peryton_units::{Bytes, Nanos};
use serde::Serialize;

/// Response times in ns, exact to one part in a hundred.
pub(crate) type Histogram = peryton_units::Histogram<7>;

/// The longest time that is distinguished from longer ones.
const LONGEST_NS: u64 = 3_600_000_000_000;

/// The bounds of the buckets that metrics have, in ns: 1, 2 and 5 of each decade from 10 us to 50 s. What took longer is in one
/// more bucket.
pub(crate) const BOUNDS_NS: [u64; BOUNDS] = {
    let (mut bounds, mut index, mut decade) = ([0; BOUNDS], 0, 10_000);
    while index < BOUNDS {
        bounds[index] = decade * [1, 2, 5][index % 3];
        if index % 3 == 2 {
            decade *= 10;
        }
        index += 1;
    }
    bounds
};
const BOUNDS: usize = 21;

/// As what a request counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Read,
    /// Writes of zeros are writes.
    Write,
    Flush,
    Discard,
    /// What is not a request for data: hints, and questions about blocks.
    Other,
}

impl Asked {
    pub(crate) const ALL: [Asked; 5] = [Asked::Read, Asked::Write, Asked::Flush, Asked::Discard, Asked::Other];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Asked::Read => "read",
            Asked::Write => "write",
            Asked::Flush => "flush",
            Asked::Discard => "discard",
            Asked::Other => "other",
        }
    }
}

/// The exact counts of one kind of request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// How many took at most as long as the bound, and longer than the bound before.
    pub(crate) buckets: [u64; BOUNDS + 1],
    /// The sum of their response times.
    pub(crate) took_ns: u64,
    /// The sum of their lengths.
    pub(crate) bytes: u64,
    /// Those that were answered with an error.
    pub(crate) failed: u64,
}

impl Counts {
    /// All that were answered.
    pub(crate) fn requests(&self) -> u64 {
        self.buckets.iter().sum()
    }
}

/// The response times of requests, from arrival (including a write's payload) to answer.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    histograms: [Histogram; 5],
    counts: [Counts; 5],
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies { histograms: Asked::ALL.map(|_| Histogram::new(LONGEST_NS)), counts: [Counts::default(); 5] }
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
    pub(crate) fn record(&mut self, asked: Asked, took: Nanos, len: Bytes, well: bool) {
        let counts = &mut self.counts[asked as usize];
        counts.buckets[BOUNDS_NS.partition_point(|bound| *bound < took.0)] += 1;
        counts.took_ns = counts.took_ns.saturating_add(took.0);
        counts.bytes += len.0;
        counts.failed += u64::from(!well);
        self.histograms[asked as usize].record(took.0);
    }

    /// The exact counts, in the order of [`Asked::ALL`].
    pub(crate) fn counts(&self) -> &[Counts; 5] {
        &self.counts
    }

    /// The histograms, in the order of [`Asked::ALL`].
    pub(crate) fn histograms(&self) -> [Histogram; 5] {
        self.histograms.clone()
    }

    pub(crate) fn traffic(&self) -> Traffic {
        let of = |asked: Asked| &self.histograms[asked as usize];
        let mut others = of(Asked::Discard).clone();
        others.add(of(Asked::Other));
        Traffic {
            read: kind(of(Asked::Read)),
            write: kind(of(Asked::Write)),
            flush: kind(of(Asked::Flush)),
            other: kind(&others),
            bytes_read: Bytes(self.counts[Asked::Read as usize].bytes),
            bytes_written: Bytes(self.counts[Asked::Write as usize].bytes),
            failed: self.counts.iter().map(|counts| counts.failed).sum(),
        }
    }
}

fn kind(histogram: &Histogram) -> Kind {
    let us = |ns: u64| ns as f64 / 1e3;
    let [p50_us, p90_us, p99_us, p999_us] = histogram.quantiles([0.5, 0.9, 0.99, 0.999]).map(us);
    let (requests, mean_us) = (histogram.count(), histogram.mean() / 1e3);
    Kind { requests, mean_us, p50_us, p90_us, p99_us, p999_us, max_us: us(histogram.max()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_counts_in_the_bucket_whose_bound_it_does_not_exceed() {
        assert_eq!(
            (BOUNDS_NS[0], BOUNDS_NS[1], BOUNDS_NS[6], BOUNDS_NS[20]),
            (10_000, 20_000, 1_000_000, 50_000_000_000)
        );
        assert!(BOUNDS_NS.is_sorted());
        let mut latencies = Latencies::default();
        for (took, well) in [(0, true), (10_000, true), (10_001, false), (50_000_000_000, true), (u64::MAX, false)] {
            latencies.record(Asked::Discard, Nanos(took), Bytes(3), well);
        }
        let counts = latencies.counts()[Asked::Discard as usize];
        assert_eq!((counts.buckets[0], counts.buckets[1], counts.buckets[20], counts.buckets[21]), (2, 1, 1, 1));
        assert_eq!((counts.requests(), counts.bytes, counts.failed, counts.took_ns), (5, 15, 2, u64::MAX));
        latencies.record(Asked::Other, Nanos(5), Bytes(9), true);
        let traffic = latencies.traffic();
        assert_eq!((traffic.other.requests, traffic.failed, traffic.bytes_read), (6, 2, Bytes::ZERO));
    }
}
