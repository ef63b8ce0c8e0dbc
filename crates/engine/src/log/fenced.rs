//! Operation of a log with one of its two devices fenced.
//!
//! * Without the log: data that only the log had are lost until they are written or discarded; the primary has an older
//!   copy. Writes go to the primary, and there is nothing to commit.
//!
//! * Without the primary: data in the log stay readable, and the log takes writes until it is full. Other data are
//!   lost.

use peryton_units::Nanos;

use crate::{
    api::command::{Commands, DeviceId},
    api::location::Losses,
    log::drive::LogDrive,
    log::ready::Turn,
    log::segments::{Segment, State},
    log::step::LogIo,
};

impl LogDrive {
    /// Handles the death of a device. Returns whether data whose write was answered may be lost.
    #[cold]
    pub(in crate::log) fn device_died(&mut self, io: &mut LogIo, device: DeviceId) -> bool {
        self.mark_gone(device);
        self.go_on_if_fenced(io, device);
        self.migration.stop();
        self.commit.fence(device == self.log_device);
        if self.gone.log {
            // A segment that waited for its commit holds no needed data, so it needs no commit now.
            let waiting = |segment: &&mut Segment| segment.state == State::Draining { committed: false };
            for segment in self.log.segments.iter_mut().filter(waiting) {
                segment.state = State::Draining { committed: true };
            }
            for segment in 0..self.log.segments.len() as u32 {
                self.log.free_if_unread(segment);
            }
            self.index.clear();
        }
        self.ready.push(Turn::Migration);
        self.ready.push(Turn::Pieces);
        self.gone.primary || self.log.live > 0 || !self.appends.is_idle()
    }

    /// Marks a device as gone, while running or when the volume is opened without it.
    pub(in crate::log) fn mark_gone(&mut self, device: DeviceId) {
        self.gone.log |= device == self.log_device;
        self.gone.primary |= device == self.primary;
        self.log.gone |= self.gone.log;
        self.commit.group.alive = [!self.gone.primary, !self.gone.log];
    }

    /// Resumes commits once it is durable that a device is gone.
    #[cold]
    pub(in crate::log) fn go_on_without(&mut self, io: &mut LogIo, out: &mut Commands) {
        if io.owes_error {
            self.flushes_fail(io, out);
        }
        self.ready.push(Turn::Commit);
        self.ready.push(Turn::Pieces);
    }

    pub(in crate::log) fn lost_ranges(&self, most: usize) -> Losses {
        let mut losses = Losses { unknown: self.gone.log_is_unknown, ..Losses::default() };
        if !self.gone.any() {
            self.walk_damaged(|from, to| losses.add(from, to, most));
        } else {
            self.map.walk_all(self.size, |from, to, place| {
                let damaged = || place.is_some_and(|at| self.log.is_damaged(at, to - from));
                if self.gone.has(place) || damaged() {
                    losses.add(from, to, most);
                }
            });
        }
        losses
    }

    /// Age of the oldest logged write that the primary has no newer data for.
    pub(crate) fn age(&self, now: Nanos) -> Option<Nanos> {
        (self.log.live > 0).then(|| now.saturating_sub(self.since.first_logged))
    }
}
