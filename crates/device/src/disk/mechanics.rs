//! Arm, heads and platters: the time to reach a sector, and the time when each part of a request is read or written.

use super::{
    geometry::{Geometry, Place, SeekCurve},
    parameters::DiskParameters,
};
use crate::BuildError;

/// The demand of a request on the surfaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub first: u64,
    pub count: u64,
    pub write: bool,
}

/// The result of carrying out one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Access {
    /// Time in which the arm moved or heads were switched.
    pub seek: u64,
    /// Time spent waiting for sectors to come by.
    pub wait: u64,
    /// Time over the request's sectors.
    pub transfer: u64,
    /// When the request's first sector (in address order) has passed.
    pub first_done: u64,
    /// When the last sector has passed.
    pub end: u64,
    /// Sectors after the last interruption, and when the first of them has passed. An interface that is slower than the
    /// surface has caught up by then.
    pub tail: (u64, u64),
    /// The first address that was read before the request, where the track is read from where the head lands.
    pub from: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Mechanics {
    pub geometry: Geometry,
    seek: SeekCurve,
    head_switch: u64,
    write_settle: u64,
    zero_latency: bool,
    read_any_free: bool,
    /// The present cylinder of the arm.
    cylinder: u32,
    head: u32,
}

impl Mechanics {
    pub fn new(parameters: &DiskParameters) -> Result<Mechanics, BuildError> {
        let geometry = Geometry::new(parameters)?;
        Ok(Mechanics {
            seek: SeekCurve::new(parameters, geometry.cylinders)?,
            head_switch: parameters.head_switch.0,
            write_settle: parameters.write_settle.0,
            zero_latency: parameters.buffer.zero_latency,
            read_any_free: parameters.buffer.read_any_free,
            cylinder: 0,
            head: 0,
            geometry,
        })
    }

    fn seek_time(&self, place: &Place, write: bool) -> u64 {
        let switch = if place.head == self.head { 0 } else { self.head_switch };
        let seek = self.seek.time(place.cylinder.abs_diff(self.cylinder)).max(switch);
        if seek > 0 && write { seek + self.write_settle } else { seek }
    }

    /// Time from `now` until the place begins to pass under its head: what shortest-positioning-time-first compares.
    pub fn positioning(&self, now: u64, place: &Place, write: bool) -> u64 {
        let seek = self.seek_time(place, write);
        seek + self.geometry.rotation(now + seek, place.angle)
    }

    /// Puts the arm over a sector without taking time for it: it got there reading ahead.
    pub fn settle(&mut self, sector: u64) {
        let place = self.geometry.locate(sector);
        (self.cylinder, self.head) = (place.cylinder, place.head);
    }

    /// Carries out a request from `now` on; a write's data is there from `data` on.
    pub fn access(&mut self, now: u64, data: u64, span: Span) -> Access {
        let Span { first, count, write } = span;
        let place = self.geometry.locate(first);
        let seek = self.seek_time(&place, write);
        (self.cylinder, self.head) = (place.cylinder, place.head);
        let arrived = (now + seek).max(data);
        let mut access = Access { seek, wait: arrived - (now + seek), from: first, ..Access::default() };
        let run = self.geometry.run(first, count);
        let remapped = self.geometry.has_remapped(first, count);
        if !write && (self.zero_latency || self.read_any_free) && !remapped {
            self.land(arrived, &place, first, count, &mut access);
            if access.end != 0 {
                return access;
            }
        }
        let wait = self.geometry.rotation(arrived, place.angle);
        let start = arrived + wait;
        let sweep = self.geometry.sweep(&place, first, run, write);
        access.wait += wait;
        access.transfer = sweep;
        access.first_done = start + self.geometry.sector_time(&place);
        access.end = start + sweep;
        access.tail = (count, access.first_done);
        let (mut next, mut left) = (first + run, count - run);
        while left > 0 {
            let run = self.geometry.run(next, left);
            self.continue_with(next, run, write, &mut access);
            access.tail = (left, access.end - self.geometry.sweep(&self.geometry.locate(next), next, run, write));
            (next, left) = (next + run, left - run);
        }
        if count > run || sweep > self.geometry.sector_time(&place) * count {
            self.settle(first + count - 1);
            if count == run && !remapped {
                self.tail_of_run(&place, first, count, &mut access);
            }
        }
        access
    }

    /// The part of a run that lies on its last track.
    fn tail_of_run(&self, place: &Place, first: u64, count: u64, access: &mut Access) {
        let last = self.geometry.locate(first + count - 1);
        let from = self.geometry.track(&last).start.max(first);
        if from > first && last.zone == place.zone {
            let at = self.geometry.locate(from);
            let sweep = self.geometry.sweep(&at, from, first + count - from, false);
            access.tail = (first + count - from, access.end - sweep + self.geometry.sector_time(&at));
        }
    }

    /// The next zone of a request, or its next sector that is remapped or follows such a one: a step of the arm, then its rotational
    /// position.
    fn continue_with(&mut self, first: u64, count: u64, write: bool, access: &mut Access) {
        self.settle(first - 1);
        let place = self.geometry.locate(first);
        let seek = self.seek_time(&place, write);
        (self.cylinder, self.head) = (place.cylinder, place.head);
        let wait = self.geometry.rotation(access.end + seek, place.angle);
        let sweep = self.geometry.sweep(&place, first, count, write);
        access.seek += seek;
        access.wait += wait;
        access.transfer += sweep;
        access.end += seek + wait + sweep;
    }

    /// Reads from where a head lands on the request's track. Sectors before the request that pass on the way are kept.
    /// If it lands inside the request, the missed part is read a revolution later.
    fn land(&self, arrived: u64, place: &Place, first: u64, count: u64, access: &mut Access) {
        let geometry = &self.geometry;
        let track = geometry.track(place);
        let (passed, into) = geometry.passed(arrived, place);
        let sector_time = geometry.sector_time(place);
        let behind = passed + u64::from(into > 0);
        let on_track = track.end - first;
        if behind > 0 && behind < count.min(on_track) && count <= on_track && self.zero_latency {
            // From the next whole sector to the request's end; then its start, a revolution after the missed part
            // began.
            let to_start = geometry.rotation(arrived, place.angle);
            access.first_done = arrived + to_start + sector_time;
            access.end = arrived + to_start + behind * sector_time;
            access.transfer = count * sector_time;
            access.wait += access.end - arrived - access.transfer.min(access.end - arrived);
            access.tail = (count, access.first_done);
            if self.read_any_free {
                access.from = track.start;
            }
        } else if self.read_any_free {
            let to_start = geometry.rotation(arrived, place.angle);
            let readable = to_start / sector_time.max(1);
            access.from = first.saturating_sub(readable).max(track.start);
        }
    }
}
