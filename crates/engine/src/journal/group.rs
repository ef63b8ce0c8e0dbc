//! The phases of a commit: `Idle → FlushingBefore → Writing → FlushingAfter → Idle`. A record may only refer to durable
//! data, so the data is flushed before the record is written. The record is flushed before anything that waits for it
//! continues. Changes that arrive meanwhile are gathered for the next commit. A commit that fails is joined to the next
//! one, which starts after a pause.

use peryton_units::Nanos;

use crate::io::{Call, Io, RequestIndex, Step};

/// The changes that one commit makes durable.
pub(crate) trait Batch: Default {
    /// Moves what came later to the end of this batch. `later` keeps its allocations.
    fn append(&mut self, later: &mut Self);

    /// Empties the batch. It keeps its allocations.
    fn clear(&mut self);

    /// Removes and returns the host flushes that wait for this batch.
    fn take_flushes(&mut self) -> Vec<RequestIndex>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    FlushingBefore { left: u32 },
    Writing { left: u32 },
    FlushingAfter { left: u32 },
}

/// The commits of one journal. One commit at a time is under way.
#[derive(Debug)]
pub(crate) struct Group<B> {
    phase: Phase,
    /// Changes for the next commit.
    pub(crate) gathering: B,
    /// Changes that the commit under way makes durable.
    pub(crate) committing: B,
    /// An empty batch whose allocations the next commit uses.
    spare: B,
    /// Whether a command of the commit under way has failed.
    failed: bool,
    /// Whether a commit should start as soon as possible.
    pub(crate) wanted: bool,
    /// No commit is tried before this time; zero if nothing has failed.
    retry_at: Nanos,
    /// Which of the two devices are not fenced.
    pub(crate) alive: [bool; 2],
}

/// The result of a commit.
pub(crate) enum Outcome<B> {
    /// The batch is durable.
    Durable(B),
    /// The batch is not known to be durable; its changes were moved to the next commit.
    Failed,
}

/// The result of writing a record.
pub(crate) enum Written {
    /// The batch has nothing to record.
    Nothing,
    /// The ring has no room.
    NoRoom,
    /// The number of writes that were issued.
    InFlight(u32),
}

/// Why a batch was moved to the next commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Setback {
    /// A device has failed or was fenced.
    Failure,
    /// The ring had no room for the record.
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

    /// Whether the pause after a failure is not over yet.
    pub(crate) fn is_paused(&self, now: Nanos) -> bool {
        now < self.retry_at
    }

    /// Starts the pause after a failure.
    #[cold]
    pub(crate) fn pause<S: Step>(&mut self, io: &mut Io<S>) {
        self.retry_at = io.retries_at();
    }

    /// Starts it, or makes it at least so long from now on.
    #[cold]
    pub(crate) fn pause_at_least<S: Step>(&mut self, io: &mut Io<S>, span: Nanos) {
        self.retry_at = io.retries_at().max(io.now.saturating_add(span));
    }

    /// Asks to be called again when the pause after a failure ends.
    #[cold]
    pub(crate) fn declare_retry<S: Step>(&self, io: &mut Io<S>) {
        io.due(self.retry_at);
    }

    /// Whether the pause after a failure is over; `None` if there was none. If it is not over, asks to be called when
    /// it is.
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

    /// Whether changes gathered since `since` have waited for the commit interval; if not, asks to be called when they
    /// have.
    pub(crate) fn is_due<S: Step>(io: &mut Io<S>, since: Nanos) -> bool {
        let due = since.saturating_add(io.tuning.commit_interval);
        if due > io.now {
            io.due(due);
        }
        due <= io.now
    }

    /// Fails the commit under way because the first or the second device is fenced. Its changes are committed again,
    /// without a pause, as soon as the fencing is durable.
    #[cold]
    pub(crate) fn fence(&mut self, which: usize) {
        self.alive[which] = false;
        self.failed = true;
        self.retry_at = Nanos::ZERO;
    }

    /// Ends the pause after a failure.
    pub(crate) fn forget_failure(&mut self) {
        self.retry_at = Nanos::ZERO;
    }

    /// Fails the commit under way because a device has failed a flush: its data may be lost, even if a later flush succeeds.
    #[cold]
    pub(crate) fn flush_failed(&mut self) {
        self.failed = true;
    }

    /// Removes and returns the host flushes that wait for a commit.
    #[cold]
    pub(crate) fn take_flushes(&mut self) -> Vec<RequestIndex> {
        let mut flushes = self.committing.take_flushes();
        flushes.append(&mut self.gathering.take_flushes());
        flushes
    }

    fn requeue(&mut self) {
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
    /// The placement's type for the purpose of a command.
    type Step: Step;
    /// The changes that one commit makes durable.
    type Batch: Batch;

    /// Returns the state of the commits.
    fn group(&mut self) -> &mut Group<Self::Batch>;

    /// Flushes what must be durable before the record of `committing` is written. Returns how many flushes were issued.
    fn preflush(&mut self, io: &mut Call<Self::Step>) -> u32;

    /// Called when those flushes have succeeded.
    fn on_preflushed(&mut self) {}

    /// Writes the record.
    fn write_record(&mut self, io: &mut Call<Self::Step>) -> Written;

    /// Flushes the record. Returns how many flushes were issued.
    fn postflush(&mut self, io: &mut Call<Self::Step>) -> u32;

    /// Called when the batch is durable, with its record if it has one.
    fn on_durable(&mut self, io: &mut Io<Self::Step>, batch: &Self::Batch);

    /// Called when the batch has been moved to the next commit.
    fn on_taken_back(&mut self, io: &mut Io<Self::Step>, why: Setback);

    /// Starts a commit of the gathered changes; no other commit may be under way. Returns `None` if the commit has
    /// issued commands and waits for them.
    fn start(&mut self, io: &mut Call<Self::Step>) -> Option<Outcome<Self::Batch>> {
        let group = self.group();
        debug_assert!(group.is_idle(), "one commit at a time");
        group.failed = false;
        group.committing = std::mem::replace(&mut group.gathering, std::mem::take(&mut group.spare));
        let left = self.preflush(io);
        self.group().phase = Phase::FlushingBefore { left };
        if left == 0 { self.flushed_before(io) } else { None }
    }

    /// Handles a completed command of the commit under way. Returns `None` while the commit continues.
    fn commit_step(&mut self, io: &mut Call<Self::Step>, failed: bool) -> Option<Outcome<Self::Batch>> {
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
            Phase::FlushingBefore { .. } => self.flushed_before(io),
            Phase::Writing { .. } if !group.failed => {
                let left = self.postflush(io);
                self.group().phase = Phase::FlushingAfter { left };
                if left == 0 { Some(self.end(io)) } else { None }
            }
            _ => Some(self.end(io)),
        }
    }

    /// Writes the record once all flushes that precede it have completed.
    fn flushed_before(&mut self, io: &mut Call<Self::Step>) -> Option<Outcome<Self::Batch>> {
        if self.group().failed {
            return Some(self.end(io));
        }
        self.on_preflushed();
        match self.write_record(io) {
            Written::Nothing => Some(self.end(io)),
            Written::InFlight(left) => {
                self.group().phase = Phase::Writing { left };
                None
            }
            Written::NoRoom => {
                self.group().requeue();
                self.on_taken_back(io, Setback::NoRoom);
                Some(Outcome::Failed)
            }
        }
    }

    /// Ends the commit under way, whether it succeeded or failed.
    fn end(&mut self, io: &mut Io<Self::Step>) -> Outcome<Self::Batch> {
        let group = self.group();
        if group.failed {
            group.requeue();
            self.on_taken_back(io, Setback::Failure);
            return Outcome::Failed;
        }
        group.phase = Phase::Idle;
        let batch = std::mem::take(&mut group.committing);
        io.on_durable();
        self.on_durable(io, &batch);
        Outcome::Durable(batch)
    }
}
