//! Damage in a log: data that differ from the data that were appended. If the header of an append can be read and its
//! data cannot, the lost ranges of the volume are known. Reads of these ranges fail, and a migration leaves them in the
//! log, like data that the device cannot read. The next commit lists them, and the next opening finds them by their
//! checksums again.

use crate::log::{drive::LogDrive, segments::Segments};

/// The behaviour when a damaged log is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::log) enum OnDamage {
    /// The volume is not opened.
    #[default]
    Refuse,
    /// The lost ranges are named.
    Name,
}

impl Segments {
    /// The data at this place is not what was appended there.
    #[cold]
    pub(in crate::log) fn damage(&mut self, at: u64, len: u64) {
        let segment = self.segment_of(at);
        self.segments[segment as usize].damaged.push((at, at + len));
        self.any_damaged = true;
    }

    /// Whether part of this range of the log is damaged.
    #[inline]
    pub(in crate::log) fn is_damaged(&self, at: u64, len: u64) -> bool {
        self.any_damaged && self.overlaps_damage(at, len)
    }

    #[cold]
    fn overlaps_damage(&self, at: u64, len: u64) -> bool {
        let damaged = &self.segments[self.segment_of(at) as usize].damaged;
        damaged.iter().any(|(from, to)| *from < at + len && at < *to)
    }

    /// Calls `part(from, to, whether it is damaged)` for the parts of a range of the log that lies in one segment.
    #[cold]
    pub(in crate::log) fn split_at_damage(&self, at: u64, len: u64, mut part: impl FnMut(u64, u64, bool)) {
        let mut damaged = self.segments[self.segment_of(at) as usize].damaged.clone();
        damaged.sort_unstable();
        let (mut next, end) = (at, at + len);
        for (from, to) in damaged {
            let (from, to) = (from.max(next), to.min(end));
            if from < to {
                if next < from {
                    part(next, from, false);
                }
                part(from, to, true);
                next = to;
            }
        }
        if next < end {
            part(next, end, false);
        }
    }
}

impl LogDrive {
    /// Calls `lost(from, to)` for each range of the volume whose newest copy is damaged.
    pub(in crate::log) fn walk_damaged(&self, mut lost: impl FnMut(u64, u64)) {
        if !self.log.any_damaged {
            return;
        }
        self.map.walk_all(self.size, |from, to, place| {
            let Some(at) = place.filter(|at| self.log.is_damaged(*at, to - from)) else { return };
            self.log.split_at_damage(at, to - from, |low, high, damaged| {
                if damaged {
                    lost(from + (low - at), from + (high - at));
                }
            });
        });
    }

    /// Whether the newest copy of anything is damaged.
    pub(in crate::log) fn has_damage(&self) -> bool {
        let mut any = false;
        self.walk_damaged(|_, _| any = true);
        any
    }
}
