//! The beginning of the measured span, and the intervals of it, outside of the event loop's hot path.

use peryton_units::{Bytes, Nanos, Op};

use super::Simulator;
use crate::{
    SimError,
    intervals::{DeviceCounts, EngineCounts, State},
    wear_parts::WearParts,
};

/// Just before the time that means "never".
pub(super) const LAST: Nanos = Nanos(Nanos::MAX.0 - 1);

impl<const SEVERAL: bool> Simulator<'_, SEVERAL> {
    /// Counts a reply of the warm-up, or in an interval.
    #[cold]
    pub(super) fn count_reply(&mut self, op: Op, span: Nanos, len: Bytes) {
        if self.warm_up_left > 0 {
            self.warm_up_left -= 1;
            if self.warm_up_left == 0 {
                self.begin_measuring();
            }
        } else if let Some(intervals) = &mut self.intervals {
            intervals.answered(op, span, len);
        }
    }

    pub(super) fn begin_intervals(&mut self) {
        if let Some(intervals) = &mut self.intervals {
            intervals.begin(self.now);
            self.interval_end = intervals.next().min(LAST);
        }
    }

    /// Ends the intervals that end before `next`, the time of the next event.
    #[cold]
    pub(super) fn end_intervals_before(&mut self, next: Nanos) -> Result<(), SimError> {
        if next == Nanos::MAX {
            return Err(SimError::Stalled { at: self.now, in_flight: self.in_flight });
        }
        if let Some(intervals) = &self.intervals {
            intervals.check(next)?;
        }
        while next > self.interval_end {
            let devices = self.machine.counts(self.interval_end);
            self.end_interval(self.interval_end, devices);
        }
        Ok(())
    }

    /// Ends the present interval: nothing happens between the last event and `to`.
    fn end_interval(&mut self, to: Nanos, devices: Vec<DeviceCounts>) {
        let mut engine = EngineCounts::default();
        let mut dirty = Bytes::ZERO;
        for volume in &self.machine.volumes {
            engine.add(volume.engine.stats());
            dirty += volume.engine.dirty_bytes();
        }
        let state = State { engine, devices, dirty };
        if let Some(intervals) = &mut self.intervals {
            intervals.end(to, state);
            self.interval_end = intervals.next().min(LAST);
        }
    }

    /// Ends the last interval with the last reply.
    pub(super) fn end_last_interval(&mut self) {
        if self.intervals.as_ref().is_some_and(|intervals| intervals.is_open(self.last_reply)) {
            let devices = self.machine.last_counts(self.last_reply);
            self.end_interval(self.last_reply, devices);
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
        (self.bytes, self.since) = (0, self.now);
        self.wear = WearParts::from(self.now);
        self.begin_intervals();
        self.replies_count = self.intervals.is_some();
    }
}
