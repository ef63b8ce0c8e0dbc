use std::{
    cmp::Reverse,
    collections::{BTreeMap, BinaryHeap, VecDeque},
};

/// The RAM that acknowledges writes before they are programmed: how much of it is used, and when it becomes free.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    units: u32,
    used: u32,
    /// Ends of programs and the units that each gives back.
    programs: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Buffer {
    pub fn new(units: u32, stripe_units: u32) -> Buffer {
        Buffer { units, used: 0, programs: BinaryHeap::with_capacity((units / stripe_units) as usize + 2) }
    }

    /// Takes room for `units` (a stripe at most) and returns when there is: back-pressure.
    #[inline]
    pub fn take(&mut self, units: u32, now: u64) -> u64 {
        let mut at = now;
        while self.used + units > self.units {
            let Some(Reverse((end, given_back))) = self.programs.pop() else { break };
            self.used -= given_back;
            at = at.max(end);
        }
        self.used += units;
        at
    }

    /// Adds units that overwrite buffered data, which take no further space.
    #[inline]
    pub fn give_back(&mut self, units: u32) {
        self.used -= units;
    }

    /// A program that ends at `end` frees `units`.
    #[inline]
    pub fn programming(&mut self, end: u64, units: u32) {
        self.programs.push(Reverse((end, units)));
    }
}

/// The units whose data are in the buffer because their programs have not ended: reads of them need no die. It has at most as many
/// entries as the buffer has units, and those of the programs that ended since the last one.
#[derive(Clone, Debug, Default)]
pub(super) struct Held {
    /// Written since the last program began.
    open: Vec<u32>,
    /// When the program of a unit ends.
    until: BTreeMap<u32, u64>,
    /// The same in the order of the programs.
    ends: VecDeque<(u64, u32)>,
}

impl Held {
    /// A unit came in. While it is not being programmed, the layer knows that it is in RAM.
    pub fn written(&mut self, unit: u32) {
        self.open.push(unit);
    }

    /// What came in since the last program is programmed until `end`.
    pub fn programming(&mut self, now: u64, end: u64) {
        while let Some(&(ended, unit)) = self.ends.front().filter(|(ended, _)| *ended <= now) {
            self.ends.pop_front();
            if self.until.get(&unit) == Some(&ended) {
                self.until.remove(&unit);
            }
        }
        for unit in self.open.drain(..) {
            self.until.insert(unit, end);
            self.ends.push_back((end, unit));
        }
    }

    /// Whether the unit is still in the buffer at `now`.
    pub fn has(&self, unit: u32, now: u64) -> bool {
        self.until.get(&unit).is_some_and(|&end| end > now)
    }
}
