//! Extents of which the fast device has a part. Each slot has masks: the blocks that it has, and those of them that are newer
//! than their origin. A block is in the mask once its data is on the fast device; until then its origin is read.

use peryton_format::{
    blocks::Masks,
    mutation::{self, Mutation},
    takeover::Contents,
};
use peryton_policy::replacement::SlotIndex;
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::command::{Commands, DeviceId},
    api::config::WritePolicy,
    api::error::RequestError,
    api::location::{Location, Losses},
    cache::blocks::{Blocks, runs},
    cache::drive::CacheDrive,
    cache::map::changed::NoRecord,
    cache::map::extent::Valid,
    cache::step::{CacheCommand, CacheIo},
    io::RequestIndex,
};

impl CacheDrive {
    /// Whether the fast device alone can serve a request to an extent that it has in part: it has all blocks of a read, and all blocks
    /// of a write are dirty.
    #[inline]
    pub(in crate::cache) fn hits_in_part(
        &self,
        blocks: Blocks,
        slot: SlotIndex,
        op: Op,
        within: u32,
        len: Bytes,
    ) -> bool {
        let masks = self.map.masks(slot);
        let has = if op == Op::Write { masks.dirty() } else { masks.valid() };
        blocks.touched(within, len.0 as u32) & !has == 0
    }

    /// The content of the records that outlive the process.
    pub(in crate::cache) fn contents(&self) -> Contents {
        let (extents, places) = (self.map.len() as u64, self.map.all_masks().len() as u64);
        Contents::Map { extents, places }
    }

    /// Which of copy and origin is valid where a crash may have cut a write to one of them or to both.
    pub(in crate::cache) fn valid(&self, io: &CacheIo) -> Valid {
        let copy = io.tuning.write == WritePolicy::Back || self.controller.is_some();
        if copy { Valid::Copy } else { Valid::Origin }
    }

    /// Notes that a write of these blocks is about to begin. The blocks among them that the fast device has become dirty now: if the write
    /// is cut short, they differ from their origin. Blocks that it lacks become dirty at the write's end ([`CacheDrive::allocating_done`]).
    pub(in crate::cache) fn became_dirty_in(&mut self, io: &mut CacheIo, now: Nanos, extent: u32, touched: u16) {
        let masks = self.map.masks_of(extent);
        let dirties = touched & masks.valid() & !masks.differs_from_origin();
        if dirties == 0 {
            if self.map.entry(extent).is_dirty() {
                self.map.rewrite(extent);
            }
            return;
        }
        let was_dirty = self.map.entry(extent).is_dirty();
        self.set_never_dirty(false);
        let dirty = Masks::new(masks.valid(), masks.differs_from_origin() | dirties);
        let changed = self.map.set_masks(extent, dirty, now);
        if was_dirty {
            self.map.rewrite(extent);
        }
        match mutation::is(Mutation::LoseDirtyFlag) {
            true => changed.needs_no_record(NoRecord::Mistake),
            false => self.record(io, now, changed, false),
        }
        self.dirt_was_added(io, now);
    }

    /// Notes that the fast device has these blocks from now on. `dirty`: the blocks that are newer than their origins.
    pub(in crate::cache) fn is_there(&mut self, io: &mut CacheIo, now: Nanos, extent: u32, blocks: u16, dirty: u16) {
        let before = self.map.masks_of(extent);
        let valid = before.valid() | blocks;
        // A block that was lost has new data.
        let differs_from_origin = before.dirty() | before.lost() & !blocks | dirty & valid;
        let masks = Masks::new(valid, differs_from_origin);
        if masks == before {
            if self.map.entry(extent).is_dirty() && dirty != 0 {
                self.map.rewrite(extent);
            }
            return;
        }
        if dirty != 0 {
            self.set_never_dirty(false);
        }
        let changed = self.map.set_masks(extent, masks, now);
        self.record(io, now, changed, false);
        if dirty != 0 {
            self.dirt_was_added(io, now);
        }
    }

    /// Handles a completed write of blocks that the fast device may not have had: from now on it has them, and they are dirty. The answer
    /// comes after that, because the record of the change must come before the answer.
    pub(crate) fn allocating_done(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        command: &CacheCommand,
        (request, extent): (RequestIndex, u32),
        failed: bool,
        out: &mut Commands,
    ) {
        self.allocating_writes -= 1;
        let kept = !failed && self.first_is_there(io, now, extent, command);
        if kept && self.map.entry(extent).is_lost() {
            self.found_again(io, now, extent, command);
        }
        io.part_done(request, if kept { Ok(()) } else { Err(RequestError::Device) }, out);
        self.access_ended(extent);
    }

    /// Returns false if the slot was lost with its device.
    fn first_is_there(&mut self, io: &mut CacheIo, now: Nanos, extent: u32, command: &CacheCommand) -> bool {
        let (Some(slot), Some(blocks)) = (self.map.entry(extent).slot(), self.layout.blocks) else { return false };
        let Some(within) = command.at.0.checked_sub(self.layout.fast_at(slot).0) else { return false };
        if command.device != self.layout.fast || within + command.len.0 > self.layout.extent_bytes {
            return false;
        }
        let (within, len) = (within as u32, command.len.0 as u32);
        self.is_there(io, now, extent, blocks.covered(within, len), blocks.touched(within, len));
        true
    }

    pub(in crate::cache) fn location_in_part(
        &self,
        blocks: Blocks,
        (extent, slot): (u32, SlotIndex),
        within: u32,
        lost: bool,
    ) -> Location {
        let (masks, gone) = (self.map.masks(slot), self.lost_blocks(extent));
        let state = |block: u16| (masks.valid() & block != 0, masks.dirty() & block != 0, gone & block != 0);
        let here = blocks.touched(within, 1);
        let same = (0..16).map(|bit| 1u16 << bit).filter(|block| state(*block) == state(here));
        let same = same.fold(0, |sum, block| sum | block) & blocks.all;
        let run = runs(same).find(|run| run & here != 0).expect("a block is like itself");
        let (from, len) = blocks.span(run);
        let (valid, dirty, block_lost) = state(here);
        let device = match (valid, block_lost) {
            (true, _) => Some(self.layout.fast),
            (false, false) => Some(self.layout.slow),
            (false, true) => None::<DeviceId>,
        };
        let len = Bytes(u64::from(from + len - within));
        Location { len, device, mapped: device.is_some(), dirty, lost: lost || block_lost }
    }

    /// Adds the lost blocks of an extent.
    pub(in crate::cache) fn add_lost_blocks(&self, extent: u32, losses: &mut Losses, most: usize) {
        let Some(blocks) = self.layout.blocks else { return };
        let begins = u64::from(extent) * self.layout.extent_bytes;
        for run in runs(self.lost_blocks(extent)) {
            let (within, len) = blocks.span(run);
            let from = begins + u64::from(within);
            losses.add(from, from + u64::from(len), most);
        }
    }
}
