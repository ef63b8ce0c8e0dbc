//! Fencing: what happens when a device dies while the drive runs.
//!
//! A device counts as dead in three cases. The driver reports it ([`Engine::device_failed`](crate::Engine::device_failed)).
//! It failed 16 commands in a row over two seconds and then a flush, which distinguishes a dead device from bad sectors.
//! Or it failed eight metadata commands with no durable commit between them. Before that, commits are repeated, and the host
//! gets errors for the affected ranges only. A device that can still be read ([`Excuses`](crate::Excuses)) stays while it is
//! needed; after eight failed metadata commands, flushes of the host fail.
//!
//! Fencing goes `Quiescing → Writing ⇄ Flushing → over`. First, commits under way end. Then the survivor gets the whole
//! map. Then each survivor's superblocks record that the device is fenced. No flush is answered until they are durable,
//! because the dead device could come back with its old content and contradict what was promised. Once they are
//! durable, such a device is refused.

use peryton_format::{
    block::BLOCK,
    displaced::Displaced,
    mutation::{self, Mutation},
    superblock::Superblock,
};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::{Commands, DeviceId},
    api::resizing::ResizeEnd,
    io::{InFlight, Purpose, Verdict},
    lifecycle::drive::Drive,
    placement::PlacementOps,
};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    /// Commands under way are ending.
    #[default]
    Quiescing,
    Writing,
    Flushing,
}

/// How far the survivors have recorded that a device is fenced.
#[derive(Debug, Default)]
pub(crate) struct Fencing {
    stage: Stage,
    /// The superblocks that are still to be written; the next one is last.
    left: Vec<(DeviceId, Bytes)>,
    in_flight: bool,
    retry_at: Nanos,
    /// Whether a flush has failed meanwhile, so that the superblock that is being written is in doubt.
    in_doubt: bool,
}

impl Fencing {
    /// Handles a failed flush of a device that is not fenced: the device may have lost the superblock that is being written.
    pub(super) fn flush_failed(&mut self) {
        self.in_doubt = true;
    }
}

impl<P: PlacementOps> Drive<P> {
    /// See [`Engine::device_failed`](crate::Engine::device_failed).
    #[cold]
    pub(crate) fn device_failed(&mut self, now: Nanos, device: DeviceId, out: &mut Commands) {
        self.io.advance(now);
        self.give_up(device, out);
    }

    #[cold]
    fn give_up(&mut self, device: DeviceId, out: &mut Commands) {
        if device.index() >= self.device_bytes.len() || self.io.is_fenced(device) || self.is_survived(device) {
            return;
        }
        self.end_resizing(ResizeEnd::DeviceGone);
        self.io.fence(device);
        self.io.fencing = true;
        if let Some(identity) = &mut self.identity {
            identity.gone |= 1 << device.index();
            identity.given_up = self.placed.given_up_with(device, identity.given_up);
            identity.seals[device.index()] = identity.generation;
        }
        self.fencing.stage = Stage::Quiescing;
        self.fencing.left.clear();
        self.fencing.retry_at = Nanos::ZERO;
        let lost = self.placed.fence(&mut self.io.call(out), device);
        // The map does not say what is displaced to the device, and some of that may have been answered and not flushed.
        let loses_displaced = |displaced: &Displaced| displaced.is_elsewhere() && displaced.home == device;
        if lost || self.displaced.as_ref().is_some_and(loses_displaced) {
            self.io.owe_error_of_fenced();
        }
        self.go_on_fencing(out);
    }

    /// Handles a failed command or one that follows it, gives up a device that is needed no more, and continues fencing if a device is being fenced.
    #[cold]
    pub(super) fn after_failure(&mut self, command: &InFlight<P::Step>, failed: bool, out: &mut Commands) {
        let verdict = if failed { self.io.call(out).verdict(command) } else { Verdict::Passes };
        let mut refusing =
            (0..self.device_bytes.len() as u8).map(DeviceId).filter(|device| self.io.is_refusing(*device));
        let dead = match verdict {
            Verdict::Dead => Some(command.device),
            Verdict::Refuses | Verdict::Passes => refusing.find(|device| !self.is_needed(*device)),
        };
        if let Some(device) = dead {
            return self.give_up(device, out);
        }
        if verdict == Verdict::Refuses {
            // Those who wait hear of it. What they wait for stays, and a later flush may make it durable.
            self.placed.fail_flushes(&mut self.io.call(out));
        }
        if self.io.fencing {
            self.go_on_fencing(out);
        }
    }

    /// Continues with the steps that must precede the durable record of fencing.
    #[cold]
    pub(super) fn go_on_fencing(&mut self, out: &mut Commands) {
        let is_undecided = self.is_undecided();
        let Drive { io, fencing, placed, .. } = self;
        if fencing.in_flight || is_undecided {
            return;
        }
        if io.now < fencing.retry_at {
            return io.due(fencing.retry_at);
        }
        if fencing.stage == Stage::Quiescing {
            if !placed.is_ready_to_fence(&mut io.call(out)) {
                return;
            }
            fencing.stage = Stage::Writing;
            if !mutation::is(Mutation::ForgetGone) {
                let survivors =
                    (0..).map(DeviceId).zip(&self.device_bytes).filter(|(device, _)| !io.is_fenced(*device));
                let ends = survivors.flat_map(|(device, used)| [(device, *used - Bytes(BLOCK)), (device, Bytes::ZERO)]);
                fencing.left.extend(ends);
            }
        }
        match fencing.left.last() {
            Some(place) => {
                (fencing.in_flight, fencing.in_doubt) = (true, false);
                io.call(out).write_superblock(*place, Purpose::Fence);
            }
            None => {
                io.fencing = false;
                // If no device is left, nothing says so, and no flush is answered any more.
                if (0..self.device_bytes.len()).any(|device| io.fenced >> device & 1 == 0) {
                    io.recorded = io.fenced;
                }
                placed.fence_is_durable(&mut io.call(out));
            }
        }
    }

    /// Handles a superblock that was written or flushed, or failed. One copy is durable before the other is changed.
    pub(super) fn fence_step(&mut self, failed: bool, out: &mut Commands) {
        let Drive { io, fencing, .. } = self;
        fencing.in_flight = false;
        let failed = failed || fencing.in_doubt;
        match fencing.stage {
            // Another device died meanwhile, and fencing starts again.
            Stage::Quiescing => {}
            _ if failed => {
                fencing.stage = Stage::Writing;
                fencing.retry_at = io.retries_at();
            }
            Stage::Writing => {
                let (device, _) = *fencing.left.last().expect("what was written is still on the list");
                fencing.stage = Stage::Flushing;
                fencing.in_flight = true;
                io.call(out).flush_for(device, Purpose::Fence);
            }
            Stage::Flushing => {
                fencing.left.pop();
                fencing.stage = Stage::Writing;
            }
        }
    }

    /// Encodes the superblock that a command of fencing writes.
    pub(super) fn encode_fence(&self, command: &InFlight<P::Step>, into: &mut [u8]) {
        let identity = self.identity.as_ref().expect("only a volume that was opened from its devices is encoded");
        let mut block = Superblock { device: command.device, ..identity.clone() };
        self.own_succession(&mut block);
        into.copy_from_slice(&block.encode());
    }
}
