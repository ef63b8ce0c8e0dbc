//! The conditions under which a migration starts (Griffin, section 5.2).

use peryton_units::Nanos;

use crate::{
    api::logging::LogCaching,
    log::drive::LogDrive,
    log::mode::{Since, Trigger},
    log::step::LogIo,
};

/// The pause before the next migration after one that a failed device held up.
pub(in crate::log) const RETRY: Nanos = Nanos::from_s(1);

impl LogDrive {
    /// Whether nothing can migrate.
    #[inline]
    pub(in crate::log) fn is_stranded(&self) -> bool {
        self.gone.log || self.primaries.all_gone()
    }

    /// The condition under which a migration may start now, if any holds.
    #[inline]
    pub(in crate::log) fn fired(&self, io: &LogIo) -> Option<Trigger> {
        if !self.migration.is_idle() || self.log.is_empty() || io.now < self.since.not_before || self.is_stranded() {
            return None;
        }
        let triggers = &io.tuning.logging.triggers;
        let live = self.log.live;
        if live > 0 {
            if triggers.timeout.is_some_and(|timeout| io.now >= self.since.started.saturating_add(timeout)) {
                return Some(Trigger::Timeout);
            }
            let Since { reads, reads_from_log, .. } = self.since;
            if triggers.reads_exceed(reads, reads_from_log) {
                return Some(Trigger::ReadShare);
            }
            if triggers.size.is_some_and(|size| live >= size.0) {
                return Some(Trigger::Size);
            }
        }
        let (used, total) = self.log.used();
        // `used` is at most 2^40, so the product fits.
        let nearly_full = used * 1_000_000 >= total.saturating_mul(u64::from(triggers.log_used_ppm));
        (nearly_full || self.log.is_full() || self.commit.ring_fills()).then_some(Trigger::LogUsed)
    }

    /// Asks to be called when the timeout or the pause after a failure ends. If there is nothing to migrate then, the
    /// timeout starts again.
    pub(in crate::log) fn declare_timeout(&mut self, io: &mut LogIo) {
        let now = io.now;
        if let Some(timeout) = io.tuning.logging.triggers.timeout {
            let due = self.since.started.saturating_add(timeout);
            if due <= now && self.log.live == 0 {
                self.since.started = now;
            }
            if self.log.live > 0 && self.migration.is_idle() {
                io.due(due.max(self.since.not_before).max(Nanos(now.0 + 1)));
            }
        }
        if !self.log.is_empty() && now < self.since.not_before {
            io.due(self.since.not_before);
        }
    }

    /// Starts the timeout when the log takes its first data: it runs from the last migration, or from now if that was
    /// longer ago than the timeout.
    #[inline]
    pub(in crate::log) fn first_logged(&mut self, io: &mut LogIo) {
        self.since.first_logged = io.now;
        if let Some(timeout) = io.tuning.logging.triggers.timeout {
            if self.since.started.saturating_add(timeout) <= io.now {
                self.since.started = io.now;
            }
            io.due(self.since.started.saturating_add(timeout));
        }
    }
}

impl LogCaching {
    /// Whether reads are counted per block.
    pub(in crate::log) fn is_selective(self) -> bool {
        self != LogCaching::Full
    }
}
