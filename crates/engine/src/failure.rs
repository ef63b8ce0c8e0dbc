//! Devices that die while the drive runs, and what is lost with them.
//!
//! A device is dead when the driver says so ([`Engine::device_failed`]), when it failed 16 commands in a row over two
//! seconds and a flush on top (the flush tells a dead device from bad sectors), or when it failed eight commands for
//! metadata with no commit between them. Until then every failure counts for itself: commits are tried again, and errors
//! reach the host for the ranges concerned only.
//!
//! A death goes `Quiescing → Writing ⇄ Flushing → over`: what is being committed comes to an end, the survivor gets the
//! whole map, and then each survivor's superblocks say that the device is gone. Until they are durable no flush is
//! answered: nothing may be promised that the dead device, should it come back with what it held, could contradict.
//! From then on it is refused.

use std::ops::Range;

use peryton_format::{
    block::BLOCK,
    mutation::{self, Mutation},
};
use peryton_units::{Bytes, Nanos};

use crate::{
    command::{Buffer, Cause, Commands, DeviceId},
    core::{InFlight, Purpose},
    engine::{Engine, Placed},
};

/// A superblock that could not be written is tried again after this time.
const RETRY: Nanos = Nanos::from_ms(250);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// What is under way has to end.
    #[default]
    Quiescing,
    Writing,
    Flushing,
}

/// How far the survivors know of a death.
#[derive(Debug, Default)]
pub(crate) struct Burial {
    stage: Stage,
    /// Superblocks still to be written, the next one last.
    left: Vec<(DeviceId, Bytes)>,
    in_flight: bool,
    retry_at: Nanos,
}

/// What cannot be read any more, because the device that had it is dead, until it is written or discarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// How much it is.
    pub bytes: Bytes,
    /// Where on the volume, in order; no more than were asked for.
    pub ranges: Vec<Range<Bytes>>,
    /// There are more ranges.
    pub more: bool,
}

impl Losses {
    /// Adds a range that does not come before those that are there; at most `most` are kept.
    pub(crate) fn add(&mut self, from: u64, to: u64, most: usize) {
        self.bytes += Bytes(to - from);
        let room = self.ranges.len() < most;
        match self.ranges.last_mut() {
            Some(last) if last.end.0 == from && !self.more => last.end = Bytes(to),
            _ if room => self.ranges.push(Bytes(from)..Bytes(to)),
            _ => self.more = true,
        }
    }
}

impl Engine {
    /// The device is dead, says the driver: it is not there any more, or answers nothing but errors. Nothing is asked of
    /// it from now on; what is in flight on it is still to be completed, and counts as failed.
    #[cold]
    pub fn device_failed(&mut self, now: Nanos, device: DeviceId, out: &mut Commands) {
        let core = &mut self.core;
        if device.index() >= self.device_bytes.len() || core.is_dead(device) {
            return;
        }
        core.now = now;
        core.dead |= 1 << device.index();
        core.burying = true;
        if let Some(identity) = &mut self.identity {
            identity.set_gone(device);
        }
        self.burial.stage = Stage::Quiescing;
        self.burial.left.clear();
        self.burial.retry_at = Nanos::ZERO;
        let lost = match &mut self.placed {
            Placed::Linear(linear) => linear.has(device),
            Placed::Hybrid(hybrid) => hybrid.device_died(core, now, device, out),
            Placed::Logging(logging) => logging.device_died(core, now, device, out),
        };
        core.owes_error |= lost;
        self.bury(now, out);
    }

    /// Whether the device is dead, or the volume was opened without it.
    pub fn is_gone(&self, device: DeviceId) -> bool {
        self.core.is_dead(device)
    }

    /// All that are gone, a bit each.
    #[inline]
    pub fn gone(&self) -> u32 {
        self.core.dead
    }

    /// Extents that are lost.
    pub fn lost_extents(&self) -> u32 {
        match &self.placed {
            Placed::Hybrid(hybrid) => hybrid.lost,
            _ => 0,
        }
    }

    /// Whether the survivors know that the device is gone, so that it is refused should it come back.
    pub fn is_durably_gone(&self, device: DeviceId) -> bool {
        self.core.is_dead(device) && !self.core.burying
    }

    /// What is lost, with at most `most` ranges of it. Walks the map if there is anything.
    pub fn losses(&self, most: usize) -> Losses {
        match &self.placed {
            Placed::Linear(linear) => linear.losses(&self.core, most),
            Placed::Hybrid(hybrid) => hybrid.losses(most),
            Placed::Logging(logging) => logging.losses(most),
        }
    }

    /// Logging: how long ago the oldest write was logged that has not migrated to the primary since. Once the log is
    /// gone, how old the primary's image of what is lost can be at most. `None` where the log has, or had, nothing.
    pub fn log_age(&self, now: Nanos) -> Option<Nanos> {
        match &self.placed {
            Placed::Logging(logging) => logging.age(now),
            _ => None,
        }
    }

    /// A command has failed, or a death is being made known.
    #[cold]
    pub(crate) fn after_failure(&mut self, now: Nanos, command: &InFlight, failed: bool, out: &mut Commands) {
        if failed && self.core.is_lost_cause(now, command, out) {
            self.device_failed(now, command.device, out);
        } else if self.core.burying {
            self.bury(now, out);
        }
    }

    /// Goes on with what has to be done before a death is durable.
    #[cold]
    pub(crate) fn bury(&mut self, now: Nanos, out: &mut Commands) {
        let Engine { core, burial, placed, .. } = self;
        if burial.in_flight {
            return;
        }
        if now < burial.retry_at {
            return core.due(burial.retry_at);
        }
        if burial.stage == Stage::Quiescing {
            let quiet = match placed {
                Placed::Linear(_) => true,
                Placed::Hybrid(hybrid) => hybrid.is_ready_to_bury(core, out),
                Placed::Logging(logging) => logging.is_ready_to_bury(),
            };
            if !quiet {
                return;
            }
            burial.stage = Stage::Writing;
            if !mutation::is(Mutation::ForgetGone) {
                let survivors =
                    (0..).map(DeviceId).zip(&self.device_bytes).filter(|(device, _)| !core.is_dead(*device));
                let ends = survivors.flat_map(|(device, used)| [(device, *used - Bytes(BLOCK)), (device, Bytes::ZERO)]);
                burial.left.extend(ends);
            }
        }
        match burial.left.last() {
            Some(place) => {
                burial.in_flight = true;
                core.write(*place, Bytes(BLOCK), Buffer::Metadata, Purpose::Burial, Cause::Metadata, out);
            }
            None => {
                core.burying = false;
                match placed {
                    Placed::Linear(linear) => linear.buried(core, out),
                    Placed::Hybrid(hybrid) => hybrid.buried(core, now, out),
                    Placed::Logging(logging) => logging.buried(core, now, out),
                }
            }
        }
    }

    /// A superblock was written or flushed, or was not. One copy is durable before the other is touched.
    pub(crate) fn burial_step(&mut self, failed: bool, out: &mut Commands) {
        let Engine { core, burial, .. } = self;
        burial.in_flight = false;
        match burial.stage {
            // Another device has died meanwhile.
            Stage::Quiescing => {}
            _ if failed => {
                burial.stage = Stage::Writing;
                burial.retry_at = core.now.saturating_add(RETRY);
                core.due(burial.retry_at);
            }
            Stage::Writing => {
                let (device, _) = *burial.left.last().expect("what was written is still on the list");
                burial.stage = Stage::Flushing;
                burial.in_flight = true;
                core.flush_besides(device, Purpose::Burial, out);
            }
            Stage::Flushing => {
                burial.left.pop();
                burial.stage = Stage::Writing;
            }
        }
    }

    /// The superblock that a command of a burial writes.
    pub(crate) fn encode_burial(&self, command: &InFlight, into: &mut [u8]) {
        let identity = self.identity.as_ref().expect("only a volume that was opened from its devices is encoded");
        into.copy_from_slice(&identity.open_superblock(command.device).encode());
    }
}
