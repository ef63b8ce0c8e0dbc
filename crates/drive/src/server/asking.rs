//! When each front end has last had a request, for the others: a client may have more requests in flight while nobody else asks.

use std::sync::atomic::{AtomicU64, Ordering};

use peryton_units::Nanos;

use super::share::ASKS;

/// The place of the block device.
pub(super) const BLOCK_DEVICE: usize = 0;

/// A time in a cache line of its own, so that one front end's writes do not slow those of another.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Time(AtomicU64);

/// The times of the last requests, in ns since the start; zero stands for none. They are hints: no other memory depends on them.
#[derive(Debug)]
pub(super) struct Asking(Box<[Time]>);

impl Asking {
    pub(super) fn new(places: usize) -> Asking {
        Asking((0..places).map(|_| Time::default()).collect())
    }

    /// Notes a request.
    #[inline]
    pub(super) fn asked(&self, place: usize, now: Nanos) {
        self.0[place].0.store(now.0, Ordering::Relaxed);
    }

    /// Whether there was a request lately anywhere else.
    pub(super) fn others(&self, but: usize, now: Nanos) -> bool {
        self.0.iter().enumerate().any(|(place, time)| {
            let asked = time.0.load(Ordering::Relaxed);
            place != but && asked > 0 && now.0.saturating_sub(asked) < ASKS.0
        })
    }
}
