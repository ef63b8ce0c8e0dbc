//! The health, the wear, the rest and the power of the drives beneath a volume, read from the drives themselves and from Linux.
//!
//! Drives answer when they want to, so nothing here runs on the thread that owns the volume: each drive has a thread of its own
//! (`watch.rs`), and the others copy what it has put into a table (`table.rs`).

mod ata;
mod judge;
mod nvme;
mod reading;
mod report;
mod scsi;
mod table;
mod transport;
mod watch;

pub use self::{
    reading::PathHealth,
    report::{DriveHealth, DrivePower, Estimates, Spoken, Warning},
};
pub(crate) use self::{
    table::{DriveRow, Table},
    watch::{News, Watch},
};
