//! With one device left: what is lost with the other, and where an access goes then.
//!
//! * Caching without the cache: everything is at home, but what was dirty; that is lost.
//! * Caching without the slow device: what the cache has stays readable and writable, the rest is lost.
//! * Tiering: what was on the device is lost, the rest is served, and new extents go to the other device.
//!
//! What is lost says so until all of it is written or discarded. The map need not be written for any of this: a durable
//! entry that points to a device which the superblock calls gone means the same ([`CacheDrive::restore`]).

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

    /// A device of the two is dead. Says whether anything that was answered may be lost.
    #[cold]
    pub(crate) fn device_died(&mut self, io: &mut CacheIo, now: Nanos, device: DeviceId, out: &mut Commands) -> bool {
        self.mark_gone(device);
        self.journal.fence(device);
        let before = self.map.lost();
        // What a move is under way for is settled when that ends: it may bring it to safety.
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
            || self.moves.len() > 0 && self.map.dirty() > 0
    }

    /// The devices that are not gone.
    pub(crate) fn alive(&self) -> Vec<DeviceId> {
        let of = |device, gone: bool| (!gone).then_some(device);
        [of(self.layout.fast, self.gone.fast), of(self.layout.slow, self.gone.slow)].into_iter().flatten().collect()
    }

    /// From now on there is one device.
    pub(crate) fn mark_gone(&mut self, device: DeviceId) {
        self.gone.fast |= device == self.layout.fast;
        self.gone.slow |= device == self.layout.slow;
        self.router = Router::Degraded;
    }

    /// What the dead device had of the extent is no more.
    #[cold]
    pub(in crate::cache) fn mark_lost(&mut self, io: &mut CacheIo, extent: u32) {
        let entry = *self.map.entry(extent);
        let lost = match (self.mode, entry.place()) {
            (_, Some(place)) if self.is_on_gone(place) => {
                self.map.set_dirty(extent, false);
                self.map.unmap(extent);
                // Nothing is put there any more, so it does no harm that the durable map still points there.
                match self.layout.fast_slot(place) {
                    Some(slot) => self.release_slot(slot, Release::NeverUsed),
                    None => self.release_place(place, Release::NeverUsed),
                }
                (self.mode == Mode::Tiering || entry.is_dirty() || self.gone.slow)
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

    /// It is durable that a device is gone: commits go on.
    #[cold]
    pub(in crate::cache) fn go_on_without(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        let fails = io.owes_error;
        let mut failed = self.journal.lift_bar(fails);
        if fails {
            failed.extend(std::mem::take(&mut self.flushes).into_iter().map(|(request, _)| request));
        }
        io.owes_error &= failed.is_empty();
        for request in failed {
            io.part_done(request, Err(RequestError::Device), out);
        }
        self.commit(io, now, true, out);
        self.serve_allocation_waiters(io, now, out);
    }

    /// An access that is not to something lost, and with no move under way for its extent.
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
                // There is less room than extents: a place is for those that are written.
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
        // Only the cache is left, and it keeps what it has.
        match fragment.op {
            Op::Read => {}
            Op::Discard if !self.covers_extent(fragment) => {
                io.part_done(fragment.request, Ok(()), out);
                return Route::Taken;
            }
            Op::Discard => {
                self.became_dirty(io, now, fragment.extent);
                self.zero_copy(io, now, fragment, Place(slot.0), out);
                return Route::Taken;
            }
            _ => self.became_dirty(io, now, fragment.extent),
        }
        self.count_access(io, fragment, slot);
        self.direct(now, fragment, Place(slot.0))
    }

    /// An access to something lost: only what covers all of it is let through. `None`: as if it were not lost.
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
            // The home has something older, which a hint would let come to light.
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

    /// What a durable entry means with devices gone.
    pub(in crate::cache) fn without_gone(&self, entry: MapEntry) -> MapEntry {
        match (entry.place(), self.mode) {
            (Some(place), mode) if self.layout.has_place(place) && self.is_on_gone(place) => MapEntry::new(
                None,
                false,
                entry.is_lost() || mode == Mode::Tiering || entry.is_dirty() || self.gone.slow,
            ),
            // There is no home for it to agree with.
            (Some(place), Mode::Caching) if self.gone.slow => MapEntry::new(Some(place), true, entry.is_lost()),
            (None, Mode::Caching) if self.gone.slow => MapEntry::new(None, false, true),
            _ => entry,
        }
    }

    pub(in crate::cache) fn lost_ranges(&self, most: usize) -> Losses {
        let mut losses = Losses::default();
        if self.map.lost() > 0 {
            let bytes = self.layout.extent_bytes;
            for (extent, _) in self.map.entries().filter(|(_, entry)| entry.is_lost()) {
                let from = u64::from(extent) * bytes;
                losses.add(from, from + bytes, most);
            }
        }
        losses
    }
}
