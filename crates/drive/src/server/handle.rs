//! The access of other threads to a server.

use std::{sync::mpsc, time::Duration};

use super::{Call, Called, Server};
use crate::kernel::Waker;

/// Why a call is not carried out any more.
pub(super) const ENDED: &str = "the volume is closed";

/// The access of other threads to a server.
#[derive(Clone, Debug)]
pub struct Handle {
    calls: mpsc::Sender<Called>,
    waker: Waker,
}

/// A call that answers with the result of a function.
pub(super) fn answered<T: Send + 'static>(
    what: impl FnOnce(&mut Server) -> T + Send + 'static,
) -> (Call, mpsc::Receiver<T>) {
    let (sender, receiver) = mpsc::sync_channel(1);
    let call = move |server: &mut Server| {
        // A failure means that the asking thread has ended.
        let _ = sender.send(what(server));
    };
    (Box::new(call), receiver)
}

impl Handle {
    pub(crate) fn new(calls: mpsc::Sender<Called>, waker: Waker) -> Handle {
        Handle { calls, waker }
    }

    /// Whether the volume may be changed: not if it is served for reads only.
    ///
    /// # Errors
    /// One line: why the volume is served for reads only.
    pub(crate) fn may_change(&self) -> Result<(), String> {
        let why = self.ask_always(|server| server.about.read_only.as_ref().map(|read_only| read_only.why.clone()));
        why.flatten().map_or(Ok(()), |why| Err(format!("the volume is only read: {why}")))
    }

    /// Wakes the server's loop.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Stops the server: requests in flight are answered, and the volume is closed.
    pub fn stop(&self) {
        self.send_always(Box::new(Server::asked_to_stop));
        self.send(Box::new(Server::begin_to_stop));
    }

    /// Stops the server, and leaves its block device for the next server, also if no program uses it.
    pub fn hand_over(&self) {
        self.send_always(Box::new(Server::asked_to_stop));
        self.send(Box::new(Server::begin_to_hand_over));
    }

    /// Runs a call when the server has its engine.
    pub(crate) fn send(&self, call: Call) {
        self.pass(Called::WithEngine(call));
    }

    /// Runs a call that does without the engine: also while the volume is closed for a moment.
    pub(crate) fn send_always(&self, call: Call) {
        self.pass(Called::Always(call));
    }

    fn pass(&self, called: Called) {
        // A failure means that the server has ended.
        let _ = self.calls.send(called);
        self.waker.wake();
    }

    /// The same as [`Handle::ask`], for a function that does without the engine.
    pub(crate) fn ask_always<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Server) -> T + Send + 'static,
    ) -> Option<T> {
        let (call, result) = answered(what);
        self.send_always(call);
        result.recv().ok()
    }

    /// Runs a function on the server's thread and returns its result; `None` if the server has ended.
    pub(crate) fn ask<T: Send + 'static>(&self, what: impl FnOnce(&mut Server) -> T + Send + 'static) -> Option<T> {
        let (call, result) = answered(what);
        self.send(call);
        result.recv().ok()
    }

    /// Runs a call that may be refused.
    ///
    /// # Errors
    /// Its own, or the volume is closed.
    pub(crate) fn try_ask<T: Send + 'static>(
        &self,
        what: impl FnOnce(&mut Server) -> Result<T, String> + Send + 'static,
    ) -> Result<T, String> {
        self.ask(what).unwrap_or_else(|| Err(ENDED.to_owned()))
    }

    /// The same as [`Handle::ask_always`], but `None` as well if there is no result within a time. The function may run later, then in vain.
    pub(crate) fn ask_within<T: Send + 'static>(
        &self,
        within: Duration,
        what: impl FnOnce(&mut Server) -> T + Send + 'static,
    ) -> Option<T> {
        let (call, result) = answered(what);
        self.send_always(call);
        result.recv_timeout(within).ok()
    }
}
