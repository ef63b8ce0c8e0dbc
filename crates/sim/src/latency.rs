//! Response times: exact sums, and percentiles from an HDR histogram.

use hdrhistogram::Histogram;
use peryton_units::Nanos;
use serde::Serialize;

/// Response times up to this are told apart; longer ones count as this in percentiles (not in mean and maximum).
const LONGEST: u64 = 86_400_000_000_000;
/// Percentiles are exact to one part in a thousand.
const DIGITS: u8 = 3;

/// The response times of one kind of request.
#[derive(Clone, Debug)]
pub(crate) struct Latencies {
    histogram: Histogram<u64>,
    sum: u128,
    count: u64,
    max: u64,
}

/// The distribution of response times, in µs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LatencySummary {
    /// Requests.
    pub count: u64,
    /// Mean, exact.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// Nine of ten were no slower.
    pub p90: f64,
    /// 99 of 100.
    pub p99: f64,
    /// 999 of 1,000.
    pub p999: f64,
    /// The slowest, exact.
    pub max: f64,
}

impl Latencies {
    pub(crate) fn new() -> Latencies {
        let histogram = Histogram::new_with_bounds(1, LONGEST, DIGITS).expect("the bounds are in order");
        Latencies { histogram, sum: 0, count: 0, max: 0 }
    }

    #[inline]
    pub(crate) fn record(&mut self, span: Nanos) {
        self.histogram.saturating_record(span.0);
        self.sum += u128::from(span.0);
        self.count += 1;
        self.max = self.max.max(span.0);
    }

    pub(crate) fn add(&mut self, other: &Latencies) {
        self.histogram.add(&other.histogram).expect("both have the same bounds");
        self.sum += other.sum;
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    pub(crate) fn clear(&mut self) {
        self.histogram.reset();
        (self.sum, self.count, self.max) = (0, 0, 0);
    }

    /// `None` if there was no request.
    pub(crate) fn summary(&self) -> Option<LatencySummary> {
        let us = |nanos: u64| nanos as f64 / 1e3;
        // A bucket's upper end may lie above the slowest request.
        let quantile = |q| us(self.histogram.value_at_quantile(q).min(self.max));
        (self.count > 0).then(|| LatencySummary {
            count: self.count,
            mean: self.sum as f64 / 1e3 / self.count as f64,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: us(self.max),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_sorted_list() {
        let mut latencies = Latencies::new();
        let mut spans: Vec<u64> = (0..10_000u64).map(|n| n * n * 37 % 999_983 + 1).collect();
        spans.iter().for_each(|span| latencies.record(Nanos(*span)));
        spans.sort_unstable();
        let summary = latencies.summary().unwrap();
        assert_eq!(summary.mean, spans.iter().sum::<u64>() as f64 / 1e3 / 10_000.0);
        assert_eq!(summary.max, spans[9999] as f64 / 1e3);
        for (q, got) in [(0.5, summary.p50), (0.9, summary.p90), (0.99, summary.p99), (0.999, summary.p999)] {
            let exact = spans[(10_000.0 * q) as usize - 1] as f64 / 1e3;
            assert!((got / exact - 1.0).abs() < 2e-3, "{q}: {got} against {exact}");
        }
    }

    #[test]
    fn nothing_is_no_summary_and_a_long_time_is_no_panic() {
        let mut latencies = Latencies::new();
        assert_eq!(latencies.summary(), None);
        latencies.record(Nanos::MAX);
        latencies.record(Nanos::ZERO);
        assert_eq!(latencies.summary().unwrap().max, u64::MAX as f64 / 1e3);
    }
}
