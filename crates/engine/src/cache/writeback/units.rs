//! Whole units (caching). If the slow device maps its data in units of several blocks, as flash of four bits a cell
//! does, a write of fewer blocks makes the device write the whole unit. A write-back therefore completes the units that
//! it writes to. It reads their blocks on the fast device there, and the other ones, which are *missing*, once from
//! their origin.
//!
//! Missing blocks are the origin's own content, and must not replace data that the host writes there meanwhile. No
//! access to the extent is in flight when a write-back begins. If the host writes blocks while they are being read, the
//! write-back leaves them out ([`Move::rewritten_blocks`](crate::cache::movers::table::Move)). If a host write to the
//! origin comes while blocks are being written, it waits for the end of the move ([`CacheDrive::races_with_missing`]).

use peryton_units::{Bytes, Op};

use crate::{
    api::command::Cause,
    cache::access::Fragment,
    cache::blocks::{Units, runs},
    cache::drive::CacheDrive,
    cache::ready::Ready,
    cache::step::{CacheCall, CacheIo, CacheStep},
};

impl CacheDrive {
    /// Adapts the units to the tuning.
    pub(in crate::cache) fn apply_units(&mut self, io: &CacheIo) {
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

    /// Reads the missing blocks of a write-back from their origin.
    pub(in crate::cache) fn read_missing(&mut self, io: &mut CacheCall, (index, extent): (u32, u32), missing: u16) {
        let blocks = self.layout.blocks.expect("only extents in part miss blocks");
        let (device, at) = self.layout.at(self.origin_of(extent));
        for run in runs(missing) {
            let (within, len) = blocks.span(run);
            let (within, len) = (Bytes(u64::from(within)), Bytes(u64::from(len)));
            let buffer = self.move_buffer(index).plus(within);
            self.moves[index].pending += 1;
            io.read((device, at + within), len, buffer, CacheStep::Missing { index }, Cause::WriteBack);
        }
    }

    /// Missing blocks were read. If they cannot be, the dirty ones are written back without them.
    pub(in crate::cache) fn missing_was_read(&mut self, index: u32, failed: bool) {
        if failed {
            let row = &mut self.moves[index];
            row.rewritten_blocks |= row.missing;
        }
        self.ready.push(Ready::Step(index, false));
    }
}
