//! A log before a primary as a placement.

use std::ops::Range;

use peryton_format::{
    handoff::{Contents, Found, Record},
    storage::Storage,
    superblock::{GivenUp, VolumeId},
};
use peryton_units::Bytes;

use crate::{
    api::command::{Buffers, DeviceId, Request},
    api::config::Tuning,
    api::error::{DeviceError, OpenError, ReadmitError, RequestError},
    api::location::{Location, Losses, MapPart, Origin, Source},
    api::opened::{Opened, Trust},
    api::stats::Stats,
    api::verification::Verification,
    io::RequestIndex,
    log::append::BUFFERS,
    log::damage::OnDamage,
    log::drive::{LogDrive, continues},
    log::kept::Kept,
    log::ready::Turn,
    log::step::{LogCall, LogCommand, LogIo, LogStep},
    log::verifying::VERIFIES,
    placement::PlacementOps,
};

/// The longest part of a volume for which one call reports the source of reads.
const LONGEST_SOURCE: Bytes = Bytes::mib(1);

/// Whether neighbours can be read alike.
fn is_same(one: Origin, other: Origin) -> bool {
    matches!(one, Origin::Lost) == matches!(other, Origin::Lost)
}

impl PlacementOps for LogDrive {
    type Step = LogStep;

    #[inline]
    fn submit(&mut self, io: &mut LogCall, request: RequestIndex, asked: Request) {
        self.take(io, request, asked);
        self.go_on(io);
    }

    fn flush(&mut self, io: &mut LogCall, request: RequestIndex) {
        io.add_part(request);
        if self.stopped.any() {
            io.error_reported();
            return io.part_done(request, self.answer());
        }
        self.commit.wait(request);
        self.ready.push(Turn::Commit);
        self.go_on(io);
    }

    #[inline]
    fn step(&mut self, io: &mut LogCall, step: LogStep, _: &LogCommand, failed: bool) {
        match step {
            LogStep::Append { group } => self.append_step(io, group, failed),
            LogStep::Host { request } => {
                let result = if failed { Err(RequestError::Device) } else { self.answer() };
                io.part_done(request, result);
            }
            LogStep::Read { request, segment } => {
                self.log.read_ended(segment);
                let result = if failed { Err(RequestError::Device) } else { self.answer() };
                io.part_done(request, result);
            }
            LogStep::Verify { slot } => self.verify_step(io, slot, failed),
            LogStep::Direct { op } => self.direct_step(io, op, failed),
            LogStep::MigrationRead { chunk } => self.migration_read(chunk, failed),
            LogStep::MigrationRest { run, rest } => self.rest_was_read(io, (run, rest), failed),
            LogStep::MigrationWrite { run } => self.migration_wrote(io, run, failed),
            LogStep::Commit => self.step_commit(io, failed),
            LogStep::Check => self.stopped.checked(failed, io),
        }
        self.go_on(io);
    }

    fn encode(&self, io: &LogIo, command: &LogCommand, step: LogStep, into: &mut [u8], buffers: Option<&dyn Buffers>) {
        let volume = self.volume.expect("only a volume that was opened from its devices is encoded");
        match step {
            LogStep::Append { group } => self.encode_append(io, group, volume, into, buffers),
            LogStep::Commit => self.encode_commit(command, volume, into),
            step => unreachable!("{step:?} writes no metadata"),
        }
    }

    fn tick(&mut self, io: &mut LogCall) {
        self.check_stopped(io);
        self.tick_appends(io);
        self.tick_commit(io);
        self.ready.push(Turn::Trigger);
        self.ready.push(Turn::Migration);
        self.go_on(io);
        self.declare_timeout(io);
    }

    fn statistics_reset(&mut self, io: &mut LogIo, _: &Stats) {
        io.stats.logging = Some(Default::default());
    }

    fn move_buffers(&self, tuning: &Tuning) -> u32 {
        BUFFERS + VERIFIES + self.migration.buffers(tuning)
    }

    fn write_all_back(&mut self, io: &mut LogCall) {
        self.write_all_home(io);
        self.go_on(io);
    }

    fn dirty_left(&self) -> u64 {
        self.blocks_away()
    }

    fn location(&self, _: Bytes, rest: Bytes) -> Location {
        Location { len: rest, device: None, mapped: true, dirty: false, lost: false }
    }

    fn source(&self, offset: Bytes, rest: Bytes) -> Source {
        let border = self.log.segment_bytes() - 1;
        // Only a drive that can write verifies data, so for this report unverified data count as lost.
        let origin = |from: u64, len: u64, place: Option<u64>| match place {
            None => Origin::At { first: self.primaries.place_of(from), second: None },
            Some(at) if self.log.is_damaged(at, len) || self.log.is_unverified(at, len) => Origin::Lost,
            Some(at) => Origin::At { first: self.log_place(at), second: None },
        };
        let (mut len, mut found, mut is_over) = (0, None, false);
        self.map.walk(offset.0, (offset + rest.min(LONGEST_SOURCE)).0, |low, high, place| {
            let (begins, here) = (*found.get_or_insert(place), origin(low, high - low, place));
            let follows = len == 0
                || continues(begins, len, place, border)
                    && !self.primaries.begins(low)
                    && is_same(origin(offset.0, 1, begins), here);
            is_over |= !follows;
            len += if is_over { 0 } else { high - low };
        });
        Source { len: Bytes(len), origin: origin(offset.0, 1, found.flatten()) }
    }

    fn damaged_blocks(&self) -> u64 {
        let mut blocks = 0;
        self.walk_damaged(|from, to| blocks += (to - from).div_ceil(self.block));
        blocks
    }

    fn verify(&self, step: LogStep, buffers: &dyn Buffers) -> Option<Verification> {
        let LogStep::Verify { slot } = step else { return None };
        self.verify_unit(slot, buffers)
    }

    fn verified(&mut self, result: Verification) {
        LogDrive::verified(self, result);
    }

    fn map_part(&self, _: &LogIo, from: Bytes, most: u32) -> MapPart {
        self.rows_from(from, most)
    }

    fn losses(&self, _: &LogIo, most: usize) -> Losses {
        self.lost_ranges(most)
    }

    fn dirty_bytes(&self) -> Bytes {
        Bytes(self.log.live)
    }

    fn is_idle(&self) -> bool {
        self.deferred.is_empty()
            && self.appends.is_idle()
            && self.directs.is_idle()
            && self.migration.is_idle()
            && self.commit.is_idle()
            && self.verifying.is_idle()
    }

    fn check_invariants(&self, quiet: bool) {
        self.check_tables(quiet);
    }

    fn contents_of_records(&self) -> Option<Contents> {
        Some(Contents::Log { records: self.commit.most_kept() })
    }

    fn keep_records(&mut self) {
        self.commit.kept = Some(Kept::new(self.commit.most_kept()));
    }

    #[inline]
    fn take_records(&mut self, take: &mut impl FnMut(Record)) {
        let (complete, _) = self.unretired();
        if let Some(kept) = &mut self.commit.kept {
            kept.take(complete, take);
        }
    }

    fn flush_failed(&mut self, io: &mut LogCall, device: DeviceId) {
        self.stop(io, device);
        self.go_on(io);
    }

    fn fail_flushes(&mut self, io: &mut LogCall) {
        self.flushes_fail(io);
    }

    fn fence(&mut self, io: &mut LogCall, device: DeviceId) -> bool {
        let loses = self.device_died(io, device);
        self.go_on(io);
        loses
    }

    fn is_ready_to_fence(&mut self, _: &mut LogCall) -> bool {
        self.commit.group.is_idle()
    }

    fn fence_is_durable(&mut self, io: &mut LogCall) {
        self.go_on_without(io);
        self.go_on(io);
    }

    fn without(&mut self, _: &LogIo, device: DeviceId) -> bool {
        self.mark_gone(device);
        self.gone.log_is_unknown |= self.gone.log;
        true
    }

    fn format(&self, _: &LogIo, storage: &mut dyn Storage, volume: VolumeId) -> Result<(), DeviceId> {
        self.format_log(storage, volume).map_err(|DeviceError| self.log_device)
    }

    fn recover(
        &mut self,
        io: &mut LogIo,
        storage: &mut dyn Storage,
        volume: VolumeId,
        (_, trust, _): (Option<[u32; 2]>, Trust, u32),
        left: Option<&Found>,
        opened: &mut Opened,
    ) -> Result<(), OpenError> {
        self.trusts_unverifiable = trust == Trust::AsItIs;
        self.recover_log(io, storage, volume, left, opened)
    }

    fn given_up_with(&self, device: DeviceId, before: GivenUp) -> GivenUp {
        let returnable = self.returnable_without(device, before.returnable);
        GivenUp { returnable, ..GivenUp::default() }
    }

    fn close(&mut self, _: &LogIo, storage: &mut dyn Storage, volume: VolumeId) -> Result<(), DeviceId> {
        self.close_log(storage, volume).map_err(|DeviceError| self.log_device)
    }

    fn take_back(
        &mut self,
        _: &LogIo,
        storage: &mut dyn Storage,
        device: DeviceId,
        (volume, GivenUp { returnable, .. }): (VolumeId, GivenUp),
    ) -> Result<u64, ReadmitError> {
        self.takes_back(storage, device, (volume, returnable))
    }

    fn fill_replacement(
        &mut self,
        _: &LogIo,
        storage: &mut dyn Storage,
        device: DeviceId,
        volume: VolumeId,
        generation: u64,
    ) -> Result<VolumeId, DeviceId> {
        if device != self.log_device {
            self.close_log(storage, volume).map_err(|DeviceError| self.log_device)?;
            return Ok(volume);
        }
        // The volume gets a new name, so that records of an earlier log on the device are never taken for this log's.
        let volume = renamed(volume, generation);
        self.format_log(storage, volume).map_err(|DeviceError| device)?;
        Ok(volume)
    }
}

impl LogDrive {
    /// See [`Engine::host_dropped`](crate::Engine::host_dropped).
    pub(crate) fn host_dropped(&mut self, io: &mut LogCall, range: Range<Bytes>) {
        // Only whole blocks are migrated: a block in two places costs more than it saves.
        let (from, to) = (range.start.0 & !(self.block - 1), range.end.0.min(self.size).next_multiple_of(self.block));
        self.migration.hint(from, to);
        self.ready.push(Turn::Migration);
        self.go_on(io);
    }

    /// Whether the log has stopped after a failed flush, and waits until the volume is opened again.
    pub(crate) fn waits_to_be_reopened(&self) -> bool {
        self.stopped.is_settled()
    }

    /// The next [`PlacementOps::recover`] names what is damaged, and goes on with the rest.
    pub(crate) fn name_damage(&mut self) {
        self.on_damage = OnDamage::Name;
    }

    /// Whether data was found that has lost its checksums.
    pub(crate) fn has_unverifiable(&self) -> bool {
        self.has_unverifiable
    }

    /// Whether the device has commits of this volume.
    pub(crate) fn has_commits(&self, storage: &mut dyn Storage, device: DeviceId, volume: VolumeId) -> bool {
        device == self.log_device && self.read_ring(storage, volume, None).is_ok()
    }

    /// Whether the last [`PlacementOps::write_all_back`] left more than can be listed.
    pub(crate) fn is_stuck(&self) -> bool {
        self.migration.is_stuck()
    }
}

/// Returns a name for the volume that no earlier generation used.
fn renamed(volume: VolumeId, generation: u64) -> VolumeId {
    const ODD: u128 = 0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835;
    VolumeId(volume.0.wrapping_mul(ODD) ^ u128::from(generation).wrapping_mul(ODD << 1 | 1))
}
