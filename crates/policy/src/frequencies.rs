//! How often extents were accessed of late, for policies that compare one extent with another.

use peryton_units::{mixed, prefetch};

use crate::saving::Saving;

/// Extents in a bucket.
const ROOM: usize = 14;
/// The highest count.
const MOST: u8 = 15;
/// The most buckets: 1 GiB.
const MOST_BUCKETS: u64 = 1 << 24;
/// Extents in a saved item, behind a word of their counts: two items have a bucket.
const SAVED_ROW: usize = 7;
/// The most extents that are saved for each one in the cache, so that a snapshot has room for what else it must hold: those that were
/// accessed more than once of late, and those that were once.
const MOST_SAVED: [u64; 2] = [3, 2];
/// A cache that is smaller counts as one of this size.
const SMALL: u64 = 16;

/// A line of the processor's cache.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Bucket {
    /// They stay where they are, so that an extent whose count is 0 leaves a gap.
    extents: [u32; ROOM],
    /// Four bits each.
    counts: [u8; ROOM / 2],
    /// The number of halvings that the counts have seen.
    halvings: u8,
}

impl Bucket {
    const EMPTY: Bucket = Bucket { extents: [0; ROOM], counts: [0; ROOM / 2], halvings: 0 };

    fn count(&self, index: usize) -> u8 {
        self.counts[index / 2] >> (index % 2 * 4) & 0xf
    }

    fn set(&mut self, index: usize, count: u8) {
        let shift = index % 2 * 4;
        let byte = &mut self.counts[index / 2];
        *byte = *byte & !(0xf << shift) | count << shift;
    }

    fn position(&self, extent: u32) -> Option<usize> {
        (0..ROOM).find(|index| self.extents[*index] == extent && self.count(*index) > 0)
    }

    /// Halves the counts as often as has happened since.
    fn catch_up(&mut self, halvings: u8) {
        let behind = halvings.wrapping_sub(std::mem::replace(&mut self.halvings, halvings));
        for _ in 0..behind.min(4) {
            self.counts.iter_mut().for_each(|pair| *pair = *pair >> 1 & 0x77);
        }
    }

    /// The least count, and where.
    fn least(&self) -> (u8, usize) {
        (0..ROOM).map(|index| (self.count(index), index)).min().unwrap_or((0, 0))
    }
}

/// Counts of accesses up to 15, which are all halved from time to time. They are exact while they have room: an extent has one of two
/// buckets, which are lines of the processor's cache. If both are full, one of the least count gives way.
///
/// A sketch (as in TinyLFU, section 3.2) needs as much memory to be as good: what a policy decides by small differences of counts
/// depends on the hash of a small one.
#[derive(Clone, Debug)]
pub(crate) struct Frequencies {
    buckets: Vec<Bucket>,
    /// The extents in the cache.
    size: u64,
    accesses: u64,
    period: u64,
    halvings: u8,
    /// Buckets from here on may not have seen the last halving.
    swept: usize,
    seed: u64,
}

impl Frequencies {
    /// Nothing was accessed yet. `room`: for how many extents; `period`: the number of accesses after which counts are halved;
    /// `size`: extents in the cache.
    pub fn new(room: u64, period: u64, size: u64, seed: u64) -> Frequencies {
        let buckets = room.div_ceil(ROOM as u64).clamp(2, MOST_BUCKETS) as usize;
        let seed = if seed == 0 { 0 } else { mixed(seed) };
        let buckets = vec![Bucket::EMPTY; buckets];
        Frequencies { swept: buckets.len(), buckets, size, accesses: 0, period: period.max(1), halvings: 0, seed }
    }

    #[inline]
    fn places(&self, extent: u32) -> [usize; 2] {
        let hash = mixed(u64::from(extent) ^ self.seed);
        let place = |half: u32| ((u64::from(half) * self.buckets.len() as u64) >> 32) as usize;
        [place(hash as u32), place((hash >> 32) as u32)]
    }

    #[inline]
    pub fn prefetch(&self, extent: u32) {
        for place in self.places(extent) {
            prefetch(&self.buckets[place]);
        }
    }

    /// How often the extent was accessed of late.
    pub fn count(&self, extent: u32) -> u64 {
        let found = self.places(extent).into_iter().find_map(|place| {
            let bucket = &self.buckets[place];
            let behind = self.halvings.wrapping_sub(bucket.halvings).min(4);
            bucket.position(extent).map(|index| bucket.count(index) >> behind)
        });
        found.unwrap_or(0).into()
    }

    /// Counts an access.
    pub fn add(&mut self, extent: u32) {
        let (bucket, index) = self.place_for(extent);
        let bucket = &mut self.buckets[bucket];
        let count = if bucket.extents[index] == extent { bucket.count(index) } else { 0 };
        bucket.extents[index] = extent;
        bucket.set(index, (count + 1).min(MOST));
        self.accesses += 1;
        if self.accesses >= self.period {
            self.accesses /= 2;
            self.halvings = self.halvings.wrapping_add(1);
            self.swept = 0;
        }
        // All buckets have seen the last halving well before the next one.
        let step = (self.buckets.len() as u64 * 4 / self.period + 1) as usize;
        let end = (self.swept + step).min(self.buckets.len());
        self.buckets[self.swept..end].iter_mut().for_each(|bucket| bucket.catch_up(self.halvings));
        self.swept = end;
    }

    /// The bucket and the place in it that the extent has, or is to have.
    fn place_for(&mut self, extent: u32) -> (usize, usize) {
        let places = self.places(extent);
        for place in places {
            self.buckets[place].catch_up(self.halvings);
        }
        let found = places.into_iter().find_map(|place| Some((place, self.buckets[place].position(extent)?)));
        found.unwrap_or_else(|| {
            let empty = |place: &usize| (0..ROOM).filter(|index| self.buckets[*place].count(*index) == 0).count();
            let [first, second] = places;
            let place = if empty(&second) > empty(&first) { second } else { first };
            let other = if place == first { second } else { first };
            let (least, other_least) = (self.buckets[place].least(), self.buckets[other].least());
            let (place, index) = if other_least.0 < least.0 { (other, other_least.1) } else { (place, least.1) };
            // What was there gives way, and its count does not pass on.
            self.buckets[place].set(index, 0);
            (place, index)
        })
    }

    /// The number of accesses since the counts were last halved, and half of those before.
    pub fn accesses(&self) -> u64 {
        self.accesses
    }

    /// Takes that number back.
    pub fn set_accesses(&mut self, accesses: u64) {
        self.accesses = accesses % self.period;
    }

    /// Saves counts: those of 1 if `once`, otherwise those above. Returns whether that is complete.
    pub fn save(&self, list: u8, once: bool, to: &mut Saving<'_>) -> bool {
        let counts = move |bucket: &Bucket, index: usize| {
            let count = bucket.count(index) >> self.halvings.wrapping_sub(bucket.halvings).min(4);
            if once == (count == 1) { count } else { 0 }
        };
        to.rows(list, 2 * self.buckets.len() as u64, MOST_SAVED[usize::from(once)] * self.size.max(SMALL), |row| {
            let bucket = &self.buckets[row as usize / 2];
            let from = row as usize % 2 * SAVED_ROW;
            let mut item = vec![0];
            for index in (from..from + SAVED_ROW).filter(|index| counts(bucket, *index) > 0) {
                item[0] |= u32::from(counts(bucket, index)) << (4 * (item.len() - 1));
                item.push(bucket.extents[index]);
            }
            item
        })
    }

    /// Takes an item back.
    pub fn load(&mut self, item: &[u32]) {
        let Some((counts, extents)) = item.split_first() else { return };
        for (index, extent) in extents.iter().take(SAVED_ROW).enumerate() {
            let count = (counts >> (4 * index) & 0xf) as u8;
            if count > 0 {
                let (bucket, index) = self.place_for(*extent);
                self.buckets[bucket].extents[index] = *extent;
                self.buckets[bucket].set(index, count);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    /// As long as there is room, counts are those of a table without bounds that is halved at once, whatever the seed.
    #[test]
    fn counts_are_exact() {
        for (seed, size) in [(0, 1), (1, 2), (2, 30), (3, 1_000)] {
            let mut random = StdRng::seed_from_u64(seed);
            let mut frequencies = Frequencies::new(14 * size, 10 * size, size, seed);
            let (mut counts, mut accesses) = (HashMap::<u32, u64>::new(), 0);
            for _ in 0..100 * size {
                let drawn: f64 = random.random();
                let extent = (drawn * drawn * 20.0 * size as f64) as u32;
                frequencies.add(extent);
                let count = counts.entry(extent).or_default();
                *count = (*count + 1).min(15);
                accesses += 1;
                if accesses == 10 * size {
                    accesses /= 2;
                    counts.values_mut().for_each(|count| *count /= 2);
                }
                let extent = random.random_range(0..20 * size) as u32;
                assert_eq!(frequencies.count(extent), counts.get(&extent).copied().unwrap_or(0), "{extent} of {size}");
            }
            assert_eq!(frequencies.accesses(), accesses);
        }
    }

    /// Without room for all, what was accessed most is known best.
    #[test]
    fn a_small_table_keeps_what_counts() {
        let mut frequencies = Frequencies::new(280, 100_000, 280, 0);
        for round in 0..10 {
            (0..100).for_each(|extent| frequencies.add(extent));
            (0..1_000).for_each(|once| frequencies.add(1_000 + 1_000 * round + once));
        }
        let known = (0..100).filter(|extent| frequencies.count(*extent) >= 8).count();
        assert!(known > 70, "{known} of 100");
    }
}
