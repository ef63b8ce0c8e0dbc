//! The hybrid drive as a pure state machine: no I/O, no clock, no threads.
//!
//! A driver feeds an [`Engine`] host requests ([`Engine::submit`]), completions ([`Engine::complete`]) and the time
//! ([`Engine::tick`]), and carries out the [`Command`]s that come back. The engine never knows whether a completion
//! came from a device model or from a device: the simulator and the live drive run this very code.

mod admission;
mod arrangement;
mod climb;
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
mod partition;
mod queues;
mod recent;
mod recovery;
mod replace;
mod replacement;
mod responses;
mod slab;
mod volume;

pub use admission::AdaptiveView;
pub use climb::{Climb, ClimbView};
pub use command::{Buffer, Buffers, Cause, Command, Commands, DeviceId, IoId, Power, Request, RequestId};
pub use config::{
    AccessEnergy, Adaptive, Admission, AdmitBy, Config, Hybrid, MOST_MOVES, Objective, Placement, Replacement,
    Threshold, Tuning, WriteHits, WritePolicy,
};
pub use engine::{Engine, Sizes, Whereabouts};
pub use error::{
    ConfigError, DetachError, DeviceError, FormatError, OpenError, ReplaceError, RequestError, TuningError,
};
pub use failure::Losses;
pub use inspect::{
    CheckpointReport, CommitReport, DeviceReport, Inspection, Lost, MapRow, Overlay, SuperblockReport, Verdict,
};
pub use ledger::{Cancelled, DeviceLedger, Ledger, LoggingLedger, Migrations, Moves, PartitionLedger};
pub use logging::{AppendReport, IndexReport, LogRecord, LogReport, SegmentReport, WriteReport};
pub use logging::{Devices as Logging, LogCaching, LoggingTuning, MOST_GATHERED, READ_SAMPLE, Triggers};
pub use offline::Detached;
pub use partition::{Partition, Predict, Regulation, WearBudget};
#[cfg(feature = "mutants")]
pub use peryton_format::mutation;
pub use peryton_format::{
    storage::{METADATA_BLOCK, Storage},
    superblock::VolumeId,
};
pub use replacement::BareCache;
pub use volume::{Formatting, Opened, Trust};
