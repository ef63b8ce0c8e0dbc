//! A disk with shingled tracks and the layer that makes it writable anywhere: the firmware of a drive-managed disk, or
//! the host's translation (such as dm-zoned) in front of a host-managed one.
//!
//! A zone can only be written front to back. A write that continues a zone goes there; all others are appended to a
//! cache in conventional tracks at the start of the disk. A zone with data in the cache is cleaned: both are read, and
//! the zone is written again. This happens when the disk has been idle, or when the cache is full; in the latter case
//! the host's writes wait.

use std::collections::{BTreeMap, VecDeque};

use peryton_units::{Bytes, Nanos, Op};

use super::{Disk, DiskParameters, joins::Joins, shingled_parameters::ShingledParameters};
use crate::{
    BuildError, DeviceStats, Io, PowerState, Tag, WearCounts,
    meter::{Draw, Meter},
};

/// The most zones that are written front to back at the same time, as many as host-managed drives allow to be open.
const MOST_OPEN: usize = 128;
/// The tag of the disk's own reads and writes.
const CLEANING: u32 = u32::MAX;

/// A range of the addresses whose newest data is in the cache.
#[derive(Clone, Copy, Debug)]
struct Extent {
    end: u64,
    /// The place in the cache.
    at: u64,
    /// The order of writing.
    serial: u64,
}

/// A zone that is being rewritten.
#[derive(Clone, Debug)]
struct Cleaning {
    zone: u64,
    /// Data that was written later than this stays in the cache.
    serial: u64,
    /// The remaining steps, the next one last.
    steps: Vec<Io>,
}

/// A write or flush that waits for space in the cache.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    slot: u32,
    io: Io,
}

/// The model; see [`ShingledParameters`].
#[derive(Clone, Debug)]
pub struct Shingled {
    disk: Disk,
    zone: u64,
    cache: u64,
    most_extents: usize,
    clean_after: u64,
    cached: BTreeMap<u64, Extent>,
    /// Bytes of each zone that are in the cache, and the zones in the order in which their first data came there.
    in_zone: BTreeMap<u64, u64>,
    order: VecDeque<u64>,
    used: u64,
    /// The place of the next write to the cache.
    head: u64,
    serials: u64,
    /// The next place in each zone that is being written front to back; the most recently used zone last.
    open: VecDeque<(u64, u64)>,
    cleaning: Option<Cleaning>,
    rewritten: u64,
    waiting: VecDeque<Waiting>,
    joins: Joins,
    meter: Meter,
    /// The start of the present period without a gap between commands.
    busy_from: Option<u64>,
    /// The end of the host's last command.
    ended: u64,
    asleep: bool,
    reports: Vec<(Tag, Nanos)>,
}

impl Shingled {
    /// # Errors
    /// The parameters do not make a disk, or the cache does not fit it.
    pub fn new(parameters: &DiskParameters, shingled: &ShingledParameters) -> Result<Shingled, BuildError> {
        let range = |key, found: String, expected| Err(BuildError::Range { key, found, expected });
        parameters.check()?;
        let disk = Disk::new(&DiskParameters { shingled: None, ..parameters.clone() })?;
        let sector = parameters.sector.0;
        let (zone, cache) = (shingled.zone.0, shingled.cache.0);
        if zone < sector || !zone.is_multiple_of(sector) || zone > 1 << 40 {
            return range("shingled.zone", shingled.zone.to_string(), "whole sectors, at most 1TiB");
        }
        if cache < 2 * zone || !cache.is_multiple_of(sector) || cache >= disk.capacity().0 {
            return range("shingled.cache", shingled.cache.to_string(), "two zones or more, less than the disk");
        }
        if shingled.extents == 0 {
            return range("shingled.extents", "0".into(), "1 or more");
        }
        Ok(Shingled {
            disk,
            zone,
            cache,
            most_extents: shingled.extents as usize,
            clean_after: shingled.clean_after.0,
            cached: BTreeMap::new(),
            in_zone: BTreeMap::new(),
            order: VecDeque::new(),
            used: 0,
            head: 0,
            serials: 0,
            open: VecDeque::new(),
            cleaning: None,
            rewritten: 0,
            waiting: VecDeque::new(),
            joins: Joins::default(),
            meter: Meter::new(Draw { idle_w: 0.0, busy_w: 0.0, standby_w: 0.0, linger: 0 }),
            busy_from: None,
            ended: 0,
            asleep: false,
            reports: Vec::new(),
        })
    }

    /// As [`Disk::submit`].
    #[inline(never)]
    pub fn submit(&mut self, now: Nanos, tag: Tag, io: Io) -> crate::Accepted {
        self.progress(now.0);
        self.meter.command(io);
        self.asleep = false;
        self.busy_from.get_or_insert(now.0);
        // One part more than there will be, so that the command does not end before all parts are known.
        let slot = self.joins.open(tag, now.0, 1);
        let waits = !self.waiting.is_empty() && matches!(io.op, Op::Write | Op::Flush);
        if waits || (io.op == Op::Write && !self.has_room(io)) {
            self.waiting.push_back(Waiting { slot, io });
            self.begin_cleaning(now.0);
        } else {
            self.serve(now.0, slot, io);
        }
        crate::Accepted::Queued
    }

    /// The number of scattered writes of this size that fill the cache, when it begins empty.
    pub(crate) fn writes_to_fill(&self, size: Bytes) -> u64 {
        (self.cache / size.0.max(1)).min(self.most_extents as u64)
    }

    /// Gives the disk the parts of a command.
    fn serve(&mut self, now: u64, slot: u32, io: Io) {
        let parts = match io.op {
            Op::Read => self.places(io.at.0, io.at.0 + io.len.0),
            Op::Write => self.write(io.at.0, io.at.0 + io.len.0),
            Op::Discard => vec![(self.cache + io.at.0, io.len.0)],
            Op::Flush => vec![(0, 0)],
        };
        self.joins.more(slot, parts.len() as u32);
        for (at, len) in parts {
            let accepted = self.disk.submit(Nanos(now), Tag(slot), Io { at: Bytes(at), len: Bytes(len), ..io });
            let ended = self.joins.accepted(slot, accepted);
            self.ended(ended);
        }
        let ended = self.joins.part_done(slot, now);
        self.ended(ended);
    }

    fn ended(&mut self, ended: Option<(u64, u64)>) {
        if let Some((arrived, end)) = ended {
            self.meter.busy(self.busy_from.unwrap_or(arrived), end);
            self.ended = self.ended.max(end);
            if self.joins.in_service() == 0 {
                self.busy_from = None;
            }
        }
    }

    /// The places of the newest data of these addresses, piece by piece.
    fn places(&self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        let mut at = from;
        let first = self.cached.range(..=from).next_back().map_or(from, |(start, _)| *start);
        for (&start, extent) in self.cached.range(first..to) {
            let (begin, end) = (start.max(from), extent.end.min(to));
            if begin >= end {
                continue;
            }
            if at < begin {
                parts.push((self.cache + at, begin - at));
            }
            parts.push((extent.at + begin - start, end - begin));
            at = end;
        }
        if at < to || parts.is_empty() {
            parts.push((self.cache + at, to - at));
        }
        parts
    }

    /// Whether a write continues at the end of its zone's last write, or begins a zone.
    fn continues(&self, at: u64) -> bool {
        let (zone, offset) = (at / self.zone, at % self.zone);
        offset == 0 || self.open.iter().any(|&(open, next)| open == zone && next == offset)
    }

    fn has_room(&self, io: Io) -> bool {
        let (from, to) = (io.at.0, io.at.0 + io.len.0);
        let needed: u64 = pieces(from, to, self.zone).filter(|&(at, _)| !self.continues(at)).map(|(_, len)| len).sum();
        // A write larger than the cache never fits, so it is accepted when the cache is empty.
        needed == 0 || self.used == 0 || (self.used + needed <= self.cache && self.cached.len() + 2 < self.most_extents)
    }

    /// Records a write and returns the places of its parts.
    fn write(&mut self, from: u64, to: u64) -> Vec<(u64, u64)> {
        let mut parts = Vec::new();
        for (at, len) in pieces(from, to, self.zone) {
            let (zone, continues) = (at / self.zone, self.continues(at));
            self.forget(at, at + len, u64::MAX);
            if continues {
                self.open.retain(|&(open, _)| open != zone);
                let next = at % self.zone + len;
                if next < self.zone {
                    self.open.push_back((zone, next));
                }
                if self.open.len() > MOST_OPEN {
                    self.open.pop_front();
                }
                parts.push((self.cache + at, len));
                continue;
            }
            if self.head + len > self.cache {
                self.head = 0;
            }
            let place = self.head.min(self.cache.saturating_sub(len));
            self.head = place + len;
            self.serials += 1;
            self.cached.insert(at, Extent { end: at + len, at: place, serial: self.serials });
            self.used += len;
            let bytes = self.in_zone.entry(zone).or_insert(0);
            if *bytes == 0 && self.cleaning.as_ref().is_none_or(|cleaning| cleaning.zone != zone) {
                self.order.push_back(zone);
            }
            *bytes += len;
            parts.push((place, len));
        }
        parts
    }

    /// Removes these addresses from the cache, as far as they were written by then.
    fn forget(&mut self, from: u64, to: u64, until: u64) {
        let first = self.cached.range(..=from).next_back().map_or(from, |(start, _)| *start);
        let hit: Vec<(u64, Extent)> = self.cached.range(first..to).map(|(start, extent)| (*start, *extent)).collect();
        for (start, extent) in hit {
            let (begin, end) = (start.max(from), extent.end.min(to));
            if begin >= end || extent.serial > until {
                continue;
            }
            self.cached.remove(&start);
            self.used -= end - begin;
            let zone = start / self.zone;
            if let Some(bytes) = self.in_zone.get_mut(&zone) {
                *bytes -= end - begin;
                if *bytes == 0 {
                    self.in_zone.remove(&zone);
                    self.order.retain(|&waiting| waiting != zone);
                }
            }
            if start < begin {
                self.cached.insert(start, Extent { end: begin, ..extent });
            }
            if end < extent.end {
                self.cached.insert(end, Extent { at: extent.at + end - start, ..extent });
            }
        }
    }

    /// Starts cleaning the zone that has waited longest, if none is being cleaned.
    fn begin_cleaning(&mut self, now: u64) {
        if self.cleaning.is_some() {
            return;
        }
        let Some(zone) = self.order.pop_front() else { return };
        let from = zone * self.zone;
        let to = (from + self.zone).min(self.disk.capacity().0 - self.cache);
        let io = |op, at, len| Io { op, at: Bytes(at), len: Bytes(len) };
        let mut steps = vec![io(Op::Write, self.cache + from, to - from)];
        let extents = self.cached.range(from..to);
        steps.extend(extents.map(|(start, extent)| io(Op::Read, extent.at, extent.end - start)));
        steps.push(io(Op::Read, self.cache + from, to - from));
        self.cleaning = Some(Cleaning { zone, serial: self.serials, steps });
        self.clean(now);
    }

    /// Does the next step of cleaning, or ends the cleaning after the last.
    fn clean(&mut self, now: u64) {
        loop {
            let Some(cleaning) = &mut self.cleaning else { return };
            if self.asleep {
                self.order.push_front(cleaning.zone);
                self.cleaning = None;
                return;
            }
            if let Some(step) = cleaning.steps.pop() {
                self.rewritten += if step.op == Op::Write { step.len.0 } else { 0 };
                match self.disk.submit(Nanos(now), Tag(CLEANING), step) {
                    crate::Accepted::Queued => return,
                    // A first-come disk knows the end at once; the steps that follow are in order all the same.
                    crate::Accepted::At(_) => continue,
                }
            }
            let (zone, serial) = (cleaning.zone, cleaning.serial);
            self.cleaning = None;
            self.forget(zone * self.zone, (zone + 1) * self.zone, serial);
            if self.in_zone.contains_key(&zone) {
                self.order.push_back(zone);
            }
            while let Some(&Waiting { slot, io }) = self.waiting.front()
                && (io.op == Op::Flush || self.has_room(io))
            {
                self.waiting.pop_front();
                self.serve(now, slot, io);
            }
            let wanted = !self.waiting.is_empty() || self.joins.in_service() == 0;
            let next = if wanted { self.order.pop_front() } else { None };
            let Some(zone) = next else { return };
            self.order.push_front(zone);
            return self.begin_cleaning(now);
        }
    }

    /// Does the work that the disk had time for by `now`, event by event.
    fn progress(&mut self, now: u64) {
        loop {
            let event = self.disk.next_event().map(|at| at.0);
            let resting = self.cleaning.is_none() && self.joins.in_service() == 0 && !self.asleep;
            let begin = (resting && self.used > 0).then(|| self.ended.saturating_add(self.clean_after));
            match (event, begin) {
                (Some(at), begin) if at <= now && begin.is_none_or(|begin| at <= begin) => {
                    let mut reports = std::mem::take(&mut self.reports);
                    self.disk.advance(Nanos(at), &mut reports);
                    for (tag, end) in reports.drain(..) {
                        if tag.0 == CLEANING {
                            self.clean(end.0.max(at));
                        } else {
                            let ended = self.joins.part_done(tag.0, end.0);
                            self.ended(ended);
                        }
                    }
                    self.reports = reports;
                }
                (_, Some(begin)) if begin <= now => self.begin_cleaning(begin),
                _ => return,
            }
        }
    }

    /// Does the same as [`Disk::next_event`].
    pub fn next_event(&self) -> Option<Nanos> {
        let disk = self.disk.next_event().map(|at| at.0);
        disk.into_iter().chain(self.joins.next_report()).min().map(Nanos)
    }

    /// Does the same as [`Disk::advance`].
    pub fn advance(&mut self, now: Nanos, completed: &mut Vec<(Tag, Nanos)>) {
        self.progress(now.0);
        self.joins.report(now.0, completed);
    }

    /// Does the same as [`Disk::set_power`]. Zones are not cleaned in standby, because data in the cache is safe.
    pub fn set_power(&mut self, now: Nanos, state: PowerState) {
        self.progress(now.0);
        self.asleep = state == PowerState::Standby && self.waiting.is_empty();
        if state == PowerState::Active {
            self.ended = self.ended.max(now.0);
        }
        self.disk.set_power(now, state);
    }

    /// Does the same as [`Disk::stats`].
    pub fn stats(&mut self, now: Nanos) -> DeviceStats {
        self.progress(now.0);
        if self.joins.in_service() > 0
            && let Some(from) = self.busy_from
        {
            self.meter.busy(from, now.0);
        }
        let (disk, counted) = (self.disk.stats(now), self.meter.stats(now.0));
        let whole = counted.busy + counted.idle + counted.standby;
        DeviceStats {
            standby: disk.standby,
            idle: whole.saturating_sub(counted.busy).saturating_sub(disk.standby),
            energy_j: disk.energy_j,
            start_stops: disk.start_stops,
            bytes_rewritten: Some(Bytes(self.rewritten)),
            ..counted
        }
    }

    /// Does the same as [`Disk::wear`].
    pub fn wear(&self) -> WearCounts {
        WearCounts { start_stops: self.disk.wear().start_stops, ..self.meter.wear() }
    }

    /// Does the same as [`Disk::reset_stats`].
    pub fn reset_stats(&mut self, now: Nanos) {
        self.stats(now);
        self.disk.reset_stats(now);
        self.meter.reset(now.0);
        self.rewritten = 0;
    }

    /// Does the same as [`Disk::unwritten`].
    pub fn unwritten(&mut self, now: Nanos) -> Bytes {
        self.progress(now.0);
        self.disk.unwritten(now)
    }

    /// Addressable bytes.
    pub fn capacity(&self) -> Bytes {
        Bytes(self.disk.capacity().0 - self.cache)
    }

    /// Leaves the disk idle from `now` on until no zone is to be cleaned; returns the time of that.
    pub fn clean_all(&mut self, now: Nanos) -> Nanos {
        self.progress(now.0);
        let mut now = now.0;
        while !self.asleep && (self.used > 0 || self.cleaning.is_some() || self.joins.in_service() > 0) {
            let event = self.disk.next_event().map(|at| at.0);
            let begin = self.ended.saturating_add(self.clean_after);
            now = event.unwrap_or(begin).max(now);
            self.progress(now);
        }
        Nanos(now)
    }

    /// Bytes in the cache at `now`, and bytes of zones rewritten so far.
    pub fn cache(&mut self, now: Nanos) -> (Bytes, Bytes) {
        self.progress(now.0);
        (Bytes(self.used), Bytes(self.rewritten))
    }
}

/// The pieces of a range that each are in one zone: address and length.
fn pieces(from: u64, to: u64, zone: u64) -> impl Iterator<Item = (u64, u64)> {
    let mut at = from;
    std::iter::from_fn(move || {
        if at >= to && !(at == from && from == to) {
            return None;
        }
        let len = (zone - at % zone).min(to - at);
        let piece = (at, len);
        at = if len == 0 { to + 1 } else { at + len };
        Some(piece)
    })
}
