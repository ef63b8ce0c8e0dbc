//! The policies of a hybrid drive: numbers and ids in, decisions out.
//!
//! The crate decides which extent leaves the fast device ([`replacement`]), which misses may enter it ([`admission`]),
//! which settings do better ([`hill_climbing`]), and where a write is answered sooner without wearing the flash out too
//! soon ([`partition`]). It has no map, device or command: extents and slots are numbers, time is passed as `now`, and
//! the same input gives the same decisions. `peryton-engine` applies the policies to devices; this crate can be used
//! alone.
//!
//! # Examples
//!
//! Miss ratios of two replacement policies, over ids that are drawn as by Zipf's law:
//!
//! ```
//! use peryton_policy::{BareCache, Replacement};
//! use peryton_units::Nanos;
//!
//! let miss_ratio = |policy| {
//!     let (mut cache, mut draws, mut misses) = (BareCache::new(policy, 1000, Nanos::from_s(60)), 1u64, 0);
//!     for step in 0..100_000 {
//!         draws = draws.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
//!         let uniform = (draws >> 11) as f64 / (1u64 << 53) as f64;
//!         let id = 50_000f64.powf(uniform) as u32; // P(id) ~ 1 / id
//!         misses += u32::from(!cache.access(Nanos::from_ms(step), id));
//!     }
//!     f64::from(misses) / 100_000.0
//! };
//! let (lru, s3fifo) = (miss_ratio(Replacement::Lru), miss_ratio("s3fifo".parse().expect("it is known")));
//! assert!(s3fifo < lru && lru < 0.5, "S3-FIFO misses {s3fifo:.3} of all accesses, LRU {lru:.3}");
//! ```

#[macro_use]
mod names;
#[macro_use]
mod parameters;
pub mod admission;
mod error;
mod extent_table;
mod frequencies;
mod ghosts;
pub mod hill_climbing;
mod members;
pub mod partition;
mod per_slot;
mod queues;
mod ranks;
mod recent;
pub mod replacement;
mod response_times;
pub mod saving;
mod search;

pub use admission::{AccessEnergy, Adaptive, AdaptiveView, Admission, AdmitBy, Gate, Objective, Threshold, WriteHits};
pub use error::SettingError;
pub use extent_table::ExtentTable;
pub use ghosts::Ghosts;
pub use hill_climbing::{Climb, ClimbView};
pub use parameters::{Millionths, Parameter};
pub use partition::{Partition, PartitionStats, Predict, Regulation, WearBudget};
pub use per_slot::PerSlot;
pub use queues::Queues;
pub use ranks::Ranks;
pub use recent::Recent;
pub use replacement::{BareCache, BuiltInPolicy, Replacement, ReplacementPolicy};
pub use response_times::ResponseTimes;

/// Compiles and runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
