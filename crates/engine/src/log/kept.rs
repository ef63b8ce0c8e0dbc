//! What the next commits will record, handed out as it comes up, for a process that may die before they are durable.

use peryton_format::{
    log::ring::CommitRecord,
    mutation::{self, Mutation},
    takeover::Record,
};

/// So many records may come of what is under way when the memory is nearly full.
const RESERVE: u64 = 256;

/// Records that are not durable, and those of them that were not yet handed out.
#[derive(Debug)]
pub(in crate::log) struct Kept {
    /// How many the memory has room for.
    room: u64,
    /// The number of the next record.
    next: u64,
    /// Records up to this number are in the commit under way, and up to that one durable.
    committing: u64,
    settled: u64,
    /// There was no room for all of them.
    suspended: bool,
    /// All appends before this sequence are complete, as was said last.
    complete: u64,
    fresh: Vec<Record>,
}

impl Kept {
    pub(in crate::log) fn new(room: u64) -> Kept {
        Kept { room, next: 1, committing: 0, settled: 0, suspended: false, complete: 0, fresh: Vec::new() }
    }

    fn outstanding(&self) -> u64 {
        self.next - 1 - self.settled
    }

    /// Whether there is not much room left, with `more` to come.
    pub(in crate::log) fn is_crowded(&self, more: u64) -> bool {
        self.outstanding() + more > self.room - RESERVE.min(self.room / 2)
    }

    /// Lists are no matter of what was answered: without them a log has what it had before the migration.
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

    /// A commit begins, with all that has come up so far.
    pub(in crate::log) fn commit_begins(&mut self) {
        self.committing = self.next - 1;
    }

    /// It is durable.
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

    /// Hands out what is new. `complete`: all appends before this sequence are on the device, or recorded as absent.
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
