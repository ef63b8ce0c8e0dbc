//! The live drive: the engine on real devices, exported as a block device over NBD.
//!
//! One thread owns one volume: front end → engine → io_uring → engine → front end.

mod arena;
mod backend;
pub mod control;
mod cpu_latency;
mod disks;
mod events;
mod format;
mod kernel;
mod line_log;
mod listen;
pub mod nbd;
mod offline;
mod open;
mod pool;
mod probe;
mod serve;
mod server;
mod status;
mod storage;
mod volume;

pub use arena::Memory;
pub use backend::{Action, Backend, Operation};
pub use cpu_latency::CpuLatency;
pub use disks::fault::{Effect, Fault, Only};
pub use events::{Event, What};
pub use format::{Made, MadeDevice, MakeError, format};
pub use line_log::LineLog;
pub use listen::{Endpoint, ListenError};
pub use offline::{OfflineError, detach, inspect, repair, replace};
pub use open::{Device, DeviceOpenError, DevicePath, Opening};
pub use serve::{Handle, ServeError, Service, Settings, Summary, TlsFiles, Tuner, VolumeSpec};
pub use status::{Kind, Traffic};
pub use volume::{Data, Reply, RetuneError, TooMuchMemory, Volume};
