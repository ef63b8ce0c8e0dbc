//! Checkpoints: the whole map is written out when half of the ring is used, or when a device has died.

use peryton_format::{
    block::BLOCK,
    checkpoint::{self, CheckpointHeader},
    mutation::{self, Mutation},
    notice::Notice,
};
use peryton_units::Bytes;

use super::{Bar, Journal, Phase};
use crate::{
    command::{Buffer, Cause, Commands, DeviceId},
    core::{Core, Purpose},
};

/// A checkpoint goes out in writes of this size, one in flight per device, so that it does not crowd out the host.
const CHECKPOINT_CHUNK: u64 = checkpoint::PIECE;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckpointPhase {
    Entries,
    FlushingEntries,
    Header,
    FlushingHeader,
}

/// A checkpoint under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checkpoint {
    pub(super) header: CheckpointHeader,
    phase: CheckpointPhase,
    /// Bytes of entries written so far on the fast and the slow device, and commands in flight.
    written: [u64; 2],
    in_flight: u32,
    pub(super) failed: bool,
    /// How much of the ring the checkpoint makes free.
    covers: u64,
}

impl Journal {
    /// Starts writing the whole map out if half of the ring is used and no commit is under way.
    pub(crate) fn checkpoint_if_needed(&mut self, core: &mut Core, out: &mut Commands) {
        let needed = match self.bar {
            Bar::Open => self.used * 2 > self.layout.journal_bytes || self.ring_is_full(),
            Bar::Draining => true,
            Bar::Ready => false,
        };
        if self.checkpoint.is_some() || self.phase != Phase::Idle || !needed || core.now < self.retry_at {
            return;
        }
        if self.bar == Bar::Draining {
            // A commit that failed may be left in the survivor's journal, and what it says of those after it is not so.
            (self.next_commit, self.attempt) = (self.next_commit + 1, 0);
            // So may a checkpoint on the dead device, in the same place: its entries are not to be taken for these.
            self.checkpoint_number += 2;
        }
        self.checkpoint = Some(Checkpoint {
            header: self.next_header(core.tuning.mirror_journal),
            phase: CheckpointPhase::Entries,
            written: [0, 0],
            in_flight: 0,
            failed: false,
            covers: self.used,
        });
        if mutation::is(Mutation::FreeRingEarly) {
            self.checkpoint.as_mut().expect("it has just begun").covers = 0;
            self.used = 0;
        }
        for device in 0..2 {
            if self.alive[device] {
                self.next_chunk(device, core, out);
            }
        }
    }

    fn next_chunk(&mut self, device: usize, core: &mut Core, out: &mut Commands) {
        let total = self.layout.checkpoint_bytes - BLOCK;
        let checkpoint = self.checkpoint.as_mut().expect("a chunk is written only while a checkpoint is under way");
        let len = CHECKPOINT_CHUNK.min(total - checkpoint.written[device]);
        if len == 0 || checkpoint.failed {
            return;
        }
        let at = self.layout.checkpoint_at(checkpoint.header.which()) + Bytes(BLOCK + checkpoint.written[device]);
        checkpoint.written[device] += len;
        checkpoint.in_flight += 1;
        let id = [self.fast, self.slow][device];
        core.write((id, at), Bytes(len), Buffer::Metadata, Purpose::Checkpoint, Cause::Metadata, out);
    }

    /// A command of the checkpoint has completed.
    pub(crate) fn checkpoint_step(&mut self, core: &mut Core, device: DeviceId, failed: bool, out: &mut Commands) {
        let checkpoint = self.checkpoint.as_mut().expect("a chunk completes only while a checkpoint is under way");
        checkpoint.in_flight -= 1;
        checkpoint.failed |= failed;
        if checkpoint.phase == CheckpointPhase::Entries {
            self.next_chunk(usize::from(device == self.slow), core, out);
        }
        let checkpoint = self.checkpoint.as_mut().expect("still under way");
        if checkpoint.in_flight > 0 {
            return;
        }
        if checkpoint.failed {
            self.checkpoint = None;
            return self.pause(core);
        }
        checkpoint.phase = match checkpoint.phase {
            CheckpointPhase::Entries if mutation::is(Mutation::HeaderBeforeEntries) => CheckpointPhase::Header,
            CheckpointPhase::Entries => CheckpointPhase::FlushingEntries,
            CheckpointPhase::FlushingEntries => CheckpointPhase::Header,
            CheckpointPhase::Header => CheckpointPhase::FlushingHeader,
            CheckpointPhase::FlushingHeader => {
                self.used -= checkpoint.covers;
                // Commits may have told more since it began.
                let Notice { alone, home } = checkpoint.header.notice;
                self.told = Notice { alone, home: home && self.told.home };
                if self.bar == Bar::Draining {
                    self.bar = Bar::Ready;
                }
                core.is_durable();
                self.checkpoint_number = checkpoint.header.number;
                core.ledger.checkpoints += 1;
                self.checkpoint = None;
                return;
            }
        };
        let alive = self.alive;
        checkpoint.in_flight = alive.into_iter().map(u32::from).sum();
        let (phase, at) = (checkpoint.phase, self.layout.checkpoint_at(checkpoint.header.which()));
        for (device, alive) in [self.fast, self.slow].into_iter().zip(alive) {
            match phase {
                _ if !alive => {}
                CheckpointPhase::Header => {
                    let len = Bytes(BLOCK);
                    core.write((device, at), len, Buffer::Metadata, Purpose::Checkpoint, Cause::Metadata, out);
                }
                _ => core.flush_besides(device, Purpose::Checkpoint, out),
            }
        }
    }
}
