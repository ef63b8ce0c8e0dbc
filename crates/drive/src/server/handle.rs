//! The access of other threads to a server.

use std::{sync::mpsc, time::Duration};

use super::{Call, Server};
use crate::kernel::Waker;

/// The access of other threads to a server.
#[derive(Clone, Debug)]
pub struct Handle {
    calls: mpsc::Sender<Call>,
    waker: Waker,
}

impl Handle {
    pub(crate) fn new(calls: mpsc::Sender<Call>, waker: Waker) -> Handle {
        Handle { calls, waker }
    }

    /// Wakes the server's loop.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Stops the server: requests in flight are answered, and the volume is closed.
    pub fn stop(&self) {
        self.send(Box::new(Server::begin_to_stop));
    }

    /// The same, and a block device stays in any case, also if nobody uses it: the next server takes it over.
    pub fn hand_over(&self) {
        self.send(Box::new(Server::begin_to_hand_over));
    }

    pub(crate) fn send(&self, call: Call) {
        // A failure means that the server has ended.
        let _ = self.calls.send(call);
        self.waker.wake();
    }

    /// Runs a function on the server's thread and returns its result; `None` if the server has ended.
    pub(crate) fn ask<T: Send + 'static>(&self, what: impl FnOnce(&mut Server) -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.send(Box::new(move |server| {
            // A failure means that the asking thread has ended.
            let _ = sender.send(what(server));
        }));
        receiver.recv().ok()
    }
    /// The same, but `None` as well if there is no result within a time. The function may run later, then in vain.
    pub(crate) fn ask_within<T: Send + 'static>(
        &self,
        within: Duration,
        what: impl FnOnce(&mut Server) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.send(Box::new(move |server| {
            let _ = sender.send(what(server));
        }));
        receiver.recv_timeout(within).ok()
    }
}
