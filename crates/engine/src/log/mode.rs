//! Which devices of a log are fenced, and since when it has had something to migrate.

use peryton_units::Nanos;

/// Which device is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::log) struct LogFenced {
    pub(in crate::log) primary: bool,
    pub(in crate::log) log: bool,
}

impl LogFenced {
    #[inline]
    pub(in crate::log) fn any(self) -> bool {
        self.primary || self.log
    }

    /// Whether what has this place in the log, or none, cannot be read.
    #[inline]
    pub(in crate::log) fn has(self, place: Option<u64>) -> bool {
        if place.is_some() { self.log } else { self.primary }
    }
}

/// What made a migration start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Trigger {
    Timeout,
    ReadShare,
    Size,
    LogUsed,
    Hint,
}

/// What happened since the last migration started.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::log) struct Since {
    pub(in crate::log) started: Nanos,
    pub(in crate::log) reads: u64,
    pub(in crate::log) reads_from_log: u64,
    /// Not before this time, for the last one failed.
    pub(in crate::log) not_before: Nanos,
    /// Nothing in the log is older.
    pub(in crate::log) first_logged: Nanos,
}
