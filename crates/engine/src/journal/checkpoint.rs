//! A checkpoint writes the whole durable state at one place, so that the journal before it is no longer needed. It runs
//! `Entries → FlushingEntries → Header → FlushingHeader` while commits continue.

use std::ops::Range;

use peryton_format::{
    block::BLOCK,
    checkpoint::PIECE,
    mutation::{self, Mutation},
};
use peryton_units::Bytes;

use crate::{
    api::command::{Buffer, Cause, DeviceId},
    io::{Call, Step},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Entries,
    FlushingEntries,
    Header,
    FlushingHeader,
}

/// The two devices that a checkpoint is written to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) devices: [DeviceId; 2],
    /// Which of the two devices are not fenced; only these are written.
    pub(crate) alive: [bool; 2],
}

impl Target {
    fn left(&self) -> impl Iterator<Item = DeviceId> + use<> {
        self.devices.into_iter().zip(self.alive).filter_map(|(device, alive)| alive.then_some(device))
    }
}

/// The progress of a checkpoint after one of its commands has completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    UnderWay,
    Failed,
    Durable,
}

/// A checkpoint under way. `H` is the content of its header.
#[derive(Debug)]
pub(crate) struct Checkpoint<H> {
    pub(crate) header: H,
    phase: Phase,
    /// Where the checkpoint begins on either device. Its first block is the header.
    at: Bytes,
    /// What is to be written before the header to the first and to the second device, as bytes of the checkpoint, from the last on.
    left: [Vec<Range<u64>>; 2],
    in_flight: u32,
    failed: bool,
    /// Bytes of the journal's ring that are free once the checkpoint is durable.
    pub(crate) covers: u64,
}

impl<H> Checkpoint<H> {
    /// Starts a checkpoint that begins at `at`: issues the first write of `parts` to each device that is not fenced.
    pub(crate) fn begin<S: Step>(
        header: H,
        (at, mut parts): (Bytes, [Vec<Range<u64>>; 2]),
        covers: u64,
        io: &mut Call<S>,
        to: Target,
        step: S,
    ) -> Checkpoint<H> {
        parts.iter_mut().for_each(|parts| parts.reverse());
        let mut checkpoint =
            Checkpoint { header, phase: Phase::Entries, at, left: parts, in_flight: 0, failed: false, covers };
        for which in 0..2 {
            if to.alive[which] {
                checkpoint.next_chunk(which, io, to, step);
            }
        }
        checkpoint
    }

    /// Abandons the checkpoint, because a device is fenced or may have lost data that were written to it.
    pub(crate) fn abandon(&mut self) {
        self.failed = true;
    }

    /// Issues the next write of entries to a device: at most [`PIECE`] bytes, one write in flight per device, so that the
    /// checkpoint does not crowd out the host.
    fn next_chunk<S: Step>(&mut self, which: usize, io: &mut Call<S>, to: Target, step: S) {
        let Some(part) = self.left[which].last_mut().filter(|_| !self.failed) else { return };
        let at = self.at + Bytes(part.start);
        let len = PIECE.min(part.end - part.start);
        part.start += len;
        if part.is_empty() {
            self.left[which].pop();
        }
        self.in_flight += 1;
        io.write((to.devices[which], at), Bytes(len), Buffer::Metadata, step, Cause::Metadata);
    }

    /// Handles a completed command of the checkpoint and issues the next ones.
    pub(crate) fn step<S: Step>(
        &mut self,
        io: &mut Call<S>,
        (device, failed): (DeviceId, bool),
        to: Target,
        step: S,
    ) -> Progress {
        self.in_flight -= 1;
        self.failed |= failed;
        if self.phase == Phase::Entries {
            self.next_chunk(usize::from(device == to.devices[1]), io, to, step);
        }
        if self.in_flight > 0 {
            return Progress::UnderWay;
        }
        if self.failed {
            return Progress::Failed;
        }
        self.phase = match self.phase {
            Phase::Entries if mutation::is(Mutation::HeaderBeforeEntries) => Phase::Header,
            Phase::Entries => Phase::FlushingEntries,
            Phase::FlushingEntries => Phase::Header,
            Phase::Header => Phase::FlushingHeader,
            Phase::FlushingHeader => return Progress::Durable,
        };
        for device in to.left() {
            self.in_flight += 1;
            if self.phase == Phase::Header {
                io.write((device, self.at), Bytes(BLOCK), Buffer::Metadata, step, Cause::Metadata);
            } else {
                io.flush_besides(device, step);
            }
        }
        Progress::UnderWay
    }
}
