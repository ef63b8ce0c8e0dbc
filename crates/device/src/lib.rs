//! Models of disks and flash: service time, power states, wear; and the profiles of real devices as data.
//!
//! A [`Device`] is given a command and the time ([`Device::submit`]) and says when the command is done, either at once (models that
//! serve first-come) or later through an event ([`Device::next_event`], [`Device::advance`]) where the order of
//! service is decided after submission (disk scheduling, command queueing). It keeps no data, only time, energy and wear.
//!
//! ```
//! use peryton_device::{Accepted, Io, Profile, Tag};
//! use peryton_units::{Bytes, Nanos, Op};
//!
//! let profile = Profile::named("intel-320-300gb")?;
//! let mut ssd = profile.build(Some(Bytes::gib(1)), 1)?;
//! let mut now = Nanos::ZERO;
//! for block in 0..100 {
//!     let write = Io { op: Op::Write, at: Bytes::kib(4 * block), len: Bytes::kib(4) };
//!     // This model serves commands in order of arrival, so it knows each end at once.
//!     if let Accepted::At(end) = ssd.submit(now, Tag(0), write) {
//!         now = end;
//!     }
//! }
//! let stats = ssd.stats(now);
//! assert_eq!((stats.writes, stats.bytes_written), (100, Bytes::kib(400)));
//! assert!(now > Nanos::ZERO && stats.energy_j > 0.0);
//! # Ok::<(), peryton_device::ProfileError>(())
//! ```
//!
//! `disk/` has disks, `flash/` flash and its translation layers (`flash/layer.rs` lists them), `fixed` constant times. `profile` reads
//! the profiles, which are TOML in `profiles/`; `provenance` and `estimates` say where their values come from. `characterise` measures any
//! model, `validate/` compares models with measured traces, `measure/` measures a device, and `fit/` changes a profile until it is near.

#![warn(clippy::missing_errors_doc)]

mod characterise;
mod device;
pub mod disk;
mod era;
mod error;
mod estimates;
mod family;
pub mod fit;
pub mod fixed;
pub mod flash;
mod io;
mod kind;
pub mod measure;
mod meter;
mod nearest;
mod prices;
mod profile;
mod provenance;
mod stats;
pub mod validate;

pub use characterise::{AtWork, ClosedLoop, ModelFigures, Throughput, at_work, characterise, run};
pub use device::Device;
pub use disk::{Disk, DiskParameters};
pub use era::Era;
pub use error::{BuildError, ProfileError};
pub use estimates::OFF_BY;
pub use fixed::Fixed;
pub use flash::Flash;
pub use io::{Accepted, Io, PowerState, Tag};
pub use nearest::{explain_unknown_key, nearest};
pub use prices::{Price, PriceList, is_price};
pub use profile::{Class, DataSheet, Endurance, Model, Profile, WriteState};
pub use provenance::{Origin, Provenance, Sourced, Statement};
pub use stats::{DeviceStats, WearCounts};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
