//! Counts of connections that got nothing that they asked for.

use std::{
    io::{self, ErrorKind},
    sync::atomic::{AtomicU64, Ordering},
};

use super::answer::Status;

/// Connections that got nothing that they asked for, by the reason.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// They asked for what is not there, or not in HTTP.
    misunderstood: AtomicU64,
    /// They ask for another host name.
    forbidden: AtomicU64,
    timeout: AtomicU64,
    /// The volume's thread did not answer.
    unavailable: AtomicU64,
}

impl Refused {
    pub(super) fn answered(&self, status: Status) {
        match status {
            Status::Ok => return,
            Status::Forbidden => &self.forbidden,
            Status::Unavailable => &self.unavailable,
            _ => &self.misunderstood,
        }
        .fetch_add(1, Ordering::Relaxed);
    }

    /// The connection ended early. One that the other end has closed is not counted.
    pub(super) fn broken(&self, error: &io::Error) {
        if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
            self.timeout.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        [
            ("bad_request", &self.misunderstood),
            ("forbidden", &self.forbidden),
            ("timeout", &self.timeout),
            ("unavailable", &self.unavailable),
        ]
        .map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
        .to_vec()
    }
}
