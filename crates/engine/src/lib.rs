//! The hybrid drive as a pure state machine: no I/O, no clock, no threads.
//!
//! A driver feeds an [`Engine`] host requests ([`Engine::submit`]), completions ([`Engine::complete`]) and the time
//! ([`Engine::tick`]), and carries out the [`Command`]s that come back. The engine never knows whether a completion
//! came from a device model or from a device: the simulator and the live drive run this very code.

mod admission;
mod arrangement;
mod climb;
mod command;
mod config;
pub mod endurance;
mod engine;
mod error;
mod extent_map;
mod free_map;
mod hybrid;
mod io;
mod journal;
mod ledger;
mod lifecycle;
mod linear;
mod location;
mod logging;
mod opened;
mod partition;
mod placement;
mod queues;
mod recent;
mod replacement;
mod responses;
mod slab;

pub use admission::AdaptiveView;
pub use climb::{Climb, ClimbView};
pub use command::{Buffer, Buffers, Cause, Command, Commands, DeviceId, IoId, Power, Request, RequestId};
pub use config::{
    AccessEnergy, Adaptive, Admission, AdmitBy, Config, Hybrid, MOST_MOVES, Objective, Placement, Replacement,
    Threshold, Tuning, WriteHits, WritePolicy,
};
pub use engine::Engine;
pub use error::{
    ConfigError, DetachError, DeviceError, DriverError, FormatError, OpenError, ReplaceError, RequestError, TuningError,
};
pub use ledger::{Cancelled, DeviceLedger, Ledger, LoggingLedger, Migrations, Moves, PartitionLedger};
pub use lifecycle::{
    CheckpointReport, CommitReport, Detached, DeviceReport, Inspection, Lost, Overlay, Sizes, SuperblockReport, Verdict,
};
pub use location::{Location, Losses, MapRow};
pub use logging::{AppendReport, IndexReport, LogRecord, LogReport, SegmentReport, WriteReport};
pub use logging::{Devices as Logging, LogCaching, LoggingTuning, MOST_GATHERED, READ_SAMPLE, Triggers};
pub use opened::{Formatting, Opened, Trust};
pub use partition::{Partition, Predict, Regulation, WearBudget};
#[cfg(feature = "mutants")]
pub use peryton_format::mutation;
pub use peryton_format::{
    storage::{METADATA_BLOCK, Storage},
    superblock::VolumeId,
};
pub use replacement::BareCache;
