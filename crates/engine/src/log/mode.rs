//! Which devices of a log are fenced, and what has happened since the last migration.

use peryton_units::Nanos;

/// Which of the two devices are gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::log) struct LogFenced {
    pub(in crate::log) primary: bool,
    pub(in crate::log) log: bool,
    /// The log was gone when the volume was opened, so that nothing says what it had.
    pub(in crate::log) log_is_unknown: bool,
}

impl LogFenced {
    #[inline]
    pub(in crate::log) fn any(self) -> bool {
        self.primary || self.log
    }

    /// Whether data at this place in the log, or on the primary if `None`, is on a device that is gone.
    #[inline]
    pub(in crate::log) fn has(self, place: Option<u64>) -> bool {
        if place.is_some() { self.log } else { self.primary }
    }
}

/// The reason why a migration started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::log) enum Trigger {
    Timeout,
    ReadShare,
    Size,
    LogUsed,
    Hint,
}

/// What happened since the last migration started; the triggers read it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::log) struct Since {
    pub(in crate::log) started: Nanos,
    pub(in crate::log) reads: u64,
    pub(in crate::log) reads_from_log: u64,
    /// No migration starts before this time because the last one failed.
    pub(in crate::log) not_before: Nanos,
    /// Nothing in the log is older than this.
    pub(in crate::log) first_logged: Nanos,
}
