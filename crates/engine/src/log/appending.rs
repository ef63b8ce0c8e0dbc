//! Appends: small writes are gathered into a buffer and appended with one header; large ones are appended from the
//! host's own buffer.
//!
//! A group goes `gathering → flying → retired`. Groups retire in the order in which they lie in the log, whatever order
//! they complete in. Only then do their records enter the map and are their requests answered. So everything that a
//! host flush covers lies before the first append that a crash can lose, and a replay of the log may stop there.
//!
//! The first 4 KiB of a gathered group are its header, which the engine encodes like other metadata. Header and padding
//! count as part of the append.

use peryton_format::{
    log::header::{self, AppendBody, AppendHeader, AppendMember, IndexSpan, MOST_MEMBERS},
    log::ring::CommitRecord,
    log::{HEADER, SECTOR},
    superblock::VolumeId,
};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::{Buffer, Buffers, Cause, Command},
    log::append::{Group, Member},
    log::deferred::DeferredPiece,
    log::direct::{Past, Piece, Way},
    log::drive::LogDrive,
    log::index::Pending,
    log::ready::Turn,
    log::segments::Space,
    log::step::{LogCall, LogIo, LogStep},
};

/// Without a gathering delay, writes are gathered while this many appends are in flight: one that the disk is writing
/// and one queued behind it, so that the disk does not lose a revolution between them.
const AT_ONCE: usize = 2;

/// After this many failed appends in a row the log takes no writes for [`PAUSE`].
const MOST_FAILURES: u32 = 3;

const PAUSE: Nanos = Nanos::from_s(1);

impl LogDrive {
    /// Whether the log takes writes: it has room, the ring of commits has room, and its device is not paused.
    #[inline]
    pub(in crate::log) fn log_takes_writes(&self, now: Nanos) -> bool {
        !self.log.is_full()
            && !self.commit.is_full()
            && (self.appends.failures < MOST_FAILURES || now >= self.appends.paused_until)
    }

    /// Appends a piece. Returns false if no buffer is free.
    #[inline]
    pub(in crate::log) fn append(&mut self, io: &mut LogCall, piece: Piece) -> bool {
        let padding = piece.offset % SECTOR;
        let limit = (HEADER + io.tuning.logging.gather_bytes.0 + SECTOR).min(self.log.segment_bytes());
        if HEADER + padding + piece.len > limit {
            self.append_alone(io, piece);
            return true;
        }
        let fits = |group: &Group| {
            let within = group.len.next_multiple_of(SECTOR) + padding;
            within + piece.len <= limit && group.members.len() < MOST_MEMBERS
        };
        if let Some(index) = self.appends.gathering
            && !fits(&self.appends.groups[index])
        {
            self.launch(io);
        }
        let index = match self.appends.gathering {
            Some(index) => index,
            None => {
                let Some(buffer) = self.appends.buffers.pop() else { return false };
                let index = self.appends.take(io.now);
                self.appends.groups[index].buffer = Some(buffer);
                self.appends.gathering = Some(index);
                index
            }
        };
        let group = &mut self.appends.groups[index];
        let within = group.len.next_multiple_of(SECTOR) + padding;
        group.len = within + piece.len;
        group.members.push(Member { piece, within: within as u32 });
        let buffer = group.buffer.expect("a gathered group has a buffer");
        let from = Buffer::Request { id: io.id_of(piece.request), offset: Bytes(piece.buffer) };
        io.out.push(Command::Copy {
            from,
            to: Buffer::Move { index: buffer, offset: Bytes(within) },
            len: Bytes(piece.len),
        });
        let delay = io.tuning.logging.gather_delay;
        if delay == Nanos::ZERO {
            if self.appends.flying.len() < AT_ONCE {
                self.launch(io);
            }
        } else if group.members.len() == 1 {
            io.due_in(delay);
        }
        true
    }

    /// Appends a large piece from the host's own buffer, with a header of its own.
    fn append_alone(&mut self, io: &mut LogCall, piece: Piece) {
        let within = HEADER + piece.offset % SECTOR;
        let len = (within + piece.len).next_multiple_of(HEADER);
        let Some(Space { at, sequence }) = self.log.allocate(len) else {
            return self.goes_past(piece, Past::NoRoom);
        };
        let index = self.appends.take(io.now);
        let group = &mut self.appends.groups[index];
        group.members.push(Member { piece, within: within as u32 });
        (group.at, group.sequence, group.len, group.pending) = (at, sequence, len, 2);
        self.appends.flying.push_back(index);
        let purpose = LogStep::Append { group: index };
        io.write(self.log_place(at), Bytes(HEADER), Buffer::Metadata, purpose, Cause::Metadata);
        let buffer = Buffer::Request { id: io.id_of(piece.request), offset: Bytes(piece.buffer) };
        io.write(self.log_place(at + within), Bytes(piece.len), buffer, purpose, Cause::Host);
        let stats = io.stats.logging_mut();
        stats.appends += 1;
        stats.overhead_bytes += HEADER;
    }

    /// Writes the gathered group to the log.
    #[inline]
    fn launch(&mut self, io: &mut LogCall) {
        let Some(index) = self.appends.gathering.take() else { return };
        let len = self.appends.groups[index].len.next_multiple_of(HEADER);
        let Some(Space { at, sequence }) = self.log.allocate(len) else {
            return self.members_go_past(index, Past::NoRoom);
        };
        let group = &mut self.appends.groups[index];
        (group.at, group.sequence, group.len, group.pending) = (at, sequence, len, 1);
        let data: u64 = group.members.iter().map(|member| member.piece.len).sum();
        let buffer = Buffer::Move { index: group.buffer.expect("gathered in a buffer"), offset: Bytes::ZERO };
        self.appends.flying.push_back(index);
        let purpose = LogStep::Append { group: index };
        io.write(self.log_place(at), Bytes(len), buffer, purpose, Cause::Host);
        // The header must be encoded before the write is carried out.
        if let Some(write @ Command::Write { io: id, .. }) = io.out.pop() {
            io.out.push(Command::Encode { io: id, into: buffer, len: Bytes(HEADER) });
            io.out.push(write);
        }
        let stats = io.stats.logging_mut();
        stats.appends += 1;
        stats.overhead_bytes += len - data;
    }

    /// The piece is to be written to the primary because the log has no room for it, or its append failed.
    fn goes_past(&mut self, piece: Piece, why: Past) {
        self.deferred.defer(DeferredPiece { piece, way: Way::Direct(why) });
        self.ready.push(Turn::Pieces);
    }

    fn members_go_past(&mut self, index: u32, why: Past) {
        let members = std::mem::take(&mut self.appends.groups[index].members);
        for member in &members {
            self.goes_past(member.piece, why);
        }
        self.appends.give_back(index, members);
        // Deferred pieces may have waited for this group.
        self.ready.push(Turn::Pieces);
    }

    #[inline]
    pub(in crate::log) fn append_step(&mut self, io: &mut LogCall, index: u32, failed: bool) {
        let group = &mut self.appends.groups[index];
        assert!(group.pending > 0, "an append completed twice");
        group.pending -= 1;
        group.failed |= failed;
        if self.appends.flying.front() != Some(&index) || group.pending > 0 {
            return;
        }
        while let Some(front) = self.appends.flying.front().copied()
            && self.appends.groups[front].pending == 0
        {
            self.appends.flying.pop_front();
            self.retire(io, front);
        }
        if io.tuning.logging.gather_delay == Nanos::ZERO && self.appends.flying.len() < AT_ONCE {
            self.launch(io);
        }
        self.index_if_long();
        for turn in [Turn::Pieces, Turn::Trigger, Turn::Migration] {
            self.ready.push(turn);
        }
    }

    #[inline]
    fn retire(&mut self, io: &mut LogCall, index: u32) {
        let group = &mut self.appends.groups[index];
        let (at, sequence, len, failed) = (group.at, group.sequence, group.len, group.failed);
        let of_index = group.index.take();
        let segment = self.log.segment_of(at);
        self.log.segments[segment as usize].appends -= 1;
        if failed {
            self.appends.failures += 1;
            self.appends.paused_until = io.now.saturating_add(PAUSE);
            io.stats.logging_mut().failed_appends += 1;
            let absent = CommitRecord::Absent { from: sequence, to: sequence + 1, next_at: at + len };
            self.commit.record(io, absent);
        } else {
            self.appends.failures = 0;
        }
        if let Some((covered, entries)) = of_index {
            self.appends.give_back(index, Vec::new());
            return self.index_retired(io, at, (covered, entries), failed);
        }
        if failed {
            return self.members_go_past(index, Past::Failed);
        }
        let members = std::mem::take(&mut self.appends.groups[index].members);
        if self.log.live == 0 {
            self.first_logged(io);
        }
        if self.index.is_empty() {
            self.index.due = io.now.saturating_add(io.tuning.logging.checkpoint_interval);
            io.due(self.index.due);
        }
        let answer = self.answer();
        let stats = io.stats.logging_mut();
        stats.records += members.len() as u64;
        for Member { piece, within } in &members {
            let append_at = at;
            let at = at + u64::from(*within);
            self.index.add(Pending { offset: piece.offset, at, len: piece.len as u32, sequence, append_at });
            io.stats.logging_mut().bytes_appended += piece.len;
            let LogDrive { map, log, .. } = self;
            log.add(piece.offset, at, piece.len as u32);
            map.install(piece.offset, piece.offset + piece.len, at, |at, len| log.superseded(at, len));
            io.part_done(piece.request, answer);
        }
        self.appends.give_back(index, members);
    }

    pub(in crate::log) fn tick_appends(&mut self, io: &mut LogCall) {
        if let Some(index) = self.appends.gathering {
            let due = self.appends.groups[index].since.saturating_add(io.tuning.logging.gather_delay);
            if due <= io.now {
                self.launch(io);
            } else {
                io.due(due);
            }
        }
        self.tick_index(io);
    }

    /// Writes an index to the log.
    pub(in crate::log) fn append_index(
        &mut self,
        io: &mut LogCall,
        Space { at, sequence }: Space,
        (covered, entries): (IndexSpan, Vec<Pending>),
    ) {
        let len = header::index_bytes(entries.len());
        let index = self.appends.take(io.now);
        let group = &mut self.appends.groups[index];
        (group.at, group.sequence, group.len, group.pending) = (at, sequence, len, 1);
        group.index = Some((covered, entries));
        self.appends.flying.push_back(index);
        let purpose = LogStep::Append { group: index };
        io.write(self.log_place(at), Bytes(len), Buffer::Metadata, purpose, Cause::Metadata);
    }

    /// Returns the sequence and the place of the oldest append that is not retired, or of the next append if there is
    /// none.
    pub(in crate::log) fn unretired(&self) -> (u64, u64) {
        match self.appends.flying.front() {
            Some(front) => {
                let group = &self.appends.groups[*front];
                (group.sequence, group.at)
            }
            None => (self.log.next_sequence(), self.log.head_place()),
        }
    }

    /// Encodes the header of an append that is being written; for an index, also its entries.
    pub(in crate::log) fn encode_append(
        &self,
        io: &LogIo,
        group: u32,
        volume: VolumeId,
        into: &mut [u8],
        buffers: Option<&dyn Buffers>,
    ) {
        let group = &self.appends.groups[group];
        let member = |member: &Member| {
            let Member { piece, within } = *member;
            let buffers = buffers.expect("the header of data is encoded with the data at hand: use encode_with");
            let buffer = match group.buffer {
                Some(index) => Buffer::Move { index, offset: Bytes(u64::from(within)) },
                None => Buffer::Request { id: io.id_of(piece.request), offset: Bytes(piece.buffer) },
            };
            let checksum = header::data_checksum(buffers.bytes(buffer, Bytes(piece.len)));
            AppendMember { offset: piece.offset, within, len: piece.len as u32, checksum }
        };
        let body = match &group.index {
            Some((covered, _)) => AppendBody::Index(*covered),
            None => AppendBody::Data(group.members.iter().map(member).collect()),
        };
        let header = AppendHeader {
            sequence: group.sequence,
            opened: self.log.segments[self.log.segment_of(group.at) as usize].opened,
            at: group.at,
            len: group.len,
            flushed: self.index.flushed,
            index: self.index.newest,
            body,
        };
        let (first, rest) = into.split_at_mut(HEADER as usize);
        header.encode(volume, first);
        if let Some((_, entries)) = &group.index {
            header::encode_entries(entries.iter().map(Pending::entry), group.sequence, volume, rest);
        }
    }
}
