//! How far a device is grown or shrunk while the volume is served.

use peryton_format::{geometry::Geometry, places::Places};
use peryton_units::{Bytes, Nanos};
use thiserror::Error;

use crate::api::{command::DeviceId, error::ConfigError};

/// How a device is resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResizePlan {
    /// The device.
    pub device: DeviceId,
    /// How many bytes of data it is to have, as the `size` of a design.
    pub size: Bytes,
    /// The size of the device itself.
    pub room: Bytes,
    /// The most bytes that are written back in a second from a device that shrinks; zero: no bound.
    pub rate: Bytes,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeStage {
    /// The places beyond the new end are being emptied.
    Emptying,
    /// So little is left there that it can be emptied while requests wait. [`Engine::rest`](crate::Engine::rest) and, once nothing is
    /// under way, [`Engine::resize_now`](crate::Engine::resize_now) do the rest.
    Ready,
    /// The volume is closed, and has to be opened with the new size.
    Closed,
}

impl ResizeStage {
    /// The stage in a word.
    pub fn name(self) -> &'static str {
        match self {
            ResizeStage::Emptying => "emptying",
            ResizeStage::Ready => "ready",
            ResizeStage::Closed => "switching",
        }
    }
}

/// How far a device is resized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resize {
    /// What was asked for.
    pub plan: ResizePlan,
    /// How many bytes of data the device has had.
    pub before: Bytes,
    /// What the volume will use of the device.
    pub used: Bytes,
    /// The size of the volume after that.
    pub volume: Bytes,
    /// What is being done.
    pub stage: ResizeStage,
    /// How much was beyond the new end when that began.
    pub total: Bytes,
    /// How much still is.
    pub left: Bytes,
    /// How long it has taken so far.
    pub took: Nanos,
}

impl Resize {
    /// Whether the device becomes smaller.
    pub fn shrinks(&self) -> bool {
        self.plan.size < self.before
    }

    /// How long emptying the rest will take at the rate so far; `None` as long as that is not known.
    pub fn left_time(&self) -> Option<Nanos> {
        let done = self.total - self.left.min(self.total);
        let time = u128::from(self.took.0) * u128::from(self.left.0) / u128::from(done.0.max(1));
        (done > Bytes::ZERO || self.left == Bytes::ZERO).then(|| Nanos(u64::try_from(time).unwrap_or(u64::MAX)))
    }
}

/// How resizing a device came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResizeEnd {
    /// The device has its new size.
    Resized,
    /// It was stopped. The device has its old size; so it has in the following cases.
    Stopped,
    /// A device of the volume was given up.
    DeviceGone,
    /// The volume could not be closed in good order, and was opened as after a crash.
    NotClosed,
}

/// Why a device cannot be resized.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum ResizeError {
    /// There is no such device.
    #[error("there is no device {device}")]
    Unknown {
        /// The index of the device.
        device: usize,
    },
    /// A device is being resized.
    #[error("device {device} is being resized: wait until that is done, or stop it")]
    Busy {
        /// The index of that device.
        device: usize,
    },
    /// A device is being replaced.
    #[error("device {device} is being replaced: wait until that is done, or stop it")]
    Replacing {
        /// The index of that device.
        device: usize,
    },
    /// A device is gone.
    #[error("the volume is without device {device}: stop it, and repair it first (peryton re-add, or peryton replace)")]
    Gone {
        /// The index of the device.
        device: usize,
    },
    /// The volume was taken over with data.
    #[error(
        "the volume was taken over with data (peryton import), and part of one device lies on the other: give the disk back first \
         (peryton export), and import it again with the larger devices"
    )]
    Adopted,
    /// The placement has a log.
    #[error(
        "the devices of a volume with a log (placement.mode = \"logging\") cannot be resized, because the log's segments are numbered \
         by its length: make a new volume on the larger devices, and copy the data"
    )]
    Logging,
    /// Another device follows.
    #[error(
        "device {device} is followed by another one in the volume, whose data would get other addresses: grow the last device in \
         placement.devices"
    )]
    NotLast {
        /// The index of the device.
        device: usize,
    },
    /// The size is the present one.
    #[error("device {device} has {size} of data already{also}")]
    Same {
        /// The index of the device.
        device: usize,
        /// Its size.
        size: Bytes,
        /// What follows from that.
        also: &'static str,
    },
    /// It would become smaller, and is not a cache.
    #[error(
        "device {device} cannot become smaller than {size}: its data are part of the volume, which would lose its end{also}"
    )]
    NoCache {
        /// The index of the device.
        device: usize,
        /// Its size.
        size: Bytes,
        /// What could be done.
        also: &'static str,
    },
    /// The device itself is too small.
    #[error(
        "device {device} has {}, and the volume would use {} of it: make the device larger first (lvextend, a larger partition \
         or file), or give a smaller size",
        room.beside(*need), need.beside(*room)
    )]
    TooSmall {
        /// The index of the device.
        device: usize,
        /// Its size.
        room: Bytes,
        /// What the volume would use.
        need: Bytes,
    },
    /// The map would not fit.
    #[error(
        "with {size} of data on device {device} the map would be longer than the room for it, which formatting has fixed: at most {most}"
    )]
    MapTooLong {
        /// The index of the device.
        device: usize,
        /// What was asked for.
        size: Bytes,
        /// The largest size for which there is room.
        most: Bytes,
    },
    /// Blocks beyond the new end are lost, and only their place says so.
    #[error(
        "part of the volume is lost, and only the places that are to be given up say which: overwrite or discard it first (status has \
         the ranges)"
    )]
    Lost,
    /// The size cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// It has been done as often as the superblocks count.
    #[error("the volume was resized 4,294,967,295 times, and the superblocks do not count further")]
    TooOften,
    /// There is nothing that could be finished.
    #[error("no device is being resized, or something is under way")]
    NotReady,
}

/// What the format has fixed of a volume's layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    /// Number of spare extents.
    pub(crate) spare: u32,
    /// Where the metadata lie, if a device was resized.
    pub(crate) places: Option<Places>,
}

impl From<&Geometry> for Settled {
    fn from(geometry: &Geometry) -> Settled {
        let Geometry { spare, places, .. } = *geometry;
        Settled { spare, places }
    }
}
