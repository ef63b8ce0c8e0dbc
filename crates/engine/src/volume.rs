//! A volume on real devices: formatting, opening after whatever happened, closing.
//!
//! A generation begins when a volume is opened: first each device is told that one is about to begin, then that it has
//! begun, and only then is a request served. So a device that was left out of a generation, or is a copy from before
//! it, is told from one that a crash left a step behind.

use peryton_format::{
    block::{BLOCK, BLOCK_LEN},
    checkpoint::{self, CheckpointHeader},
    copies::{self, FoundSuperblock, NoSuperblock},
    entry::MapEntry,
    geometry::{Arrangement, Geometry, MOST_DEVICES},
    layout::MetadataLayout,
    mutation::{self, Mutation},
    storage::Storage,
    superblock::{MOST_NOTES, Superblock, Unreadable, VolumeId, VolumeState},
};
use peryton_units::Bytes;

use crate::{
    command::{Buffers, DeviceId, IoId},
    config::{Config, Placement},
    core::Purpose,
    engine::{Engine, Placed},
    error::{ConfigError, DeviceError, FormatError, OpenError},
};

/// What a new volume is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Formatting {
    /// A random name.
    pub volume: VolumeId,
    /// Now, in seconds since 1970.
    pub unix_s: u64,
    /// All devices read as zeros where data goes. Otherwise places are zeroed before they are first used.
    pub zeroed: bool,
    /// A text kept for the driver, at most 3,584 bytes.
    pub notes: String,
}

/// Who is right where somebody else wrote to a device after the volume was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Nobody knows: the volume is not opened.
    #[default]
    Nobody,
    /// The slow device: copies in the cache are given up, those that had not been written back as well (caching).
    Slow,
    /// The volume as it is on its devices, copies in the cache first.
    AsItIs,
}

/// What was found when a volume was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The volume's name.
    pub volume: VolumeId,
    /// How often it was opened, this time included.
    pub generation: u64,
    /// It was closed in good order; otherwise it was recovered.
    pub clean: bool,
    /// Commits that were replayed from the journal.
    pub commits: u64,
    /// Extents with a place (tiering) or a copy in the cache; blocks whose newest copy is in the log.
    pub mapped: u64,
    /// Those of the cache, or the log, that have to be written back.
    pub dirty: u64,
    /// Those whose only copy was lost.
    pub lost: u64,
    /// Metadata that was found damaged and was made good from its copy.
    pub repaired: u64,
    /// Devices that the volume was opened without, a bit each.
    pub gone: u32,
    /// The driver's text.
    pub notes: String,
}

/// What an open volume remembers of its superblocks.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    volume: VolumeId,
    generation: u64,
    formatted_unix_s: u64,
    gone: u32,
    geometry: Geometry,
    notes: String,
}

impl Identity {
    pub(crate) fn set_gone(&mut self, device: DeviceId) {
        self.gone |= 1 << device.index();
    }

    pub(crate) fn volume(&self) -> VolumeId {
        self.volume
    }

    /// With no device gone.
    pub(crate) fn superblock_of_all(&self, device: DeviceId, state: VolumeState) -> Superblock {
        Superblock { gone: 0, ..self.superblock(device, state) }
    }

    pub(crate) fn open_superblock(&self, device: DeviceId) -> Superblock {
        self.superblock(device, VolumeState::Open)
    }

    fn superblock(&self, device: DeviceId, state: VolumeState) -> Superblock {
        Superblock {
            volume: self.volume,
            device,
            generation: self.generation,
            state,
            formatted_unix_s: self.formatted_unix_s,
            touched: [0, 0],
            gone: self.gone,
            fingerprint: 0,
            geometry: self.geometry.clone(),
            notes: self.notes.clone(),
        }
    }
}

fn devices(count: usize) -> impl Iterator<Item = DeviceId> {
    (0..count as u8).map(DeviceId)
}

fn read_superblock(storage: &mut dyn Storage, device: DeviceId, used: Bytes) -> Result<FoundSuperblock, OpenError> {
    let index = device.index();
    copies::read(storage, device, used, used_by).map_err(|error| match error {
        NoSuperblock::Missing => OpenError::Missing { device: index },
        NoSuperblock::Unreadable(Unreadable::Absent) => OpenError::NotFormatted { device: index },
        NoSuperblock::Unreadable(Unreadable::Version(version)) => OpenError::Version { device: index, version },
        NoSuperblock::Unreadable(Unreadable::Damaged) => {
            OpenError::Damaged { device: index, what: "neither superblock can be read" }
        }
    })
}

/// How much of its device the volume uses, if the sizes in the superblock are possible.
fn used_by(superblock: &Superblock) -> Option<Bytes> {
    let config = Config {
        devices: superblock.geometry.devices.clone(),
        placement: Placement::from(&superblock.geometry.arrangement),
        tuning: Default::default(),
    };
    config.sizes_with(Some(superblock.geometry.spare)).ok()?.devices.get(superblock.device.index()).copied()
}

impl Engine {
    /// Makes a new, empty volume on devices whose content is given up.
    pub fn format(config: &Config, new: Formatting, storage: &mut dyn Storage) -> Result<(), FormatError> {
        if new.notes.len() > MOST_NOTES {
            return Err(FormatError::Notes { most: MOST_NOTES });
        }
        if config.devices.len() > MOST_DEVICES {
            return Err(FormatError::TooManyDevices { most: MOST_DEVICES });
        }
        let engine = Engine::new(config.clone())?;
        let all = || devices(config.devices.len());
        for device in all() {
            let need = engine.device_bytes()[device.index()];
            let size = storage.size(device).ok_or(FormatError::Device { device: device.index() })?;
            if size < need {
                return Err(FormatError::TooSmall { device: device.index(), size, need });
            }
        }
        let failed = |device: DeviceId| FormatError::Device { device: device.index() };
        // What was there must not come to light again if this is interrupted.
        let blank = [0; BLOCK_LEN];
        for device in all() {
            let used = engine.device_bytes()[device.index()];
            for at in [Bytes::ZERO, used - Bytes(BLOCK)] {
                storage.write(device, at, &blank).map_err(|_| failed(device))?;
            }
            storage.flush(device).map_err(|_| failed(device))?;
        }
        let volume = new.volume;
        let identity = Identity {
            volume,
            generation: 0,
            formatted_unix_s: new.unix_s,
            gone: 0,
            geometry: engine.geometry(),
            notes: new.notes,
        };
        engine.write_map(storage, volume, &engine.map_image(), 0, engine.pair()).map_err(failed)?;
        if let (Placed::Logging(logging), Placement::Logging(place)) = (&engine.placed, &engine.placement) {
            logging.format(storage, volume).map_err(|_| failed(place.log))?;
        }
        for device in all() {
            let touched = if new.zeroed { [0, 0] } else { [u32::MAX, u32::MAX] };
            let mut block = Superblock { touched, ..identity.superblock(device, VolumeState::Clean) };
            block.fingerprint = engine.fingerprint(storage, device, volume);
            copies::write(storage, &block, engine.device_bytes()[device.index()]).map_err(|_| failed(device))?;
        }
        Ok(())
    }

    /// Opens a volume as it was left, whether by [`Engine::close`] or by a crash, and begins a new generation. A crash
    /// meanwhile changes nothing: opening begins again.
    pub fn open(config: Config, storage: &mut dyn Storage) -> Result<(Engine, Opened), OpenError> {
        Engine::open_trusting(config, storage, Trust::Nobody, &[])
    }

    /// The same without some of the devices, which need not be there and are not looked at: what only they had is lost
    /// ([`Engine::losses`]), and they are no longer part of the volume. See `docs/failures.md`.
    pub fn open_without(
        config: Config,
        storage: &mut dyn Storage,
        without: &[DeviceId],
    ) -> Result<(Engine, Opened), OpenError> {
        Engine::open_trusting(config, storage, Trust::Nobody, without)
    }

    /// The same, where somebody has written to a device and it is known which one is right.
    pub(crate) fn open_trusting(
        config: Config,
        storage: &mut dyn Storage,
        trust: Trust,
        without: &[DeviceId],
    ) -> Result<(Engine, Opened), OpenError> {
        let count = config.devices.len();
        let planned = config.sizes()?;
        let mut blocks = Vec::new();
        let mut repaired = 0;
        let left: Vec<DeviceId> = devices(count).filter(|device| !without.contains(device)).collect();
        for device in left.iter().copied() {
            let found = read_superblock(storage, device, planned.devices[device.index()])?;
            repaired += u64::from(found.copies < 2);
            blocks.push(found.superblock);
        }
        if blocks.is_empty() {
            return Err(OpenError::NothingLeft { device: 0 });
        }
        let newest = Self::agree(&left, &blocks, &config)?;
        let clean =
            blocks.iter().all(|block| block.state == VolumeState::Clean && block.generation == newest.generation);
        let mut engine = Engine::sized(config, Some(newest.geometry.spare))?;
        for device in left.iter().copied() {
            let (size, need) = (storage.size(device).unwrap_or_default(), engine.device_bytes()[device.index()]);
            if size < need {
                return Err(OpenError::TooSmall { device: device.index(), size, need });
            }
        }
        if clean {
            for block in &blocks {
                let changed = engine.fingerprint(storage, block.device, block.volume) != block.fingerprint;
                if changed && trust == Trust::Nobody && !mutation::is(Mutation::AcceptChanged) {
                    return Err(OpenError::Changed { device: block.device.index() });
                }
            }
        }
        let volume = newest.volume;
        // A generation that came no further than to be announced is announced again: if every attempt took a number of
        // its own, a device that was not reached by two of them would look as if it had been left out.
        let generation = newest.generation + u64::from(newest.state != VolumeState::Opening);
        // What somebody else wrote may be anywhere.
        let touched = (clean && trust == Trust::Nobody).then_some(newest.touched);
        let mut opened = Opened { volume, generation, clean, notes: newest.notes.clone(), ..Opened::default() };
        for device in devices(count).filter(|device| without.contains(device)) {
            opened.gone |= 1 << device.index();
            engine.core.dead |= 1 << device.index();
            match &mut engine.placed {
                Placed::Linear(linear) if linear.is_all_dead(&engine.core) => {
                    return Err(OpenError::NothingLeft { device: device.index() });
                }
                Placed::Linear(_) => {}
                Placed::Hybrid(hybrid) => hybrid.without(device),
                Placed::Logging(logging) => logging.without(device),
            }
        }
        engine.recover(storage, volume, (touched, trust), &mut opened)?;
        opened.repaired += repaired;
        let identity = Identity {
            volume,
            generation,
            formatted_unix_s: newest.formatted_unix_s,
            gone: opened.gone,
            geometry: newest.geometry,
            notes: newest.notes,
        };
        for state in [VolumeState::Opening, VolumeState::Open] {
            if state == VolumeState::Opening && mutation::is(Mutation::SkipAnnouncement) {
                continue;
            }
            for device in left.iter().copied() {
                let used = engine.device_bytes()[device.index()];
                copies::write(storage, &identity.superblock(device, state), used)
                    .map_err(|_| OpenError::Device { device: device.index() })?;
            }
        }
        engine.identity = Some(identity);
        Ok((engine, opened))
    }

    /// Whether the devices are all there is of one volume, and all of the same age. Returns the newest superblock.
    fn agree(devices: &[DeviceId], blocks: &[Superblock], config: &Config) -> Result<Superblock, OpenError> {
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
        // The number of spare extents follows from a setting that may change; the format has the last word.
        let design = Geometry {
            devices: config.devices.clone(),
            arrangement: Arrangement::from(&config.placement),
            spare: newest.geometry.spare,
        };
        let differences = design.differences(&newest.geometry);
        if !differences.is_empty() {
            return Err(OpenError::Mismatch { differences: differences.join("; ") });
        }
        for (index, block) in named() {
            if newest.gone >> index & 1 == 1 {
                return Err(OpenError::LeftOut { device: index, generation: newest.generation });
            }
            let behind = block.generation < newest.generation
                && !(newest.state == VolumeState::Opening && block.generation + 1 == newest.generation);
            let behind = behind && !mutation::is(Mutation::AcceptStale);
            if behind {
                return Err(OpenError::Stale {
                    device: index,
                    generation: block.generation,
                    newest: newest.generation,
                });
            }
            if block.state == VolumeState::Detached {
                let alone = config.placement.stands_alone().map_or(index, DeviceId::index);
                return Err(OpenError::Detached { device: alone });
            }
        }
        Ok(newest.clone())
    }

    /// Closes a volume on which nothing is in flight, so that opening it needs no recovery.
    ///
    /// # Panics
    ///
    /// If the engine is not idle, or was not opened from devices.
    pub fn close(&mut self, storage: &mut dyn Storage) -> Result<(), DeviceError> {
        self.close_as(VolumeState::Clean, storage)
    }

    pub(crate) fn close_as(&mut self, state: VolumeState, storage: &mut dyn Storage) -> Result<(), DeviceError> {
        assert!(self.is_idle(), "a drive is closed only when nothing is in flight");
        let identity = self.identity.clone().expect("only a volume that was opened is closed");
        let left: Vec<DeviceId> = self.left().collect();
        if left.is_empty() {
            return Err(DeviceError);
        }
        for device in left.iter().copied() {
            storage.flush(device)?;
        }
        if !mutation::is(Mutation::CloseWithoutMap) {
            self.write_map(storage, identity.volume, &self.map_image(), 1, self.pair()).map_err(|_| DeviceError)?;
        }
        if let Placed::Logging(logging) = &mut self.placed {
            logging.close(storage, identity.volume)?;
        }
        let touched = match &self.placed {
            Placed::Hybrid(hybrid) => hybrid.touched(),
            _ => [0, 0],
        };
        for device in left {
            let mut block = Superblock { touched, ..identity.superblock(device, state) };
            block.fingerprint = self.fingerprint(storage, device, identity.volume);
            copies::write(storage, &block, self.device_bytes[device.index()])?;
        }
        Ok(())
    }

    /// Keeps a text for the driver, at most 3,584 bytes, which [`Opened`] hands back.
    pub fn store_notes(&mut self, notes: &str, storage: &mut dyn Storage) -> Result<(), FormatError> {
        if notes.len() > MOST_NOTES {
            return Err(FormatError::Notes { most: MOST_NOTES });
        }
        let left: Vec<DeviceId> = self.left().collect();
        let identity = self.identity.as_mut().expect("only a volume that was opened keeps notes");
        identity.notes = notes.to_string();
        for device in left {
            copies::write(storage, &identity.superblock(device, VolumeState::Open), self.device_bytes[device.index()])
                .map_err(|_| FormatError::Device { device: device.index() })?;
        }
        Ok(())
    }

    /// Encodes the metadata that a write command with [`Buffer::Metadata`](crate::Buffer::Metadata) writes, unless that
    /// needs data (a log's: see [`Engine::encode_with`]); `into` is as long as the command says. To be called before the
    /// engine is called again.
    pub fn encode_metadata(&self, io: IoId, into: &mut [u8]) {
        self.encode(io, into, None);
    }

    /// The same for any command that writes metadata, [`Command::Encode`](crate::Command::Encode) included: where the
    /// metadata has checksums of data, they are made of what `buffers` holds now.
    pub fn encode_with(&self, io: IoId, into: &mut [u8], buffers: &dyn Buffers) {
        self.encode(io, into, Some(buffers));
    }

    fn encode(&self, io: IoId, into: &mut [u8], buffers: Option<&dyn Buffers>) {
        let command = self.core.in_flight(io);
        if command.purpose == Purpose::Burial {
            return self.encode_burial(command, into);
        }
        match &self.placed {
            Placed::Hybrid(hybrid) => hybrid.encode(command, into),
            Placed::Logging(logging) => logging.encode(&self.core, command, into, buffers),
            Placed::Linear(_) => unreachable!("a drive without a map writes no metadata"),
        }
    }

    fn geometry(&self) -> Geometry {
        let spare = match &self.placed {
            Placed::Hybrid(hybrid) => hybrid.layout.spare(),
            _ => 0,
        };
        Geometry { devices: self.data_bytes.clone(), arrangement: Arrangement::from(&self.placement), spare }
    }

    pub(crate) fn map_image(&self) -> Vec<MapEntry> {
        match &self.placed {
            Placed::Hybrid(hybrid) => hybrid.image(),
            _ => Vec::new(),
        }
    }

    /// Writes the map out, `ahead` checkpoints after the last.
    fn write_map(
        &self,
        storage: &mut dyn Storage,
        volume: VolumeId,
        image: &[MapEntry],
        ahead: u64,
        to: Vec<DeviceId>,
    ) -> Result<(), DeviceId> {
        let Placed::Hybrid(hybrid) = &self.placed else { return Ok(()) };
        let next = hybrid.next_header(&self.core);
        // A commit that failed may be left in the journal, and is older than this map: its number is not used again.
        let gap = if mutation::is(Mutation::CloseReusesNumber) { 0 } else { ahead };
        let header =
            CheckpointHeader { number: next.number - 1 + ahead, first_commit: next.first_commit + gap, ..next };
        checkpoint::store(storage, &to, &hybrid.layout.metadata, &header, image, volume)
    }

    /// The devices that are not gone.
    fn left(&self) -> impl Iterator<Item = DeviceId> {
        let dead = self.core.dead;
        devices(self.device_bytes.len()).filter(move |device| dead >> device.index() & 1 == 0)
    }

    /// Those of them that have the map.
    fn pair(&self) -> Vec<DeviceId> {
        match &self.placed {
            Placed::Hybrid(hybrid) => hybrid.alive(),
            _ => Vec::new(),
        }
    }

    pub(crate) fn fingerprint(&self, storage: &mut dyn Storage, device: DeviceId, volume: VolumeId) -> u64 {
        copies::fingerprint(
            storage,
            device,
            (self.data_at(device), self.device_bytes[device.index()] - Bytes(BLOCK)),
            volume,
        )
    }
}

impl Engine {
    /// Where data begins on a device: what a file system's offset is once the volume is detached.
    pub fn data_at(&self, device: DeviceId) -> Bytes {
        match &self.placed {
            Placed::Hybrid(hybrid) => hybrid.layout.metadata.data_at,
            Placed::Logging(logging) => logging.data_at(device),
            Placed::Linear(_) => MetadataLayout::bare().data_at,
        }
    }
}
