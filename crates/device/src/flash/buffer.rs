use std::{cmp::Reverse, collections::BinaryHeap};

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
