use peryton_units::{Bytes, Nanos};

use crate::{
    Accepted, DeviceStats, Disk, Fixed, Flash, Io, PowerState, Tag, WearCounts,
    disk::{Shingled, TwoActuators},
};

/// A model of one device of any kind. The times passed to it must never go back.
///
/// ```
/// use peryton_device::{Accepted, Device, Io, PowerState, Profile, Tag};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let mut disk: Device = Profile::named("seagate-st32000641as")?.build(None, 1)?;
/// let read = |at| Io { op: Op::Read, at: Bytes(at), len: Bytes::kib(64) };
/// // A disk decides the order of service itself, so that ends come as events.
/// for (tag, at) in [(0, 900 << 30), (1, 0)] {
///     assert_eq!(disk.submit(Nanos::ZERO, Tag(tag), read(at)), Accepted::Queued);
/// }
/// let mut ended = Vec::new();
/// while let Some(next) = disk.next_event() {
///     disk.advance(next, &mut ended);
/// }
/// assert_eq!(ended.len(), 2);
/// disk.set_power(ended[1].1, PowerState::Standby);
/// println!("{} J", disk.stats(ended[1].1 + Nanos::from_s(60)).energy_j);
/// # Ok::<(), peryton_device::ProfileError>(())
/// ```
#[derive(Clone, Debug)]
pub enum Device {
    /// Constant latency.
    Fixed(Box<Fixed>),
    /// Magnetic disk.
    Disk(Box<Disk>),
    /// A disk with two actuators.
    TwoActuators(Box<TwoActuators>),
    /// A disk with shingled tracks.
    Shingled(Box<Shingled>),
    /// Flash.
    Flash(Box<Flash>),
}

macro_rules! each {
    ($device:expr, $model:ident => $body:expr) => {
        match $device {
            Device::Fixed($model) => $body,
            Device::Disk($model) => $body,
            Device::TwoActuators($model) => $body,
            Device::Shingled($model) => $body,
            Device::Flash($model) => $body,
        }
    };
}

impl Device {
    /// Submits a command. [`Device::advance`] returns `tag` if the answer is [`Accepted::Queued`].
    ///
    /// # Panics
    /// If the command reaches past [`Device::capacity`].
    #[inline(always)]
    pub fn submit(&mut self, now: Nanos, tag: Tag, io: Io) -> Accepted {
        each!(self, model => model.submit(now, tag, io))
    }

    /// When [`Device::advance`] next has something to do; `None` while nothing is queued.
    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        each!(self, model => model.next_event())
    }

    /// Does what is due at `now` and reports queued commands that are done, with their times.
    #[inline]
    pub fn advance(&mut self, now: Nanos, completed: &mut Vec<(Tag, Nanos)>) {
        each!(self, model => model.advance(now, completed))
    }

    /// Asks for a power state.
    pub fn set_power(&mut self, now: Nanos, state: PowerState) {
        each!(self, model => model.set_power(now, state))
    }

    /// The counts and the energy up to `now`.
    pub fn stats(&mut self, now: Nanos) -> DeviceStats {
        each!(self, model => model.stats(now))
    }

    /// The same, for many moments of a run. Of flash it lacks what takes a walk over the blocks (erase counts, the state of the
    /// translation layer), and background work counts from the next command on.
    pub fn counts(&mut self, now: Nanos) -> DeviceStats {
        match self {
            Device::Flash(flash) => flash.counts(now),
            other => other.stats(now),
        }
    }

    /// Finds out what flash has yet to do in idle time for the commands of the account: [`Flash::settle`](crate::Flash::settle).
    pub fn settle(&mut self, now: Nanos) {
        if let Device::Flash(flash) = self {
            flash.settle(now);
        }
    }

    /// What has worn it so far in the account.
    pub fn wear(&self) -> WearCounts {
        each!(self, model => model.wear())
    }

    /// Starts a new account at `now`; wear stays.
    pub fn reset_stats(&mut self, now: Nanos) {
        each!(self, model => model.reset_stats(now))
    }

    /// Data in a disk's write cache that is not on its surface at `now`. (Flash fills its buffer within a few
    /// requests.)
    /// few requests.)
    pub fn unwritten(&mut self, now: Nanos) -> Bytes {
        match self {
            Device::Disk(disk) => disk.unwritten(now),
            Device::TwoActuators(disk) => disk.unwritten(now),
            Device::Shingled(disk) => disk.unwritten(now),
            Device::Fixed(_) | Device::Flash(_) => Bytes::ZERO,
        }
    }

    /// Transfers that can go on at the same time, each in its own part of the addresses.
    pub fn actuators(&self) -> u64 {
        if matches!(self, Device::TwoActuators(_)) { 2 } else { 1 }
    }

    /// Addressable bytes: the used part of flash and of a fixed-latency device, the whole of a disk.
    pub fn capacity(&self) -> Bytes {
        each!(self, model => model.capacity())
    }
}
