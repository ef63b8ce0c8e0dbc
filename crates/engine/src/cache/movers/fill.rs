//! Fills: adjacent blocks that a slot lacks are read from the slow device, served to the waiting accesses, and written to the slot.

use peryton_format::{
    blocks::Masks,
    mutation::{self, Mutation},
};
use peryton_units::{Bytes, Op};

use crate::{
    api::command::{Buffer, Cause, Command, Commands},
    cache::access::{Follow, Fragment, Part, Then},
    cache::blocks::first_run,
    cache::drive::CacheDrive,
    cache::map::extent::Extent,
    cache::movers::table::{Kind, Move, Phase},
    cache::ready::Ready,
    cache::step::{CacheCall, CacheIo},
};

impl CacheDrive {
    /// Starts a fill of these blocks. If the extent is in use, the fill begins when it is not, and new accesses wait. Returns false if
    /// another move is under way for the extent, or if too many moves are under way.
    pub(in crate::cache) fn start_fill(&mut self, io: &mut CacheCall, extent: u32, blocks: u16) -> bool {
        let Some(index) = self.new_fill(io, extent, blocks) else { return false };
        if self.moves[index].phase == Phase::Reading {
            self.move_read(io, index, self.origin_of(extent), Cause::Promotion);
        }
        true
    }

    /// Starts a fill of the blocks of a fragment that the caller reads from the slow device for the host. So a request's read of
    /// neighbouring extents stays one command. A fill that already reads other blocks of the extent takes these as well. Does nothing if
    /// another move is under way for the extent, if it is in use, or if too many moves are under way.
    pub(in crate::cache) fn bring_with(&mut self, io: &mut CacheIo, fragment: Fragment, blocks: u16) -> Follow {
        let entry = self.map.entry(fragment.extent);
        let index = match entry.moving() {
            Some(index) => {
                let being_read = self.being_read(entry);
                if being_read == 0 || being_read & blocks != 0 {
                    return Follow::NOTHING;
                }
                index
            }
            None if entry.in_flight > 0 => return Follow::NOTHING,
            None => match self.new_fill(io, fragment.extent, blocks) {
                Some(index) => index,
                None => return Follow::NOTHING,
            },
        };
        self.feed_from(fragment, index, blocks)
    }

    /// The command of a fragment brings these blocks of a fill when it ends.
    fn feed_from(&mut self, fragment: Fragment, index: u32, blocks: u16) -> Follow {
        let row = &mut self.moves[index];
        row.blocks |= blocks;
        row.pending += 1;
        self.follows.add(fragment.extent, Then::Feed(index), Follow::NOTHING)
    }

    /// A write goes to the origin alone, and a fill copies its blocks to the slot when the origin has them: the request need not wait for the
    /// fast device. Until then the copy lacks these blocks, and overlapping writes go on as on the slow device alone. Returns `None`, and
    /// does nothing, if [`CacheDrive::may_follow_its_origin`] forbids it: then the write goes to both devices.
    pub(in crate::cache) fn bring_from_write(
        &mut self,
        io: &mut CacheIo,
        fragment: Fragment,
        blocks: u16,
    ) -> Option<Follow> {
        let extent = fragment.extent;
        let entry = self.map.entry(extent);
        let (place, in_use, masks) = (entry.place(), entry.in_flight > 0, self.map.masks_of(extent));
        let joins = entry.moving().filter(|_| self.being_read(entry) != 0);
        let may_begin = entry.moving().is_none() && self.copying < io.tuning.max_moves;
        if joins.is_none() && !may_begin || !self.may_follow_its_origin(fragment) {
            return None;
        }
        if !mutation::is(Mutation::TrustOverwritten) {
            let changed = self.map.set_masks(extent, Masks::new(masks.valid() & !blocks, 0), io.now);
            self.record(io, changed, false);
        }
        let index = match joins {
            Some(index) => index,
            None => self.start(Kind::Fill, Phase::Reading, extent, place, None),
        };
        let row = &mut self.moves[index];
        // Writes to other blocks may be on their way to the origin, so a read that joins this fill may be older than they are: the fill
        // leaves those blocks out. No earlier write goes to the origin alone with these blocks, because the copy had them.
        if joins.is_none() && in_use && !mutation::is(Mutation::JoinBesideWrites) {
            row.rewritten_blocks = u16::MAX;
        }
        row.rewritten_blocks &= !blocks;
        Some(self.feed_from(fragment, index, blocks))
    }

    /// Whether the copy may take a write's data once the origin has them: after a crash no copy counts, and no other
    /// condition needs the full write path.
    pub(in crate::cache) fn may_follow_its_origin(&self, fragment: Fragment) -> bool {
        self.journal.never_dirty
            && !self.gone.any()
            && self.map.masks_of(fragment.extent).differs_from_origin() == 0
            && self.covered(fragment) == self.touched(fragment)
            && !self.is_written_through(fragment.extent)
    }

    fn new_fill(&mut self, io: &mut CacheIo, extent: u32, blocks: u16) -> Option<u32> {
        let entry = self.map.entry(extent);
        if entry.moving().is_some() {
            return None;
        }
        if self.copying >= io.tuning.max_moves {
            io.stats.moves.cancelled.move_limit += 1;
            return None;
        }
        let in_use = entry.in_flight > 0;
        // In partitioned a bypassing write treats any move that it meets as a detach, so no fill may begin beside it.
        if in_use && self.controller.is_some() {
            return None;
        }
        let place = entry.place();
        entry.slot()?;
        let phase = if in_use { Phase::Draining } else { Phase::Reading };
        let index = self.start(Kind::Fill, phase, extent, place, None);
        self.moves[index].blocks = blocks;
        self.map.entry_mut(extent).misses = 0;
        Some(index)
    }

    /// The blocks of an extent that are being read to be brought in.
    pub(in crate::cache) fn being_read(&self, entry: &Extent) -> u16 {
        match entry.moving().map(|index| &self.moves[index]) {
            Some(row) if row.kind == Kind::Fill && row.phase == Phase::Reading => row.blocks,
            _ => 0,
        }
    }

    /// Copies a fill's blocks from the buffer of a read or write of the host that has ended. The buffer stays until the request is answered.
    pub(in crate::cache) fn feed(&mut self, index: u32, part: &Part, failed: bool, out: &mut Commands) {
        if !failed && !mutation::is(Mutation::BringNothing) {
            let offset = Bytes(u64::from(part.within));
            let into = Buffer::Move { index: self.moves[index].buffer, offset };
            out.push(Command::Copy { from: part.buffer, to: into, len: part.len });
        }
        self.ready.push(Ready::Step(index, failed));
    }

    /// Begins a fill after the accesses in flight have ended. Blocks that they have written are in the slot now.
    pub(in crate::cache) fn fill_drained(&mut self, io: &mut CacheCall, index: u32) {
        let row = &self.moves[index];
        let (extent, asked) = (row.extent, row.blocks);
        let left = first_run(asked & !self.map.masks_of(extent).valid());
        if left == 0 || self.gone.any() || self.map.entry(extent).slot().is_none() {
            return self.end(io, index);
        }
        let row = &mut self.moves[index];
        (row.phase, row.blocks) = (Phase::Reading, left);
        self.move_read(io, index, self.origin_of(extent), Cause::Promotion);
    }

    /// The blocks were read: waiting accesses are served from memory, and the blocks are written to the slot.
    pub(in crate::cache) fn part_was_read(&mut self, io: &mut CacheCall, index: u32) {
        let blocks = self.layout.blocks.expect("only extents in part are filled in part");
        let row = &mut self.moves[index];
        row.blocks = row.blocks_to_bring();
        if row.blocks == 0 {
            return self.end(io, index);
        }
        let Move { phase, buffer, waiters, blocks: has, to, .. } = row;
        *phase = Phase::Writing;
        waiters.retain(|fragment| {
            let served = fragment.op == Op::Read && blocks.touched(fragment.within, fragment.len) & !*has == 0;
            if served {
                Self::copy_from_move(io, *buffer, *fragment);
                io.part_done(fragment.request, Ok(()));
            }
            !served
        });
        let to = to.expect("it has a slot");
        self.move_write(io, index, to, Cause::Promotion);
    }

    pub(in crate::cache) fn filled(&mut self, io: &mut CacheCall, index: u32, failed: bool) {
        let row = &self.moves[index];
        let (extent, to, blocks) = (row.extent, row.to, row.blocks_to_bring());
        if !failed && self.map.entry(extent).place() == to {
            self.now_has(io, extent, blocks, 0);
        }
        self.end(io, index);
    }
}
