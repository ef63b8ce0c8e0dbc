//! Models of disks and flash: service time, power states, wear; and the profiles of real devices as data.
//!
//! A [`Device`] is told what to do and when ([`Device::submit`]) and says when it is done, either at once (models that
//! serve first-come) or later through an event ([`Device::next_event`], [`Device::advance`]) where the order of
//! service is decided after submission (disk scheduling, command queueing). It keeps no data, only time, energy and wear.

mod characterise;
mod device;
pub mod disk;
mod error;
pub mod fixed;
pub mod flash;
mod io;
mod meter;
mod nearest;
mod profile;
mod stats;
pub mod validate;

pub use characterise::{AtWork, Measured, Throughput, Workload, at_work, characterise, run};
pub use device::Device;
pub use disk::{Disk, DiskParameters};
pub use error::{BuildError, ProfileError};
pub use fixed::Fixed;
pub use flash::Flash;
pub use io::{Accepted, Io, PowerState, Tag};
pub use nearest::{explain_unknown_key, nearest};
pub use profile::{Class, DataSheet, Endurance, Model, Profile, WriteState};
pub use stats::DeviceStats;
