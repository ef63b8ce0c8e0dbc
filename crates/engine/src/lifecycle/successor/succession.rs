//! Puts the successor of a device in charge.
//!
//! Commands of the placement to the device wait meanwhile, except flushes. When the reads and writes in flight have ended, the two devices
//! hold the same data, and the successor is flushed. Its superblocks were written before it was filled. They count one succession more than
//! those of the other devices, so it is not part of the volume. Now they also say that it is open. Then the superblocks of the
//! other devices count the succession as well, one after the other. The first of these puts the successor in charge, and from then on the
//! old device counts too few. At last the old device's superblocks, if they can be written, say that it is aside.

use peryton_format::{
    block::BLOCK,
    mutation::{self, Mutation},
    superblock::{Superblock, VolumeState},
};
use peryton_units::{Bytes, Nanos, Op};

use super::Stage;
use crate::{
    api::command::{Buffer, Cause, Command, Commands, DeviceId},
    api::succession::{SuccessionEnd, SuccessionError},
    io::Purpose,
    lifecycle::drive::Drive,
    placement::PlacementOps,
};

/// After this many failures in a row of a device that has to record the succession, the old device stays in charge.
const MOST_REFUSALS: u32 = 3;

/// A number of successions that no device is given.
pub(super) const NEVER: u8 = u8::MAX;

/// What a block that is written is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// Of the successor, before it has everything.
    Aside,
    /// Of the successor, when it has.
    Successor,
    /// Of another device, when the successor is in charge.
    Open,
    /// Of the successor, when it will not be in charge, whatever the other devices say.
    GivenUp,
    /// Of the old device, when it is not in charge any more.
    Replaced,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    Flush {
        device: DeviceId,
        again: Option<(Bytes, Content)>,
    },
    Write {
        device: DeviceId,
        at: Bytes,
        content: Content,
    },
    /// From now on superblocks of the other devices count the succession.
    Commit,
    /// The devices change places.
    Succeed,
    /// What has waited goes on.
    Release,
}

/// The acts that write both copies of a superblock, in the reverse order.
fn both(device: DeviceId, last: Bytes, content: Content) -> [Act; 4] {
    let write = |at| Act::Write { device, at, content };
    let flush = |at| Act::Flush { device, again: Some((at, content)) };
    [flush(Bytes::ZERO), write(Bytes::ZERO), flush(last), write(last)]
}

/// The acts by which the other devices record which of the two is in charge.
fn recorded(used: &[Bytes], own: DeviceId) -> impl Iterator<Item = Act> {
    let others = (0..).map(DeviceId).zip(used).filter(move |(device, _)| *device != own);
    others.flat_map(|(device, used)| both(device, *used - Bytes(BLOCK), Content::Open))
}

impl<P: PlacementOps> Drive<P> {
    /// See [`Engine::succeed`](crate::Engine::succeed).
    pub(crate) fn succeed(&mut self, now: Nanos, out: &mut Commands) -> Result<(), SuccessionError> {
        self.io.advance(now);
        let copied = |successor: &super::Successor| {
            successor.stage == Stage::Copying && successor.regions.is_complete() && !successor.in_flight
        };
        let Some(successor) = self.successor.as_mut().filter(|successor| copied(successor)) else {
            return Err(SuccessionError::NotCopied);
        };
        successor.stage = Stage::Draining;
        self.go_on_replacing(out);
        Ok(())
    }

    /// Continues with whatever can be done now.
    pub(in crate::lifecycle) fn go_on_replacing(&mut self, out: &mut Commands) {
        let Some(successor) = &mut self.successor else { return };
        match successor.stage {
            Stage::Naming if successor.acts.is_empty() => {
                successor.stage = Stage::Copying;
                self.go_on_copying(out);
            }
            Stage::Naming => self.go_on_succeeding(out),
            Stage::Copying => self.go_on_copying(out),
            Stage::Draining => {
                // A read that the old device answers after it is in charge no more might find what it has lost by then.
                let own = successor.plan.device;
                let is_held =
                    |id| successor.held.iter().any(|held| matches!(held, Command::Read { io, .. } if *io == id));
                let reads = |id| self.io.in_flight(id).is_some_and(|row| row.device == own && row.op == Op::Read);
                let is_read = || self.io.all_in_flight().any(|id| reads(id) && !is_held(id));
                if !successor.writes.is_empty() || successor.in_flight || is_read() {
                    return;
                }
                if !successor.regions.is_complete() || self.io.fencing {
                    // Part of it has to be copied again.
                    successor.stage = Stage::Copying;
                    let (from, held) = (out.len(), std::mem::take(&mut successor.held));
                    out.extend(held);
                    self.mirror(from, out);
                    return self.go_on_copying(out);
                }
                self.plan_succession();
                self.go_on_succeeding(out);
            }
            Stage::Succeeding => self.go_on_succeeding(out),
            Stage::Failing(_) if !successor.acts.is_empty() => self.go_on_succeeding(out),
            Stage::Failing(_) if self.io.fencing => {}
            Stage::Failing(how) => {
                successor.stage = Stage::Ending(how);
                self.end_withheld();
                self.go_on_replacing(out);
            }
            Stage::Ending(how) => {
                out.append(&mut successor.held);
                if successor.in_flight || !successor.writes.is_empty() || !successor.twins.is_empty() {
                    return;
                }
                if std::mem::take(&mut successor.is_open) {
                    // Without the other devices it would be taken for the one in charge.
                    successor.acts.extend(both(successor.id, Bytes(successor.last_block), Content::GivenUp));
                }
                if successor.acts.is_empty() {
                    self.ended = Some(how);
                    self.successor = None;
                } else {
                    self.go_on_succeeding(out);
                }
            }
        }
    }

    /// Lets the successor's superblocks say that it is aside, before anything is copied: a device with a part of another one's metadata
    /// would be taken for one that has lost its superblocks.
    pub(super) fn name_successor(&mut self) {
        let Some(successor) = &mut self.successor else { return };
        if !mutation::is(Mutation::SucceedUnnamed) {
            successor.acts = both(successor.id, Bytes(successor.last_block), Content::Aside).to_vec();
        }
    }

    fn plan_succession(&mut self) {
        let Some(successor) = &mut self.successor else { return };
        let last = Bytes(successor.last_block);
        let (own, new) = (successor.plan.device, successor.id);
        // The next act is the last one in the list.
        let mut acts = both(new, last, Content::Replaced).to_vec();
        acts.extend([Act::Release, Act::Succeed]);
        acts.extend(recorded(&self.device_bytes, own));
        acts.push(Act::Commit);
        if !mutation::is(Mutation::SucceedUnnamed) {
            acts.extend(both(new, last, Content::Successor));
        }
        acts.push(Act::Flush { device: new, again: None });
        successor.acts = acts;
        successor.stage = Stage::Succeeding;
    }

    fn go_on_succeeding(&mut self, out: &mut Commands) {
        loop {
            let Drive { successor: Some(successor), io, identity: Some(identity), .. } = self else { return };
            if successor.in_flight {
                return;
            }
            if io.now < successor.retry_at {
                return io.due(successor.retry_at);
            }
            let own = successor.plan.device;
            let Some(act) = successor.acts.last().copied() else { return self.go_on_replacing(out) };
            match act {
                Act::Flush { device, .. } | Act::Write { device, .. } if io.is_fenced(device) => {
                    successor.acts.pop();
                    let others = (0..self.device_bytes.len() as u8).map(DeviceId).filter(|device| *device != own);
                    if !successor.has_succeeded && others.into_iter().all(|device| io.is_fenced(device)) {
                        // No other device is left to record it. What the last one has recorded may count until it is recorded that
                        // this one is gone.
                        return self.fail_succession(SuccessionEnd::DeviceGone, Vec::new(), out);
                    }
                }
                // What it has recorded may count until it has recorded the contrary.
                _ if successor.stage == Stage::Succeeding && successor.refusals >= MOST_REFUSALS => {
                    let undone = recorded(&self.device_bytes, own).collect();
                    return self.fail_succession(SuccessionEnd::DeviceRefuses, undone, out);
                }
                Act::Flush { device, .. } => {
                    (successor.in_flight, successor.is_acting) = (true, true);
                    if device == successor.id {
                        let place = (device, Bytes::ZERO);
                        let id = io.start_aside(Purpose::Copy, Op::Flush, place, Bytes::ZERO, Buffer::Metadata);
                        out.push(Command::Flush { io: id, device });
                    } else {
                        io.call(out).flush_for(device, Purpose::Copy);
                    }
                    return;
                }
                Act::Write { device, at, content } => {
                    successor.is_open |= content == Content::Successor;
                    (successor.in_flight, successor.is_acting, successor.is_in_doubt) = (true, true, false);
                    if device == successor.id {
                        let (len, buffer) = (Bytes(BLOCK), Buffer::Metadata);
                        let id = io.start_aside(Purpose::Copy, Op::Write, (device, at), len, buffer);
                        out.push(Command::Write { io: id, device, at, len, buffer, cause: Cause::Metadata });
                    } else {
                        io.call(out).write_superblock((device, at), Purpose::Copy);
                    }
                    return;
                }
                Act::Commit => {
                    if io.fencing {
                        successor.end(SuccessionEnd::DeviceGone);
                        return self.go_on_replacing(out);
                    }
                    successor.acts.pop();
                    successor.is_committing = true;
                    identity.successions[own.index()] = successor.counts.1;
                }
                Act::Succeed => {
                    successor.acts.pop();
                    (successor.has_succeeded, successor.is_open) = (true, false);
                    out.push(Command::Succeed { device: own, successor: successor.id });
                }
                Act::Release => {
                    successor.acts.pop();
                    successor.stage = Stage::Ending(SuccessionEnd::Succeeded);
                    out.append(&mut successor.held);
                }
            }
        }
    }

    /// The successor is not put in charge. Until these acts are carried out and no device is being fenced, both devices get everything.
    fn fail_succession(&mut self, how: SuccessionEnd, acts: Vec<Act>, out: &mut Commands) {
        let Drive { successor: Some(successor), identity: Some(identity), .. } = self else { return };
        identity.successions[successor.plan.device.index()] = successor.counts.0;
        successor.is_committing = false;
        successor.stage = Stage::Failing(how);
        successor.acts = acts;
        let from = out.len();
        out.append(&mut successor.held);
        self.mirror(from, out);
        self.go_on_replacing(out);
    }

    /// Handles the end of an act.
    pub(crate) fn succession_step(&mut self, failed: bool) {
        let Drive { successor: Some(successor), io, .. } = self else { return };
        successor.in_flight = false;
        let Some(act) = successor.acts.last().copied() else { return };
        let device = match act {
            Act::Flush { device, .. } | Act::Write { device, .. } => device,
            Act::Commit | Act::Succeed | Act::Release => return,
        };
        let failed = failed || successor.is_in_doubt && device != successor.id;
        if !failed || successor.has_succeeded || matches!(successor.stage, Stage::Ending(_)) {
            // The devices that say who is in charge have said so: what follows is for later openings.
            successor.acts.pop();
            successor.refusals = 0;
        } else if device == successor.id {
            successor.end(SuccessionEnd::SuccessorFailed);
        } else {
            if let Act::Flush { again: Some((at, content)), .. } = act {
                successor.acts.push(Act::Write { device, at, content });
            }
            successor.refusals += 1;
            successor.retry_at = io.retries_at();
        }
    }

    /// Handles a failed flush of a device of the volume.
    pub(crate) fn succession_in_doubt(&mut self) {
        if let Some(successor) = &mut self.successor {
            successor.is_in_doubt = true;
        }
    }

    /// Whether what the placement asks for waits, or either of two devices may be found in charge: the volume cannot be closed then.
    pub(crate) fn puts_successor_in_charge(&self) -> bool {
        self.successor.as_deref().is_some_and(|successor| successor.holds() || successor.is_failing())
    }

    /// Whether the superblocks of the other devices are being changed, so that others of them have to wait.
    pub(crate) fn is_undecided(&self) -> bool {
        let undecided = |successor: &super::Successor| match successor.stage {
            Stage::Succeeding => !successor.has_succeeded,
            Stage::Failing(_) => !successor.acts.is_empty(),
            _ => false,
        };
        self.successor.as_deref().is_some_and(undecided)
    }

    /// Encodes the block that an act writes.
    pub(crate) fn encode_succession(&self, into: &mut [u8]) {
        let identity = self.identity.as_ref().expect("only a volume that was opened from its devices is encoded");
        let successor = self.successor.as_ref().expect("an act of its is in flight");
        let Some(Act::Write { device, content, .. }) = successor.acts.last().copied() else {
            unreachable!("only a write is encoded")
        };
        let own = successor.plan.device;
        let aside = |count: u8| {
            let mut block = Superblock { device: own, state: VolumeState::Aside, ..identity.clone() };
            block.successions[own.index()] = count;
            block
        };
        let block = match content {
            Content::Aside => aside(successor.counts.1),
            Content::Successor => Superblock { state: VolumeState::Open, ..aside(successor.counts.1) },
            Content::Open => Superblock { device, ..identity.clone() },
            Content::GivenUp => aside(NEVER),
            Content::Replaced => aside(successor.counts.0),
        };
        into.copy_from_slice(&block.encode());
    }

    /// The superblock of a device that is being replaced counts fewer successions than the others.
    pub(crate) fn own_succession(&self, block: &mut Superblock) {
        if let Some(successor) = &self.successor
            && successor.plan.device == block.device
            && successor.is_committing
            && !successor.has_succeeded
        {
            block.successions[block.device.index()] = successor.counts.0;
        }
    }
}
