//! A disk from first principles: arm, rotation, zoned tracks, buffer, write cache, command scheduling and power states.
//!
//! `docs/disk-model.md` gives the rules. Background work (reading ahead, emptying the write cache) is computed when the
//! next command arrives, so a first-come disk needs no events and answers immediately.

mod account;
mod actuators;
mod geometry;
mod joins;
mod mechanics;
mod parameters;
mod queue;
mod remapped;
mod segments;
mod service;
mod shingled;
mod shingled_parameters;
mod write_cache;

use peryton_units::{Bytes, Nanos};

use crate::{Accepted, BuildError, DeviceStats, Io, PowerState, Tag, WearCounts};
use account::Account;
use mechanics::Mechanics;
use queue::CommandQueue;
use segments::Segments;
use service::{ReadingAhead, Timing};
use write_cache::WriteCache;

pub use actuators::TwoActuators;
pub use parameters::{
    BufferParameters, Controller, DiskParameters, Overhead, Power, Queue, ReadAhead, Scheduler, Seek, Tracks,
    ZoneParameters,
};
pub use shingled::Shingled;
pub use shingled_parameters::ShingledParameters;

/// A model of one disk; see [`DiskParameters`]. `docs/disk-model.md` of the repository says how it computes service
/// times, and from which publications.
///
/// ```
/// use peryton_device::{Disk, Io, Model, Profile, Tag};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let Model::Disk(parameters) = Profile::named("ibm-ultrastar-36z15")?.model else { panic!("it is a disk") };
/// let mut disk = Disk::new(&parameters)?;
/// let (mut done, mut now) = (Vec::new(), Nanos::ZERO);
/// for place in [Bytes::gib(1), Bytes::gib(9)] {
///     disk.submit(now, Tag(0), Io { op: Op::Read, at: place, len: Bytes::kib(4) });
///     // The order of service is decided later: events report the ends.
///     while let Some(event) = disk.next_event() {
///         now = event;
///         disk.advance(now, &mut done);
///     }
/// }
/// let stats = disk.stats(now);
/// assert_eq!((stats.reads, stats.bytes_read), (2, Bytes::kib(8)));
/// // Two random reads: each takes a seek and part of a revolution (4 ms at 15,000 per minute).
/// assert!(stats.busy > Nanos::from_ms(2) && stats.busy < Nanos::from_ms(40), "{:?}", stats.busy);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct Disk {
    mechanics: Mechanics,
    account: Account,
    timing: Timing,
    segments: Segments,
    write_cache: Option<WriteCache>,
    buffer: BufferParameters,
    reading_ahead: Option<ReadingAhead>,
    /// When the mechanics are free.
    free: u64,
    /// When the last command is answered.
    answered: u64,
    after_write: bool,
    /// The end of the last mechanical work.
    arm: u64,
    /// Standby began here, or will once all work is done.
    asleep_from: Option<u64>,
    spin_up: u64,
    spin_down: u64,
    queue: Option<CommandQueue>,
    decodes_ahead: bool,
    sector_shift: u32,
    begin: Bytes,
}

impl Disk {
    /// # Errors
    /// A parameter out of its range, or an impossible geometry.
    pub fn new(parameters: &DiskParameters) -> Result<Disk, BuildError> {
        parameters.check()?;
        let buffer = parameters.buffer.clone();
        let sector = parameters.sector.0;
        let choosing = parameters.queue.scheduler != Scheduler::Fcfs && parameters.queue.depth > 1;
        Ok(Disk {
            mechanics: Mechanics::new(parameters)?,
            account: Account::new(&parameters.power, sector),
            timing: Timing::new(parameters),
            segments: Segments::new(buffer.segments, buffer.segment.0 / sector, buffer.read_hits_on_written),
            write_cache: buffer
                .write_cache
                .map(|size| WriteCache::new(size.0 / sector, buffer.write_ranges, buffer.destage)),
            buffer,
            reading_ahead: None,
            free: 0,
            answered: 0,
            after_write: false,
            arm: 0,
            asleep_from: None,
            spin_up: parameters.power.spin_up.0,
            spin_down: parameters.power.spin_down.0,
            queue: choosing.then(|| CommandQueue::new(&parameters.queue)),
            decodes_ahead: parameters.queue.depth > 1,
            sector_shift: sector.trailing_zeros(),
            begin: parameters.begin,
        })
    }

    /// Submits a command. A disk that serves first-come answers immediately; one that chooses the order of service
    /// reports through [`Disk::advance`].
    ///
    /// A command without bytes costs its overhead. A range past the end is cut off there (and asserted in debug builds:
    /// the caller checks).
    #[inline(never)]
    pub fn submit(&mut self, now: Nanos, tag: Tag, io: Io) -> Accepted {
        debug_assert!(io.at.0.checked_add(io.len.0).is_some_and(|end| end <= self.capacity().0), "{io:?} past the end");
        self.account.command(io);
        let io = Io { at: io.at + self.begin, ..io };
        if self.queue.is_some() {
            self.enqueue(now.0, tag, io);
            return Accepted::Queued;
        }
        let start = self.wake(now.0).max(self.answered);
        // A drive that takes more than one command at a time decodes the next while it serves one.
        let early = if self.decodes_ahead { start - now.0 } else { 0 };
        self.background(start);
        let end = self.execute(start, early, io);
        self.account.busy(now.0, end);
        Accepted::At(Nanos(end))
    }

    /// When [`Disk::advance`] will next have something to do.
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        self.queue.as_ref().and_then(|queue| queue.next_event()).map(Nanos)
    }

    /// Serves what is due and reports queued commands that are done by `now`, in the order of their times.
    pub fn advance(&mut self, now: Nanos, completed: &mut Vec<(Tag, Nanos)>) {
        if self.queue.is_some() {
            self.serve_until(now.0);
            if let Some(queue) = &mut self.queue {
                queue.report(now.0, completed);
            }
        }
    }

    /// Requests a power state. Standby begins when every command is answered and the write cache is empty; the next
    /// command ends it, at the cost of a spin-up.
    pub fn set_power(&mut self, now: Nanos, state: PowerState) {
        self.serve_until(now.0);
        match state {
            PowerState::Active => {
                // Only waking delays the mechanics: a disk that is awake continues to empty its write cache.
                let ready = self.wake(now.0);
                self.answered = self.answered.max(ready);
                if let Some(queue) = &mut self.queue {
                    queue.sleep_wanted = false;
                }
            }
            PowerState::Standby => {
                if let Some(queue) = &mut self.queue
                    && !queue.is_idle()
                {
                    queue.sleep_wanted = true;
                } else {
                    self.sleep(now.0);
                }
            }
        }
    }

    /// The counts and the energy up to `now`.
    pub fn stats(&mut self, now: Nanos) -> DeviceStats {
        self.serve_until(now.0);
        if self.asleep_from.is_none() {
            self.background(now.0);
            self.catch_up_reading(now.0);
        }
        // A waiting command makes the disk busy, although its time of service has not been decided.
        if let Some(arrived) = self.queue.as_ref().and_then(CommandQueue::oldest_arrival) {
            self.account.busy(arrived, now.0);
        }
        self.account.stats(now.0, self.asleep_from)
    }

    /// What has worn it so far in the account.
    pub fn wear(&self) -> WearCounts {
        self.account.wear()
    }

    /// Starts a new account at `now`; the state of the disk stays.
    pub fn reset_stats(&mut self, now: Nanos) {
        self.stats(now);
        self.account.reset(now.0);
    }

    /// Data in the write cache that is not on the surface at `now`.
    pub fn unwritten(&mut self, now: Nanos) -> Bytes {
        self.stats(now);
        Bytes(self.write_cache.as_ref().map_or(0, |cache| cache.held(now.0)) << self.sector_shift)
    }

    /// Addressable bytes: those from `begin` on.
    pub fn capacity(&self) -> Bytes {
        Bytes((self.mechanics.geometry.sectors << self.sector_shift).saturating_sub(self.begin.0))
    }

    /// Number of cylinders, zones that hold data, and sectors on the outermost and innermost track.
    pub fn geometry(&self) -> (u32, usize, u64, u64) {
        let geometry = &self.mechanics.geometry;
        let at = |index: usize| geometry.zones[index].sectors_per_track;
        (geometry.cylinders, geometry.zones.len(), at(0), at(geometry.zones.len() - 1))
    }

    /// Puts the write cache on the surface and stops the spindle afterwards.
    fn sleep(&mut self, now: u64) {
        if self.asleep_from.is_some() {
            return;
        }
        self.background(now);
        let from = now.max(self.answered);
        self.destage_all(from);
        let from = from.max(self.free);
        self.stop_reading_ahead(from);
        self.asleep_from = Some(from);
    }

    /// Leaves standby, or calls it off; when the disk is ready.
    #[inline]
    fn wake(&mut self, now: u64) -> u64 {
        let Some(from) = self.asleep_from.take() else { return now };
        if from > now {
            return now;
        }
        let down = now.max(from + self.spin_down);
        self.account.slept(from, now, down);
        self.account.spun_up(down);
        let ready = down + self.spin_up;
        self.free = self.free.max(ready);
        ready
    }
}
