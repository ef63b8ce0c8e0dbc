//! Response times: exact sums, and percentiles from an HDR histogram; by kind of request, and from a write to the flush
//! that makes it durable.

use std::collections::VecDeque;

use peryton_units::{Nanos, Op};
use schemars::JsonSchema;
use serde::Serialize;

/// The longest response time in percentiles; longer ones count as this long there (but not in mean and maximum).
const LONGEST: u64 = 86_400_000_000_000;
/// The response times of one kind of request, in ns: percentiles are exact to one part in a thousand.
type Histogram = peryton_units::Histogram<10>;

/// The distribution of response times, in µs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LatencySummary {
    /// Number of requests.
    pub count: u64,
    /// Mean; exact.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Longest response time; exact.
    pub max: f64,
}

/// The buckets of an HDR histogram of response times, in µs, in ascending order; those without requests are left out. A
/// bucket is as wide as its times are similar, to one part in a thousand. The last may also have times above a day.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct LatencyHistogram {
    /// The shortest response time of each bucket.
    pub from: Vec<f64>,
    /// The longest response time of each bucket, included in it. Quantiles of a report are these, or `max` if that is less.
    pub to: Vec<f64>,
    /// The number of requests in each bucket.
    pub count: Vec<u64>,
}

/// The most response times of an interval that are kept one by one; beyond, they go into a histogram.
const MOST_LISTED: usize = 4_096;

/// The response times of one kind of request in a short interval: a list where a histogram would be mostly empty. The
/// summary is that of a histogram, to the last digit.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentLatencies {
    listed: Vec<u64>,
    /// What was in the list when it was full. Made when it is first needed.
    spilled: Option<Box<Latencies>>,
}

impl RecentLatencies {
    #[inline]
    pub(crate) fn record(&mut self, span: Nanos) {
        self.listed.push(span.0);
        // The histogram counts very long times as its longest one.
        if self.listed.len() >= MOST_LISTED || span.0 > LONGEST {
            self.spill();
        }
    }

    #[cold]
    fn spill(&mut self) {
        let spilled = self.spilled.get_or_insert_with(|| Box::new(Latencies::new()));
        self.listed.drain(..).for_each(|nanos| spilled.record(Nanos(nanos)));
    }

    /// The summary of the response times since the last call.
    pub(crate) fn take(&mut self) -> Option<LatencySummary> {
        if self.spilled.as_ref().is_some_and(|spilled| spilled.0.count() > 0) {
            self.spill();
            let spilled = self.spilled.as_mut()?;
            let summary = spilled.summary();
            spilled.0.clear();
            return summary;
        }
        self.listed.sort_unstable();
        let max = *self.listed.last()?;
        let us = |nanos: u64| nanos as f64 / 1e3;
        let count = self.listed.len();
        let quantile = |q: f64| {
            let rank = ((count as f64 * q).ceil() as usize).clamp(1, count);
            us(Histogram::largest_equivalent(self.listed[rank - 1]).min(max))
        };
        let sum: u128 = self.listed.iter().map(|nanos| u128::from(*nanos)).sum();
        let summary = LatencySummary {
            count: count as u64,
            mean: sum as f64 / 1e3 / count as f64,
            p50: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            p999: quantile(0.999),
            max: us(max),
        };
        self.listed.clear();
        Some(summary)
    }
}

/// The response times of one kind of request.
#[derive(Clone, Debug)]
pub(crate) struct Latencies(Histogram);

impl Latencies {
    pub(crate) fn new() -> Latencies {
        Latencies(Histogram::new(LONGEST))
    }

    #[inline]
    pub(crate) fn record(&mut self, span: Nanos) {
        self.0.record(span.0);
    }

    /// The buckets with requests in them; `None` if there was no request.
    pub(crate) fn histogram(&self) -> Option<LatencyHistogram> {
        if self.0.count() == 0 {
            return None;
        }
        let us = |nanos: u64| nanos as f64 / 1e3;
        let mut buckets = LatencyHistogram { from: Vec::new(), to: Vec::new(), count: Vec::new() };
        for bucket in self.0.buckets() {
            buckets.from.push(us(bucket.from));
            buckets.to.push(us(bucket.to));
            buckets.count.push(bucket.count);
        }
        Some(buckets)
    }

    /// A summary; `None` if there was no request.
    pub(crate) fn summary(&self) -> Option<LatencySummary> {
        let count = self.0.count();
        if count == 0 {
            return None;
        }
        let us = |nanos: u64| nanos as f64 / 1e3;
        let [p50, p90, p99, p999] = self.0.quantiles([0.5, 0.9, 0.99, 0.999]).map(us);
        let mean = self.0.sum() as f64 / 1e3 / count as f64;
        Some(LatencySummary { count, mean, p50, p90, p99, p999, max: us(self.0.max()) })
    }
}

/// The most answered writes that are followed to their flush, 8 bytes each. If there are more, the oldest are removed,
/// so that a trace without flushes does not fill the memory.
const MOST_FOLLOWED: u64 = 1 << 22;

/// Response times by kind of request.
#[derive(Clone, Debug)]
pub(crate) struct ResponseTimes {
    /// By [`Op`].
    of: [Latencies; 4],
    /// From a write's arrival to the end of the first flush that covers it.
    pub(crate) write_then_flush: Latencies,
    /// Arrival times of the writes that have been answered but not covered by a finished flush, in the order of their
    /// answers: the last of them, and those before in lists that are full.
    unflushed: Vec<Nanos>,
    full: VecDeque<Vec<Nanos>>,
    /// How many of the first list do not count any more.
    passed: usize,
    /// Number of answered writes before the first of them, and after the last of them.
    before: u64,
    covered: u64,
}

/// The length of a list: a single one would be copied whenever it grows.
const LIST: usize = 8192;

impl ResponseTimes {
    pub(crate) fn new() -> ResponseTimes {
        ResponseTimes {
            of: std::array::from_fn(|_| Latencies::new()),
            write_then_flush: Latencies::new(),
            unflushed: Vec::new(),
            full: VecDeque::new(),
            passed: 0,
            before: 0,
            covered: 0,
        }
    }

    /// The number of writes answered so far, which a flush that is submitted now covers. Pass it back with the flush's
    /// answer.
    #[inline]
    pub(crate) fn covered(&self) -> u64 {
        self.covered
    }

    /// Records an answer. `covered` is the value of [`ResponseTimes::covered`] at the request's submission.
    #[inline(always)]
    pub(crate) fn answered(&mut self, op: Op, arrived: Nanos, covered: u64, now: Nanos, failed: bool) {
        self.of[op as usize].record(now - arrived);
        if op == Op::Write && !failed {
            self.follow(arrived);
        } else if op == Op::Flush && !failed {
            self.flushed(covered, now);
        }
    }

    /// The response times of one kind of request.
    pub(crate) fn of(&self, op: Op) -> &Latencies {
        &self.of[op as usize]
    }

    #[inline]
    fn follow(&mut self, arrived: Nanos) {
        if self.covered - self.before == MOST_FOLLOWED {
            self.pass_oldest();
        }
        if self.unflushed.len() == self.unflushed.capacity() {
            self.make_room();
        }
        self.unflushed.push(arrived);
        self.covered += 1;
    }

    /// Removes the oldest of the answered writes.
    #[cold]
    fn pass_oldest(&mut self) {
        self.before += 1;
        self.passed += 1;
        if self.full.front().is_some_and(|list| list.len() == self.passed) {
            self.full.pop_front();
            self.passed = 0;
        }
    }

    /// Makes room for another answered write.
    #[cold]
    fn make_room(&mut self) {
        if self.unflushed.len() == LIST {
            self.full.push_back(std::mem::take(&mut self.unflushed));
        }
        self.unflushed.reserve_exact(LIST - self.unflushed.len());
    }

    /// Handles a flush that covers this many writes. A write that an earlier flush has covered is not counted again.
    #[inline(never)]
    fn flushed(&mut self, covered: u64, now: Nanos) {
        while self.before < covered.min(self.covered) {
            let first = self.full.front().unwrap_or(&self.unflushed);
            let end = first.len().min(self.passed + (covered - self.before) as usize);
            for arrived in &first[self.passed..end] {
                self.write_then_flush.record(now - *arrived);
            }
            self.before += (end - self.passed) as u64;
            self.passed = end;
            if end == first.len() {
                self.passed = 0;
                if self.full.pop_front().is_none() {
                    self.unflushed.clear();
                }
            }
        }
    }

    /// Adds the distributions of another volume.
    pub(crate) fn add(&mut self, other: &ResponseTimes) {
        self.of.iter_mut().zip(&other.of).for_each(|(ours, theirs)| ours.0.add(&theirs.0));
        self.write_then_flush.0.add(&other.write_then_flush.0);
    }

    /// Starts measuring after the warm-up: writes that were answered during it do not count.
    pub(crate) fn clear(&mut self) {
        self.of.iter_mut().for_each(|of| of.0.clear());
        self.write_then_flush.0.clear();
        (self.before, self.passed) = (self.covered, 0);
        self.unflushed.clear();
        self.full.clear();
    }

    /// Number of requests.
    pub(crate) fn count(&self) -> u64 {
        self.of.iter().map(|of| of.0.count()).sum()
    }

    /// The distribution of all requests together.
    pub(crate) fn all(&self) -> Latencies {
        let mut all = Latencies::new();
        self.of.iter().for_each(|of| all.0.add(&of.0));
        all
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A write or a flush: the times of its submission and answer.
    #[derive(Clone, Copy, Debug)]
    struct Span {
        flush: bool,
        from: u64,
        to: u64,
    }

    proptest! {
        #[test]
        fn each_write_is_followed_to_the_end_of_the_first_flush_that_covers_it(
            spans in prop::collection::vec((any::<bool>(), 0u64..1_000, 1u64..300), 0..60),
        ) {
            let spans: Vec<Span> =
                spans.into_iter().map(|(flush, from, long)| Span { flush, from, to: from + long }).collect();
            // By the definition: the first end of a flush that was submitted no sooner than the write was answered.
            let ends = |write: &Span| {
                let covering = spans.iter().filter(|flush| flush.flush && flush.from >= write.to);
                covering.map(|flush| flush.to - write.from).min()
            };
            let mut expected: Vec<u64> = spans.iter().filter(|span| !span.flush).filter_map(ends).collect();
            expected.sort_unstable();
            let mut times = ResponseTimes::new();
            // At equal times, answers come before submissions, as in the event loop.
            let mut events: Vec<(u64, bool, usize)> = Vec::new();
            for (index, span) in spans.iter().enumerate() {
                events.extend([(span.from, true, index), (span.to, false, index)]);
            }
            events.sort_unstable();
            let mut covered = vec![0; spans.len()];
            for (at, begins, index) in events {
                let Span { flush, from, .. } = spans[index];
                if begins {
                    covered[index] = times.covered();
                } else {
                    let op = if flush { Op::Flush } else { Op::Write };
                    times.answered(op, Nanos(from), covered[index], Nanos(at), false);
                }
            }
            let found = &times.write_then_flush;
            prop_assert_eq!((found.0.count(), found.0.sum()), (expected.len() as u64, u128::from(expected.iter().sum::<u64>())));
            prop_assert_eq!(found.0.max(), expected.last().copied().unwrap_or(0));
        }
    }

    #[test]
    fn a_write_or_flush_that_fails_makes_nothing_durable() {
        let mut times = ResponseTimes::new();
        times.answered(Op::Write, Nanos(0), 0, Nanos(10), true);
        times.answered(Op::Write, Nanos(0), 0, Nanos(10), false);
        let covered = times.covered();
        times.answered(Op::Flush, Nanos(20), covered, Nanos(30), true);
        assert_eq!(times.write_then_flush.0.count(), 0);
        times.answered(Op::Flush, Nanos(40), times.covered(), Nanos(50), false);
        assert_eq!((times.write_then_flush.0.count(), times.write_then_flush.0.sum()), (1, 50));
        assert_eq!((times.of(Op::Write).0.count(), times.of(Op::Flush).0.count()), (2, 2));
    }

    #[test]
    fn what_no_flush_covers_is_bounded() {
        let mut times = ResponseTimes::new();
        for n in 0..MOST_FOLLOWED + 10 {
            times.answered(Op::Write, Nanos(n), 0, Nanos(n), false);
        }
        assert_eq!((times.covered, times.before), (MOST_FOLLOWED + 10, 10));
        assert!(times.full.len() * LIST <= MOST_FOLLOWED as usize);
        times.answered(Op::Flush, Nanos::MAX, times.covered(), Nanos::MAX, false);
        assert_eq!((times.write_then_flush.0.count(), times.unflushed.len(), times.full.len()), (MOST_FOLLOWED, 0, 0));
    }

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

    proptest! {
        #[test]
        fn an_interval_is_summarised_as_a_run_is(
            // Rounding of a quantile's rank shows with few; a list that is full with many.
            few in prop::collection::vec(0u64..3_000_000, 0..60), more in 0u64..9_000, long in any::<bool>(),
        ) {
            let mut spans = few;
            spans.extend((0..more).map(|n| n * n * 7_919 % 50_000_017));
            spans.extend(long.then_some(u64::MAX / 4));
            let (mut whole, mut recent) = (Latencies::new(), RecentLatencies::default());
            for again in 0..2 {
                whole.0.clear();
                for span in &spans {
                    whole.record(Nanos(span + again));
                    recent.record(Nanos(span + again));
                }
                prop_assert_eq!(recent.take(), whole.summary());
            }
            prop_assert_eq!(recent.take(), None);
        }

        #[test]
        fn quantiles_come_out_of_the_buckets(spans in prop::collection::vec(0u64..40_000_000, 1..3_000)) {
            let mut latencies = Latencies::new();
            spans.iter().for_each(|span| latencies.record(Nanos(*span)));
            let (summary, buckets) = (latencies.summary().unwrap(), latencies.histogram().unwrap());
            prop_assert_eq!(buckets.count.iter().sum::<u64>(), spans.len() as u64);
            prop_assert!(buckets.count.iter().all(|count| *count > 0));
            prop_assert!(buckets.from.iter().zip(&buckets.to).all(|(from, to)| from <= to && (to - from) * 1e3 <= 1.0 + to));
            prop_assert!(buckets.to.iter().zip(&buckets.from[1..]).all(|(to, next)| to < next));
            let at = |q: f64| {
                let (mut rank, mut index) = ((spans.len() as f64 * q).ceil() as u64, 0);
                while rank > buckets.count[index] {
                    rank -= buckets.count[index];
                    index += 1;
                }
                buckets.to[index].min(summary.max)
            };
            prop_assert_eq!([at(0.5), at(0.9), at(0.99), at(0.999)], [summary.p50, summary.p90, summary.p99, summary.p999]);
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
