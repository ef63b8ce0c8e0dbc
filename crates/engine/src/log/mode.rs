//! Which devices of a log are fenced, and what has happened since the last migration.

use peryton_units::Nanos;

/// What is known of a log that is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::log) struct LogFenced {
    pub(in crate::log) log: bool,
    /// The log was gone when the volume was opened, so that nothing says what it had.
    pub(in crate::log) log_is_unknown: bool,
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
