//! Devices that die while the drive runs: how they are fenced.
//!
//! A device is dead when the driver says so ([`Engine::device_failed`](crate::Engine::device_failed)), when it failed 16
//! commands in a row over two seconds and a flush on top (the flush tells a dead device from bad sectors), or when it
//! failed eight commands for metadata with no commit between them. Until then every failure counts for itself: commits
//! are tried again, and errors reach the host for the ranges concerned only.
//!
//! Fencing goes `Quiescing → Writing ⇄ Flushing → over`: what is being committed comes to an end, the survivor gets the
//! whole map, and then each survivor's superblocks say that the device is fenced. Until they are durable no flush is
//! answered: nothing may be promised that the dead device, should it come back with what it held, could contradict.
//! From then on it is refused.

use peryton_format::{
    block::BLOCK,
    mutation::{self, Mutation},
};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::{Commands, DeviceId},
    io::InFlight,
    lifecycle::drive::Drive,
    placement::PlacementOps,
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

/// How far the survivors know that a device is fenced.
#[derive(Debug, Default)]
pub(crate) struct Fencing {
    stage: Stage,
    /// Superblocks still to be written, the next one last.
    left: Vec<(DeviceId, Bytes)>,
    in_flight: bool,
    retry_at: Nanos,
}

impl<P: PlacementOps> Drive<P> {
    /// See [`Engine::device_failed`](crate::Engine::device_failed).
    #[cold]
    pub(crate) fn device_failed(&mut self, now: Nanos, device: DeviceId, out: &mut Commands) {
        if device.index() >= self.device_bytes.len() || self.io.is_fenced(device) {
            return;
        }
        let now = self.io.advance(now);
        self.io.fence(device);
        self.io.fencing = true;
        if let Some(identity) = &mut self.identity {
            identity.set_gone(device);
        }
        self.fencing.stage = Stage::Quiescing;
        self.fencing.left.clear();
        self.fencing.retry_at = Nanos::ZERO;
        let lost = self.placed.fence(&mut self.io, now, device, out);
        self.io.owes_error |= lost;
        self.go_on_fencing(now, out);
    }

    /// A command has failed, or a device is being fenced.
    #[cold]
    pub(super) fn after_failure(&mut self, now: Nanos, command: &InFlight<P::Step>, failed: bool, out: &mut Commands) {
        if failed && self.io.is_lost_cause(now, command, out) {
            self.device_failed(now, command.device, out);
        } else if self.io.fencing {
            self.go_on_fencing(now, out);
        }
    }

    /// Goes on with what has to be done before it is durable that a device is fenced.
    #[cold]
    pub(super) fn go_on_fencing(&mut self, now: Nanos, out: &mut Commands) {
        let Drive { io, fencing, placed, .. } = self;
        if fencing.in_flight {
            return;
        }
        if now < fencing.retry_at {
            return io.due(fencing.retry_at);
        }
        if fencing.stage == Stage::Quiescing {
            if !placed.is_ready_to_fence(io, out) {
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
                fencing.in_flight = true;
                io.write_fence(*place, Bytes(BLOCK), out);
            }
            None => {
                io.fencing = false;
                placed.fence_is_durable(io, now, out);
            }
        }
    }

    /// A superblock was written or flushed, or was not. One copy is durable before the other is touched.
    pub(super) fn fence_step(&mut self, failed: bool, out: &mut Commands) {
        let Drive { io, fencing, .. } = self;
        fencing.in_flight = false;
        match fencing.stage {
            // Another device has died meanwhile.
            Stage::Quiescing => {}
            _ if failed => {
                fencing.stage = Stage::Writing;
                fencing.retry_at = io.now.saturating_add(RETRY);
                io.due(fencing.retry_at);
            }
            Stage::Writing => {
                let (device, _) = *fencing.left.last().expect("what was written is still on the list");
                fencing.stage = Stage::Flushing;
                fencing.in_flight = true;
                io.flush_fence(device, out);
            }
            Stage::Flushing => {
                fencing.left.pop();
                fencing.stage = Stage::Writing;
            }
        }
    }

    /// The superblock that a command of fencing writes.
    pub(super) fn encode_fence(&self, command: &InFlight<P::Step>, into: &mut [u8]) {
        let identity = self.identity.as_ref().expect("only a volume that was opened from its devices is encoded");
        into.copy_from_slice(&identity.open_superblock(command.device).encode());
    }
}
