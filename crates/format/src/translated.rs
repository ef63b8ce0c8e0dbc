//! The devices of a volume, one of which had data before, as the engine sees them: offsets are translated.

use peryton_units::Bytes;

use crate::{
    block::BLOCK_LEN,
    displaced::Displaced,
    handoff::Found,
    storage::{DeviceError, DeviceId, Storage},
    superblock::VolumeId,
};

/// The devices of such a volume.
pub struct Translated<'a> {
    beneath: &'a mut dyn Storage,
    displaced: Displaced,
    /// The block that is written to the first block of the device in place of zeros.
    marker: Option<[u8; BLOCK_LEN]>,
}

impl<'a> Translated<'a> {
    /// Translates for these devices.
    pub fn new(beneath: &'a mut dyn Storage, displaced: Displaced) -> Translated<'a> {
        Translated { beneath, displaced, marker: None }
    }

    /// Also replaces zeros that would be written to the first block of the device by this block, so that the device always names its
    /// volume.
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

    /// Flushes both devices: data that were written to the device may lie on either.
    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        self.beneath.flush(device)?;
        let Displaced { home, .. } = self.displaced;
        let both = device == self.displaced.device && home != device && self.beneath.size(home).is_some();
        if both { self.beneath.flush(home) } else { Ok(()) }
    }

    fn left_in_memory(&mut self, volume: VolumeId, clean: bool) -> Option<Found> {
        self.beneath.left_in_memory(volume, clean)
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
    use crate::block::BLOCK;
    use crate::displaced::tests::{SLOW, sample};

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
