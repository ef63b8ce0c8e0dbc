//! Why a volume cannot be served.

use std::{io, path::PathBuf};

use peryton_engine::DeviceError;
use peryton_units::Bytes;
use thiserror::Error;

use crate::{
    listen::ListenError,
    nbd::{ExportError, TlsError},
    open::DeviceOpenError,
    volume::RetuneError,
};

/// The smallest pool: a client may send requests of 32 MiB.
pub(crate) const SMALLEST_POOL: Bytes = Bytes::mib(8);

/// Why a volume cannot be served. One line each.
#[derive(Debug, Error)]
pub enum ServeError {
    /// A device.
    #[error(transparent)]
    Open(#[from] DeviceOpenError),
    /// A device is not there.
    #[error("{}: device '{name}' is not there: check the path, make it with peryton format, or do without what it has \
        (--without {name})", path.display())]
    Missing {
        /// The device.
        name: String,
        /// Where it should be.
        path: PathBuf,
    },
    /// A device is too small.
    #[error("{}: device '{name}' has {size}, the design needs {need} of it: change the design back, or give a larger one", path.display())]
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
    /// The engine refuses the design or the volume; with the devices' names.
    #[error("{0}")]
    Refused(String),
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
        /// How often.
        times: u64,
    },
    /// TCP without TLS.
    #[error("{0}: TCP is served with TLS only: give --tls-cert, --tls-key and --tls-ca, or the path of a unix socket")]
    Clear(String),
    /// An address.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// Certificates.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The volume is nothing that NBD can express.
    #[error(transparent)]
    Export(#[from] ExportError),
    /// Memory for moves.
    #[error(transparent)]
    Memory(#[from] RetuneError),
    /// The pool is too small.
    #[error("a pool of {0} is too small: give at least {SMALLEST_POOL}")]
    Pool(Bytes),
    /// The system says no.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What it says.
        source: io::Error,
    },
}
