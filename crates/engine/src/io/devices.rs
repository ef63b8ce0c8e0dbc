//! What the engine tracks of each device: its queue, what is not flushed, its latency and its health.

use peryton_units::Nanos;

/// A device that failed this many commands in a row is probed; if the probe fails as well, the device is fenced.
pub(super) const MOST_FAILURES: u32 = 16;
pub(super) const PATIENCE: Nanos = Nanos::from_s(2);
/// A device that failed this many metadata commands with no durable commit between them is fenced: nothing can be made
/// durable on it.
pub(super) const MOST_STRIKES: u32 = 8;

/// What a failed command says of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing: the command failed.
    Passes,
    /// Nothing becomes durable on it for now. It stays while it is needed, because it can be read.
    Refuses,
    /// It is dead.
    Dead,
}

/// The newest sample of a mean latency weighs 2^-`LATENCY_SHIFT`.
const LATENCY_SHIFT: u32 = 6;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Device {
    pub(super) in_flight: u32,
    /// How many of them move data off the fast device.
    pub(super) demotion_writes: u32,
    pub(super) idle_since: Nanos,
    pub(super) standby: bool,
    /// Whether a command completed that no flush has covered yet; writes of demotions and write-backs do not count
    /// here.
    pub(super) unflushed: bool,
    /// The same for the writes of demotions and write-backs. The host's flush need not wait for them, because the fast
    /// device keeps the data until the map update that frees it is durable.
    pub(super) unflushed_moves: bool,
    /// The number of flushes that have begun. A flush has its place in this count as its number.
    pub(super) flushes: u64,
    /// The highest number of a flush that succeeded: everything that completed before it began is durable.
    pub(super) flushed: u64,
    /// The number of the latest flush that was the first to cover some data of the host.
    pub(super) host_flush: u64,
    /// Whether a flush has failed that should have covered data of the host, and the placement has not asked for that yet.
    pub(super) host_doubt: bool,
    /// Mean time of a read and of a write, the latest weighing most.
    pub(super) latency: [Nanos; 2],
    /// Commands that failed in a row, and when the first of them failed.
    pub(super) failures: u32,
    pub(super) failing_since: Nanos,
    /// Whether a probe is in flight.
    pub(super) probed: bool,
    /// Metadata commands that failed since the last durable commit.
    pub(super) strikes: u32,
}

impl Device {
    /// Records that a read (0) or write (1) took this long.
    #[inline(always)]
    pub(super) fn measure(&mut self, which: usize, took: Nanos) {
        let mean = &mut self.latency[which].0;
        let took = took.0;
        *mean = if *mean == 0 { took } else { *mean - (*mean >> LATENCY_SHIFT) + (took >> LATENCY_SHIFT) };
    }

    /// Counts a failed command.
    #[cold]
    pub(super) fn count_failure(&mut self, now: Nanos, metadata: bool) {
        if self.failures == 0 {
            self.failing_since = now;
        }
        self.failures = self.failures.saturating_add(1);
        self.strikes += u32::from(metadata);
    }
}
