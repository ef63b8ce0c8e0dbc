//! The commit phase: `Idle → FlushingBefore → Writing → FlushingAfter → Idle`. A record may only point to what is durable,
//! so data is flushed before it is written; it is flushed itself before anything that waits for it goes on. What comes
//! meanwhile is gathered for the next commit. After a failure everything goes into the next commit, a while later.

use peryton_units::Nanos;

use crate::{
    api::command::Commands,
    io::{Io, RequestIndex, Step},
};

/// A commit or a checkpoint that failed is tried again after this time. Host flushes wait meanwhile: a device that goes
/// on failing is fenced soon.
const RETRY: Nanos = Nanos::from_ms(250);

/// What one commit makes durable.
pub(crate) trait Batch: Default {
    /// Moves what came later to the end of this batch. `later` keeps its allocations.
    fn append(&mut self, later: &mut Self);

    /// Empties the batch. It keeps its allocations.
    fn clear(&mut self);

    /// Takes the host flushes out that wait for it.
    fn take_flushes(&mut self) -> Vec<RequestIndex>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    FlushingBefore { left: u32 },
    Writing { left: u32 },
    FlushingAfter { left: u32 },
}

/// Commits, one after the other.
#[derive(Debug)]
pub(crate) struct Group<B> {
    phase: Phase,
    /// For the next commit.
    pub(crate) gathering: B,
    /// What the commit under way makes durable.
    pub(crate) committing: B,
    /// An empty batch whose allocations the next commit uses.
    spare: B,
    /// Something of the commit under way has failed.
    failed: bool,
    /// A commit is to follow as soon as possible.
    pub(crate) wanted: bool,
    /// Something failed: nothing is tried before this time.
    retry_at: Nanos,
    /// Which of the two devices are not fenced.
    pub(crate) alive: [bool; 2],
}

/// What became of a commit.
pub(crate) enum Outcome<B> {
    /// It is durable.
    Durable(B),
    /// Nothing of it is known to be durable: it is part of the next one.
    Failed,
}

/// What came of writing a record.
pub(crate) enum Written {
    /// There is nothing to record.
    Nothing,
    /// The ring has no room.
    NoRoom,
    /// So many writes are in flight.
    InFlight(u32),
}

/// Why a commit was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setback {
    /// A device has failed, or was fenced.
    Failure,
    /// The ring had no room.
    NoRoom,
}

impl<B: Batch> Group<B> {
    pub(crate) fn new() -> Group<B> {
        Group {
            phase: Phase::Idle,
            gathering: B::default(),
            committing: B::default(),
            spare: B::default(),
            failed: false,
            wanted: false,
            retry_at: Nanos::ZERO,
            alive: [true; 2],
        }
    }

    /// Whether no commit is under way.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Whether a failure is so recent that nothing is tried yet.
    pub(crate) fn is_paused(&self, now: Nanos) -> bool {
        now < self.retry_at
    }

    /// Something failed, and is tried again in a while.
    #[cold]
    pub(crate) fn pause<S: Step>(&mut self, io: &mut Io<S>) {
        self.retry_at = io.now.saturating_add(RETRY);
        io.due(self.retry_at);
    }

    /// Declares when a pause after a failure will be over.
    #[cold]
    pub(crate) fn declare_retry<S: Step>(&self, io: &mut Io<S>) {
        io.due(self.retry_at);
    }

    /// Whether the pause after a failure is over; `None` if there is none. Declares when it will be.
    pub(crate) fn retry_is_due<S: Step>(&mut self, io: &mut Io<S>) -> Option<bool> {
        if self.retry_at == Nanos::ZERO {
            return None;
        }
        let due = self.retry_at <= io.now;
        if due {
            self.retry_at = Nanos::ZERO;
        } else {
            io.due(self.retry_at);
        }
        Some(due)
    }

    /// Whether what was gathered first at `since` has waited long enough; otherwise declares when it will have.
    pub(crate) fn is_due<S: Step>(io: &mut Io<S>, since: Nanos) -> bool {
        let due = since.saturating_add(io.tuning.commit_interval);
        if due > io.now {
            io.due(due);
        }
        due <= io.now
    }

    /// The first or the second device is fenced: what is under way with it comes to nothing, and is tried again at once
    /// when that is durable.
    #[cold]
    pub(crate) fn fence(&mut self, which: usize) {
        self.alive[which] = false;
        self.failed = true;
        self.retry_at = Nanos::ZERO;
    }

    /// Nothing keeps the next commit back any more.
    pub(crate) fn forget_failure(&mut self) {
        self.retry_at = Nanos::ZERO;
    }

    fn take_back(&mut self) {
        self.phase = Phase::Idle;
        self.committing.append(&mut self.gathering);
        std::mem::swap(&mut self.committing, &mut self.gathering);
    }

    /// Takes the batch of a commit that is over, so that a later one need not allocate.
    pub(crate) fn recycle(&mut self, mut batch: B) {
        batch.clear();
        self.spare = batch;
    }
}

/// What a placement's commits record, and which flushes they need.
pub(crate) trait Commits {
    /// What the placement's commands are part of.
    type Step: Step;
    /// What one commit makes durable.
    type Batch: Batch;

    /// The commits.
    fn group(&mut self) -> &mut Group<Self::Batch>;

    /// Flushes what has to be durable before the record is written, which is about `committing`; says how many flushes
    /// are in flight for it.
    fn flush_before(&mut self, io: &mut Io<Self::Step>, out: &mut Commands) -> u32;

    /// Those flushes have succeeded.
    fn is_flushed_before(&mut self) {}

    /// Writes the record.
    fn write_record(&mut self, io: &mut Io<Self::Step>, out: &mut Commands) -> Written;

    /// Flushes the record; says how many flushes are in flight for it.
    fn flush_after(&mut self, io: &mut Io<Self::Step>, out: &mut Commands) -> u32;

    /// The commit is durable, with its record if it has one.
    fn is_durable(&mut self, io: &mut Io<Self::Step>, batch: &Self::Batch);

    /// What the commit was about is part of the next one.
    fn is_taken_back(&mut self, io: &mut Io<Self::Step>, why: Setback);

    /// Commits what has been gathered. No commit is under way. The result is `None` while it is.
    fn start(&mut self, io: &mut Io<Self::Step>, out: &mut Commands) -> Option<Outcome<Self::Batch>> {
        let group = self.group();
        debug_assert!(group.is_idle(), "one commit at a time");
        group.failed = false;
        group.committing = std::mem::replace(&mut group.gathering, std::mem::take(&mut group.spare));
        let left = self.flush_before(io, out);
        self.group().phase = Phase::FlushingBefore { left };
        if left == 0 { self.flushed_before(io, out) } else { None }
    }

    /// A command of the commit under way has completed.
    fn commit_step(
        &mut self,
        io: &mut Io<Self::Step>,
        failed: bool,
        out: &mut Commands,
    ) -> Option<Outcome<Self::Batch>> {
        let group = self.group();
        group.failed |= failed;
        let left = match &mut group.phase {
            Phase::FlushingBefore { left } | Phase::Writing { left } | Phase::FlushingAfter { left } => left,
            Phase::Idle => unreachable!("a commit step completed while no commit was under way"),
        };
        *left -= 1;
        if *left > 0 {
            return None;
        }
        match group.phase {
            Phase::FlushingBefore { .. } => self.flushed_before(io, out),
            Phase::Writing { .. } if !group.failed => {
                let left = self.flush_after(io, out);
                self.group().phase = Phase::FlushingAfter { left };
                if left == 0 { Some(self.end(io)) } else { None }
            }
            _ => Some(self.end(io)),
        }
    }

    /// All flushes that come before the record are done.
    fn flushed_before(&mut self, io: &mut Io<Self::Step>, out: &mut Commands) -> Option<Outcome<Self::Batch>> {
        if self.group().failed {
            return Some(self.end(io));
        }
        self.is_flushed_before();
        match self.write_record(io, out) {
            Written::Nothing => Some(self.end(io)),
            Written::InFlight(left) => {
                self.group().phase = Phase::Writing { left };
                None
            }
            Written::NoRoom => {
                self.group().take_back();
                self.is_taken_back(io, Setback::NoRoom);
                Some(Outcome::Failed)
            }
        }
    }

    /// The commit is over, one way or the other.
    fn end(&mut self, io: &mut Io<Self::Step>) -> Outcome<Self::Batch> {
        let group = self.group();
        if group.failed {
            group.take_back();
            self.is_taken_back(io, Setback::Failure);
            return Outcome::Failed;
        }
        group.phase = Phase::Idle;
        let batch = std::mem::take(&mut group.committing);
        io.is_durable();
        self.is_durable(io, &batch);
        Outcome::Durable(batch)
    }
}
