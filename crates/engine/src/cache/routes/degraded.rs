//! Drives with one device gone: which data is lost, and where accesses go.
//!
//! * Caching without the fast device: everything is at the origin except dirty data, which is lost.
//! * Caching without the slow device: cached extents stay readable and writable; the rest is lost. A copy stays until a commit
//!   has given it up, so what was written back before that is not lost ([`settling`](crate::cache::settling)).
//! * Tiering: the extents on the lost device are lost, the rest is served, and new extents go to the other device.
//!
//! Accesses to lost data fail until all of the extent is written or discarded. The durable map need not be changed for
//! this: an entry that points to a device which the superblock records as gone means the same
//! ([`CacheDrive::load_map`]).

use peryton_units::{Bytes, Op};

use crate::{
    api::command::{Buffer, Command, DeviceId},
    api::error::RequestError,
    api::location::Losses,
    cache::access::{Follow, Fragment, Mode, Route, Router},
    cache::blocks::runs,
    cache::drive::CacheDrive,
    cache::map::extent::Loss,
    cache::step::{CacheCall, CacheIo, CacheStep},
};

impl CacheDrive {
    /// Handles the death of one of the two devices. Returns whether data whose write was answered may be lost.
    #[cold]
    pub(crate) fn device_died(&mut self, io: &mut CacheIo, device: DeviceId) -> bool {
        self.mark_gone(device);
        self.set_never_dirty(false);
        if self.gone.slow {
            // From now on the fast device alone takes what is written.
            io.redundant_devices = 0;
        }
        self.journal.fence(device);
        let before = self.map.lost();
        self.settle_losses(io);
        self.making_room = false;
        self.candidates.clear();
        self.ready.place_freed();
        let tiering = self.mode == Mode::Tiering;
        self.map.lost() > before
            || self.held.is_some()
            || tiering
            || device == self.layout.slow
            || self.moves.len() > 0 && self.map.dirty().count() > 0
    }

    /// Marks a device as gone.
    pub(crate) fn mark_gone(&mut self, device: DeviceId) {
        self.gone.fast |= device == self.layout.fast;
        self.gone.slow |= device == self.layout.slow;
        self.router = Router::Degraded;
    }

    /// Resumes commits once it is durable that a device is gone.
    #[cold]
    pub(in crate::cache) fn go_on_without(&mut self, io: &mut CacheCall) {
        self.journal.lift_bar();
        if io.owes_error {
            self.flushes_fail(io);
        }
        self.ready.commit();
        self.ready.place_freed();
    }

    /// Routes an access to an extent that is not lost and that no move is under way for.
    #[cold]
    pub(in crate::cache) fn route_degraded(&mut self, io: &mut CacheCall, fragment: Fragment) -> Route {
        if self.mode == Mode::Tiering {
            let nowhere = self.map.entry(fragment.extent).place().is_none();
            if nowhere && fragment.op == Op::Read {
                // There is less room than extents, so only written extents get a place.
                io.stats.fast_misses += u64::from(fragment.is_new);
                let buffer = Buffer::Request { id: io.id_of(fragment.request), offset: fragment.offset };
                io.out.push(Command::Clear { buffer, len: Bytes(u64::from(fragment.len)) });
                io.part_done(fragment.request, Ok(()));
                return Route::Taken;
            }
            return self.route_tiering(io, fragment);
        }
        let Some(slot) = self.map.entry(fragment.extent).slot() else {
            io.stats.fast_misses += u64::from(fragment.is_new && fragment.op != Op::Discard);
            if self.gone.slow {
                io.part_done(fragment.request, Err(RequestError::Lost));
                return Route::Taken;
            }
            return self.direct(io.now, fragment, self.origin_of(fragment.extent));
        };
        // Only the cache is left, and it keeps all its extents.
        self.serve_from_slot(io, fragment, slot)
    }

    /// Routes an access to a lost extent: only a write or discard that covers all of it succeeds. Returns `None` if the
    /// normal rules apply.
    #[cold]
    pub(in crate::cache) fn route_lost(&mut self, io: &mut CacheCall, fragment: Fragment) -> Option<Route> {
        if !self.covers_extent(fragment) || fragment.op == Op::Read {
            io.part_done(fragment.request, Err(RequestError::Lost));
            return Some(Route::Taken);
        }
        let nowhere = self.map.entry(fragment.extent).place().is_none();
        match (fragment.op, self.mode) {
            (Op::Discard, Mode::Tiering) if nowhere => {
                let changed = self.map.set_loss(fragment.extent, Loss::None);
                self.record(io, changed, false);
                io.part_done(fragment.request, Ok(()));
                Some(Route::Taken)
            }
            // The origin has older data that a discard might expose.
            (Op::Discard, Mode::Caching) if nowhere && !self.gone.slow => {
                let entry = self.map.entry_mut(fragment.extent);
                entry.access(io.now);
                entry.in_flight += 1;
                let (request, first) = (fragment.request, fragment.extent);
                let purpose = CacheStep::Host { request, first_extent: first, count: 1, follow: Follow::NOTHING };
                let origin = self.layout.at(self.origin_of(fragment.extent));
                io.zero(origin, Bytes(u64::from(fragment.len)), purpose);
                Some(Route::Taken)
            }
            _ => None,
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
