//! Why a volume cannot be served.

use std::{io, path::PathBuf};

use peryton_engine::DeviceError;
use thiserror::Error;

use crate::{
    listen::ListenError,
    multi_mount::HeldElsewhere,
    nbd::{ExportError, TlsError},
    open::DeviceOpenError,
    read_only::ReadOnly,
    recorder::RecordError,
    ublk::UblkError,
    volume::RetuneError,
};

/// Why a volume cannot be served. One line each.
#[derive(Debug, Error)]
pub enum ServeError {
    /// A device cannot be opened.
    #[error(transparent)]
    Open(#[from] DeviceOpenError),
    /// A device is not there or too small, the pool is, or the engine refuses the design or the volume. The message has the devices' names.
    #[error("{0}")]
    Refused(String),
    /// A device takes reads and refuses writes.
    #[error("{}", .0.why)]
    Unwritable(ReadOnly),
    /// Another server has the volume.
    #[error(transparent)]
    HeldElsewhere(#[from] HeldElsewhere),
    /// The volume was not closed in good order.
    #[error("the volume could not be closed in good order ({0}): it will be recovered when it is opened next")]
    Close(#[from] DeviceError),
    /// A flush failed while the volume was served.
    #[error("{}: device '{name}' failed to flush {times} times: what was written before may be lost, so the volume is not \
        closed in good order and will be recovered when it is opened next", path.display())]
    InDoubt {
        /// The device.
        name: String,
        /// Where.
        path: PathBuf,
        /// How many flushes failed.
        times: u64,
    },
    /// A device was in an outage when the volume was to be closed.
    #[error("{}: device '{name}' fails ({error}) and did not come back in time, so the volume is not closed in good order \
        and will be recovered when it is opened next", path.display())]
    Outage {
        /// The device.
        name: String,
        /// Where.
        path: PathBuf,
        /// In the system's words.
        error: String,
    },
    /// The address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The certificates cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// NBD cannot express the volume.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// The buffers for moves cannot be provided.
    #[error(transparent)]
    Memory(#[from] RetuneError),
    /// The volume cannot be a block device of this machine.
    #[error("{0}{way}", way = if .0.is_of_the_machine() { "; NBD works without it (leave out --ublk, and use nbd-client)" } else { "" })]
    Ublk(#[from] UblkError),
    /// Nothing can be recorded there.
    #[error(transparent)]
    Record(#[from] RecordError),
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// The operation that failed.
        what: &'static str,
        /// What it says.
        source: io::Error,
    },
}
