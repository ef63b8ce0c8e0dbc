//! Checkpoints: everything that is durable is written out at once, so that the journal before it is not needed any more.
//! A checkpoint runs `Entries → FlushingEntries → Header → FlushingHeader` beside the commits.

use peryton_format::{
    block::BLOCK,
    checkpoint::PIECE,
    mutation::{self, Mutation},
};
use peryton_units::Bytes;

use crate::{
    api::command::{Buffer, Cause, Commands, DeviceId},
    io::{Io, Step},
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Entries,
    FlushingEntries,
    Header,
    FlushingHeader,
}

/// The devices that a checkpoint goes to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    pub(crate) devices: [DeviceId; 2],
    /// Which of them are not fenced.
    pub(crate) alive: [bool; 2],
}

impl Target {
    fn left(&self) -> impl Iterator<Item = DeviceId> + use<> {
        self.devices.into_iter().zip(self.alive).filter_map(|(device, alive)| alive.then_some(device))
    }
}

/// How far a checkpoint is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    UnderWay,
    Failed,
    Durable,
}

/// A checkpoint under way. `H` is what its header says.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpoint<H> {
    pub(crate) header: H,
    phase: Phase,
    /// Where it begins on either device, and how long it is; its first block is the header.
    at: Bytes,
    bytes: u64,
    /// Bytes of entries written so far on the first and the second device, and commands in flight.
    written: [u64; 2],
    in_flight: u32,
    failed: bool,
    /// How much of the ring the checkpoint makes free.
    pub(crate) covers: u64,
}

impl<H> Checkpoint<H> {
    /// Begins to write it out.
    pub(crate) fn begin<S: Step>(
        header: H,
        (at, bytes): (Bytes, u64),
        covers: u64,
        io: &mut Io<S>,
        to: Target,
        step: S,
        out: &mut Commands,
    ) -> Checkpoint<H> {
        let mut checkpoint = Checkpoint {
            header,
            phase: Phase::Entries,
            at,
            bytes,
            written: [0, 0],
            in_flight: 0,
            failed: false,
            covers,
        };
        for which in 0..2 {
            if to.alive[which] {
                checkpoint.next_chunk(which, io, to, step, out);
            }
        }
        checkpoint
    }

    /// A device is fenced: the checkpoint comes to nothing.
    pub(crate) fn fence(&mut self) {
        self.failed = true;
    }

    /// It goes out in writes of [`PIECE`], one in flight a device, so that it does not crowd out the host.
    fn next_chunk<S: Step>(&mut self, which: usize, io: &mut Io<S>, to: Target, step: S, out: &mut Commands) {
        let len = PIECE.min(self.bytes - BLOCK - self.written[which]);
        if len == 0 || self.failed {
            return;
        }
        let at = self.at + Bytes(BLOCK + self.written[which]);
        self.written[which] += len;
        self.in_flight += 1;
        io.write((to.devices[which], at), Bytes(len), Buffer::Metadata, step, Cause::Metadata, out);
    }

    /// A command of the checkpoint has completed.
    pub(crate) fn step<S: Step>(
        &mut self,
        io: &mut Io<S>,
        (device, failed): (DeviceId, bool),
        to: Target,
        step: S,
        out: &mut Commands,
    ) -> Progress {
        self.in_flight -= 1;
        self.failed |= failed;
        if self.phase == Phase::Entries {
            self.next_chunk(usize::from(device == to.devices[1]), io, to, step, out);
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
                io.write((device, self.at), Bytes(BLOCK), Buffer::Metadata, step, Cause::Metadata, out);
            } else {
                io.flush_besides(device, step, out);
            }
        }
        Progress::UnderWay
    }
}
