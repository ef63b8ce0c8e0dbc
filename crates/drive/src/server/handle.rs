//! How other threads reach a server.

use std::sync::mpsc;

use super::{Call, Server};
use crate::kernel::Waker;

/// A way to reach a server from other threads.
#[derive(Clone, Debug)]
pub struct Handle {
    calls: mpsc::Sender<Call>,
    waker: Waker,
}

impl Handle {
    pub(crate) fn new(calls: mpsc::Sender<Call>, waker: Waker) -> Handle {
        Handle { calls, waker }
    }

    /// What the server is woken with.
    pub(crate) fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Tells it to stop: what is in flight is answered, and the volume closed.
    pub fn stop(&self) {
        self.send(Box::new(Server::begin_to_stop));
    }

    pub(crate) fn send(&self, call: Call) {
        // A server that has ended hears nothing.
        let _ = self.calls.send(call);
        self.waker.wake();
    }

    /// Runs something on the server's thread, and waits for what it returns; `None` if the server has ended.
    pub(crate) fn ask<T: Send + 'static>(&self, what: impl FnOnce(&mut Server) -> T + Send + 'static) -> Option<T> {
        let (sender, receiver) = mpsc::sync_channel(1);
        self.send(Box::new(move |server| {
            // The thread that asked may have gone.
            let _ = sender.send(what(server));
        }));
        receiver.recv().ok()
    }
}
