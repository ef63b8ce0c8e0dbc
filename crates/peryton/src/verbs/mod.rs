//! The verbs. Each file contains a verb's options (`Args`) and its function (`run`), which `cli.rs` calls.

pub mod check;
pub mod clean;
pub mod completions;
pub mod detach;
pub mod devices;
pub mod dump;
pub mod events;
pub mod format;
#[cfg(feature = "plan")]
pub mod greenest;
#[cfg(feature = "plan")]
pub mod lifetime;
pub mod man;
#[cfg(feature = "plan")]
pub mod plan;
pub mod readmit;
pub mod repair;
pub mod serve;
pub mod set;
pub mod sim;
pub mod status;
pub mod supervise;
pub mod trace;
#[cfg(feature = "plan")]
pub mod tune;
pub mod ublk;
