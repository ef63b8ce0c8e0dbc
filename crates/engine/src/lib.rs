//! The hybrid drive as a pure state machine: no I/O, no clock, no threads.
//!
//! A driver feeds an [`Engine`] host requests ([`Engine::submit`]), completions ([`Engine::complete`]) and the time
//! ([`Engine::tick`]), and carries out the [`Command`]s that come back. The engine never knows whether a completion
//! came from a device model or from a device: the simulator and the live drive run this very code.

mod arrangement;
mod command;
mod commit;
mod config;
mod core;
pub mod endurance;
mod engine;
mod error;
mod extent_map;
mod failure;
mod free_map;
mod hybrid;
mod inspect;
mod ledger;
mod linear;
mod logging;
mod offline;
mod recovery;
mod replace;
mod slab;
mod tuner;
mod volume;

pub use command::{Buffer, Buffers, Cause, Command, Commands, DeviceId, IoId, Power, Request, RequestId};
pub use config::{Config, Hybrid, MOST_MOVES, Placement, Tuning, WritePolicy};
pub use engine::{Engine, Sizes, Whereabouts};
pub use error::{
    ConfigError, DetachError, DeviceError, FormatError, OpenError, ReplaceError, RequestError, TuningError,
};
pub use failure::Losses;
pub use inspect::{
    CheckpointReport, CommitReport, DeviceReport, Inspection, Lost, MapRow, Overlay, SuperblockReport, Verdict,
};
pub use ledger::{Cancelled, DeviceLedger, Ledger, LoggingLedger, Migrations, Moves};
pub use logging::{AppendReport, IndexReport, LogRecord, LogReport, SegmentReport, WriteReport};
pub use logging::{Devices as Logging, LogCaching, LoggingTuning, MOST_GATHERED, READ_SAMPLE, Triggers};
pub use offline::Detached;
#[cfg(feature = "mutants")]
pub use peryton_format::mutation;
pub use peryton_format::{
    storage::{METADATA_BLOCK, Storage},
    superblock::VolumeId,
};
pub use peryton_policy::{
    AccessEnergy, Adaptive, AdaptiveView, Admission, AdmitBy, BareCache, Climb, ClimbView, Objective, Partition,
    PartitionStats, Predict, Regulation, Replacement, Threshold, WearBudget, WriteHits,
};
pub use volume::{Formatting, Opened, Trust};
