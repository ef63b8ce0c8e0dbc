//! What the cache does after a device has failed a flush. Everything that was written to the device since its last good flush may be lost,
//! and the device reports this only once: its next flush succeeds without the data. So the map is rolled back to what is durable.
//!
//! Everything is held: nothing begins, no commit goes on, and no access is answered. What is in flight is waited for. Then the extents
//! whose changes are not durable return to their entries in the durable map, moves are dropped, and the accesses that were in flight,
//! those that waited and those that have arrived meanwhile are carried out. A flush of the host fails if the host was told of a change that
//! no commit covers. The next commit waits for as long as the accesses were held, so that they come to an end even if each flush fails.
//!
//! *Why this is right.* A failed flush loses some of what its device was given since its last good flush; a power loss loses some of what
//! both were given. Recovery from the durable map finds all flushed data after any power loss, because a commit is written only after the
//! data that it names are flushed, and because a place is free for others only after the commit that gives it up. So it finds them here.
//! Power losses and process deaths differ in one respect: their recovery may keep clean copies, and this one drops those of the extents that
//! it settles. A commit calls a copy clean only after a flush of the origin, so the origin has what was flushed.
//!
//! - *Tiering*: an extent returns to its durable place; without one it is not mapped, and its place is zeroed before it is used.
//! - *Write-back and partitioned*: blocks that the durable map calls dirty stay in or return to their slot. Other blocks are read from their
//!   origin. So is an extent without dirty blocks, if only the fast device has failed the flush.
//! - *Write-through and write-around*: origins are flushed without commits, and have everything. If the slow device fails the flush, commits
//!   may have called copies clean before that, so all clean copies go. They also go if a write to both devices may be lost, which no
//!   commit records.
//!
//! If the slow device of a cache is gone, copies have no origin: those of the map stay, except that after a failed flush of the fast device
//! only blocks count that the durable map has in the same place. A copy comes back that no commit has given up yet, if nothing newer was at
//! its origin. What is lost stays lost.

use peryton_format::mutation::{self, Mutation};
use peryton_units::{Nanos, Op};

use crate::{
    api::command::{DeviceId, Request},
    cache::access::{Follows, Fragment, Mode, Release},
    cache::drive::CacheDrive,
    cache::movers::table::{Kind, Move},
    cache::settling::sorted,
    cache::step::{CacheCall, CacheCommand, CacheIo, CacheStep},
    io::RequestIndex,
};

/// What waits for the rollback, and what it has to know.
#[derive(Debug, Default)]
pub(in crate::cache) struct Held {
    /// Requests that have arrived since.
    requests: Vec<(RequestIndex, Request)>,
    /// Accesses that were in flight or waited.
    accesses: Vec<Fragment>,
    /// Whether the fast and the slow device have failed a flush.
    failed: [bool; 2],
    /// Clean copies and their origins may differ, wherever they are.
    all_copies: bool,
    /// The host may have lost data.
    notify_host: bool,
    /// Since when everything is held.
    since: Nanos,
}

impl Held {
    /// A request has arrived.
    pub(in crate::cache) fn request(&mut self, io: &mut CacheIo, request: RequestIndex, asked: Request) {
        io.add_part(request);
        self.requests.push((request, asked));
    }
}

impl CacheDrive {
    /// Holds everything, because a flush of the device has failed.
    #[cold]
    pub(in crate::cache) fn hold(&mut self, io: &mut CacheIo, device: DeviceId) {
        if mutation::is(Mutation::TrustFailedFlush) {
            return;
        }
        self.journal.flush_failed();
        io.rolls_back = true;
        let which = usize::from(device == self.layout.slow);
        let is_unsure = |stamps: [u64; 2]| !io.is_flushed(device, stamps[which]);
        let all_copies = self.wrote_both.is_some_and(is_unsure) || which == 1 && self.journal.clean_before_slow_flush;
        let has_only_copies = which == 0 && self.journal.never_dirty;
        let untold = io.changes_answered() > self.journal.covered || !self.volatile.is_empty();
        let held = self.held.get_or_insert_with(|| Box::new(Held { since: io.now, ..Held::default() }));
        held.failed[which] = true;
        held.all_copies |= all_copies;
        held.notify_host |= untold && !has_only_copies;
    }

    /// A command has ended while everything is held. What it did does not count: its accesses are carried out again.
    #[cold]
    pub(in crate::cache) fn ended_while_held(
        &mut self,
        io: &mut CacheCall,
        step: CacheStep,
        command: &CacheCommand,
        failed: bool,
    ) {
        let (request, first, count) = match step {
            CacheStep::Host { request, first_extent, count, .. } => (request, first_extent, count),
            CacheStep::Allocating { request, extent } => {
                self.allocating_writes -= 1;
                (request, extent, 1)
            }
            CacheStep::Commit => return self.commit_step(io, failed),
            CacheStep::Checkpoint => return self.checkpoint_step(io, command.device, failed),
            CacheStep::Snapshot => return self.snapshot_step(io, failed),
            CacheStep::Discarded { place } => return self.place_discarded(place),
            // Its buffer holds answered writes.
            CacheStep::Move { index } if self.moves[index].ram_dirty => return self.move_step(io, index, failed),
            CacheStep::Through { .. } | CacheStep::Move { .. } | CacheStep::Missing { .. } | CacheStep::Run { .. } => {
                return;
            }
        };
        for part in self.parts_of(command, (first, count)) {
            self.map.entry_mut(part.extent).in_flight -= 1;
            if command.op != Op::Read || !mutation::is(Mutation::ReadInDoubt) {
                io.add_part(request);
                self.ready.accesses([part.again(request, command.op, command.len)]);
            }
        }
        io.part_done(request, Ok(()));
    }

    /// Rolls back once nothing is in flight that reads or writes data.
    #[cold]
    pub(in crate::cache) fn roll_back_if_quiet(&mut self, io: &mut CacheCall) {
        let Some(held) = &mut self.held else { return };
        held.accesses.extend(self.ready.take_accesses());
        if !io.has_data_in_flight() && self.journal.group.is_idle() {
            self.roll_back(io);
        }
    }

    #[cold]
    fn roll_back(&mut self, io: &mut CacheCall) {
        let mut extents = self.drop_moves(io);
        let Some(mut held) = self.held.take() else { return };
        held.accesses.extend(self.ready.take_accesses());
        let writes = held.accesses.iter().filter(|access| access.op != Op::Read);
        extents.extend(writes.map(|access| access.extent));
        extents.extend(self.journal.updated());
        if held.all_copies && self.mode == Mode::Caching {
            extents.extend(self.map.entries().filter(|(_, entry)| entry.place().is_some()).map(|(extent, _)| extent));
        }
        if self.journal.durable.is_some() {
            self.journal.forget_updates();
            for extent in sorted(extents) {
                self.settle_in(io, extent, self.sure(extent, held.failed));
            }
        }
        if self.gone.any() {
            self.settle_losses(io);
        }
        io.rolls_back = false;
        if held.notify_host && !mutation::is(Mutation::KeepFailedFlush) && !self.flushes_fail(io) {
            io.owe_error();
        }
        let held_for = io.now.saturating_sub(held.since);
        self.journal.rolled_back(io, held_for);
        self.ready.accesses(held.accesses);
        self.ready.move_ended();
        self.ready.place_freed();
        self.ready.commit();
        io.due_in(Nanos::ZERO);
        for (request, asked) in held.requests {
            self.split(io, request, asked);
            io.part_done(request, Ok(()));
        }
    }

    /// Ends all moves and writes to both devices; what waited for them is ready. Returns their extents.
    fn drop_moves(&mut self, io: &mut CacheCall) -> Vec<u32> {
        let mut extents = Vec::new();
        for write in std::mem::take(&mut self.through_in_flight) {
            let row = &mut self.through[write];
            let (fragment, waiters) = (row.fragment, std::mem::take(&mut row.waiters));
            self.through.remove(write);
            self.map.entry_mut(fragment.extent).in_flight -= 1;
            self.map.differs_no_more(fragment.extent);
            self.ready.accesses(std::iter::once(fragment).chain(waiters));
            extents.push(fragment.extent);
        }
        let is_under_way = |index: u32, row: &Move| self.map.entry(row.extent).moving() == Some(index);
        let rows = self.moves.all().filter(|(index, row)| is_under_way(*index, row));
        let moves: Vec<u32> = rows.map(|(index, _)| index).collect();
        for index in moves {
            let row = &mut self.moves[index];
            let (kind, to, extent) = (row.kind, row.to, row.extent);
            let waiting = std::mem::take(&mut row.answers).into_iter().chain(row.trigger.take());
            self.ready.accesses(waiting);
            row.pending = 0;
            if let (Kind::Promotion | Kind::Overwrite | Kind::Demotion | Kind::Zero, Some(to)) = (kind, to) {
                self.give_up(to, Release::NeverUsed);
            }
            extents.push(extent);
            self.end(io, index);
        }
        self.allocation_waiters.clear();
        self.journal.forget_moves();
        self.follows = Follows::new();
        extents
    }
}
