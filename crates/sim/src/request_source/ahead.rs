//! A thread that reads a trace ahead of its simulation.

use std::{
    panic::resume_unwind,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread::{self, JoinHandle},
};

use peryton_trace::Request;

use super::fitted::{Fitted, Hashes};
use crate::SimError;

/// The most batches that are read ahead. More would not help: the thread is either faster than the simulation, and waits, or slower,
/// and is waited for.
const MOST_AHEAD: usize = 4;

/// What the thread sends.
pub(super) enum Sent {
    /// The next requests, and how many were read before them.
    Batch { requests: Vec<Request>, before: u64 },
    /// There are no more, or none that could be read; the thread ends.
    End { fitted: Box<Fitted>, error: Option<SimError> },
}

/// The thread, as its simulation sees it. It ends by itself soon after this is dropped, at the latest when its source has a batch.
pub(super) struct Ahead {
    sent: Receiver<Sent>,
    /// Where lists go back to that the simulation is done with.
    done: SyncSender<Vec<Request>>,
    /// `None` once it has panicked.
    thread: Option<JoinHandle<()>>,
}

impl Ahead {
    /// Begins to read; without a thread, which the system may refuse, the trace comes back.
    pub(super) fn new(fitted: Box<Fitted>) -> Result<Ahead, Box<Fitted>> {
        let (to, sent) = sync_channel(MOST_AHEAD);
        let (done, lists) = sync_channel(MOST_AHEAD + 2);
        // Handed over by a channel, because a closure that cannot be run is lost.
        let (hand_over, taken) = sync_channel(1);
        let read = move || {
            if let Ok(fitted) = taken.recv() {
                read(fitted, &to, &lists);
            }
        };
        match thread::Builder::new().name("trace".to_owned()).spawn(read) {
            Ok(thread) => {
                let _ = hand_over.send(fitted);
                Ok(Ahead { sent, done, thread: Some(thread) })
            }
            Err(_) => Err(fitted),
        }
    }

    /// Waits for what comes next, in exchange for a list that is not needed.
    pub(super) fn next(&mut self, list: Vec<Request>) -> Sent {
        // Without room it is dropped.
        let _ = self.done.try_send(list);
        match self.sent.recv() {
            Ok(sent) => sent,
            Err(_) => match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => resume_unwind(panic),
                _ => unreachable!("the thread sends an end before it ends"),
            },
        }
    }
}

fn read(mut fitted: Box<Fitted>, to: &SyncSender<Sent>, lists: &Receiver<Vec<Request>>) {
    loop {
        let before = fitted.read;
        let mut requests = lists.try_recv().unwrap_or_default();
        let error = match fitted.fill(&mut requests, Hashes::Here) {
            Ok(_) if requests.is_empty() => None,
            Ok(_) => {
                if to.send(Sent::Batch { requests, before }).is_err() {
                    return;
                }
                continue;
            }
            Err(error) => Some(error),
        };
        let _ = to.send(Sent::End { fitted, error });
        return;
    }
}
