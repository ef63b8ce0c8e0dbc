use super::array::Operations;

/// The stripe in which the host's data is collected before it is programmed, for layers that write in place. It is
/// programmed when it is full, or when the host writes elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct OpenStripe {
    die: u32,
    /// The first slot in it that is not programmed yet.
    first: u32,
    pending: u32,
}

/// The end of a program operation and its number of units; `None` if nothing was programmed.
pub(super) type Programmed = Option<(u64, u32)>;

/// Combines two program operations: the later end, and all units.
pub(super) fn both(a: Programmed, b: Programmed) -> Programmed {
    match (a, b) {
        (Some((a, n)), Some((b, m))) => Some((a.max(b), n + m)),
        (a, b) => a.or(b),
    }
}

impl OpenStripe {
    /// Whether the slot is in this stripe and not programmed yet.
    #[inline]
    pub fn holds(&self, slot: u32) -> bool {
        slot.wrapping_sub(self.first) < self.pending
    }

    /// Number of units that are not programmed yet.
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// Adds a slot.
    #[inline]
    pub fn write(&mut self, die: u32, slot: u32, stripe_units: u32, flash: &mut impl Operations) -> Programmed {
        let mut done = None;
        if self.pending > 0 && slot != self.first + self.pending {
            done = self.flush(flash);
        }
        if self.pending == 0 {
            (self.die, self.first) = (die, slot);
        }
        self.pending += 1;
        if (slot + 1).is_multiple_of(stripe_units) {
            let full = self.flush(flash);
            done = both(done, full);
        }
        done
    }

    /// Programs all collected units.
    pub fn flush(&mut self, flash: &mut impl Operations) -> Programmed {
        let units = std::mem::take(&mut self.pending);
        (units > 0).then(|| (flash.program(self.die, units), units))
    }
}
