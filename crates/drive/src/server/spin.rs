//! How long to poll for the next event before sleeping.
//!
//! Going to sleep and waking up takes longer than many devices and clients do. Polling costs processor time, which is
//! well spent if the event comes meanwhile and no other program needs the processor. So polling pauses for a while
//! * when events come only after it ended: they take longer, or the program that sends them needs this very processor;
//! * when other programs had to wait for the processor.
//!
//! The effect of sleeping on the time until the next event shows when to try again: if that time was short and becomes
//! long, one of the two programs has been moved to another processor.

use peryton_units::Nanos;

/// How often to check whether other programs need the processor.
const LOOK: Nanos = Nanos::from_ms(5);
/// This many preemptions between two checks count as chance.
const CHANCE: u64 = 1;
/// This many events in a row that came too late, or have become slow, do not count as chance.
const IN_A_ROW: u32 = 4;
/// How long polling pauses: at first, and at most.
const SHORT_REST: Nanos = Nanos::from_ms(20);
const REST: Nanos = Nanos::from_ms(500);

/// The polling for one kind of events: of clients or of devices.
#[derive(Debug)]
pub(super) struct Spin {
    /// The longest time to poll.
    most: Nanos,
    mode: Mode,
    /// Since when the next event has been waited for.
    since: Option<Nanos>,
    /// The state of the current wait.
    wait: Waiting,
    /// The length of the next pause.
    rest: Nanos,
    next_look: Nanos,
    /// How often the thread has been preempted.
    preempted: u64,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    Looking {
        /// Number of events in a row that came too late.
        in_vain: u32,
    },
    Resting {
        until: Nanos,
        /// Whether events came soon without polling.
        quick: bool,
        /// Number of events in a row that did not.
        slow: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Asleep,
    Looking,
    GaveUp,
}

impl Spin {
    pub(super) fn new(most: Nanos) -> Spin {
        Spin {
            most,
            mode: Mode::Looking { in_vain: 0 },
            since: None,
            wait: Waiting::Asleep,
            rest: SHORT_REST,
            next_look: Nanos::ZERO,
            preempted: 0,
        }
    }

    fn rest(&mut self, now: Nanos, how_long: Nanos) {
        self.mode = Mode::Resting { until: now.saturating_add(how_long), quick: false, slow: 0 };
    }

    /// Handles the arrival of events that were waited for.
    #[inline]
    pub(super) fn came(&mut self, now: Nanos) {
        let took = self.since.take().map_or(Nanos::ZERO, |since| now.saturating_sub(since));
        let wait = std::mem::replace(&mut self.wait, Waiting::Asleep);
        match &mut self.mode {
            Mode::Looking { in_vain } => match wait {
                Waiting::Asleep => {}
                Waiting::Looking => {
                    *in_vain = 0;
                    self.rest = SHORT_REST;
                }
                Waiting::GaveUp => {
                    *in_vain += 1;
                    if *in_vain == IN_A_ROW {
                        self.rest(now, self.rest);
                        self.rest = Nanos((2 * self.rest.0).min(REST.0));
                    }
                }
            },
            Mode::Resting { quick, slow, .. } => {
                if took.0 < self.most.0 / 2 {
                    *quick = true;
                    *slow = 0;
                } else if *quick {
                    *slow += 1;
                    if *slow == IN_A_ROW {
                        self.mode = Mode::Looking { in_vain: 0 };
                        self.rest = SHORT_REST;
                    }
                }
            }
        }
    }

    /// Whether to continue polling.
    #[inline]
    pub(super) fn goes_on(&mut self, now: Nanos, preempted: impl FnOnce() -> u64) -> bool {
        let since = *self.since.get_or_insert(now);
        if let Mode::Resting { until, .. } = self.mode {
            if now < until {
                return false;
            }
            self.mode = Mode::Looking { in_vain: 0 };
        }
        if now.saturating_sub(since) >= self.most {
            if self.wait == Waiting::Looking {
                self.wait = Waiting::GaveUp;
            }
            return false;
        }
        if now >= self.next_look {
            let before = self.preempted;
            self.preempted = preempted();
            let looked_lately = now.saturating_sub(self.next_look) < LOOK;
            self.next_look = now.saturating_add(LOOK);
            if looked_lately && self.preempted - before > CHANCE {
                self.rest(now, REST);
                return false;
            }
        }
        self.wait = Waiting::Looking;
        true
    }
}

/// How often this thread has been preempted while it was running.
pub(super) fn preempted() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the structure is a local buffer for the result, and zeros are valid if it is not filled.
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

    /// Simulates events that take a given time, on this processor or on another one. Returns the time spent polling,
    /// and by how much sleeping delayed the events.
    fn serve(spin: &mut Spin, now: &mut Nanos, events: u64, takes: u64, same_processor: bool) -> (Nanos, Nanos) {
        const WAKING: u64 = 150 * US;
        let (mut looked, mut lost) = (0, 0);
        for _ in 0..events {
            let asked = *now;
            while spin.goes_on(*now, || 0) && (same_processor || now.0 < asked.0 + takes) {
                *now = Nanos(now.0 + US);
            }
            looked += now.0 - asked.0;
            if same_processor {
                *now = Nanos(now.0 + takes);
            } else if now.0 < asked.0 + takes {
                *now = Nanos(asked.0 + takes + WAKING);
            }
            lost += now.0 - asked.0 - takes;
            spin.came(*now);
        }
        (Nanos(looked), Nanos(lost))
    }

    #[test]
    fn events_that_come_soon_are_polled_for_and_others_are_not() {
        let (mut spin, mut now) = (Spin::new(Nanos(100 * US)), Nanos::ZERO);
        let (_, lost) = serve(&mut spin, &mut now, 1000, 60 * US, false);
        assert_eq!(lost, Nanos::ZERO);
        let (looked, _) = serve(&mut spin, &mut now, 1000, 8000 * US, false);
        assert!(looked.0 < 100 * 100 * US, "{looked:?}: a disk takes longer than waking up");
        let (_, lost) = serve(&mut spin, &mut now, 10_000, 60 * US, false);
        assert!(lost.0 < 5000 * 150 * US, "{lost:?}: it is done again when they come soon");
    }

    #[test]
    fn polling_pauses_when_others_need_the_processor() {
        let (mut spin, mut now) = (Spin::new(Nanos(100 * US)), Nanos::ZERO);
        let mut done = 0;
        for preempted in 1..=10_000 {
            done += u32::from(spin.goes_on(now, || preempted));
            now = now.saturating_add(Nanos(60 * US));
            spin.came(now);
        }
        assert!(done < 1000, "{done} of 10000");
    }

    #[test]
    fn a_client_that_needs_this_processor_gets_it() {
        let (mut spin, mut now) = (Spin::new(Nanos(100 * US)), Nanos::ZERO);
        for _ in 0..10 {
            let (_, lost) = serve(&mut spin, &mut now, 10_000, 20 * US, true);
            assert!(lost.0 < 10_000 * 2 * US, "{lost:?} on the same processor");
            let (_, lost) = serve(&mut spin, &mut now, 10_000, 40 * US, false);
            assert!(lost.0 < 10_000 * 2 * US, "{lost:?} on another");
        }
    }
}
