//! Makes a running drive from the durable map, and the durable map from a running drive. The map is recovered from the newest checkpoint
//! and the journal after it, from whichever device has them; `interpret.rs` says what it means.

use peryton_format::{
    block::BLOCK,
    blocks::Masks,
    checkpoint::{self, CheckpointHeader},
    entry::MapEntry,
    handoff::{Contents, Found},
    map::{self, DurableMap, Named, NoMap, Older},
    mutation::{self, Mutation},
    notice::Notice,
    storage::Storage,
    superblock::VolumeId,
};
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::config::{Tuning, WritePolicy},
    api::error::{OLDER_THAN_RECORDS, OpenError},
    api::opened::{Opened, Trust},
    cache::access::{Fenced, Mode},
    cache::drive::CacheDrive,
    cache::interpret::{RecoveryRules, State},
    cache::journal::map_journal::Durable,
    cache::map::changed::NoRecord,
    cache::map::extent::{Loss, Place, Valid},
    cache::reshape::Reshape,
    cache::step::CacheIo,
};

impl CacheDrive {
    /// The content of the records that outlive the process.
    pub(in crate::cache) fn contents(&self) -> Contents {
        let (extents, places) = (self.map.len() as u64, self.map.all_masks().len() as u64);
        Contents::Map { extents, places }
    }

    /// Recovers the map and makes it durable in a new checkpoint.
    pub(in crate::cache) fn recover_map(
        &mut self,
        io: &mut CacheIo,
        storage: &mut dyn Storage,
        volume: VolumeId,
        (unwritten_from, trust, blank): (Option<[u32; 2]>, Trust, u32),
        handoff: Option<&Found>,
        opened: &mut Opened,
    ) -> Result<(), OpenError> {
        let (fast, gone) = (self.layout.fast, self.gone);
        let pair = self.alive();
        let reshape = self.reshape.take();
        let metadata = reshape.as_ref().map_or(self.layout.metadata, |reshape| reshape.from.metadata);
        let older = if trust == Trust::AsItIs { Older::Accepted } else { Older::Refused };
        let handoff = handoff.filter(|found| found.label.contents == self.contents());
        let named = if handoff.is_some() { Named::Known } else { Named::Lost };
        let found = map::read(storage, (&pair, fast), &metadata, volume, (older, named));
        let mut found = found.map_err(|error| match error {
            NoMap::Damaged(what) => OpenError::Damaged { device: pair[0].index(), what },
            NoMap::Behind { device, newest, expected } => {
                OpenError::Behind { device: device.index(), newest, expected }
            }
        })?;
        let is_older = |handoff: &Found| found.is_whole && found.next_commit <= handoff.settled && !gone.fast;
        if handoff.is_some_and(is_older) {
            return Err(OpenError::Damaged { device: fast.index(), what: OLDER_THAN_RECORDS });
        }
        (opened.commits, opened.given_up.commit) = (found.replayed, found.last_commit);
        if let Some(handoff) = handoff {
            take_over(&mut found, handoff, gone.slow);
        }
        opened.taken_over = handoff.map(|handoff| handoff.entries.len() as u64);
        let untracked = gone.fast && !found.shows_newer && handoff.is_none();
        if untracked && !found.notice.slow_current && trust != Trust::Slow {
            return Err(OpenError::Untracked { device: fast.index() });
        }
        if untracked {
            // No metadata says which extents are cached, and none is needed: the slow device has all valid data.
            // But where blocks are lost, only the place records which.
            for entry in &mut found.entries {
                *entry = map::without_fast(*entry, map::masks_of(*entry, &found.masks));
            }
        }
        let damaged = |what| OpenError::Damaged { device: pair[0].index(), what };
        let room = reshape.as_ref().map_or(self.room(), Reshape::room);
        if !self.find_snapshot(io, storage, volume, (opened.generation, room)) {
            return Err(damaged("a snapshot is torn"));
        }
        if let Some(reshape) = &reshape {
            self.reshape_map(&mut found, reshape).map_err(damaged)?;
        }
        let restored = self
            .load_map(
                io,
                (&found.entries, &found.masks),
                (unwritten_from, handoff.is_some(), found.notice),
                (trust, blank),
            )
            .map_err(damaged)?;
        (opened.mapped, opened.dirty, opened.lost) = (restored.mapped, restored.dirty, restored.lost);
        let (image, masks) = self.map.image();
        // A torn commit may remain with the next number, so that number is not reused.
        let mut header = CheckpointHeader {
            number: found.next_number_base + 1,
            last_commit: found.last_commit,
            first_commit: found.next_commit + u64::from(!mutation::is(Mutation::ReuseCommitNumber)),
            journal_at: found.next,
            entries: image.len() as u32,
            notice: self.notice_for(&io.tuning),
            layout: self.layout.metadata.number,
        };
        if let Some(reshape) = &reshape {
            // The ring of the new layout has no commit of it.
            (header.number, header.last_commit, header.journal_at) =
                (reshape.checkpoint_after(found.next_number_base), 0, 0);
        }
        let words = (&image[..], &masks[..]);
        checkpoint::store(storage, &pair, &self.layout.metadata, &header, words, volume)
            .map_err(|device| OpenError::Device { device: device.index() })?;
        self.begin_generation(volume, (image, masks), &header);
        Ok(())
    }
}

/// A killed process has left in memory the state of each extent that has changed since it opened the volume. Opening had written the
/// whole map as a checkpoint, so that checkpoint and these states are the whole map, whatever the journal has.
///
/// Blocks that the journal calls dirty may be newer on the slow device by now, and not durable there. If it is gone, they are lost, even if it
/// returns.
fn take_over(found: &mut DurableMap, handoff: &Found, slow_is_gone: bool) {
    let dirty = found.entries.iter().map(|entry| map::masks_of(*entry, &found.masks).dirty());
    let durable: Vec<u16> = if slow_is_gone { dirty.collect() } else { Vec::new() };
    for (extent, entry) in &handoff.entries {
        found.entries[*extent as usize] = *entry;
    }
    if !mutation::is(Mutation::TakeOverEntriesOnly) {
        for (place, masks) in &handoff.masks {
            found.masks[*place as usize] = *masks;
        }
    }
    for (entry, dirty) in found.entries.iter_mut().zip(durable) {
        let masks = map::masks_of(*entry, &found.masks);
        let outdated = dirty & !masks.valid();
        match entry.place().and_then(|place| found.masks.get_mut(place.0 as usize)) {
            _ if outdated == 0 => {}
            Some(masks) => *masks = Masks::new(masks.valid(), masks.differs_from_origin() | outdated),
            None => *entry = MapEntry::new(None, false, true),
        }
    }
}

impl CacheDrive {
    /// Whether the device has the newest checkpoint of this volume. One is written to both devices whenever the volume is
    /// opened, so that a copy from an earlier generation has not.
    pub(crate) fn has_newest_checkpoint(&self, storage: &mut dyn Storage, device: DeviceId, volume: VolumeId) -> bool {
        let mut newest = |device| {
            let headers = checkpoint::headers(storage, device, &self.layout.metadata, volume);
            headers.into_iter().flatten().map(|header| header.number).max()
        };
        let (fast, slow) = (newest(self.layout.fast), newest(self.layout.slow));
        fast.is_some() && fast == slow && [self.layout.fast, self.layout.slow].contains(&device)
    }
}

/// The ring is zeroed in writes of this many bytes.
const PIECE: u64 = 1 << 20;

impl CacheDrive {
    /// Writes the map as a checkpoint whose number is `ahead` above the last. The error names the device that failed.
    pub(in crate::cache) fn write_map(
        &self,
        io: &CacheIo,
        storage: &mut dyn Storage,
        volume: VolumeId,
        ahead: u64,
    ) -> Result<(), DeviceId> {
        let next = self.next_header(io);
        // A failed commit that is older than this map may remain in the journal, so its number is not reused.
        let gap = if mutation::is(Mutation::CloseReusesNumber) { 0 } else { ahead };
        let header =
            CheckpointHeader { number: next.number - 1 + ahead, first_commit: next.first_commit + gap, ..next };
        let (image, masks) = self.map.image();
        let words = (&image[..], &masks[..]);
        checkpoint::store(storage, &self.alive(), &self.layout.metadata, &header, words, volume)
    }

    /// Writes the map to a device without metadata; the other device has the map already.
    pub(in crate::cache) fn write_metadata_to(
        &mut self,
        io: &CacheIo,
        storage: &mut dyn Storage,
        device: DeviceId,
        volume: VolumeId,
    ) -> Result<(), DeviceId> {
        let next = self.next_header(io);
        // Neither journal has a commit after this checkpoint, and a number that a failed commit may have is not reused.
        let header = CheckpointHeader { last_commit: 0, first_commit: next.first_commit + 1, ..next };
        // Metadata of this volume that the device may have from earlier must not be taken for current.
        if device == self.layout.fast {
            self.mark_room(storage, volume)?;
        }
        let layout = &self.layout.metadata;
        let zeros = vec![0; PIECE as usize];
        let mut blank: Vec<(Bytes, u64)> = [0, 1].map(|which| (layout.checkpoint_at(which), BLOCK)).to_vec();
        let pieces = (0..layout.journal_bytes).step_by(PIECE as usize);
        blank.extend(pieces.map(|at| (layout.journal_at(at), PIECE.min(layout.journal_bytes - at))));
        for (at, len) in blank {
            storage.write(device, at, &zeros[..len as usize]).map_err(|_| device)?;
        }
        storage.flush(device).map_err(|_| device)?;
        let both = [self.layout.fast, self.layout.slow];
        let (image, masks) = self.map.image();
        checkpoint::store(storage, &both, layout, &header, (&image[..], &masks[..]), volume)
    }
}

/// The state of a volume when it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Restored {
    /// Extents with a place (tiering) or with a copy in the cache.
    pub(crate) mapped: u64,
    pub(crate) dirty: u64,
    pub(crate) lost: u64,
}

impl CacheDrive {
    /// Loads the durable map. `unwritten_from`: after a clean close, the places from which on none was ever written; after a
    /// crash every free place may hold data. `known`: the map is what a process that was killed had in memory. `notice`: the newest one.
    /// `blank`: devices that took the place of a gone one, so that what is lost with it is lost for good.
    pub(crate) fn load_map(
        &mut self,
        io: &mut CacheIo,
        (image, masks): (&[MapEntry], &[Masks]),
        (unwritten_from, known, notice): (Option<[u32; 2]>, bool, Notice),
        (trust, blank): (Trust, u32),
    ) -> Result<Restored, &'static str> {
        let mut restored = Restored::default();
        if image.len() != self.map.len() {
            return Err("it maps another number of extents");
        }
        if masks.len() != self.map.all_masks().len() {
            return Err("it has masks of another number of places");
        }
        let places = self.layout.fast_slots + if self.mode == Mode::Tiering { self.layout.slow_slots } else { 0 };
        let crashed = unwritten_from.is_none() && !known;
        let trusts = |valid: &Valid| match valid {
            Valid::Copy => mutation::is(Mutation::TrustCleanCopies),
            Valid::Origin => mutation::is(Mutation::KeepCleanCopies),
        };
        let is_blank = |device: DeviceId| blank >> device.index() & 1 == 1;
        let blank = Fenced { fast: is_blank(self.layout.fast), slow: is_blank(self.layout.slow) };
        let rules = RecoveryRules {
            gone: Fenced { fast: self.gone.fast || blank.fast, slow: self.gone.slow || blank.slow },
            // A copy that the handoff calls clean is clean: the memory records a possible difference before copy or origin is written.
            valid: crashed.then(|| self.valid(io)).filter(|valid| !trusts(valid)),
            // With write-through, the server may have made host data durable at their origins alone, and not the copies, nor which copies count.
            // The map does not say which policy was in force, so clean copies go with write-back as well, as long as none was ever dirty.
            unflushed: crashed && notice.slow_current && !mutation::is(Mutation::TrustUnflushedCopies),
            trusts_origins: trust == Trust::Slow,
            ..self.recovery_rules()
        };
        let loses_origins = self.mode == Mode::Caching && blank.slow;
        for (index, entry) in (0..).zip(image) {
            let at_rest = rules.without_stale_copies(State::of(*entry, masks));
            if at_rest.entry.place().is_some_and(|place| place.0 >= places) {
                return Err("an extent is in a place that is not there");
            }
            if at_rest.entry.is_dirty() && self.mode == Mode::Tiering {
                return Err("an extent is dirty that has no copy");
            }
            let State { entry, masks: parts } = self.interpret(&rules, at_rest);
            let place = entry.place();
            let loss = match self.loss(entry) {
                Loss::None | Loss::WithOrigin if loses_origins && place.is_none() => Loss::Newest,
                loss => loss,
            };
            self.map.set_loss(index, loss).needs_no_record(NoRecord::WholeMap);
            if let Some(left) = at_rest.entry.place().filter(|_| loss == Loss::Newest && place.is_none() && !blank.fast)
            {
                self.map.leave_behind(index, left, at_rest.masks);
            }
            let Some(place) = place else { continue };
            let parts = if loses_origins { Masks::new(parts.valid(), rules.all) } else { parts };
            restored.mapped += 1;
            restored.dirty += u64::from(entry.is_dirty());
            if !self.map.adopt(index, place) {
                return Err("two extents are in one place");
            }
            if self.mode == Mode::Caching {
                self.map.set_masks(index, parts, io.now).needs_no_record(NoRecord::WholeMap);
            }
            restored.lost += u64::from(loss == Loss::None && self.lost_blocks(index) != 0);
        }
        restored.lost += u64::from(self.map.lost());
        if crashed {
            self.map.takes_for_dirty(io.now);
        }
        self.warm_up(io);
        let all = if mutation::is(Mutation::ForgetStale) { [0, 0] } else { [u32::MAX, u32::MAX] };
        self.restore_stale(unwritten_from.unwrap_or(all));
        io.due(io.now);
        Ok(restored)
    }

    /// Marks free places below these as stale: they may hold data of an earlier extent.
    fn restore_stale(&mut self, unwritten_from: [u32; 2]) {
        let fast = (0..self.layout.fast_slots.min(unwritten_from[0])).map(Place);
        let slow_slots = if self.mode == Mode::Tiering { self.layout.slow_slots.min(unwritten_from[1]) } else { 0 };
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

    /// The conclusions that a slow device, opened alone, may draw about the data on the fast one.
    pub(crate) fn notice_for(&self, tuning: &Tuning) -> Notice {
        let slow_current = self.mode == Mode::Caching && self.controller.is_none() && self.map.dirty().count() == 0;
        let write_intent = self.journal.names_newer(tuning) && !self.gone.any();
        Notice { slow_current, write_intent }
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

impl CacheDrive {
    /// The rules of recovery for the present state of the drive: devices may be gone.
    pub(in crate::cache) fn recovery_rules(&self) -> RecoveryRules {
        let all = self.layout.blocks.map_or(0, |blocks| blocks.all);
        RecoveryRules { mode: self.mode, gone: self.gone, all, valid: None, unflushed: false, trusts_origins: false }
    }

    /// Where an extent is whose entry in the durable map is `durable`.
    pub(in crate::cache) fn interpret(&self, rules: &RecoveryRules, durable: State) -> State {
        let is_on_gone = |place| match self.layout.fast_slot(place) {
            Some(_) => rules.gone.fast,
            None => rules.gone.slow,
        };
        let place = durable.entry.place().filter(|place| self.layout.has_place(*place));
        rules.interpret(durable, place.is_some_and(is_on_gone))
    }

    /// The valid one of copy and origin if a crash may have cut a write to one or both.
    pub(in crate::cache) fn valid(&self, io: &CacheIo) -> Valid {
        let copy = io.tuning.write == WritePolicy::Back || self.controller.is_some();
        if copy { Valid::Copy } else { Valid::Origin }
    }
}
