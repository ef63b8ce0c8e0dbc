//! W-TinyLFU (Einziger, Friedman and Manes, ACM Transactions on Storage 13(4), 2017): new extents pass through a small LRU
//! window. One that leaves the window stays only if it was accessed more often of late than the extent of the main cache that
//! would leave for it. Counters of 4 bits say how often. The main cache is a segmented LRU.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{
    PerSlot, Queues,
    frequencies::Frequencies,
    saving::{Saving, halves, whole},
};

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// The numbers of lists where the state is saved: those of the queues are theirs.
const COUNTS: u8 = 3;
const ACCESSES: u8 = 4;
const CLIMB: u8 = 5;

parameters! {
    window: 10_000 in 0..=990_000, "The share of the cache that the window has (section 4).";
    protected: 800_000 in 0..=1_000_000, "The share of the main cache that protected extents have (section 4).";
    sketch: 14_000_000 in 1_000_000..=1_024_000_000, "Counters for each extent in the cache, 14 in each 64 bytes, and at most 1 GiB. From \
        1.4 times the period on they are exact, and the figure does not depend on the seed; with fewer the least are forgotten.";
    period: 10_000_000 in 1_000_000..=1_000_000_000, "Accesses for each extent in the cache after which the counters are halved (section 3.3).";
    adaptive: 0 in 0..=1_000_000, "1: the window grows and shrinks with the hit ratio, as in Caffeine.";
    seed: 0 in 0..=1_000_000_000_000, "The seed of the hash that spreads the counters.";
}

/// Objects for which a cache of objects has counters at first.
const FIRST_OBJECTS: u64 = 1 << 12;

impl Parameters {
    /// The counters for a cache of this size.
    fn counters(&self, size: u64) -> Frequencies {
        Frequencies::new(self.sketch.of(size), self.period.of(size), size, self.seed.0)
    }
}

/// The climber that adapts the window (Einziger et al., Middleware 2018), with Caffeine's constants: the window moves by a step; if
/// the hit ratio falls, the next step goes the other way; steps decay, and begin again if the hit ratio changes much.
#[derive(Clone, Debug)]
struct Climber {
    hits: u64,
    accesses: u64,
    period: u64,
    before: f64,
    step: f64,
    size: f64,
}

const STEP: f64 = 0.0625;
const DECAY: f64 = 0.98;
const RESTART: f64 = 0.05;

impl Climber {
    fn new(size: u64) -> Climber {
        Climber {
            hits: 0,
            accesses: 0,
            period: 10 * size.max(1),
            before: 0.0,
            step: STEP * size as f64,
            size: size as f64,
        }
    }

    /// By how much the window should change, if it is time for that.
    fn access(&mut self, hit: bool) -> Option<f64> {
        self.hits += u64::from(hit);
        self.accesses += 1;
        if self.accesses < self.period {
            return None;
        }
        let ratio = self.hits as f64 / self.accesses as f64;
        let change = ratio - self.before;
        let amount = if change >= 0.0 { self.step } else { -self.step };
        self.step = if change.abs() >= RESTART { STEP.copysign(amount) * self.size } else { amount * DECAY };
        (self.before, self.hits, self.accesses) = (ratio, 0, 0);
        Some(amount)
    }
}

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct WTinyLfu {
    queues: Queues<3>,
    frequencies: Frequencies,
    /// The extent in each slot.
    extents: PerSlot<u32>,
    most_window: u64,
    most_protected: u64,
    /// The size of what may be cached.
    size: u64,
    climber: Option<Climber>,
    parameters: Parameters,
    /// How many objects there are counters for.
    counted: u64,
}

impl WTinyLfu {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity, parameters: Parameters) -> WTinyLfu {
        let Capacity { slots, size } = capacity;
        let counted = if slots == 0 { FIRST_OBJECTS } else { size };
        let mut policy = WTinyLfu {
            queues: Queues::new(slots),
            frequencies: parameters.counters(counted),
            extents: PerSlot::new(slots),
            most_window: 0,
            most_protected: 0,
            size,
            climber: (parameters.adaptive.0 > 0).then(|| Climber::new(size)),
            parameters,
            counted,
        };
        policy.set_window(parameters.window.of(size).max(1));
        policy
    }

    fn set_window(&mut self, size: u64) {
        self.most_window = size;
        self.most_protected = self.parameters.protected.of(self.size.saturating_sub(size));
    }

    /// A cache of objects may hold more of them than there are counters for.
    fn grow_counters(&mut self) {
        let cached = (0..3).map(|queue| u64::from(self.queues.len(queue))).sum::<u64>();
        if cached > self.counted {
            self.counted = 2 * cached;
            self.frequencies = self.parameters.counters(self.counted);
        }
    }

    fn climb(&mut self, hit: bool) {
        let Some(amount) = self.climber.as_mut().and_then(|climber| climber.access(hit)) else { return };
        let most = (self.size as f64 * 0.99).max(1.0);
        self.set_window((self.most_window as f64 + amount).clamp(1.0, most) as u64);
        while self.queues.size(PROTECTED) > self.most_protected
            && let Some(oldest) = self.queues.first(PROTECTED)
        {
            self.queues.renew(PROBATION, oldest);
        }
        // What the window gains comes from the main cache, and what it loses goes there.
        while self.queues.size(WINDOW) > self.most_window
            && let Some(oldest) = self.queues.first(WINDOW)
        {
            self.queues.renew(PROBATION, oldest);
        }
        let main = |queues: &Queues<3>| queues.size(PROBATION) + queues.size(PROTECTED);
        while main(&self.queues) > self.size.saturating_sub(self.most_window)
            && let Some(oldest) = self.queues.first(PROBATION)
        {
            self.queues.renew(WINDOW, oldest);
        }
    }

    /// While there is room in the main cache, the window overflows into it. (In a drive an extent may come before the one that
    /// makes room for it has gone.)
    fn overflow(&mut self) {
        while self.queues.size(WINDOW) > self.most_window
            && let Some(oldest) = self.queues.first(WINDOW)
            && self.queues.size(PROBATION) + self.queues.size(PROTECTED) + u64::from(self.queues.size_of(oldest))
                <= self.size.saturating_sub(self.most_window)
        {
            self.queues.renew(PROBATION, oldest);
        }
    }

    fn count(&self, slot: SlotIndex) -> u64 {
        self.frequencies.count(self.extents[slot])
    }
}

impl ReplacementPolicy for WTinyLfu {
    const LOOKS_AT_USES: bool = false;

    fn admitting(&mut self, extent: u32, _size: u32) {
        self.frequencies.add(extent);
        self.climb(false);
    }

    fn takes(&self, size: u32) -> bool {
        u64::from(size) <= self.most_window
    }

    fn inserted(&mut self, slot: SlotIndex, extent: u32, size: u32) {
        self.extents.set(slot, extent);
        self.queues.push_sized(WINDOW, slot, size);
        self.overflow();
        self.grow_counters();
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.queues.prefetch(slot);
        if let Some(extent) = self.extents.get(slot) {
            self.frequencies.prefetch(*extent);
        }
    }

    #[inline]
    fn prefetch_extent(&self, extent: u32) {
        self.frequencies.prefetch(extent);
    }

    #[inline]
    fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex> {
        self.queues.newer(victim)
    }

    fn accessed(&mut self, slot: SlotIndex) {
        self.frequencies.add(self.extents[slot]);
        self.climb(true);
        match self.queues.queue_of(slot) {
            Some(PROBATION) => {
                self.queues.renew(PROTECTED, slot);
                while self.queues.size(PROTECTED) > self.most_protected
                    && let Some(oldest) = self.queues.first(PROTECTED)
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
        // The window makes room for the extent that comes: its oldest is the candidate of the main cache.
        let full = self.queues.size(WINDOW) >= self.most_window;
        let mut oldest = |queue| self.queues.oldest(queue, |slot| candidates.may_leave(slot));
        let main = oldest(PROBATION).or_else(|| oldest(PROTECTED));
        let candidate = if full || main.is_none() { oldest(WINDOW) } else { None };
        let (Some(candidate), Some(main)) = (candidate, main) else { return candidate.or(main) };
        // A candidate that wins overflows into the room that the other one leaves.
        Some(if self.count(candidate) > self.count(main) { main } else { candidate })
    }

    fn saved_version(&self) -> u32 {
        3
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        loop {
            let complete = match to.part() {
                0 => {
                    to.put(ACCESSES, &halves(self.frequencies.accesses()));
                    if let Some(climber) = &self.climber {
                        let words = [climber.hits, climber.accesses, climber.before.to_bits(), climber.step.to_bits()];
                        let words = words.into_iter().chain([self.most_window]).flat_map(halves);
                        to.put(CLIMB, &words.collect::<Vec<u32>>());
                    }
                    true
                }
                part @ 1..4 => {
                    let queue = part as usize - 1;
                    let extents = &self.extents;
                    to.queue(queue as u8, &mut self.queues, queue, |slot| Some([extents[slot]]))
                }
                part @ 4..6 => self.frequencies.save(COUNTS, part == 5, to),
                _ => return true,
            };
            if !to.next_if(complete) {
                return false;
            }
        }
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        match (list, item) {
            (ACCESSES, [low, high]) => self.frequencies.set_accesses(whole([*low, *high])),
            (CLIMB, words) if words.len() == 10 => {
                let word = |at: usize| whole([words[2 * at], words[2 * at + 1]]);
                let (size, window) = (self.size, word(4));
                let Some(climber) = &mut self.climber else { return };
                let (before, step) = (f64::from_bits(word(2)), f64::from_bits(word(3)));
                if (0.0..=1.0).contains(&before) && step.abs() <= size as f64 && (1..=size).contains(&window) {
                    (climber.hits, climber.accesses) = (word(0), word(1).min(climber.period));
                    (climber.before, climber.step) = (before, step);
                    self.set_window(window);
                }
            }
            (COUNTS, item) => self.frequencies.load(item),
            (0..3, [extent]) => {
                if let Some(slot) = slot_of(*extent) {
                    self.queues.put(usize::from(list), slot);
                    self.extents.set(slot, *extent);
                }
            }
            _ => {}
        }
    }

    fn loaded(&mut self) {
        while self.queues.size(PROTECTED) > self.most_protected
            && let Some(oldest) = self.queues.first(PROTECTED)
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
    use std::collections::HashMap;

    use super::Parameters;
    use crate::replacement::{Replacement, bare::agrees_with};

    /// The algorithm as the paper gives it (figures 4 and 5), on lists, oldest first, with exact counts.
    #[derive(Default)]
    struct Plain {
        window: Vec<u32>,
        probation: Vec<u32>,
        protected: Vec<u32>,
        counts: HashMap<u32, u32>,
        accesses: usize,
    }

    impl Plain {
        fn add(&mut self, extent: u32, size: usize) {
            let count = self.counts.entry(extent).or_default();
            *count = (*count + 1).min(15);
            self.accesses += 1;
            if self.accesses == 10 * size {
                self.accesses /= 2;
                self.counts.values_mut().for_each(|count| *count /= 2);
            }
        }

        fn count(&self, extent: u32) -> u32 {
            self.counts.get(&extent).copied().unwrap_or(0)
        }

        fn access(&mut self, extent: u32, size: usize) -> bool {
            let most_window = (size / 100).max(1);
            let most_main = size - most_window;
            self.add(extent, size);
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
                if self.protected.len() > most_main * 8 / 10 {
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
            let main = if self.probation.is_empty() { &self.protected } else { &self.probation };
            let victim = main.first().copied().filter(|victim| self.count(candidate) > self.count(*victim));
            if room {
                self.probation.push(candidate);
            } else if victim.is_some() {
                let main = if self.probation.is_empty() { &mut self.protected } else { &mut self.probation };
                main.remove(0);
                self.probation.push(candidate);
            }
            false
        }
    }

    #[test]
    fn hits_and_misses_are_those_of_the_paper() {
        for seed in ["0", "1"] {
            agrees_with(
                format!("w_tiny_lfu:seed={seed}").parse().expect("it has a seed"),
                &[2, 3, 10, 60, 300],
                |size| 5.0 * size as f64,
                |_| Plain::default(),
                Plain::access,
            );
        }
        assert_eq!("w_tiny_lfu".parse(), Ok(Replacement::WTinyLfu(Parameters::DEFAULT)));
    }
}
