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
//! A cache that loses power. An error would name the sector, what it holds, and what it could have held.
//! let options = Options { kind: Some(Kind::Caching), ..Options::default() };
//! let outcome = run(7, &options)?;
//! println!("{} power losses, {} sectors checked after them", outcome.crash_points, outcome.sectors);
//! assert!(outcome.crash_points > 0 && outcome.sectors > 0);
//! # Ok::<(), String>(())
//! ```
//!
//! The crate sees the engine only through its public interface. The files, from the bottom up: `disk` is the fake disk,
//! `model` computes what a correct disk could return, `drive` joins the engine and its disks, `design` draws designs,
//! `faults` and `deaths` hold what fails besides the power, and `world` holds the state of a run. `host` submits
//! requests and checks answers, `offline` changes the disks while the power is off, `power` cuts the power and
//! recovers, and `run` calls them in turn.

mod deaths;
mod design;
mod disk;
mod drive;
mod faults;
mod host;
mod model;
mod offline;
mod options;
mod power;
mod run;
mod torture;
mod world;

pub use design::Kind;
pub use options::{Options, Outcome};
pub use run::run;
pub use torture::{Torture, torture};
