//! Mistakes on purpose, one at a time, to show that the crash simulation finds them. Without the feature `mutants` every
//! question whether one is made is a constant no.

/// A mistake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "mutants"), allow(dead_code))]
#[repr(u8)]
pub enum Mutation {
    /// A commit does not flush the fast device's data before it writes the journal.
    SkipFastDataFlush = 1,
    /// A commit does not flush the slow device's data before it writes the journal.
    SkipSlowDataFlush,
    /// A commit counts as durable once the journal is written, without a flush.
    SkipJournalFlush,
    /// A host flush is answered without a commit.
    AnswerFlushAtOnce,
    /// One of several host flushes that wait for a commit is forgotten.
    ForgetWaiter,
    /// A place is free for reuse before the commit that freed it is durable.
    ReuseBeforeCommit,
    /// The map points to a promoted extent's new place before the data is there.
    CommitBeforeData,
    /// Updates that wait for the slow device are committed without its flush.
    HomeboundUnflushed,
    /// A flush of the journal hides the host's writes, so that the updates that they need are left behind.
    ForgetSlowWasFlushed,
    /// An update that a later one has overtaken is committed after it.
    KeepOvertaken,
    /// Checksums of metadata are not looked at.
    TrustChecksums,
    /// The second device's copy of the journal lacks the last update.
    MirrorWrongCopy,
    /// Replay leaves out the newest commit.
    ReplayOneLess,
    /// Replay applies updates in the wrong order.
    ReplayBackwards,
    /// Recovery does not look into the journal at all.
    IgnoreJournal,
    /// Recovery gives a torn commit's number to the next one.
    ReuseCommitNumber,
    /// Each checkpoint overwrites the one before.
    WrongCheckpointTurn,
    /// A checkpoint's header is written before its entries are flushed.
    HeaderBeforeEntries,
    /// A checkpoint frees its part of the ring when it begins.
    FreeRingEarly,
    /// The dirty flag does not reach the map.
    LoseDirtyFlag,
    /// After a crash with write-back, clean copies stay clean.
    TrustCleanCopies,
    /// After a crash with write-through, clean copies are kept.
    KeepCleanCopies,
    /// Write-through writes the copy only, and answers.
    ThroughWithoutHome,
    /// What is left of an earlier tenant is not zeroed.
    ShowStale,
    /// After a crash, free places count as never used.
    ForgetStale,
    /// A write past the copy is answered before the copy is given up.
    AnswerPastEarly,
    /// A failed read of a dirty copy is served from its older home.
    ReadOldHome,
    /// Only one of the two copies of the superblock is written.
    OneSuperblock,
    /// A generation begins without being announced.
    SkipAnnouncement,
    /// A device from an earlier generation is accepted.
    AcceptStale,
    /// What another program wrote to a closed device is not noticed.
    AcceptChanged,
    /// Closing does not write the map.
    CloseWithoutMap,
    /// Closing leaves a failed commit's number to be believed.
    CloseReusesNumber,
    /// The survivors are not told that a device is gone.
    ForgetGone,
    /// What only a dead cache had counts as what its home has.
    ForgetLost,
}

#[cfg(feature = "mutants")]
impl Mutation {
    /// All of them.
    pub const ALL: [Mutation; 35] = {
        use Mutation::*;
        [
            SkipFastDataFlush,
            SkipSlowDataFlush,
            SkipJournalFlush,
            AnswerFlushAtOnce,
            ForgetWaiter,
            ReuseBeforeCommit,
            CommitBeforeData,
            HomeboundUnflushed,
            ForgetSlowWasFlushed,
            KeepOvertaken,
            TrustChecksums,
            MirrorWrongCopy,
            ReplayOneLess,
            ReplayBackwards,
            IgnoreJournal,
            ReuseCommitNumber,
            WrongCheckpointTurn,
            HeaderBeforeEntries,
            FreeRingEarly,
            LoseDirtyFlag,
            TrustCleanCopies,
            KeepCleanCopies,
            ThroughWithoutHome,
            ShowStale,
            ForgetStale,
            AnswerPastEarly,
            ReadOldHome,
            OneSuperblock,
            SkipAnnouncement,
            AcceptStale,
            AcceptChanged,
            CloseWithoutMap,
            CloseReusesNumber,
            ForgetGone,
            ForgetLost,
        ]
    };
}

#[cfg(feature = "mutants")]
static MADE: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Makes this mistake from now on, in the whole process; `None`: none.
#[cfg(feature = "mutants")]
pub fn make(mutation: Option<Mutation>) {
    MADE.store(mutation.map_or(0, |mutation| mutation as u8), std::sync::atomic::Ordering::SeqCst);
}

/// Whether this mistake is being made.
#[cfg(feature = "mutants")]
pub fn is(mutation: Mutation) -> bool {
    MADE.load(std::sync::atomic::Ordering::Relaxed) == mutation as u8
}

/// Whether this mistake is being made: never, without the feature `mutants`.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn is(_: Mutation) -> bool {
    false
}
