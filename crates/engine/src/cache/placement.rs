//! Tiering, caching and partitioned as a placement.

use peryton_format::{
    entry::MapEntry,
    handoff::{Contents, Found, Record},
    mutation::{self, Mutation},
    storage::Storage,
    superblock::{GivenUp, VolumeId},
};
use peryton_policy::replacement::SlotIndex;
use peryton_policy::{AdaptiveView, ClimbView, hill_climbing::Counted};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::cleaning::CleaningReport,
    api::command::{Buffers, DeviceId, IoId, Request, RequestId},
    api::config::{Tuning, WritePolicy},
    api::error::{OpenError, ReadmitError, RequestError, TuningError},
    api::location::{Location, Losses, MapPart, Origin, Source},
    api::opened::{Opened, Trust},
    api::stats::Stats,
    api::warmth::Warmth,
    cache::access::{Follow, Mode},
    cache::blocks::{Blocks, runs},
    cache::drive::CacheDrive,
    cache::layout::CacheLayout,
    cache::step::{CacheCall, CacheCommand, CacheIo, CacheStep},
    cache::tuner::Tuner,
    io::RequestIndex,
    placement::PlacementOps,
};

impl PlacementOps for CacheDrive {
    type Step = CacheStep;

    fn begin(&mut self, io: &mut CacheIo) {
        if self.controller.is_some() {
            io.report_answers();
        }
        self.begin_notices(&io.tuning);
        self.bound_dirty(io);
        self.apply_units(io);
        // Nothing is mapped yet. If a recovery finds dirty extents of an earlier write policy, it resets this.
        if self.mode == Mode::Caching && self.controller.is_none() && io.tuning.write != WritePolicy::Back {
            io.redundant_devices |= 1 << self.layout.fast.index();
            self.set_never_dirty(!self.gone.any());
        }
    }

    #[inline(always)]
    fn try_hit(&mut self, io: &mut CacheCall, id: RequestId, request: Request) -> bool {
        self.try_hit_map(io, id, request)
    }

    fn submit(&mut self, io: &mut CacheCall, request: RequestIndex, asked: Request) {
        if let Some(held) = &mut self.held {
            return held.request(io, request, asked);
        }
        self.split(io, request, asked);
        self.go_on(io);
    }

    fn flush(&mut self, io: &mut CacheCall, request: RequestIndex) {
        io.add_part(request);
        self.flush_host(io, request);
        self.go_on(io);
    }

    fn answered(&mut self, io: &mut CacheIo) {
        self.partition_answered(io);
    }

    #[inline(always)]
    fn try_complete_plain(&mut self, io: &mut CacheCall, id: IoId, step: CacheStep) -> bool {
        let CacheStep::Host { request, first_extent: first, count: 1, follow: Follow::NOTHING } = step else {
            return false;
        };
        self.try_end_plain(io, id, (request, first))
    }

    #[inline]
    fn step(&mut self, io: &mut CacheCall, step: CacheStep, command: &CacheCommand, failed: bool) {
        self.partition_served(io.now, command);
        if self.held.is_some() {
            self.ended_while_held(io, step, command, failed);
            return self.go_on(io);
        }
        match step {
            CacheStep::Host { request, first_extent: first, count, follow: Follow::PAST } => {
                let result = if failed { Err(RequestError::Device) } else { Ok(()) };
                for part in self.parts_of(command, (first, count)) {
                    self.past_done(io, part.again(request, Op::Write, command.len), failed);
                }
                io.part_done(request, result);
            }
            CacheStep::Host { request, first_extent: first, count, follow } => {
                self.host_done(io, command, (request, first, count), (failed, follow));
            }
            CacheStep::Allocating { request, extent } => self.allocating_done(io, command, (request, extent), failed),
            CacheStep::Through { write } => self.through_step(io, write, command.device, failed),
            CacheStep::Run { run, first, count } => self.run_was_written(io, (run, first, count), failed),
            CacheStep::Move { index } => self.move_step(io, index, failed),
            CacheStep::Missing { index } => self.missing_was_read(index, failed),
            CacheStep::Commit => self.commit_step(io, failed),
            CacheStep::Snapshot => self.snapshot_step(io, failed),
            CacheStep::Checkpoint => self.checkpoint_step(io, command.device, failed),
            CacheStep::Discarded { place } => self.place_discarded(place),
        }
        self.go_on(io);
    }

    fn encode(&self, _: &CacheIo, command: &CacheCommand, step: CacheStep, into: &mut [u8], _: Option<&dyn Buffers>) {
        match step {
            CacheStep::Snapshot => self.encode_snapshot(into),
            _ => self.journal.encode(command, step, into),
        }
    }

    fn tick(&mut self, io: &mut CacheCall) {
        self.timers(io);
        self.tune(io);
        self.go_on(io);
    }

    fn check(&self, tuning: &Tuning) -> Result<(), TuningError> {
        self.layout.check(self.mode, tuning)
    }

    fn retuned(&mut self, io: &mut CacheCall, before: &Tuning) {
        // The search starts again from the settings that the user has just given.
        let tuner = Tuner::new(&self.placement, &io.tuning);
        let earlier = std::mem::replace(&mut self.tuner, tuner);
        if let (Some(tuner), Some(earlier)) = (&mut self.tuner, earlier) {
            tuner.resume(&earlier);
        }
        if io.tuning.write == WritePolicy::Back {
            io.redundant_devices = 0;
            self.set_never_dirty(false);
        }
        self.settings_changed(io, before);
        self.go_on(io);
    }

    fn statistics_reset(&mut self, io: &mut CacheIo, before: &Stats) {
        let counted = counted(before, self.layout.fast);
        if let Some(tuner) = &mut self.tuner {
            tuner.statistics_reset(io, counted);
        }
    }

    fn move_buffers(&self, tuning: &Tuning) -> u32 {
        // A promotion asks for a slot while fewer than MCML moves are in flight; the evictions that it starts may reach
        // MCML.
        self.buffer_count.max(tuning.max_moves + 1)
    }

    fn write_all_back(&mut self, io: &mut CacheCall) {
        self.write_back_all(io);
        self.go_on(io);
    }

    fn dirty_left(&self) -> u64 {
        u64::from(self.map.dirty().count())
    }

    fn location(&self, offset: Bytes, _: Bytes) -> Location {
        let (extent, within) = self.layout.split(offset);
        let entry = self.map.entry(extent);
        if let Some(blocks) = self.layout.blocks
            && let Some(slot) = entry.slot()
        {
            return self.location_in_part(blocks, (extent, slot), within, entry.is_lost());
        }
        let device = match (entry.place(), self.mode) {
            (Some(place), _) => Some(self.layout.at(place).0),
            (None, Mode::Caching) => Some(self.layout.slow),
            (None, Mode::Tiering) => None,
        };
        let len = Bytes(self.layout.extent_bytes - u64::from(within));
        Location { len, device, mapped: device.is_some(), dirty: entry.is_dirty(), lost: entry.is_lost() }
    }

    fn source(&self, offset: Bytes, rest: Bytes) -> Source {
        let (Location { len, device, mapped, dirty, lost }, (extent, within)) =
            (self.location(offset, rest), self.layout.split(offset));
        let (entry, within) = (self.map.entry(extent), Bytes(u64::from(within)));
        let beyond = |(device, at): (DeviceId, Bytes)| (device, at + within);
        let origin = (self.mode == Mode::Caching).then(|| beyond(self.layout.at(self.origin_of(extent))));
        let here = entry.place().map(|place| beyond(self.layout.at(place)));
        // If some blocks of an extent are lost, its other blocks can still be read.
        let is_lost = lost && (device.is_none() || entry.slot().is_none() || self.layout.blocks.is_none());
        let origin = match (is_lost, mapped, origin, here) {
            (true, ..) => Origin::Lost,
            (false, true, Some(origin), Some(here)) if device == Some(here.0) => {
                Origin::At { first: here, second: Some(origin).filter(|_| !dirty) }
            }
            (false, true, Some(first), _) | (false, true, None, Some(first)) => Origin::At { first, second: None },
            _ => Origin::Zeros,
        };
        Source { len, origin }
    }

    fn map_part(&self, io: &CacheIo, from: Bytes, most: u32) -> MapPart {
        self.rows_from(io.now, from, most)
    }

    fn losses(&self, _: &CacheIo, most: usize) -> Losses {
        self.lost_ranges(most)
    }

    fn cleaning(&self, io: &CacheIo, now: Nanos) -> Option<CleaningReport> {
        (self.mode == Mode::Caching).then(|| self.report_cleaning(io, now))
    }

    fn dirty_bytes(&self) -> Bytes {
        Bytes(self.map.dirty_bytes())
    }

    fn warmth(&self) -> Option<Warmth> {
        Some(self.warm.report)
    }

    fn is_idle(&self) -> bool {
        self.moves.len() == 0
            && self.flushes.is_empty()
            && self.journal.is_idle()
            && self.through_in_flight.is_empty()
            && self.follows.is_empty()
            && self.held.is_none()
            && self.ready.is_empty()
    }

    fn check_invariants(&self, quiet: bool) {
        self.check_tables(quiet);
    }

    fn contents_of_records(&self) -> Option<Contents> {
        Some(self.contents())
    }

    fn keep_records(&mut self) {
        self.map.keep_changed();
    }

    #[inline]
    fn take_records(&mut self, take: &mut impl FnMut(Record)) {
        self.map.take_changed(&mut *take);
        if let Some(upto) = self.journal.take_settled() {
            take(Record::Settled { upto });
        }
    }

    fn begin_shrinking(&mut self, io: &mut CacheIo, size: Bytes, rate: Bytes) -> bool {
        let usable = (size.0 / self.layout.extent_bytes) as u32;
        self.begin_emptying(io, usable + self.layout.spare, usable, rate)
    }

    fn stop_shrinking(&mut self, io: &mut CacheIo) {
        self.end_emptying(io);
    }

    fn bytes_beyond(&self) -> Bytes {
        Bytes(u64::from(self.still_beyond()) * self.layout.extent_bytes)
    }

    fn flush_failed(&mut self, io: &mut CacheCall, device: DeviceId) {
        self.hold(io, device);
        io.write_again_later(device);
        self.go_on(io);
    }

    fn fail_flushes(&mut self, io: &mut CacheCall) {
        self.flushes_fail(io);
    }

    fn fence(&mut self, io: &mut CacheCall, device: DeviceId) -> bool {
        let may_be_lost = self.device_died(io, device);
        self.go_on(io);
        may_be_lost
    }

    fn is_ready_to_fence(&mut self, io: &mut CacheCall) -> bool {
        self.journal.is_ready_to_fence(io)
    }

    fn fence_is_durable(&mut self, io: &mut CacheCall) {
        self.go_on_without(io);
        self.go_on(io);
    }

    fn without(&mut self, _: &CacheIo, device: DeviceId) -> bool {
        self.mark_gone(device);
        self.set_never_dirty(false);
        self.journal.without(device);
        true
    }

    fn format(&self, io: &CacheIo, storage: &mut dyn Storage, volume: VolumeId) -> Result<(), DeviceId> {
        self.mark_room(storage, volume)?;
        self.write_map(io, storage, volume, 0)
    }

    fn recover(
        &mut self,
        io: &mut CacheIo,
        storage: &mut dyn Storage,
        volume: VolumeId,
        found: (Option<[u32; 2]>, Trust, u32),
        left: Option<&Found>,
        opened: &mut Opened,
    ) -> Result<(), OpenError> {
        self.recover_map(io, storage, volume, found, left, opened)?;
        if self.map.dirty().count() > 0 || self.gone.slow {
            // The dirty extents come from an earlier write policy: only the fast device has the data that are written
            // to them. So the fast device also has all data that are written while the slow one is gone.
            io.redundant_devices = 0;
        }
        if self.map.dirty().count() > 0 || self.map.lost() > 0 {
            self.set_never_dirty(false);
        }
        Ok(())
    }

    fn close(&mut self, io: &CacheIo, storage: &mut dyn Storage, volume: VolumeId) -> Result<(), DeviceId> {
        // The flush of the map covers it.
        self.save_snapshot(io, storage);
        if mutation::is(Mutation::CloseWithoutMap) {
            return Ok(());
        }
        self.write_map(io, storage, volume, 1)
    }

    fn used_places(&self) -> [u32; 2] {
        self.touched_places()
    }

    fn given_up_with(&self, device: DeviceId, _: GivenUp) -> GivenUp {
        let commit = if device == self.layout.slow { self.journal.last_on_slow } else { self.journal.last_commit };
        GivenUp { commit, ..GivenUp::default() }
    }

    fn take_back(
        &mut self,
        io: &CacheIo,
        storage: &mut dyn Storage,
        device: DeviceId,
        (volume, GivenUp { commit, .. }): (VolumeId, GivenUp),
    ) -> Result<u64, ReadmitError> {
        self.take_back_device(io, storage, device, (volume, commit))
    }

    fn fill_replacement(
        &mut self,
        io: &CacheIo,
        storage: &mut dyn Storage,
        device: DeviceId,
        volume: VolumeId,
        _: u64,
    ) -> Result<VolumeId, DeviceId> {
        self.write_metadata_to(io, storage, device, volume)?;
        Ok(volume)
    }
}

/// Methods that only a drive with a map has.
impl CacheDrive {
    fn location_in_part(&self, blocks: Blocks, (extent, slot): (u32, SlotIndex), within: u32, lost: bool) -> Location {
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

    /// Lets hill climbing change settings, if the tuning asks for it.
    fn tune(&mut self, io: &mut CacheCall) {
        let Some(tuner) = &mut self.tuner else { return };
        if !tuner.is_due(io) {
            return;
        }
        let counted = counted(&io.stats, self.layout.fast);
        let before = io.tuning.clone();
        if tuner.tick(io, counted) {
            self.settings_changed(io, &before);
        }
    }

    /// Ends what [`PlacementOps::write_all_back`] has begun.
    pub(crate) fn pause_writing_back(&mut self) {
        self.cleaner.asked = None;
        self.cleaner.decides_again();
    }

    /// See [`Engine::asks_what_was_programmed`](crate::Engine::asks_what_was_programmed).
    pub(crate) fn asks_what_was_programmed(&mut self, now: Nanos) -> Option<DeviceId> {
        let CacheLayout { fast, slow, .. } = self.layout;
        if self.tuner.as_ref().is_some_and(|tuner| tuner.asks_what_was_programmed()) {
            return Some(fast);
        }
        match &mut self.controller {
            Some(controller) => controller.asks_what_was_programmed(now).then_some(fast),
            None => {
                self.gate.asks_what_was_programmed(now, [fast.index(), slow.index()]).map(|asked| [fast, slow][asked])
            }
        }
    }

    /// See [`Engine::programmed`](crate::Engine::programmed). `written`: the bytes written to the device according to the statistics.
    pub(crate) fn programmed(&mut self, device: DeviceId, bytes: Bytes, written: Bytes) {
        if device == self.layout.fast {
            if let Some(controller) = &mut self.controller {
                controller.programmed(bytes, written);
            }
            if let Some(tuner) = &mut self.tuner {
                tuner.programmed(bytes);
            }
        }
        self.gate.programmed(device.index(), bytes, written);
    }

    /// See [`Engine::worn`](crate::Engine::worn). `written`: as above.
    pub(crate) fn worn(&mut self, device: DeviceId, used_ppm: u32, age: Option<Nanos>, written: Bytes) {
        if device == self.layout.fast
            && let Some(controller) = &mut self.controller
        {
            controller.worn(used_ppm, age);
        }
        self.gate.worn(device.index(), used_ppm, written);
    }

    /// See [`Engine::asks_what_was_drawn`](crate::Engine::asks_what_was_drawn).
    pub(crate) fn asks_what_was_drawn(&self) -> bool {
        self.tuner.as_ref().is_some_and(|tuner| tuner.asks_what_was_drawn())
    }

    /// See [`Engine::drew`](crate::Engine::drew).
    pub(crate) fn drew(&mut self, microjoules: u64) {
        if let Some(tuner) = &mut self.tuner {
            tuner.drew(microjoules);
        }
    }

    /// Number of lost extents.
    pub(crate) fn lost_extents(&self) -> u32 {
        self.map.lost()
    }

    /// Number of extents that are newer than their origins.
    pub(crate) fn dirty_extents(&self) -> u32 {
        self.map.dirty().count()
    }

    /// See [`Engine::tell_time`](crate::Engine::tell_time).
    pub(crate) fn tell_time(&mut self, io: &CacheIo, unix_s: u64) {
        self.warm.tell_time(io.now, unix_s);
    }

    /// The state of hill climbing.
    pub(crate) fn climbing(&self, tuning: &Tuning) -> Option<ClimbView> {
        self.tuner.as_ref().map(|tuner| tuner.view(tuning))
    }

    /// The state of the adaptive admission threshold.
    pub(crate) fn adaptive_admission(&self) -> Option<AdaptiveView> {
        self.gate.view()
    }

    /// From now on keeps which entries of the map change.
    pub(crate) fn watch_extents(&mut self) {
        self.map.watch_changed();
    }

    /// Hands out the entries that have changed since the last time.
    pub(crate) fn take_changed_extents(&mut self, take: &mut impl FnMut(u32, MapEntry)) {
        self.map.take_changed(|record| {
            if let Record::Entry { extent, entry } = record {
                take(extent, entry);
            }
        });
    }
}

/// The counts by which hill climbing compares settings.
fn counted(stats: &Stats, fast: DeviceId) -> Counted {
    Counted {
        written: stats.devices[fast.index()].bytes_written.iter().sum(),
        hits: stats.fast_hits,
        misses: stats.fast_misses,
    }
}
