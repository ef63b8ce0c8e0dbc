//! Simulated power losses. The engine runs on fake disks that lose, keep or tear unflushed writes, and every read is
//! checked against what a correct disk could return.
//!
//! A seed decides everything about a run: the design, the requests, the order in which commands complete, what fails, and
//! when the power goes. The same seed is the same run on any machine. [`run`] runs one seed; [`torture`] runs many, on all
//! processors.
//!
//! ```
//! use peryton_crash::{Kind, Options, run};
//!
//! // A cache that loses power. An error would name the sector, what it holds, and what it could have held.
//! let options = Options { kind: Some(Kind::Caching), ..Options::default() };
//! let outcome = run(7, &options)?;
//! println!("{} power losses, {} sectors checked after them", outcome.crash_points, outcome.sectors);
//! assert!(outcome.crash_points > 0 && outcome.sectors > 0);
//! # Ok::<(), String>(())
//! ```
//!
//! The crate sees the engine only through its public face. The files, from the bottom up: `disk` is the fake disk, `model`
//! says what a correct disk could return, [`Driver`] carries out the engine's commands on fake disks of any kind, `drive` does
//! so on those that lose power, `design` draws designs, `faults` and `deaths` hold the faults besides power losses, and `world`
//! holds the state of a run. `host` submits requests and checks the answers, `offline` and `snapshots` act while the power is off, `power`
//! cuts the power and recovers, and `run` does these in order.

mod deaths;
mod design;
mod disk;
mod drive;
mod driver;
mod ends;
mod explore;
mod faults;
mod host;
mod lost;
mod memory;
mod model;
mod offline;
mod options;
mod power;
mod resizing;
mod returns;
mod run;
mod scenario;
mod snapshots;
mod succession;
mod torture;
mod world;

pub use design::{Kind, placement_on, random_tuning};
pub use drive::commit_numbers;
pub use driver::{Answer, Asked, Disks, Driver, Effect, Pending};
pub use ends::Ends;
pub use explore::{Case, Depth, Explored, Happening, explore, explore_case, tell};
pub use memory::Memory;
pub use options::{Failing, Options, Outcome};
pub use run::run;
pub use scenario::Scenario;
pub use torture::{Torture, torture};

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
