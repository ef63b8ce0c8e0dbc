//! A device that had data before it became part of a volume. The volume has these data at their old offsets. The first
//! part of the device has the volume's metadata, so what was there is displaced: it lies elsewhere, at its *home*.
//!
//! The rest of the program sees the device as if metadata lay in front of the data, as on every other device. This module
//! translates the offsets:
//!
//! ```text
//! as the engine sees it   0        D               D + M                          D + V       used
//!                         +--------+---------------+------------------------------+-----------+
//!                         | meta-  | displaced     | the rest of the old data     | rest and  |
//!                         | data   | old data      |                              | superblock|
//!                         +--------+---------------+------------------------------+-----------+
//! where it lies           0 .. D    home .. home+M  M .. V                         D .. M
//!                         (the device)  (home)      (the device)                   (the device)
//! ```

use peryton_units::Bytes;

use crate::{
    block::{BLOCK, BLOCK_LEN},
    storage::{DeviceError, DeviceId, Storage},
    superblock::VolumeId,
    takeover::Found,
};

/// What is displaced is a multiple of this, and so is where it goes.
pub const UNIT: u64 = 1 << 20;
/// No device is larger.
const LARGEST: u64 = 1 << 59;

/// The division of a device that had data before.
///
/// ```
/// use peryton_format::{displaced::Displaced, storage::DeviceId};
/// use peryton_units::Bytes;
///
/// // A disk of 100 MiB, whose first 3 MiB lie on device 0, from 40 MiB on.
/// let displaced = Displaced {
///     device: DeviceId(1),
///     home: DeviceId(0),
///     metadata: Bytes::mib(2),
///     bytes: Bytes::mib(3),
///     at: Bytes::mib(40),
///     volume: Bytes::mib(100),
///     used: Bytes::mib(102) + Bytes::kib(4),
/// };
/// assert!(displaced.is_possible());
/// let first = displaced.locate(Bytes::mib(2));
/// assert_eq!((first.device, first.at), (DeviceId(0), Bytes::mib(40)), "the first byte of the volume is displaced");
/// let other = displaced.locate(Bytes::mib(2 + 50));
/// assert_eq!((other.device, other.at), (DeviceId(1), Bytes::mib(50)), "the 50th MiB is where it was");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Displaced {
    /// The device that had the data.
    pub device: DeviceId,
    /// The device to which the first part of the data has moved: another one, or the same.
    pub home: DeviceId,
    /// Offset of the data, as the engine sees the device.
    pub metadata: Bytes,
    /// How much of the old data is displaced.
    pub bytes: Bytes,
    /// Where it lies on its home.
    pub at: Bytes,
    /// Size of the volume: so much of the device was taken over.
    pub volume: Bytes,
    /// Size of the device, as the engine sees it.
    pub used: Bytes,
}

/// Where a byte lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The device.
    pub device: DeviceId,
    /// The offset on the device.
    pub at: Bytes,
    /// Whether it is one of the displaced bytes.
    pub is_displaced: bool,
    /// How many bytes from there on lie together.
    pub together: Bytes,
}

impl Displaced {
    /// Whether the numbers agree with each other.
    pub fn is_possible(&self) -> bool {
        let Displaced { device, home, metadata, bytes, at, volume, used } = *self;
        let small = [metadata, bytes, at, volume, used].iter().all(|size| size.0 < LARGEST);
        let whole = [metadata, bytes, at].iter().all(|size| size.0.is_multiple_of(UNIT));
        small
            && whole
            && metadata > Bytes::ZERO
            && bytes <= volume
            && used >= metadata + volume + Bytes(BLOCK)
            && metadata + (used - metadata - volume) <= bytes
            && (home != device || at >= volume)
    }

    /// Where a byte lies, of which the engine knows the offset.
    #[inline]
    pub fn locate(&self, offset: Bytes) -> Place {
        let Displaced { device, home, metadata, bytes, at, volume, used } = *self;
        let moved = metadata + bytes;
        let rest = metadata + volume;
        let on = |at: Bytes, end: Bytes| Place { device, at, is_displaced: false, together: end - offset };
        if offset < metadata {
            on(offset, metadata)
        } else if offset < moved {
            Place { device: home, at: at + (offset - metadata), is_displaced: true, together: moved - offset }
        } else if offset < rest {
            on(offset - metadata, rest)
        } else {
            // What lies past the end is past the end of everything.
            let end = if offset < used { used } else { Bytes(u64::MAX) };
            let at = if offset < used { metadata + (offset - rest) } else { Bytes(LARGEST) + (offset - used) };
            on(at, end)
        }
    }

    /// The parts of a range, each of which lies together: where, and its first byte and its end in the range.
    pub fn parts(&self, offset: Bytes, len: usize) -> impl Iterator<Item = (Place, std::ops::Range<usize>)> + use<> {
        let displaced = *self;
        let mut from = 0;
        std::iter::from_fn(move || {
            (from < len).then(|| {
                let place = displaced.locate(offset + Bytes(from as u64));
                let to = len.min(from.saturating_add(usize::try_from(place.together.0).unwrap_or(usize::MAX)));
                let part = from..to;
                from = to;
                (place, part)
            })
        })
    }

    /// Whether the displaced data lie on another device.
    pub fn is_elsewhere(&self) -> bool {
        self.home != self.device
    }

    /// The size that the device must have.
    pub fn needs(&self) -> Bytes {
        if self.is_elsewhere() { self.volume } else { self.at + self.bytes }
    }

    /// The size of the device as the engine sees it, if it has this size. Where it lacks something, as much is missing.
    pub fn size(&self, physical: Bytes) -> Bytes {
        let lacks = self.needs().0.saturating_sub(physical.0);
        Bytes(self.used.0.saturating_sub(lacks))
    }

    /// The range of displaced data, as the engine sees the device.
    pub fn range(&self) -> (Bytes, Bytes) {
        (self.metadata, self.metadata + self.bytes)
    }
}

/// Devices of which one had data before, as the engine sees them.
pub struct Translated<'a> {
    beneath: &'a mut dyn Storage,
    displaced: Displaced,
    /// What is written in place of zeros to the first block of the device.
    marker: Option<[u8; BLOCK_LEN]>,
}

impl<'a> Translated<'a> {
    /// Translates for these devices.
    pub fn new(beneath: &'a mut dyn Storage, displaced: Displaced) -> Translated<'a> {
        Translated { beneath, displaced, marker: None }
    }

    /// The same. Where the first block of the device would become zeros, it becomes this block, so that it always says which volume
    /// it belongs to.
    #[must_use]
    pub fn with_marker(self, marker: [u8; BLOCK_LEN]) -> Translated<'a> {
        Translated { marker: Some(marker), ..self }
    }
}

impl Storage for Translated<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        let size = self.beneath.size(device)?;
        Some(if device == self.displaced.device { self.displaced.size(size) } else { size })
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        if device != self.displaced.device {
            return self.beneath.read(device, at, into);
        }
        let mut parts = self.displaced.parts(at, into.len());
        parts.try_for_each(|(place, part)| self.beneath.read(place.device, place.at, &mut into[part]))
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        if device != self.displaced.device {
            return self.beneath.write(device, at, from);
        }
        if let Some(marker) = &self.marker
            && at == Bytes::ZERO
            && from.len() == BLOCK_LEN
            && from.iter().all(|byte| *byte == 0)
        {
            return self.beneath.write(device, at, marker);
        }
        let mut parts = self.displaced.parts(at, from.len());
        parts.try_for_each(|(place, part)| self.beneath.write(place.device, place.at, &from[part]))
    }

    /// What was written to the device may be on both.
    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        self.beneath.flush(device)?;
        let Displaced { home, .. } = self.displaced;
        let both = device == self.displaced.device && home != device && self.beneath.size(home).is_some();
        if both { self.beneath.flush(home) } else { Ok(()) }
    }

    fn left_in_memory(&mut self, volume: VolumeId) -> Option<Found> {
        self.beneath.left_in_memory(volume)
    }

    fn forget_memory(&mut self, volume: VolumeId) {
        self.beneath.forget_memory(volume);
    }

    fn displaced(&self) -> Option<Displaced> {
        Some(self.displaced)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SLOW: DeviceId = DeviceId(1);

    fn sample(elsewhere: bool) -> Displaced {
        let mib = Bytes::mib;
        let (home, at, volume) = if elsewhere { (DeviceId(0), 5, mib(20) + Bytes(512)) } else { (SLOW, 20, mib(20)) };
        let used = mib(1 + 21) + Bytes(BLOCK);
        Displaced { device: SLOW, home, metadata: mib(1), bytes: mib(3), at: mib(at), volume, used }
    }

    /// The fear: two offsets of the engine lie in one place, or one byte of the old data is not where it was.
    #[test]
    fn every_sector_has_a_place_of_its_own_and_old_data_keep_their_offsets() {
        for displaced in [sample(true), sample(false)] {
            assert!(displaced.is_possible(), "{displaced:?}");
            let mut seen = std::collections::BTreeSet::new();
            for offset in (0..displaced.used.0).step_by(512).map(Bytes) {
                let place = displaced.locate(offset);
                assert!(seen.insert((place.device, place.at)), "{offset:?} {place:?}");
                let end = if place.device == SLOW { displaced.needs() } else { displaced.at + displaced.bytes };
                assert!(place.at + Bytes(512) <= end, "{offset:?} {place:?}");
                let old = offset.0.checked_sub(displaced.metadata.0).filter(|old| *old < displaced.volume.0);
                if let Some(old) = old.map(Bytes) {
                    let expected = match old < displaced.bytes {
                        true => (displaced.home, displaced.at + old),
                        false => (SLOW, old),
                    };
                    assert_eq!((place.device, place.at), expected);
                }
            }
        }
    }

    #[test]
    fn a_device_that_lacks_something_is_too_small_for_the_engine() {
        let displaced = sample(true);
        assert_eq!(displaced.size(displaced.needs()), displaced.used);
        assert_eq!(displaced.size(displaced.needs() + Bytes::mib(9)), displaced.used);
        assert!(displaced.size(displaced.needs() - Bytes(512)) < displaced.used);
    }

    #[test]
    fn a_flush_of_the_device_is_one_of_both_and_fails_with_either() {
        struct Counting([u32; 2], Option<DeviceId>);
        impl Storage for Counting {
            fn size(&self, _: DeviceId) -> Option<Bytes> {
                Some(Bytes::mib(64))
            }
            fn read(&mut self, _: DeviceId, _: Bytes, _: &mut [u8]) -> Result<(), DeviceError> {
                Ok(())
            }
            fn write(&mut self, _: DeviceId, _: Bytes, _: &[u8]) -> Result<(), DeviceError> {
                Ok(())
            }
            fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
                self.0[device.index()] += 1;
                if self.1 == Some(device) { Err(DeviceError) } else { Ok(()) }
            }
        }
        for (elsewhere, flushes) in [(true, [1, 1]), (false, [0, 1])] {
            let mut disks = Counting([0, 0], None);
            assert_eq!(Translated::new(&mut disks, sample(elsewhere)).flush(SLOW), Ok(()));
            assert_eq!(disks.0, flushes);
        }
        for failing in [DeviceId(0), SLOW] {
            let mut disks = Counting([0, 0], Some(failing));
            assert_eq!(Translated::new(&mut disks, sample(true)).flush(SLOW), Err(DeviceError));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        /// Any range is read and written as if it lay together.
        #[test]
        fn a_range_over_borders_is_whole(first in 0..5500_u64, blocks in 1..1200_u64, elsewhere: bool) {
            let displaced = sample(elsewhere);
            let first = first.min(displaced.used.0 / BLOCK - 1);
            let len = (blocks.min(displaced.used.0 / BLOCK - first) * BLOCK) as usize;
            let mut disks = vec![vec![0; 30 << 20], vec![0; 30 << 20]];
            let mut seen = Translated::new(&mut disks, displaced);
            let written: Vec<u8> = (0..len).map(|at| (at / 512 % 251) as u8 + 1).collect();
            let at = Bytes(first * BLOCK);
            seen.write(SLOW, at, &written).unwrap();
            let mut read = vec![0; len];
            seen.read(SLOW, at, &mut read).unwrap();
            prop_assert!(read == written);
            prop_assert_eq!(disks.iter().flatten().filter(|byte| **byte != 0).count(), len);
        }
    }
}
