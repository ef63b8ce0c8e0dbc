//! The live drive: the engine on real devices, as a block device over NBD or of this machine (ublk).
//!
//! One thread owns one volume: front end → engine → io_uring → engine → front end. [`Service`] is all of that, from a
//! [`VolumeSpec`] to a server. [`Volume`] is the part without threads, clock and sockets: an engine, the buffers that it
//! names, and any [`Backend`] that carries operations out.
//!
//! ```
//! use peryton_drive::{Action, Backend, Data, Memory, Operation, Volume};
//! use peryton_engine::{Config, DeviceId, Engine, IoId, Placement, Request, RequestId, Tuning};
//! use peryton_units::{Bytes, Nanos, Op};
//!
//! /// A device in memory, which carries every operation out at once.
//! struct Ram {
//!     bytes: Vec<u8>,
//!     done: Vec<IoId>,
//! }
//!
//! impl Backend for Ram {
//!     fn start(&mut self, Operation { io, action, at, len, memory, .. }: Operation) {
//!         let (place, len) = (at as usize..(at + len) as usize, len as usize);
//!         match action {
//!             // SAFETY: the memory is this operation's until it is reported complete.
//!             Action::Read => unsafe { memory.slice_mut(len) }.copy_from_slice(&self.bytes[place]),
//!             // SAFETY: as above.
//!             Action::Write => self.bytes[place].copy_from_slice(unsafe { memory.slice(len) }),
//!             Action::Zero | Action::ZeroAllocated => self.bytes[place].fill(0),
//!             Action::Flush | Action::Discard => {}
//!         }
//!         self.done.push(io);
//!     }
//!     fn standby(&mut self, _: DeviceId) {}
//! }
//!
//! let single = Placement::Single { device: DeviceId(0) };
//! let config = Config { devices: vec![Bytes::mib(1)], placement: single, tuning: Tuning::default() };
//! let engine = Engine::new(config)?;
//! // The volume's metadata come on top of its data.
//! let ram = Ram { bytes: vec![0; engine.device_bytes()[0].0 as usize], done: Vec::new() };
//! let mut volume = Volume::new(engine, ram, 0)?;
//!
//! let (mut from, mut into) = (*b"hybrid", *b"......");
//! for (op, data) in [(Op::Write, &mut from), (Op::Read, &mut into)] {
//!     // SAFETY: the data outlive the request, and nothing touches them before the reply.
//!     let memory = unsafe { Memory::of(data) };
//!     let request = Request { op, offset: Bytes(4096), len: Bytes(6) };
//!     volume.submit(Nanos::ZERO, RequestId(0), request, Data::At(memory));
//!     for io in std::mem::take(&mut volume.backend.done) {
//!         volume.complete(Nanos::ZERO, io, Ok(()));
//!     }
//!     assert_eq!(volume.replies().pop(), Some((RequestId(0), Ok(()))));
//! }
//! assert_eq!(&into, b"hybrid");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to find what
//!
//! - `serve`, `spec`, `listen`: from a description of a volume to its server. `server/` is the loop that owns it, [`Volume`] an engine
//!   with its buffers, and `disks/` operations of any alignment on devices of whole blocks.
//! - `nbd/` and `ublk/` are what clients speak, without I/O; `kernel/` is io_uring, or threads where it is refused.
//! - `open`, `probe`, `format`, `offline`, `storage`: a volume that is not served. `adopt`, `division`: a disk that had data.
//! - `shared_memory`, `own_directory`, `copies`: what outlives a server that is killed, and whether another one has the volume.
//! - `pool`, `arena`: memory for requests, with its bound. `health/`, `block/`: what drives and Linux say of devices.
//! - `wear`, `endurance`: what wears each device, and how much of its life that is.
//! - `control/`, `http/`, `metrics/`, `live/`, `events`, `status`, `figures`, `recorder/`: what others see of a volume.
//! - `notify`: signs of life for the program that watches this one.

#![warn(clippy::missing_errors_doc)]

mod adopt;
mod arena;
mod backend;
mod block;
mod clock;
pub mod control;
mod copies;
mod cpu_priority;
mod design_file;
mod direct;
mod disks;
mod division;
mod endurance;
mod events;
mod figures;
mod format;
mod health;
mod heat;
mod http;
mod kernel;
mod line_log;
mod listen;
mod live;
pub mod metrics;
mod multi_mount;
pub mod nbd;
mod notify;
mod offline;
mod open;
mod own_directory;
mod own_sizes;
mod pool;
mod probe;
mod random;
mod read_only;
mod recorder;
mod serve;
mod serve_error;
mod server;
mod shared_memory;
mod site;
mod spec;
mod status;
mod storage;
mod ublk;
mod volume;
mod wear;
mod written;

pub use adopt::{Adopted, Adopting, Displacement, adopt, undo_adoption};
pub use arena::Memory;
pub use backend::{Action, Backend, Operation};
pub use block::{Array, Beneath, DeviceAbout, Linux, Mirrored, PhysicalDrive, Protocol};
pub use cpu_priority::CpuPriority;
pub use design_file::DesignFile;
pub use direct::{Access, DirectDevice, MeasureError, device_about};
pub use disks::fault::{Effect, Fault, Only};
pub use endurance::SECONDS_NOT_COUNTED;
pub use events::{Event, What};
pub use format::{Made, MadeDevice, format};
pub use health::{DriveHealth, DrivePower, Estimates, PathHealth, Spoken, Warning};
pub use http::{Address, Http};
pub use line_log::LineLog;
pub use listen::{Endpoint, ListenError};
pub use multi_mount::HeldElsewhere;
pub use nbd::TlsFiles;
pub use notify::{Given, Keeper, Message, Notified, Notifier};
pub use offline::{Alone, OfflineError, detach, inspect, readmit, repair, replace, rescue};
pub use open::{Device, DeviceOpenError, DevicePath, Opening, Rights};
pub use own_sizes::{OwnSizes, evacuated, own_sizes};
pub use read_only::ReadOnly;
pub use recorder::{Record, RecordError};
pub use serve::{Service, Settings, Summary};
pub use serve_error::ServeError;
pub use server::{Handle, NewSize, Stoppable, Successor};
pub use shared_memory::ProcessDeath;
pub use site::LivePage;
pub use spec::{Tuner, VolumeSpec};
pub use status::{Kind, Traffic};
pub use ublk::{
    Ask, BlockDevice, Patience, ServerProcess, Supervision, Task, UblkError, UblkSettings, block_device, block_devices,
    prepare_process, remove_block_device,
};
pub use volume::{Data, Reply, RetuneError, TooMuchMemory, Volume};
