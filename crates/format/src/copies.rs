//! The two copies of a device's superblock, at its start and at the end of what the volume uses, and the digest of the data
//! between them.

use peryton_units::Bytes;
use thiserror::Error;

use crate::{
    block::{BLOCK, BLOCK_LEN},
    mutation::{self, Mutation},
    storage::{DeviceError, DeviceId, Storage},
    superblock::{Superblock, Unreadable, VolumeId},
};

/// Writes both copies of a superblock, one after the other, so that one is always valid. The volume uses the first
/// `used` bytes of the device.
///
/// # Errors
///
/// The device failed. At least one copy is still valid: the new one, or the previous one.
pub fn write(storage: &mut dyn Storage, superblock: &Superblock, used: Bytes) -> Result<(), DeviceError> {
    let bytes = superblock.encode();
    for at in [Bytes::ZERO, used - Bytes(BLOCK)] {
        if at > Bytes::ZERO && mutation::is(Mutation::OneSuperblock) {
            continue;
        }
        storage.write(superblock.device, at, &bytes)?;
        storage.flush(superblock.device)?;
    }
    Ok(())
}

/// Restores the copy at the end of a device that lacks it, before the one at the start is overwritten.
///
/// # Errors
///
/// The device failed. The valid copy is still valid.
pub fn write_end(storage: &mut dyn Storage, superblock: &Superblock, used: Bytes) -> Result<(), DeviceError> {
    storage.write(superblock.device, used - Bytes(BLOCK), &superblock.encode())?;
    storage.flush(superblock.device)
}

/// A superblock that was found on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundSuperblock {
    /// The newer copy.
    pub superblock: Superblock,
    /// Number of valid copies: 1 or 2.
    pub copies: u32,
}

/// Why a device has no usable superblock.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NoSuperblock {
    /// The device does not exist.
    #[error("the device is not there")]
    Missing,
    /// Neither copy is usable.
    #[error(transparent)]
    Unreadable(Unreadable),
}

/// Reads both copies and returns the newer one. `used` is the expected size of the volume on the device. If the first
/// copy is valid, `used_by` computes the true size from it.
///
/// # Errors
///
/// The device does not exist, or neither copy is usable.
pub fn read(
    storage: &mut dyn Storage,
    device: DeviceId,
    used: Bytes,
    used_by: impl Fn(&Superblock) -> Option<Bytes>,
) -> Result<FoundSuperblock, NoSuperblock> {
    let size = storage.size(device).ok_or(NoSuperblock::Missing)?;
    let mut found: Option<Superblock> = None;
    let (mut copies, mut worst) = (0, Unreadable::Absent);
    let mut block = [0; BLOCK_LEN];
    let mut look = |at: Bytes, storage: &mut dyn Storage| -> Option<Bytes> {
        if at.0.saturating_add(BLOCK) > size.0 {
            return None;
        }
        let read = storage.read(device, at, &mut block);
        match read.map_err(|_| Unreadable::Damaged).and_then(|()| Superblock::decode(&block)) {
            Ok(other) => {
                copies += 1;
                let newer = found.as_ref().is_none_or(|found| found.age() < other.age());
                let used = used_by(&other);
                if newer {
                    found = Some(other);
                }
                return used;
            }
            Err(Unreadable::Absent) => {}
            Err(other) => worst = other,
        }
        None
    };
    let end = look(Bytes::ZERO, storage).unwrap_or(used);
    look(end - Bytes(BLOCK).min(end), storage);
    match found {
        Some(superblock) => Ok(FoundSuperblock { superblock, copies }),
        None => Err(NoSuperblock::Unreadable(worst)),
    }
}

/// Number of data blocks that are sampled for the digest.
const SAMPLES: u64 = 64;
/// This many bytes at the start and at the end of the data are always in the digest: mounting a file system changes
/// them.
const EDGE: u64 = 64 << 10;

/// A digest of samples of a device's data, which lies between `from` and `to`. The superblock stores it, so that a
/// foreign write to a closed device is noticed.
pub fn fingerprint(storage: &mut dyn Storage, device: DeviceId, (from, to): (Bytes, Bytes), volume: VolumeId) -> u64 {
    let blocks = (to - from).0 / BLOCK;
    let mut digest = [crc32c::crc32c(b"a"), crc32c::crc32c(b"b")];
    let mut block = [0; BLOCK_LEN];
    let edge = (EDGE / BLOCK).min(blocks);
    let seed = volume.0 as u64 ^ (volume.0 >> 64) as u64;
    let samples = (0..SAMPLES).map(|index| {
        let hash = (seed ^ index).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        ((u128::from(hash ^ (hash >> 29)) * u128::from(blocks)) >> 64) as u64
    });
    for index in (0..edge).chain(blocks - edge..blocks).chain(samples.filter(|_| blocks > 0)) {
        if storage.read(device, from + Bytes(index * BLOCK), &mut block).is_err() {
            block.fill(0xee);
        }
        digest[0] = crc32c::crc32c_append(digest[0], &block);
        digest[1] = crc32c::crc32c_append(digest[1].rotate_left(7) ^ 0x5bd1_e995, &block);
    }
    u64::from(digest[0]) << 32 | u64::from(digest[1])
}
