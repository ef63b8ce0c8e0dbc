//! Bypass of a log that is behind (Griffin, section 7: "disabling caching whenever the data rate of the combined
//! workloads exceeds HDD speed").
//!
//! The log is behind by the age of its oldest append that is not retired. Appends retire in the order in which they lie
//! in the log, so a new write waits about as long. This measure needs no average, and falls when the appends are done.

use peryton_units::Nanos;

use crate::{log::drive::LogDrive, log::step::LogIo};

impl LogDrive {
    /// How long ago the oldest append that is under way began to gather.
    #[inline]
    fn behind(&self, now: Nanos) -> Nanos {
        let oldest = self.appends.flying.front().map(|group| self.appends.groups[*group as usize].since);
        oldest.map_or(Nanos::ZERO, |since| now.saturating_sub(since))
    }

    /// Whether a write is better written to the primary than appended: the log is behind by more than it may be, and the primary has
    /// lately answered sooner. The record that such a write makes in the ring of commits must have room, because what waits for room
    /// waits for a migration.
    #[inline]
    pub(in crate::log) fn is_outrun(&self, io: &LogIo, now: Nanos) -> bool {
        let settings = &io.tuning.logging;
        let Some(most) = settings.most_behind else { return false };
        let behind = self.behind(now);
        behind > most.saturating_add(settings.gather_delay)
            && !self.gone.any()
            && !io.sleeps(self.primary)
            && self.primary_takes(io, now) < behind
            && !self.commit.is_crowded(self.directs.in_flight.len())
    }

    /// How long a write to the primary takes: as the latest did, and no less than what is under way has taken already.
    fn primary_takes(&self, io: &LogIo, now: Nanos) -> Nanos {
        let [_, lately] = io.latency(self.primary);
        let oldest = self.directs.in_flight.first().map(|row| self.directs.rows[*row].since);
        lately.max(oldest.map_or(Nanos::ZERO, |since| now.saturating_sub(since)))
    }
}
