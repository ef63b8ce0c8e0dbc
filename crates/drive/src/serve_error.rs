//! Why a volume cannot be served.

use std::{io, path::PathBuf};

use peryton_engine::DeviceError;
use peryton_units::Bytes;
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

/// The smallest pool: a client may send requests of 32 MiB.
pub(crate) const SMALLEST_POOL: Bytes = Bytes::mib(8);

/// Why a volume cannot be served. One line each.
#[derive(Debug, Error)]
pub enum ServeError {
    /// A device cannot be opened.
    #[error(transparent)]
    Open(#[from] DeviceOpenError),
    /// A device does not exist.
    #[error("{}: device '{name}' is not there: attach it, or name it or a copy of it in the design, or do without what only it \
        has (--without {name}), and put an empty one in its place (peryton replace); peryton create makes a new volume", path.display())]
    Missing {
        /// The device.
        name: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// Something else is at a device's path.
    #[error("{}: device '{name}' has {size} and no superblock of a volume: it is another device, or an empty file; name the device, or a \
        copy of it, or do without what it has (--without {name})", path.display())]
    StandIn {
        /// The device.
        name: String,
        /// Where.
        path: PathBuf,
        /// What is there.
        size: Bytes,
    },
    /// A device is too small.
    #[error("{}: device '{name}' has {}, the design needs {} of it: change the design back, or give a larger one", path.display(),
        size.beside(*need), need.beside(*size))]
    TooSmall {
        /// The device.
        name: String,
        /// Where.
        path: PathBuf,
        /// What it has.
        size: Bytes,
        /// What is needed.
        need: Bytes,
    },
    /// The engine refuses the design or the volume. The message has the devices' names.
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
    /// A TCP address without TLS.
    #[error("{0}: TCP is served with TLS only: give --tls-cert, --tls-key and --tls-ca, or the path of a unix socket")]
    Clear(String),
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
    /// The pool is too small.
    #[error("a pool of {0} is too small: give at least {SMALLEST_POOL}")]
    Pool(Bytes),
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
