//! The connections that are served at a time: how many, and which one gives its place to another.

use std::{
    io::{self, ErrorKind},
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::{answer::Status, stream::Stream};

/// The most connections, and threads, at once. A further one waits in the kernel's queue, and displaces the oldest. Browsers open
/// some in advance, which ask nothing.
const MOST_CONNECTIONS: usize = 8;
/// No connection is displaced earlier than this. An answer takes some milliseconds, so only those that are slow are displaced.
const GRACE: Duration = Duration::from_millis(250);

/// Connections that got nothing that they asked for, by the reason.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// They asked for what is not there, or not in HTTP.
    misunderstood: AtomicU64,
    /// They come from a page of another origin.
    forbidden: AtomicU64,
    timeout: AtomicU64,
    displaced: AtomicU64,
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

    /// The connection ended without a request, which counts only if this end did it.
    pub(super) fn hung_up(&self, displaced: bool) {
        self.displaced.fetch_add(u64::from(displaced), Ordering::Relaxed);
    }

    /// The connection ended early. One that the other end has closed is not counted.
    pub(super) fn broken(&self, error: &io::Error, displaced: bool) {
        match error.kind() {
            _ if displaced => &self.displaced,
            ErrorKind::WouldBlock | ErrorKind::TimedOut => &self.timeout,
            _ => return,
        }
        .fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        [
            ("bad_request", &self.misunderstood),
            ("forbidden", &self.forbidden),
            ("timeout", &self.timeout),
            ("displaced", &self.displaced),
            ("unavailable", &self.unavailable),
        ]
        .map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
        .to_vec()
    }
}

#[derive(Debug)]
struct Row {
    number: u64,
    since: Instant,
    stream: Stream,
    displaced: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Rows {
    rows: Vec<Row>,
    /// The number of the next connection.
    next: u64,
}

#[derive(Debug, Default)]
struct Shared {
    rows: Mutex<Rows>,
    left: Condvar,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The places of connections.
#[derive(Debug, Default)]
pub(super) struct Places(Arc<Shared>);

/// The place of a connection, which is free when this is dropped.
#[derive(Debug)]
pub(super) struct Place {
    shared: Arc<Shared>,
    number: u64,
    displaced: Arc<AtomicBool>,
}

impl Place {
    /// Whether another connection has displaced this one.
    pub(super) fn is_displaced(&self) -> bool {
        self.displaced.load(Ordering::Relaxed)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.shared.lock().rows.retain(|row| row.number != self.number);
        self.shared.left.notify_all();
    }
}

impl Places {
    /// Waits for a place. `None`: the server is stopping, or the connection is broken.
    pub(super) fn enter(&self, stream: &Stream, stopping: &AtomicBool) -> Option<Place> {
        let stream = stream.try_clone().ok()?;
        let mut rows = self.0.lock();
        while rows.rows.len() >= MOST_CONNECTIONS {
            if stopping.load(Ordering::Relaxed) {
                return None;
            }
            let oldest =
                rows.rows.iter().filter(|row| !row.displaced.load(Ordering::Relaxed)).min_by_key(|row| row.since);
            let wait = match oldest {
                Some(row) if row.since.elapsed() >= GRACE => {
                    row.displaced.store(true, Ordering::Relaxed);
                    row.stream.cut();
                    GRACE
                }
                Some(row) => GRACE.saturating_sub(row.since.elapsed()),
                None => GRACE,
            };
            rows = self.0.left.wait_timeout(rows, wait).unwrap_or_else(PoisonError::into_inner).0;
        }
        let (number, displaced) = (rows.next, Arc::new(AtomicBool::new(false)));
        rows.next += 1;
        rows.rows.push(Row { number, since: Instant::now(), stream, displaced: Arc::clone(&displaced) });
        Some(Place { shared: Arc::clone(&self.0), number, displaced })
    }
}
