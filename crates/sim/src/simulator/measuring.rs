//! The beginning of the measured span, and the intervals of it, outside of the event loop's hot path.

use peryton_engine::{DeviceId, Engine, Placement};
use peryton_units::{Bytes, Nanos, Op};

use super::Simulator;
use crate::{
    Design, SimError,
    intervals::{DeviceCounts, EngineCounts, Intervals, State},
    parts::Mark,
    use_map::UseCounts,
    wear_parts::WearParts,
};

/// Just before the time that means "never".
pub(super) const LAST: Nanos = Nanos(Nanos::MAX.0 - 1);

/// What is noted of the parts of the volumes, if that was asked for.
pub(super) struct Uses {
    pub(super) counts: UseCounts,
    /// Of a design that moves extents.
    extents: Option<Extents>,
    /// Space for what an engine hands out.
    changed: Vec<(u32, bool, bool)>,
}

/// The extents of a design, its fast device, and whether every place in its map is on that.
#[derive(Clone, Copy)]
struct Extents {
    bytes: Bytes,
    fast: DeviceId,
    is_cache: bool,
}

impl Uses {
    pub(super) fn new(design: &Design) -> Uses {
        let is_cache = !matches!(design.placement, Placement::Tiering(_));
        let extents = design.placement.hybrid().map(|pair| Extents { bytes: pair.extent, fast: pair.fast, is_cache });
        let counts = UseCounts::new(design.volume, design.volumes as usize, extents.map(|extents| extents.bytes));
        Uses { counts, extents, changed: Vec::new() }
    }
}

impl<const SEVERAL: bool, const WATCHED: bool> Simulator<'_, SEVERAL, WATCHED> {
    /// Counts a reply of the warm-up, or in an interval.
    #[cold]
    pub(super) fn count_reply(&mut self, number: u32, op: Op, span: Nanos, len: Bytes) {
        if self.warm_up_left > 0 {
            self.warm_up_left -= 1;
            if self.warm_up_left == 0 {
                self.begin_measuring();
            }
        } else {
            self.intervals.iter_mut().for_each(|intervals| intervals.answered(op, span, len));
            if let Some(parts) = &mut self.parts {
                // Far fewer requests are in flight than 32 bits can count.
                let since = (self.arrivals as u32).wrapping_sub(number);
                parts.answered(self.arrivals - u64::from(since), op, span);
            }
        }
    }

    /// Begins a part with the next request, if one begins with it.
    #[cold]
    pub(super) fn count_arrival(&mut self) {
        let (number, now) = (self.arrivals, self.now);
        if self.warm_up_left > 0 || self.parts.as_ref().is_none_or(|parts| !parts.begins_with(number)) {
            return;
        }
        let devices = self.machine.counts(now);
        let mark = Mark::of(now, &self.state(&devices));
        if let Some(parts) = &mut self.parts {
            parts.mark(mark);
        }
    }

    /// The state of the drive, of which the devices have counted this.
    fn state(&self, devices: &[DeviceCounts]) -> State {
        let mut engine = EngineCounts::default();
        let mut dirty = Bytes::ZERO;
        for volume in &self.machine.volumes {
            engine.add(volume.engine.stats());
            dirty += volume.engine.dirty_bytes();
        }
        // Several volumes share a log, and have no admission.
        let adaptive = self.machine.volumes.first().and_then(|volume| volume.engine.adaptive_admission());
        State { engine, devices: devices.to_vec(), dirty, adaptive }
    }

    pub(super) fn begin_intervals(&mut self) {
        if let Some(parts) = &mut self.parts {
            parts.begin(self.arrivals);
        }
        self.intervals.iter_mut().for_each(|intervals| intervals.begin(self.now));
        self.interval_end = self.next_end();
    }

    /// The end of the interval that ends first.
    fn next_end(&self) -> Nanos {
        self.intervals.iter().map(Intervals::next).min().unwrap_or(LAST).min(LAST)
    }

    /// Notes where extents are before the run, and has the engines say what changes.
    pub(super) fn begin_uses(&mut self) {
        let Some(uses) = &mut self.uses else { return };
        for (number, volume) in self.machine.volumes.iter_mut().enumerate() {
            volume.engine.watch_extents();
            let Some(extents) = uses.extents else { continue };
            let whole = volume.engine.volume_size();
            let count = whole.0.div_ceil(extents.bytes.0.max(1)) as u32;
            for extent in 0..count {
                let place = volume.engine.location(Bytes(u64::from(extent) * extents.bytes.0));
                let (on_fast, dirty) =
                    place.map_or((false, false), |place| (place.device == Some(extents.fast), place.dirty));
                uses.counts.is_at(number, extent, on_fast, dirty);
            }
        }
    }

    /// Counts the extents of a volume that have another place since the last time.
    #[cold]
    pub(super) fn count_moves(&mut self, volume: usize) {
        let Some(uses) = &mut self.uses else { return };
        let engine = &mut self.machine.volumes[volume].engine;
        let mut changed = std::mem::take(&mut uses.changed);
        engine.take_changed_extents(|extent, has_place, dirty| changed.push((extent, has_place, dirty)));
        for (extent, has_place, dirty) in changed.drain(..) {
            let Some(Extents { bytes, fast, is_cache }) = uses.extents else { continue };
            let place = |engine: &Engine| engine.location(Bytes(u64::from(extent) * bytes.0));
            let on_fast = if is_cache { has_place } else { place(engine).is_some_and(|at| at.device == Some(fast)) };
            uses.counts.moved(self.now, volume, extent, on_fast, dirty);
        }
        uses.changed = changed;
    }

    /// Ends the intervals that end before `next`, the time of the next event.
    #[cold]
    pub(super) fn end_intervals_before(&mut self, next: Nanos) -> Result<(), SimError> {
        if next == Nanos::MAX {
            return Err(SimError::Stalled { at: self.now, in_flight: self.in_flight });
        }
        for intervals in &self.intervals {
            intervals.check(next)?;
        }
        while next > self.interval_end {
            let devices = self.machine.counts(self.interval_end);
            let end = self.interval_end;
            self.end_interval(end, &devices, |intervals| intervals.next() == end);
        }
        Ok(())
    }

    /// Ends the present intervals of those that `ends` names: nothing happens between the last event and `to`.
    fn end_interval(&mut self, to: Nanos, devices: &[DeviceCounts], ends: impl Fn(&Intervals) -> bool) {
        let state = self.state(devices);
        for intervals in self.intervals.iter_mut().filter(|intervals| ends(intervals)) {
            intervals.end(to, state.clone());
        }
        self.interval_end = self.next_end();
    }

    /// Ends the last interval with the last reply.
    pub(super) fn end_last_interval(&mut self) {
        let last = self.last_reply;
        if self.intervals.iter().any(|intervals| intervals.is_open(last)) {
            let devices = self.machine.last_counts(last);
            self.end_interval(last, &devices, |intervals| intervals.is_open(last));
        }
    }

    /// Starts the measured span at the end of the warm-up.
    #[cold]
    fn begin_measuring(&mut self) {
        for volume in &mut self.machine.volumes {
            volume.engine.reset_stats();
            if let Some((_, bounds)) = &mut volume.bounds {
                bounds.reset();
            }
            if let Some(touched) = &mut volume.touched {
                touched.reset();
            }
        }
        for device in &mut self.machine.devices {
            device.model.reset_stats(self.now);
        }
        for host in &mut self.hosts {
            host.times.clear();
        }
        if let Some(above) = &mut self.above {
            above.reset_stats();
        }
        (self.bytes, self.since) = (0, self.now);
        self.wear = WearParts::from(self.now);
        if let Some(uses) = &mut self.uses {
            uses.counts.begin(self.now);
        }
        self.begin_intervals();
        self.replies_count = !self.intervals.is_empty() || self.parts.is_some();
    }
}
