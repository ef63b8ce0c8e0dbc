//! All tests of the simulated power losses and device failures that use the crate from outside, as one program: it is linked once, and runs them side by side.
#![allow(clippy::unwrap_used)]

mod admission;
mod adopted;
mod bypass;
mod cleaning;
mod common;
mod crashing;
mod damaged_log;
mod device_death;
mod durable;
mod durable_logging;
mod every;
mod every_command;
mod every_write;
mod explored;
mod failed_flush;
mod full_device;
mod log_readmitted;
mod logging;
mod logging_wrong_data;
mod mechanisms;
mod parts;
mod power_loss;
mod process_death;
mod replaced;
mod resized;
mod returns;
mod shared_log;
mod succession;
mod units;
mod unwritable;
mod warm;
mod wrong_data;
