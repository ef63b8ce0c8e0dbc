use peryton_units::Histogram;
use serde::Serialize;

/// Mean and percentiles of a quantity. The mean and the extremes are exact, percentiles are accurate to 0.1 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it, and the unit is in the name of what holds this")]
pub struct Distribution {
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    /// Standard deviation over mean: 0 for a constant, 1 for exponential intervals, more for bursts.
    pub coefficient_of_variation: f64,
}

/// Sizes of requests, in bytes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SizeDistribution {
    /// Mean and percentiles, in bytes.
    #[serde(flatten)]
    pub distribution: Distribution,
    /// Requests by size, in powers of two, including empty classes between the smallest and the largest.
    pub histogram: Vec<SizeBucket>,
}

/// Number of requests that are larger than half of `upto_bytes` and at most `upto_bytes`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SizeBucket {
    /// A power of two; the last class also includes all larger sizes.
    pub upto_bytes: u64,
    /// The number of such requests.
    pub requests: u64,
}

/// Collects values, in memory that does not depend on their number.
pub(crate) struct Collector {
    histogram: Histogram<10>,
    sum: f64,
    sum_of_squares: f64,
    min: u64,
}

/// The largest value in percentiles; larger ones count as this. In nanoseconds it is 146 years.
const LARGEST: u64 = 1 << 62;

impl Collector {
    pub(crate) fn new() -> Collector {
        Collector { histogram: Histogram::new(LARGEST), sum: 0.0, sum_of_squares: 0.0, min: u64::MAX }
    }

    pub(crate) fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Records the same value `n` times.
    pub(crate) fn record_n(&mut self, value: u64, n: u64) {
        self.histogram.record_n(value, n);
        self.sum += value as f64 * n as f64;
        self.sum_of_squares += value as f64 * value as f64 * n as f64;
        self.min = self.min.min(value);
    }

    /// The share of values up to and including `value`, accurate to 0.1 % of it.
    pub(crate) fn share_within(&self, value: u64) -> Option<f64> {
        let within = self.histogram.count_up_to(value);
        (self.count() > 0).then(|| within as f64 / self.count() as f64)
    }

    pub(crate) fn count(&self) -> u64 {
        self.histogram.count()
    }

    /// A summary with every value divided by `unit`; `None` if there were no values.
    pub(crate) fn summary(&self, unit: f64) -> Option<Distribution> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let mean = self.sum / count as f64;
        let variance = (self.sum_of_squares / count as f64 - mean * mean).max(0.0);
        // A class of the histogram is reported by its lower end, because most sizes are powers of two, which are lower
        // ends.
        let max = self.histogram.max();
        let lower_end = |value| Histogram::<10>::smallest_equivalent(value).clamp(self.min, max) as f64 / unit;
        let [p50, p90, p99, p999] = self.histogram.quantiles([0.5, 0.9, 0.99, 0.999]).map(lower_end);
        Some(Distribution {
            mean: mean / unit,
            min: self.min as f64 / unit,
            p50,
            p90,
            p99,
            p999,
            max: max as f64 / unit,
            coefficient_of_variation: if mean > 0.0 { variance.sqrt() / mean } else { 0.0 },
        })
    }
}

/// Collects request sizes.
pub(crate) struct SizeCollector {
    values: Collector,
    /// Counts by the exponent of the smallest power of two that is not smaller.
    classes: [u64; CLASSES],
}

/// Number of classes: up to 1 TiB.
const CLASSES: usize = 41;

impl SizeCollector {
    pub(crate) fn new() -> SizeCollector {
        SizeCollector { values: Collector::new(), classes: [0; CLASSES] }
    }

    pub(crate) fn count(&self) -> u64 {
        self.values.count()
    }

    pub(crate) fn record(&mut self, bytes: u64) {
        self.values.record(bytes);
        let exponent = u64::BITS - bytes.saturating_sub(1).leading_zeros();
        self.classes[(exponent as usize).min(CLASSES - 1)] += 1;
    }

    pub(crate) fn summary(&self) -> Option<SizeDistribution> {
        let distribution = self.values.summary(1.0)?;
        let first = self.classes.iter().position(|&n| n > 0)?;
        let last = self.classes.iter().rposition(|&n| n > 0)?;
        let bucket = |class: usize| SizeBucket { upto_bytes: 1 << class, requests: self.classes[class] };
        Some(SizeDistribution { distribution, histogram: (first..=last).map(bucket).collect() })
    }
}
