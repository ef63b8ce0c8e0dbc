//! Which regions of a device its successor has.

use std::ops::Range;

/// The least length of a region: what is copied at once.
const LEAST: u64 = 1 << 20;
/// The most regions; those of a larger device are longer.
const MOST: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum State {
    /// It has to be copied, perhaps again.
    #[default]
    Absent,
    /// The successor has it, and what is written there is written to both.
    Copied,
    /// Part of it cannot be read. The successor has the rest.
    Unreadable,
}

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    state: State,
    /// Writes in flight. Before they have ended, what is read from the old device may be older than what the new one has.
    writers: u32,
    /// The flush of the old device that has to succeed for what was copied or written here to be durable there; see `Io::stamp`.
    stamp: Option<u64>,
}

/// The regions of a device.
#[derive(Debug)]
pub(super) struct Regions {
    end: u64,
    length: u64,
    regions: Vec<Region>,
    /// The number of regions in each state.
    counts: [usize; 3],
    /// Where to look for the next one to copy.
    cursor: usize,
}

impl Regions {
    pub(super) fn new(end: u64) -> Regions {
        let length = (end.div_ceil(MOST)).next_power_of_two().max(LEAST);
        let regions = vec![Region::default(); end.div_ceil(length) as usize];
        Regions { end, length, counts: [regions.len(), 0, 0], regions, cursor: 0 }
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// The bytes of a region.
    pub(super) fn range(&self, region: usize) -> Range<u64> {
        let start = region as u64 * self.length;
        start..(start + self.length).min(self.end)
    }

    /// The regions of a range; those behind the end are not copied.
    pub(super) fn of(&self, at: u64, len: u64) -> Range<usize> {
        let end = (at + len).min(self.end).div_ceil(self.length) as usize;
        let start = (at / self.length) as usize;
        start.min(end)..end
    }

    pub(super) fn state(&self, region: usize) -> State {
        self.regions[region].state
    }

    pub(super) fn set(&mut self, region: usize, state: State) {
        let before = std::mem::replace(&mut self.regions[region].state, state);
        self.counts[before as usize] -= 1;
        self.counts[state as usize] += 1;
    }

    pub(super) fn count(&self, state: State) -> usize {
        self.counts[state as usize]
    }

    pub(super) fn is_complete(&self) -> bool {
        self.count(State::Copied) == self.regions.len()
    }

    /// About how many bytes the successor has.
    pub(super) fn copied(&self) -> u64 {
        (self.count(State::Copied) as u64 * self.length).min(self.end)
    }

    pub(super) fn stamp(&mut self, region: usize, stamp: u64) {
        let of = &mut self.regions[region].stamp;
        *of = (*of).max(Some(stamp));
    }

    /// A write begins, to the old device only or to both.
    pub(super) fn begin_write(&mut self, regions: Range<usize>, to_both: bool) {
        for region in regions {
            self.regions[region].writers += 1;
            if !to_both {
                self.set(region, State::Absent);
            }
        }
    }

    pub(super) fn end_write(&mut self, regions: Range<usize>) {
        regions.for_each(|region| self.regions[region].writers -= 1);
    }

    /// Makes everything be copied again that is not durable on the old device.
    pub(super) fn doubt(&mut self, is_flushed: impl Fn(u64) -> bool) {
        for region in 0..self.regions.len() {
            if self.regions[region].stamp.is_some_and(|stamp| !is_flushed(stamp)) {
                self.regions[region].stamp = None;
                self.set(region, State::Absent);
            }
        }
    }

    /// What cannot be read is tried again.
    pub(super) fn retry(&mut self) {
        for region in 0..self.regions.len() {
            if self.regions[region].state == State::Unreadable {
                self.set(region, State::Absent);
            }
        }
    }

    /// The next region to copy, from where the last one ended.
    pub(super) fn next(&mut self) -> Option<usize> {
        if self.count(State::Absent) == 0 {
            return None;
        }
        let (before, behind) = (0..self.cursor, self.cursor..self.regions.len());
        let found = behind.chain(before).find(|region| {
            let region = &self.regions[*region];
            region.state == State::Absent && region.writers == 0
        })?;
        self.cursor = found + 1;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_region_is_copied_when_nothing_is_written_there() {
        let mut regions = Regions::new((5 << 20) + 4096);
        assert_eq!((regions.length(), regions.range(5)), (1 << 20, 5 << 20..(5 << 20) + 4096));
        assert_eq!(regions.next(), Some(0));
        regions.set(0, State::Copied);
        let written = regions.of((1 << 20) - 1, 2);
        assert_eq!(written, 0..2);
        regions.begin_write(written.clone(), false);
        assert_eq!((regions.state(0), regions.next()), (State::Absent, Some(2)));
        for region in 2..6 {
            regions.set(region, State::Copied);
        }
        assert_eq!(regions.next(), None, "both are being written");
        regions.end_write(written);
        assert_eq!((regions.next(), regions.is_complete()), (Some(0), false));
        regions.set(0, State::Copied);
        regions.set(1, State::Unreadable);
        assert_eq!((regions.next(), regions.copied()), (None, 5 << 20));
        regions.retry();
        assert_eq!(regions.next(), Some(1));
        regions.set(1, State::Copied);
        assert!(regions.is_complete());
        regions.stamp(3, 7);
        regions.doubt(|stamp| stamp < 7);
        assert_eq!((regions.next(), regions.is_complete()), (Some(3), false));
    }

    #[test]
    fn the_regions_of_a_large_device_are_longer() {
        let regions = Regions::new(20 << 40);
        assert_eq!(regions.length(), 32 << 20);
        assert_eq!(regions.of(20 << 40, 5), 655_360..655_360);
    }
}
