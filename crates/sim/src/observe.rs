//! A run that can be watched: everything that goes into the engine, and everything that comes out.

use peryton_engine::{Command, DeviceId, IoId, Request, RequestId};
use peryton_trace::Source;
use peryton_units::{Bytes, Nanos};

use crate::{Design, Options, SimError, feed::Feed, simulator::simulate};

/// What happened at the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A request was submitted.
    Submitted(RequestId, Request),
    /// A command was reported complete.
    Completed(IoId),
    /// The time was told.
    Ticked,
    /// The host had dropped a range from its own cache.
    Hinted(Bytes, Bytes),
    /// A device said what it had programmed so far.
    Programmed(DeviceId, Bytes),
    /// It was said what all devices had drawn so far, in microjoules.
    Drew(u64),
    /// The engine gave a command.
    Commanded(Command),
}

/// Is told what happens, in order, with the time.
pub type Observer = Box<dyn FnMut(Nanos, Moment)>;

/// Somebody who watches, or nobody.
#[derive(Default)]
pub(crate) struct Watch(pub(crate) Option<Observer>);

impl Watch {
    #[inline]
    pub(crate) fn see(&mut self, now: Nanos, moment: impl FnOnce() -> Moment) {
        if let Some(observer) = &mut self.0 {
            observer(now, moment());
        }
    }
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Watch" } else { "-" })
    }
}

/// Replays the trace on one design, as [`run_one`](crate::run_one) does, and tells `observer` of each moment.
///
/// # Errors
/// As [`run_one`](crate::run_one).
pub fn run_observed(
    design: &Design,
    trace: Box<dyn Source>,
    options: &Options,
    observer: Observer,
) -> Result<(), SimError> {
    let mut machine = design.build(options.warm_up)?;
    machine.watch = Watch(Some(observer));
    let quiet = |_| {};
    let feed = Feed::new(trace, design.volume, options.fit, options.limit, &quiet)?;
    simulate(machine, feed, options).map(drop)
}
