//! Checkpoints of the map: one is written when half of the ring is used, or when a device is fenced.

use peryton_format::{
    mutation::{self, Mutation},
    notice::Notice,
};

use crate::{
    api::command::DeviceId,
    cache::journal::map_journal::{CommitHold, MapJournal},
    cache::step::{CacheCall, CacheIo, CacheStep},
    journal::{Checkpoint, Progress},
};

impl MapJournal {
    /// Begins a checkpoint if half of the ring is used and no commit is under way, or if a device is being fenced.
    pub(crate) fn checkpoint_if_needed(&mut self, io: &mut CacheCall) {
        let needed = match self.hold {
            CommitHold::None => self.ring.used() > self.ring.bytes() / 2 || self.ring_is_full(),
            CommitHold::Draining => true,
            CommitHold::AwaitingSuperblocks => false,
        };
        if self.checkpoint.is_some() || !self.group.is_idle() || !needed || self.group.is_paused(io.now) {
            return;
        }
        if self.hold == CommitHold::Draining {
            // A failed commit may remain in the survivor's journal. What it says about later commits is wrong, so its
            // number is skipped.
            (self.next_commit, self.attempt) = (self.next_commit + 1, 0);
            // A failed checkpoint may remain on the fenced device in the same place. Its entries must not be taken for
            // this checkpoint's, so its number is skipped too.
            self.checkpoint_number += 2;
        }
        let header = self.next_header(&io.tuning);
        self.names.checkpoint_begins();
        let place = (self.layout.checkpoint_at(header.which()), self.blocks.begin(&header));
        let mut covers = self.ring.used();
        if mutation::is(Mutation::FreeRingEarly) {
            self.ring.release(covers);
            covers = 0;
        }
        let to = self.target();
        self.checkpoint = Some(Checkpoint::begin(header, place, covers, io, to, CacheStep::Checkpoint));
    }

    /// Handles a completed command of the checkpoint.
    pub(crate) fn checkpoint_step(&mut self, io: &mut CacheCall, device: DeviceId, failed: bool) {
        let to = self.target();
        let checkpoint = self.checkpoint.as_mut().expect("a chunk completes only while a checkpoint is under way");
        match checkpoint.step(io, (device, failed), to, CacheStep::Checkpoint) {
            Progress::UnderWay => {}
            Progress::Failed => {
                self.blocks.failed(&checkpoint.header);
                self.checkpoint = None;
                self.pause(io);
            }
            Progress::Durable => {
                let (header, covers) = (checkpoint.header, checkpoint.covers);
                self.ring.release(covers);
                // Commits may have recorded more on the slow device since the checkpoint began.
                self.notified = Notice {
                    slow_current: header.notice.slow_current && self.notified.slow_current,
                    write_intent: header.notice.write_intent,
                };
                if self.hold == CommitHold::Draining {
                    self.hold = CommitHold::AwaitingSuperblocks;
                }
                io.on_durable();
                self.checkpoint_number = header.number;
                io.stats.checkpoints += 1;
                self.checkpoint = None;
            }
        }
    }

    /// Starts the pause after a failed commit or checkpoint.
    #[cold]
    pub(in crate::cache) fn pause(&mut self, io: &mut CacheIo) {
        self.group.wanted = false;
        self.group.pause(io);
    }
}
