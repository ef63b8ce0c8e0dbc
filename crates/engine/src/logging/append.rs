//! Appends: small writes are gathered into a buffer and appended with one header; large ones are appended from the
//! host's own buffer.
//!
//! A group goes `gathering → flying → retired`. Groups retire in the order in which they lie in the log, whatever order
//! they complete in: only then do their records enter the map and are their requests answered. A record can therefore be
//! trusted only if all before it are there, and a replay of the log may stop at the first hole.
//!
//! The first 4 KiB of a gathered group are its header, which the engine encodes like any other metadata; they and the
//! padding count as part of the append.

use std::collections::VecDeque;

use peryton_units::{Bytes, Nanos};

use super::{
    Logging, Step,
    block_map::SECTOR,
    direct::{Piece, Way},
    log::HEADER,
};
use crate::{
    command::{Buffer, Cause, Command, Commands},
    core::{Core, Purpose},
};

/// Buffers for groups; a write that finds them all in flight waits for one.
pub(super) const BUFFERS: u32 = 8;
/// Without a delay, writes are gathered while so many appends are under way: one that the disk is writing, and one that
/// it has at hand to go on with, so that it does not lose a revolution between the two.
const AT_ONCE: usize = 2;
/// What a header has room for, at 24 bytes each.
const MOST_MEMBERS: usize = 168;
/// What an entry of a checkpoint takes: where on the volume, where in the segment, how long.
const INDEX_BYTES: u64 = 16;
/// A log device that fails so many appends in a row is left alone for a while.
const MOST_FAILURES: u32 = 3;
const PAUSE: Nanos = Nanos::from_s(1);

#[derive(Clone, Copy, Debug)]
struct Member {
    piece: Piece,
    /// Where in the group its data is.
    within: u32,
}

#[derive(Debug, Default)]
struct Group {
    members: Vec<Member>,
    /// Where in the log; known once it flies.
    at: u64,
    /// How much of it is filled, the header included.
    len: u64,
    buffer: Option<u32>,
    /// Commands in flight.
    pending: u8,
    failed: bool,
    /// It holds the index of so many records rather than data.
    indexes: u64,
    /// When its first member came.
    since: Nanos,
}

#[derive(Debug)]
pub(super) struct Appends {
    groups: Vec<Group>,
    free: Vec<u32>,
    gathering: Option<u32>,
    /// In the order of the log.
    flying: VecDeque<u32>,
    buffers: Vec<u32>,
    /// Records that no checkpoint has yet.
    not_indexed: u64,
    checkpoint_due: Nanos,
    failures: u32,
    paused_until: Nanos,
}

impl Appends {
    pub(super) fn new() -> Appends {
        Appends {
            groups: Vec::new(),
            free: Vec::new(),
            gathering: None,
            flying: VecDeque::new(),
            buffers: (0..BUFFERS).rev().collect(),
            not_indexed: 0,
            checkpoint_due: Nanos::MAX,
            failures: 0,
            paused_until: Nanos::ZERO,
        }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.gathering.is_none() && self.flying.is_empty()
    }

    /// Groups whose commands have not all completed, and those not yet retired.
    pub(super) fn flying(&self) -> usize {
        self.flying.len()
    }

    /// Whether the range is on its way into the log.
    pub(super) fn overlaps(&self, from: u64, to: u64) -> bool {
        let groups = self.flying.iter().chain(&self.gathering);
        groups.flat_map(|group| &self.groups[*group as usize].members).any(|member| member.piece.overlaps(from, to))
    }

    fn take(&mut self, now: Nanos) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.groups.push(Group::default());
            self.groups.len() as u32 - 1
        });
        let group = &mut self.groups[index as usize];
        let members = std::mem::take(&mut group.members);
        debug_assert!(members.is_empty());
        *group = Group { members, len: HEADER, since: now, ..Group::default() };
        index
    }

    /// The group's members are elsewhere now.
    fn give_back(&mut self, index: u32, mut members: Vec<Member>) {
        members.clear();
        let group = &mut self.groups[index as usize];
        group.members = members;
        self.buffers.extend(group.buffer.take());
        self.free.push(index);
    }
}

impl Logging {
    /// Whether the log takes writes at all.
    #[inline]
    pub(super) fn log_takes_writes(&self, now: Nanos) -> bool {
        !self.log.is_full() && (self.appends.failures < MOST_FAILURES || now >= self.appends.paused_until)
    }

    /// Appends a piece, or says that there is no buffer for it.
    #[inline]
    pub(super) fn append(&mut self, core: &mut Core, now: Nanos, piece: Piece, out: &mut Commands) -> bool {
        let padding = piece.offset % SECTOR;
        let limit = (HEADER + core.tuning.logging.gather_bytes.0 + SECTOR).min(self.log.segment_bytes());
        if HEADER + padding + piece.len > limit {
            self.append_alone(core, now, piece, out);
            return true;
        }
        let fits = |group: &Group| {
            let within = group.len.next_multiple_of(SECTOR) + padding;
            within + piece.len <= limit && group.members.len() < MOST_MEMBERS
        };
        if let Some(index) = self.appends.gathering
            && !fits(&self.appends.groups[index as usize])
        {
            self.launch(core, now, out);
        }
        let index = match self.appends.gathering {
            Some(index) => index,
            None => {
                let Some(buffer) = self.appends.buffers.pop() else { return false };
                let index = self.appends.take(now);
                self.appends.groups[index as usize].buffer = Some(buffer);
                self.appends.gathering = Some(index);
                index
            }
        };
        let group = &mut self.appends.groups[index as usize];
        let within = group.len.next_multiple_of(SECTOR) + padding;
        group.len = within + piece.len;
        group.members.push(Member { piece, within: within as u32 });
        let buffer = group.buffer.expect("a gathered group has a buffer");
        out.push(Command::Copy {
            from: Buffer::Request { id: core.id_of(piece.request), offset: Bytes(piece.buffer) },
            to: Buffer::Move { index: buffer, offset: Bytes(within) },
            len: Bytes(piece.len),
        });
        let delay = core.tuning.logging.gather_delay;
        if delay == Nanos::ZERO {
            if self.appends.flying.len() < AT_ONCE {
                self.launch(core, now, out);
            }
        } else if group.members.len() == 1 {
            core.due(now.saturating_add(delay));
        }
        true
    }

    /// A large piece goes from the host's buffer; only its header is made here.
    fn append_alone(&mut self, core: &mut Core, now: Nanos, piece: Piece, out: &mut Commands) {
        let within = HEADER + piece.offset % SECTOR;
        let Some(at) = self.log.allocate((within + piece.len).next_multiple_of(HEADER)) else {
            return self.place(core, now, piece, Way::Direct, out);
        };
        let index = self.appends.take(now);
        let group = &mut self.appends.groups[index as usize];
        group.members.push(Member { piece, within: within as u32 });
        (group.at, group.pending) = (at, 2);
        self.appends.flying.push_back(index);
        let purpose = Purpose::Log(Step::Append { group: index });
        core.write(self.log_place(at), Bytes(HEADER), Buffer::Metadata, purpose, Cause::Metadata, out);
        let buffer = Buffer::Request { id: core.id_of(piece.request), offset: Bytes(piece.buffer) };
        core.write(self.log_place(at + within), Bytes(piece.len), buffer, purpose, Cause::Host, out);
        let books = core.ledger.logging_mut();
        books.appends += 1;
        books.overhead_bytes += HEADER;
    }

    /// Sends the gathered group off.
    #[inline]
    fn launch(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        let Some(index) = self.appends.gathering.take() else { return };
        let len = self.appends.groups[index as usize].len.next_multiple_of(HEADER);
        let Some(at) = self.log.allocate(len) else {
            return self.write_members_directly(core, now, index, out);
        };
        let group = &mut self.appends.groups[index as usize];
        (group.at, group.pending) = (at, 1);
        let data: u64 = group.members.iter().map(|member| member.piece.len).sum();
        let buffer = Buffer::Move { index: group.buffer.expect("gathered in a buffer"), offset: Bytes::ZERO };
        self.appends.flying.push_back(index);
        let purpose = Purpose::Log(Step::Append { group: index });
        core.write(self.log_place(at), Bytes(len), buffer, purpose, Cause::Host, out);
        let books = core.ledger.logging_mut();
        books.appends += 1;
        books.overhead_bytes += len - data;
    }

    /// The log could not take the group: it goes to the primary.
    fn write_members_directly(&mut self, core: &mut Core, now: Nanos, index: u32, out: &mut Commands) {
        let members = std::mem::take(&mut self.appends.groups[index as usize].members);
        for member in &members {
            self.place(core, now, member.piece, Way::Direct, out);
        }
        self.appends.give_back(index, members);
    }

    #[inline]
    pub(super) fn append_step(&mut self, core: &mut Core, now: Nanos, index: u32, failed: bool, out: &mut Commands) {
        let group = &mut self.appends.groups[index as usize];
        assert!(group.pending > 0, "an append completed twice");
        group.pending -= 1;
        group.failed |= failed;
        if self.appends.flying.front() != Some(&index) || group.pending > 0 {
            return;
        }
        while let Some(front) = self.appends.flying.front().copied()
            && self.appends.groups[front as usize].pending == 0
        {
            self.appends.flying.pop_front();
            self.retire(core, now, front, out);
        }
        if core.tuning.logging.gather_delay == Nanos::ZERO && self.appends.flying.len() < AT_ONCE {
            self.launch(core, now, out);
        }
        self.retry_parked(core, now, out);
        self.migrate_if_due(core, now, out);
        self.pump_migration(core, now, out);
    }

    #[inline]
    fn retire(&mut self, core: &mut Core, now: Nanos, index: u32, out: &mut Commands) {
        let group = &mut self.appends.groups[index as usize];
        let (at, failed, indexes) = (group.at, group.failed, group.indexes);
        let segment = self.log.segment_of(at);
        self.log.segments[segment as usize].appends -= 1;
        if failed {
            self.appends.failures += 1;
            self.appends.paused_until = now.saturating_add(PAUSE);
            self.appends.not_indexed += indexes;
            core.ledger.logging_mut().failed_appends += 1;
            return self.write_members_directly(core, now, index, out);
        }
        self.appends.failures = 0;
        if indexes > 0 {
            core.ledger.logging_mut().checkpoints += 1;
            core.ledger.checkpoints += 1;
            return self.appends.give_back(index, Vec::new());
        }
        let members = std::mem::take(&mut group.members);
        if self.log.live == 0 {
            self.first_logged(core, now);
        }
        if self.appends.not_indexed == 0 {
            self.appends.checkpoint_due = now.saturating_add(core.tuning.logging.checkpoint_interval);
            core.due(self.appends.checkpoint_due);
        }
        self.appends.not_indexed += members.len() as u64;
        let books = core.ledger.logging_mut();
        books.records += members.len() as u64;
        for Member { piece, within } in &members {
            let at = at + u64::from(*within);
            core.ledger.logging_mut().bytes_appended += piece.len;
            let Logging { map, log, .. } = self;
            log.add(piece.offset, at, piece.len as u32);
            map.install(piece.offset, piece.offset + piece.len, at, |at, len| log.superseded(at, len));
            core.part_done(piece.request, Ok(()), out);
        }
        self.appends.give_back(index, members);
    }

    pub(super) fn tick_appends(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        if let Some(index) = self.appends.gathering {
            let due = self.appends.groups[index as usize].since.saturating_add(core.tuning.logging.gather_delay);
            if due <= now {
                self.launch(core, now, out);
            } else {
                core.due(due);
            }
        }
        if self.appends.not_indexed > 0 {
            if self.appends.checkpoint_due <= now {
                self.checkpoint(core, out);
                self.appends.checkpoint_due = now.saturating_add(core.tuning.logging.checkpoint_interval);
            }
            if self.appends.not_indexed > 0 {
                core.due(self.appends.checkpoint_due);
            }
        }
    }

    /// Appends the index of the records since the last checkpoint (Griffin, sections 5.4 and 6.4: the recent contents of
    /// the map are flushed every 30 s), so that a restart reads it rather than the headers. The disk does not leave its
    /// track for it. A full log has no room, and nothing new either.
    fn checkpoint(&mut self, core: &mut Core, out: &mut Commands) {
        while self.appends.not_indexed > 0 {
            let room = (self.most_record.max(HEADER) & !(HEADER - 1)).max(HEADER);
            let indexes = self.appends.not_indexed.min(room / INDEX_BYTES);
            let len = HEADER + (indexes * INDEX_BYTES).next_multiple_of(HEADER);
            let Some(at) = self.log.allocate(len) else { return };
            self.appends.not_indexed -= indexes;
            let index = self.appends.take(Nanos::ZERO);
            let group = &mut self.appends.groups[index as usize];
            (group.at, group.pending, group.indexes) = (at, 1, indexes);
            self.appends.flying.push_back(index);
            let purpose = Purpose::Log(Step::Append { group: index });
            core.write(self.log_place(at), Bytes(len), Buffer::Metadata, purpose, Cause::Metadata, out);
        }
    }
}
