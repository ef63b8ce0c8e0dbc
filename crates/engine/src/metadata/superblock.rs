//! Superblocks: one at each end of each device, saying what volume the device is part of and in what state it was left.

use peryton_units::Bytes;

use super::block::{BLOCK_LEN, Kind, MOST_NUMBERS, get_u32, get_u64, has_kind, is_sealed, put_u32, put_u64, seal};
use crate::{
    command::DeviceId,
    config::{Hybrid, Placement},
    logging::Devices as Logging,
};

/// What `format` calls a volume: random, so that no two are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct VolumeId(pub u128);

/// The version of the format that is written.
pub(crate) const VERSION: u32 = 1;
const MAGIC: &[u8; 8] = b"PERYTON\n";
/// The most devices that a superblock can name.
pub(crate) const MOST_DEVICES: usize = 16;
const SIZES_AT: usize = 160;
const NOTES_AT: usize = 512;
/// The longest text that a superblock keeps for the driver.
pub(crate) const MOST_NOTES: usize = BLOCK_LEN - NOTES_AT;

/// How a device was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub(crate) enum State {
    /// A generation is about to begin; no request has been served in it.
    Opening = 1,
    /// Requests are served.
    Open = 2,
    /// Closed in good order.
    Clean = 3,
    /// The slow device has everything, and the fast one nothing that counts.
    Detached = 4,
}

/// What the format fixes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fixed {
    /// For each device how many bytes of data.
    pub(crate) devices: Vec<Bytes>,
    pub(crate) placement: Placement,
    /// Spare extents; 0 without a map.
    pub(crate) spare: u32,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Superblock {
    pub(crate) volume: VolumeId,
    /// Which device of the volume this is.
    pub(crate) device: DeviceId,
    /// Counts the times the volume was opened.
    pub(crate) generation: u64,
    pub(crate) state: State,
    /// Seconds since 1970.
    pub(crate) formatted_unix_s: u64,
    /// Places on the fast and the slow device from which on none has ever been written; valid when clean.
    pub(crate) touched: [u32; 2],
    /// Devices that are no longer part of the volume, because they failed: a bit each.
    pub(crate) gone: u32,
    /// A digest of samples of what this device held when it was closed.
    pub(crate) fingerprint: u64,
    pub(crate) fixed: Fixed,
    /// Kept for the driver: its settings.
    pub(crate) notes: String,
}

/// Why a block is not a superblock that can be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    /// Nothing of ours.
    Absent,
    /// Ours, but damaged.
    Damaged,
    /// Of a version that this program does not know.
    Version(u32),
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
            block[112] = devices.len() as u8;
            for (at, device) in devices.iter().enumerate() {
                block[113 + at] = device.0;
            }
        }
        Placement::Tiering(Hybrid { fast, slow, extent }) => pair(block, 3, (*fast, *slow), *extent),
        Placement::Caching(Hybrid { fast, slow, extent }) => pair(block, 4, (*fast, *slow), *extent),
        Placement::Partitioned(Hybrid { fast, slow, extent }) => pair(block, 6, (*fast, *slow), *extent),
        Placement::Logging(Logging { primary, log, block: unit }) => pair(block, 5, (*primary, *log), *unit),
    }
}

fn get_placement(block: &[u8]) -> Option<Placement> {
    let (a, b, unit) = (DeviceId(block[100]), DeviceId(block[101]), Bytes(get_u64(block, 104)));
    Some(match get_u32(block, 96) {
        1 => Placement::Single { device: a },
        2 => {
            let count = usize::from(block[112]);
            (count <= MOST_DEVICES).then_some(())?;
            Placement::Linear { devices: block[113..113 + count].iter().map(|device| DeviceId(*device)).collect() }
        }
        3 => Placement::Tiering(Hybrid { fast: a, slow: b, extent: unit }),
        4 => Placement::Caching(Hybrid { fast: a, slow: b, extent: unit }),
        6 => Placement::Partitioned(Hybrid { fast: a, slow: b, extent: unit }),
        5 => Placement::Logging(Logging { primary: a, log: b, block: unit }),
        _ => return None,
    })
}

impl Superblock {
    /// Which of two says more of the volume: within a generation, the one that knows of more devices that are gone.
    pub(crate) fn age(&self) -> (u64, u32, State) {
        (self.generation, self.gone.count_ones(), self.state)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut block = vec![0; BLOCK_LEN];
        block[8..16].copy_from_slice(MAGIC);
        put_u32(&mut block, 16, VERSION);
        put_u32(&mut block, 20, self.state as u32);
        block[24..40].copy_from_slice(&self.volume.0.to_le_bytes());
        put_u64(&mut block, 40, self.generation);
        put_u64(&mut block, 48, self.formatted_unix_s);
        put_u32(&mut block, 56, u32::from(self.device.0));
        put_u32(&mut block, 60, self.fixed.devices.len() as u32);
        put_u32(&mut block, 64, self.touched[0]);
        put_u32(&mut block, 68, self.touched[1]);
        put_u64(&mut block, 72, self.fingerprint);
        put_u32(&mut block, 80, self.gone);
        put_u32(&mut block, 84, self.fixed.spare);
        put_u32(&mut block, 88, self.notes.len() as u32);
        put_placement(&mut block, &self.fixed.placement);
        for (index, size) in self.fixed.devices.iter().enumerate() {
            put_u64(&mut block, SIZES_AT + index * 8, size.0);
        }
        block[NOTES_AT..NOTES_AT + self.notes.len()].copy_from_slice(self.notes.as_bytes());
        seal(&mut block, Kind::Superblock, self.volume);
        block
    }

    pub(crate) fn decode(block: &[u8]) -> Result<Superblock, Unreadable> {
        if !has_kind(block, Kind::Superblock) && block.get(8..16) != Some(&MAGIC[..]) {
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
        Self::fields(block, volume).ok_or(Unreadable::Damaged)
    }

    fn fields(block: &[u8], volume: VolumeId) -> Option<Superblock> {
        let state = match get_u32(block, 20) {
            1 => State::Opening,
            2 => State::Open,
            3 => State::Clean,
            4 => State::Detached,
            _ => return None,
        };
        let count = get_u32(block, 60) as usize;
        let device = u8::try_from(get_u32(block, 56)).ok()?;
        let notes = get_u32(block, 88) as usize;
        let generation = get_u64(block, 40);
        let possible = count <= MOST_DEVICES && usize::from(device) < count && notes <= MOST_NOTES;
        (possible && generation < MOST_NUMBERS).then_some(())?;
        Some(Superblock {
            volume,
            device: DeviceId(device),
            generation,
            state,
            formatted_unix_s: get_u64(block, 48),
            touched: [get_u32(block, 64), get_u32(block, 68)],
            gone: get_u32(block, 80),
            fingerprint: get_u64(block, 72),
            fixed: Fixed {
                devices: (0..count).map(|index| Bytes(get_u64(block, SIZES_AT + index * 8))).collect(),
                placement: get_placement(block)?,
                spare: get_u32(block, 84),
            },
            notes: String::from_utf8(block[NOTES_AT..NOTES_AT + notes].to_vec()).ok()?,
        })
    }
}

impl Fixed {
    /// What differs between a design and what a device says, for the person who has to decide which is right.
    pub(crate) fn differences(&self, on_device: &Fixed) -> Vec<String> {
        let mut found = Vec::new();
        let mut differ = |what: &str, ours: String, theirs: String| {
            if ours != theirs {
                found.push(format!("{what} is {ours} in the design and {theirs} on the device"));
            }
        };
        differ("the number of devices", self.devices.len().to_string(), on_device.devices.len().to_string());
        let (ours, theirs) = (describe(&self.placement), describe(&on_device.placement));
        for (ours, theirs) in ours.into_iter().zip(theirs) {
            differ(ours.0, ours.1, theirs.1);
        }
        for (index, (ours, theirs)) in self.devices.iter().zip(&on_device.devices).enumerate() {
            differ(&format!("the data size of device {index}"), ours.to_string(), theirs.to_string());
        }
        differ("the number of spare extents", self.spare.to_string(), on_device.spare.to_string());
        found
    }
}

fn describe(placement: &Placement) -> Vec<(&'static str, String)> {
    let pair = |mode: &str, a: DeviceId, b: DeviceId, unit: Bytes| {
        let text = |device: DeviceId| format!("device {}", device.0);
        vec![
            ("placement.mode", mode.to_string()),
            ("the fast device (or the log's primary)", text(a)),
            ("the slow device (or the log)", text(b)),
            ("placement.extent (or block)", unit.to_string()),
        ]
    };
    match placement {
        Placement::Single { device } => pair("single", *device, *device, Bytes::ZERO),
        Placement::Linear { devices } => {
            let order: Vec<String> = devices.iter().map(|device| device.0.to_string()).collect();
            vec![("placement.mode", "linear".to_string()), ("the order of the devices", order.join(", "))]
        }
        Placement::Tiering(Hybrid { fast, slow, extent }) => pair("tiering", *fast, *slow, *extent),
        Placement::Caching(Hybrid { fast, slow, extent }) => pair("caching", *fast, *slow, *extent),
        Placement::Partitioned(Hybrid { fast, slow, extent }) => pair("partitioned", *fast, *slow, *extent),
        Placement::Logging(Logging { primary, log, block }) => pair("logging", *primary, *log, *block),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(placement: Placement, notes: &str) -> Superblock {
        Superblock {
            volume: VolumeId(0x1234_5678_9abc_def0_1122),
            device: DeviceId(1),
            generation: 9,
            state: State::Open,
            formatted_unix_s: 1_700_000_000,
            touched: [3, 4],
            gone: 0,
            fingerprint: 77,
            fixed: Fixed { devices: vec![Bytes::mib(8), Bytes::gib(3)], placement, spare: 5 },
            notes: notes.to_string(),
        }
    }

    #[test]
    fn a_generation_that_nobody_lives_to_see_is_damage() {
        let forged = Superblock { generation: u64::MAX, ..sample(Placement::Single { device: DeviceId(1) }, "") };
        assert_eq!(Superblock::decode(&forged.encode()).map(|_| ()), Err(Unreadable::Damaged));
    }

    #[test]
    fn every_placement_comes_back_as_it_was() {
        let pair = Hybrid { fast: DeviceId(1), slow: DeviceId(0), extent: Bytes::kib(64) };
        for placement in [
            Placement::Single { device: DeviceId(1) },
            Placement::Linear { devices: vec![DeviceId(1), DeviceId(0)] },
            Placement::Tiering(pair),
            Placement::Caching(pair),
            Placement::Partitioned(pair),
            Placement::Logging(Logging { primary: DeviceId(0), log: DeviceId(1), block: Bytes(512) }),
        ] {
            let before = sample(placement, "placement.max_moves=3\n");
            assert_eq!(Superblock::decode(&before.encode()), Ok(before));
        }
    }

    #[test]
    fn a_later_version_is_named_and_not_guessed_at() {
        let before = sample(Placement::Single { device: DeviceId(0) }, "");
        let mut block = before.encode();
        put_u32(&mut block, 16, 2);
        seal(&mut block, Kind::Superblock, before.volume);
        assert_eq!(Superblock::decode(&block), Err(Unreadable::Version(2)));
    }

    proptest! {
        #[test]
        fn no_block_whatever_it_holds_breaks_the_reader(bytes in proptest::collection::vec(any::<u8>(), BLOCK_LEN), sealed: bool) {
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
