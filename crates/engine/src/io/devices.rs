//! What the engine knows of each device: how busy it is, what of it is not flushed, how quick and how healthy it is.

use peryton_units::Nanos;

/// A device that failed so many commands in a row, over so long, is probed; if that fails as well, it is fenced.
pub(super) const MOST_FAILURES: u32 = 16;
pub(super) const PATIENCE: Nanos = Nanos::from_s(2);
/// So is a device that failed so many commands for metadata with no commit between them: nothing can be made durable
/// on it.
pub(super) const MOST_STRIKES: u32 = 8;

/// The weight of the newest sample of a mean latency is 2 to the power of minus this.
const LATENCY_SHIFT: u32 = 6;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Device {
    pub(super) in_flight: u32,
    pub(super) idle_since: Nanos,
    pub(super) standby: bool,
    /// Something completed that no flush has covered yet.
    pub(super) unflushed: bool,
    /// The same for what demotions and write-backs wrote: the host's flush need not wait for it, because the fast device
    /// keeps the data until the map update that lets it go is durable.
    pub(super) unflushed_moves: bool,
    /// Mean time of a read and of a write, the latest weighing most.
    pub(super) latency: [Nanos; 2],
    /// Commands in a row that failed, and when the first of them did.
    pub(super) failures: u32,
    pub(super) failing_since: Nanos,
    /// A probe is in flight.
    pub(super) probed: bool,
    /// Commands for metadata that failed since the last commit that was durable.
    pub(super) strikes: u32,
}

impl Device {
    /// A read (0) or write (1) took this long.
    #[inline(always)]
    pub(super) fn measure(&mut self, which: usize, took: Nanos) {
        let mean = &mut self.latency[which].0;
        let took = took.0;
        *mean = if *mean == 0 { took } else { *mean - (*mean >> LATENCY_SHIFT) + (took >> LATENCY_SHIFT) };
    }

    /// A command has failed.
    #[cold]
    pub(super) fn count_failure(&mut self, now: Nanos, metadata: bool) {
        if self.failures == 0 {
            self.failing_since = now;
        }
        self.failures = self.failures.saturating_add(1);
        self.strikes += u32::from(metadata);
    }
}
