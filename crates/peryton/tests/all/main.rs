//! All tests of the program that run it, as one program: it is linked once, and runs them side by side.
#![allow(missing_docs, clippy::unwrap_used)]

mod adopted;
mod block_device;
mod calibrate;
mod calibrate_fio;
mod changed_devices;
mod common;
mod completions;
mod distributions;
mod endurance;
mod every_step_of_a_change;
mod every_write_on_files;
mod fleet;
mod interposed;
mod keys;
mod live;
mod live_page;
mod man;
mod map;
mod metrics;
mod names;
mod new_volume;
mod notify;
mod one_design;
mod output;
mod own_sizes;
mod pages;
mod plan;
#[cfg(feature = "parquet")]
mod planner;
mod profiles;
mod replaced;
mod same_decisions;
mod schema;
mod serve_faults;
#[path = "../../../drive/tests/all/served/mod.rs"]
mod served;
mod serving;
mod sim;
#[cfg(feature = "parquet")]
mod size;
mod sweep;
#[cfg(feature = "parquet")]
mod sweep_space;
#[cfg(feature = "parquet")]
mod tables;
mod terminal_tables;
mod top;
#[cfg(all(feature = "compression", feature = "parquet"))]
mod trace;
mod tune;
mod twin;
mod units;
