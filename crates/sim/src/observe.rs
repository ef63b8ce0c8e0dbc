//! A run that can be watched: everything that goes into the engine, and everything that comes out.

use peryton_engine::{Command, DeviceId, IoId, Request, RequestId};
use peryton_trace::Source;
use peryton_units::{Bytes, Nanos};

use crate::{Design, Options, SimError, run::replay};

/// What happened at the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A request was submitted.
    Submitted(RequestId, Request),
    /// A command was reported complete.
    Completed(IoId),
    /// The engine was given the time, because a timer was due.
    Ticked,
    /// The host had dropped a range from its own cache.
    Hinted(Bytes, Bytes),
    /// The engine was given what a device had programmed so far.
    Programmed(DeviceId, Bytes),
    /// The engine was given what its devices had drawn so far, in microjoules.
    Drew(u64),
    /// The engine gave a command.
    Commanded(Command),
}

/// Called with everything that happens, in order: the time, the number of the volume (0 where there is one), and what it was.
pub type Observer = Box<dyn FnMut(Nanos, usize, Moment)>;

/// The observer of a run, if it has one.
#[derive(Default)]
pub(crate) struct Watch(pub(crate) Option<Observer>);

impl Watch {
    #[inline]
    pub(crate) fn see(&mut self, now: Nanos, volume: usize, moment: impl FnOnce() -> Moment) {
        if let Some(observer) = &mut self.0 {
            observer(now, volume, moment());
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Watch" } else { "-" })
    }
}

/// Replays the trace on one design, as [`run_one`](crate::run_one) does, and calls `observer` with each moment.
///
/// # Errors
/// As [`run_one`](crate::run_one).
pub fn run_observed(
    design: &Design,
    trace: Box<dyn Source>,
    options: &Options,
    observer: Observer,
) -> Result<(), SimError> {
    replay(design, trace, options, Watch(Some(observer)), &|_| {}).map(drop)
}
