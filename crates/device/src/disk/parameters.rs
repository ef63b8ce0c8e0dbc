use peryton_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use super::shingled_parameters::ShingledParameters;
use crate::BuildError;

/// The parameters of a disk: the `[disk]` table of a profile.
///
/// Either `tracks` (from a data sheet's transfer rates) or `zones` (from a drive's published geometry) says how
/// sectors lie on the surfaces.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct DiskParameters {
    /// Revolutions per minute.
    pub rpm: f64,
    /// Surfaces that hold data.
    pub heads: u32,
    /// Sets of arms that move independently, 1 or 2. Each has an equal part of the surfaces and of the addresses.
    #[serde(default = "one")]
    pub actuators: u32,
    /// Tracks that overlap, and what makes them writable anywhere; absent: conventional tracks.
    pub shingled: Option<ShingledParameters>,
    /// The offset on the disk where its used part begins. With an offset above 0, a part of a disk does not have the outermost
    /// tracks.
    #[serde(default)]
    pub begin: Bytes,
    /// Bytes per sector.
    #[serde(default = "sector")]
    pub sector: Bytes,
    /// A geometry derived from the sustained transfer rates at both ends.
    pub tracks: Option<Tracks>,
    /// A geometry as published, zone by zone.
    #[serde(default)]
    pub zones: Vec<ZoneParameters>,
    /// Odd cylinders of a zone run from the last head to the first, so that a cylinder switch stays on its surface.
    #[serde(default)]
    pub serpentine: bool,
    /// The seek times of the arm.
    pub seek: Seek,
    /// The time to select another head of the same cylinder.
    #[serde(default)]
    pub head_switch: Nanos,
    /// Time added to a seek or head switch before a write, because a write needs a more precise position than a read.
    #[serde(default)]
    pub write_settle: Nanos,
    /// Controller and host interface.
    #[serde(default)]
    pub controller: Controller,
    /// Read-ahead segments and write cache.
    #[serde(default)]
    pub buffer: BufferParameters,
    /// Order of service.
    #[serde(default)]
    pub queue: Queue,
    /// Power in watts, and the cost of starting and stopping.
    #[serde(default)]
    pub power: Power,
}

fn one() -> u32 {
    1
}

fn sector() -> Bytes {
    Bytes(512)
}

/// A geometry derived from a data sheet: sectors per track fall linearly from the outermost zone to the innermost, and
/// zones have the same number of cylinders.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Tracks {
    /// Addressable bytes.
    pub capacity: Bytes,
    /// Sustained transfer rate at the start of the address space, MB (10⁶ bytes) per second, switches included.
    pub outer_mb_per_s: f64,
    /// Sustained transfer rate at the end of the address space, MB (10⁶ bytes) per second, switches included.
    pub inner_mb_per_s: f64,
    /// Number of zones.
    #[serde(default = "sixteen")]
    pub zones: u32,
}

fn sixteen() -> u32 {
    16
}

/// A run of cylinders with equally many sectors on each track.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ZoneParameters {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Number of cylinders.
    pub cylinders: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
    /// Sectors at the start of the zone that hold no data.
    #[serde(default)]
    pub reserved: u64,
    /// Angle of the zone's first sector, in sectors.
    #[serde(default)]
    pub first_angle: f64,
    /// From the end of a track to the start of the next in the same cylinder, in sectors.
    pub track_skew: f64,
    /// From the end of a cylinder to the start of the next, in sectors.
    pub cylinder_skew: f64,
    /// Cylinders that share spare sectors; zero stands for the whole zone.
    #[serde(default)]
    pub spare_range: u32,
    /// Spare sectors at the end of each such range.
    #[serde(default)]
    pub spares: u64,
    /// Defective sectors that addressing passes over, counted from the start of the zone.
    #[serde(default)]
    pub slips: Vec<u64>,
    /// Defective sectors whose data lie elsewhere in the zone: pairs of the defect and of the sector in its place (a spare), counted from
    /// the start of the zone.
    #[serde(default)]
    pub remapped: Vec<(u64, u64)>,
}

/// Seek time as a function of distance.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Seek {
    /// Time to the next cylinder.
    pub single: Option<Nanos>,
    /// Mean over all pairs of cylinders.
    pub average: Option<Nanos>,
    /// Time from the first cylinder to the last.
    pub full: Option<Nanos>,
    /// Measured points (cylinders, milliseconds), joined by straight lines, in place of `single`, `average` and `full`.
    #[serde(default)]
    pub curve: Vec<(u32, f64)>,
}

/// Time the electronics take.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Controller {
    /// Before a read that the buffer can answer, after a read.
    #[serde(default)]
    pub read_hit: Overhead,
    /// Before a read that needs the mechanics.
    #[serde(default)]
    pub read_miss: Overhead,
    /// Before a write into the buffer.
    #[serde(default)]
    pub write_hit: Overhead,
    /// Before a write that needs the mechanics.
    #[serde(default)]
    pub write_miss: Overhead,
    /// Rate of the host interface in MB (10⁶ bytes) per second; absent for an infinitely fast one.
    pub interface_mb_per_s: Option<f64>,
}

/// An overhead that depends on the previous command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Overhead {
    /// Time of the electronics before this kind of request, if the last command was a read.
    pub after_read: Nanos,
    /// The same if the last command was a write.
    pub after_write: Nanos,
}

/// The drive's memory.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct BufferParameters {
    /// Number of segments for reads. The least recently used segment is replaced first. Zero: no caching.
    pub segments: u32,
    /// Bytes of a segment.
    pub segment: Bytes,
    /// How far the disk reads ahead after a request.
    pub read_ahead: ReadAhead,
    /// Most bytes read ahead.
    pub max_read_ahead: Bytes,
    /// Whether data read ahead may displace the request's own data in its segment.
    pub read_ahead_over_requested: bool,
    /// Whether the buffer also keeps sectors that pass under the head before the requested ones.
    pub read_any_free: bool,
    /// Whether reading begins inside the request's range if the head lands there (zero-latency access).
    pub zero_latency: bool,
    /// Whether a request counts as a hit if it begins with the sector that the disk is just reading ahead.
    pub almost_hits: bool,
    /// Whether hits are answered while the mechanics are busy with another command.
    pub hits_while_busy: bool,
    /// Whether reads may be answered with written data.
    pub read_hits_on_written: bool,
    /// Whether written data have separate memory, in place of a read segment.
    pub separate_write: bool,
    /// The most unwritten data in the write cache; a write ends when its data are there. Absent: no write cache.
    pub write_cache: Option<Bytes>,
    /// Most separate ranges waiting to be written.
    pub write_ranges: u32,
    /// Whether a write may enter the buffer while the mechanics are busy with another command.
    pub write_while_busy: bool,
    /// Order in which the write cache is emptied.
    pub destage: Scheduler,
}

impl Default for BufferParameters {
    fn default() -> Self {
        BufferParameters {
            segments: 0,
            segment: Bytes::ZERO,
            read_ahead: ReadAhead::Segment,
            max_read_ahead: Bytes(u64::MAX),
            read_ahead_over_requested: true,
            read_any_free: false,
            zero_latency: false,
            almost_hits: true,
            hits_while_busy: true,
            read_hits_on_written: true,
            separate_write: false,
            write_cache: None,
            write_ranges: 1024,
            write_while_busy: true,
            destage: Scheduler::Elevator,
        }
    }
}

/// How far a disk reads ahead after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ReadAhead {
    /// Not at all.
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// Until the segment is full, or `max_read_ahead` is reached.
    Segment,
    /// To the end of the track; also of the next one, once a stream has come from the previous track.
    TrackAhead,
}

/// Which command is served next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Scheduler {
    /// First come, first served.
    #[default]
    Fcfs,
    /// The next upwards in address, else the lowest (C-LOOK).
    Elevator,
    /// The one with the shortest positioning time.
    Sptf,
}

/// Order of service.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Queue {
    /// Commands among which the drive chooses the next one. Further commands wait outside in their order of arrival.
    pub depth: u32,
    /// The scheduling policy.
    pub scheduler: Scheduler,
    /// A command that has waited for this time is served next, before the scheduler's choice.
    pub patience: Nanos,
}

impl Default for Queue {
    fn default() -> Self {
        Queue { depth: 1, scheduler: Scheduler::Fcfs, patience: Nanos::from_s(2) }
    }
}

/// The power of a disk in each state.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Power {
    /// Watts spinning, without a command.
    pub idle_w: f64,
    /// Watts in standby.
    pub standby_w: f64,
    /// Watts while the arm moves.
    pub seek_w: f64,
    /// Watts while waiting for a sector; `idle_w` where absent.
    pub wait_w: Option<f64>,
    /// Watts while reading from the surface.
    pub read_w: f64,
    /// Watts while writing to the surface.
    pub write_w: f64,
    /// Joules added to reading and writing for each MB (10⁶ bytes), because a channel draws more at a higher rate.
    pub transfer_j_per_mb: f64,
    /// Time from standby to ready.
    pub spin_up: Nanos,
    /// Joules of a spin-up.
    pub spin_up_j: f64,
    /// Time from ready to standby.
    pub spin_down: Nanos,
    /// Joules of a spin-down.
    pub spin_down_j: f64,
}

/// A bound on cylinders × heads, far above any drive (2024: some 10⁷), so that derived tables stay small.
const MAX_CYLINDERS: u64 = 1 << 24;
const MAX_HEADS: u32 = 256;
const MAX_SECTORS_PER_TRACK: u32 = 1 << 20;
const MAX_SEGMENTS: u32 = 4096;
const MAX_DEPTH: u32 = 4096;
const MAX_ZONES: u32 = 4096;

impl DiskParameters {
    /// Checks every range that the model relies on.
    ///
    /// # Errors
    /// The first key out of its range.
    pub(super) fn check(&self) -> Result<(), BuildError> {
        let range = |key, found: String, expected| Err(BuildError::Range { key, found, expected });
        if !(self.rpm >= 60.0 && self.rpm <= 100_000.0) {
            return range("rpm", self.rpm.to_string(), "60 to 100000");
        }
        if self.heads == 0 || self.heads > MAX_HEADS {
            return range("heads", self.heads.to_string(), "1 to 256");
        }
        if !(1..=2).contains(&self.actuators) {
            return range("actuators", self.actuators.to_string(), "1 or 2");
        }
        if self.actuators > 1 && self.shingled.is_some() {
            return range("actuators", self.actuators.to_string(), "1 for a shingled disk");
        }
        if !self.sector.0.is_power_of_two() || !(512..=65536).contains(&self.sector.0) {
            return range("sector", self.sector.to_string(), "512B, 4096B, or another power of two up to 64KiB");
        }
        if !self.begin.0.is_multiple_of(self.sector.0) {
            return range("begin", self.begin.to_string(), "a multiple of the sector");
        }
        if self.begin > Bytes::ZERO && (self.actuators > 1 || self.shingled.is_some()) {
            return range("begin", self.begin.to_string(), "0B for a disk that is shingled or has two actuators");
        }
        match (&self.tracks, self.zones.is_empty()) {
            (None, true) => return range("tracks", "absent".into(), "either a table 'tracks' or a list 'zones'"),
            (Some(_), false) => return range("tracks", "both".into(), "either a table 'tracks' or a list 'zones'"),
            (Some(tracks), true) => {
                if tracks.capacity.0 < self.sector.0 || tracks.capacity.0 > 1 << 60 {
                    return range("tracks.capacity", tracks.capacity.to_string(), "a sector to 1EiB");
                }
                for (key, rate) in
                    [("tracks.outer_mb_per_s", tracks.outer_mb_per_s), ("tracks.inner_mb_per_s", tracks.inner_mb_per_s)]
                {
                    if !(rate > 0.001 && rate < 100_000.0) {
                        return range(key, rate.to_string(), "a rate in MB/s above 0.001");
                    }
                }
                if tracks.zones == 0 || tracks.zones > MAX_ZONES {
                    return range("tracks.zones", tracks.zones.to_string(), "1 to 4096");
                }
            }
            (None, false) => self.check_zones()?,
        }
        let fit = [self.seek.single, self.seek.average, self.seek.full];
        if self.seek.curve.is_empty() && fit.iter().any(Option::is_none) {
            return range("seek", "incomplete".into(), "either 'curve' or all of 'single', 'average' and 'full'");
        }
        for span in fit.into_iter().flatten().chain([self.head_switch, self.write_settle]) {
            if span > Nanos::from_s(10) {
                return range("seek", span.to_string(), "at most 10s");
            }
        }
        let rising = self.seek.curve.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let sane = self.seek.curve.iter().all(|&(distance, ms)| distance > 0 && (0.0..10_000.0).contains(&ms));
        if !(rising && sane) {
            return range("seek.curve", "unordered".into(), "distances from 1 up, rising, with times in milliseconds");
        }
        if self.controller.interface_mb_per_s.is_some_and(|rate| !(rate > 0.001 && rate.is_finite())) {
            return range("controller.interface_mb_per_s", "not a rate".into(), "a rate in MB/s above 0.001");
        }
        if self.buffer.segments > MAX_SEGMENTS {
            return range("buffer.segments", self.buffer.segments.to_string(), "at most 4096");
        }
        if self.buffer.segments > 0 && self.buffer.segment < self.sector {
            return range("buffer.segment", self.buffer.segment.to_string(), "at least one sector");
        }
        if self.buffer.write_cache.is_some_and(|size| size < self.sector) {
            return range("buffer.write_cache", "too small".into(), "at least one sector, or leave it out for none");
        }
        if self.buffer.write_ranges == 0 || self.buffer.write_ranges > MAX_DEPTH {
            return range("buffer.write_ranges", self.buffer.write_ranges.to_string(), "1 to 4096");
        }
        if self.queue.depth == 0 || self.queue.depth > MAX_DEPTH {
            return range("queue.depth", self.queue.depth.to_string(), "1 to 4096");
        }
        let power = &self.power;
        for (key, value) in [
            ("power.idle_w", power.idle_w),
            ("power.standby_w", power.standby_w),
            ("power.seek_w", power.seek_w),
            ("power.wait_w", power.wait_w.unwrap_or(0.0)),
            ("power.read_w", power.read_w),
            ("power.write_w", power.write_w),
            ("power.transfer_j_per_mb", power.transfer_j_per_mb),
            ("power.spin_up_j", power.spin_up_j),
            ("power.spin_down_j", power.spin_down_j),
        ] {
            if !(value >= 0.0 && value.is_finite()) {
                return range(key, value.to_string(), "a number from 0 up");
            }
        }
        if power.spin_up > Nanos::from_s(3600) || power.spin_down > Nanos::from_s(3600) {
            return range("power.spin_up", "too long".into(), "at most an hour");
        }
        Ok(())
    }

    fn check_zones(&self) -> Result<(), BuildError> {
        let range = |key, found: String, expected| Err(BuildError::Range { key, found, expected });
        let mut next = 0u64;
        if self.zones.len() > MAX_ZONES as usize {
            return range("zones", self.zones.len().to_string(), "at most 4096 zones");
        }
        for zone in &self.zones {
            if u64::from(zone.first_cylinder) < next || zone.cylinders == 0 {
                return range("zones.first_cylinder", zone.first_cylinder.to_string(), "zones in order, none empty");
            }
            next = u64::from(zone.first_cylinder) + u64::from(zone.cylinders);
            if next > MAX_CYLINDERS {
                return range("zones.cylinders", zone.cylinders.to_string(), "at most 16777216 cylinders in all");
            }
            if zone.sectors_per_track == 0 || zone.sectors_per_track > MAX_SECTORS_PER_TRACK {
                return range("zones.sectors_per_track", zone.sectors_per_track.to_string(), "1 to 1048576");
            }
            let skews = [zone.track_skew, zone.cylinder_skew, zone.first_angle];
            if skews.iter().any(|skew| !(*skew >= 0.0 && *skew <= f64::from(MAX_SECTORS_PER_TRACK))) {
                return range("zones.track_skew", format!("{skews:?}"), "skews in sectors, from 0 up");
            }
            let per_cylinder = u64::from(zone.sectors_per_track) * u64::from(self.heads);
            let in_zone = per_cylinder * u64::from(zone.cylinders);
            let spare_range = if zone.spare_range == 0 { zone.cylinders } else { zone.spare_range };
            let in_range = per_cylinder * u64::from(spare_range.min(zone.cylinders));
            if zone.spares >= in_range || zone.reserved >= in_zone {
                return range("zones.spares", zone.spares.to_string(), "fewer sectors than there are");
            }
            if zone.slips.windows(2).any(|pair| pair[0] >= pair[1]) || zone.slips.last().is_some_and(|&s| s >= in_zone)
            {
                return range("zones.slips", "unordered".into(), "rising sector numbers inside the zone");
            }
            let outside = |&(defect, instead): &(u64, u64)| defect.max(instead) >= in_zone;
            if zone.remapped.windows(2).any(|pair| pair[0].0 >= pair[1].0) || zone.remapped.iter().any(outside) {
                return range("zones.remapped", "unordered".into(), "pairs with rising defects, both inside the zone");
            }
        }
        Ok(())
    }

    /// Time of one revolution, in nanoseconds.
    pub(super) fn period_ns(&self) -> f64 {
        60e9 / self.rpm
    }
}
