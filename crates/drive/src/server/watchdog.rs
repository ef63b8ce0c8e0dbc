//! Signs of life to the program that watches this one, sent by the loop that owns the volume and by no other thread: a server whose
//! loop hangs is to be noticed, whatever its other threads do.

use peryton_units::Nanos;

use crate::notify::Notifier;

/// When the next sign of life is due.
#[derive(Debug)]
pub(super) struct Watchdog {
    pub(super) notifier: Notifier,
    /// `None` if none are expected.
    next: Option<Nanos>,
}

impl Watchdog {
    pub(super) fn new(notifier: Notifier) -> Watchdog {
        let next = notifier.beat_every().map(|_| Nanos::ZERO);
        Watchdog { notifier, next }
    }

    #[inline]
    pub(super) fn deadline(&self) -> Option<Nanos> {
        self.next
    }

    #[inline]
    pub(super) fn tick(&mut self, now: Nanos) {
        if self.next.is_some_and(|next| next <= now) {
            self.beat(now);
        }
    }

    #[cold]
    fn beat(&mut self, now: Nanos) {
        self.notifier.beat();
        self.next = self.notifier.beat_every().map(|every| now.saturating_add(every));
    }
}
