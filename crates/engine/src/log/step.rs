//! The purpose of a command of a logging drive.

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
    /// A write, discard or zeroing on the primary for the host.
    Direct {
        op: u32,
    },
    /// A read of appends whose data is to be verified.
    Verify {
        slot: u32,
    },
    MigrationRead {
        chunk: u32,
    },
    /// A read of what completes the units of a run.
    MigrationRest {
        run: u32,
        rest: u32,
    },
    MigrationWrite {
        run: u32,
    },
    /// A command of the commit under way.
    Commit,
    /// A flush that shows whether a device whose last one failed is dead.
    Check,
}

impl io::Step for LogStep {
    #[inline]
    fn flushes_itself(&self) -> bool {
        // Commits use `flush_if_needed`, which has to see that the record is unflushed.
        false
    }

    fn is_metadata(&self) -> bool {
        matches!(self, LogStep::Commit | LogStep::Check)
    }

    fn is_encoded(&self) -> bool {
        matches!(self, LogStep::Commit | LogStep::Append { .. })
    }
}

/// The I/O state of a logging drive.
pub(crate) type LogIo = io::Io<LogStep>;
pub(crate) type LogCall<'a> = io::Call<'a, LogStep>;
pub(crate) type LogCommand = io::InFlight<LogStep>;
