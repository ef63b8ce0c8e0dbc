//! Writes to both devices before the answer (caching, write-through): writes that begin or end within a block, and writes to copies that
//! count after a crash. (Elsewhere the copy takes it later: `movers/fill.rs`.) Overlapping writes go one after the
//! other; otherwise copy and origin could end with different data.

use peryton_format::mutation::{self, Mutation};
use peryton_policy::replacement::SlotIndex;
use peryton_units::Bytes;

use crate::{
    api::command::{Buffer, Cause, DeviceId},
    api::config::WritePolicy,
    api::error::RequestError,
    cache::access::{Fragment, ThroughWrite},
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::table::Drained,
    cache::step::{CacheCall, CacheStep},
};

fn overlap(a: &Fragment, b: &Fragment) -> bool {
    a.extent == b.extent && a.within < b.within + b.len && b.within < a.within + a.len
}

impl CacheDrive {
    pub(in crate::cache) fn write_through(&mut self, io: &mut CacheCall, fragment: Fragment, slot: SlotIndex) {
        // The host's queue depth bounds the length of this list.
        if self.map.entry(fragment.extent).in_flight > 0
            && let Some(write) =
                self.through_in_flight.iter().find(|write| overlap(&self.through[**write].fragment, &fragment))
        {
            self.through[*write].waiters.push(fragment);
            return;
        }
        let entry = self.map.entry_mut(fragment.extent);
        entry.access(io.now);
        entry.in_flight += 1;
        let row = ThroughWrite { fragment, pending: 2, fast_failed: false, slow_failed: false, waiters: Vec::new() };
        let write = self.through.insert(row);
        self.through_in_flight.push(write);
        self.map.may_write_one(fragment.extent, self.valid(io));
        self.cleaner.slow_used = io.now;
        let buffer = Buffer::Request { id: io.id_of(fragment.request), offset: fragment.offset };
        let places = [Place(slot.0), self.origin_of(fragment.extent)];
        let throttled = io.tuning.write == WritePolicy::Back;
        if mutation::is(Mutation::ThroughWithoutOrigin) || throttled && mutation::is(Mutation::ThrottleWithoutOrigin) {
            self.through[write].pending = 1;
        }
        for place in &places[..self.through[write].pending as usize] {
            let (device, at) = self.layout.at(*place);
            let at = at + Bytes(u64::from(fragment.within));
            let len = Bytes(u64::from(fragment.len));
            io.write((device, at), len, buffer, CacheStep::Through { write }, Cause::Host);
        }
    }

    /// Whether a write to both copy and origin of the extent is in flight.
    pub(in crate::cache) fn is_written_through(&self, extent: u32) -> bool {
        self.through_in_flight.iter().any(|write| self.through[*write].fragment.extent == extent)
    }

    pub(crate) fn through_step(&mut self, io: &mut CacheCall, write: u32, device: DeviceId, failed: bool) {
        let row = &mut self.through[write];
        row.pending -= 1;
        if device == self.layout.fast {
            row.fast_failed |= failed;
        } else {
            row.slow_failed |= failed;
        }
        if row.pending > 0 {
            return;
        }
        let (fragment, fast_failed, slow_failed) = (row.fragment, row.fast_failed, row.slow_failed);
        let waiters = std::mem::take(&mut row.waiters);
        self.through.remove(write);
        self.through_in_flight.retain(|other| *other != write);
        self.through_ended(io, fragment, fast_failed, slow_failed);
        self.ready.accesses(waiters);
    }

    fn through_ended(&mut self, io: &mut CacheCall, fragment: Fragment, fast_failed: bool, slow_failed: bool) {
        let result = if slow_failed { Err(RequestError::Device) } else { Ok(()) };
        self.wrote_both = Some([self.layout.fast, self.layout.slow].map(|device| io.stamp(device)));
        if !fast_failed && !slow_failed {
            self.map.differs_no_more(fragment.extent);
        }
        let touched = self.touched(fragment);
        if self.map.entry(fragment.extent).place().is_some() && !fast_failed {
            // Only the copy is left, and has all that the write covers. (With both devices, blocks that it did not have stay so:
            // a write that went to the origin alone may have come after this one.)
            if self.gone.slow {
                self.now_has(io, fragment.extent, self.covered(fragment), touched);
            }
        }
        let entry = self.map.entry(fragment.extent);
        let masks = self.map.masks_of(fragment.extent);
        let all_newer = touched & masks.valid() & !masks.differs_from_origin() == 0;
        if !fast_failed && !slow_failed || entry.place().is_none() {
            // The copy was lost with its device, and the origin is valid.
            io.part_done(fragment.request, result);
        } else if self.gone.slow {
            // The device of the origin is gone, so the copy is the valid one.
            let result = if fast_failed { Err(RequestError::Device) } else { Ok(()) };
            io.part_done(fragment.request, result);
        } else if entry.is_dirty() && all_newer {
            // Only the copy is complete: it stays, and the write fails.
            io.part_done(fragment.request, Err(RequestError::Device));
        } else if let Some(index) = entry.moving() {
            // Another operation is about to detach the copy; the write is repeated after that.
            debug_assert!(entry.place().is_some());
            self.wait_behind(index, fragment);
        } else {
            // Copy and origin differ, so the copy is dropped before the write is answered.
            self.start_drain(fragment, Drained::Drop(result));
        }
        self.access_ended(fragment.extent);
    }
}
