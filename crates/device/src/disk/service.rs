//! The service of one command: overheads, buffer, mechanics, interface; and the background work between commands.

use peryton_units::Op;

use super::{
    Disk, Overhead,
    geometry::Place,
    mechanics::{Access, Span},
    parameters::{DiskParameters, ReadAhead},
    segments::Hit,
};
use crate::Io;

/// Reading ahead after a request, into its segment.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadingAhead {
    segment: usize,
    /// This sector began to pass at `since`.
    from: u64,
    place: Place,
    since: u64,
    until: u64,
    /// Up to here its energy is in the account.
    booked: u64,
}

/// Times of the controller and the interface.
#[derive(Clone, Debug)]
pub(super) struct Timing {
    read_hit: Overhead,
    read_miss: Overhead,
    write_hit: Overhead,
    write_miss: Overhead,
    /// One sector over the interface, in 2⁻¹⁶ ns.
    interface: u64,
}

impl Timing {
    pub fn new(parameters: &DiskParameters) -> Timing {
        let controller = &parameters.controller;
        let ns = |mb_per_s: f64| parameters.sector.0 as f64 / mb_per_s * 1e3;
        Timing {
            read_hit: controller.read_hit,
            read_miss: controller.read_miss,
            write_hit: controller.write_hit,
            write_miss: controller.write_miss,
            interface: (controller.interface_mb_per_s.map_or(0.0, ns) * 65536.0).round() as u64,
        }
    }

    fn transfer(&self, sectors: u64) -> u64 {
        ((u128::from(sectors) * u128::from(self.interface)) >> 16) as u64
    }

    /// When the host has the data: the interface moves `count` sectors from `from` on, of which the last `fresh` come
    /// from the surface.
    fn deliver(&self, from: u64, count: u64, fresh: u64, access: &Access) -> u64 {
        let buffered = from + self.transfer(count - fresh);
        let flowing = buffered.max(access.first_done) + self.transfer(fresh);
        let behind = access.tail.1 + self.transfer(access.tail.0.min(fresh));
        flowing.max(behind).max(access.end + self.transfer(1))
    }
}

impl Overhead {
    fn after(&self, write: bool) -> u64 {
        if write { self.after_write.0 } else { self.after_read.0 }
    }
}

impl Disk {
    /// Serves a command from `start` on, after finishing background work; its decoding could begin `early` before that.
    /// Returns when it is answered.
    pub(super) fn execute(&mut self, start: u64, early: u64, io: Io) -> u64 {
        let sectors = self.mechanics.geometry.sectors;
        let first = (io.at.0 >> self.sector_shift).min(sectors);
        let end = (io.at.0.saturating_add(io.len.0)).div_ceil(1 << self.sector_shift).min(sectors);
        let count = end.saturating_sub(first);
        let answered = match io.op {
            Op::Read if count > 0 => self.read(start, early, first, count),
            Op::Write if count > 0 => self.write(start, early, first, count),
            Op::Flush => self.flush(start),
            Op::Read => start + self.timing.read_hit.after(self.after_write).saturating_sub(early),
            // A disk has no map to update.
            Op::Write | Op::Discard => start + self.timing.write_hit.after(self.after_write).saturating_sub(early),
        };
        match io.op {
            Op::Read => self.after_write = false,
            Op::Write => self.after_write = true,
            Op::Discard | Op::Flush => {}
        }
        self.answered = self.answered.max(answered);
        answered
    }

    fn read(&mut self, start: u64, early: u64, first: u64, count: u64) -> u64 {
        let hit_ready = start + self.timing.read_hit.after(self.after_write).saturating_sub(early);
        let miss_ready = start + self.timing.read_miss.after(self.after_write).saturating_sub(early);
        if let Some(cache) = &mut self.write_cache {
            if self.buffer.read_hits_on_written && cache.holds(first, count) {
                return self.when_free(hit_ready) + self.timing.transfer(count);
            }
            while let Some(key) = self.write_cache.as_ref().and_then(|cache| cache.overlap(first, count)) {
                self.stop_reading_ahead(start.max(self.free));
                self.destage(start, Some(key));
            }
        }
        self.catch_up_reading(start);
        let filling = if self.buffer.almost_hits { self.reading_ahead.map(|ahead| ahead.segment) } else { None };
        match self.segments.find(first, count, filling) {
            Hit::Whole(segment) => {
                self.segments.touch(segment);
                self.read_on_or_stop(start, segment, first, first + count);
                self.when_free(hit_ready) + self.timing.transfer(count)
            }
            Hit::Partial(segment) => self.read_rest(start, hit_ready, miss_ready, segment, first, count),
            Hit::None => {
                self.stop_reading_ahead(start);
                let access = self.mechanical(miss_ready, 0, Span { first, count, write: false });
                let segment = self.segments.take(access.from, first + count, false);
                self.read_ahead(segment, first, first + count);
                self.timing.deliver(0, count, count, &access)
            }
        }
    }

    /// The buffer holds the start of the request; the rest is being read, or must be.
    fn read_rest(&mut self, start: u64, hit: u64, miss: u64, segment: usize, first: u64, count: u64) -> u64 {
        self.segments.touch(segment);
        let end = first + count;
        let held = self.segments.range(segment).1;
        let rest = end - held;
        self.read_on_or_stop(start, segment, first, end);
        let access = match self.reading_ahead {
            Some(ahead) if ahead.until >= end => {
                let geometry = &self.mechanics.geometry;
                let passes = |count| ahead.since + geometry.sweep(&ahead.place, ahead.from, count, false);
                let done = passes(end - ahead.from);
                self.free = self.free.max(done);
                self.segments.extend(segment, end);
                Access { first_done: passes(held + 1 - ahead.from), end: done, ..Access::default() }
            }
            _ => {
                self.stop_reading_ahead(start);
                let access = self.mechanical(miss, 0, Span { first: held, count: rest, write: false });
                self.segments.extend(segment, end);
                self.read_ahead(Some(segment), first, end);
                access
            }
        };
        self.timing.deliver(hit, count, rest, &access)
    }

    /// On a drive that cannot do two things at a time, a hit waits for the mechanics.
    fn when_free(&self, ready: u64) -> u64 {
        if self.buffer.hits_while_busy { ready } else { ready.max(self.free) }
    }

    fn write(&mut self, start: u64, early: u64, first: u64, count: u64) -> u64 {
        self.stop_reading_ahead(start);
        let appended = self.segments.appendable(first);
        self.segments.forget(first, count);
        let answered = if self.write_cache.is_some() {
            self.write_back(start, early, first, count)
        } else {
            let ready = start + self.timing.write_miss.after(self.after_write).saturating_sub(early);
            let access = self.mechanical(ready, ready + self.timing.transfer(1), Span { first, count, write: true });
            access.end.max(ready + self.timing.transfer(count))
        };
        if !self.buffer.separate_write && self.buffer.segments > 0 {
            match appended {
                Some(segment) => {
                    self.segments.extend(segment, first + count);
                    self.segments.touch(segment);
                }
                None => {
                    self.segments.take(first, first + count, true);
                }
            }
        }
        answered
    }

    /// A write into the cache: answered as soon as its data is there.
    fn write_back(&mut self, start: u64, early: u64, first: u64, count: u64) -> u64 {
        let ready = start + self.timing.write_hit.after(self.after_write).saturating_sub(early);
        let mut enters = ready;
        let cache = self.write_cache.as_ref().expect("called with a write cache only");
        if !self.buffer.write_while_busy && !cache.continues(first) {
            enters = enters.max(self.free);
        }
        while let Some(cache) = &self.write_cache
            && !cache.holds(first, count)
            && !cache.fits(count, enters)
        {
            enters = enters.max(self.free);
            let cache = self.write_cache.as_ref().expect("checked above");
            if cache.fits(count, enters) || cache.is_empty() {
                break;
            }
            self.destage(start, None);
        }
        let arrives = enters + self.timing.transfer(count);
        if let Some(cache) = &mut self.write_cache {
            cache.insert(first, count, enters, enters + self.timing.transfer(1));
        }
        arrives
    }

    fn flush(&mut self, start: u64) -> u64 {
        self.destage_all(start);
        start.max(self.free)
    }

    /// Background work from the end of the last command until `until`: emptying the write cache.
    #[inline]
    pub(super) fn background(&mut self, until: u64) {
        while let Some(ready) = self.write_cache.as_ref().and_then(|cache| cache.earliest()) {
            if self.free.max(ready) >= until {
                break;
            }
            self.stop_reading_ahead(self.free.max(ready));
            self.destage(0, None);
        }
    }

    /// Puts everything on the surface.
    pub(super) fn destage_all(&mut self, from: u64) {
        if self.write_cache.as_ref().is_some_and(|cache| !cache.is_empty()) {
            self.stop_reading_ahead(from.max(self.free));
            while self.write_cache.as_ref().is_some_and(|cache| !cache.is_empty()) {
                self.destage(from, None);
            }
        }
    }

    /// Writes one range of the cache to the surface, not before `from`.
    fn destage(&mut self, from: u64, key: Option<u64>) {
        let (arm, free) = (self.arm, self.free.max(from));
        let mechanics = &self.mechanics;
        let Some(cache) = &mut self.write_cache else { return };
        let next = match key {
            Some(key) => cache.remove(key),
            None => cache.next(
                arm,
                |sector| mechanics.geometry.locate(sector),
                |place| mechanics.positioning(free, place, true),
            ),
        };
        let Some(dirty) = next else { return };
        let span = Span { first: dirty.first, count: dirty.count, write: true };
        let access = self.mechanical(from.max(dirty.ready), dirty.data, span);
        if let Some(cache) = &mut self.write_cache {
            cache.leaves(&dirty, access.end);
        }
    }

    fn mechanical(&mut self, ready: u64, data: u64, span: Span) -> Access {
        let access = self.mechanics.access(ready.max(self.free), data, span);
        self.account.mechanical(&access, span.count, span.write);
        self.free = access.end;
        self.arm = span.first + span.count;
        access
    }

    /// Whether the sector is in the segment used last, or in the part being read ahead.
    pub(super) fn is_at_hand(&self, sector: u64) -> bool {
        self.reading_ahead.is_some_and(|ahead| (ahead.from..ahead.until).contains(&sector))
            || self.segments.last_holds(sector)
    }

    /// Starts to read ahead into the segment after a request that ended at `end`.
    fn read_ahead(&mut self, segment: Option<usize>, first: u64, end: u64) {
        let Some(segment) = segment else { return };
        let until = self.read_ahead_limit(segment, first, end);
        self.reading_ahead = (until > end).then(|| {
            let place = self.mechanics.geometry.nominal(end);
            ReadingAhead { segment, from: end, place, since: self.free, until, booked: end }
        });
    }

    fn read_ahead_limit(&self, segment: usize, first: u64, end: u64) -> u64 {
        let geometry = &self.mechanics.geometry;
        if end >= geometry.sectors {
            return end;
        }
        let limit = match self.buffer.read_ahead {
            ReadAhead::None => end,
            ReadAhead::Track => geometry.track(&geometry.nominal(end - 1)).end,
            ReadAhead::Cylinder => geometry.cylinder(&geometry.nominal(end - 1)).end,
            ReadAhead::Segment => {
                let most = self.buffer.max_read_ahead.0 >> self.sector_shift;
                let room = if self.buffer.read_ahead_over_requested { end } else { first } + self.segments.size;
                room.min(end.saturating_add(most))
            }
            ReadAhead::TrackAhead => {
                let track = geometry.track(&geometry.nominal(end));
                let ahead = track.end - track.start;
                if self.segments.range(segment).0 < track.start { track.end + ahead } else { track.end }
            }
        };
        // Reading on stops where the zone ends.
        limit.min(geometry.zones[geometry.zone_of(end)].sectors.end)
    }

    /// A hit in the segment that is being filled lets it go on, from the new request's end; a hit elsewhere ends it.
    fn read_on_or_stop(&mut self, start: u64, segment: usize, first: u64, end: u64) {
        match self.reading_ahead {
            Some(ahead) if ahead.segment == segment => {
                let until = self.read_ahead_limit(segment, first, end.max(ahead.from));
                if let Some(ahead) = &mut self.reading_ahead {
                    ahead.until = ahead.until.max(until);
                }
            }
            _ => self.stop_reading_ahead(start),
        }
    }

    /// Adds what has been read ahead by `now` to the segment, and its energy to the account.
    pub(super) fn catch_up_reading(&mut self, now: u64) {
        let Some(ahead) = &mut self.reading_ahead else { return };
        if now <= ahead.since {
            return;
        }
        let geometry = &self.mechanics.geometry;
        let reached = geometry.reached(&ahead.place, now - ahead.since).min(ahead.until);
        if reached > ahead.booked {
            let sweep = |until: u64| match until - ahead.from {
                0 => 0,
                count => geometry.sweep(&ahead.place, ahead.from, count, false),
            };
            let transfer = sweep(reached) - sweep(ahead.booked);
            self.account.mechanical(&Access { transfer, ..Access::default() }, reached - ahead.booked, false);
            ahead.booked = reached;
            self.segments.extend(ahead.segment, reached);
        }
    }

    /// The arm is wanted elsewhere.
    pub(super) fn stop_reading_ahead(&mut self, now: u64) {
        self.catch_up_reading(now);
        if let Some(ahead) = self.reading_ahead.take()
            && ahead.booked > ahead.from
        {
            self.mechanics.settle(ahead.booked - 1);
            self.arm = ahead.booked;
        }
    }
}
