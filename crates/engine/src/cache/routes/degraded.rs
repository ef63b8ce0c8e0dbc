//! Drives with one device gone: which data is lost, and where accesses go.
//!
//! * Caching without the fast device: everything is at home except dirty data, which is lost.
//! * Caching without the slow device: cached extents stay readable and writable; the rest is lost.
//! * Tiering: the extents on the lost device are lost, the rest is served, and new extents go to the other device.
//!
//! Accesses to lost data fail until all of the extent is written or discarded. The durable map need not be changed for
//! this: an entry that points to a device which the superblock records as gone means the same
//! ([`CacheDrive::restore`]).

use peryton_format::{
    entry::MapEntry,
    mutation::{self, Mutation},
};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::command::{Buffer, Command, Commands, DeviceId},
    api::error::RequestError,
    api::location::Losses,
    cache::access::{Fragment, Mode, Release, Route, Router},
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::step::{CacheIo, CacheStep},
};

impl CacheDrive {
    /// Whether the place is on a device that is gone.
    fn is_on_gone(&self, place: Place) -> bool {
        if self.layout.fast_slot(place).is_some() { self.gone.fast } else { self.gone.slow }
    }

    /// Handles the death of one of the two devices. Returns whether data whose write was answered may be lost.
    #[cold]
    pub(crate) fn device_died(&mut self, io: &mut CacheIo, now: Nanos, device: DeviceId, out: &mut Commands) -> bool {
        self.mark_gone(device);
        self.set_only_copies(false);
        if self.gone.slow {
            // From now on the fast device alone takes what is written.
            io.copies = 0;
        }
        self.journal.fence(device);
        let before = self.map.lost();
        // An extent that is being moved is handled when the move ends, because the move may save its data.
        for extent in 0..self.layout.extents {
            if self.map.entry(extent).moving().is_none() {
                self.mark_lost(io, extent);
            }
        }
        self.making_room = false;
        self.candidates.clear();
        self.serve_allocation_waiters(io, now, out);
        let tiering = self.mode == Mode::Tiering;
        self.map.lost() > before
            || tiering
            || device == self.layout.slow
            || self.moves.len() > 0 && self.map.dirty().count() > 0
    }

    /// The devices that are not gone.
    pub(crate) fn alive(&self) -> Vec<DeviceId> {
        let of = |device, gone: bool| (!gone).then_some(device);
        [of(self.layout.fast, self.gone.fast), of(self.layout.slow, self.gone.slow)].into_iter().flatten().collect()
    }

    /// Marks a device as gone.
    pub(crate) fn mark_gone(&mut self, device: DeviceId) {
        self.gone.fast |= device == self.layout.fast;
        self.gone.slow |= device == self.layout.slow;
        self.router = Router::Degraded;
    }

    /// Marks the data that the dead device had of an extent as lost.
    #[cold]
    pub(in crate::cache) fn mark_lost(&mut self, io: &mut CacheIo, extent: u32) {
        let entry = *self.map.entry(extent);
        let had_lost = self.map.masks_of(extent).lost() != 0;
        let lost = match (self.mode, entry.place()) {
            (_, Some(place)) if self.is_on_gone(place) => {
                self.map.set_clean(extent);
                self.map.unmap(extent);
                // The place is never used again, so the durable map may keep pointing to it.
                match self.layout.fast_slot(place) {
                    Some(slot) => self.release_slot(slot, Release::NeverUsed),
                    None => self.release_place(place, Release::NeverUsed),
                }
                (self.mode == Mode::Tiering || entry.is_dirty() || had_lost || self.gone.slow)
                    && !mutation::is(Mutation::ForgetLost)
            }
            (Mode::Caching, None) => self.gone.slow,
            _ => false,
        };
        if lost && !self.map.entry(extent).is_lost() {
            self.map.set_lost(extent, true);
            io.stats.lost_extents += 1;
        }
    }

    /// Resumes commits once it is durable that a device is gone.
    #[cold]
    pub(in crate::cache) fn go_on_without(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        let fails = io.owes_error;
        let mut failed = self.journal.lift_bar(fails);
        if fails {
            failed.extend(std::mem::take(&mut self.flushes).into_iter().map(|(request, _)| request));
        }
        if !failed.is_empty() {
            io.error_reported();
        }
        for request in failed {
            io.part_done(request, Err(RequestError::Device), out);
        }
        self.commit(io, now, true, out);
        self.serve_allocation_waiters(io, now, out);
    }

    /// Routes an access to an extent that is not lost and that no move is under way for.
    #[cold]
    pub(in crate::cache) fn route_degraded(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        fragment: Fragment,
        out: &mut Commands,
    ) -> Route {
        if self.mode == Mode::Tiering {
            let nowhere = self.map.entry(fragment.extent).place().is_none();
            if nowhere && fragment.op == Op::Read {
                // There is less room than extents, so only written extents get a place.
                io.stats.fast_misses += u64::from(fragment.first);
                let buffer = Buffer::Request { id: io.id_of(fragment.request), offset: fragment.offset };
                out.push(Command::Clear { buffer, len: Bytes(u64::from(fragment.len)) });
                io.part_done(fragment.request, Ok(()), out);
                return Route::Taken;
            }
            return self.route_tiering(io, now, fragment, out);
        }
        let Some(slot) = self.map.entry(fragment.extent).slot() else {
            io.stats.fast_misses += u64::from(fragment.first && fragment.op != Op::Discard);
            if self.gone.slow {
                io.part_done(fragment.request, Err(RequestError::Lost), out);
                return Route::Taken;
            }
            return self.direct(now, fragment, self.home(fragment.extent));
        };
        let has_parts = self.map.has_parts();
        // Only the cache is left, and it keeps all its extents.
        match fragment.op {
            Op::Read if has_parts => return self.read_in_part(io, now, fragment, slot, false, out),
            Op::Read => {}
            Op::Discard if !self.covers_extent(fragment) => {
                io.part_done(fragment.request, Ok(()), out);
                return Route::Taken;
            }
            // All of it would have to be zeros, but part of the room is another extent's.
            Op::Discard if !self.map.claim(slot, self.layout.blocks.map_or(0, |blocks| blocks.all)) => {
                io.part_done(fragment.request, Err(RequestError::Lost), out);
                return Route::Taken;
            }
            Op::Discard => {
                self.became_dirty(io, now, fragment.extent);
                self.zero_copy(io, now, fragment, Place(slot.0), out);
                return Route::Taken;
            }
            _ if has_parts => {
                self.count_access(io, fragment, slot);
                return self.write_to_part(io, now, fragment, slot, out);
            }
            _ => self.became_dirty(io, now, fragment.extent),
        }
        self.count_access(io, fragment, slot);
        self.direct(now, fragment, Place(slot.0))
    }

    /// Routes an access to a lost extent: only a write or discard that covers all of it succeeds. Returns `None` if the
    /// normal rules apply.
    #[cold]
    pub(in crate::cache) fn route_lost(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        fragment: Fragment,
        out: &mut Commands,
    ) -> Option<Route> {
        if !self.covers_extent(fragment) || fragment.op == Op::Read {
            io.part_done(fragment.request, Err(RequestError::Lost), out);
            return Some(Route::Taken);
        }
        let nowhere = self.map.entry(fragment.extent).place().is_none();
        match (fragment.op, self.mode) {
            (Op::Discard, Mode::Tiering) if nowhere => {
                self.map.set_lost(fragment.extent, false);
                self.note(io, now, fragment.extent, false);
                io.part_done(fragment.request, Ok(()), out);
                Some(Route::Taken)
            }
            // The home has older data that a discard might expose.
            (Op::Discard, Mode::Caching) if nowhere && !self.gone.slow => {
                let entry = self.map.entry_mut(fragment.extent);
                entry.access(now);
                entry.in_flight += 1;
                let purpose = CacheStep::Host { request: fragment.request, first: fragment.extent, count: 1 };
                let home = self.layout.at(self.home(fragment.extent));
                io.zero(home, Bytes(u64::from(fragment.len)), purpose, out);
                Some(Route::Taken)
            }
            _ => None,
        }
    }

    /// The meaning of a durable map entry when devices are gone.
    pub(in crate::cache) fn without_gone(&self, entry: MapEntry) -> MapEntry {
        match (entry.place(), self.mode) {
            (Some(place), mode) if self.layout.has_place(place) && self.is_on_gone(place) => MapEntry::new(
                None,
                false,
                entry.is_lost() || mode == Mode::Tiering || entry.is_dirty() || self.gone.slow,
            ),
            // There is no home that the copy could agree with, so it counts as dirty.
            (Some(place), Mode::Caching) if self.gone.slow => MapEntry::new(Some(place), true, entry.is_lost()),
            (None, Mode::Caching) if self.gone.slow => MapEntry::new(None, false, true),
            _ => entry,
        }
    }

    pub(in crate::cache) fn lost_ranges(&self, most: usize) -> Losses {
        let mut losses = Losses::default();
        if self.map.has_parts() || self.map.lost() > 0 {
            let bytes = self.layout.extent_bytes;
            for (extent, entry) in self.map.entries() {
                let from = u64::from(extent) * bytes;
                match entry.place() {
                    _ if entry.is_lost() => losses.add(from, from + bytes, most),
                    Some(_) => self.add_lost_blocks(extent, &mut losses, most),
                    None => {}
                }
            }
        }
        losses
    }
}
