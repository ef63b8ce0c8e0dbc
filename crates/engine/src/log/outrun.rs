//! Bypass of a log that is behind (Griffin, section 7: "disabling caching whenever the data rate of the combined
//! workloads exceeds HDD speed").
//!
//! The log is behind by the age of its oldest append that is not retired. Appends retire in the order in which they lie
//! in the log, so a new write waits about as long. This measure needs no average, and falls when the appends are done.

use peryton_units::Nanos;

use crate::{log::drive::LogDrive, log::primaries::Primary, log::step::LogIo};

impl LogDrive {
    /// How long ago the oldest append that is under way began to gather.
    #[inline]
    fn behind(&self, now: Nanos) -> Nanos {
        let oldest = self.appends.flying.front().map(|group| self.appends.groups[*group].since);
        oldest.map_or(Nanos::ZERO, |since| now.saturating_sub(since))
    }

    /// Whether a write is better written to the primary than appended: the log is behind by more than it may be, and the primary has
    /// lately answered sooner. The record that such a write makes in the ring of commits must have room, because what waits for room
    /// waits for a migration.
    #[inline]
    pub(in crate::log) fn is_outrun(&self, io: &LogIo, primary: Primary) -> bool {
        let settings = &io.tuning.logging;
        let Some(most) = settings.most_behind else { return false };
        let behind = self.behind(io.now);
        behind > most.saturating_add(settings.gather_delay)
            && !self.gone.log
            && !primary.gone
            && !io.sleeps(primary.device)
            && self.primary_takes(io, primary) < behind
            && !self.commit.is_crowded(self.directs.in_flight.len())
    }

    /// How long a write to the primary takes: as the latest did, and no less than what is under way has taken already.
    fn primary_takes(&self, io: &LogIo, primary: Primary) -> Nanos {
        let [_, lately] = io.latency(primary.device);
        let mut under_way = self.directs.in_flight.iter().map(|row| self.directs.rows[*row]);
        let oldest =
            under_way.find(|direct| direct.piece.overlaps(primary.from, primary.to)).map(|direct| direct.since);
        lately.max(oldest.map_or(Nanos::ZERO, |since| io.now.saturating_sub(since)))
    }
}
