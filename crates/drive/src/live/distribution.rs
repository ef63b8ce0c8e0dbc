//! Response times of a span, from two copies of counts.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use super::report::{LiveDistribution, LiveQuantiles};
use crate::status::{Asked, Histogram};

/// The counts of each kind of request, in the order of [`Asked::ALL`].
pub(super) type Counts = [Histogram; 5];

/// A copy of the counts is kept this often.
const STEP: Duration = Duration::from_secs(10);
/// This many copies are kept, so that the oldest is about a minute old: 180 KiB each.
const MOST_COPIES: usize = 7;

/// The quantiles of what was counted between two copies.
pub(super) fn quantiles(before: &Counts, after: &Counts, asked: Asked) -> Option<LiveQuantiles> {
    let counts = after[asked as usize].since(&before[asked as usize])?;
    let [p50, p99, p999] = counts.quantiles([0.5, 0.99, 0.999]);
    Some(LiveQuantiles { p50, p99, p999, max: counts.max() })
}

/// A bound that is not lower, with four binary digits: eight of them in each octave.
fn rounded_up(value: u64) -> u64 {
    let shift = (u64::BITS - value.leading_zeros()).saturating_sub(4);
    value.div_ceil(1 << shift) << shift
}

fn pairs(counts: &Histogram) -> Vec<(u64, u64)> {
    let mut pairs: Vec<(u64, u64)> = Vec::new();
    for bucket in counts.buckets() {
        let (bound, count) = (rounded_up(bucket.to), bucket.count);
        match pairs.last_mut() {
            Some(last) if last.0 == bound => last.1 += count,
            _ => pairs.push((bound, count)),
        }
    }
    pairs
}

/// The copies of the last minute.
#[derive(Debug, Default)]
pub(super) struct Minute(VecDeque<(Instant, Arc<Counts>)>);

impl Minute {
    pub(super) fn push(&mut self, at: Instant, counts: &Arc<Counts>) {
        if self.0.back().is_none_or(|last| at - last.0 >= STEP) {
            if self.0.len() == MOST_COPIES {
                self.0.pop_front();
            }
            self.0.push_back((at, Arc::clone(counts)));
        }
    }

    /// The distribution of about the last minute.
    pub(super) fn last(&self, at: Instant, counts: &Counts) -> LiveDistribution {
        let Some((since, before)) = self.0.front() else { return ever(Duration::ZERO, counts) };
        let of = |asked: Asked| {
            let counts = counts[asked as usize].since(&before[asked as usize]);
            counts.map_or_else(Vec::new, |counts| pairs(&counts))
        };
        distribution(at - *since, of)
    }
}

/// The distribution since the volume was opened.
pub(super) fn ever(span: Duration, counts: &Counts) -> LiveDistribution {
    distribution(span, |asked| pairs(&counts[asked as usize]))
}

fn distribution(span: Duration, of: impl Fn(Asked) -> Vec<(u64, u64)>) -> LiveDistribution {
    LiveDistribution {
        span_ms: span.as_millis() as u64,
        read: of(Asked::Read),
        write: of(Asked::Write),
        flush: of(Asked::Flush),
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::{Bytes, Nanos};

    use super::*;
    use crate::status::Latencies;

    fn counts(reads: &[u64]) -> Counts {
        let mut latencies = Latencies::default();
        reads.iter().for_each(|took| latencies.record(Asked::Read, Nanos(*took), Bytes(1), true));
        latencies.histograms()
    }

    #[test]
    fn quantiles_are_those_of_the_interval() {
        let before = counts(&[5_000_000; 1000]);
        let after = counts(&[[5_000_000; 1000].as_slice(), &[1000; 98], &[9000; 2]].concat());
        let found = quantiles(&before, &after, Asked::Read).unwrap();
        let near = |found: u64, wanted: u64| found >= wanted && found <= wanted + wanted / 64 + 64;
        assert!(near(found.p50, 1000) && near(found.p99, 9000) && near(found.max, 9000), "{found:?}");
        assert_eq!(quantiles(&after, &after, Asked::Read), None);
        assert_eq!(quantiles(&before, &after, Asked::Write), None);
        // Counting began again.
        assert_eq!(quantiles(&after, &before, Asked::Read), None);
    }

    #[test]
    fn bounds_are_few_and_never_too_low() {
        for value in [0, 1, 15, 16, 17, 100, 1000, 123_456, 3_600_000_000_000] {
            let bound = rounded_up(value);
            assert!(bound >= value && bound <= value + value / 8, "{value}: {bound}");
        }
        let all: Vec<u64> = (0..2_000).map(|n| 1000 + n * n * 17).collect();
        let pairs = pairs(&counts(&all)[0]);
        assert!(pairs.len() < 8 * 17 && pairs.is_sorted_by_key(|pair| pair.0), "{}", pairs.len());
        assert_eq!(pairs.iter().map(|pair| pair.1).sum::<u64>(), 2000);
    }

    #[test]
    fn the_last_minute_is_about_a_minute_and_bounded() {
        let (start, mut minute) = (Instant::now(), Minute::default());
        for second in 0..300 {
            let counts = Arc::new(counts(&vec![1000; second as usize]));
            minute.push(start + Duration::from_secs(second), &counts);
        }
        assert_eq!(minute.0.len(), MOST_COPIES);
        let last = minute.last(start + Duration::from_secs(299), &counts(&[1000; 299]));
        assert!((60_000..70_000).contains(&last.span_ms), "{last:?}");
        assert_eq!(last.read.iter().map(|pair| pair.1).sum::<u64>(), last.span_ms / 1000);
        assert!(last.write.is_empty());
    }
}
