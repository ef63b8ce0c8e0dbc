//! A device is replaced while the volume is served. Its successor is filled without the knowledge of the placement.
//!
//! The old device stays in charge until everything is copied. It is copied region by region, at a bounded rate. A write to a region that
//! was copied goes to both devices, and counts as carried out when both have done it. A write to another region goes to the old device;
//! the region is copied after it, again if need be. So does a discard, which each device may carry out or not. If a flush of the
//! old device fails, it may have lost what was copied from it, or written to both, before that: this is copied again.
//!
//! When everything is copied, the new device is put in charge ([`succession`]). Nothing of this is recorded on the way: a crash
//! before that leaves the old device in charge, and copying begins again.

mod copying;
mod regions;
mod succession;

use std::collections::BTreeMap;

use peryton_format::mutation::{self, Mutation};
use peryton_units::{Bytes, Nanos, Op};

use self::{
    regions::{Regions, State},
    succession::Act,
};
use crate::{
    api::command::{Buffer, Cause, Command, Commands, DeviceId, IoId},
    api::config::Placement,
    api::succession::{Succession, SuccessionEnd, SuccessionError, SuccessionPlan, SuccessionStage},
    io::Purpose,
    lifecycle::drive::Drive,
    placement::PlacementOps,
};

/// The new device is given up after it has failed this many commands in a row.
const MOST_FAILURES: u32 = 8;

/// A write of the placement to the old device.
#[derive(Debug)]
struct Write {
    id: IoId,
    at: u64,
    len: u64,
    /// Whether the successor has the regions.
    is_twinned: bool,
    /// The same write to the successor.
    twin: Option<IoId>,
    /// Whether the old device has failed it, once it has ended there.
    failed: Option<bool>,
    /// The same for the successor.
    twin_failed: Option<bool>,
    /// Whether it is a flush or a write of metadata, on which the record of a lost device may wait.
    is_metadata: bool,
}

impl Write {
    /// Whether it has ended wherever it was sent.
    fn has_ended(&self) -> bool {
        self.failed.is_some() && (self.twin.is_none() || self.twin_failed.is_some())
    }

    /// Whether the old device has what the successor lacks.
    fn is_on_one(&self) -> bool {
        self.failed == Some(false) && (self.twin.is_none() || self.twin_failed == Some(true))
    }
}

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The successor gets superblocks that do not count yet.
    Naming,
    Copying,
    /// The successor will be put in charge when the writes in flight have ended.
    Draining,
    /// It is being put in charge.
    Succeeding,
    /// It could not be put in charge, because a device that had to record this takes no writes, or the last of them has died. Until the
    /// superblocks of the others say again that the old device is in charge, or record the death, a recovery may find either of the two in
    /// charge, so everything goes to both, flushes as well. A write may be on the old device only, because another write to the same place
    /// was in flight or the successor failed it. Such a write is not answered before.
    Failing(SuccessionEnd),
    /// It is over, but for commands in flight.
    Ending(SuccessionEnd),
}

/// A device that is to take the place of another one.
#[derive(Debug)]
pub(crate) struct Successor {
    plan: SuccessionPlan,
    /// The number under which the driver has the new device, and later the old one.
    id: DeviceId,
    stage: Stage,
    /// How many successions of the device the old one counts, and the new one.
    counts: (u8, u8),
    regions: Regions,
    /// Blocks of the device that are not copied, because they are superblocks: the first, and the one that begins here.
    last_block: u64,
    /// Where what ends that has to be read: metadata of the placement, and with it everything of a log. The engine writes it again
    /// and again, so the old device will have it whole one day.
    needed_to: u64,
    began: Nanos,
    /// How many bytes were copied, again or not.
    done: u64,
    /// Writes in flight to the old device, by the indices of their ids.
    writes: BTreeMap<usize, Write>,
    /// For each command of the successor in flight, the command of the old device that it repeats, by the indices of their ids. A flush
    /// that the old device has failed does not wait for the successor's, which then repeats none.
    twins: BTreeMap<usize, Option<usize>>,
    copying: copying::Copying,
    /// Failures of the new device in a row.
    failures: u32,
    /// Whether a command of this is in flight, and whether that belongs to putting the successor in charge.
    in_flight: bool,
    is_acting: bool,
    /// What the placement has asked of the old device since the successor is being put in charge.
    held: Commands,
    /// What remains to be done for that, the next one last.
    acts: Vec<Act>,
    /// When the act that failed is tried again.
    retry_at: Nanos,
    /// How often another device has failed to record it, in a row.
    refusals: u32,
    /// Whether a flush of another device has failed, which may have lost the superblock that is being written.
    is_in_doubt: bool,
    /// Whether the new device has superblocks that would be accepted without the other devices.
    is_open: bool,
    /// Whether the superblocks that are written now put the successor in charge.
    is_committing: bool,
    /// Whether the two devices have changed places.
    has_succeeded: bool,
}

impl Successor {
    fn holds(&self) -> bool {
        matches!(self.stage, Stage::Draining | Stage::Succeeding)
    }

    fn is_failing(&self) -> bool {
        matches!(self.stage, Stage::Failing(_))
    }

    fn tracks(&self) -> bool {
        matches!(self.stage, Stage::Naming | Stage::Copying | Stage::Failing(_))
    }

    /// Whether a write to this range goes to the successor as well: it has all of it, and no other write to a part of it is in
    /// flight, which the two devices might carry out in different orders.
    fn has(&self, at: u64, len: u64) -> bool {
        let mut regions = self.regions.of(at, len);
        // Everything was copied before that stage, and nothing is copied in it.
        let is_failing = self.is_failing() && !mutation::is(Mutation::AnswerOnOne);
        (is_failing || regions.all(|region| self.regions.state(region) == State::Copied))
            && self.writes.values().all(|write| write.at + write.len <= at || at + len <= write.at)
    }

    /// Notes a write to the old device. Returns whether its twin is to be sent.
    fn begin_write(&mut self, id: IoId, at: u64, len: u64, (can_be_twinned, is_metadata): (bool, bool)) -> bool {
        let is_twinned = can_be_twinned && self.has(at, len);
        if !is_twinned {
            self.copying.is_written(self.regions.of(at, len));
        }
        self.regions.begin_write(self.regions.of(at, len), is_twinned);
        let write = Write { id, at, len, is_twinned, twin: None, failed: None, twin_failed: None, is_metadata };
        self.writes.insert(id.index(), write);
        is_twinned
    }

    /// Whether the write, which has ended, is not answered yet.
    fn withholds(&self, write: &Write) -> bool {
        let is_found_on_one = self.is_failing() && !write.is_metadata && write.is_on_one();
        is_found_on_one && !mutation::is(Mutation::AnswerOnOne)
    }

    fn fails(&mut self) {
        self.failures += 1;
        if self.failures >= MOST_FAILURES {
            self.end(SuccessionEnd::SuccessorFailed);
        }
    }

    /// Ends it, unless it has ended or the successor may be in charge already.
    fn end(&mut self, how: SuccessionEnd) {
        if !self.is_committing && !matches!(self.stage, Stage::Failing(_) | Stage::Ending(_)) {
            self.stage = Stage::Ending(how);
            self.acts.clear();
        }
    }
}

impl<P: PlacementOps> Drive<P> {
    /// The device that is being replaced.
    pub(crate) fn replaced_now(&self) -> Option<DeviceId> {
        self.successor.as_ref().map(|successor| successor.plan.device)
    }

    /// See [`Engine::can_replace_in_service`](crate::Engine::can_replace_in_service). Returns how many successions the old device counts
    /// and the new one will, what the volume uses of it, and what is to be copied.
    pub(crate) fn can_replace_in_service(
        &self,
        plan: SuccessionPlan,
    ) -> Result<(u8, u8, Bytes, Bytes), SuccessionError> {
        let (device, devices) = (plan.device.index(), self.device_bytes.len());
        let Some(identity) = self.identity.as_ref().filter(|_| device < devices) else {
            return Err(SuccessionError::Unknown { device });
        };
        if let Some(replaced) = self.replaced_now() {
            return Err(SuccessionError::Busy { device: replaced.index() });
        }
        if self.resizing.is_some() {
            return Err(SuccessionError::Resizing);
        }
        if self.displaced.is_some() {
            return Err(SuccessionError::Adopted);
        }
        if devices == 1 || matches!(self.placement, Placement::Single { .. }) {
            return Err(SuccessionError::Alone);
        }
        if let Some(device) = (0..devices).find(|device| self.io.fenced >> device & 1 == 1) {
            return Err(SuccessionError::Gone { device });
        }
        // A number is given once in a generation, so that no successor that failed is taken for a later one.
        let before = identity.successions[device];
        let count = self.named[device].max(before).saturating_add(1);
        let Some(count) = Some(count).filter(|count| *count < succession::NEVER) else {
            return Err(SuccessionError::TooOften { device });
        };
        let used = self.device_bytes[device];
        let is_fast = self.placement.hybrid().is_some_and(|pair| pair.fast == plan.device);
        let room = self.placed.warmth().filter(|_| is_fast).map_or(Bytes::ZERO, |warmth| warmth.room);
        let need = used + room;
        if plan.size < need {
            return Err(SuccessionError::TooSmall { device, size: plan.size, need });
        }
        Ok((before, count, used, need))
    }

    /// See [`Engine::replace_in_service`](crate::Engine::replace_in_service).
    pub(crate) fn replace_in_service(
        &mut self,
        now: Nanos,
        plan: SuccessionPlan,
        out: &mut Commands,
    ) -> Result<(), SuccessionError> {
        let (before, count, used, need) = self.can_replace_in_service(plan)?;
        let (device, devices) = (plan.device.index(), self.device_bytes.len());
        let now = self.io.advance(now);
        let mut successor = Successor {
            plan,
            id: DeviceId(devices as u8),
            stage: Stage::Naming,
            counts: (before, count),
            regions: Regions::new(need.0),
            last_block: used.0 - peryton_format::block::BLOCK,
            needed_to: match &self.placement {
                Placement::Single { .. } | Placement::Linear { .. } => 0,
                Placement::Logging(pair) if pair.log == plan.device => u64::MAX,
                _ => self.data_at[device].0,
            },
            began: now,
            done: 0,
            writes: BTreeMap::new(),
            twins: BTreeMap::new(),
            copying: copying::Copying::default(),
            failures: 0,
            in_flight: false,
            is_acting: false,
            held: Commands::new(),
            acts: Vec::new(),
            retry_at: Nanos::ZERO,
            refusals: 0,
            is_committing: false,
            has_succeeded: false,
            is_in_doubt: false,
            is_open: false,
        };
        let writes = |op| matches!(op, Op::Write | Op::Discard);
        for id in self.io.all_in_flight() {
            if let Some(command) = self.io.in_flight(id)
                && command.device == plan.device
                && writes(command.op)
                && matches!(command.purpose, Purpose::Step(_))
            {
                successor.begin_write(id, command.at.0, command.len.0, (false, false));
            }
        }
        self.successor = Some(Box::new(successor));
        self.ended = None;
        self.named[device] = count;
        self.name_successor();
        self.go_on_replacing(out);
        Ok(())
    }

    /// See [`Engine::stop_replacing`](crate::Engine::stop_replacing).
    pub(crate) fn stop_replacing(&mut self, now: Nanos, out: &mut Commands) {
        self.io.advance(now);
        if let Some(successor) = &mut self.successor {
            successor.end(SuccessionEnd::Stopped);
            self.go_on_replacing(out);
        }
    }

    /// See [`Engine::succession`](crate::Engine::succession).
    pub(crate) fn succession(&self, most: usize) -> Option<Succession> {
        let successor = self.successor.as_ref()?;
        let regions = &successor.regions;
        let stage = match successor.stage {
            Stage::Copying if regions.is_complete() => SuccessionStage::Copied,
            Stage::Copying if regions.count(State::Absent) == 0 => SuccessionStage::Unreadable,
            Stage::Naming | Stage::Copying => SuccessionStage::Copying,
            Stage::Draining | Stage::Succeeding | Stage::Failing(_) => SuccessionStage::Succeeding,
            Stage::Ending(_) => SuccessionStage::Ending,
        };
        let (unreadable, ranges) = successor.copying.unreadable(most);
        Some(Succession {
            plan: successor.plan,
            stage,
            total: Bytes(regions.end()),
            copied: Bytes(regions.copied()),
            done: Bytes(successor.done),
            unreadable,
            ranges,
            took: self.io.now.saturating_sub(successor.began),
        })
    }

    /// The length of the buffer through which a device is copied.
    pub(crate) fn copy_buffer_bytes(&self) -> Bytes {
        self.successor.as_ref().map_or(Bytes::ZERO, |successor| Bytes(successor.regions.length()))
    }

    /// Sends what the placement has asked of the old device, from the command with this index on, to its successor as well.
    #[cold]
    pub(super) fn mirror(&mut self, from: usize, out: &mut Commands) {
        let Drive { successor: Some(successor), io, .. } = self else { return };
        if !successor.holds() && !successor.tracks() {
            return;
        }
        for command in out.split_off(from) {
            let (id, device, at, len, buffer) = match command {
                Command::Write { io, device, at, len, buffer, .. } => (io, device, at, len, Some(buffer)),
                Command::Zero { io, device, at, len } => (io, device, at, len, Some(Buffer::Metadata)),
                Command::Discard { io, device, at, len } => (io, device, at, len, None),
                Command::Read { io, device, at, len, .. } if successor.holds() => (io, device, at, len, None),
                Command::Flush { io, device } if successor.is_failing() => {
                    (io, device, Bytes::ZERO, Bytes::ZERO, Some(Buffer::Metadata))
                }
                _ => {
                    out.push(command);
                    continue;
                }
            };
            let of_placement = io.in_flight(id).is_some_and(|row| matches!(row.purpose, Purpose::Step(_)));
            if device != successor.plan.device || !of_placement {
                out.push(command);
                continue;
            }
            if successor.holds() {
                successor.held.push(command);
                continue;
            }
            let is_metadata = matches!(command, Command::Flush { .. } | Command::Write { cause: Cause::Metadata, .. });
            let is_twinned = successor.begin_write(id, at.0, len.0, (buffer.is_some(), is_metadata));
            out.push(command);
            if !is_twinned || mutation::is(Mutation::ForgetSuccessor) {
                continue;
            }
            let to = successor.id;
            let buffer = buffer.expect("what has none is not sent twice");
            let op = match command {
                Command::Zero { .. } => Op::Discard,
                Command::Flush { .. } => Op::Flush,
                _ => Op::Write,
            };
            let twin = io.start_aside(Purpose::Twin, op, (to, at), len, buffer);
            out.push(match command {
                Command::Zero { .. } => Command::Zero { io: twin, device: to, at, len },
                Command::Flush { .. } => Command::Flush { io: twin, device: to },
                Command::Write { buffer, cause, .. } => Command::Write { io: twin, device: to, at, len, buffer, cause },
                _ => unreachable!("nothing else is sent twice"),
            });
            successor.writes.get_mut(&id.index()).expect("it has just begun").twin = Some(twin);
            successor.twins.insert(twin.index(), Some(id.index()));
        }
    }

    /// Takes the end of a command that concerns the old device or its successor. Returns whether nothing else has to be done.
    #[cold]
    pub(super) fn successor_takes(&mut self, now: Nanos, id: IoId, failed: bool) -> bool {
        let Drive { successor: Some(successor), io, .. } = self else { return false };
        let Some(command) = io.in_flight(id).copied() else { return false };
        let own = successor.plan.device;
        let doubts = failed && command.op == Op::Flush && command.device == own && !successor.has_succeeded;
        if doubts {
            successor.regions.doubt(|stamp| io.is_flushed(own, stamp));
            successor.copying.is_in_doubt();
        }
        match command.purpose {
            Purpose::Copy if command.device == successor.id || command.op == Op::Read => {
                io.advance(now);
                io.finish_aside(id);
                successor.in_flight = false;
                match successor.is_acting {
                    true => self.succession_step(failed),
                    false => self.copied(failed),
                }
                true
            }
            Purpose::Twin => {
                io.advance(now);
                io.finish_aside(id);
                let Some(index) = successor.twins.remove(&id.index()).expect("a twin is in flight once") else {
                    return true;
                };
                let write = successor.writes.get_mut(&index).expect("it waits for its twin");
                write.twin_failed = Some(failed);
                self.end_write(index);
                true
            }
            Purpose::Step(_) if command.device == own => {
                let Some(write) = successor.writes.get_mut(&id.index()) else { return false };
                write.failed = Some(failed);
                // What the device has lost with a flush is in doubt at once: a later flush of it succeeds without that.
                if doubts && let Some(twin) = write.twin.filter(|_| write.twin_failed.is_none()) {
                    write.twin_failed = Some(false);
                    successor.twins.insert(twin.index(), None);
                }
                self.end_write(id.index());
                true
            }
            _ => false,
        }
    }

    /// Answers the writes that were withheld.
    pub(super) fn end_withheld(&mut self) {
        let Some(successor) = &self.successor else { return };
        let ended: Vec<usize> =
            successor.writes.iter().filter(|(_, write)| write.has_ended()).map(|(index, _)| *index).collect();
        for index in ended {
            self.end_write(index);
        }
    }

    /// Ends a write if it has ended wherever it was sent. The drive reports it to the placement.
    fn end_write(&mut self, index: usize) {
        let Drive { successor: Some(successor), io, .. } = self else { return };
        let ends = |write: &Write| write.has_ended() && !successor.withholds(write);
        if !successor.writes.get(&index).is_some_and(ends) {
            return;
        }
        let Some(write) = successor.writes.remove(&index) else { return };
        let regions = successor.regions.of(write.at, write.len);
        let failed = write.failed == Some(true);
        successor.regions.end_write(regions.clone());
        if write.is_twinned {
            if failed || write.twin_failed == Some(true) {
                successor.copying.is_written(regions.clone());
                regions.clone().for_each(|region| successor.regions.set(region, State::Absent));
            }
            let stamp = io.stamp(successor.plan.device);
            regions.for_each(|region| successor.regions.stamp(region, stamp));
            match write.twin_failed {
                Some(true) => successor.fails(),
                _ => successor.failures = 0,
            }
        }
        self.ended_writes.push((write.id, failed));
    }

    /// The command whose data this one writes to the successor.
    pub(super) fn twin_of(&self, id: IoId) -> IoId {
        let successor = self.successor.as_ref().expect("a twin is in flight");
        let original = successor.twins[&id.index()].expect("what is written has an original until it has ended");
        successor.writes[&original].id
    }

    /// A device has died. Returns whether that is of no consequence, because its successor has everything and is being put in charge.
    pub(super) fn is_survived(&mut self, device: DeviceId) -> bool {
        let Some(successor) = &mut self.successor else { return false };
        if device == successor.plan.device && successor.stage == Stage::Succeeding && !successor.has_succeeded {
            return true;
        }
        successor.end(SuccessionEnd::DeviceGone);
        false
    }
}
