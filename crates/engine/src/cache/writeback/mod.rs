//! Cleaning (caching, write-back): dirty extents are written back in the background, each once however often it was written
//! (GreenDM, section 2.3: asynchronous and deduplicated), in the order of their origins, neighbours in one command.
//!
//! `urgency.rs` decides whether to clean now, and how much at a time; `selection.rs` passes the dirty extents in the order of
//! their origins and chooses some; `run.rs` writes neighbours back together; `dirtying.rs` decides which writes may make
//! another extent dirty; `failures.rs` says how long a device that fails is left alone; `units.rs` completes units of a slow device that
//! maps its data in large ones; `report.rs` says what is dirty and for how long.

mod dirtying;
mod failures;
mod report;
mod run;
mod selection;
mod units;
pub(in crate::cache) mod urgency;
