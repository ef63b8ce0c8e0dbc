//! Values in buckets whose width grows with the value, as in an HDR histogram.

/// Counts of values. A bucket is at most one part in 2^`PRECISION` as wide as its values; values below twice that have a bucket each.
/// Number, sum and maximum are exact. What is larger than the largest value that it was made for is in the last bucket.
///
/// ```
/// use peryton_units::Histogram;
///
/// let mut times = Histogram::<10>::new(1_000_000);
/// (1..=1000).for_each(|time| times.record(time));
/// assert_eq!((times.count(), times.sum(), times.max()), (1000, 500_500, 1000));
/// assert_eq!(times.quantiles([0.5, 0.99]), [500, 990]);
/// ```
#[derive(Clone, Debug)]
pub struct Histogram<const PRECISION: u32> {
    /// The number of values in each bucket, in ascending order.
    counts: Vec<u64>,
    sum: u128,
    count: u64,
    max: u64,
}

/// A bucket of a [`Histogram`] with a value in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bucket {
    /// The smallest value of the bucket.
    pub from: u64,
    /// The largest value of the bucket.
    pub to: u64,
    /// The number of values in it.
    pub count: u64,
}

impl<const PRECISION: u32> Histogram<PRECISION> {
    /// Makes an empty histogram for values up to this one.
    pub fn new(largest: u64) -> Self {
        Histogram { counts: vec![0; Self::bucket_of(largest) + 1], sum: 0, count: 0, max: 0 }
    }

    #[inline]
    fn bucket_of(value: u64) -> usize {
        let doubled = (value | 1 << PRECISION).ilog2() - PRECISION;
        ((u64::from(doubled) << PRECISION) + (value >> doubled)) as usize
    }

    /// The smallest value that is in a bucket with this one.
    pub fn smallest_equivalent(value: u64) -> u64 {
        let doubled = (value | 1 << PRECISION).ilog2() - PRECISION;
        value >> doubled << doubled
    }

    /// The largest value that is in a bucket with this one.
    pub fn largest_equivalent(value: u64) -> u64 {
        let doubled = (value | 1 << PRECISION).ilog2() - PRECISION;
        value | ((1 << doubled) - 1)
    }

    fn smallest_of(bucket: usize) -> u64 {
        let bucket = bucket as u64;
        let doubled = (bucket >> PRECISION).saturating_sub(1);
        (bucket - (doubled << PRECISION)) << doubled
    }

    /// Counts a value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }

    /// Counts a value several times.
    #[inline]
    pub fn record_n(&mut self, value: u64, times: u64) {
        let last = self.counts.len() - 1;
        self.counts[Self::bucket_of(value).min(last)] += times;
        self.sum += u128::from(value) * u128::from(times);
        self.count += times;
        self.max = self.max.max(value);
    }

    /// Counts what another histogram for the same values has counted.
    pub fn add(&mut self, other: &Self) {
        for (ours, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *ours += theirs;
        }
        self.sum += other.sum;
        self.count += other.count;
        self.max = self.max.max(other.max);
    }

    /// What was counted since an earlier copy, with the maximum by its bucket; `None` if nothing was, or if counting began again.
    pub fn since(&self, before: &Self) -> Option<Self> {
        let count = self.count.checked_sub(before.count).filter(|count| *count > 0)?;
        let counts = self.counts.iter().zip(&before.counts).map(|(now, then)| now.checked_sub(*then));
        let counts = counts.collect::<Option<Vec<u64>>>()?;
        let last = counts.iter().rposition(|count| *count > 0)?;
        let max = if last + 1 == counts.len() { self.max } else { (Self::smallest_of(last + 1) - 1).min(self.max) };
        Some(Histogram { counts, sum: self.sum.checked_sub(before.sum)?, count, max })
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.counts.fill(0);
        (self.sum, self.count, self.max) = (0, 0, 0);
    }

    /// The number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The sum of all values.
    pub fn sum(&self) -> u128 {
        self.sum
    }

    /// The largest value; 0 if there is none.
    pub fn max(&self) -> u64 {
        self.max
    }

    /// The mean; 0 if there is no value.
    pub fn mean(&self) -> f64 {
        self.sum as f64 / self.count.max(1) as f64
    }

    /// The buckets with values in them, in ascending order.
    pub fn buckets(&self) -> impl Iterator<Item = Bucket> {
        let last = Self::bucket_of(self.max).min(self.counts.len() - 1);
        let filled = self.counts[..=last].iter().copied().enumerate().filter(|(_, count)| *count > 0);
        filled.map(|(bucket, count)| {
            let from = Self::smallest_of(bucket);
            Bucket { from, to: Self::largest_equivalent(from), count }
        })
    }

    /// The number of values in the buckets up to that of this value.
    pub fn count_up_to(&self, value: u64) -> u64 {
        let last = Self::bucket_of(value).min(self.counts.len() - 1);
        self.counts[..=last].iter().sum()
    }

    /// The values at ascending ranks (0.5: the median): the largest of their buckets, or the maximum; 0 if there is no value.
    pub fn quantiles<const COUNT: usize>(&self, ranks: [f64; COUNT]) -> [u64; COUNT] {
        let (mut buckets, mut passed, mut value) = (self.buckets(), 0, 0);
        ranks.map(|rank| {
            let rank = ((self.count as f64 * rank).ceil() as u64).max(1);
            while passed < rank
                && let Some(bucket) = buckets.next()
            {
                // A bucket's upper end may be above the maximum.
                (passed, value) = (passed + bucket.count, bucket.to.min(self.max));
            }
            value
        })
    }
}

#[cfg(test)]
mod tests {
    use hdrhistogram::Histogram as Hdr;
    use proptest::prelude::*;

    use super::*;

    const LARGEST: u64 = 1 << 46;

    fn hdr(digits: u8) -> Hdr<u64> {
        Hdr::new_with_bounds(1, LARGEST, digits).expect("the bounds are in order")
    }

    proptest! {
        /// An HDR histogram of three decimal digits has ten binary ones, and one of two has seven.
        #[test]
        fn buckets_are_those_of_an_hdr_histogram(value in 0..=LARGEST, bits in 0u32..46) {
            let value = value >> bits;
            let (three, two) = (hdr(3), hdr(2));
            prop_assert_eq!(Histogram::<10>::smallest_equivalent(value), three.lowest_equivalent(value));
            prop_assert_eq!(Histogram::<10>::largest_equivalent(value), three.highest_equivalent(value));
            prop_assert_eq!(Histogram::<7>::smallest_equivalent(value), two.lowest_equivalent(value));
            prop_assert_eq!(Histogram::<7>::largest_equivalent(value), two.highest_equivalent(value));
            let bucket = Histogram::<10>::bucket_of(value);
            prop_assert_eq!(Histogram::<10>::smallest_of(bucket), Histogram::<10>::smallest_equivalent(value));
        }

        #[test]
        fn quantiles_and_counts_are_those_of_an_hdr_histogram(values in prop::collection::vec(0u64..40_000_000, 1..3_000)) {
            let (mut ours, mut theirs) = (Histogram::<10>::new(LARGEST), hdr(3));
            for value in &values {
                ours.record(*value);
                theirs.record(*value).expect("it is in the bounds");
            }
            let max = values.iter().copied().max().unwrap_or(0);
            let ranks = [0.5, 0.9, 0.99, 0.999, 1.0];
            prop_assert_eq!(ours.quantiles(ranks), ranks.map(|rank| theirs.value_at_quantile(rank).min(max)));
            let recorded: Vec<u64> = theirs.iter_recorded().map(|step| step.count_at_value()).collect();
            prop_assert_eq!(ours.buckets().map(|bucket| bucket.count).collect::<Vec<_>>(), recorded);
            for value in values.iter().take(20) {
                prop_assert_eq!(ours.count_up_to(*value), theirs.count_between(0, *value));
            }
        }

        #[test]
        fn what_came_since_a_copy_is_what_came_since(
            before in prop::collection::vec(0u64..2_000_000, 0..50), after in prop::collection::vec(0u64..2_000_000, 0..50),
        ) {
            let (mut all, mut later) = (Histogram::<7>::new(LARGEST), Histogram::<7>::new(LARGEST));
            before.iter().for_each(|value| all.record(*value));
            let copy = all.clone();
            for value in &after {
                all.record(*value);
                later.record(*value);
            }
            prop_assert_eq!(all.since(&copy).is_none(), after.is_empty());
            let Some(since) = all.since(&copy) else { return Ok(()) };
            prop_assert_eq!((since.count(), since.sum()), (later.count(), later.sum()));
            prop_assert_eq!(since.buckets().collect::<Vec<_>>(), later.buckets().collect::<Vec<_>>());
            let most = later.max();
            prop_assert!(since.max() >= most && since.max() <= Histogram::<7>::largest_equivalent(most));
            prop_assert!(copy.since(&all).is_none());
            let mut sum = copy.clone();
            sum.add(&later);
            prop_assert_eq!(sum.quantiles([0.5, 0.9]), all.quantiles([0.5, 0.9]));
        }
    }

    #[test]
    fn what_is_too_large_is_in_the_last_bucket_and_nothing_is_no_value() {
        let mut few = Histogram::<10>::new(1_000_000);
        assert_eq!((few.quantiles([0.5]), few.max(), few.mean()), ([0], 0, 0.0));
        assert_eq!(few.buckets().count(), 0);
        few.record(u64::MAX);
        few.record_n(5, 2);
        assert_eq!((few.count(), few.sum(), few.max()), (3, u128::from(u64::MAX) + 10, u64::MAX));
        assert_eq!(few.buckets().count(), 2);
        few.clear();
        assert_eq!((few.count(), few.sum(), few.max()), (0, 0, 0));
    }
}
