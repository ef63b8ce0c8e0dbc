//! W-TinyLFU (Einziger, Friedman and Manes, ACM Transactions on Storage 13(4), 2017): new extents pass through a small LRU
//! window. One that leaves the window stays only if it was accessed more often of late than the extent of the main cache that
//! would leave for it. A sketch of 4-bit counters estimates how often. The main cache is a segmented LRU.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{
    Queues,
    saving::{Saving, halves, load_row, whole},
};

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// The numbers of lists where the state is saved: those of the queues are theirs.
const SKETCH: u8 = 3;
const ACCESSES: u8 = 4;
/// The window has this part of the cache (section 4: 1 %), at least one slot.
const WINDOW_PART: u32 = 100;
/// Protected extents have this many tenths of the main cache (section 4).
const PROTECTED_TENTHS: u64 = 8;

/// Counters of 4 bits for each hash; an estimate is the least of four (a count-min sketch). After ten accesses for each slot of
/// the cache all counters are halved, so that the past fades.
#[derive(Clone, Debug)]
struct Sketch {
    /// Sixteen counters each.
    words: Vec<u64>,
    accesses: u64,
    period: u64,
}

const ROWS: u64 = 4;
/// Accesses for each slot of the cache between two halvings (section 3.3).
const PERIOD: u64 = 10;

impl Sketch {
    fn new(size: u32) -> Sketch {
        // Sixteen counters a slot, as the authors' program has it.
        let words = size.max(16).next_power_of_two() as usize;
        Sketch { words: vec![0; words], accesses: 0, period: PERIOD * u64::from(size.max(1)) }
    }

    /// The word and the shift of the counter of this extent in a row. A row has the counters whose number in their word has the
    /// row's number in its lowest bits.
    fn place(&self, extent: u32, row: u64) -> (usize, u64) {
        // The finaliser of SplitMix64 (Steele et al., OOPSLA 2014).
        let mut hash =
            (u64::from(extent) + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ row.wrapping_mul(0xd1b5_4a32_d192_ed03);
        hash = (hash ^ (hash >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ (hash >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash ^= hash >> 31;
        let counter = (hash >> 60 & !(ROWS - 1)) | row;
        (hash as usize & (self.words.len() - 1), counter * 4)
    }

    fn count(&self, extent: u32) -> u64 {
        let of = |row| {
            let (word, shift) = self.place(extent, row);
            self.words[word] >> shift & 0xf
        };
        (0..ROWS).map(of).min().unwrap_or(0)
    }

    fn add(&mut self, extent: u32) {
        for row in 0..ROWS {
            let (word, shift) = self.place(extent, row);
            if self.words[word] >> shift & 0xf < 0xf {
                self.words[word] += 1 << shift;
            }
        }
        self.accesses += 1;
        if self.accesses >= self.period {
            self.words.iter_mut().for_each(|word| *word = *word >> 1 & 0x7777_7777_7777_7777);
            self.accesses /= 2;
        }
    }
}

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct WTinyLfu {
    queues: Queues<3>,
    sketch: Sketch,
    /// The extent in each slot.
    extents: Vec<u32>,
    most_window: u32,
    most_protected: u32,
    /// The extents that may be cached.
    usable: u32,
}

impl WTinyLfu {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> WTinyLfu {
        let Capacity { slots, usable } = capacity;
        let most_window = (usable / WINDOW_PART).max(1);
        let main = u64::from(usable.saturating_sub(most_window));
        WTinyLfu {
            queues: Queues::new(slots),
            sketch: Sketch::new(usable),
            extents: vec![0; slots as usize],
            most_window,
            most_protected: (main * PROTECTED_TENTHS / 10) as u32,
            usable,
        }
    }

    /// While there is room in the main cache, the window overflows into it. (In a drive an extent may come before the one that
    /// makes room for it has gone.)
    fn overflow(&mut self) {
        let main = self.queues.len(PROBATION) + self.queues.len(PROTECTED);
        if self.queues.len(WINDOW) > self.most_window
            && main < self.usable.saturating_sub(self.most_window)
            && let Some(oldest) = self.queues.oldest(WINDOW, |_| true)
        {
            self.queues.renew(PROBATION, oldest);
        }
    }

    fn count(&self, slot: SlotIndex) -> u64 {
        self.sketch.count(self.extents[slot.index()])
    }
}

impl ReplacementPolicy for WTinyLfu {
    fn admitting(&mut self, extent: u32) {
        self.sketch.add(extent);
    }

    fn inserted(&mut self, slot: SlotIndex, extent: u32) {
        self.extents[slot.index()] = extent;
        self.queues.push(WINDOW, slot);
        self.overflow();
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.queues.prefetch(slot);
    }

    fn accessed(&mut self, slot: SlotIndex) {
        self.sketch.add(self.extents[slot.index()]);
        match self.queues.queue_of(slot) {
            Some(PROBATION) => {
                self.queues.renew(PROTECTED, slot);
                if self.queues.len(PROTECTED) > self.most_protected
                    && let Some(oldest) = self.queues.oldest(PROTECTED, |_| true)
                {
                    self.queues.renew(PROBATION, oldest);
                }
            }
            Some(queue) => self.queues.renew(queue, slot),
            None => {}
        }
    }

    fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
        self.queues.unlink(slot);
        self.overflow();
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let mut oldest = |queue| self.queues.oldest(queue, |slot| candidates.may_leave(slot));
        let main = oldest(PROBATION).or_else(|| oldest(PROTECTED));
        // The window makes room for the extent that comes: its oldest is the candidate of the main cache.
        let full = self.queues.len(WINDOW) >= self.most_window;
        let candidate = if full || main.is_none() { oldest(WINDOW) } else { None };
        let (Some(candidate), Some(main)) = (candidate, main) else { return candidate.or(main) };
        // A candidate that wins overflows into the room that the other one leaves.
        Some(if self.count(candidate) > self.count(main) { main } else { candidate })
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        loop {
            let complete = match to.part() {
                0 => {
                    to.put(ACCESSES, &halves(self.sketch.accesses));
                    true
                }
                part @ 1..4 => {
                    let queue = part as usize - 1;
                    let extents = &self.extents;
                    to.queue(queue as u8, &mut self.queues, queue, |slot| Some([extents[slot.index()]]))
                }
                4 => to.table(SKETCH, &self.sketch.words),
                _ => return true,
            };
            if !to.next_if(complete) {
                return false;
            }
        }
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        match (list, item) {
            (ACCESSES, [low, high]) => self.sketch.accesses = whole([*low, *high]) % self.sketch.period,
            (SKETCH, row) => load_row(&mut self.sketch.words, row),
            (0..3, [extent]) => {
                if let Some(slot) = slot_of(*extent) {
                    self.queues.put(usize::from(list), slot);
                    self.extents[slot.index()] = *extent;
                }
            }
            _ => {}
        }
    }

    fn loaded(&mut self) {
        while self.queues.len(PROTECTED) > self.most_protected
            && let Some(oldest) = self.queues.oldest(PROTECTED, |_| true)
        {
            self.queues.renew(PROBATION, oldest);
        }
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.queues.queue_of(slot).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::{PROTECTED_TENTHS, Sketch, WINDOW_PART};
    use crate::replacement::{Replacement, bare::agrees_with};

    #[test]
    fn the_sketch_counts_and_forgets() {
        let mut sketch = Sketch::new(1_000);
        for _ in 0..20 {
            sketch.add(7);
        }
        for extent in 100..600 {
            sketch.add(extent);
        }
        assert_eq!(sketch.count(7), 15, "a counter ends at 15");
        let wrong = (100..600).filter(|extent| sketch.count(*extent) != 1).count();
        assert!(wrong < 5, "{wrong} of 500 extents share all their counters with others");
        for extent in 0..9_500 {
            sketch.add(10_000 + extent % 3);
        }
        assert_eq!(sketch.count(7), 7, "ten accesses for each slot halve the counters");
    }

    /// The algorithm as the paper gives it (figures 4 and 5), on lists, oldest first, with the same sketch.
    struct Plain {
        window: Vec<u32>,
        probation: Vec<u32>,
        protected: Vec<u32>,
        sketch: Sketch,
    }

    impl Plain {
        fn access(&mut self, extent: u32, size: usize) -> bool {
            let most_window = (size / WINDOW_PART as usize).max(1);
            let most_main = size - most_window;
            self.sketch.add(extent);
            let found = |list: &Vec<u32>| list.iter().position(|other| *other == extent);
            if let Some(index) = found(&self.window) {
                self.window.remove(index);
                self.window.push(extent);
                return true;
            }
            let hit = found(&self.probation).map(|index| self.probation.remove(index));
            let hit = hit.or_else(|| found(&self.protected).map(|index| self.protected.remove(index)));
            if hit.is_some() {
                self.protected.push(extent);
                if self.protected.len() > most_main * PROTECTED_TENTHS as usize / 10 {
                    self.probation.push(self.protected.remove(0));
                }
                return true;
            }
            self.window.push(extent);
            if self.window.len() <= most_window {
                return false;
            }
            let candidate = self.window.remove(0);
            let room = self.probation.len() + self.protected.len() < most_main;
            let main = if self.probation.is_empty() { &mut self.protected } else { &mut self.probation };
            if room {
                self.probation.push(candidate);
            } else if let Some(victim) = main.first()
                && self.sketch.count(candidate) > self.sketch.count(*victim)
            {
                main.remove(0);
                self.probation.push(candidate);
            }
            false
        }
    }

    #[test]
    fn hits_and_misses_are_those_of_the_paper() {
        agrees_with(
            Replacement::WTinyLfu,
            &[2, 3, 10, 60, 300],
            |size| 5.0 * size as f64,
            |size| Plain {
                window: Vec::new(),
                probation: Vec::new(),
                protected: Vec::new(),
                sketch: Sketch::new(size as u32),
            },
            Plain::access,
        );
    }
}
