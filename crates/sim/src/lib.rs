//! Replays traces through the engine on device models.
//!
//! A [`Design`] is read from a design file; [`run`] replays a trace on one or several of them, in parallel, and makes a
//! [`Report`] of each. A run is a function of design, trace and options: the same input gives the same bytes.

mod array;
pub mod crash;
mod design;
mod document;
mod error;
mod feed;
mod ftl_bounds;
mod host_cache;
mod latency;
mod lifetime;
mod miniature;
mod observe;
mod options;
mod queue;
mod report;
mod run;
mod shared;
mod simulator;
mod touched;
mod warnings;

pub use design::{Design, DeviceDesign};
pub use error::{DesignError, SimError};
pub use ftl_bounds::{EraseSavings, FtlReport, WriteStream};
pub use latency::LatencySummary;
pub use miniature::{MOST_BLOCKS, MOST_SLOTS, Miniature, MiniatureError};
pub use observe::{Moment, Observer, run_observed};
pub use options::{Fit, Options, ParseReplayError, Replay};
/// What a log did; part of a [`Report`].
pub use peryton_engine::LoggingStats;
pub use report::{AdmissionReport, Cost, DeviceReport, Latency, MoveReport, PartitionReport, Report, VolumeReport};
pub use run::{Progress, TraceFactory, run, run_one};
pub use warnings::{Warned, Warning, warned};
