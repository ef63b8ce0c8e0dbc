//! Planning before a purchase: the cheapest devices that meet budgets ([`capacity`]), the lifetime of an array of
//! unlike drives ([`lifetime`]), the drives that need the least energy or money for a workload ([`energy`]), better
//! settings for a design ([`tune`]), and how large its fast device should be ([`size`]).
//!
//! ```
//! use peryton_plan::lifetime::Array;
//!
//! let text = "
//!     [workload]
//!     read = '10MB'
//!     write = '10MB'
//!     read_hit = 0.5
//!     write_hit = 0.5
//!     dirty = 0.5
//!     [cache]
//!     profile = 'mixed-array-high-end-100gb'
//!     count = 2
//!     [storage]
//!     profile = 'mixed-array-low-end-200gb'
//!     count = 4";
//! let life = Array::parse(text, "example", &toml::Table::new())?.lifetime()?;
//! let years = life.lifetime_years.expect("something is written");
//! assert!(years > 1.0 && life.mean_latency_ms > 0.0);
//! # Ok::<(), peryton_plan::lifetime::LifetimeError>(())
//! ```

#![warn(clippy::missing_errors_doc)]

pub mod capacity;
pub mod constraint;
pub mod energy;
pub mod evaluate;
pub mod fleet;
pub mod lifetime;
pub mod metric;
mod share;
pub mod size;
pub mod tune;

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
