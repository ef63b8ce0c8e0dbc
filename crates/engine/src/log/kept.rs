//! The records of commits that are not durable yet. They are handed out to the driver as they are made, so that the driver
//! can keep them in memory that outlives the process.

use peryton_format::{
    handoff::Record,
    log::ring::CommitRecord,
    mutation::{self, Mutation},
};

/// Room for the records of operations that are under way when the memory is nearly full.
const RESERVE: u64 = 256;

/// The numbers of the records that are not durable, and the records that were not yet handed out.
#[derive(Debug)]
pub(in crate::log) struct Kept {
    /// The number of records that the memory has room for.
    room: u64,
    /// The number of the next record.
    next: u64,
    /// Records up to this number are in the commit under way, or in an earlier one.
    committing: u64,
    /// Records up to this number are durable.
    settled: u64,
    /// Whether there was no room for all records, so that they are of no use until enough of them are durable.
    suspended: bool,
    /// The sequence that was handed out last: all appends before it are complete.
    complete: u64,
    /// Records that were not yet handed out.
    fresh: Vec<Record>,
}

impl Kept {
    pub(in crate::log) fn new(room: u64) -> Kept {
        Kept { room, next: 1, committing: 0, settled: 0, suspended: false, complete: 0, fresh: Vec::new() }
    }

    fn outstanding(&self) -> u64 {
        self.next - 1 - self.settled
    }

    /// Whether little room would be left after `more` records.
    pub(in crate::log) fn is_crowded(&self, more: u64) -> bool {
        self.outstanding() + more > self.room - RESERVE.min(self.room / 2)
    }

    /// Adds a record. Lists of pieces are left out, because no answer to the host depends on them: without them a log holds
    /// what it held before the migration.
    pub(in crate::log) fn add(&mut self, record: CommitRecord) {
        if matches!(record, CommitRecord::Listed { .. } | CommitRecord::Left { .. })
            || mutation::is(Mutation::KeepNothing)
        {
            return;
        }
        if !self.suspended && self.outstanding() == self.room {
            self.suspended = true;
            self.fresh.push(Record::Suspended { is: true });
        }
        self.fresh.push(Record::Log { number: self.next, record });
        self.next += 1;
    }

    /// A commit begins; it has all records so far.
    pub(in crate::log) fn commit_begins(&mut self) {
        self.committing = self.next - 1;
    }

    /// The commit that began last is durable.
    pub(in crate::log) fn commit_is_durable(&mut self) {
        if self.settled == self.committing {
            return;
        }
        self.settled = self.committing;
        self.fresh.push(Record::Settled { upto: self.settled });
        if self.suspended && self.outstanding() <= self.room {
            self.suspended = false;
            self.fresh.push(Record::Suspended { is: false });
        }
    }

    /// Hands out the new records. `complete`: all appends before this sequence are on the device, or recorded as absent.
    #[inline]
    pub(in crate::log) fn take(&mut self, complete: u64, take: &mut impl FnMut(Record)) {
        self.fresh.drain(..).for_each(&mut *take);
        if self.complete != complete {
            self.complete = complete;
            take(Record::Complete { before: complete });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_suspends_all_until_enough_is_durable() {
        let mut kept = Kept::new(4);
        let void = CommitRecord::Void { offset: 0, len: 512, before: 1 };
        let all = |kept: &mut Kept| {
            let mut all = Vec::new();
            kept.take(0, &mut |record| all.push(record));
            all
        };
        (0..3).for_each(|_| kept.add(void));
        kept.commit_begins();
        (0..2).for_each(|_| kept.add(void));
        assert!(kept.is_crowded(0));
        assert_eq!(all(&mut kept)[4], Record::Suspended { is: true });
        kept.commit_is_durable();
        assert_eq!(all(&mut kept), [Record::Settled { upto: 3 }, Record::Suspended { is: false }]);
        assert!(!kept.is_crowded(0) && kept.is_crowded(1));
        kept.commit_is_durable();
        assert_eq!(all(&mut kept), []);
    }
}
