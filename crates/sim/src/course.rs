//! Response times of a course over time, whose intervals are put together two by two when there are too many: their
//! distributions in buckets of one part in sixteen, which add up, in place of quantiles, which do not.

use peryton_units::{Nanos, Op};

use crate::{LatencySummary, latency_report::Latency};

/// The most rows of a course. When there are as many, two become one.
pub(crate) const COURSE_ROWS: usize = 256;
/// The length of its first rows.
pub(crate) const COURSE_BEGINS: Nanos = Nanos::from_ms(1);

/// The logarithm of the number of buckets for which a bucket's width doubles.
const HALF_BITS: u32 = 4;
/// Enough for every time.
const BUCKETS: usize = bucket_of(u64::MAX) + 1;

const fn bucket_of(nanos: u64) -> usize {
    let doubled = (nanos | 1 << HALF_BITS).ilog2() - HALF_BITS;
    (((doubled as u64) << HALF_BITS) + (nanos >> doubled)) as usize
}

/// The longest time of a bucket.
fn longest_of(bucket: usize) -> u64 {
    let next = bucket as u64 + 1;
    let doubled = (next >> HALF_BITS).saturating_sub(1);
    let shortest = u128::from(next - (doubled << HALF_BITS)) << doubled;
    u64::try_from(shortest - 1).unwrap_or(u64::MAX)
}

/// A distribution.
#[derive(Clone, Debug, PartialEq)]
struct Coarse {
    counts: Box<[u32; BUCKETS]>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Coarse {
    fn new() -> Coarse {
        Coarse { counts: Box::new([0; BUCKETS]), count: 0, sum: 0, max: 0 }
    }

    fn record(&mut self, span: Nanos) {
        let count = &mut self.counts[bucket_of(span.0)];
        *count = count.saturating_add(1);
        self.count += 1;
        self.sum += u128::from(span.0);
        self.max = self.max.max(span.0);
    }

    fn add(&mut self, other: &Coarse) {
        for (ours, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *ours = ours.saturating_add(*theirs);
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    fn summary(&self) -> LatencySummary {
        let us = |nanos: u64| nanos as f64 / 1e3;
        let quantile = |q: f64| {
            let rank = (self.count as f64 * q).ceil().max(1.0) as u64;
            let mut before = 0;
            let bucket = self.counts.iter().position(|count| {
                before += u64::from(*count);
                before >= rank
            });
            us(bucket.map_or(self.max, longest_of).min(self.max))
        };
        LatencySummary {
            count: self.count,
            mean: self.sum as f64 / 1e3 / self.count.max(1) as f64,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: us(self.max),
        }
    }
}

/// Which of the distributions of [`CoarseTimes`] has a request.
pub(crate) fn kind_of(op: Op) -> usize {
    match op {
        Op::Read => 0,
        Op::Write => 1,
        Op::Flush => 2,
        Op::Discard => 3,
    }
}

/// The response times of an interval: reads, writes, flushes, and the rest.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct CoarseTimes([Option<Coarse>; 4]);

impl CoarseTimes {
    pub(crate) fn record(&mut self, kind: usize, span: Nanos) {
        self.0[kind].get_or_insert_with(Coarse::new).record(span);
    }

    pub(crate) fn add(&mut self, other: &CoarseTimes) {
        for (ours, theirs) in self.0.iter_mut().zip(&other.0) {
            match (ours.as_mut(), theirs) {
                (Some(ours), Some(theirs)) => ours.add(theirs),
                (None, Some(theirs)) => *ours = Some(theirs.clone()),
                _ => {}
            }
        }
    }

    pub(crate) fn latency(&self) -> Latency {
        let all = self.0.iter().flatten().fold(None, |sum: Option<Coarse>, one| match sum {
            Some(mut sum) => {
                sum.add(one);
                Some(sum)
            }
            None => Some(one.clone()),
        });
        let [read, write, flush, _] = &self.0;
        let summary = |one: &Option<Coarse>| one.as_ref().map(Coarse::summary);
        Latency {
            all: summary(&all),
            read: summary(read),
            write: summary(write),
            flush: summary(flush),
            write_then_flush: None,
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn quantiles_of_parts_together_are_near_those_of_the_list(
            spans in prop::collection::vec(0u64..40_000_000, 1..400), cut in 0usize..400,
        ) {
            let (mut first, mut second) = (CoarseTimes::default(), CoarseTimes::default());
            for (index, span) in spans.iter().enumerate() {
                if index < cut { &mut first } else { &mut second }.record(index % 4, Nanos(*span));
            }
            first.add(&second);
            let all = first.latency().all.unwrap();
            let mut sorted = spans.clone();
            sorted.sort_unstable();
            prop_assert_eq!((all.count, all.max), (spans.len() as u64, sorted[spans.len() - 1] as f64 / 1e3));
            prop_assert!((all.mean - spans.iter().sum::<u64>() as f64 / 1e3 / spans.len() as f64).abs() < 1e-6 * all.mean.max(1.0));
            for (q, found) in [(0.5, all.p50), (0.9, all.p90), (0.99, all.p99)] {
                let rank = ((spans.len() as f64 * q).ceil() as usize).max(1);
                let exact = sorted[rank - 1] as f64 / 1e3;
                prop_assert!(found >= exact && found <= exact * 1.0625 + 0.001, "{}: {} for {}", q, found, exact);
            }
        }
    }

    #[test]
    fn every_time_has_a_bucket() {
        for nanos in [0, 1, 15, 16, 17, 31, 32, 1_000_000, u64::MAX / 2, u64::MAX] {
            let bucket = bucket_of(nanos);
            assert!(bucket < BUCKETS && longest_of(bucket) >= nanos, "{nanos}");
            assert!(bucket == 0 || longest_of(bucket - 1) < nanos, "{nanos}");
        }
    }
}
