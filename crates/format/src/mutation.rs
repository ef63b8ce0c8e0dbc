//! Deliberate mistakes, made one at a time, to show that the crash simulation finds them. Without the feature
//! `mutants`, [`is`] is always false.

/// Declares [`Mutation`], and the list of its variants.
macro_rules! mutations {
    ($($(#[$doc:meta])* $mutation:ident,)*) => {
        /// A deliberate mistake.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[cfg_attr(not(feature = "mutants"), allow(dead_code))]
        #[repr(u8)]
        pub enum Mutation {
            $($(#[$doc])* $mutation,)*
        }

        #[cfg(feature = "mutants")]
        impl Mutation {
            /// Every mutation.
            pub const ALL: &[Mutation] = &[$(Mutation::$mutation),*];
        }
    };
}

mutations! {
    /// A commit does not flush the fast device's data before it writes the journal.
    SkipFastDataFlush,
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
    /// Updates that wait for the slow device's flush are committed without it.
    CommitWithoutSlowFlush,
    /// A flush of a journal block on the slow device is not recorded, so updates that the host's writes need are left
    /// behind.
    ForgetSlowWasFlushed,
    /// A commit never leaves a part of its changes to the next one.
    CommitAllOrNothing,
    /// An update is committed after a later one that replaced it.
    KeepOvertaken,
    /// The checksums of metadata are not checked.
    TrustChecksums,
    /// The second device's copy of the journal lacks the last update.
    MirrorWrongCopy,
    /// Commits that make a further region newer on the fast device do not go to the slow device.
    NameNothing,
    /// A checkpoint leaves out blocks of the map that changed while it was last written.
    LeaveOutChangedBlocks,
    /// A checkpoint leaves out blocks of masks that changed.
    LeaveOutMasks,
    /// The attempt after a failed checkpoint leaves out its blocks.
    LeaveOutFailedBlocks,
    /// Commits do not name the regions that they should.
    NameNoRegions,
    /// Replay leaves out the newest commit.
    ReplayOneLess,
    /// Replay applies updates in the wrong order.
    ReplayBackwards,
    /// Recovery does not read the journal.
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
    /// The shared memory does not record that the origin of a copy is being written.
    ForgetOriginWrites,
    /// A write that only one device has is forgotten when a later write reaches both devices.
    ForgetFailedCopies,
    /// Write-through writes the copy only, and answers.
    ThroughWithoutOrigin,
    /// Data of an earlier tenant of a place is not zeroed.
    ShowStale,
    /// After a crash, free places count as never used.
    ForgetStale,
    /// A write that bypasses the copy is answered before the copy is given up.
    AnswerPastEarly,
    /// A failed read of a dirty copy is served from its older origin.
    ReadOldOrigin,
    /// Only one of the two copies of the superblock is written.
    OneSuperblock,
    /// A generation begins without being announced in the superblocks.
    SkipAnnouncement,
    /// A device from an earlier generation is accepted.
    AcceptStale,
    /// A foreign write to a closed device is not noticed.
    AcceptChanged,
    /// Closing does not write the map.
    CloseWithoutMap,
    /// Closing does not skip the number of a failed commit.
    CloseReusesNumber,
    /// A device is clean before the others say that the volume is being closed.
    SkipClosing,
    /// The survivors do not record that a device is gone.
    ForgetGone,
    /// After the loss of a cache, its dirty data count as present at the origin.
    ForgetLost,
    /// The shared memory gets no records for the next server.
    KeepNothing,
    /// A write whose data are only in the memory of the process is answered.
    AnswerFromRam,
    /// Writes of a process that died are not flushed before a recovery relies on them.
    OpenUnflushed,
    /// After a failed flush nothing is put in doubt, and the next flush counts.
    TrustFailedFlush,
    /// A failed flush of a device fails no flush of the host.
    KeepFailedFlush,
    /// Commits go on before the map is rolled back.
    CommitInDoubt,
    /// A read that was in flight when a flush failed is answered with data that may be gone.
    ReadInDoubt,
    /// Writes that were under way when a flush failed are not in doubt.
    ForgetWritesInFlight,
    /// Data that a log had when it was opened are not compared with their checksums.
    VerifyNothing,
    /// A new copy on the fast device stays valid after that device has failed a flush.
    RevertNewCopies,
    /// A volume is closed though a flush has failed and the host was not notified.
    CloseInDoubt,
    /// A log goes on after a failed flush.
    LogGoesOn,
    /// Extents of a run are written back from the start of the buffer, although extents before them were left out.
    SweepFromStart,
    /// After a crash the copies of a write-through cache are valid, though only their origins were flushed.
    TrustUnflushedCopies,
    /// A write that goes to copy and origin at the limit of dirty data reaches the copy only, which stays clean.
    ThrottleWithoutOrigin,
    /// A block counts as being on the fast device before it is written there.
    ValidBeforeData,
    /// A read of a block that the fast device does not have is served from there.
    ReadInvalid,
    /// An eviction writes only the first of the dirty blocks back, and drops the others.
    EvictFirstRun,
    /// A block that the host has written while it was written back counts as clean after it.
    CleanRewrittenBlock,
    /// A map change for one block of an extent also makes another block clean, whose write to the origin was not flushed.
    CleanWithoutSlowFlush,
    /// A fill replaces dirty blocks.
    FillOverDirty,
    /// A read that brings in the blocks around it brings in lost ones too, as the origin had them before.
    FillOverLost,
    /// A read across a dirty block takes that block from the slow device, too.
    ReadOverDirty,
    /// A fill replaces blocks that the host has written since the fill read them.
    FillOverRewritten,
    /// A fill does not copy the data from the buffer of the host's request.
    BringNothing,
    /// A read joins a fill although a write to the origin was under way before the fill began.
    JoinBesideWrites,
    /// A write that goes to the origin first leaves the old blocks valid in the copy.
    TrustOverwritten,
    /// Recovery takes every extent on the fast device for whole.
    ForgetMasks,
    /// The masks in the records of the killed server are ignored.
    TakeOverEntriesOnly,
    /// A block that only a lost slow device had reads as whatever its place on the fast device contains.
    ForgetLostBlocks,
    /// Clean blocks of a partly dirty extent stay after a failed write that bypassed the copy.
    KeepCleanPastFailure,
    /// Snapshots of what the cache has learnt are written over the end of the data.
    SnapshotOverData,
    /// A volume whose last snapshot is torn is not opened.
    RefuseTornSnapshot,
    /// A write to a range that was already copied to a replacement device goes to the old device only.
    ForgetSuccessor,
    /// A write is answered when only one of the old device and its replacement has it, while a crash may put either in use.
    AnswerOnOne,
    /// A range that is written while it is copied to a replacement device counts as copied.
    TrustCopiedOver,
    /// A replacement takes its place before its own superblock says which device it is.
    SucceedUnnamed,
    /// A device is accepted that was replaced while the volume was served.
    AcceptReplaced,
    /// A replacement device is accepted although its copy was not complete.
    AcceptAside,
    /// A unit of the slow device is completed with blocks that were read before the host wrote them.
    CompleteFromOldRead,
    /// A write of the host goes to blocks of the slow device that a write-back is writing to complete a unit.
    PassCompletion,
    /// The superblocks record a resized device before the map for the new size is written.
    SwitchBeforeMap,
    /// Dirty extents beyond the end of a device that shrinks are dropped.
    DropBeyondEnd,
    /// The part by which a device has grown counts as zeros.
    TrustGrownPart,
    /// Places on the slow device keep their numbers when the fast device grows, although they are counted after its places.
    KeepSlowPlaces,
    /// A copy on a device that comes back counts although its extent was written without the device.
    BelieveReturned,
    /// A device comes back that was used without the others after it was given up.
    AcceptUsedAlone,
    /// A device leaves the volume although it has the only copy of some data.
    LeaveDirty,
    /// A volume is not opened without a device that was evacuated.
    ForgetEvacuated,
    /// A log frees segments although a primary that is gone may lack what they have.
    FreeWhatGoneLacks,
    /// A log does not record what has migrated to the other primaries while one is gone.
    ForgetWhatMigrated,
    /// A primary comes back although a write to it was in doubt when it was given up.
    TakeBackAnyPrimary,
}

/// The mistake that is being made, by its place in the list, counted from 1; 0 if none is.
#[cfg(feature = "mutants")]
static MADE: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Makes this mistake from now on, in the whole process; `None` ends it.
#[cfg(feature = "mutants")]
pub fn make(mutation: Option<Mutation>) {
    MADE.store(mutation.map_or(0, |mutation| mutation as u8 + 1), std::sync::atomic::Ordering::SeqCst);
}

/// Whether this mistake is being made.
#[cfg(feature = "mutants")]
pub fn is(mutation: Mutation) -> bool {
    MADE.load(std::sync::atomic::Ordering::Relaxed) == mutation as u8 + 1
}

/// Whether this mistake is being made: never, without the feature `mutants`.
#[cfg(not(feature = "mutants"))]
#[inline(always)]
pub const fn is(_: Mutation) -> bool {
    false
}
