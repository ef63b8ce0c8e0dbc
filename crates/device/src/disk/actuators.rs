//! A disk with two actuators: two sets of arms on one spindle, each with half of the surfaces and of the addresses.
//! They seek and transfer at the same time.

use peryton_units::{Bytes, Nanos, Op};

use super::{Disk, DiskParameters, joins::Joins, parameters::Power};
use crate::{
    Accepted, BuildError, DeviceStats, Io, PowerState, Tag, WearCounts,
    meter::{Draw, Meter},
};

/// The model; see [`DiskParameters::actuators`].
#[derive(Clone, Debug)]
pub struct TwoActuators {
    arms: [Disk; 2],
    /// The first address of the second actuator.
    split: u64,
    joins: Joins,
    /// Counts the host's commands and the time in which there are any.
    meter: Meter,
    /// The start of the present period without a gap between commands.
    busy_from: Option<u64>,
    reports: Vec<(Tag, Nanos)>,
}

impl TwoActuators {
    /// # Errors
    /// The parameters do not make a disk, or cannot be halved.
    pub fn new(parameters: &DiskParameters) -> Result<TwoActuators, BuildError> {
        let range = |key, found: String, expected| Err(BuildError::Range { key, found, expected });
        parameters.check()?;
        let Some(tracks) = &parameters.tracks else {
            return range("actuators", "2".into(), "a geometry of the form 'tracks'");
        };
        if !parameters.heads.is_multiple_of(2) {
            return range("heads", parameters.heads.to_string(), "an even number, for two actuators");
        }
        let sector = parameters.sector.0.max(1);
        let half = tracks.capacity.0 / sector / 2 * sector;
        let power = &parameters.power;
        // Each arm has the additional power of seeks and transfers; both share the power of the spindle.
        let over = |watts: f64| (watts - power.idle_w).max(-power.idle_w / 2.0) + power.idle_w / 2.0;
        let arm = |capacity: u64| {
            let buffer = &parameters.buffer;
            Disk::new(&DiskParameters {
                actuators: 1,
                heads: parameters.heads / 2,
                tracks: Some(super::Tracks { capacity: Bytes(capacity), ..tracks.clone() }),
                buffer: super::BufferParameters {
                    segments: buffer.segments.div_ceil(2),
                    write_cache: buffer.write_cache.map(|size| Bytes((size.0 / 2).max(sector))),
                    write_ranges: buffer.write_ranges.div_ceil(2),
                    ..buffer.clone()
                },
                power: Power {
                    idle_w: power.idle_w / 2.0,
                    standby_w: power.standby_w / 2.0,
                    seek_w: over(power.seek_w),
                    wait_w: power.wait_w.map(over),
                    read_w: over(power.read_w),
                    write_w: over(power.write_w),
                    spin_up_j: power.spin_up_j / 2.0,
                    spin_down_j: power.spin_down_j / 2.0,
                    ..power.clone()
                },
                ..parameters.clone()
            })
        };
        let arms = [arm(half)?, arm(tracks.capacity.0 - half)?];
        Ok(TwoActuators {
            split: arms[0].capacity().0,
            arms,
            joins: Joins::default(),
            meter: Meter::new(Draw { idle_w: 0.0, busy_w: 0.0, standby_w: 0.0, linger: 0 }),
            busy_from: None,
            reports: Vec::new(),
        })
    }

    /// Does the same as [`Disk::submit`].
    #[inline(never)]
    pub fn submit(&mut self, now: Nanos, tag: Tag, io: Io) -> Accepted {
        self.collect(now.0);
        self.meter.command(io);
        let io = if io.op == Op::Flush { Io { at: Bytes::ZERO, len: Bytes::ZERO, ..io } } else { io };
        // There is one spindle, so a command for one arm wakes both.
        self.arms.iter_mut().for_each(|arm| arm.set_power(now, PowerState::Active));
        let end = io.at.0 + io.len.0;
        let parts = [
            (0, Io { len: Bytes(end.min(self.split).saturating_sub(io.at.0)), ..io }),
            (
                1,
                Io {
                    at: Bytes(io.at.0.saturating_sub(self.split)),
                    len: Bytes(end.saturating_sub(io.at.0.max(self.split))),
                    ..io
                },
            ),
        ];
        let both = io.op == Op::Flush;
        let empty = usize::from(io.at.0 >= self.split);
        let wanted = |arm: usize, part: &Io| both || part.len.0 > 0 || (io.len.0 == 0 && arm == empty);
        let count = parts.iter().filter(|(arm, part)| wanted(*arm, part)).count();
        self.busy_from.get_or_insert(now.0);
        let slot = self.joins.open(tag, now.0, count as u32);
        for (arm, part) in parts {
            if wanted(arm, &part) {
                let accepted = self.arms[arm].submit(now, Tag(slot), part);
                let ended = self.joins.accepted(slot, accepted);
                self.ended(ended);
            }
        }
        Accepted::Queued
    }

    /// Does the same as [`Disk::next_event`].
    pub fn next_event(&self) -> Option<Nanos> {
        let arms = self.arms.iter().filter_map(|arm| arm.next_event().map(|at| at.0));
        arms.chain(self.joins.next_report()).min().map(Nanos)
    }

    /// Does the same as [`Disk::advance`].
    pub fn advance(&mut self, now: Nanos, completed: &mut Vec<(Tag, Nanos)>) {
        self.collect(now.0);
        self.joins.report(now.0, completed);
    }

    /// Collects the parts that the arms have completed by `now`.
    fn collect(&mut self, now: u64) {
        for arm in &mut self.arms {
            arm.advance(Nanos(now), &mut self.reports);
        }
        let mut reports = std::mem::take(&mut self.reports);
        for (tag, end) in reports.drain(..) {
            let ended = self.joins.part_done(tag.0, end.0);
            self.ended(ended);
        }
        self.reports = reports;
    }

    fn ended(&mut self, ended: Option<(u64, u64)>) {
        if let Some((arrived, end)) = ended {
            self.meter.busy(self.busy_from.unwrap_or(arrived), end);
            if self.joins.in_service() == 0 {
                self.busy_from = None;
            }
        }
    }

    /// Does the same as [`Disk::set_power`].
    pub fn set_power(&mut self, now: Nanos, state: PowerState) {
        self.collect(now.0);
        self.arms.iter_mut().for_each(|arm| arm.set_power(now, state));
    }

    /// Does the same as [`Disk::stats`].
    pub fn stats(&mut self, now: Nanos) -> DeviceStats {
        self.collect(now.0);
        if let Some(from) = self.busy_from {
            self.meter.busy(from, now.0);
        }
        let [a, b] = [self.arms[0].stats(now), self.arms[1].stats(now)];
        let counted = self.meter.stats(now.0);
        let standby = a.standby.min(b.standby);
        let whole = counted.busy + counted.idle + counted.standby;
        DeviceStats {
            standby,
            idle: whole.saturating_sub(counted.busy).saturating_sub(standby),
            energy_j: a.energy_j + b.energy_j,
            start_stops: a.start_stops.max(b.start_stops),
            ..counted
        }
    }

    /// Does the same as [`Disk::wear`].
    pub fn wear(&self) -> WearCounts {
        let start_stops = self.arms.iter().map(|arm| arm.wear().start_stops).max().unwrap_or(0);
        WearCounts { start_stops, ..self.meter.wear() }
    }

    /// Does the same as [`Disk::reset_stats`].
    pub fn reset_stats(&mut self, now: Nanos) {
        self.stats(now);
        self.arms.iter_mut().for_each(|arm| arm.reset_stats(now));
        self.meter.reset(now.0);
    }

    /// Does the same as [`Disk::unwritten`].
    pub fn unwritten(&mut self, now: Nanos) -> Bytes {
        let [a, b] = &mut self.arms;
        a.unwritten(now) + b.unwritten(now)
    }

    /// Does the same as [`Disk::capacity`].
    pub fn capacity(&self) -> Bytes {
        self.arms[0].capacity() + self.arms[1].capacity()
    }
}
