//! Replays traces through the engine on device models.
//!
//! A [`Design`] is read from a design file. [`run`] replays a trace on one or several of them, in parallel, and makes a
//! [`Report`] of each. A run is a function of design, trace and options: the same input gives the same bytes.
//!
//! From a trace to a report:
//!
//! ```
//! use peryton_sim::{Design, Fit, Options, run_one};
//! use peryton_trace::{OpenOptions, open};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let design = "[devices]\n\
//!               ssd = { profile = 'intel-320-300gb', size = '16MiB' }\n\
//!               hdd = { profile = 'seagate-st32000641as', size = '256MiB' }\n\
//!               [placement]\n\
//!               mode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '16KiB'\npromotion = { threshold = 0 }\n";
//! let design = Design::parse(design, "my design", &[])?;
//! let trace = open("../../examples/traces/sqlite-ext4.parquet", &OpenOptions::default())?;
//! let options = Options { fit: Fit::Wrap, ..Options::default() };
//! let report = run_one(&design, "sqlite", Box::new(trace), &options, &|_requests_so_far| {})?;
//! println!("{} requests, {:?} of the accesses were hits", report.requests, report.fast_hit_ratio);
//! # assert!(report.requests > 1_000 && report.fast_hit_ratio > Some(0.1));
//! # Ok(())
//! # }
//! ```
//!
//! The event loop (`simulator`) drives one engine, or several that share a device: each volume of a drive is an engine
//! with devices of its own, and may have a region of a device that other volumes use as well (`machine`). Device models
//! report when a command ends, immediately or later (`array` makes one device of several: striped, mirrored or with `parity`). [`run_observed`] passes
//! all inputs and outputs of the engine to an observer, so that a live drive can repeat them. [`Miniature`] makes
//! miss-ratio curves without a drive.
//!
//! `design/` reads and writes design files. `simulator` is the event loop, and `request_source`, `outcome` and `observe` what goes in and
//! comes out. `page_cache/` and `host_cache` lie above the drive, `array`, `parity` and `redundancy` between it and the models. `report` and its
//! kin make reports of the outcome, `warnings` says why they mislead, and `lifetime` computes lifetimes with their intervals. `curves`,
//! `miniature` and `future` make miss-ratio curves, `each_volume` takes the volumes of a trace alone, `sampling/` simulates samples, and `sweep` and `space/` many points. `as_recorded`
//! begins a run in the state of a drive in service.

mod admission_report;
mod array;
mod array_report;
mod as_recorded;
mod blocks;
mod build_identity;
mod columns;
mod comment;
mod course;
mod curve_policy;
mod curves;
mod design;
mod document;
mod each_volume;
mod error;
mod extent_curve;
mod ftl_bounds;
mod future;
mod host_cache;
mod interval_report;
mod intervals;
mod key_values;
mod latency;
mod latency_report;
mod lifetime;
mod lifetime_interval;
mod machine;
mod members;
mod miniature;
mod nested;
mod nested_report;
mod observe;
mod off_estimate;
mod options;
mod outcome;
mod page_cache;
mod parity;
#[cfg(feature = "parquet")]
mod parquet_table;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet_table.rs"]
mod parquet_table;
mod parts;
mod picture;
mod precision;
mod queue;
mod redundancy;
mod report;
mod report_schema;
mod request_source;
mod run;
pub mod sampling;
mod sensitivity;
mod shared_drive;
mod simulator;
mod space;
mod sweep;
mod tables;
mod together;
mod touched;
mod use_map;
mod volume_report;
mod warnings;
mod wear_parts;

pub use admission_report::AdmissionReport;
pub use array_report::ArrayReport;
pub use as_recorded::{AsRecorded, OpenedState};
pub use blocks::CacheUnit;
pub use build_identity::{Build, build, built_as};
pub use columns::{Column, Columns};
pub use curve_policy::CurvePolicy;
pub use curves::{CurveInterval, CurveOrigin, CurveRow, CurveSizes, Curves, MOST_POINTS};
pub use design::{
    Design, DesignKey, DesignText, DeviceDesign, DevicePlace, Formatted, InService, KeptInMemory, KeyDefault, Load,
    MAP_MEMORY, MAP_SHARE, ModelKey, NewDesign, NewDevice, PageCacheDesign, Stream, chosen_extent, chosen_extents,
    design_keys, is_design_key, kept_free, map_budget, map_memory, model_keys, nearest_design_key,
};
pub use each_volume::run_each_volume;
pub use error::{DesignError, SimError};
pub use extent_curve::extent_curve;
pub use ftl_bounds::{EraseSavings, FtlReport, WriteStream};
pub use interval_report::{DeviceInterval, IntervalLog, IntervalMoves, IntervalReport};
pub use intervals::MOST_ROWS;
pub use key_values::{KeyValues, override_text};
pub use latency::{LatencyHistogram, LatencySummary};
pub use latency_report::{Latency, LatencyHistograms};
pub use lifetime_interval::{LEAST_PARTS, LifetimeInterval};
pub use miniature::{MOST_ACCESSES, MOST_BLOCKS, MOST_SLOTS, Miniature, MiniatureError, Missed, Simulation};
pub use nested_report::NestedReport;
pub use observe::{Moment, Observer};
pub use off_estimate::{MainFigures, OffEstimate};
pub use options::{Fit, Options, ParseReplayError, Replay, Think};
pub use page_cache::{PageCacheReport, WrittenBackBy};
/// The statistics of a log; part of a [`Report`].
pub use peryton_engine::LoggingStats;
pub use picture::Picture;
pub use precision::{Estimate, Precision};
pub use redundancy::{ParseRedundancyError, Redundancy};
pub use report::{Cost, DeviceReport, MoveReport, PartitionReport, Report};
pub use report_schema::{report_schema, reports_schema, schema_of};
pub use run::{Progress, TraceFactory, run, run_as_recorded, run_observed, run_one, with_shared_images};
pub use sampling::{ParseSamplingError, SampleFigure, SampleReport, Sampling};
pub use sensitivity::{Sensitivity, SimulationsDone, Subject, Swing, sensitivity};
pub use shared_drive::{MOST_SHARING, SharedReport, SharedVolume, Sharing, run_shared};
pub use space::{
    Axis, DataSet, MOST_POINTS as MOST_SWEEP_POINTS, Point, PointTrace, Prepared, Row, Scale as AxisScale, Space,
    SpaceError, SweepDone, SweepProgress, Unit as AxisUnit, Values, file_hash, sweep_into,
};
pub use sweep::{SweepError, Swept, sweep};
pub use tables::{TableError, TableFolder};
pub use use_map::{MoveMap, UseMap};
pub use volume_report::VolumeReport;
pub use warnings::{Warned, Warning, warned};

/// The example of the README is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
