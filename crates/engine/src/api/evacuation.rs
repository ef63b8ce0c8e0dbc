//! Why a device cannot be evacuated.

use peryton_units::Bytes;
use thiserror::Error;

/// Why a device cannot be evacuated: the volume would not be what it was without it, or it is not the time.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum EvacuationError {
    /// There is no such device.
    #[error("there is no device {device}")]
    Unknown {
        /// The index of the device.
        device: usize,
    },
    /// A device is gone.
    #[error("the volume is without device {device} already: take that back (peryton re-add) or replace it first")]
    Gone {
        /// The index of that device.
        device: usize,
    },
    /// A device is being replaced.
    #[error("device {device} is being replaced: wait until that is done, or stop it (peryton replace --stop)")]
    Busy {
        /// The index of that device.
        device: usize,
    },
    /// It is the slow device of a map.
    #[error(
        "device {device} has all {volume} of the volume, and the other device has room for {room}: it cannot hold \
         everything; let another device take its place instead (peryton replace)"
    )]
    Slow {
        /// The index of the device.
        device: usize,
        /// The size of the volume.
        volume: Bytes,
        /// The data for which the other device has room.
        room: Bytes,
    },
    /// The volume needs the room of both devices.
    #[error(
        "the volume has {volume}, and without device {device} there is room for {room}: writes would fail for want of room; let \
         another device take its place instead (peryton replace)"
    )]
    NoRoom {
        /// The index of the device.
        device: usize,
        /// The size of the volume.
        volume: Bytes,
        /// The data for which the other devices have room.
        room: Bytes,
    },
    /// Only a cache can be emptied while the volume is served.
    #[error(
        "device {device} is not the fast device of caching or partitioned, and no other is evacuated while the volume is served: let \
         another device take its place instead (peryton replace)"
    )]
    Placement {
        /// The index of the device.
        device: usize,
    },
    /// The volume was taken over with data.
    #[error(
        "the volume was taken over with data (peryton import), and its first part may lie on another device: stop the volume, and \
         give the disk back (peryton export)"
    )]
    Adopted,
    /// Some data is lost, and the fast device may be the one that says which.
    #[error(
        "{bytes} of the volume are lost, and device {device} may be the one that says which: write or discard them first \
         (peryton status lists them)"
    )]
    Lost {
        /// The index of the device.
        device: usize,
        /// How much is lost.
        bytes: Bytes,
    },
    /// Something is still on it alone.
    #[error("device {device} still has {extents} extents that the other device lacks")]
    NotEmpty {
        /// The index of the device.
        device: usize,
        /// How many.
        extents: u64,
    },
}
