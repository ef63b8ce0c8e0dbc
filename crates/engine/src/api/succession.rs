//! How far a device is replaced while the volume is served.

use std::ops::Range;

use peryton_units::{Bytes, Nanos};
use thiserror::Error;

use crate::api::command::DeviceId;

/// How a device is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SuccessionPlan {
    /// The device that is replaced.
    pub device: DeviceId,
    /// The size of the new one.
    pub size: Bytes,
    /// The most bytes that are copied in a second; zero: no bound.
    pub rate: Bytes,
    /// Whether what cannot be read from the old device may read as zeros from the new one.
    pub accept_loss: bool,
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessionStage {
    /// The old device is copied.
    Copying,
    /// Everything else is copied; what cannot be read is tried again from time to time.
    Unreadable,
    /// Everything is copied. [`Engine::succeed`](crate::Engine::succeed) puts the new device in charge.
    Copied,
    /// The new device is being put in charge.
    Succeeding,
    /// It is over, but for commands in flight.
    Ending,
}

impl SuccessionStage {
    /// The stage in a word.
    pub fn name(self) -> &'static str {
        match self {
            SuccessionStage::Copying => "copying",
            SuccessionStage::Unreadable => "unreadable",
            SuccessionStage::Copied => "copied",
            SuccessionStage::Succeeding => "succeeding",
            SuccessionStage::Ending => "ending",
        }
    }
}

/// How far a device is replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Succession {
    /// What was asked for.
    pub plan: SuccessionPlan,
    /// What is being done.
    pub stage: SuccessionStage,
    /// How much there is to copy.
    pub total: Bytes,
    /// How much of it the new device has. It falls when what was copied has to be copied again.
    pub copied: Bytes,
    /// How much was copied in all, again or not.
    pub done: Bytes,
    /// How much cannot be read from the old device.
    pub unreadable: Bytes,
    /// Where that is on the device; at most as many ranges as were asked for.
    pub ranges: Vec<Range<Bytes>>,
    /// For how long the device has been copied.
    pub took: Nanos,
}

impl Succession {
    /// How long copying the rest will take at the rate so far; `None` as long as that is not known.
    pub fn left(&self) -> Option<Nanos> {
        let left = u128::from((self.total - self.copied.min(self.total)).0);
        let took = u128::from(self.took.0) * left / u128::from(self.done.0.max(1));
        (self.done > Bytes::ZERO).then(|| Nanos(u64::try_from(took).unwrap_or(u64::MAX)))
    }
}

/// How the replacement of a device came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuccessionEnd {
    /// The new device is part of the volume, and the old one is not.
    Succeeded,
    /// It was stopped. The old device is part of the volume as before; so it is in the following cases.
    Stopped,
    /// The new device has failed too many commands, or a flush.
    SuccessorFailed,
    /// A device of the volume was given up.
    DeviceGone,
    /// A device of the volume takes no writes, so that it cannot record which device is in charge.
    DeviceRefuses,
}

/// Why a device cannot be replaced while the volume is served.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum SuccessionError {
    /// There is no such device.
    #[error("there is no device {device}")]
    Unknown {
        /// The index of the device.
        device: usize,
    },
    /// Another device is being replaced.
    #[error("device {device} is being replaced: wait until that is done, or stop it")]
    Busy {
        /// The index of that device.
        device: usize,
    },
    /// A device is being resized.
    #[error("a device is being grown or shrunk: wait until that is done, or stop it")]
    Resizing,
    /// There is nothing that could record which device is in charge.
    #[error(
        "the volume has one device, and no other would record which of the two is part of it: stop the volume, copy the device, and set \
         its path to the copy"
    )]
    Alone,
    /// A device is gone.
    #[error("the volume is without device {device}: stop it, and repair it first (peryton re-add, or peryton replace)")]
    Gone {
        /// The index of the device.
        device: usize,
    },
    /// The volume was taken over with data.
    #[error(
        "the volume was taken over with data (peryton import), and part of one device lies on the other: give the disk back first \
         (peryton export), and import it again with the new device"
    )]
    Adopted,
    /// The new device is too small.
    #[error("the new device has {}, and the volume uses {} of device {device}: give a larger one",
        size.beside(*need), need.beside(*size))]
    TooSmall {
        /// The index of the device.
        device: usize,
        /// The size of the new one.
        size: Bytes,
        /// The least size that is needed.
        need: Bytes,
    },
    /// The count in the superblocks is at its end.
    #[error(
        "device {device} was replaced 254 times while the volume was served, and the superblocks do not count further"
    )]
    TooOften {
        /// The index of the device.
        device: usize,
    },
    /// There is nothing to put in charge.
    #[error("no device is being replaced, or not everything is copied")]
    NotCopied,
}
