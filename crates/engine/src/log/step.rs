//! What a command of a logging drive is part of.

use crate::io::{self, RequestIndex};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogStep {
    /// A read of the primary for the host.
    Host {
        request: RequestIndex,
    },
    /// A read of the log for the host.
    Read {
        request: RequestIndex,
        segment: u32,
    },
    /// A group of appends.
    Append {
        group: u32,
    },
    /// A write or discard on the primary.
    Direct {
        op: u32,
    },
    MigrationRead {
        chunk: u32,
    },
    MigrationWrite {
        run: u32,
    },
    /// A step of the commit in flight.
    Commit,
}

impl io::Step for LogStep {
    #[inline]
    fn flushes_itself(&self) -> bool {
        // The flush after the record is one that is made if it is needed.
        false
    }

    fn is_metadata(&self) -> bool {
        matches!(self, LogStep::Commit)
    }

    fn is_encoded(&self) -> bool {
        matches!(self, LogStep::Commit | LogStep::Append { .. })
    }
}

/// What such a drive needs of the devices.
pub(crate) type LogIo = io::Io<LogStep>;
pub(crate) type LogCommand = io::InFlight<LogStep>;
