//! Writes and discards that go to the primary: writes that selective caching keeps out of the log, writes that a full
//! or failed log cannot take, and discards.
//!
//! Two commands for one range on one device have no order. So a write to the primary waits for a migration of the same
//! range, and no migration of that range starts before the write is done. The log's copy is given up when the write is
//! done, so appends of the range wait as well.

use peryton_format::log::ring::CommitRecord;
use peryton_units::{Bytes, Nanos};

use crate::{
    api::command::{Buffer, Cause},
    api::error::RequestError,
    log::deferred::DeferredPiece,
    log::direct::{Direct, Past, Piece, Way},
    log::drive::LogDrive,
    log::ready::Turn,
    log::step::{LogCall, LogIo},
};

/// The most records that one failed write makes, so that a large one does not fill the ring.
const MOST_VOIDS: usize = 64;

/// The outcome for a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Placed {
    OnItsWay,
    Waits,
    /// So does whatever needs a buffer.
    WaitsForBuffer,
}

impl LogDrive {
    /// Sends a piece on its way, or lets it wait.
    #[inline]
    pub(in crate::log) fn place(&mut self, io: &mut LogCall, piece: Piece, way: Way) {
        if self.try_place(io, (piece, way), u64::MAX) != Placed::OnItsWay {
            self.deferred.defer(DeferredPiece { piece, way });
        }
    }

    /// Sends a piece, unless it has to wait. It also waits for pieces with a number below `before` that wait.
    #[inline]
    fn try_place(&mut self, io: &mut LogCall, (piece, way): (Piece, Way), before: u64) -> Placed {
        if self.stopped.any() {
            io.part_done(piece.request, self.answer());
            return Placed::OnItsWay;
        }
        let actual = if way == Way::Log { self.way_in(io.now) } else { way };
        if self.must_wait(piece, actual, before) {
            return Placed::Waits;
        }
        if actual != Way::Log && self.is_crowded() {
            if (self.is_stranded() || self.migration.is_stuck()) && self.fired(io).is_none() {
                // Nothing makes room before a failed device is back.
                io.part_done(piece.request, Err(RequestError::Device));
                return Placed::OnItsWay;
            }
            return Placed::Waits;
        }
        match actual {
            Way::Log => {
                if !self.append(io, piece) {
                    return Placed::WaitsForBuffer;
                }
            }
            Way::Direct(why) => {
                let purpose = self.directs.start(io.now, piece, 1);
                let buffer = Buffer::Request { id: io.id_of(piece.request), offset: Bytes(piece.buffer) };
                let place = self.primaries.place_of(piece.offset);
                io.write(place, Bytes(piece.len), buffer, purpose, Cause::Host);
                let stats = io.stats.logging_mut();
                stats.direct_writes += 1;
                stats.bytes_direct += piece.len;
                stats.direct_by.count(why);
                if way == Way::Log {
                    // The log is full: high time.
                    self.ready.push(Turn::Trigger);
                }
            }
            Way::Discard => self.discard_now(io, piece),
        }
        Placed::OnItsWay
    }

    /// The way of a write that belongs in the log: to the primary if the log cannot take it.
    #[inline]
    fn way_in(&self, now: Nanos) -> Way {
        match self.log_takes_writes(now) {
            true => Way::Log,
            false if self.log.is_full() || self.commit.is_full() => Way::Direct(Past::NoRoom),
            false => Way::Direct(Past::Failed),
        }
    }

    #[inline]
    fn must_wait(&self, piece: Piece, way: Way, before: u64) -> bool {
        let (from, to) = (piece.offset, piece.offset + piece.len);
        self.deferred.overlaps(from, to, before)
            || match way {
                Way::Log => self.directs.overlaps(from, to),
                Way::Direct(_) | Way::Discard => self.appends.overlaps(from, to) || self.migration.writes(from, to),
            }
    }

    /// Whether the ring has no room for the record that a write to the primary may make. If so, room is made as far as
    /// possible: by a commit, and by a migration, which makes records obsolete.
    #[inline]
    fn is_crowded(&mut self) -> bool {
        if self.log.is_empty() || !self.commit.is_crowded(self.directs.in_flight.len()) {
            return false;
        }
        self.commit.make_room(self.directs.in_flight.len());
        self.ready.push(Turn::Commit);
        self.ready.push(Turn::Trigger);
        true
    }

    /// The primary discards the part that is not in the log. If the log has the newest copy, the primary has an older
    /// one, which must not reappear: it is zeroed.
    fn discard_now(&mut self, io: &mut LogCall, whole: Piece) {
        let mut runs: Vec<(u64, u64, bool)> = Vec::new();
        self.map.walk(whole.offset, whole.offset + whole.len, |from, to, place| match runs.last_mut() {
            Some((_, end, logged)) if *logged == place.is_some() => *end = to,
            _ => runs.push((from, to, place.is_some())),
        });
        let purpose = self.directs.start(io.now, whole, runs.len());
        for (from, to, logged) in runs {
            let place = self.primaries.place_of(from);
            if logged {
                io.zero(place, Bytes(to - from), purpose);
            } else {
                io.discard(place, Bytes(to - from), purpose);
            }
        }
    }

    pub(in crate::log) fn direct_step(&mut self, io: &mut LogCall, op: u32, failed: bool) {
        let row = &mut self.directs.rows[op];
        row.left -= 1;
        row.failed |= failed;
        if row.left > 0 {
            return;
        }
        let Direct { piece, failed, .. } = *row;
        self.directs.rows.remove(op);
        self.directs.in_flight.retain(|other| *other != op);
        let result = if failed { Err(RequestError::Device) } else { self.answer() };
        let (from, to) = (piece.offset, piece.offset + piece.len);
        if failed {
            self.failed_on_primary(io, from, to);
        } else {
            let LogDrive { map, log, .. } = self;
            map.remove(from, to, |at, len| log.superseded(at, len));
            self.record_void(io, from, to);
        }
        io.part_done(piece.request, result);
        self.ready.push(Turn::Pieces);
        self.ready.push(Turn::Migration);
    }

    /// Even where the map knows of no copy in the log, the log may hold old ones that a replay would find.
    fn record_void(&mut self, io: &mut LogIo, from: u64, to: u64) {
        // A commit that says that the log is empty may not become durable: if a primary goes, the log keeps its content.
        if !self.log.is_empty() || self.commit.freed().next().is_some() {
            let void = CommitRecord::Void { offset: from, len: to - from, before: self.log.next_sequence() };
            self.commit.record(io, void);
        }
    }

    /// A part of the data may have reached the primary. If reads of the range go to the primary, they must do so after
    /// a crash as well: data that a migration left in the log must not come back.
    fn failed_on_primary(&mut self, io: &mut LogIo, from: u64, to: u64) {
        if self.primaries.is_gone(from) {
            // Reads of what it had fail, and it comes back only if nothing was under way to it.
            return;
        }
        let mut runs: Vec<(u64, u64)> = Vec::new();
        self.map.walk(from, to, |low, high, place| match runs.last_mut() {
            _ if place.is_some() => {}
            Some((_, end)) if *end == low => *end = high,
            _ => runs.push((low, high)),
        });
        for (low, high) in runs.into_iter().take(MOST_VOIDS) {
            if !self.commit.is_full() {
                self.record_void(io, low, high);
            }
        }
    }

    /// Some operation has ended for which a piece may have waited. Overlapping pieces keep their order.
    pub(in crate::log) fn look_at_deferred(&mut self, io: &mut LogCall) {
        let mut next = 0;
        while let Some((number, deferred)) = self.deferred.take_from(next) {
            let placed = self.try_place(io, (deferred.piece, deferred.way), number);
            if placed != Placed::OnItsWay {
                self.deferred.put_back(number, deferred);
            }
            if placed == Placed::WaitsForBuffer {
                // All buffers are under way: the first to return continues here. Trying all other pieces would take
                // time in proportion to their number, again and again.
                break;
            }
            next = number + 1;
        }
    }
}
