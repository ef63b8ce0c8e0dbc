//! Response times of host requests over a span, in little memory: their sum, and a histogram.

use peryton_units::Histogram;

/// Response times since the latest [`ResponseTimes::clear`]: their number, mean, spread and 99th percentile to a quarter, in two kilobytes.
///
/// ```
/// use peryton_policy::ResponseTimes;
///
/// let mut responses = ResponseTimes::new();
/// (0..100).for_each(|n| responses.record(if n < 98 { 100_000 } else { 10_000_000 }));
/// assert_eq!((responses.count(), responses.mean_ns()), (100, 298_000.0));
/// assert!(responses.p99_ns() > 5e6);
/// ```
#[derive(Debug)]
pub struct ResponseTimes {
    times: Histogram<2>,
    /// Sum of squares in µs², so that a year of seconds fits.
    squares: f64,
}

impl Default for ResponseTimes {
    fn default() -> ResponseTimes {
        ResponseTimes::new()
    }
}

impl ResponseTimes {
    /// Makes an empty set.
    pub fn new() -> ResponseTimes {
        ResponseTimes { times: Histogram::new(u64::MAX), squares: 0.0 }
    }

    /// Adds a response time in ns.
    #[inline]
    pub fn record(&mut self, ns: u64) {
        self.times.record(ns);
        self.squares += (ns as f64 / 1e3).powi(2);
    }

    /// Removes all response times.
    pub fn clear(&mut self) {
        self.times.clear();
        self.squares = 0.0;
    }

    /// Number of response times.
    pub fn count(&self) -> u64 {
        self.times.count()
    }

    /// Their mean in ns; 0 if there are none.
    pub fn mean_ns(&self) -> f64 {
        self.times.mean()
    }

    /// Standard error of the mean, relative to the mean, assuming independent response times.
    pub fn relative_error(&self) -> f64 {
        let count = self.count().max(1) as f64;
        let mean_us = self.mean_ns() / 1e3;
        let variance = (self.squares / count - mean_us * mean_us).max(0.0);
        if mean_us > 0.0 { (variance / count).sqrt() / mean_us } else { 0.0 }
    }

    /// The 99th percentile in ns, exact to the width of a bucket.
    pub fn p99_ns(&self) -> f64 {
        let (mut passed, before) = (0, self.count() * 99 / 100);
        let bucket = self.times.buckets().find(|bucket| {
            passed += bucket.count;
            passed > before
        });
        bucket.map_or(0.0, |bucket| bucket.to as f64 + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mean_is_exact_and_the_percentile_within_a_bucket() {
        let mut responses = ResponseTimes::new();
        for n in 1..=1000u64 {
            responses.record(n * 1_000);
        }
        assert_eq!(responses.mean_ns(), 500_500.0);
        // Of a uniform distribution: 1/√3 of the mean, over √1000.
        assert!((responses.relative_error() - 0.01826).abs() < 1e-4, "{}", responses.relative_error());
        let p99 = responses.p99_ns();
        assert!((990_000.0..990_000.0 * 1.25).contains(&p99), "{p99}");
        responses.clear();
        assert_eq!((responses.count(), responses.p99_ns()), (0, 0.0));
        responses.record(0);
        responses.record(u64::MAX);
        assert!(responses.p99_ns() > 1e18);
    }
}
