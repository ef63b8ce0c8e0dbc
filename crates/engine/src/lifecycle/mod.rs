//! The lifecycle of a volume: format, open, recover, close, inspect, repair, replace, take back, evacuate, detach, take over a disk that has data; the fencing of a device;
//! and the drive that serves requests while the volume is open.
//!
//! `drive` has the order of the steps in a call, once for all placements. `volume` and `sizes` format, open and close.
//! `fencing` decides when a device is given up. `successor/` replaces a device in service, `resize/` changes its size, and `membership`
//! says which devices the volume has. `inspect`, `offline`, `rescue`, `replace`, `readmit`, `superblocks` and `adoption` work on a volume
//! that is not open.

pub mod adoption;
pub(crate) mod any;
mod drive;
mod fencing;
mod inspect;
mod membership;
mod offline;
mod readmit;
mod replace;
mod rescue;
mod resize;
mod sizes;
mod successor;
mod superblocks;
mod volume;

pub(crate) use any::{AnyDrive, with_drive};
pub use membership::Without;
pub(crate) use membership::{can_evacuate, can_take_in, leaving_tuning, open_again};
pub(crate) use readmit::can_take_back;
pub(crate) use resize::{plan::largest, switch::resize_now};
pub(crate) use volume::{Opening, format, open};

/// Volumes that are not open: they are inspected, repaired, detached, and get other devices.
pub mod closed {
    pub use super::{
        inspect::inspect,
        membership::evacuated,
        offline::{detach, repair},
        readmit::readmit,
        replace::{can_replace, replace, replaces_with_zeros},
        rescue::rescue,
        resize::in_force::sizes_in_force,
    };
}

pub use inspect::{
    CheckpointReport, CommitReport, DeviceReport, DisplacedReport, Inspection, Lost, Metadata, Overlay, SnapshotReport,
    SuperblockReport,
};
pub use offline::{Detached, Forgone};
pub use readmit::Readmitted;
pub use sizes::Sizes;
