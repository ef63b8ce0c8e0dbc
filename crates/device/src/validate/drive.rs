//! From a drive's published geometry, seek curve and settings to the parameters of our model.

use peryton_units::{Bytes, Nanos};

use super::{
    ValidateError,
    parameter_file::{self, Block, Kind, Value},
};
use crate::disk::{
    BufferParameters, Controller, DiskParameters, Overhead, Power, Queue, ReadAhead, Scheduler, Seek, ZoneParameters,
};

/// Every drive of that age has sectors of this size.
pub(super) const SECTOR: u64 = 512;
const MAX_CYLINDERS: u64 = 1 << 24;

/// Reads a `.seek` file: lines of `distance, milliseconds`, after a line of text.
pub(super) fn seek_curve(file: &str, text: &str) -> Result<Vec<(u32, f64)>, ValidateError> {
    let mut curve: Vec<(u32, f64)> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line_number = number + 1;
        if line.trim().is_empty() || (number == 0 && line.contains(':')) {
            continue;
        }
        let parsed = line.split_once(',').and_then(|(distance, ms)| {
            let distance: u32 = distance.trim().parse().ok()?;
            let ms: f64 = ms.trim().parse().ok()?;
            (distance > 0 && (0.0..10_000.0).contains(&ms)).then_some((distance, ms))
        });
        let Some(point) = parsed else {
            let what = format!("'{}': expected 'cylinders, milliseconds'", super::shorten(line));
            return Err(ValidateError::line(file, line_number, what));
        };
        if curve.last().is_some_and(|last| last.0 >= point.0) {
            let what = format!("distance {} does not rise: sort the file, one line per distance", point.0);
            return Err(ValidateError::line(file, line_number, what));
        }
        curve.push(point);
    }
    if curve.is_empty() {
        return Err(ValidateError::line(file, 1, "no points: expected lines of 'cylinders, milliseconds'".into()));
    }
    Ok(curve)
}

/// Builds the model from the texts of the three files, each with its name for errors.
pub(super) fn parameters(
    model: (&str, &str),
    specs: (&str, &str),
    seek: (&str, &str),
) -> Result<DiskParameters, ValidateError> {
    let curve = seek_curve(seek.0, seek.1)?;
    let (file, text) = model;
    let drive = parameter_file::parse(file, text)?;
    let mechanical = drive.inner(file, "Mechanical Model")?;
    let layout = drive.inner(file, "Layout Model")?;
    if layout.kind != "dm_layout_g1" {
        let what = format!("layout '{}': expected dm_layout_g1", super::shorten(&layout.kind));
        return Err(ValidateError::line(file, layout.line, what));
    }
    let scheme = layout.whole(file, "LBN-to-PBN mapping scheme", 2)?;
    if scheme == 2 {
        let what = "LBN-to-PBN mapping scheme 2: expected 0 or 1".into();
        return Err(ValidateError::line(file, layout.line, what));
    }
    let settings = parameter_file::parse(specs.0, specs.1)?;
    Ok(DiskParameters {
        begin: Bytes::ZERO,
        actuators: 1,
        shingled: None,
        rpm: mechanical.number(file, "Rotation speed (in rpms)", 1e5)?,
        heads: drive.whole(file, "Number of data surfaces", 256)? as u32,
        sector: Bytes(SECTOR),
        tracks: None,
        zones: zones(file, layout)?,
        serpentine: scheme == 1,
        seek: Seek { curve, ..Seek::default() },
        head_switch: ms(mechanical.number(file, "Head switch time", 1e4)?),
        write_settle: ms(mechanical.number(file, "Add. write settling delay", 1e4)?),
        controller: controller(specs.0, &settings)?,
        buffer: buffer(specs.0, &settings)?,
        queue: Queue::default(),
        power: Power::default(),
    })
}

fn ms(milliseconds: f64) -> Nanos {
    Nanos((milliseconds * 1e6).round() as u64)
}

fn zones(file: &str, layout: &Block) -> Result<Vec<ZoneParameters>, ValidateError> {
    let sparing = layout.whole(file, "Sparing scheme used", 10)?;
    let range = layout.whole(file, "Rangesize for sparing", MAX_CYLINDERS)? as u32;
    layout
        .list(file, "Zones")?
        .iter()
        .map(|value| match &value.kind {
            Kind::Block(zone) => self::zone(file, zone, sparing, range),
            _ => Err(ValidateError::line(file, value.line, "expected a block 'dm_layout_g1_zone {'".into())),
        })
        .collect()
}

/// Sparing schemes by their numbers in DiskSim's manual: 0 none; 7 slips to the end of the zone; 8 spares per range of
/// cylinders; 9 per zone; 10 per zone, and slips to its end.
fn zone(file: &str, zone: &Block, sparing: u64, range: u32) -> Result<ZoneParameters, ValidateError> {
    let first = zone.whole(file, "First cylinder number", MAX_CYLINDERS)?;
    let last = zone.whole(file, "Last cylinder number", MAX_CYLINDERS)?;
    if last < first {
        let what = format!("zone from cylinder {first} to {last}: expected the last not to lie before the first");
        return Err(ValidateError::line(file, zone.line, what));
    }
    let sectors_per_track = zone.whole(file, "Blocks per track", 1 << 20)? as u32;
    let mut slips = numbers(file, zone.list(file, "slips")?)?;
    slips.sort_unstable();
    slips.dedup();
    let remapped = remapped(file, zone)?;
    let spares = zone.whole(file, "Number of spares", 1 << 32)?;
    let (spare_range, spares) = match sparing {
        0 => (0, 0),
        7 if spares == 0 => (0, slips.len() as u64),
        8 if range > 0 => (range, spares),
        9 => (0, spares),
        10 => (0, spares + slips.len() as u64),
        _ => {
            let what = format!("sparing scheme {sparing} with {spares} spares: expected 0, 7 (none), 8, 9 or 10");
            return Err(ValidateError::line(file, zone.line, what));
        }
    };
    Ok(ZoneParameters {
        first_cylinder: first as u32,
        cylinders: (last - first + 1) as u32,
        sectors_per_track,
        reserved: zone.whole(file, "Empty space at zone front", 1 << 40)?,
        first_angle: zone.number(file, "Offset of first block", 1e6)?,
        track_skew: zone.number(file, "Skew for track switch", 1e6)?,
        cylinder_skew: zone.number(file, "Skew for cylinder switch", 1e6)?,
        spare_range,
        spares,
        slips,
        remapped,
    })
}

/// The defects of a zone whose data lie elsewhere: a flat list of pairs, the defect and the sector in its place. Some files name a
/// defect twice, as its own replacement: it stays where it is, as in DiskSim.
fn remapped(file: &str, zone: &Block) -> Result<Vec<(u64, u64)>, ValidateError> {
    let listed = zone.list(file, "defects")?;
    let numbers = numbers(file, listed)?;
    let line = listed.first().map_or(zone.line, |value| value.line);
    if !numbers.len().is_multiple_of(2) {
        let what =
            format!("{} numbers in 'defects': expected pairs of a defect and the sector in its place", numbers.len());
        return Err(ValidateError::line(file, line, what));
    }
    let mut pairs: Vec<(u64, u64)> = numbers.chunks_exact(2).map(|pair| (pair[0], pair[1])).collect();
    pairs.sort_unstable();
    if let Some(twice) = pairs.windows(2).find(|two| two[0].0 == two[1].0) {
        let what = format!("defect {} has two sectors in its place: remove one", twice[0].0);
        return Err(ValidateError::line(file, line, what));
    }
    Ok(pairs)
}

fn numbers(file: &str, values: &[Value]) -> Result<Vec<u64>, ValidateError> {
    values
        .iter()
        .map(|value| match value.kind {
            Kind::Number(number) if (0.0..1e12).contains(&number) && number.fract() == 0.0 => Ok(number as u64),
            _ => Err(ValidateError::line(file, value.line, "expected a sector number".into())),
        })
        .collect()
}

fn controller(file: &str, settings: &Block) -> Result<Controller, ValidateError> {
    let overhead = |name: &str| {
        Ok(Overhead {
            after_read: ms(settings.number(file, &format!("{name} over. after read"), 1e4)?),
            after_write: ms(settings.number(file, &format!("{name} over. after write"), 1e4)?),
        })
    };
    let per_sector = settings.number(file, "Bulk sector transfer time", 1e4)?;
    Ok(Controller {
        read_hit: overhead("Read hit")?,
        read_miss: overhead("Read miss")?,
        write_hit: overhead("Write hit")?,
        write_miss: overhead("Write miss")?,
        interface_mb_per_s: (per_sector > 1e-6).then(|| SECTOR as f64 / per_sector / 1e3),
    })
}

fn buffer(file: &str, settings: &Block) -> Result<BufferParameters, ValidateError> {
    let caching = settings.flag(file, "Enable caching in buffer")?;
    let segment = Bytes(settings.whole(file, "Segment size (in blks)", 1 << 24)?.max(1) * SECTOR);
    let write_segments = settings.whole(file, "Maximum number of write segments", 4096)?.max(1);
    let any_free = settings.flag(file, "Read any free blocks")?;
    Ok(BufferParameters {
        segments: if caching { settings.whole(file, "Number of buffer segments", 4096)? as u32 } else { 0 },
        segment,
        read_ahead: match settings.whole(file, "Buffer continuous read", 4)? {
            0 => ReadAhead::None,
            1 => ReadAhead::Track,
            2 => ReadAhead::Cylinder,
            3 => ReadAhead::Segment,
            _ => ReadAhead::TrackAhead,
        },
        max_read_ahead: Bytes(settings.whole(file, "Maximum read-ahead (blks)", 1 << 32)? * SECTOR),
        read_ahead_over_requested: settings.number(file, "Read-ahead over requested", 1.0)? != 0.0,
        read_any_free: any_free,
        // Sectors ahead of the request can only be kept by a drive that reads from where its head lands.
        zero_latency: any_free || settings.flag(file, "Immediate buffer read")?,
        almost_hits: settings.flag(file, "Allow almost read hits")?,
        hits_while_busy: settings.flag(file, "Allow sneaky full read hits")?,
        read_hits_on_written: settings.flag(file, "Allow read hits on write data")?,
        separate_write: settings.flag(file, "Use separate write segment")?,
        write_cache: (settings.whole(file, "Fast write level", 2)? > 0).then_some(Bytes(segment.0 * write_segments)),
        write_ranges: write_segments as u32,
        write_while_busy: settings.flag(file, "Allow write prebuffering")?,
        destage: Scheduler::Fcfs,
    })
}
