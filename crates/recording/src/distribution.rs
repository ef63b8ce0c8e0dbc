//! A distribution of times in buckets of about three in a hundred, small enough for a row of each device.

use peryton_units::Nanos;
use serde::{Deserialize, Serialize};

/// The logarithm of the number of buckets for which a bucket's width doubles.
const BITS: u32 = 5;
/// Longer times count in the last bucket: about three hours.
const BUCKETS: usize = (40 << BITS) as usize;

/// How long commands took: an exact sum, and buckets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Distribution {
    /// How many there were.
    pub count: u64,
    /// The sum of their times in ns.
    pub sum_ns: u64,
    /// The longest in ns.
    pub max_ns: u64,
    /// Buckets with their counts; those without are left out.
    #[serde(with = "sparse")]
    buckets: Vec<u64>,
}

fn bucket_of(nanos: u64) -> usize {
    let doubled = (nanos | 1 << BITS).ilog2() - BITS;
    (((u64::from(doubled) << BITS) + (nanos >> doubled)) as usize).min(BUCKETS - 1)
}

/// The middle of a bucket.
fn middle_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    let doubled = (bucket >> BITS).saturating_sub(1);
    let from = (bucket - (doubled << BITS)) << doubled;
    from + (1 << doubled) / 2
}

impl Distribution {
    /// Counts a time.
    #[inline]
    pub fn record(&mut self, took: Nanos) {
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS];
        }
        self.buckets[bucket_of(took.0)] += 1;
        self.count += 1;
        self.sum_ns = self.sum_ns.saturating_add(took.0);
        self.max_ns = self.max_ns.max(took.0);
    }

    /// What was counted after the same distribution was `before`. The longest is that of all.
    #[must_use]
    pub fn since(&self, before: &Distribution) -> Distribution {
        let earlier = before.buckets.iter().copied().chain(std::iter::repeat(0));
        Distribution {
            count: self.count.saturating_sub(before.count),
            sum_ns: self.sum_ns.saturating_sub(before.sum_ns),
            max_ns: self.max_ns,
            buckets: self.buckets.iter().zip(earlier).map(|(all, earlier)| all.saturating_sub(earlier)).collect(),
        }
    }

    /// The mean in µs; `None` without any.
    pub fn mean_us(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum_ns as f64 / self.count as f64 / 1e3)
    }

    /// The time in µs that this share of them did not exceed, to about three in a hundred; `None` without any.
    pub fn quantile_us(&self, share: f64) -> Option<f64> {
        let rank = ((self.count as f64 * share).ceil() as u64).max(1);
        let mut seen = 0;
        let bucket = self.buckets.iter().position(|count| {
            seen += count;
            seen >= rank
        })?;
        Some(middle_of(bucket).min(self.max_ns) as f64 / 1e3)
    }
}

mod sparse {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::BUCKETS;

    pub(super) fn serialize<S: Serializer>(buckets: &[u64], to: S) -> Result<S::Ok, S::Error> {
        let used = buckets.iter().enumerate().filter(|(_, count)| **count > 0);
        used.map(|(index, count)| (index as u64, *count)).collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u64>, D::Error> {
        let used = Vec::<(u64, u64)>::deserialize(from)?;
        if used.is_empty() {
            return Ok(Vec::new());
        }
        let mut buckets = vec![0; BUCKETS];
        for (index, count) in used {
            let place = usize::try_from(index).ok().and_then(|index| buckets.get_mut(index));
            *place.ok_or_else(|| serde::de::Error::custom("there is no such bucket"))? = count;
        }
        Ok(buckets)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn quantiles_are_near_and_come_back_from_json() {
        let mut distribution = Distribution::default();
        assert_eq!((distribution.mean_us(), distribution.quantile_us(0.5)), (None, None));
        (1..=1000).for_each(|us| distribution.record(Nanos::from_us(us)));
        distribution.record(Nanos(u64::MAX >> 1));
        let json = serde_json::to_string(&distribution).unwrap();
        assert!(json.len() < 5000, "{}", json.len());
        let back: Distribution = serde_json::from_str(&json).unwrap();
        assert_eq!(back, distribution);
        for (share, us) in [(0.1, 100.0), (0.5, 500.0), (0.99, 991.0)] {
            let found = back.quantile_us(share).unwrap();
            assert!((found / us - 1.0).abs() < 0.03, "{share}: {found}");
        }
        let mut more = distribution.clone();
        (0..50).for_each(|_| more.record(Nanos::from_us(3000)));
        let later = more.since(&distribution);
        assert_eq!((later.count, later.mean_us()), (50, Some(3000.0)));
        assert!(later.quantile_us(0.01).unwrap() > 2900.0, "{later:?}");
        assert_eq!(more.since(&Distribution::default()), more);
        assert!(
            serde_json::from_str::<Distribution>("{\"count\":1,\"sum_ns\":1,\"max_ns\":1,\"buckets\":[[9999999,1]]}")
                .is_err()
        );
    }
}
