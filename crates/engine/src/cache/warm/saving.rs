//! Takes snapshots: every few minutes a piece at a time, and when the volume is closed.

use peryton_format::{
    block::{BLOCK, BLOCK_LEN},
    snapshot::{Header, Packer, Room},
    storage::Storage,
};
use peryton_policy::{
    ReplacementPolicy,
    admission::GateCursor,
    replacement::SlotIndex,
    saving::{Cursor, Saving},
};
use peryton_units::{Bytes, Nanos};

use super::state::{GATE, MISSED, POLICY, READ_ON, RESIDENT, Stage, WEAR_ACCOUNT, Warm, Writing, usage};
use crate::{
    api::command::{Buffer, Cause},
    api::warmth::SnapshotTaken,
    cache::drive::CacheDrive,
    cache::step::{CacheCall, CacheIo, CacheStep},
};

/// The most items that are saved with one call, and the most slots or extents that are looked at.
const MOST_SAVED: u32 = 256;
const MOST_LOOKED_AT: u32 = 2_048;
/// The pause before the next call goes on.
const PAUSE: Nanos = Nanos::from_ms(1);
/// The bytes of one command, and the pause before the next: 16 MiB/s at the most.
const PIECE: usize = 64 << 10;
const PIECE_PAUSE: Nanos = Nanos::from_ms(4);

impl CacheDrive {
    /// Goes on with the snapshot under way, or begins one if it is time.
    pub(in crate::cache) fn tick_warm(&mut self, io: &mut CacheCall) {
        let (Some(room), Some(interval)) = (self.warm.room, io.tuning.snapshot_interval) else { return };
        if self.warm.in_flight || self.gone.fast {
            return;
        }
        if self.warm.writing.is_none() {
            if let Some(looks_again) = self.warm.waits(io.now, interval, self.layout.fast_usable) {
                return io.due(looks_again);
            }
            self.warm.writing = Some(self.begin_snapshot(io, &room));
        }
        let Some(mut writing) = self.warm.writing.take() else { return };
        if io.now < writing.goes_on_at {
            io.due(writing.goes_on_at);
            self.warm.writing = Some(writing);
            return;
        }
        match self.next_piece(io, &mut writing, &room) {
            Some(at) => self.write_piece(io, at),
            None => {
                writing.goes_on_at = io.now.saturating_add(PAUSE);
                io.due(writing.goes_on_at);
            }
        }
        self.warm.writing = Some(writing);
    }

    fn write_piece(&mut self, io: &mut CacheCall, at: Bytes) {
        self.warm.in_flight = true;
        let len = Bytes(self.warm.piece.len() as u64);
        io.write((self.layout.fast, at), len, Buffer::Metadata, CacheStep::Snapshot, Cause::Metadata);
    }

    /// Encodes the command in flight.
    pub(in crate::cache) fn encode_snapshot(&self, into: &mut [u8]) {
        into.copy_from_slice(&self.warm.piece);
    }

    /// The write of a piece has ended; `failed`: without success.
    pub(in crate::cache) fn snapshot_step(&mut self, io: &mut CacheIo, failed: bool) {
        self.warm.in_flight = false;
        io.due_in(Nanos::ZERO);
        // The number of blocks is known when the header is written, which comes last.
        let is_header = self.warm.writing.as_ref().is_some_and(|writing| writing.header.blocks > 0);
        if failed {
            self.warm.report.failed += 1;
            self.warm.writing = None;
        }
        let Some(writing) = &mut self.warm.writing else { return };
        if is_header {
            self.warm.has_taken(true);
        } else {
            writing.goes_on_at = io.now.saturating_add(PIECE_PAUSE);
        }
    }

    /// Takes a snapshot at once, while no command is in flight. A failure costs only the snapshot.
    pub(in crate::cache) fn save_snapshot(&mut self, io: &CacheIo, storage: &mut dyn Storage) {
        let Some(room) = self.warm.room.filter(|_| io.tuning.snapshot_interval.is_some() && !self.gone.fast) else {
            return;
        };
        let (fast, mut writing) = (self.layout.fast, self.begin_snapshot(io, &room));
        let header_at = room.half_at(writing.header.number);
        let (mut at, mut written) = (None, true);
        while written && at != Some(header_at) {
            at = self.next_piece(io, &mut writing, &room);
            written = at.is_none_or(|at| storage.write(fast, at, &self.warm.piece).is_ok());
        }
        self.warm.writing = Some(writing);
        self.warm.has_taken(written);
    }

    /// Saves a bounded part of what is left. Returns where the next piece goes, once there is one; the last one is the header.
    fn next_piece(&mut self, io: &CacheIo, writing: &mut Writing, room: &Room) -> Option<Bytes> {
        if !matches!(writing.stage, Stage::Header) {
            self.save_some(io, writing);
        }
        let half = room.half_at(writing.header.number);
        let has_ended = matches!(writing.stage, Stage::Header);
        if writing.packer.bytes().len() >= PIECE || has_ended && !writing.packer.bytes().is_empty() {
            let first = writing.packer.take(&mut self.warm.piece);
            return Some(half + Bytes(BLOCK * (1 + u64::from(first))));
        }
        has_ended.then(|| {
            self.warm.piece.clear();
            self.warm.piece.resize(BLOCK_LEN, 0);
            writing.header.blocks = writing.packer.blocks();
            writing.header.encode(self.warm.volume, &mut self.warm.piece);
            half
        })
    }

    fn begin_snapshot(&mut self, io: &CacheIo, room: &Room) -> Writing {
        let now = io.now;
        let warm = &mut self.warm;
        (warm.began_at, warm.changed) = (Some(now), 0);
        let (number, generation) = (warm.next_number(), warm.generation);
        let header = Header {
            number,
            generation,
            unix_s: warm.unix_s(now),
            clock_ns: now.0,
            policy: (io.tuning.replacement.name().to_owned(), self.policy.saved_version()),
            rule: self.gate.saved_rule().to_owned(),
            ..Header::default()
        };
        let packer = Packer::new(warm.volume, number, generation, room.most_blocks());
        Writing { header, packer, stage: Stage::Policy(Cursor::default()), goes_on_at: now }
    }

    /// Saves a bounded part of what is left.
    fn save_some(&mut self, io: &CacheIo, writing: &mut Writing) {
        let CacheDrive { map, policy, gate, readahead, layout, controller, .. } = self;
        let Writing { header, packer, stage, .. } = writing;
        let clock = Nanos(header.clock_ns);
        match stage {
            Stage::Policy(cursor) => {
                let extent_in = |slot: SlotIndex| map.tenant(slot);
                let mut put = |list: u8, item: &[u32]| packer.put(POLICY + u16::from(list), item);
                if policy.save(&mut Saving::new(cursor, MOST_SAVED, &extent_in, &mut put)) {
                    packer.put(READ_ON, &readahead.counts());
                    if let Some(account) = controller.as_ref().and_then(|controller| controller.wear_account(clock)) {
                        packer.put(WEAR_ACCOUNT, &account);
                    }
                    *stage = Stage::Residents(0);
                }
            }
            Stage::Residents(next) => {
                let to = layout.fast_slots.min(next.saturating_add(MOST_SAVED));
                for slot in (*next..to).map(SlotIndex) {
                    let Some(extent) = map.tenant(slot) else { continue };
                    let entry = map.entry(extent);
                    // A slot may be reserved for an extent that is on its way.
                    if entry.place().and_then(|place| layout.fast_slot(place)) == Some(slot) {
                        packer.put(RESIDENT, &[extent, usage(entry, clock), entry.uses]);
                        header.extents += 1;
                    }
                }
                *next = to;
                if to == layout.fast_slots {
                    *stage = Stage::Gate(GateCursor::default());
                }
            }
            Stage::Gate(cursor) => {
                if gate.save(cursor, MOST_SAVED, &mut |list, item| packer.put(GATE + u16::from(list), item)) {
                    *stage = Stage::Missed(0);
                }
            }
            Stage::Missed(next) => {
                let to = layout.extents.min(next.saturating_add(MOST_LOOKED_AT));
                for extent in *next..to {
                    let entry = map.entry(extent);
                    let counts = entry.misses > 0
                        && clock.saturating_sub(entry.last_access) <= io.tuning.promotion_window
                        && entry.place().and_then(|place| layout.fast_slot(place)).is_none();
                    if counts {
                        packer.put(MISSED, &[extent, usage(entry, clock), entry.uses]);
                    }
                }
                *next = to;
                if to == layout.extents {
                    *stage = Stage::Header;
                }
            }
            Stage::Header => {}
        }
        if packer.is_full() {
            *stage = Stage::Header;
        }
        if matches!(stage, Stage::Header) {
            packer.end();
        }
    }
}

impl Warm {
    /// The snapshot under way has ended.
    fn has_taken(&mut self, well: bool) {
        let Some(Writing { header, .. }) = self.writing.take() else { return };
        if !well {
            self.report.failed += 1;
            return;
        }
        self.kept = header.number;
        self.report.taken += 1;
        self.report.last = Some(taken(&header));
    }
}

/// The report on a snapshot.
pub(in crate::cache) fn taken(header: &Header) -> SnapshotTaken {
    let bytes = Bytes(BLOCK * (1 + u64::from(header.blocks)));
    SnapshotTaken { unix_s: header.unix_s, bytes, extents: header.extents }
}
