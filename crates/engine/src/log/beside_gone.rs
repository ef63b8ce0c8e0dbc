//! A log with several primaries, of which some are gone: what it keeps for them, while it serves the others.
//!
//! A segment that has, or had, data of a primary that is gone stays as it is until the primary is back or was replaced. That primary may lack
//! what migrated to it before it went, and a part of what only this segment supersedes. So the log has for each such primary what it had when
//! that went, and what was written since.
//!
//! The other segments are freed after a migration, in any order. A replay reads through the segments that stay, and must not find there what
//! was superseded in those that were freed. One void for each other primary says so: the primary has newer data than every append before the
//! migration. The appends of freed segments are recorded as absent. Both are in the commit that frees the segments. The records of earlier
//! commits that the segments that stay need are repeated in it.

use peryton_format::{
    handoff::Found,
    log::NOWHERE,
    log::ring::CommitRecord,
    mutation::{self, Mutation},
};

use crate::{
    api::command::DeviceId,
    log::drive::LogDrive,
    log::ready::Turn,
    log::segments::{Record, State},
    log::step::LogIo,
};

impl LogDrive {
    /// Whether a segment stays although all that is needed of it may have migrated.
    pub(in crate::log) fn is_kept(&self, index: u32) -> bool {
        let segment = &self.log.segments[index as usize];
        let of_gone = |record: &Record| self.primaries.is_gone(record.offset);
        segment.kept
            || self.primaries.any_gone()
                && segment.records.iter().any(of_gone)
                && !mutation::is(Mutation::FreeWhatGoneLacks)
    }

    /// A primary has gone, and no commit is under way: segments whose commit is not durable stay, because the primary may lack what has
    /// migrated from them. For a replay they stay whole, and so do those of which only a part would have been needed.
    #[cold]
    pub(in crate::log) fn keep_what_drains(&mut self) {
        // A migration that has begun meanwhile does not know of these segments.
        self.migration.stop();
        let LogDrive { commit, log, .. } = self;
        let batch = &mut commit.group.gathering;
        batch.freed.clear();
        // They need the records that their end would have made obsolete.
        batch.obsolete = 0;
        batch.records.retain(|record| match record {
            CommitRecord::Listed { segment, .. } => {
                log.segments[*segment as usize].kept = true;
                false
            }
            CommitRecord::Left { .. } => false,
            CommitRecord::Void { .. } | CommitRecord::Absent { .. } => true,
        });
        for (segment, index) in log.segments.iter_mut().zip(0..) {
            if segment.state == (State::Draining { committed: false }) {
                (segment.state, segment.kept) = (State::Closed, true);
                log.order.push_back(index);
            }
        }
        let segments = &log.segments;
        log.order.make_contiguous().sort_unstable_by_key(|index| segments[*index as usize].opened);
    }

    /// Frees what a migration has emptied, although segments before it stay for a primary that is gone. `all`: the segments from the first
    /// that stays on, as far as the migration has come.
    pub(in crate::log) fn settle_beside_gone(&mut self, io: &mut LogIo, all: &[u32]) {
        let (stay, free): (Vec<u32>, Vec<u32>) = all.iter().partition(|index| self.is_kept(**index));
        stay.iter().for_each(|index| self.log.segments[*index as usize].left_over = true);
        // The next migration does not begin at once, although the log is as full as before.
        self.migration.left_over |= !stay.is_empty();
        // Data that could not be written to a primary that is there, or could not be read, is not on any.
        let is_left = |index: &u32| self.left_in(*index).iter().any(|record| !self.primaries.is_gone(record.offset));
        let records = self.records_beside_gone(&stay, &free);
        self.migration.stuck = all.iter().any(is_left) || records.len() > self.commit.most_records() / 2;
        if self.migration.stuck || !self.migration.whole {
            return;
        }
        self.commit.list(io, records);
        for index in free {
            self.log.drain(index);
            self.commit.free(index);
        }
        self.ready.push(Turn::Commit);
    }

    fn records_beside_gone(&self, stay: &[u32], free: &[u32]) -> Vec<CommitRecord> {
        let Some(first) = stay.first() else { return Vec::new() };
        let covers = self.migration.covers;
        let opened = |index: u32| self.log.segments[index as usize].opened;
        let oldest = opened(*first);
        let (mut records, mut absents) = (Vec::new(), Vec::new());
        let mut listed = false;
        for record in self.commit.made_before_migration() {
            let needed = match record {
                CommitRecord::Void { offset, len, before } => {
                    before > oldest && self.primaries.has_gone(offset, offset.saturating_add(len))
                }
                CommitRecord::Absent { from, to, next_at } => {
                    absents.extend((to > oldest).then_some((from, to, next_at)));
                    false
                }
                CommitRecord::Listed { segment, .. } => stay.contains(&segment),
                CommitRecord::Left { .. } => listed,
            };
            listed = needed && matches!(record, CommitRecord::Listed { .. } | CommitRecord::Left { .. });
            records.extend(needed.then_some(record));
        }
        let ends = free.iter().map(|index| {
            let next =
                stay.iter().chain(free).map(|other| opened(*other)).filter(|other| *other > opened(*index)).min();
            (opened(*index), next.unwrap_or(covers), NOWHERE)
        });
        absents.extend(ends.filter(|(from, ..)| *from > oldest));
        records.extend(joined(absents).map(|(from, to, next_at)| CommitRecord::Absent { from, to, next_at }));
        let there =
            self.primaries.iter().filter(|primary| !primary.gone && !mutation::is(Mutation::ForgetWhatMigrated));
        records.extend(there.map(|primary| {
            let (offset, len) = (primary.from, primary.to - primary.from);
            CommitRecord::Void { offset, len, before: covers }
        }));
        records
    }

    /// Which of the gone primaries may come back, one bit each, if this device goes now; `before`: which might until now. A primary may
    /// whose every write past the log is durable, or recorded by no commit, so that the log has its older copy.
    pub(in crate::log) fn returnable_without(&self, device: DeviceId, before: u32) -> u32 {
        let Some(primary) = self.primaries.iter().find(|primary| primary.device == device) else { return 0 };
        let batches = [&self.commit.group.gathering, &self.commit.group.committing];
        let in_doubt = batches.iter().flat_map(|batch| &batch.records).any(|record| {
            matches!(record, CommitRecord::Void { offset, len, .. } if *offset < primary.to && primary.from < offset + len)
        });
        let may = !self.gone.log && !in_doubt && !self.directs.overlaps(primary.from, primary.to);
        let bit = 1 << device.index();
        if may || mutation::is(Mutation::TakeBackAnyPrimary) { before | bit } else { before & !bit }
    }

    /// The same of a volume that is opened without a primary, with what a killed process has left in memory.
    pub(in crate::log) fn returnable_at_opening(&self, left: Option<&Found>) -> u32 {
        let mut gone = self.primaries.iter().filter(|primary| primary.gone);
        let (Some(primary), None) = (gone.next(), gone.next()) else { return 0 };
        let in_doubt = left.iter().flat_map(|left| &left.records).any(|record| {
            matches!(record, CommitRecord::Void { offset, len, .. }
                if *offset < primary.to && primary.from < offset.saturating_add(*len))
        });
        if in_doubt { 0 } else { 1 << primary.device.index() }
    }
}

/// Ranges of absent appends, and where the append after each is: those that touch are one.
fn joined(mut ranges: Vec<(u64, u64, u64)>) -> impl Iterator<Item = (u64, u64, u64)> {
    ranges.sort_unstable();
    let mut all: Vec<(u64, u64, u64)> = Vec::new();
    for (from, to, next_at) in ranges {
        match all.last_mut() {
            Some(last) if from <= last.1 => {
                if to > last.1 {
                    (last.1, last.2) = (to, next_at);
                }
            }
            _ => all.push((from, to, next_at)),
        }
    }
    all.into_iter()
}
