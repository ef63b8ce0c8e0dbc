//! Whole units (caching): where the slow device maps its data in units of several blocks, as flash of four bits a cell does, a
//! write of fewer blocks makes the device write the whole unit. So a write-back completes the units that it writes to: what the
//! fast device has of them is read there, and the rest, which is *missing*, from its home, once.
//!
//! What is missing is the home's own content, which must not replace what the host writes there meanwhile. No access to the extent
//! is in flight when a write-back begins. A write of the host that comes while the blocks are being read leaves them out of what
//! is written ([`Move::rewritten_blocks`](crate::cache::movers::table::Move)); one that comes while they are being written, and
//! would go home, waits for the end of the move ([`CacheDrive::races_with_missing`]).

use peryton_format::mutation::{self, Mutation};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::command::{Cause, Commands},
    cache::access::Fragment,
    cache::blocks::{Units, runs},
    cache::drive::CacheDrive,
    cache::movers::table::{Move, Phase},
    cache::step::{CacheIo, CacheStep},
};

impl CacheDrive {
    /// Adapts the units to the tuning.
    pub(in crate::cache) fn heed_units(&mut self, io: &CacheIo) {
        let heeds = self.controller.is_none();
        let units = Units::new(self.layout.blocks, io.tuning.write_unit.filter(|_| heeds));
        if units != self.units {
            self.units = units;
            self.map.count_fullness(units);
        }
    }

    /// Whether a write leaves a unit incomplete. If it went to the slow device, that would write more than it was sent.
    #[inline(always)]
    pub(in crate::cache) fn is_part_of_unit(&self, fragment: Fragment) -> bool {
        self.units.any()
            && fragment.op == Op::Write
            && self.units.are_partial(self.touched(fragment), self.covered(fragment))
    }

    /// Sets what a write-back copies, and what of that the slow device has to be asked for.
    pub(in crate::cache) fn take_blocks_home(&mut self, index: u32) {
        let Move { kind, extent, .. } = self.moves[index];
        let blocks = self.blocks_to_write_home(kind, extent);
        let missing = blocks & !self.map.masks_of(extent).valid();
        let row = &mut self.moves[index];
        (row.blocks, row.missing) = (blocks, missing);
    }

    /// Reads the missing blocks of a write-back from their home.
    pub(in crate::cache) fn read_missing(
        &mut self,
        io: &mut CacheIo,
        (index, extent): (u32, u32),
        missing: u16,
        out: &mut Commands,
    ) {
        let blocks = self.layout.blocks.expect("only extents in part miss blocks");
        let (device, at) = self.layout.at(self.home(extent));
        for run in runs(missing) {
            let (within, len) = blocks.span(run);
            let (within, len) = (Bytes(u64::from(within)), Bytes(u64::from(len)));
            let buffer = self.move_buffer(index).plus(within);
            self.moves[index].pending += 1;
            io.read((device, at + within), len, buffer, CacheStep::Missing { index }, Cause::WriteBack, out);
        }
    }

    /// Missing blocks were read. If they cannot be, the dirty ones are written home without them.
    pub(in crate::cache) fn missing_was_read(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        index: u32,
        failed: bool,
        out: &mut Commands,
    ) {
        if failed {
            let row = &mut self.moves[index];
            row.rewritten_blocks |= row.missing;
        }
        self.move_step(io, now, index, false, out);
    }

    /// Whole units could not be written: it may be what completes them that cannot, so the dirty blocks are tried alone.
    pub(in crate::cache) fn write_without_missing(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        index: u32,
        out: &mut Commands,
    ) {
        let dirty = self.map.masks_of(self.moves[index].extent).dirty();
        let row = &mut self.moves[index];
        (row.missing, row.blocks) = (0, row.blocks & dirty & !row.rewritten_blocks);
        if row.blocks == 0 {
            return self.written_back(io, now, index, true, out);
        }
        row.failed = false;
        let (to, cause) = (row.to.expect("a write-back has a home"), row.kind.cause());
        self.move_write(io, index, to, cause, out);
    }

    /// Notes which blocks a write of the host makes unfit to be written home by the move under way for their extent.
    pub(in crate::cache) fn note_rewritten(&mut self, index: u32, touched: u16) {
        let row = &mut self.moves[index];
        let is_read = row.phase == Phase::Reading && mutation::is(Mutation::CompleteFromOldRead);
        row.rewritten_blocks |= if is_read { touched & !row.missing } else { touched };
    }

    /// Whether a write of the host may go home where the move under way for the extent writes what was there before.
    pub(in crate::cache) fn races_with_missing(&self, io: &CacheIo, index: u32, fragment: Fragment) -> bool {
        let row = &self.moves[index];
        let touched = self.touched(fragment);
        row.missing & touched != 0
            && row.phase == Phase::Writing
            && fragment.op == Op::Write
            && !self.stays_in_slot(io, fragment)
            && !mutation::is(Mutation::PassCompletion)
    }
}
