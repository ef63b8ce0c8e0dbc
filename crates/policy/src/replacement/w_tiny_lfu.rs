//! W-TinyLFU (Einziger, Friedman and Manes, ACM Transactions on Storage 13(4), 2017): new extents pass through a small LRU
//! window. One that leaves the window stays only if it was accessed more often of late than the extent of the main cache that
//! would leave for it. A sketch of 4-bit counters estimates how often. The main cache is a segmented LRU.

use peryton_units::{mixed, prefetch};

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{
    PerSlot, Queues,
    saving::{Saving, halves, load_row, whole},
};

const WINDOW: usize = 0;
const PROBATION: usize = 1;
const PROTECTED: usize = 2;
/// The numbers of lists where the state is saved: those of the queues are theirs.
const SKETCH: u8 = 3;
const ACCESSES: u8 = 4;
const CLIMB: u8 = 5;

parameters! {
    window: 10_000 in 0..=990_000, "The share of the cache that the window has (section 4).";
    protected: 800_000 in 0..=1_000_000, "The share of the main cache that protected extents have (section 4).";
    sketch: 16_000_000 in 1_000_000..=1_024_000_000, "Counters of the sketch for each extent in the cache, rounded up to a power of two, of \
        half a byte each. Hits depend on the seed by up to 9 % with 16, as many as Caffeine has, and by less than 1 % with 256. A sketch of \
        more than 64 begins empty after a restart.";
    period: 10_000_000 in 1_000_000..=1_000_000_000, "Accesses for each extent in the cache after which the counters are halved (section 3.3).";
    adaptive: 0 in 0..=1_000_000, "1: the window grows and shrinks with the hit ratio, as in Caffeine.";
    seed: 0 in 0..=1_000_000_000_000, "The seed of the sketch's hash.";
}

/// Counters of 4 bits for each hash; an estimate is the least of four (a count-min sketch). An access raises the lowest of the four
/// alone (conservative update; Estan and Varghese, SIGCOMM 2002), so that what shares counters with something hot is not
/// overestimated by it. From time to time all counters are halved, so that the past fades.
#[derive(Clone, Debug)]
struct Sketch {
    /// Sixteen counters each.
    words: Vec<u64>,
    accesses: u64,
    period: u64,
    seed: u64,
}

const ROWS: u64 = 4;

impl Sketch {
    fn new(size: u64, parameters: &Parameters) -> Sketch {
        let words =
            (parameters.sketch.of(size) / 16).clamp(LEAST_WORDS as u64, MOST_WORDS).next_power_of_two() as usize;
        let seed = if parameters.seed.0 == 0 { 0 } else { mixed(parameters.seed.0) };
        Sketch { words: vec![0; words], accesses: 0, period: parameters.period.of(size).max(1), seed }
    }

    /// The word and the shift of the counter of this extent in each row. A row has the counters whose number in their word has the
    /// row's number in its lowest bits.
    #[inline]
    fn places(&self, extent: u32) -> [(usize, u64); ROWS as usize] {
        let first = mixed(u64::from(extent) ^ self.seed);
        let second = mixed(first) | 1;
        std::array::from_fn(|row| {
            let row = row as u64;
            let hash = first.wrapping_add(second.wrapping_mul(row));
            let counter = (hash >> 60 & !(ROWS - 1)) | row;
            (hash as usize & (self.words.len() - 1), counter * 4)
        })
    }

    #[inline]
    fn prefetch(&self, extent: u32) {
        for (word, _) in self.places(extent) {
            prefetch(&self.words[word]);
        }
    }

    fn count(&self, extent: u32) -> u64 {
        let least = self.places(extent).into_iter().map(|(word, shift)| self.words[word] >> shift & 0xf).min();
        least.unwrap_or(0)
    }

    fn add(&mut self, extent: u32) {
        let places = self.places(extent);
        let least = places.iter().map(|(word, shift)| self.words[*word] >> shift & 0xf).min().unwrap_or(0);
        if least < 0xf {
            for (word, shift) in places {
                if self.words[word] >> shift & 0xf == least {
                    self.words[word] += 1 << shift;
                }
            }
        }
        self.accesses += 1;
        if self.accesses >= self.period {
            self.words.iter_mut().for_each(|word| *word = *word >> 1 & 0x7777_7777_7777_7777);
            self.accesses /= 2;
        }
    }
}

/// The least words of a sketch.
const LEAST_WORDS: usize = 16;
/// The most words of a sketch for each slot that are saved: 64 counters.
const MOST_SAVED_WORDS: usize = 4;
/// The most words of a sketch: 1 GiB.
const MOST_WORDS: u64 = 1 << 27;
/// Objects for which the sketch of a cache of objects begins; it grows with them.
const FIRST_OBJECTS: u64 = 1 << 12;

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
    sketch: Sketch,
    /// The extent in each slot.
    extents: PerSlot<u32>,
    most_window: u64,
    most_protected: u64,
    /// The size of what may be cached.
    size: u64,
    climber: Option<Climber>,
    parameters: Parameters,
    /// How many objects the sketch is made for.
    counted: u64,
}

impl WTinyLfu {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity, parameters: Parameters) -> WTinyLfu {
        let Capacity { slots, size } = capacity;
        let counted = if slots == 0 { FIRST_OBJECTS } else { size };
        let mut policy = WTinyLfu {
            queues: Queues::new(slots),
            sketch: Sketch::new(counted, &parameters),
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

    /// A cache of objects may hold more of them than the sketch was made for.
    fn grow_sketch(&mut self) {
        let cached = (0..3).map(|queue| u64::from(self.queues.len(queue))).sum::<u64>();
        if cached > self.counted {
            self.counted = 2 * cached;
            self.sketch = Sketch::new(self.counted, &self.parameters);
        }
    }

    fn climb(&mut self, hit: bool) {
        let Some(amount) = self.climber.as_mut().and_then(|climber| climber.access(hit)) else { return };
        let most = (self.size as f64 * 0.99).max(1.0);
        self.set_window((self.most_window as f64 + amount).clamp(1.0, most) as u64);
        while self.queues.size(PROTECTED) > self.most_protected
            && let Some(oldest) = self.queues.oldest(PROTECTED, |_| true)
        {
            self.queues.renew(PROBATION, oldest);
        }
        // What the window gains comes from the main cache, and what it loses goes there.
        while self.queues.size(WINDOW) > self.most_window
            && let Some(oldest) = self.queues.oldest(WINDOW, |_| true)
        {
            self.queues.renew(PROBATION, oldest);
        }
        let main = |queues: &Queues<3>| queues.size(PROBATION) + queues.size(PROTECTED);
        while main(&self.queues) > self.size.saturating_sub(self.most_window)
            && let Some(oldest) = self.queues.oldest(PROBATION, |_| true)
        {
            self.queues.renew(WINDOW, oldest);
        }
    }

    /// While there is room in the main cache, the window overflows into it. (In a drive an extent may come before the one that
    /// makes room for it has gone.)
    fn overflow(&mut self) {
        while self.queues.size(WINDOW) > self.most_window
            && let Some(oldest) = self.queues.oldest(WINDOW, |_| true)
            && self.queues.size(PROBATION) + self.queues.size(PROTECTED) + u64::from(self.queues.size_of(oldest))
                <= self.size.saturating_sub(self.most_window)
        {
            self.queues.renew(PROBATION, oldest);
        }
    }

    fn count(&self, slot: SlotIndex) -> u64 {
        self.sketch.count(self.extents[slot])
    }
}

impl ReplacementPolicy for WTinyLfu {
    const LOOKS_AT_USES: bool = false;

    fn admitting(&mut self, extent: u32, _size: u32) {
        self.sketch.add(extent);
        self.climb(false);
    }

    fn takes(&self, size: u32) -> bool {
        u64::from(size) <= self.most_window
    }

    fn inserted(&mut self, slot: SlotIndex, extent: u32, size: u32) {
        self.extents.set(slot, extent);
        self.queues.push_sized(WINDOW, slot, size);
        self.overflow();
        self.grow_sketch();
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.queues.prefetch(slot);
        if let Some(extent) = self.extents.get(slot) {
            self.sketch.prefetch(*extent);
        }
    }

    fn accessed(&mut self, slot: SlotIndex) {
        self.sketch.add(self.extents[slot]);
        self.climb(true);
        match self.queues.queue_of(slot) {
            Some(PROBATION) => {
                self.queues.renew(PROTECTED, slot);
                while self.queues.size(PROTECTED) > self.most_protected
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
        let full = self.queues.size(WINDOW) >= self.most_window;
        let candidate = if full || main.is_none() { oldest(WINDOW) } else { None };
        let (Some(candidate), Some(main)) = (candidate, main) else { return candidate.or(main) };
        // A candidate that wins overflows into the room that the other one leaves.
        Some(if self.count(candidate) > self.count(main) { main } else { candidate })
    }

    fn saved_version(&self) -> u32 {
        2
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        loop {
            let complete = match to.part() {
                0 => {
                    to.put(ACCESSES, &halves(self.sketch.accesses));
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
                // A larger sketch would leave the extents no room.
                4 if self.sketch.words.len()
                    <= (MOST_SAVED_WORDS * self.extents.len() as usize).next_power_of_two().max(LEAST_WORDS) =>
                {
                    to.table(SKETCH, &self.sketch.words)
                }
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
            (SKETCH, row) => load_row(&mut self.sketch.words, row),
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
    use super::{Parameters, Sketch};
    use crate::replacement::{Replacement, bare::agrees_with};

    #[test]
    fn the_sketch_counts_and_forgets() {
        let mut sketch = Sketch::new(1_000, &Parameters::DEFAULT);
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
            let most_window = (size / 100).max(1);
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
            Replacement::WTinyLfu(Parameters::DEFAULT),
            &[2, 3, 10, 60, 300],
            |size| 5.0 * size as f64,
            |size| Plain {
                window: Vec::new(),
                probation: Vec::new(),
                protected: Vec::new(),
                sketch: Sketch::new(size as u64, &Parameters::DEFAULT),
            },
            Plain::access,
        );
    }
}
