//! Data that was reported written and waits in the buffer for the mechanics.

use super::{geometry::Place, parameters::Scheduler};

/// Number of candidates that shortest-positioning-time-first examines in each direction from the arm.
const CANDIDATES: usize = 8;

/// A range leaves in pieces of this part of the cache.
const PIECES: u64 = 8;

/// Consecutive sectors that wait to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dirty {
    pub first: u64,
    pub count: u64,
    /// The earliest time at which the arm may move for it.
    pub ready: u64,
    /// The earliest time at which its data is there.
    pub data: u64,
    /// Order of arrival.
    order: u64,
    /// The place of `first`, once the scheduler has asked for it.
    place: Option<Place>,
}

impl Dirty {
    fn end(&self) -> u64 {
        self.first + self.count
    }
}

/// Ranges by first sector; none overlap. The list has a few thousand entries at most and is searched far more often
/// than it changes, so only the order is moved by a change.
#[derive(Clone, Debug, Default)]
struct Ranges {
    /// First sector and row.
    order: Vec<(u64, u32)>,
    rows: Vec<Dirty>,
    free: Vec<u32>,
}

impl Ranges {
    fn len(&self) -> usize {
        self.order.len()
    }

    fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// Number of ranges that begin before the sector.
    fn before(&self, sector: u64) -> usize {
        self.order.partition_point(|&(first, _)| first < sector)
    }

    fn get(&self, index: usize) -> Option<&Dirty> {
        self.order.get(index).map(|&(_, row)| &self.rows[row as usize])
    }

    /// The last range that begins before the sector.
    fn last_before(&self, sector: u64) -> Option<&Dirty> {
        self.get(self.before(sector).checked_sub(1)?)
    }

    fn insert(&mut self, dirty: Dirty) {
        let row = match self.free.pop() {
            Some(row) => {
                self.rows[row as usize] = dirty;
                row
            }
            None => {
                self.rows.push(dirty);
                self.rows.len() as u32 - 1
            }
        };
        self.order.insert(self.before(dirty.first), (dirty.first, row));
    }

    fn remove(&mut self, first: u64) -> Option<Dirty> {
        let index = self.before(first);
        let &(found, row) = self.order.get(index)?;
        if found != first {
            return None;
        }
        self.order.remove(index);
        self.free.push(row);
        Some(self.rows[row as usize])
    }

    fn oldest(&self) -> Option<&Dirty> {
        self.order.iter().map(|&(_, row)| &self.rows[row as usize]).min_by_key(|dirty| dirty.order)
    }
}

#[derive(Clone, Debug)]
pub(super) struct WriteCache {
    ranges: Ranges,
    sectors: u64,
    /// The range that is being written, and until when it holds its memory.
    leaving: (u64, u64, u64),
    limit: u64,
    max_ranges: usize,
    policy: Scheduler,
    orders: u64,
    /// The position of the elevator.
    sweep: u64,
}

impl WriteCache {
    pub fn new(limit: u64, max_ranges: u32, policy: Scheduler) -> WriteCache {
        WriteCache {
            ranges: Ranges::default(),
            sectors: 0,
            leaving: (0, 0, 0),
            limit,
            max_ranges: max_ranges as usize,
            policy,
            orders: 0,
            sweep: 0,
        }
    }

    /// Number of sectors that are not on the surface, including those being written at `now`.
    pub fn held(&self, now: u64) -> u64 {
        self.sectors + if self.leaving.2 > now { self.leaving.1 } else { 0 }
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
        self.ranges.last_before(first + 1).is_some_and(|dirty| first + count <= dirty.end())
    }

    /// Whether a waiting range, or the one being written, ends where this one begins.
    pub fn continues(&self, first: u64) -> bool {
        self.leaving.0 + self.leaving.1 == first && self.leaving.1 > 0
            || self.ranges.last_before(first).is_some_and(|dirty| dirty.end() == first)
    }

    /// A range that overlaps the sectors.
    pub fn overlap(&self, first: u64, count: u64) -> Option<u64> {
        let dirty = self.ranges.last_before(first + count)?;
        (dirty.end() > first).then_some(dirty.first)
    }

    /// Adds the sectors, replacing older data of theirs.
    pub fn insert(&mut self, first: u64, count: u64, ready: u64, data: u64) {
        if self.holds(first, count) {
            return;
        }
        let mut merged = Dirty { first, count, ready, data, order: self.orders, place: None };
        self.orders += 1;
        while let Some(key) = self.overlap(merged.first, merged.count) {
            self.merge(key, &mut merged);
        }
        let before = self.ranges.last_before(merged.first).map(|dirty| (dirty.first, dirty.end()));
        if let Some((key, end)) = before
            && end == merged.first
        {
            self.merge(key, &mut merged);
        }
        self.sectors += merged.count;
        self.ranges.insert(merged);
    }

    fn merge(&mut self, key: u64, into: &mut Dirty) {
        let old = self.ranges.remove(key).expect("the key was just found");
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
        // Ranges become ready in their order of arrival; all except the last few are ready.
        match self.policy {
            Scheduler::Fcfs => self.ranges.oldest().map(|dirty| dirty.ready),
            _ => self.ranges.get(0).map(|dirty| dirty.ready),
        }
    }

    /// Removes the next range according to the policy. Shortest-positioning-time-first asks where a sector is and how
    /// long it takes to reach it.
    pub fn next(
        &mut self,
        arm: u64,
        locate: impl Fn(u64) -> Place,
        positioning: impl Fn(&Place) -> u64,
    ) -> Option<Dirty> {
        let key = match self.policy {
            Scheduler::Fcfs => self.ranges.oldest()?.first,
            Scheduler::Elevator => {
                let above = self.ranges.get(self.ranges.before(self.sweep));
                above.or_else(|| self.ranges.get(0))?.first
            }
            Scheduler::Sptf => {
                let at = self.ranges.before(arm);
                let near = at.saturating_sub(CANDIDATES)..(at + CANDIDATES).min(self.ranges.len());
                let (mut best, mut key) = (u64::MAX, None);
                // Rising addresses: among equals the lowest.
                for &(first, row) in &self.ranges.order[near] {
                    let place = self.ranges.rows[row as usize].place.get_or_insert_with(|| locate(first));
                    let time = positioning(place);
                    if time < best || key.is_none() {
                        (best, key) = (time, Some(first));
                    }
                }
                key?
            }
        };
        self.remove(key)
    }

    /// Takes this range out, or its start: memory comes free piece by piece while a long range is being written.
    pub fn remove(&mut self, key: u64) -> Option<Dirty> {
        let mut dirty = self.ranges.remove(key)?;
        let piece = (self.limit / PIECES).max(1);
        if dirty.count > piece {
            let rest = Dirty { first: dirty.first + piece, count: dirty.count - piece, place: None, ..dirty };
            self.ranges.insert(rest);
            dirty.count = piece;
        }
        self.sectors -= dirty.count;
        self.sweep = dirty.end();
        Some(dirty)
    }

    /// Keeps the range's memory in use until it is on the surface.
    pub fn leaves(&mut self, dirty: &Dirty, end: u64) {
        self.leaving = (dirty.first, dirty.count, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(cache: &mut WriteCache) -> Option<Dirty> {
        cache.next(0, |_| unreachable!("only asked for by SPTF"), |_| 0)
    }

    #[test]
    fn overlapping_and_adjoining_writes_become_one_range() {
        let mut cache = WriteCache::new(1000, 10, Scheduler::Elevator);
        cache.insert(10, 10, 0, 0);
        cache.insert(20, 5, 1, 1);
        cache.insert(5, 8, 2, 2);
        assert!(cache.holds(5, 20) && !cache.holds(5, 21));
        assert_eq!(cache.sectors, 20);
        let dirty = next(&mut cache).unwrap();
        assert_eq!((dirty.first, dirty.count), (5, 20));
        assert!(cache.is_empty() && cache.sectors == 0);
    }

    #[test]
    fn the_elevator_goes_up_and_starts_again_below() {
        let mut cache = WriteCache::new(1000, 10, Scheduler::Elevator);
        for first in [500, 100, 300] {
            cache.insert(first, 10, 0, 0);
        }
        let mut order = vec![next(&mut cache).unwrap().first];
        cache.insert(50, 10, 0, 0);
        order.extend(std::iter::from_fn(|| next(&mut cache).map(|dirty| dirty.first)));
        assert_eq!(order, [100, 300, 500, 50]);
    }

    #[test]
    fn a_full_cache_says_so_until_its_data_is_on_the_surface() {
        let mut cache = WriteCache::new(800, 10, Scheduler::Fcfs);
        cache.insert(0, 150, 0, 0);
        assert!(cache.fits(650, 0) && !cache.fits(651, 0));
        let dirty = next(&mut cache).unwrap();
        assert_eq!(dirty.count, 100, "a long range leaves in pieces");
        cache.leaves(&dirty, 50);
        assert!(!cache.fits(651, 49) && cache.fits(651, 50));
        let rest = next(&mut cache).unwrap();
        assert_eq!((rest.first, rest.count), (100, 50));
        cache.leaves(&rest, 60);
        assert!(cache.fits(10_000, 60), "a request larger than the cache must not wait for ever");
    }
}
