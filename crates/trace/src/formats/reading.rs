//! The options of readers, and the trait of readers.

use super::block_event::BlockEvent;
use crate::{
    TraceError,
    decode::{Decode, LineFormat, Lines, RecordFormat, Records},
    input::Input,
};

/// A unit of time in a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeUnit {
    /// ns
    Nanoseconds,
    /// µs
    Microseconds,
    /// ms
    Milliseconds,
    /// s
    Seconds,
}

impl TimeUnit {
    /// Its length in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        match self {
            TimeUnit::Nanoseconds => 1,
            TimeUnit::Microseconds => 1_000,
            TimeUnit::Milliseconds => 1_000_000,
            TimeUnit::Seconds => 1_000_000_000,
        }
    }
}

/// The part of [`OpenOptions`](crate::OpenOptions) that concerns the reader of a format.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReadOptions {
    pub(crate) skip_bad: bool,
    pub(crate) event: Option<BlockEvent>,
    pub(crate) time_unit: Option<TimeUnit>,
}

/// A reader, or the reason why the trace cannot be read in the given format.
pub(crate) type Opened = Result<Box<dyn Decode>, TraceError>;

/// The reader of a text format.
pub(crate) fn lines(input: Input, format: impl LineFormat + 'static, options: &ReadOptions) -> Opened {
    Ok(Box::new(Lines::new(input, format, options.skip_bad)))
}

/// The reader of a binary format of records of one size.
pub(crate) fn records(input: Input, format: impl RecordFormat + 'static, options: &ReadOptions) -> Opened {
    Ok(Box::new(Records::new(input, format, options.skip_bad)))
}
