//! A volume on real devices: format, open after a close or a crash, close.
//!
//! A generation begins when a volume is opened. First each superblock records that a generation is about to begin, then
//! that it has begun; only then are requests served. So a device that was left out of a generation, or a copy of a
//! device from before it, can be distinguished from a device that a crash left one step behind.

use peryton_format::{
    block::{BLOCK, BLOCK_LEN},
    copies::{self, FoundSuperblock},
    displaced::Displaced,
    geometry::{Geometry, MOST_DEVICES},
    mutation::{self, Mutation},
    storage::Storage,
    superblock::{MOST_NOTES, Superblock, VolumeId, VolumeState},
};
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::config::{Config, Placement},
    api::error::{ConfigError, DeviceError, FormatError, OLDER_THAN_RECORDS, OpenError},
    api::opened::{Formatting, Opened, Trust},
    api::resizing::Settled,
    lifecycle::any::AnyDrive,
    lifecycle::any::with_drive,
    lifecycle::drive::Drive,
    lifecycle::membership::with_evacuated,
    lifecycle::resize::in_force::sizes_in_force,
    lifecycle::superblocks::{Superblocks, lost_superblocks, used_by},
    placement::PlacementOps,
};

/// The unit in which superblocks say from where on nothing was ever written, in bytes.
const WRITTEN_UNIT: u64 = 1 << 20;

fn devices(count: usize) -> impl Iterator<Item = DeviceId> {
    (0..count as u8).map(DeviceId)
}

/// Makes a new, empty volume; the devices' content is given up.
pub(crate) fn format(config: &Config, new: Formatting, storage: &mut dyn Storage) -> Result<(), FormatError> {
    if new.notes.len() > MOST_NOTES {
        return Err(FormatError::Notes { most: MOST_NOTES });
    }
    if config.devices.len() > MOST_DEVICES {
        return Err(FormatError::TooManyDevices { most: MOST_DEVICES });
    }
    let drive = AnyDrive::new(config.clone(), None)?;
    with_drive!(&drive, drive => drive.format(new, storage))
}

/// How a volume is opened.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Opening<'a> {
    /// Which device is right if another program has written to one.
    pub(super) trust: Trust,
    /// Devices that it is opened without.
    pub(super) without: &'a [DeviceId],
    /// The one of them that holds nothing which the others lack: their superblocks record that, and from then on the volume opens without
    /// it by itself.
    pub(super) leaving: Option<DeviceId>,
    /// What is damaged in a log is named, where it would be refused.
    pub(super) names_damage: bool,
}

impl<'a> Opening<'a> {
    pub(crate) fn without(devices: &'a [DeviceId]) -> Opening<'a> {
        Opening { without: devices, ..Opening::default() }
    }
}

/// Opens a volume, and begins a new generation.
pub(crate) fn open(
    config: Config,
    storage: &mut dyn Storage,
    how: Opening<'_>,
) -> Result<(AnyDrive, Opened), OpenError> {
    let count = config.devices.len();
    let planned = sizes_in_force(&config, storage)?;
    let without = &with_evacuated(&planned.devices, storage, how.without)[..];
    let present: Vec<DeviceId> = devices(count).filter(|device| !without.contains(device)).collect();
    let found = Superblocks::read(&planned.devices, storage);
    let mut found = found.of(&present).map_err(|error| match lost_superblocks(&config, storage, without) {
        Some(lost) => lost.error(),
        None => error,
    })?;
    let repaired = found.iter().filter(|found| found.copies < 2).count() as u64;
    let blocks: Vec<Superblock> = found.iter().map(|found| found.superblock.clone()).collect();
    found.retain(|found| found.copies < 2);
    if blocks.is_empty() {
        return Err(OpenError::NothingLeft { device: 0 });
    }
    let displaced = storage.displaced();
    let newest = agree(&present, &blocks, &config, displaced)?;
    // Nothing says whether a device without a map was resized.
    let may_be_resized = newest.geometry.places.is_some()
        || matches!(config.placement, Placement::Single { .. } | Placement::Linear { .. });
    found.retain(|_| may_be_resized);
    let mut drive = AnyDrive::new(config, Some(Settled::from(&newest.geometry)))?;
    if let (AnyDrive::Log(drive), true) = (&mut drive, how.names_damage) {
        drive.placed.name_damage();
    }
    let mut opened = with_drive!(&mut drive, drive => {
        if let Some(displaced) = displaced {
            // The last extent may go on past the end of what was taken over.
            drive.volume_size = drive.volume_size.min(displaced.volume);
            drive.displaced = Some(displaced);
        }
        drive.open_generation(storage, Opening { without, ..how }, (&blocks, &found), newest, None)
    })?;
    opened.repaired += repaired;
    Ok((drive, opened))
}

/// Checks that the devices are all the devices of one volume, and of the same generation. Returns the newest
/// superblock.
pub(super) fn agree(
    devices: &[DeviceId],
    blocks: &[Superblock],
    config: &Config,
    displaced: Option<Displaced>,
) -> Result<Superblock, OpenError> {
    let named = || devices.iter().map(|device| device.index()).zip(blocks);
    let newest = blocks
        .iter()
        .max_by_key(|block| block.age())
        .ok_or(OpenError::Config(ConfigError::Device { device: 0, devices: 0 }))?;
    for (index, block) in named() {
        if block.volume != newest.volume {
            return Err(OpenError::Foreign { device: index, volume: block.volume, expected: newest.volume });
        }
        if block.device.index() != index {
            return Err(OpenError::Swapped { device: index, is: block.device.index() });
        }
    }
    // The number of spare extents follows from a setting that may change; the number in the format is the valid one.
    let design = Geometry {
        devices: config.devices.clone(),
        placement: config.placement.clone(),
        spare: newest.geometry.spare,
        displaced,
        places: newest.geometry.places,
    };
    let mut differences = design.differences(&newest.geometry);
    if design.devices != newest.geometry.devices && newest.geometry.places.is_some() {
        let sizes: Vec<String> = newest.geometry.devices.iter().map(|size| size.0.to_string()).collect();
        differences.push(format!(
            "a device was grown or shrunk while the volume was served, so set the sizes in the design to {}, or remove them",
            sizes.join(" and ")
        ));
    }
    if !differences.is_empty() {
        return Err(OpenError::Mismatch { differences: differences.join("; ") });
    }
    let successions = in_charge(blocks, newest.gone)?;
    for (index, block) in named() {
        if newest.gone >> index & 1 == 1 {
            return Err(OpenError::LeftOut { device: index, generation: newest.generation });
        }
        let behind = block.generation < newest.generation
            && !(newest.state == VolumeState::Opening && block.generation + 1 == newest.generation);
        let behind = behind && !mutation::is(Mutation::AcceptStale);
        if behind {
            return Err(OpenError::Stale { device: index, generation: block.generation, newest: newest.generation });
        }
        // Every device had recorded that it was about to be closed before any of them was.
        let older = newest.state == VolumeState::Clean
            && block.generation == newest.generation
            && matches!(block.state, VolumeState::Opening | VolumeState::Open);
        if older && !mutation::is(Mutation::AcceptStale) {
            return Err(OpenError::Older { device: index, generation: block.generation });
        }
        if block.state == VolumeState::Detached {
            let alone = config.placement.stands_alone().map_or(index, DeviceId::index);
            return Err(OpenError::Detached { device: alone });
        }
    }
    Ok(Superblock { successions, ..newest.clone() })
}

/// Checks that each device is the one in charge: it counts as many successions of itself as the others count of it. The first of the
/// others that counts one more has put a new device in charge. Superblocks of a device that is gone do not count. Returns how often each
/// device was replaced.
fn in_charge(blocks: &[Superblock], gone: u32) -> Result<[u8; MOST_DEVICES], OpenError> {
    let counted = |index: usize| {
        let there = blocks.iter().filter(|block| gone >> block.device.index() & 1 == 0);
        there.map(move |block| block.successions[index])
    };
    for block in blocks {
        let (device, own) = (block.device.index(), block.successions[block.device.index()]);
        let is_there = |other: &Superblock| gone >> other.device.index() & 1 == 0;
        let others = || blocks.iter().filter(|other| other.device != block.device && is_there(other));
        let known = others().map(|other| other.successions[device]).max();
        if known.is_some_and(|known| own < known) && !mutation::is(Mutation::AcceptReplaced) {
            return Err(OpenError::Replaced { device });
        }
        // Of an older copy of another device something else is said.
        let known = others().filter(|other| other.generation >= block.generation);
        let known = known.map(|other| other.successions[device]).max();
        let vouched = known.is_some_and(|known| own == known);
        let aside = known.is_some_and(|known| own > known) || block.state == VolumeState::Aside && !vouched;
        if aside && !mutation::is(Mutation::AcceptAside) {
            return Err(OpenError::Aside { device });
        }
    }
    Ok(std::array::from_fn(|index| counted(index).max().unwrap_or(0)))
}

/// Writes the superblock at the new end of a resized device that has it at its start only, because the power failed between the two. This
/// comes before the first one is written again, since another power loss may tear that.
fn write_missing_ends(
    storage: &mut dyn Storage,
    alone: &[FoundSuperblock],
    newest: &Superblock,
) -> Result<(), OpenError> {
    for block in alone.iter().map(|found| &found.superblock).filter(|block| block.geometry == newest.geometry) {
        let device = block.device.index();
        let used = used_by(block).ok_or(OpenError::Damaged { device, what: "its superblock has impossible sizes" })?;
        // A process that died may have left the first one in a cache: until it is durable, the old size may be in force.
        storage.flush(block.device).map_err(|_| OpenError::Device { device })?;
        copies::write_end(storage, block, used).map_err(|_| OpenError::Device { device })?;
    }
    Ok(())
}

/// The power failed, or the process died, when some devices said that one was resized and others did not yet. All get the new sizes before
/// anything else is written, because that might overwrite what the old layout needs.
fn agree_on_size(
    storage: &mut dyn Storage,
    blocks: &[Superblock],
    newest: &Superblock,
    (generation, used): (u64, &[Bytes]),
) -> Result<(), OpenError> {
    for block in blocks.iter().filter(|block| block.geometry != newest.geometry) {
        let (state, geometry) = (VolumeState::Opening, newest.geometry.clone());
        let seals = [0; MOST_DEVICES];
        let new = Superblock { state, generation, geometry, seals, ..block.clone() };
        let device = block.device.index();
        copies::write(storage, &new, used[device]).map_err(|_| OpenError::Device { device })?;
    }
    Ok(())
}

/// The generations in which devices were given up, including those that are given up with this opening.
fn given_up(newest: &Superblock, gone: u32) -> [u64; MOST_DEVICES] {
    std::array::from_fn(|index| match (gone >> index & 1, newest.gone >> index & 1) {
        (0, _) => 0,
        (_, 0) => newest.generation,
        _ => newest.seals[index],
    })
}

/// Checks that each device is in the state in which the others say that it was left.
fn sealed(blocks: &[Superblock]) -> Result<(), OpenError> {
    let known = blocks.iter().flat_map(|block| blocks.iter().map(|other| (other, block.seals[other.device.index()])));
    let mut differs = known.into_iter().filter(|(other, seal)| *seal != 0 && *seal != other.seal());
    match differs.next() {
        Some((other, _)) if !mutation::is(Mutation::AcceptStale) => {
            Err(OpenError::Older { device: other.device.index(), generation: other.generation })
        }
        _ => Ok(()),
    }
}

impl<P: PlacementOps> Drive<P> {
    fn format(&self, new: Formatting, storage: &mut dyn Storage) -> Result<(), FormatError> {
        let all = || devices(self.device_bytes.len());
        for device in all() {
            let need = self.device_bytes[device.index()];
            let size = storage.size(device).ok_or(FormatError::Device { device: device.index() })?;
            if size < need {
                return Err(FormatError::TooSmall { device: device.index(), size, need });
            }
        }
        let failed = |device: DeviceId| FormatError::Device { device: device.index() };
        // Old superblocks must not become valid again if formatting is interrupted.
        let blank = [0; BLOCK_LEN];
        for device in all() {
            let used = self.device_bytes[device.index()];
            for at in [Bytes::ZERO, used - Bytes(BLOCK)] {
                storage.write(device, at, &blank).map_err(|_| failed(device))?;
            }
            storage.flush(device).map_err(|_| failed(device))?;
        }
        let volume = new.volume;
        let geometry = Geometry { displaced: storage.displaced(), ..self.geometry() };
        let identity = Superblock {
            state: VolumeState::Clean,
            formatted_unix_s: new.unix_s,
            touched: if new.zeroed { [0, 0] } else { [u32::MAX, u32::MAX] },
            notes: new.notes,
            ..Superblock::new(volume, geometry)
        };
        self.placed.format(&self.io, storage, volume).map_err(failed)?;
        for device in all() {
            let mut block = Superblock { device, ..identity.clone() };
            block.fingerprint = self.fingerprint(storage, device, volume);
            copies::write(storage, &block, self.device_bytes[device.index()]).map_err(|_| failed(device))?;
        }
        Ok(())
    }

    /// Recovers the state from devices with these superblocks, the newest of which is `newest`; the end of a resized device lacks those of
    /// `alone`. `resized`: a device that was resized
    /// since these were written, and what formatting would have fixed with its new size. The map is taken from where the superblocks say
    /// that it is.
    pub(super) fn open_generation(
        &mut self,
        storage: &mut dyn Storage,
        Opening { trust, without, leaving, .. }: Opening<'_>,
        (blocks, alone): (&[Superblock], &[FoundSuperblock]),
        newest: Superblock,
        resized: Option<(DeviceId, Geometry)>,
    ) -> Result<Opened, OpenError> {
        let clean =
            blocks.iter().all(|block| block.state == VolumeState::Clean && block.generation == newest.generation);
        self.check_devices(storage, (trust, clean), blocks, resized.is_some())?;
        write_missing_ends(storage, alone, &newest)?;
        let volume = newest.volume;
        // A generation that was only announced is announced again with the same number. If every attempt took a new
        // number, a device that missed two attempts would look as if it had been left out.
        let generation = newest.generation + u64::from(newest.state != VolumeState::Opening);
        // Another program's data may be anywhere, so every free place counts as possibly written.
        let unwritten_from = (clean && trust == Trust::None).then_some(newest.touched);
        let written_to = unwritten_from.filter(|_| resized.is_none() && self.counts_written());
        let written_to = written_to.filter(|[_, to]| *to < u32::MAX).map(|[_, to]| Bytes(u64::from(to) * WRITTEN_UNIT));
        let (resized, geometry) = resized.map_or((None, newest.geometry.clone()), |(at, new)| (Some(at), new));
        let unwritten_from = unwritten_from.map(|places| self.touched_after(places, resized));
        let mut opened =
            Opened { volume, generation, clean, notes: newest.notes.clone(), written_to, ..Opened::default() };
        let leaving = leaving.map_or(0, |device| 1 << device.index());
        for device in devices(self.device_bytes.len()).filter(|device| without.contains(device)) {
            opened.gone |= 1 << device.index();
            opened.evacuated = (newest.evacuated | leaving) & opened.gone;
            self.io.fence(device);
            if !self.placed.without(&self.io, device) {
                return Err(OpenError::NothingLeft { device: device.index() });
            }
        }
        // If a process has died, the data that can be read may be in a device's cache only. The next steps rely on them.
        for device in blocks.iter().map(|block| block.device).filter(|_| !mutation::is(Mutation::OpenUnflushed)) {
            if storage.flush(device).is_err() {
                storage.forget_memory(volume);
                return Err(OpenError::Device { device: device.index() });
            }
        }
        let handoff = storage.left_in_memory(volume, clean);
        if handoff.as_ref().is_some_and(|found| found.label.generation >= generation) {
            let device = blocks[0].device.index();
            return Err(OpenError::Damaged { device, what: OLDER_THAN_RECORDS });
        }
        // Records count until the generation after theirs is open on a device. By then the checkpoint that this opening writes has all of
        // them, and they are of no use to a later one.
        let handoff = handoff.filter(|found| !clean && found.label.generation + 1 == generation);
        if let Some(handoff) = &handoff {
            self.refuse_fenced(handoff.gone, without, newest.generation)?;
        }
        if resized.is_none() {
            agree_on_size(storage, blocks, &newest, (generation, &self.device_bytes))?;
        } else if mutation::is(Mutation::SwitchBeforeMap) {
            let new = Superblock { geometry: geometry.clone(), ..newest.clone() };
            agree_on_size(storage, blocks, &new, (generation, &self.device_bytes))?;
        }
        let found = (unwritten_from, trust, newest.blank);
        self.placed.recover(&mut self.io, storage, volume, found, handoff.as_ref(), &mut opened)?;
        opened.is_loss_unknown = self.losses(0).unknown;
        let identity = Superblock {
            generation,
            state: VolumeState::Open,
            touched: [0, 0],
            gone: opened.gone,
            fingerprint: 0,
            seals: given_up(&newest, opened.gone),
            given_up: if opened.gone == newest.gone { newest.given_up } else { opened.given_up },
            evacuated: opened.evacuated,
            blank: 0,
            geometry,
            ..newest
        };
        self.announce(storage, blocks, &identity, resized)?;
        self.identity = Some(identity);
        self.io.recorded = self.io.fenced;
        Ok(opened)
    }

    /// Checks that devices are as large as their superblocks say, and, after a clean close, that no other program has written to them.
    fn check_devices(
        &self,
        storage: &mut dyn Storage,
        (trust, clean): (Trust, bool),
        blocks: &[Superblock],
        is_resized: bool,
    ) -> Result<(), OpenError> {
        for block in blocks {
            let device = block.device;
            let (size, need) = (storage.size(device).unwrap_or_default(), self.device_bytes[device.index()]);
            if size < need {
                return Err(OpenError::TooSmall { device: device.index(), size, need });
            }
        }
        if clean {
            sealed(blocks)?;
            for block in blocks {
                // The samples of a device that was resized are others.
                let changed = !is_resized && self.fingerprint(storage, block.device, block.volume) != block.fingerprint;
                if changed && trust == Trust::None && !mutation::is(Mutation::AcceptChanged) {
                    return Err(OpenError::Changed { device: block.device.index() });
                }
            }
        }
        Ok(())
    }

    /// Begins the generation in two rounds: all devices record that it is announced, and then that it has begun.
    fn announce(
        &self,
        storage: &mut dyn Storage,
        blocks: &[Superblock],
        identity: &Superblock,
        resized: Option<DeviceId>,
    ) -> Result<(), OpenError> {
        // The resized device is the first to say so: the others' last superblocks are found whatever they say.
        let mut order: Vec<&Superblock> = blocks.iter().collect();
        order.sort_by_key(|block| Some(block.device) != resized);
        for state in [VolumeState::Opening, VolumeState::Open] {
            if state == VolumeState::Opening && mutation::is(Mutation::SkipAnnouncement) {
                continue;
            }
            for block in &order {
                let device = block.device;
                let used = self.device_bytes[device.index()];
                copies::write(storage, &Superblock { device, state, ..identity.clone() }, used)
                    .map_err(|_| OpenError::Device { device: device.index() })?;
            }
        }
        Ok(())
    }

    /// Whether superblocks say from where on nothing was ever written, which with tiering is what the map says.
    fn counts_written(&self) -> bool {
        !matches!(self.placement, Placement::Tiering(_))
    }

    /// From where on no place was ever written, or nothing of the volume.
    fn touched_at_close(&self) -> [u32; 2] {
        let [fast, slow] = self.placed.used_places();
        let units = |to: Bytes| u32::try_from(to.0.div_ceil(WRITTEN_UNIT)).unwrap_or(u32::MAX);
        [fast, if self.counts_written() { self.written_to.map_or(u32::MAX, units) } else { slow }]
    }

    /// The places from which on none was ever written, after one device was resized: what it has more now holds anything.
    fn touched_after(&self, touched: [u32; 2], resized: Option<DeviceId>) -> [u32; 2] {
        let pair = self.placement.hybrid().filter(|_| !mutation::is(Mutation::TrustGrownPart));
        let Some((resized, pair)) = resized.zip(pair) else { return touched };
        let [fast, slow] = touched;
        [if resized == pair.fast { u32::MAX } else { fast }, if resized == pair.slow { u32::MAX } else { slow }]
    }

    /// Fences the devices that a killed process had given up. The superblocks of the others may not say so, but requests that
    /// were answered since then are not on these devices.
    fn refuse_fenced(&self, fenced: u32, without: &[DeviceId], generation: u64) -> Result<(), OpenError> {
        let mut named = devices(self.device_bytes.len()).filter(|device| fenced >> device.index() & 1 == 1);
        match named.find(|device| !without.contains(device)) {
            Some(device) => Err(OpenError::LeftOut { device: device.index(), generation }),
            None => Ok(()),
        }
    }

    /// Closes a volume; nothing may be in flight. The error names the device that failed, if it was one.
    ///
    /// # Panics
    ///
    /// If the drive is not idle, or was not opened from devices.
    pub(crate) fn close(&mut self, state: VolumeState, storage: &mut dyn Storage) -> Result<(), DeviceId> {
        assert!(self.is_idle(), "a drive is closed only when nothing is in flight");
        // What was copied to another device is given up.
        self.successor = None;
        if self.io.is_in_doubt() && !mutation::is(Mutation::CloseInDoubt) {
            return Err(DeviceId(0));
        }
        let closed = self.write_closed(state, storage);
        // Written data may be lost, and a second flush would succeed without reporting that.
        self.io.in_doubt |= closed.is_err();
        closed
    }

    fn write_closed(&mut self, state: VolumeState, storage: &mut dyn Storage) -> Result<(), DeviceId> {
        let identity = self.identity.clone().expect("only a volume that was opened is closed");
        let left: Vec<DeviceId> = self.left().collect();
        if left.is_empty() {
            return Err(DeviceId(0));
        }
        for device in left.iter().copied() {
            storage.flush(device).map_err(|DeviceError| {
                storage.forget_memory(identity.volume);
                device
            })?;
        }
        self.placed.close(&self.io, storage, identity.volume)?;
        let touched = self.touched_at_close();
        let close = |device: DeviceId| {
            let mut block = Superblock { device, state, touched, ..identity.clone() };
            block.fingerprint = self.fingerprint(storage, device, identity.volume);
            block
        };
        let mut blocks: Vec<Superblock> = left.into_iter().map(close).collect();
        let seals: Vec<(usize, u64)> = blocks.iter().map(|block| (block.device.index(), block.seal())).collect();
        for block in &mut blocks {
            seals.iter().for_each(|(index, seal)| block.seals[*index] = *seal);
        }
        // No device is marked clean before all record that they are about to be. A device without that record is an older copy.
        for state in [VolumeState::Closing, state] {
            if state == VolumeState::Closing && mutation::is(Mutation::SkipClosing) {
                continue;
            }
            for block in &blocks {
                let used = self.device_bytes[block.device.index()];
                copies::write(storage, &Superblock { state, ..block.clone() }, used)
                    .map_err(|DeviceError| block.device)?;
            }
        }
        Ok(())
    }

    /// Stores the driver's notes in the superblocks.
    pub(crate) fn store_notes(&mut self, notes: &str, storage: &mut dyn Storage) -> Result<(), FormatError> {
        if notes.len() > MOST_NOTES {
            return Err(FormatError::Notes { most: MOST_NOTES });
        }
        let left: Vec<DeviceId> = self.left().collect();
        let identity = self.identity.as_mut().expect("only a volume that was opened keeps notes");
        identity.notes = notes.to_string();
        for device in left {
            copies::write(storage, &Superblock { device, ..identity.clone() }, self.device_bytes[device.index()])
                .map_err(|_| FormatError::Device { device: device.index() })?;
        }
        Ok(())
    }

    fn geometry(&self) -> Geometry {
        Geometry {
            devices: self.data_bytes.clone(),
            placement: self.placement.clone(),
            spare: self.spare,
            displaced: None,
            places: None,
        }
    }

    pub(super) fn fingerprint(&self, storage: &mut dyn Storage, device: DeviceId, volume: VolumeId) -> u64 {
        // Displaced data may have been lost with the device that had them, which is no reason to take this one for another.
        let displaced = storage.displaced().filter(|displaced| displaced.device == device);
        let from = displaced.map_or(self.data_at[device.index()], |displaced| displaced.range().1);
        copies::fingerprint(storage, device, (from, self.device_bytes[device.index()] - Bytes(BLOCK)), volume)
    }
}
