//! The place of a sector: zones, skews, slipped sectors, and the time that the head needs along consecutive sectors.

use std::ops::Range;

use peryton_units::Nanos;

use super::{
    parameters::{DiskParameters, Tracks, ZoneParameters},
    remapped::{Defect, Remapped},
};
use crate::BuildError;

/// Times on the surface are kept in 2⁻¹⁶ ns, so that a million sectors' rounding stays below 16 ns.
const FRACTION: u32 = 16;

fn times(n: u64, fixed: u64) -> u64 {
    ((u128::from(n) * u128::from(fixed)) >> FRACTION) as u64
}

/// Part of a turn, in units of 2⁻⁶⁴ turns; arithmetic wraps as the platter does.
pub(super) type Angle = u64;

fn turn(share: f64) -> Angle {
    (share.rem_euclid(1.0) * 2f64.powi(64)) as u64
}

/// A sector's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub zone: usize,
    pub cylinder: u32,
    pub head: u32,
    /// Counted from the start of the zone along the tracks, slipped sectors and spares included.
    pub physical: u64,
    /// The angle at which its start passes under the head.
    pub angle: Angle,
}

#[derive(Clone, Debug)]
pub(super) struct Zone {
    /// Addresses that it holds.
    pub sectors: Range<u64>,
    pub first_cylinder: u32,
    pub sectors_per_track: u64,
    sectors_per_cylinder: u64,
    tracks_per_cylinder: u64,
    reserved: u64,
    first_angle: Angle,
    track_skew: Angle,
    cylinder_skew: Angle,
    sector_angle: Angle,
    /// Physical sectors and addresses of each sparing range.
    range_physical: u64,
    range_logical: u64,
    slips: Vec<u64>,
    /// For each slip, the first in-zone address (reserved sectors included) after it.
    slip_addresses: Vec<u64>,
    /// Time of a sector, and of the skews between tracks and between cylinders, when reading and when writing.
    sector_time: u64,
    track_gap: [u64; 2],
    cylinder_gap: [u64; 2],
}

impl Zone {
    /// Number of slips before in-zone address `address`, in its sparing range.
    fn slips_before(&self, address: u64, range: u64) -> u64 {
        let earlier = self.slips.partition_point(|&slip| slip < range * self.range_physical);
        let until = self.slip_addresses.partition_point(|&first| first <= address);
        until.saturating_sub(earlier) as u64
    }

    fn physical(&self, sector: u64) -> u64 {
        let address = sector - self.sectors.start + self.reserved;
        // Most zones are one sparing range: no division.
        let range = if address < self.range_logical { 0 } else { address / self.range_logical };
        let mut physical = address + range * (self.range_physical - self.range_logical);
        if !self.slips.is_empty() {
            physical += self.slips_before(address, range);
        }
        physical
    }

    /// The address of a physical sector; `None` if it holds no data, being a slip, a spare or reserved.
    pub fn address(&self, physical: u64) -> Option<u64> {
        let sector = self.sectors.start + self.offset_at(physical);
        (self.sectors.contains(&sector) && self.physical(sector) == physical).then_some(sector)
    }

    /// The address of the first data sector at or after this physical one, as an offset from the zone's first.
    fn offset_at(&self, physical: u64) -> u64 {
        let range = physical / self.range_physical;
        let base = range * self.range_physical;
        let slipped =
            self.slips.partition_point(|&slip| slip < physical) - self.slips.partition_point(|&slip| slip < base);
        let within = (physical - base - slipped as u64).min(self.range_logical);
        (range * self.range_logical + within).saturating_sub(self.reserved)
    }

    /// Time from the start of physical sector `from` to the end of `last`.
    fn sweep(&self, from: u64, last: u64, write: bool) -> u64 {
        let tracks = last / self.sectors_per_track - from / self.sectors_per_track;
        let mut time = times(last - from + 1, self.sector_time);
        if tracks > 0 {
            let cylinders = last / self.sectors_per_cylinder - from / self.sectors_per_cylinder;
            time += times(tracks - cylinders, self.track_gap[usize::from(write)]);
            time += times(cylinders, self.cylinder_gap[usize::from(write)]);
        }
        time
    }

    /// The physical sector that is reached `elapsed` after the start of `from`, reading on without end (but for at most
    /// a day).
    fn reached(&self, from: u64, elapsed: u64) -> u64 {
        const DAY: u64 = 1 << 46;
        let tracks_per_cylinder = self.tracks_per_cylinder;
        let track = self.sectors_per_track * self.sector_time;
        let with_gap = track + self.track_gap[0];
        let cylinder = tracks_per_cylinder * with_gap - self.track_gap[0] + self.cylinder_gap[0];
        // Time is counted from the start of the cylinder that holds `from`.
        let first_track = from / self.sectors_per_track;
        let (index, sector) = (first_track % tracks_per_cylinder, from % self.sectors_per_track);
        let mut left = (elapsed.min(DAY) << FRACTION) + index * with_gap + sector * self.sector_time;
        let mut reached = (first_track - index) * self.sectors_per_track;
        if left >= cylinder {
            let cylinders = left / cylinder;
            left -= cylinders * cylinder;
            reached += cylinders * self.sectors_per_cylinder;
        }
        let tracks = (left / with_gap).min(tracks_per_cylinder - 1);
        left -= tracks * with_gap;
        let sectors = (left / self.sector_time).min(self.sectors_per_track);
        (reached + tracks * self.sectors_per_track + sectors).max(from)
    }

    fn angle(&self, track: u64, cylinder: u64, sector: u64) -> Angle {
        self.first_angle
            .wrapping_add((track - cylinder).wrapping_mul(self.track_skew))
            .wrapping_add(cylinder.wrapping_mul(self.cylinder_skew))
            .wrapping_add(sector.wrapping_mul(self.sector_angle))
    }
}

#[derive(Clone, Debug)]
pub(super) struct Geometry {
    pub zones: Vec<Zone>,
    /// The end of each zone's addresses, and for each of equal parts of the address space the zone that it begins in,
    /// which a search uses.
    ends: Vec<u64>,
    zone_index: Vec<u16>,
    index_shift: u32,
    heads: u64,
    serpentine: bool,
    remapped: Remapped,
    pub sectors: u64,
    pub cylinders: u32,
    /// Angle per nanosecond, and nanoseconds per turn in 2⁻¹⁶ ns.
    speed: u64,
    period: u64,
}

/// A head that arrives this much after a sector's start still catches it: rounding must not cost a revolution.
const TOLERANCE_NS: u64 = 4;

impl Geometry {
    pub fn new(parameters: &DiskParameters) -> Result<Geometry, BuildError> {
        let derived;
        let (zones, limit) = match &parameters.tracks {
            Some(tracks) => {
                derived = derive(parameters, tracks)?;
                (&derived, tracks.capacity.0 / parameters.sector.0)
            }
            None => (&parameters.zones, u64::MAX),
        };
        let period_ns = parameters.period_ns();
        let switch = parameters.head_switch.0 as f64;
        let step = single_seek(parameters).max(switch);
        let settle = parameters.write_settle.0 as f64;
        let mut geometry = Geometry {
            zones: Vec::with_capacity(zones.len()),
            ends: Vec::new(),
            zone_index: Vec::new(),
            index_shift: 0,
            heads: u64::from(parameters.heads),
            serpentine: parameters.serpentine,
            remapped: Remapped::default(),
            sectors: 0,
            cylinders: 0,
            speed: (2f64.powi(64) / period_ns) as u64,
            period: (period_ns * f64::from(1u32 << FRACTION)).round() as u64,
        };
        for zone in zones {
            let per_track = f64::from(zone.sectors_per_track);
            // The head is over the next track when its first sector comes by, or waits for another turn.
            let gap = |skew: f64, switch: f64| {
                let skewed = skew / per_track * period_ns;
                let missed = ((switch - skewed) / period_ns).ceil().max(0.0);
                ((skewed + missed * period_ns) * f64::from(1u32 << FRACTION)).round() as u64
            };
            let sectors_per_cylinder = u64::from(zone.sectors_per_track) * geometry.heads;
            let physical = sectors_per_cylinder * u64::from(zone.cylinders);
            let spare_range = if zone.spare_range == 0 { zone.cylinders } else { zone.spare_range.min(zone.cylinders) };
            let range_physical = sectors_per_cylinder * u64::from(spare_range);
            let range_logical = range_physical - zone.spares;
            let rest = (physical % range_physical).min(range_logical);
            let logical = physical / range_physical * range_logical + rest;
            // Slips take their sectors from the spares; where these do not suffice, from the end of the zone.
            let slipped = (zone.slips.len() as u64).saturating_sub(zone.spares);
            let held = logical.saturating_sub(zone.reserved + if zone.spare_range == 0 { slipped } else { 0 });
            let first = geometry.sectors;
            let end = (first + held).min(limit);
            let mut in_range = (u64::MAX, 0);
            let slip_addresses = zone
                .slips
                .iter()
                .map(|&slip| {
                    let range = slip / range_physical;
                    in_range = if in_range.0 == range { (range, in_range.1 + 1) } else { (range, 0) };
                    range * range_logical + (slip % range_physical).saturating_sub(in_range.1)
                })
                .collect();
            geometry.zones.push(Zone {
                sectors: first..end,
                first_cylinder: zone.first_cylinder,
                sectors_per_track: u64::from(zone.sectors_per_track),
                sectors_per_cylinder,
                tracks_per_cylinder: geometry.heads,
                reserved: zone.reserved,
                first_angle: turn(zone.first_angle / per_track),
                track_skew: turn(zone.track_skew / per_track),
                cylinder_skew: turn(zone.cylinder_skew / per_track),
                sector_angle: turn(1.0 / per_track),
                range_physical,
                range_logical,
                slips: zone.slips.clone(),
                slip_addresses,
                sector_time: (period_ns / per_track * f64::from(1u32 << FRACTION)).round() as u64,
                track_gap: [gap(zone.track_skew, switch), gap(zone.track_skew, switch + settle)],
                cylinder_gap: [gap(zone.cylinder_skew, step), gap(zone.cylinder_skew, step + settle)],
            });
            geometry.sectors = end;
            geometry.cylinders = zone.first_cylinder + zone.cylinders;
        }
        geometry.zones.retain(|zone| !zone.sectors.is_empty());
        geometry.ends = geometry.zones.iter().map(|zone| zone.sectors.end).collect();
        if geometry.sectors == 0 {
            let found = "no sector".to_owned();
            return Err(BuildError::Range { key: "zones", found, expected: "a geometry that holds data" });
        }
        geometry.index_zones();
        geometry.remapped = Remapped::new(zones, &geometry.zones);
        Ok(geometry)
    }

    /// Whether any of these sectors is remapped.
    pub fn has_remapped(&self, sector: u64, count: u64) -> bool {
        self.remapped.next(sector).is_some_and(|next| next.address < sector + count)
    }

    fn index_zones(&mut self) {
        // With four parts to a zone, most parts lie in one zone.
        let parts = (self.zones.len() * 4) as u64;
        self.index_shift = (self.sectors / parts).max(1).ilog2();
        let zone_of = |part: u64| self.ends.partition_point(|&end| end <= part << self.index_shift) as u16;
        self.zone_index = (0..=(self.sectors - 1) >> self.index_shift).map(zone_of).collect();
    }

    /// The zone of a sector; the number of zones for a sector past the end.
    #[inline]
    pub fn zone_of(&self, sector: u64) -> usize {
        let Some(&first) = self.zone_index.get((sector >> self.index_shift) as usize) else { return self.zones.len() };
        let mut zone = usize::from(first);
        while self.ends.get(zone).is_some_and(|&end| end <= sector) {
            zone += 1;
        }
        zone
    }

    /// Where the data of a sector lie: elsewhere, if it is remapped.
    pub fn locate(&self, sector: u64) -> Place {
        match self.remapped.next(sector) {
            Some(defect) if defect.address == sector => self.place_of_defect(defect),
            _ => self.nominal(sector),
        }
    }

    /// Where the data of a remapped sector lie.
    #[cold]
    fn place_of_defect(&self, defect: Defect) -> Place {
        self.place_at(defect.zone, defect.instead)
    }

    /// Where a sector would lie if none were remapped, as reading ahead passes it.
    pub fn nominal(&self, sector: u64) -> Place {
        let index = self.zone_of(sector);
        self.place_at(index, self.zones[index].physical(sector))
    }

    /// The place of a physical sector of a zone.
    #[inline(always)]
    fn place_at(&self, index: usize, physical: u64) -> Place {
        let zone = &self.zones[index];
        let track = physical / zone.sectors_per_track;
        let cylinder = track / self.heads;
        let head = track - cylinder * self.heads;
        let angle = zone.angle(track, cylinder, physical - track * zone.sectors_per_track);
        let reversed = self.serpentine && cylinder % 2 == 1;
        Place {
            zone: index,
            cylinder: zone.first_cylinder + cylinder as u32,
            head: if reversed { self.heads - 1 - head } else { head } as u32,
            physical,
            angle,
        }
    }

    /// Sectors from `sector` on that lie in one run without a zone boundary or a remapped sector; such a one is a run of its own.
    pub fn run(&self, sector: u64, count: u64) -> u64 {
        let in_zone = count.min(self.zones[self.zone_of(sector)].sectors.end - sector);
        self.remapped.next(sector).map_or(in_zone, |next| in_zone.min((next.address - sector).max(1)))
    }

    /// Time from the start of `place` to the end of the sector `count - 1` further on, in the same zone.
    pub fn sweep(&self, place: &Place, sector: u64, count: u64, write: bool) -> u64 {
        let zone = &self.zones[place.zone];
        let last = if count == 1 { place.physical } else { zone.physical(sector + count - 1) };
        zone.sweep(place.physical, last, write)
    }

    /// The address that reading on from the start of `place` has reached after `elapsed`, at most the zone's end.
    pub fn reached(&self, place: &Place, elapsed: u64) -> u64 {
        let zone = &self.zones[place.zone];
        let physical = zone.reached(place.physical, elapsed);
        (zone.sectors.start + zone.offset_at(physical)).min(zone.sectors.end)
    }

    /// The addresses on the track that holds `sector`.
    pub fn track(&self, place: &Place) -> Range<u64> {
        self.aligned(place, self.zones[place.zone].sectors_per_track)
    }

    /// The addresses in the cylinder that holds `place`.
    pub fn cylinder(&self, place: &Place) -> Range<u64> {
        self.aligned(place, self.zones[place.zone].sectors_per_cylinder)
    }

    fn aligned(&self, place: &Place, unit: u64) -> Range<u64> {
        let zone = &self.zones[place.zone];
        let start = place.physical - place.physical % unit;
        let address = |physical| (zone.sectors.start + zone.offset_at(physical)).min(zone.sectors.end);
        address(start)..address(start + unit)
    }

    /// The angle under the heads.
    pub fn angle_at(&self, now: u64) -> Angle {
        now.wrapping_mul(self.speed)
    }

    /// Time until `angle` is under the heads.
    pub fn rotation(&self, now: u64, angle: Angle) -> u64 {
        let ahead = angle.wrapping_sub(self.angle_at(now));
        if ahead.wrapping_neg() < TOLERANCE_NS * self.speed {
            return 0;
        }
        ((u128::from(ahead) * u128::from(self.period)) >> (64 + FRACTION)) as u64
    }

    /// Time of one sector where `place` is.
    pub fn sector_time(&self, place: &Place) -> u64 {
        self.zones[place.zone].sector_time >> FRACTION
    }

    /// Number of whole sectors of its track that have passed since the start of `place` at `now`, and the part of the
    /// next.
    pub fn passed(&self, now: u64, place: &Place) -> (u64, u64) {
        let zone = &self.zones[place.zone];
        let behind = self.angle_at(now).wrapping_sub(place.angle);
        let exact = u128::from(behind) * u128::from(zone.sectors_per_track);
        let time_into = ((exact & u128::from(u64::MAX)) * u128::from(zone.sector_time)) >> (64 + FRACTION);
        ((exact >> 64) as u64, time_into as u64)
    }
}

fn single_seek(parameters: &DiskParameters) -> f64 {
    match (parameters.seek.curve.first(), parameters.seek.single) {
        (Some(&(_, ms)), _) => ms * 1e6,
        (None, Some(single)) => single.0 as f64,
        (None, None) => 0.0,
    }
}

/// Zones of equally many cylinders whose sectors per track fall linearly, such that both ends reach their sustained
/// rates: in the time of a cylinder (its turns, its head switches, one step of the arm) all of its tracks are read.
fn derive(parameters: &DiskParameters, tracks: &Tracks) -> Result<Vec<ZoneParameters>, BuildError> {
    let period = parameters.period_ns();
    let heads = f64::from(parameters.heads);
    let settle = parameters.write_settle.0 as f64;
    let switch = parameters.head_switch.0 as f64 + settle;
    let step = single_seek(parameters).max(parameters.head_switch.0 as f64) + settle;
    let cylinder_time = heads * period + (heads - 1.0) * switch + step;
    let per_track = |mb_per_s: f64| mb_per_s * 1e6 * cylinder_time / 1e9 / heads / parameters.sector.0 as f64;
    let (outer, inner) = (per_track(tracks.outer_mb_per_s), per_track(tracks.inner_mb_per_s));
    let share = |index: u32| if tracks.zones == 1 { 0.0 } else { f64::from(index) / f64::from(tracks.zones - 1) };
    let counts: Vec<u32> = (0..tracks.zones)
        .map(|index| (outer + (inner - outer) * share(index)).round().clamp(1.0, 1_048_576.0) as u32)
        .collect();
    let sectors = tracks.capacity.0 / parameters.sector.0;
    let per_step: u64 = counts.iter().map(|&count| u64::from(count) * u64::from(parameters.heads)).sum();
    let cylinders = sectors.div_ceil(per_step);
    if cylinders * u64::from(tracks.zones) > 1 << 24 {
        return Err(BuildError::Range {
            key: "tracks.capacity",
            found: tracks.capacity.to_string(),
            expected: "a capacity that fits 16777216 cylinders at these transfer rates",
        });
    }
    let cylinders = cylinders as u32;
    Ok(counts
        .iter()
        .zip(0..)
        .map(|(&count, index)| {
            let skew = |time: f64| (time / period * f64::from(count)).ceil();
            ZoneParameters {
                first_cylinder: index * cylinders,
                cylinders,
                sectors_per_track: count,
                track_skew: skew(switch),
                cylinder_skew: skew(step),
                ..ZoneParameters::default()
            }
        })
        .collect())
}

/// The seek curve: `single`, `average` and `full` fix a + b √d + c d, or straight lines through measured points.
#[derive(Clone, Debug)]
pub(super) enum SeekCurve {
    /// a, b, c with d counted from the first cylinder of distance.
    Fit(f64, f64, f64),
    /// Distances and times.
    Table(Vec<u32>, Vec<u64>),
}

impl SeekCurve {
    pub fn new(parameters: &DiskParameters, cylinders: u32) -> Result<SeekCurve, BuildError> {
        let seek = &parameters.seek;
        if !seek.curve.is_empty() {
            let time = |&(_, ms): &(u32, f64)| (ms * 1e6).round() as u64;
            return Ok(SeekCurve::Table(
                seek.curve.iter().map(|point| point.0).collect(),
                seek.curve.iter().map(time).collect(),
            ));
        }
        let ns = |span: Option<Nanos>| span.unwrap_or_default().0 as f64;
        let (single, average, full) = (ns(seek.single), ns(seek.average), ns(seek.full));
        let reach = f64::from(cylinders.max(3)) - 2.0;
        // Over uniformly random pairs of positions on [0, 1], E √d = 8/15 and E d = 1/3; with B = b √reach and
        // C = c reach: average = single + 8/15 B + C/3, full = single + B + C.
        let root = 5.0 * ((average - single) - (full - single) / 3.0);
        let line = (full - single) - root;
        if root < 0.0 || root / 2.0 + line < 0.0 {
            return Err(BuildError::Range {
                key: "seek.average",
                found: seek.average.unwrap_or_default().to_string(),
                expected: "between single + (full - single) / 3 and single + 0.733 (full - single)",
            });
        }
        Ok(SeekCurve::Fit(single, root / reach.sqrt(), line / reach))
    }

    /// Time to move over `distance` cylinders.
    pub fn time(&self, distance: u32) -> u64 {
        if distance == 0 {
            return 0;
        }
        match self {
            SeekCurve::Fit(a, b, c) => {
                let d = f64::from(distance - 1);
                (a + b * d.sqrt() + c * d) as u64
            }
            SeekCurve::Table(distances, times) => {
                let at = distances.partition_point(|&known| known < distance);
                if at < distances.len() && distances[at] == distance || distances.len() == 1 || at == 0 {
                    return times[at.min(times.len() - 1)];
                }
                // Beyond the last point, its slope continues.
                let at = at.min(distances.len() - 1);
                let (d0, d1) = (i64::from(distances[at - 1]), i64::from(distances[at]));
                let (t0, t1) = (times[at - 1] as i64, times[at] as i64);
                (t0 + (i64::from(distance) - d0) * (t1 - t0) / (d1 - d0)).max(0) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::Bytes;

    use super::*;

    /// Two zones, slips, spares in ranges of two cylinders, reserved sectors.
    fn parameters() -> DiskParameters {
        let mut parameters: DiskParameters = toml::from_str(
            r#"
            rpm = 10000
            heads = 3
            head_switch = "0.3ms"
            serpentine = true
            seek = { single = "0.8ms", average = "4ms", full = "8ms" }
            zones = [
              { first_cylinder = 0, cylinders = 6, sectors_per_track = 20, reserved = 7, track_skew = 3, cylinder_skew = 4, spare_range = 2, spares = 5, slips = [0, 9, 10, 121, 130, 359] },
              { first_cylinder = 7, cylinders = 4, sectors_per_track = 16, track_skew = 1, cylinder_skew = 3, spares = 4, slips = [30, 31] },
            ]
            "#,
        )
        .unwrap();
        parameters.sector = Bytes(512);
        parameters
    }

    /// The physical sectors that hold data, in the order of their addresses, found one by one.
    fn one_by_one(zone: &ZoneParameters, heads: u64) -> Vec<u64> {
        let per_cylinder = u64::from(zone.sectors_per_track) * heads;
        let range = if zone.spare_range == 0 { zone.cylinders } else { zone.spare_range };
        let range = u64::from(range) * per_cylinder;
        let mut data = Vec::new();
        for first in (0..u64::from(zone.cylinders) * per_cylinder).step_by(range as usize) {
            let whole = (first..first + range).filter(|sector| !zone.slips.contains(sector));
            data.extend(whole.take((range - zone.spares) as usize));
        }
        data[zone.reserved as usize..].to_vec()
    }

    #[test]
    fn every_address_agrees_with_counting_sectors() {
        let parameters = parameters();
        let geometry = Geometry::new(&parameters).unwrap();
        let mut address = 0;
        for (index, zone) in parameters.zones.iter().enumerate() {
            for physical in one_by_one(zone, 3) {
                let place = geometry.locate(address);
                assert_eq!((place.zone, place.physical), (index, physical), "address {address}");
                let track = physical / u64::from(zone.sectors_per_track);
                let (cylinder, head) = (track / 3, (track % 3) as u32);
                assert_eq!(u64::from(place.cylinder), u64::from(zone.first_cylinder) + cylinder);
                assert_eq!(place.head, if cylinder % 2 == 1 { 2 - head } else { head });
                address += 1;
            }
        }
        assert_eq!(address, geometry.sectors);
    }

    #[test]
    fn a_long_sweep_takes_as_long_as_its_sectors_one_after_the_other() {
        let geometry = Geometry::new(&parameters()).unwrap();
        for first in [0, 5, 19, 60, 333, 340] {
            let place = geometry.locate(first);
            let count = geometry.run(first, 150);
            let mut now = geometry.rotation(0, place.angle);
            let start = now;
            for sector in first..first + count {
                let at = geometry.locate(sector);
                // Sector by sector the head would wait for a track whose switch takes longer than its skew; a turn more.
                let (mut wait, before) = (geometry.rotation(now, at.angle), geometry.locate(sector.max(first + 1) - 1));
                let switch = if at.cylinder != before.cylinder { 800_000 } else { 300_000 };
                if (at.cylinder, at.head) != (before.cylinder, before.head) && wait + 4 < switch {
                    wait += 6_000_000;
                }
                now += wait + geometry.sector_time(&at);
            }
            let sweep = geometry.sweep(&place, first, count, false);
            assert!(sweep.abs_diff(now - start) < 300, "from {first}: {sweep} ns, one by one {} ns", now - start);
        }
    }

    #[test]
    fn what_is_reached_after_a_time_takes_that_time() {
        let geometry = Geometry::new(&parameters()).unwrap();
        for first in 0..geometry.sectors - 1 {
            let place = geometry.locate(first);
            for count in [1, 2, 7, 40, 150] {
                let count = geometry.run(first, count);
                let time = geometry.sweep(&place, first, count, false);
                let reached = geometry.reached(&place, time + 50);
                assert!(reached >= first + count, "from {first}: {reached} after the time of {count}");
                let before = geometry.reached(&place, time - 50);
                assert!(before < first + count, "from {first}: {before} before the time of {count}");
            }
        }
    }

    #[test]
    fn a_fitted_seek_curve_has_the_average_it_was_given() {
        let parameters = parameters();
        let cylinders = 2000u32;
        let curve = SeekCurve::new(&parameters, cylinders).unwrap();
        let (mut sum, mut pairs) = (0.0, 0.0);
        for distance in 1..cylinders {
            let weight = f64::from(2 * (cylinders - distance));
            sum += weight * curve.time(distance) as f64;
            pairs += weight;
        }
        assert!((sum / pairs / 4e6 - 1.0).abs() < 0.01, "{} ns", sum / pairs);
        assert_eq!(curve.time(1), 800_000);
        assert!(curve.time(cylinders - 1).abs_diff(8_000_000) < 10);
        assert!((1..cylinders - 1).all(|distance| curve.time(distance) <= curve.time(distance + 1)));
    }
}
