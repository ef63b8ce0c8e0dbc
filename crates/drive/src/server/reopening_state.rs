//! When a volume that has stopped is opened again.

use peryton_units::Nanos;

use crate::shared_memory::ProcessDeath;

/// The pause after an attempt that failed; it doubles up to the longest.
const FIRST_PAUSE: Nanos = Nanos::from_s(1);
const LONGEST_PAUSE: Nanos = Nanos::from_s(60);

/// When opening the volume again may be tried, and what it needs.
#[derive(Debug)]
pub(crate) struct Reopening {
    pub(super) process_death: ProcessDeath,
    /// No attempt is made before this time; zero if none has failed.
    pub(super) due: Nanos,
    pause: Nanos,
}

impl Reopening {
    pub(crate) fn new(process_death: ProcessDeath) -> Reopening {
        Reopening { process_death, due: Nanos::ZERO, pause: FIRST_PAUSE }
    }

    /// An attempt has failed. Returns the pause before the next one.
    pub(super) fn failed(&mut self, now: Nanos) -> Nanos {
        let pause = self.pause;
        self.due = now.saturating_add(pause);
        self.pause = Nanos((pause.0 * 2).min(LONGEST_PAUSE.0));
        pause
    }

    /// The volume is open again.
    pub(super) fn succeeded(&mut self) {
        (self.due, self.pause) = (Nanos::ZERO, FIRST_PAUSE);
    }

    /// When it is tried next, if only time keeps it from that; otherwise the end of a command does.
    pub(super) fn deadline(&self, now: Nanos) -> Option<Nanos> {
        (self.due > now).then_some(self.due)
    }
}
