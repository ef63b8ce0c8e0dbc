//! Copies the regions of a device to its successor, one piece at a time.

use std::{collections::BTreeMap, ops::Range};

use peryton_format::{
    block::BLOCK,
    mutation::{self, Mutation},
};
use peryton_units::{Bytes, Nanos, Op};

use super::{Stage, regions::State};
use crate::{
    api::command::{Buffer, Cause, Command, Commands},
    io::Purpose,
    lifecycle::drive::Drive,
    placement::PlacementOps,
};

/// What cannot be read is tried again after this time.
const AGAIN: Nanos = Nanos::from_s(60);
const BUFFER: Buffer = Buffer::Copy { offset: Bytes::ZERO };

/// What is being done with a piece.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Step {
    #[default]
    None,
    Reading(Range<u64>),
    /// It was read, or it is to be zeros because it cannot be.
    Read(Range<u64>, bool),
    Writing(Range<u64>),
}

/// The region that is being copied.
#[derive(Debug, Default)]
pub(super) struct Copying {
    region: Option<usize>,
    /// The pieces of it that are not copied, the next one last.
    left: Vec<Range<u64>>,
    step: Step,
    /// Whether it has to be copied again: it was written meanwhile, or the old device may have lost what was read.
    is_overtaken: bool,
    /// Whether a part of it cannot be read and is needed.
    lacks: bool,
    began: Nanos,
    /// When the next region may begin.
    next_at: Nanos,
    /// When what cannot be read is tried again.
    again_at: Option<Nanos>,
    /// Blocks that cannot be read: where they begin and end.
    bad: BTreeMap<u64, u64>,
}

impl Copying {
    /// These regions are being written.
    pub(super) fn is_written(&mut self, regions: Range<usize>) {
        self.is_overtaken |= self.region.is_some_and(|region| regions.contains(&region));
    }

    /// A flush of the old device has failed.
    pub(super) fn is_in_doubt(&mut self) {
        self.is_overtaken = true;
    }

    /// How much cannot be read, and the first ranges of it.
    pub(super) fn unreadable(&self, most: usize) -> (Bytes, Vec<Range<Bytes>>) {
        let mut ranges: Vec<Range<Bytes>> = Vec::new();
        for (from, to) in &self.bad {
            match ranges.last_mut() {
                Some(last) if last.end.0 == *from => last.end = Bytes(*to),
                _ => ranges.push(Bytes(*from)..Bytes(*to)),
            }
        }
        ranges.truncate(most);
        (Bytes(self.bad.iter().map(|(from, to)| to - from).sum()), ranges)
    }
}

impl<P: PlacementOps> Drive<P> {
    /// Handles the end of a read or write of a piece.
    pub(super) fn copied(&mut self, failed: bool) {
        let Some(successor) = &mut self.successor else { return };
        let copying = &mut successor.copying;
        copying.step = match std::mem::take(&mut copying.step) {
            Step::Reading(piece) if failed && piece.end - piece.start > BLOCK => {
                // A bad sector must not cost what lies around it.
                let half = (piece.end - piece.start) / 2;
                let middle = piece.start + half.next_multiple_of(BLOCK);
                copying.left.extend([middle..piece.end, piece.start..middle]);
                Step::None
            }
            Step::Reading(piece) if failed => {
                copying.bad.insert(piece.start, piece.end);
                if piece.start >= successor.needed_to && successor.plan.accept_loss {
                    Step::Read(piece, true)
                } else {
                    copying.lacks = true;
                    Step::None
                }
            }
            Step::Reading(piece) => Step::Read(piece, false),
            Step::Writing(piece) if failed => {
                copying.left.push(piece);
                successor.fails();
                return;
            }
            Step::Writing(piece) => {
                successor.done += piece.end - piece.start;
                successor.failures = 0;
                Step::None
            }
            other => other,
        };
    }

    /// Begins the next command of a copy, if it is time for one.
    pub(super) fn go_on_copying(&mut self, out: &mut Commands) {
        let Drive { successor: Some(successor), io, .. } = self else { return };
        if successor.in_flight {
            return;
        }
        if let Step::Read(piece, zeros) = successor.copying.step.clone() {
            let (device, at, len) = (successor.id, Bytes(piece.start), Bytes(piece.end - piece.start));
            if zeros {
                out.push(Command::Clear { buffer: BUFFER, len });
            }
            let id = io.start_aside(Purpose::Copy, Op::Write, (device, at), len, BUFFER);
            out.push(Command::Write { io: id, device, at, len, buffer: BUFFER, cause: Cause::Metadata });
            successor.copying.step = Step::Writing(piece);
            (successor.in_flight, successor.is_acting) = (true, false);
            return;
        }
        if successor.copying.left.is_empty() {
            if let Some(region) = successor.copying.region.take() {
                let copying = &successor.copying;
                let state = match () {
                    () if copying.is_overtaken && !mutation::is(Mutation::TrustCopiedOver) => State::Absent,
                    () if copying.lacks => State::Unreadable,
                    () => State::Copied,
                };
                successor.regions.set(region, state);
                successor.regions.stamp(region, io.stamp(successor.plan.device));
                let rate = u128::from(successor.plan.rate.0);
                let length = u128::from(successor.regions.length()) * 1_000_000_000;
                let least = length.checked_div(rate).unwrap_or(0);
                let least = Nanos(u64::try_from(least).unwrap_or(u64::MAX));
                successor.copying.next_at = successor.copying.began.saturating_add(least);
            }
            if successor.regions.count(State::Absent) == 0 && successor.regions.count(State::Unreadable) > 0 {
                let again_at = *successor.copying.again_at.get_or_insert(io.now.saturating_add(AGAIN));
                if io.now < again_at {
                    return io.due(again_at);
                }
                successor.copying.again_at = None;
                successor.regions.retry();
            }
            if successor.stage != Stage::Copying || successor.regions.count(State::Absent) == 0 {
                return;
            }
            if io.now < successor.copying.next_at {
                return io.due(successor.copying.next_at);
            }
            let Some(region) = successor.regions.next() else { return };
            let range = successor.regions.range(region);
            let last = successor.last_block;
            let copying = &mut successor.copying;
            copying.region = Some(region);
            (copying.is_overtaken, copying.lacks, copying.began) = (false, false, io.now);
            copying.bad.retain(|from, _| !range.contains(from));
            // Each of the two devices has superblocks of its own.
            let parts = [(last + BLOCK).max(range.start)..range.end, range.start.max(BLOCK)..range.end.min(last)];
            copying.left.extend(parts.into_iter().filter(|part| part.start < part.end));
            if copying.left.is_empty() {
                return self.go_on_copying(out);
            }
        }
        let Some(piece) = successor.copying.left.pop() else { return };
        let (device, at, len) = (successor.plan.device, Bytes(piece.start), Bytes(piece.end - piece.start));
        let id = io.start_aside(Purpose::Copy, Op::Read, (device, at), len, BUFFER);
        out.push(Command::Read { io: id, device, at, len, buffer: BUFFER, cause: Cause::Metadata });
        successor.copying.step = Step::Reading(piece);
        (successor.in_flight, successor.is_acting) = (true, false);
    }
}
