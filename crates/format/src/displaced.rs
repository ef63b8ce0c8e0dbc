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

use crate::device_id::DeviceId;

/// The length of the displaced part, and its offset on its home, are multiples of this.
pub const UNIT: u64 = 1 << 20;
/// The size of the largest device.
const LARGEST: u64 = 1 << 59;
/// The length of a superblock.
const SUPERBLOCK: u64 = 4096;

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
    /// The offset of the displaced part on its home.
    pub at: Bytes,
    /// Size of the volume: the part of the device that was taken over.
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
            && used >= metadata + volume + Bytes(SUPERBLOCK)
            && metadata + (used - metadata - volume) <= bytes
            && (home != device || at >= volume)
    }

    /// The place of the byte at an offset of the engine's layout.
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
            // An offset past the end of the layout is past the end of the device.
            let end = if offset < used { used } else { Bytes(u64::MAX) };
            let at = if offset < used { metadata + (offset - rest) } else { Bytes(LARGEST) + (offset - used) };
            on(at, end)
        }
    }

    /// The contiguous parts of a range: the place of each, and its first byte and its end within the range.
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

    /// The size of the device as the engine sees it, if the device has this size. A device that is too short is too short by as much.
    pub fn size(&self, physical: Bytes) -> Bytes {
        let lacks = self.needs().0.saturating_sub(physical.0);
        Bytes(self.used.0.saturating_sub(lacks))
    }

    /// The range of displaced data, as the engine sees the device.
    pub fn range(&self) -> (Bytes, Bytes) {
        (self.metadata, self.metadata + self.bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) const SLOW: DeviceId = DeviceId(1);

    pub(crate) fn sample(elsewhere: bool) -> Displaced {
        let mib = Bytes::mib;
        let (home, at, volume) = if elsewhere { (DeviceId(0), 5, mib(20) + Bytes(512)) } else { (SLOW, 20, mib(20)) };
        let used = mib(1 + 21) + Bytes(SUPERBLOCK);
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
}
