//! How long to look for the next event before sleeping.
//!
//! Falling asleep and waking up takes longer than many devices and clients do. Looking costs processor time, which is well
//! spent if the event comes soon and nobody else needs the processor; so it is done while events have been coming soon of
//! late, and not for a while after somebody else had to wait for the processor.

use peryton_units::Nanos;

/// The weight of the newest wait is 2 to the power of minus this.
const SHIFT: u32 = 3;
/// How often to see whether others need the processor.
const LOOK: Nanos = Nanos::from_ms(5);
/// How long not to look for events after they did.
const REST: Nanos = Nanos::from_ms(500);
/// Being sent off the processor so often between two looks is chance.
const CHANCE: u64 = 1;

#[derive(Debug)]
pub(super) struct Spin {
    /// The longest that it is done.
    most: Nanos,
    /// Mean time until the next event, the latest counting most; long ones count as twice `most`.
    mean: Nanos,
    /// When the last event came.
    since: Nanos,
    next_look: Nanos,
    /// Times that the thread was sent off the processor.
    preempted: u64,
    resting_until: Nanos,
}

impl Spin {
    pub(super) fn new(most: Nanos) -> Spin {
        let zero = Nanos::ZERO;
        Spin { most, mean: zero, since: zero, next_look: zero, preempted: 0, resting_until: zero }
    }

    /// Events have come.
    #[inline]
    pub(super) fn came(&mut self, now: Nanos) {
        let took = now.saturating_sub(self.since).0.min(2 * self.most.0);
        self.mean = Nanos(self.mean.0 - (self.mean.0 >> SHIFT) + (took >> SHIFT));
        self.since = now;
    }

    /// Whether to go on looking.
    #[inline]
    pub(super) fn goes_on(&mut self, now: Nanos, preempted: impl FnOnce() -> u64) -> bool {
        if self.mean >= self.most || now.saturating_sub(self.since) >= self.most || now < self.resting_until {
            return false;
        }
        if now >= self.next_look {
            let before = self.preempted;
            self.preempted = preempted();
            let looked_lately = now.saturating_sub(self.next_look) < LOOK;
            self.next_look = now.saturating_add(LOOK);
            if looked_lately && self.preempted - before > CHANCE {
                self.resting_until = now.saturating_add(REST);
                return false;
            }
        }
        true
    }
}

/// How often this thread was sent off its processor while it had something to do.
pub(super) fn preempted() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is there to be filled; zeros are valid if it is not.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr());
        usage.assume_init()
    };
    usage.ru_nivcsw.unsigned_abs()
}

#[cfg(test)]
mod tests {
    use super::*;

    const US: u64 = 1000;

    fn after(gap: Nanos, count: u64) -> (Spin, Nanos) {
        let mut spin = Spin::new(Nanos(100 * US));
        let mut now = Nanos::ZERO;
        for _ in 0..count {
            now = now.saturating_add(gap);
            spin.came(now);
        }
        (spin, now)
    }

    #[test]
    fn it_is_done_while_events_come_soon_and_no_longer() {
        let (mut spin, now) = after(Nanos(60 * US), 50);
        assert!(spin.goes_on(now.saturating_add(Nanos(90 * US)), || 0));
        assert!(!spin.goes_on(now.saturating_add(Nanos(100 * US)), || 0));
        let (mut spin, now) = after(Nanos(8000 * US), 50);
        assert!(!spin.goes_on(now, || 0), "a disk takes longer than waking up");
        for step in 0..50 {
            spin.came(now.saturating_add(Nanos(step * 10 * US)));
        }
        assert!(spin.goes_on(now.saturating_add(Nanos(500 * US)), || 0), "it is done again when they come soon");
    }

    #[test]
    fn who_takes_the_processor_from_others_rests() {
        let (mut spin, mut now) = after(Nanos(60 * US), 50);
        let mut done = 0;
        for preempted in 1..=10_000 {
            now = now.saturating_add(Nanos(60 * US));
            spin.came(now);
            done += u32::from(spin.goes_on(now, || preempted));
        }
        assert!(done < 1000, "{done} of 10000");
    }
}
