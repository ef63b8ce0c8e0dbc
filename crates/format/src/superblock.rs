//! Superblocks, one at each end of each device. They say which volume the device belongs to and in what state it was
//! left.

use std::fmt;

use peryton_units::Bytes;
use thiserror::Error;

use crate::{
    block::{BLOCK, BLOCK_LEN, Kind, MOST_NUMBERS, get_u32, get_u64, has_kind, is_sealed, put_u32, put_u64, seal},
    displaced::Displaced,
    geometry::{Geometry, Hybrid, Logging, MOST_DEVICES, Placement, Primaries},
    places::{Places, WORDS},
    storage::DeviceId,
};

/// The identity of a volume: a random number, so that no two volumes have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VolumeId(pub u128);

/// The version of the format. Later additions set a feature bit and keep the version.
pub const VERSION: u32 = 1;
/// Features that a program must know to open the volume.
const KNOWN_INCOMPAT: u32 = 0;
const MAGIC: &[u8; 8] = b"PERYTON\n";
const STATE_AT: usize = 20;
/// Words with a bit for each feature that the volume uses. A program may open a volume with unknown bits in the first word, and must
/// not open one with unknown bits in the second.
const COMPAT_AT: usize = 144;
const INCOMPAT_AT: usize = 148;
const RETURNABLE_AT: usize = 152;
const BLANK_AT: usize = 156;
const SIZES_AT: usize = 160;
const SEALS_AT: usize = SIZES_AT + 8 * MOST_DEVICES;
const GIVEN_UP_AT: usize = SEALS_AT + 8 * MOST_DEVICES;
const DISPLACED_AT: usize = GIVEN_UP_AT + 8;
const SUCCESSIONS_AT: usize = DISPLACED_AT + 40;
const PLACES_AT: usize = SUCCESSIONS_AT + MOST_DEVICES;
const EVACUATED_AT: usize = NOTES_AT - 4;
const NOTES_AT: usize = 512;
const _: () =
    assert!(PLACES_AT + 4 * WORDS <= EVACUATED_AT, "the places do not reach what says which devices were evacuated");
/// The most bytes of notes that a superblock stores for the driver.
pub const MOST_NOTES: usize = BLOCK_LEN - NOTES_AT;

/// The state in which a device was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum VolumeState {
    /// A generation is about to begin; no request has been served in it.
    Opening = 1,
    /// Requests are served.
    Open = 2,
    /// Closed in good order.
    Clean = 3,
    /// The slow device has all data, and the fast one no valid data.
    Detached = 4,
    /// Everything is written, and every device records this. No device becomes clean before all devices are in this state.
    Closing = 5,
    /// The device holds a copy of another device. It is part of the volume only if the other devices count as many replacements of that
    /// device as it does ([`Superblock::successions`]).
    Aside = 6,
}

impl VolumeState {
    /// Which of two states of a generation comes later: the one with the higher number.
    fn order(self) -> u32 {
        match self {
            VolumeState::Opening => 1,
            VolumeState::Open | VolumeState::Aside => 2,
            VolumeState::Closing => 3,
            VolumeState::Clean => 4,
            VolumeState::Detached => 5,
        }
    }

    /// The state in a word: `opening`, `open`, `closing`, `closed`, `detached` or `aside`.
    pub fn name(self) -> &'static str {
        match self {
            VolumeState::Opening => "opening",
            VolumeState::Open => "open",
            VolumeState::Clean => "closed",
            VolumeState::Detached => "detached",
            VolumeState::Closing => "closing",
            VolumeState::Aside => "aside",
        }
    }
}

/// What was known of a device when it was given up. It decides whether the device may come back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    /// Of a volume with a map: the last commit that was durable. The device has that commit.
    pub commit: u64,
    /// Of a log: the primaries for which it keeps everything that they may lack, one bit each.
    pub returnable: u32,
}

/// The content of a superblock.
///
/// Two copies of it lie on each device ([`copies`](crate::copies)). A reader that finds them asks which volume the device
/// belongs to, and how the device was left:
///
/// ```
/// use peryton_format::{
///     copies,
///     geometry::{Placement, Geometry},
///     layout::MetadataLayout,
///     storage::{DeviceError, DeviceId},
///     superblock::{Superblock, VolumeId, VolumeState},
/// };
/// use peryton_units::Bytes;
///
/// let data = Bytes::mib(2);
/// let placement = Placement::Single { device: DeviceId(0) };
/// let geometry = Geometry { devices: vec![data], placement, spare: 0, displaced: None, places: None };
/// let notes = "placement.max_moves=4".to_owned();
/// let written = Superblock { state: VolumeState::Clean, notes, ..Superblock::new(VolumeId(0x1234), geometry) };
/// let used = MetadataLayout::bare().device_bytes(data);
/// let mut devices = vec![vec![0; used.0 as usize]];
/// copies::write(&mut devices, &written, used)?;
///
/// let first = Superblock::decode(&devices[0][..4096]).expect("the first block of the device is a superblock");
/// let last = Superblock::decode(&devices[0][used.0 as usize - 4096..]).expect("and so is the last one");
/// assert!(first == written && last == written);
/// # Ok::<(), DeviceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// The identity of the volume.
    pub volume: VolumeId,
    /// The index of the device in the volume.
    pub device: DeviceId,
    /// How often the volume was opened.
    pub generation: u64,
    /// How the device was left.
    pub state: VolumeState,
    /// When the volume was formatted, in seconds since 1970.
    pub formatted_unix_s: u64,
    /// On the fast and on the slow device: the first place such that it and all later ones were never written. Valid in state `Clean`.
    pub touched: [u32; 2],
    /// The devices that are no longer part of the volume, one bit each.
    pub gone: u32,
    /// A digest of samples of the data that this device held when it was closed.
    pub fingerprint: u64,
    /// A number for each device. If it is gone: the generation in which it was given up. Otherwise, when clean: the digest of its
    /// superblock ([`Superblock::seal`]), by which an older copy of the device is recognised. Zero: not known.
    pub seals: [u64; MOST_DEVICES],
    /// If devices are gone: what was known when the last of them was given up.
    pub given_up: GivenUp,
    /// How often each device was replaced while the volume was served. The other devices keep the count. A device that counts fewer
    /// replacements of itself was replaced; one that counts more was to replace a device, and did not.
    pub successions: [u8; MOST_DEVICES],
    /// The gone devices that were evacuated, one bit each. They held nothing that the others lack, so the volume needs none of them.
    pub evacuated: u32,
    /// The devices that took the place of a gone one, one bit each, and that have held no data of the volume. The next opening makes the map say so.
    pub blank: u32,
    /// What formatting fixed.
    pub geometry: Geometry,
    /// The driver's notes: its settings.
    pub notes: String,
}

/// Why a block is not a usable superblock.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Unreadable {
    /// The block is not a superblock.
    #[error("the block is no superblock")]
    Absent,
    /// The block is a superblock, but damaged.
    #[error("the superblock is damaged")]
    Damaged,
    /// The superblock is valid, but of a version that this program does not support.
    #[error(
        "the superblock is of version {0} of the format, and version {VERSION} is the one known here: use a newer Peryton"
    )]
    Version(u32),
    /// The superblock is valid, but the volume uses features, one bit each, that this program does not support.
    #[error("the volume uses features that are not known here (bits {0:#x}): use a newer Peryton")]
    Features(u32),
}

/// A list of devices: its length and their numbers.
fn put_list(block: &mut [u8], devices: &[DeviceId]) {
    block[112] = devices.len() as u8;
    block[113..].iter_mut().zip(devices).for_each(|(byte, device)| *byte = device.0);
}

fn get_list(block: &[u8]) -> Option<Vec<DeviceId>> {
    let count = usize::from(block[112]);
    (count <= MOST_DEVICES).then(|| block[113..113 + count].iter().map(|device| DeviceId(*device)).collect())
}

fn put_placement(block: &mut [u8], placement: &Placement) {
    let pair = |block: &mut [u8], kind: u32, (a, b): (DeviceId, DeviceId), unit: Bytes| {
        put_u32(block, 96, kind);
        block[100] = a.0;
        block[101] = b.0;
        put_u64(block, 104, unit.0);
    };
    match placement {
        Placement::Single { device } => pair(block, 1, (*device, *device), Bytes::ZERO),
        Placement::Linear { devices } => {
            pair(block, 2, (DeviceId(0), DeviceId(0)), Bytes::ZERO);
            put_list(block, devices);
        }
        Placement::Tiering(Hybrid { fast, slow, extent }) => pair(block, 3, (*fast, *slow), *extent),
        Placement::Caching(Hybrid { fast, slow, extent }) => pair(block, 4, (*fast, *slow), *extent),
        Placement::Partitioned(Hybrid { fast, slow, extent }) => pair(block, 6, (*fast, *slow), *extent),
        Placement::Logging(Logging { primaries, log, block: unit }) => {
            pair(block, 5, (primaries[0], *log), *unit);
            put_list(block, &primaries[1..]);
        }
    }
}

pub(crate) fn put_displaced(block: &mut [u8], displaced: &Displaced) {
    let Displaced { device, home, metadata, bytes, at, volume, used: _ } = *displaced;
    (block[DISPLACED_AT], block[DISPLACED_AT + 1]) = (device.0, home.0);
    for (index, size) in [metadata, bytes, at, volume].into_iter().enumerate() {
        put_u64(block, DISPLACED_AT + 8 + index * 8, size.0);
    }
}

/// The displaced part according to a block; `None` if the numbers are impossible. `devices`: the bytes of data on each device.
pub(crate) fn get_displaced(block: &[u8], devices: &[Bytes]) -> Option<Displaced> {
    let [metadata, bytes, at, volume] =
        std::array::from_fn(|index| Bytes(get_u64(block, DISPLACED_AT + 8 + index * 8)));
    let (device, home) = (DeviceId(block[DISPLACED_AT]), DeviceId(block[DISPLACED_AT + 1]));
    let data = *devices.get(device.index()).filter(|_| home.index() < devices.len())?;
    let used = data.0.checked_add(metadata.0)?.checked_add(BLOCK)?;
    let displaced = Displaced { device, home, metadata, bytes, at, volume, used: Bytes(used) };
    displaced.is_possible().then_some(displaced)
}

fn get_placement(block: &[u8]) -> Option<Placement> {
    let (a, b, unit) = (DeviceId(block[100]), DeviceId(block[101]), Bytes(get_u64(block, 104)));
    Some(match get_u32(block, 96) {
        1 => Placement::Single { device: a },
        2 => Placement::Linear { devices: get_list(block)? },
        3 => Placement::Tiering(Hybrid { fast: a, slow: b, extent: unit }),
        4 => Placement::Caching(Hybrid { fast: a, slow: b, extent: unit }),
        6 => Placement::Partitioned(Hybrid { fast: a, slow: b, extent: unit }),
        5 => {
            let all: Vec<DeviceId> = std::iter::once(a).chain(get_list(block)?).collect();
            Placement::Logging(Logging { primaries: Primaries::new(&all)?, log: b, block: unit })
        }
        _ => return None,
    })
}

impl Superblock {
    /// The superblock of device 0 of an open volume in generation 0. With another `device` it is that of another device.
    pub fn new(volume: VolumeId, geometry: Geometry) -> Superblock {
        Superblock {
            volume,
            device: DeviceId(0),
            generation: 0,
            state: VolumeState::Open,
            formatted_unix_s: 0,
            touched: [0, 0],
            gone: 0,
            fingerprint: 0,
            seals: [0; MOST_DEVICES],
            given_up: GivenUp::default(),
            successions: [0; MOST_DEVICES],
            evacuated: 0,
            blank: 0,
            geometry,
            notes: String::new(),
        }
    }

    /// A key that orders superblocks of one volume by age. Of two in one generation, the newer one knows of more
    /// devices that are gone or were replaced, or has a later state.
    pub fn age(&self) -> (u64, u32, u32, u32) {
        let successions = self.successions.iter().map(|count| u32::from(*count)).sum();
        (self.generation, self.gone.count_ones(), successions, self.state.order())
    }

    /// A digest of the superblock without its seals. The other devices keep it when the volume is closed.
    pub fn seal(&self) -> u64 {
        // FNV-1a: no intended forgery has to be recognised.
        let digest = |digest: u64, byte: &u8| (digest ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        let bytes = self.encode();
        let said = bytes[STATE_AT..SEALS_AT].iter().chain(&bytes[SEALS_AT + 8 * MOST_DEVICES..]);
        said.fold(0xcbf2_9ce4_8422_2325, digest).max(1)
    }

    /// Encodes the superblock into a block.
    ///
    /// # Panics
    ///
    /// If the notes are longer than [`MOST_NOTES`], or there are more than [`MOST_DEVICES`] devices.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.notes.len() <= MOST_NOTES, "notes of {} bytes do not fit a superblock", self.notes.len());
        assert!(
            self.geometry.devices.len() <= MOST_DEVICES,
            "{} devices do not fit a superblock",
            self.geometry.devices.len()
        );
        let mut block = vec![0; BLOCK_LEN];
        block[8..16].copy_from_slice(MAGIC);
        put_u32(&mut block, 16, VERSION);
        put_u32(&mut block, COMPAT_AT, 0);
        put_u32(&mut block, INCOMPAT_AT, KNOWN_INCOMPAT);
        put_u32(&mut block, 20, self.state as u32);
        block[24..40].copy_from_slice(&self.volume.0.to_le_bytes());
        put_u64(&mut block, 40, self.generation);
        put_u64(&mut block, 48, self.formatted_unix_s);
        put_u32(&mut block, 56, u32::from(self.device.0));
        put_u32(&mut block, 60, self.geometry.devices.len() as u32);
        put_u32(&mut block, 64, self.touched[0]);
        put_u32(&mut block, 68, self.touched[1]);
        put_u64(&mut block, 72, self.fingerprint);
        put_u32(&mut block, 80, self.gone);
        put_u32(&mut block, 84, self.geometry.spare);
        put_u32(&mut block, 88, self.notes.len() as u32);
        put_placement(&mut block, &self.geometry.placement);
        for (index, size) in self.geometry.devices.iter().enumerate() {
            put_u64(&mut block, SIZES_AT + index * 8, size.0);
        }
        for (index, seal) in self.seals.iter().enumerate() {
            put_u64(&mut block, SEALS_AT + index * 8, *seal);
        }
        put_u64(&mut block, GIVEN_UP_AT, self.given_up.commit);
        put_u32(&mut block, RETURNABLE_AT, self.given_up.returnable);
        if let Some(displaced) = &self.geometry.displaced {
            put_displaced(&mut block, displaced);
        }
        block[SUCCESSIONS_AT..SUCCESSIONS_AT + MOST_DEVICES].copy_from_slice(&self.successions);
        if let Some(places) = &self.geometry.places {
            let words = places.words().into_iter().enumerate();
            words.for_each(|(index, word)| put_u32(&mut block, PLACES_AT + index * 4, word));
        }
        put_u32(&mut block, EVACUATED_AT, self.evacuated);
        put_u32(&mut block, BLANK_AT, self.blank);
        block[NOTES_AT..NOTES_AT + self.notes.len()].copy_from_slice(self.notes.as_bytes());
        seal(&mut block, Kind::Superblock, self.volume);
        block
    }

    /// Decodes a superblock.
    ///
    /// # Errors
    ///
    /// The block is not a superblock, is damaged, or is of another version of the format or with unknown features.
    pub fn decode(block: &[u8]) -> Result<Superblock, Unreadable> {
        let looks_like_one = has_kind(block, Kind::Superblock) || block.get(8..16) == Some(&MAGIC[..]);
        if !looks_like_one || block.len() != BLOCK_LEN {
            return Err(Unreadable::Absent);
        }
        let volume = VolumeId(u128::from_le_bytes(block[24..40].try_into().expect("sixteen bytes")));
        if !is_sealed(block, Kind::Superblock, volume) || block[8..16] != MAGIC[..] {
            return Err(Unreadable::Damaged);
        }
        let version = get_u32(block, 16);
        if version != VERSION {
            return Err(Unreadable::Version(version));
        }
        let unknown = get_u32(block, INCOMPAT_AT) & !KNOWN_INCOMPAT;
        if unknown != 0 {
            return Err(Unreadable::Features(unknown));
        }
        Self::fields(block, volume).ok_or(Unreadable::Damaged)
    }

    fn fields(block: &[u8], volume: VolumeId) -> Option<Superblock> {
        let state = match get_u32(block, 20) {
            1 => VolumeState::Opening,
            2 => VolumeState::Open,
            3 => VolumeState::Clean,
            4 => VolumeState::Detached,
            5 => VolumeState::Closing,
            6 => VolumeState::Aside,
            _ => return None,
        };
        let count = get_u32(block, 60) as usize;
        let device = u8::try_from(get_u32(block, 56)).ok()?;
        let notes = get_u32(block, 88) as usize;
        let generation = get_u64(block, 40);
        let possible = count <= MOST_DEVICES && usize::from(device) < count && notes <= MOST_NOTES;
        (possible && generation < MOST_NUMBERS).then_some(())?;
        let devices: Vec<Bytes> = (0..count).map(|index| Bytes(get_u64(block, SIZES_AT + index * 8))).collect();
        let is_there = |from: usize, to: usize| block[from..to].iter().any(|byte| *byte != 0);
        let displaced = match is_there(DISPLACED_AT, SUCCESSIONS_AT) {
            true => Some(get_displaced(block, &devices)?),
            false => None,
        };
        let places = match is_there(PLACES_AT, PLACES_AT + 4 * WORDS) {
            true => Some(Places::of_words(std::array::from_fn(|index| get_u32(block, PLACES_AT + index * 4)))?),
            false => None,
        };
        let successions = &block[SUCCESSIONS_AT..SUCCESSIONS_AT + MOST_DEVICES];
        let successions = successions.try_into().expect("a byte for each device");
        Some(Superblock {
            volume,
            device: DeviceId(device),
            generation,
            state,
            formatted_unix_s: get_u64(block, 48),
            touched: [get_u32(block, 64), get_u32(block, 68)],
            gone: get_u32(block, 80),
            fingerprint: get_u64(block, 72),
            seals: std::array::from_fn(|index| get_u64(block, SEALS_AT + index * 8)),
            given_up: GivenUp { commit: get_u64(block, GIVEN_UP_AT), returnable: get_u32(block, RETURNABLE_AT) },
            successions,
            evacuated: get_u32(block, EVACUATED_AT),
            blank: get_u32(block, BLANK_AT),
            geometry: Geometry {
                devices,
                placement: get_placement(block)?,
                spare: get_u32(block, 84),
                displaced,
                places,
            },
            notes: String::from_utf8(block[NOTES_AT..NOTES_AT + notes].to_vec()).ok()?,
        })
    }
}

impl fmt::Display for Superblock {
    /// Writes one line for each field, as `name: value`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "volume: {:032x}", self.volume.0)?;
        writeln!(f, "device: {} of {}", self.device.0, self.geometry.devices.len())?;
        writeln!(f, "generation: {}", self.generation)?;
        writeln!(f, "state: {}", self.state.name())?;
        writeln!(f, "formatted: {} s after the start of 1970", self.formatted_unix_s)?;
        for (name, value) in self.geometry.placement.fields() {
            writeln!(f, "{name}: {value}")?;
        }
        for (index, size) in self.geometry.devices.iter().enumerate() {
            writeln!(f, "data of device {index}: {size}")?;
        }
        writeln!(f, "spare extents: {}", self.geometry.spare)?;
        if let Some(Displaced { device, home, bytes, at, volume, .. }) = self.geometry.displaced {
            writeln!(f, "taken over with data: {volume} of device {}", device.0)?;
            writeln!(f, "displaced: the first {bytes} of them, to device {} at {at}", home.0)?;
        }
        if let Some(places) = self.geometry.places {
            writeln!(
                f,
                "resized while the volume was served: {} times; data begin at {}",
                places.number, places.data_at
            )?;
        }
        let gone_of = |mask: u32| -> Vec<String> {
            (0..32).filter(|device| mask >> device & 1 == 1).map(|device: u32| device.to_string()).collect()
        };
        let gone = gone_of(self.gone);
        if !gone.is_empty() {
            writeln!(f, "devices that are gone: {}", gone.join(", "))?;
        }
        let emptied = gone_of(self.evacuated & self.gone);
        if !emptied.is_empty() {
            writeln!(f, "of these evacuated: {}", emptied.join(", "))?;
        }
        let blank = gone_of(self.blank);
        if !blank.is_empty() {
            writeln!(f, "devices that took a place and hold no data yet: {}", blank.join(", "))?;
        }
        for (device, times) in self.successions.iter().enumerate().filter(|(_, times)| **times > 0) {
            writeln!(f, "device {device} was replaced while the volume was served: {times} times")?;
        }
        write!(f, "notes: {}", if self.notes.is_empty() { "none" } else { &self.notes })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What a superblock of two devices, like the sample, may say of a device that had data.
    const DISPLACED: Displaced = Displaced {
        device: DeviceId(1),
        home: DeviceId(0),
        metadata: Bytes::mib(1),
        bytes: Bytes::mib(3),
        at: Bytes::mib(20),
        volume: Bytes(Bytes::gib(3).0 - Bytes::kib(64).0),
        used: Bytes(Bytes::gib(3).0 + Bytes::mib(1).0 + BLOCK),
    };

    fn sample(placement: Placement, notes: &str) -> Superblock {
        let devices = vec![Bytes::mib(8), Bytes::gib(3)];
        let geometry = Geometry { devices, placement, spare: 5, displaced: None, places: None };
        Superblock {
            device: DeviceId(1),
            generation: 9,
            formatted_unix_s: 1_700_000_000,
            touched: [3, 4],
            fingerprint: 77,
            seals: std::array::from_fn(|index| index as u64 * 3),
            given_up: GivenUp { commit: 11, returnable: 5 },
            notes: notes.to_string(),
            ..Superblock::new(VolumeId(0x1234_5678_9abc_def0_1122), geometry)
        }
    }

    #[test]
    fn an_impossibly_high_generation_is_damage() {
        let forged = Superblock { generation: u64::MAX, ..sample(Placement::Single { device: DeviceId(1) }, "") };
        assert_eq!(Superblock::decode(&forged.encode()).map(|_| ()), Err(Unreadable::Damaged));
    }

    #[test]
    fn every_placement_is_decoded_as_it_was_encoded() {
        let pair = Hybrid { fast: DeviceId(1), slow: DeviceId(0), extent: Bytes::kib(64) };
        for placement in [
            Placement::Single { device: DeviceId(1) },
            Placement::Linear { devices: vec![DeviceId(1), DeviceId(0)] },
            Placement::Tiering(pair),
            Placement::Caching(pair),
            Placement::Partitioned(pair),
            Placement::Logging(Logging { primaries: DeviceId(0).into(), log: DeviceId(1), block: Bytes(512) }),
            Placement::Logging(Logging {
                primaries: Primaries::new(&[DeviceId(2), DeviceId(0), DeviceId(3)]).expect("three are possible"),
                log: DeviceId(1),
                block: Bytes::kib(4),
            }),
        ] {
            let before = sample(placement, "placement.max_moves=3\n");
            assert_eq!(Superblock::decode(&before.encode()), Ok(before));
        }
    }

    #[test]
    fn a_newer_version_is_named_and_not_decoded() {
        let before = sample(Placement::Single { device: DeviceId(0) }, "");
        let mut block = before.encode();
        put_u32(&mut block, 16, VERSION + 1);
        seal(&mut block, Kind::Superblock, before.volume);
        assert_eq!(Superblock::decode(&block), Err(Unreadable::Version(VERSION + 1)));
    }

    #[test]
    fn features_that_are_not_known_are_named_where_they_matter() {
        let before = sample(Placement::Single { device: DeviceId(0) }, "");
        let mut block = before.encode();
        put_u32(&mut block, COMPAT_AT, 1 << 9);
        seal(&mut block, Kind::Superblock, before.volume);
        assert_eq!(Superblock::decode(&block), Ok(before.clone()), "a compatible feature changes nothing");
        put_u32(&mut block, INCOMPAT_AT, 1 << 3);
        seal(&mut block, Kind::Superblock, before.volume);
        assert_eq!(Superblock::decode(&block), Err(Unreadable::Features(1 << 3)));
    }

    #[test]
    fn what_has_become_of_the_devices_is_decoded_as_it_was_encoded() {
        let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: Bytes::kib(64) };
        let plain = sample(Placement::Caching(pair), "");
        let layout = crate::layout::MetadataLayout::new(100_000, Bytes::gib(8));
        let larger = crate::layout::MetadataLayout::new(150_000, Bytes::gib(8));
        let (places, _) = layout.divided(1, &larger).expect("there is room");
        let mut successions = [0; MOST_DEVICES];
        successions[1] = 2;
        let displaced = Geometry { displaced: Some(DISPLACED), ..plain.geometry.clone() };
        let resized = Geometry { places: Some(places), ..plain.geometry.clone() };
        let blocks = [
            Superblock { geometry: displaced, ..plain.clone() },
            Superblock { geometry: resized, ..plain.clone() },
            Superblock { successions, ..plain.clone() },
            Superblock { state: VolumeState::Aside, ..plain.clone() },
            Superblock { gone: 1, evacuated: 1, ..plain.clone() },
            Superblock { blank: 2, ..plain.clone() },
        ];
        for block in &blocks {
            assert_eq!(Superblock::decode(&block.encode()).as_ref(), Ok(block));
            assert_ne!(block.seal(), plain.seal());
        }
        let [displaced, _, replaced, _, evacuated, blank] = &blocks;
        let differences = plain.geometry.differences(&displaced.geometry);
        assert!(differences.iter().any(|line| line.contains("taken over with data")));
        // Numbers that contradict each other are damage.
        let mut forged = displaced.encode();
        put_u64(&mut forged, DISPLACED_AT + 16, Bytes::mib(1).0);
        seal(&mut forged, Kind::Superblock, displaced.volume);
        assert_eq!(Superblock::decode(&forged), Err(Unreadable::Damaged));
        // A copy that counts a succession is the newer one of two.
        assert!(replaced.age() > plain.age());
        assert!(replaced.to_string().contains("device 1 was replaced while the volume was served: 2 times"));
        assert!(blank.to_string().contains("hold no data yet: 1"), "{blank}");
        assert!(evacuated.to_string().contains("of these evacuated: 0"), "{evacuated}");
    }

    #[test]
    fn a_seal_is_of_everything_but_the_seals() {
        let one = sample(Placement::Single { device: DeviceId(0) }, "");
        let other = Superblock { seals: [9; MOST_DEVICES], ..one.clone() };
        assert_eq!(one.seal(), other.seal());
        assert_ne!(one.seal(), Superblock { fingerprint: 78, ..one.clone() }.seal());
    }

    proptest! {
        #[test]
        fn no_content_of_a_block_breaks_the_reader(bytes in proptest::collection::vec(any::<u8>(), BLOCK_LEN), sealed: bool) {
            let mut block = bytes;
            if sealed {
                block[8..16].copy_from_slice(MAGIC);
                put_u32(&mut block, 16, VERSION);
                let volume = VolumeId(u128::from_le_bytes(block[24..40].try_into().unwrap()));
                seal(&mut block, Kind::Superblock, volume);
            }
            let _ = Superblock::decode(&block);
        }

        #[test]
        fn a_flipped_bit_is_noticed(bit in 0..BLOCK_LEN * 8) {
            let mut block = sample(Placement::Single { device: DeviceId(0) }, "x").encode();
            block[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(Superblock::decode(&block).is_err());
        }
    }
}
