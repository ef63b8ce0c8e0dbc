//! Operation of a log with some of its devices fenced.
//!
//! * Without the log: data that only the log had are lost until they are written or discarded; the primary has an older
//!   copy. Writes go to the primary, and there is nothing to commit.
//!
//! * Without a primary: its data in the log stay readable, and the log takes writes until it is full. Its other data are lost. The data of
//!   other primaries migrate as before, and `beside_gone.rs` says what becomes of the segments.

use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::DeviceId,
    api::location::Losses,
    api::logging::LogPart,
    log::drive::LogDrive,
    log::primaries::Primary,
    log::ready::Turn,
    log::segments::{Segment, State},
    log::step::{LogCall, LogIo},
};

impl LogDrive {
    /// Handles the death of a device. Returns whether data whose write was answered may be lost.
    #[cold]
    pub(in crate::log) fn device_died(&mut self, io: &mut LogIo, device: DeviceId) -> bool {
        self.commit.fence(device == self.log_device);
        self.mark_gone(device);
        self.go_on_if_fenced(io, device);
        self.migration.stop();
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
        self.primaries.has(device) || self.log.live > 0 || !self.appends.is_idle()
    }

    /// Marks a device as gone, while running or when the volume is opened without it.
    pub(in crate::log) fn mark_gone(&mut self, device: DeviceId) {
        self.gone.log |= device == self.log_device;
        self.primaries.mark_gone(device);
        self.log.gone |= self.gone.log;
        self.commit.group.alive = [!self.primaries.all_gone(), !self.gone.log];
    }

    /// Resumes commits once it is durable that a device is gone.
    #[cold]
    pub(in crate::log) fn go_on_without(&mut self, io: &mut LogCall) {
        if io.owes_error {
            self.flushes_fail(io);
        }
        if self.primaries.any_gone() && !self.gone.log {
            self.keep_what_drains();
            self.ready.push(Turn::Migration);
        }
        self.ready.push(Turn::Commit);
        self.ready.push(Turn::Pieces);
    }

    pub(in crate::log) fn lost_ranges(&self, most: usize) -> Losses {
        let mut losses = Losses { unknown: self.gone.log_is_unknown, ..Losses::default() };
        self.each_lost(|from, to| losses.add(from, to, most));
        losses
    }

    /// The primaries, and how much of each is lost.
    pub(crate) fn parts(&self) -> Vec<LogPart> {
        let part = |primary: &Primary| LogPart {
            device: primary.device,
            range: Bytes(primary.from)..Bytes(primary.to),
            gone: primary.gone,
            lost: Bytes::ZERO,
        };
        let mut parts: Vec<LogPart> = self.primaries.iter().map(part).collect();
        self.each_lost(|from, to| {
            for part in parts.iter_mut().filter(|part| part.range.start.0 < to && from < part.range.end.0) {
                part.lost += Bytes(to.min(part.range.end.0) - from.max(part.range.start.0));
            }
        });
        parts
    }

    pub(in crate::log) fn each_lost(&self, mut lost: impl FnMut(u64, u64)) {
        if !self.gone.log && !self.primaries.any_gone() {
            return self.walk_damaged(lost);
        }
        self.map.walk_all(self.size, |from, to, place| match place {
            Some(at) if self.gone.log || self.log.is_damaged(at, to - from) => lost(from, to),
            Some(_) => {}
            None => {
                for primary in self.primaries.iter().filter(|primary| primary.gone) {
                    let (low, high) = (from.max(primary.from), to.min(primary.to));
                    if low < high {
                        lost(low, high);
                    }
                }
            }
        });
    }

    /// Age of the oldest logged write that the primary has no newer data for.
    pub(crate) fn age(&self, now: Nanos) -> Option<Nanos> {
        (self.log.live > 0).then(|| now.saturating_sub(self.since.first_logged))
    }
}
