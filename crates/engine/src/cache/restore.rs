//! Makes a running drive from the durable map, and the durable map from a running drive.

use peryton_format::{
    blocks::Masks,
    checkpoint::CheckpointHeader,
    entry::MapEntry,
    mutation::{self, Mutation},
    notice::Notice,
    superblock::VolumeId,
};
use peryton_units::Nanos;

use crate::{
    api::config::Tuning,
    api::opened::Trust,
    cache::access::Mode,
    cache::drive::CacheDrive,
    cache::interpret::{Facts, State},
    cache::journal::map_journal::Durable,
    cache::map::changed::NoRecord,
    cache::map::extent::{Place, Valid},
    cache::step::CacheIo,
};

/// The state of a volume when it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Restored {
    /// Extents with a place (tiering) or with a copy in the cache.
    pub(crate) mapped: u64,
    pub(crate) dirty: u64,
    pub(crate) lost: u64,
}

impl CacheDrive {
    /// Loads the durable map. `touched`: after a clean close, the places from which on none was ever written; after a
    /// crash every free place may hold data. `known`: the map is what a process that was killed had in memory. `home`: no copy was
    /// newer than its origin when the map was last recorded.
    pub(crate) fn restore(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        (image, masks): (&[MapEntry], &[Masks]),
        (touched, known, home): (Option<[u32; 2]>, bool, bool),
        trust: Trust,
    ) -> Result<Restored, &'static str> {
        let mut restored = Restored::default();
        if image.len() != self.map.len() {
            return Err("it maps another number of extents");
        }
        if masks.len() != self.map.all_masks().len() {
            return Err("it has masks of another number of places");
        }
        let places = self.layout.fast_slots + if self.mode == Mode::Tiering { self.layout.slow_slots } else { 0 };
        let crashed = touched.is_none() && !known;
        let trusts = |valid: &Valid| match valid {
            Valid::Copy => mutation::is(Mutation::TrustCleanCopies),
            Valid::Home => mutation::is(Mutation::KeepCleanCopies),
        };
        let facts = Facts {
            // What is clean in memory is clean: the memory says that copy and origin may differ before either is written.
            valid: crashed.then(|| self.valid(io)).filter(|valid| !trusts(valid)),
            // The server may have made host data durable at their origins alone, and not the copies, nor which copies count.
            unflushed: crashed && home && !mutation::is(Mutation::TrustUnflushedCopies),
            trusts_origins: trust == Trust::Slow,
            ..self.facts()
        };
        for (index, entry) in (0..).zip(image) {
            let at_rest = facts.counts(State::of(*entry, masks));
            if at_rest.entry.place().is_some_and(|place| place.0 >= places) {
                return Err("an extent is in a place that is not there");
            }
            if at_rest.entry.is_dirty() && self.mode == Mode::Tiering {
                return Err("an extent is dirty that has no copy");
            }
            let State { entry, masks: parts } = self.interpret(&facts, at_rest);
            let (place, lost) = (entry.place(), entry.is_lost());
            self.map.set_lost(index, lost).needs_no_record(NoRecord::WholeMap);
            if let Some(left) = at_rest.entry.place().filter(|_| lost && place.is_none()) {
                self.map.leave_behind(index, left, at_rest.masks);
            }
            restored.lost += u64::from(lost || place.is_some() && parts.lost() != 0);
            let Some(place) = place else { continue };
            restored.mapped += 1;
            restored.dirty += u64::from(entry.is_dirty());
            if !self.map.adopt(index, place) {
                return Err("two extents are in one place");
            }
            if self.mode == Mode::Caching {
                self.map.set_masks(index, parts, now).needs_no_record(NoRecord::WholeMap);
            }
        }
        if crashed {
            self.map.takes_for_dirty(now);
        }
        self.warm_up(io);
        let all = if mutation::is(Mutation::ForgetStale) { [0, 0] } else { [u32::MAX, u32::MAX] };
        self.restore_stale(touched.unwrap_or(all));
        io.due(now);
        Ok(restored)
    }

    /// Marks free places below these as possibly holding an earlier tenant's data.
    fn restore_stale(&mut self, touched: [u32; 2]) {
        let fast = (0..self.layout.fast_slots.min(touched[0])).map(Place);
        let slow_slots = if self.mode == Mode::Tiering { self.layout.slow_slots.min(touched[1]) } else { 0 };
        let slow = (0..slow_slots).map(|slot| self.layout.slow_place(slot));
        for place in fast.chain(slow) {
            if self.map.is_free(place) {
                self.map.set_stale(place, true);
            }
        }
    }

    /// The places from which on none was ever written, for each device.
    pub(in crate::cache) fn touched_places(&self) -> [u32; 2] {
        let used = |place: Place| !self.map.is_free(place) || self.map.is_stale(place);
        let fast = (0..self.layout.fast_slots).rfind(|slot| used(Place(*slot)));
        let slow = match self.mode {
            Mode::Caching => None,
            Mode::Tiering => (0..self.layout.slow_slots).rfind(|slot| used(self.layout.slow_place(*slot))),
        };
        [fast, slow].map(|last| last.map_or(0, |last| last + 1))
    }

    /// Builds the header of a checkpoint that is written now.
    pub(crate) fn next_header(&self, io: &CacheIo) -> CheckpointHeader {
        self.journal.next_header(&io.tuning)
    }

    /// What a slow device that is opened alone may conclude about the data on the fast one.
    pub(crate) fn notice_for(&self, tuning: &Tuning) -> Notice {
        let home = self.mode == Mode::Caching && self.controller.is_none() && self.map.dirty().count() == 0;
        Notice { home, named: self.journal.names_newer(tuning) && !self.gone.any() }
    }

    pub(crate) fn begin_notices(&mut self, tuning: &Tuning) {
        let notice = self.notice_for(tuning);
        self.journal.has_notified(notice);
    }

    /// Starts a generation with this map: commits are encoded from now on and follow the checkpoint with this header.
    pub(crate) fn begin_generation(
        &mut self,
        volume: VolumeId,
        (image, masks): (Vec<MapEntry>, Vec<Masks>),
        header: &CheckpointHeader,
    ) {
        self.journal.resume(Durable { volume, image, masks }, header);
    }
}
