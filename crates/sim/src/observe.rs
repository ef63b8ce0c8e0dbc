//! Observation of a run: all inputs and outputs of the engine.

use peryton_engine::{Command, DeviceId, IoId, Request, RequestId};
use peryton_units::{Bytes, Nanos};

/// An event at the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// A request was submitted.
    Submitted(RequestId, Request),
    /// A command was reported complete.
    Completed(IoId),
    /// The engine was called because a timer was due.
    Ticked,
    /// The host dropped a range from its own cache.
    Hinted(Bytes, Bytes),
    /// The engine received the number of bytes that a device had programmed so far.
    Programmed(DeviceId, Bytes),
    /// The engine received the energy that its devices had drawn so far, in microjoules.
    Drew(u64),
    /// The engine gave a command.
    Commanded(Command),
}

/// The observer, called with every event in order: its time, the number of the volume (0 if there is one), and the
/// event.
pub type Observer = Box<dyn FnMut(Nanos, usize, Moment)>;

/// The observer of a run, if it has one.
#[derive(Default)]
pub(crate) struct Watch(pub(crate) Option<Observer>);

impl Watch {
    #[inline(always)]
    pub(crate) fn see(&mut self, now: Nanos, volume: usize, moment: impl FnOnce() -> Moment) {
        if let Some(observer) = &mut self.0 {
            tell(observer, now, volume, moment);
        }
    }
}

/// Out of line: most runs have no observer.
#[cold]
#[inline(never)]
fn tell(observer: &mut Observer, now: Nanos, volume: usize, moment: impl FnOnce() -> Moment) {
    observer(now, volume, moment());
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(if self.0.is_some() { "Watch" } else { "-" })
    }
}
