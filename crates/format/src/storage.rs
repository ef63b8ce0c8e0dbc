//! Synchronous access to the devices of a volume: for formatting, opening, checking and closing.

use peryton_units::Bytes;
use thiserror::Error;

pub use crate::device_id::DeviceId;
use crate::{
    block::{BLOCK, BLOCK_LEN},
    displaced::Displaced,
    handoff::Found,
    superblock::VolumeId,
};

/// A device failed to carry out an operation.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[error("the device reported a failure")]
pub struct DeviceError;

/// The unit in which metadata is read and written: offsets and lengths are multiples of it.
pub const METADATA_BLOCK: Bytes = Bytes::kib(4);

/// Blocks are read in parts of this many bytes.
const PIECE: u64 = 1 << 20;

/// Reads all blocks of a range, and hands out each with its number in it: `None` if it cannot be read. One bad sector does not hide its
/// neighbours.
pub(crate) fn read_blocks(
    storage: &mut dyn Storage,
    device: DeviceId,
    at: Bytes,
    len: u64,
    mut each: impl FnMut(u64, Option<&[u8]>),
) {
    let mut piece = vec![0; PIECE.min(len) as usize];
    for from in (0..len).step_by(PIECE as usize) {
        let piece = &mut piece[..PIECE.min(len - from) as usize];
        let whole = storage.read(device, at + Bytes(from), piece).is_ok();
        for (block, within) in piece.chunks_exact_mut(BLOCK_LEN).zip((from..).step_by(BLOCK_LEN)) {
            let read = whole || storage.read(device, at + Bytes(within), block).is_ok();
            each(within / BLOCK, read.then_some(&*block));
        }
    }
}

/// Access to the devices of a volume, in whole metadata blocks ([`METADATA_BLOCK`]). For files, `peryton-drive` has an
/// implementation. Devices in memory, for tests and examples, are a vector for each:
///
/// ```
/// use peryton_format::storage::{DeviceError, DeviceId, Storage};
/// use peryton_units::Bytes;
///
/// let mut devices = vec![vec![0; 8192], vec![0; 4096]];
/// devices.write(DeviceId(0), Bytes(4096), &[7; 4096])?;
/// let mut block = [0; 4096];
/// devices.read(DeviceId(0), Bytes(4096), &mut block)?;
/// assert_eq!((block[0], devices.size(DeviceId(1))), (7, Some(Bytes(4096))));
/// assert_eq!(devices.read(DeviceId(1), Bytes(4096), &mut block), Err(DeviceError), "past the end");
/// # Ok::<(), DeviceError>(())
/// ```
pub trait Storage {
    /// The size of the device; `None` if the device does not exist.
    fn size(&self, device: DeviceId) -> Option<Bytes>;

    /// Fills `into` from the device.
    ///
    /// # Errors
    ///
    /// The device could not read all of the range; the content of `into` is then undefined.
    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError>;

    /// Writes `from` to the device. The data is durable after the next flush.
    ///
    /// # Errors
    ///
    /// The device could not write all of the range, which may then hold old data, new data, or a mixture.
    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError>;

    /// Makes everything durable that was written before.
    ///
    /// # Errors
    ///
    /// The device failed: data written since the last successful flush may be lost in a power failure.
    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError>;

    /// The records that a killed server of this volume has left in memory, if they can be taken over. `clean`: the superblocks say that the
    /// volume was closed in good order. Then records matter only if they are of a later generation: the devices are older copies.
    fn left_in_memory(&mut self, _volume: VolumeId, _clean: bool) -> Option<Found> {
        None
    }

    /// A flush has failed: the records that a server of this volume has left in memory may point to lost data, so they are dropped.
    fn forget_memory(&mut self, _volume: VolumeId) {}

    /// The volume was closed in good order, and the same process will open it again: the records in memory are dropped.
    fn has_closed(&mut self, _volume: VolumeId) {}

    /// The translation of offsets of a device that had data before, if there is one. The volume can only be opened with the same translation.
    fn displaced(&self) -> Option<Displaced> {
        None
    }
}

/// Devices in memory, one vector for each. Everything written is durable, and only an access past the end of a device, or
/// to one that does not exist, fails.
impl Storage for Vec<Vec<u8>> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.get(device.index()).map(|bytes| Bytes(bytes.len() as u64))
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        let bytes = self.get(device.index()).and_then(|bytes| bytes.get(range(at, into.len())?));
        into.copy_from_slice(bytes.ok_or(DeviceError)?);
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        let bytes = self.get_mut(device.index()).and_then(|bytes| bytes.get_mut(range(at, from.len())?));
        bytes.ok_or(DeviceError)?.copy_from_slice(from);
        Ok(())
    }

    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        self.get(device.index()).map(|_| ()).ok_or(DeviceError)
    }
}

fn range(at: Bytes, len: usize) -> Option<std::ops::Range<usize>> {
    let from = usize::try_from(at.0).ok()?;
    Some(from..from.checked_add(len)?)
}
