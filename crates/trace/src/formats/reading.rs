//! The options of readers, and the trait of readers.

use super::block_event::BlockEvent;
use crate::{
    Columns, TraceError, Units,
    decode::{Decode, LineFormat, Lines, RecordFormat, Records},
    input::Input,
    volume_names::KnownNames,
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
    /// hours:minutes:seconds of a day; a trace may go past midnight
    Clock,
}

impl TimeUnit {
    /// Every unit with its name.
    pub const ALL: [(&'static str, TimeUnit); 5] = [
        ("ns", TimeUnit::Nanoseconds),
        ("us", TimeUnit::Microseconds),
        ("ms", TimeUnit::Milliseconds),
        ("s", TimeUnit::Seconds),
        ("clock", TimeUnit::Clock),
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        TimeUnit::ALL.iter().find(|(_, unit)| *unit == self).map_or("", |(name, _)| name)
    }

    /// Its length in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        match self {
            TimeUnit::Nanoseconds => 1,
            TimeUnit::Microseconds => 1_000,
            TimeUnit::Milliseconds => 1_000_000,
            TimeUnit::Seconds | TimeUnit::Clock => 1_000_000_000,
        }
    }
}

/// The part of [`OpenOptions`](crate::OpenOptions) that concerns the reader of a format.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadOptions {
    pub(crate) skip_bad: bool,
    pub(crate) event: Option<BlockEvent>,
    pub(crate) columns: Option<Columns>,
    pub(crate) units: Units,
    /// The names of volumes, which all files of a trace share.
    pub(crate) names: KnownNames,
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
