//! Data that was reported written and waits in the buffer for the mechanics.

use std::collections::BTreeMap;

use super::parameters::Scheduler;

/// Candidates that shortest-positioning-time-first looks at in each direction from the arm.
const CANDIDATES: usize = 8;

/// A range leaves in pieces of this part of the cache.
const PIECES: u64 = 8;

/// Consecutive sectors that wait to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dirty {
    pub first: u64,
    pub count: u64,
    /// From when on the arm may move for it.
    pub ready: u64,
    /// From when on its data is there.
    pub data: u64,
    /// Order of arrival.
    order: u64,
}

impl Dirty {
    fn end(&self) -> u64 {
        self.first + self.count
    }
}

#[derive(Clone, Debug)]
pub(super) struct WriteCache {
    /// By first sector; ranges do not overlap.
    ranges: BTreeMap<u64, Dirty>,
    sectors: u64,
    /// What the mechanics are writing, and until when it holds its memory.
    leaving: (u64, u64, u64),
    limit: u64,
    max_ranges: usize,
    policy: Scheduler,
    orders: u64,
    /// Where the elevator stands.
    sweep: u64,
}

impl WriteCache {
    pub fn new(limit: u64, max_ranges: u32, policy: Scheduler) -> WriteCache {
        WriteCache {
            ranges: BTreeMap::new(),
            sectors: 0,
            leaving: (0, 0, 0),
            limit,
            max_ranges: max_ranges as usize,
            policy,
            orders: 0,
            sweep: 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether `count` more sectors fit at `now`. A request larger than the cache fits once it is empty.
    pub fn fits(&self, count: u64, now: u64) -> bool {
        let leaving = self.leaving.2 > now;
        let (held, ranges) = if leaving { (self.leaving.1, 1) } else { (0, 0) };
        (self.sectors + held + count <= self.limit && self.ranges.len() + ranges < self.max_ranges)
            || (self.ranges.is_empty() && !leaving)
    }

    /// Whether the sectors are all here.
    pub fn holds(&self, first: u64, count: u64) -> bool {
        self.ranges.range(..=first).next_back().is_some_and(|(_, dirty)| first + count <= dirty.end())
    }

    /// Whether a range that waits, or the one on its way out, ends where this one begins.
    pub fn continues(&self, first: u64) -> bool {
        self.leaving.0 + self.leaving.1 == first && self.leaving.1 > 0
            || self.ranges.range(..first).next_back().is_some_and(|(_, dirty)| dirty.end() == first)
    }

    /// A range that overlaps the sectors.
    pub fn overlap(&self, first: u64, count: u64) -> Option<u64> {
        let (&key, dirty) = self.ranges.range(..first + count).next_back()?;
        (dirty.end() > first).then_some(key)
    }

    /// Takes the sectors in, over whatever older data of theirs waits here.
    pub fn insert(&mut self, first: u64, count: u64, ready: u64, data: u64) {
        if self.holds(first, count) {
            return;
        }
        let mut merged = Dirty { first, count, ready, data, order: self.orders };
        self.orders += 1;
        while let Some(key) = self.overlap(merged.first, merged.count) {
            self.merge(key, &mut merged);
        }
        let before = self.ranges.range(..merged.first).next_back().map(|(&key, dirty)| (key, dirty.end()));
        if let Some((key, end)) = before
            && end == merged.first
        {
            self.merge(key, &mut merged);
        }
        self.sectors += merged.count;
        self.ranges.insert(merged.first, merged);
    }

    fn merge(&mut self, key: u64, into: &mut Dirty) {
        let old = self.ranges.remove(&key).expect("the key was just found");
        self.sectors -= old.count;
        let end = into.end().max(old.end());
        // Writing can begin when the first sectors are there; the others arrive while the arm moves.
        into.data = if old.first <= into.first { old.data } else { into.data };
        into.first = into.first.min(old.first);
        into.count = end - into.first;
        into.ready = into.ready.min(old.ready);
        into.order = into.order.min(old.order);
    }

    /// When the first range may leave, at the earliest.
    pub fn earliest(&self) -> Option<u64> {
        // Ranges become ready in their order of arrival; all but the last few of them long ago.
        match self.policy {
            Scheduler::Fcfs => self.oldest().map(|dirty| dirty.ready),
            _ => self.ranges.values().next().map(|dirty| dirty.ready),
        }
    }

    fn oldest(&self) -> Option<&Dirty> {
        self.ranges.values().min_by_key(|dirty| dirty.order)
    }

    /// Takes the next range out, by the policy; `positioning` is asked for shortest-positioning-time-first.
    pub fn next(&mut self, arm: u64, positioning: impl Fn(u64) -> u64) -> Option<Dirty> {
        let key = match self.policy {
            Scheduler::Fcfs => self.oldest()?.first,
            Scheduler::Elevator => {
                let above = self.ranges.range(self.sweep..).next();
                *above.or_else(|| self.ranges.iter().next())?.0
            }
            Scheduler::Sptf => {
                let above = self.ranges.range(arm..).take(CANDIDATES);
                let below = self.ranges.range(..arm).rev().take(CANDIDATES);
                *above.chain(below).map(|(key, _)| key).min_by_key(|&&key| (positioning(key), key))?
            }
        };
        self.remove(key)
    }

    /// Takes this range out, or its start: memory comes free piece by piece while a long range is being written.
    pub fn remove(&mut self, key: u64) -> Option<Dirty> {
        let mut dirty = self.ranges.remove(&key)?;
        let piece = (self.limit / PIECES).max(1);
        if dirty.count > piece {
            let rest = Dirty { first: dirty.first + piece, count: dirty.count - piece, ..dirty };
            self.ranges.insert(rest.first, rest);
            dirty.count = piece;
        }
        self.sectors -= dirty.count;
        self.sweep = dirty.end();
        Some(dirty)
    }

    /// The range holds its memory until it is on the surface.
    pub fn leaves(&mut self, dirty: &Dirty, end: u64) {
        self.leaving = (dirty.first, dirty.count, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_and_adjoining_writes_become_one_range() {
        let mut cache = WriteCache::new(1000, 10, Scheduler::Elevator);
        cache.insert(10, 10, 0, 0);
        cache.insert(20, 5, 1, 1);
        cache.insert(5, 8, 2, 2);
        assert!(cache.holds(5, 20) && !cache.holds(5, 21));
        assert_eq!(cache.sectors, 20);
        let dirty = cache.next(0, |_| 0).unwrap();
        assert_eq!((dirty.first, dirty.count), (5, 20));
        assert!(cache.is_empty() && cache.sectors == 0);
    }

    #[test]
    fn the_elevator_goes_up_and_starts_again_below() {
        let mut cache = WriteCache::new(1000, 10, Scheduler::Elevator);
        for first in [500, 100, 300] {
            cache.insert(first, 10, 0, 0);
        }
        let mut order = vec![cache.next(0, |_| 0).unwrap().first];
        cache.insert(50, 10, 0, 0);
        order.extend(std::iter::from_fn(|| cache.next(0, |_| 0).map(|dirty| dirty.first)));
        assert_eq!(order, [100, 300, 500, 50]);
    }

    #[test]
    fn a_full_cache_says_so_until_its_data_is_on_the_surface() {
        let mut cache = WriteCache::new(800, 10, Scheduler::Fcfs);
        cache.insert(0, 150, 0, 0);
        assert!(cache.fits(650, 0) && !cache.fits(651, 0));
        let dirty = cache.next(0, |_| 0).unwrap();
        assert_eq!(dirty.count, 100, "a long range leaves in pieces");
        cache.leaves(&dirty, 50);
        assert!(!cache.fits(651, 49) && cache.fits(651, 50));
        let rest = cache.next(0, |_| 0).unwrap();
        assert_eq!((rest.first, rest.count), (100, 50));
        cache.leaves(&rest, 60);
        assert!(cache.fits(10_000, 60), "a request larger than the cache must not wait for ever");
    }
}
