//! Fills of a part: neighbouring blocks of an extent, which its slot does not have, are read from the slow device, served to
//! those that wait for them, and written to the slot.

use peryton_units::{Nanos, Op};

use crate::{
    api::command::{Cause, Commands},
    cache::blocks::first_run,
    cache::drive::CacheDrive,
    cache::movers::table::{Kind, Move, Phase},
    cache::step::CacheIo,
};

impl CacheDrive {
    /// Starts to bring in these blocks. If the extent is in use, that begins when it is not, and accesses wait. Returns false if
    /// something else is under way for the extent, if too many moves are, or if another extent has the room.
    pub(in crate::cache) fn start_part_fill(
        &mut self,
        io: &mut CacheIo,
        extent: u32,
        blocks: u16,
        out: &mut Commands,
    ) -> bool {
        let entry = self.map.entry(extent);
        if entry.moving().is_some() {
            return false;
        }
        if self.copying >= io.tuning.max_moves {
            io.stats.moves.cancelled.move_limit += 1;
            return false;
        }
        let in_use = entry.in_flight > 0;
        // A write that is under way past the copy takes any move that it finds for one that gives the copy up.
        if in_use && self.controller.is_some() {
            return false;
        }
        let place = entry.place();
        if !entry.slot().is_some_and(|slot| self.map.claim(slot, blocks)) {
            return false;
        }
        let phase = if in_use { Phase::Draining } else { Phase::Reading };
        let index = self.start(Kind::PartFill, phase, extent, place, None);
        self.moves[index].blocks = blocks;
        self.map.entry_mut(extent).misses = 0;
        if !in_use {
            self.move_read(io, index, self.home(extent), Cause::Promotion, out);
        }
        true
    }

    /// The accesses that were in flight have ended. What they have written is there now.
    pub(in crate::cache) fn part_fill_drained(&mut self, io: &mut CacheIo, now: Nanos, index: u32, out: &mut Commands) {
        let row = &self.moves[index];
        let (extent, asked) = (row.extent, row.blocks);
        let left = first_run(asked & !self.map.masks_of(extent).valid());
        if left == 0 || self.gone.any() || self.map.entry(extent).slot().is_none() {
            return self.end(io, now, index, out);
        }
        let row = &mut self.moves[index];
        (row.phase, row.blocks) = (Phase::Reading, left);
        self.move_read(io, index, self.home(extent), Cause::Promotion, out);
    }

    /// The blocks were read: what waits for them is served from memory, and they are written to the slot.
    pub(in crate::cache) fn part_was_read(&mut self, io: &mut CacheIo, index: u32, out: &mut Commands) {
        let blocks = self.layout.blocks.expect("only extents in part are filled in part");
        let Move { phase, buffer, waiters, blocks: has, to, .. } = &mut self.moves[index];
        *phase = Phase::Writing;
        waiters.retain(|fragment| {
            let served = fragment.op == Op::Read && blocks.touched(fragment.within, fragment.len) & !*has == 0;
            if served {
                Self::copy_from_move(io, *buffer, *fragment, out);
                io.part_done(fragment.request, Ok(()), out);
            }
            !served
        });
        let to = to.expect("it has a slot");
        self.move_write(io, index, to, Cause::Promotion, out);
    }

    pub(in crate::cache) fn part_filled(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        index: u32,
        failed: bool,
        out: &mut Commands,
    ) {
        let Move { extent, blocks, to, .. } = self.moves[index];
        if !failed && self.map.entry(extent).place() == to {
            self.is_there(io, now, extent, blocks, 0);
        }
        self.end(io, now, index, out);
    }
}
