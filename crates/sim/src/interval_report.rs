//! The intervals of a report. Their figures have the names of the whole report's.

use std::{collections::BTreeMap, sync::Arc};

use peryton_engine::{Placement, WritePolicy, endurance::Wear};
use schemars::JsonSchema;
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    Design, DeviceDesign,
    admission_report::AdmissionReport,
    intervals::{DeviceCounts, EngineCounts, Interval},
    latency_report::Latency,
};

/// The figures of an interval of the measured span: of requests that were answered in it, of commands that devices got in it,
/// and of moves that ended in it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct IntervalReport {
    /// Start of the interval, from the beginning of the measured span.
    pub start_s: f64,
    /// End of the interval.
    pub end_s: f64,
    /// Requests answered.
    pub requests: u64,
    /// Requests per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
    /// MiB read and written by the host per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mib_per_s: Option<f64>,
    /// Bytes read by the host.
    pub bytes_read: u64,
    /// Bytes written by the host.
    pub bytes_written: u64,
    /// Response times in µs, from arrival to reply; without `write_then_flush`.
    pub latency_us: Latency,
    /// Accesses that the fast device, or RAM, served (tiering, caching, partitioned).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_hits: Option<u64>,
    /// Accesses that needed the slow device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_misses: Option<u64>,
    /// Share of accesses that the fast device, or RAM, served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_hit_ratio: Option<f64>,
    /// Moves between the devices (tiering, caching, partitioned).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves: Option<IntervalMoves>,
    /// Misses of the interval that were not admitted, and the adaptive threshold at its end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionReport>,
    /// The log's traffic (logging).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<IntervalLog>,
    /// Bytes at the end of the interval whose only valid copy is on the fast device (caching with write-back, partitioned; whole
    /// extents) or in the log (logging).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_bytes: Option<u64>,
    /// Energy of all devices together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Mean power of all devices together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_power_w: Option<f64>,
    /// The devices, as in the whole report.
    #[serde(serialize_with = "as_map")]
    #[schemars(with = "BTreeMap<String, DeviceInterval>")]
    pub devices: Vec<(Arc<str>, DeviceInterval)>,
}

/// Moves between the devices in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IntervalMoves {
    /// Extents moved to the fast device.
    pub promotions: u64,
    /// Extents removed from the fast device.
    pub demotions: u64,
    /// Dirty extents copied to the slow device (caching).
    pub writebacks: u64,
    /// Bytes that moves wrote to either device.
    pub bytes: u64,
    /// Cancelled moves.
    pub cancelled: u64,
}

/// A log's traffic in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct IntervalLog {
    /// Bytes that were written to the log.
    pub bytes_appended: u64,
    /// Bytes of writes that bypassed the log.
    pub bytes_direct: u64,
    /// Bytes that migrations wrote to the primary.
    pub bytes_migrated: u64,
    /// Share of reads that needed the log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_penalty: Option<f64>,
}

/// A device's work in an interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DeviceInterval {
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Time with at least one command in service.
    pub busy_s: f64,
    /// Time in standby (disks, and devices that a power policy puts into standby).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby_s: Option<f64>,
    /// Energy, including spin-ups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Mean power.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_power_w: Option<f64>,
    /// Spin-downs followed by spin-ups (disks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_stops: Option<u64>,
    /// Blocks erased (flash).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erases: Option<u64>,
    /// Bytes programmed into flash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nand_bytes_written: Option<u64>,
    /// Millionths of its life that the device used up (GreenDM, section 2.5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wear_eu: Option<f64>,
}

fn as_map<S: Serializer>(devices: &[(Arc<str>, DeviceInterval)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(devices.len()))?;
    for (name, device) in devices {
        map.serialize_entry(&**name, device)?;
    }
    map.end()
}

/// The reports of a run's intervals.
pub(crate) fn of(design: &Design, intervals: Vec<Interval>) -> Vec<IntervalReport> {
    if intervals.is_empty() {
        return Vec::new();
    }
    let mut members: Vec<(Arc<str>, &DeviceDesign, bool)> = Vec::new();
    for (device, spins_down) in design.devices.iter().zip(&design.tuning.spin_down_after) {
        let named = device.members(spins_down.is_some()).into_iter();
        members.extend(named.map(|member| (member.name.into(), member.device, member.spins_down)));
    }
    let hybrid = design.placement.hybrid().is_some();
    let logs = matches!(design.placement, Placement::Logging(_));
    let dirties = match design.placement {
        Placement::Caching(_) => design.tuning.write == WritePolicy::Back,
        Placement::Partitioned(_) | Placement::Logging(_) => true,
        _ => false,
    };
    let one = |interval: Interval| {
        let span_s = (interval.to - interval.from).as_s_f64();
        let per_s = |count: f64| (span_s > 0.0).then(|| count / span_s);
        let devices: Vec<(Arc<str>, DeviceInterval)> = members
            .iter()
            .zip(&interval.devices)
            .map(|((name, device, spins_down), counts)| {
                (Arc::clone(name), device_interval(device, counts, *spins_down, span_s))
            })
            .collect();
        let energy_j = devices.iter().map(|(_, device)| device.energy_j).sum::<Option<f64>>();
        let engine = &interval.engine;
        let share = |part: u64, rest: u64| (part + rest > 0).then(|| part as f64 / (part + rest) as f64);
        IntervalReport {
            start_s: interval.from.as_s_f64(),
            end_s: interval.to.as_s_f64(),
            requests: interval.requests,
            iops: per_s(interval.requests as f64),
            mib_per_s: per_s((interval.bytes_read + interval.bytes_written) as f64 / f64::from(1 << 20)),
            bytes_read: interval.bytes_read,
            bytes_written: interval.bytes_written,
            latency_us: interval.latency,
            fast_hits: hybrid.then_some(engine.fast_hits),
            fast_misses: hybrid.then_some(engine.fast_misses),
            fast_hit_ratio: share(engine.fast_hits, engine.fast_misses).filter(|_| hybrid),
            moves: hybrid.then(|| moves(engine)),
            admission: AdmissionReport::of(design, engine.bypassed, interval.adaptive),
            logging: logs.then(|| IntervalLog {
                bytes_appended: engine.bytes_appended,
                bytes_direct: engine.bytes_direct,
                bytes_migrated: engine.bytes_migrated,
                read_penalty: share(engine.reads_from_log, engine.reads.saturating_sub(engine.reads_from_log)),
            }),
            dirty_bytes: dirties.then_some(interval.dirty.0),
            energy_j,
            mean_power_w: energy_j.and_then(per_s),
            devices,
        }
    };
    intervals.into_iter().map(one).collect()
}

fn moves(engine: &EngineCounts) -> IntervalMoves {
    IntervalMoves {
        promotions: engine.promotions,
        demotions: engine.demotions,
        writebacks: engine.writebacks,
        bytes: engine.moved_bytes,
        cancelled: engine.cancelled,
    }
}

fn device_interval(device: &DeviceDesign, counts: &DeviceCounts, spins_down: bool, span_s: f64) -> DeviceInterval {
    let is_disk = device.is_disk();
    let energy_j = device.profile.has_power().then_some(counts.energy_j);
    let wear =
        Wear { pages_read: counts.pages_read, pages_written: counts.pages_written, start_stops: counts.start_stops };
    DeviceInterval {
        reads: counts.reads,
        writes: counts.writes,
        bytes_read: counts.bytes_read.0,
        bytes_written: counts.bytes_written.0,
        busy_s: counts.busy.as_s_f64(),
        standby_s: (is_disk || spins_down).then(|| counts.standby.as_s_f64()),
        energy_j,
        mean_power_w: energy_j.filter(|_| span_s > 0.0).map(|energy| energy / span_s),
        start_stops: is_disk.then_some(counts.start_stops),
        erases: counts.erases,
        nand_bytes_written: counts.nand_bytes_written.map(|bytes| bytes.0),
        wear_eu: device.endurance().map(|endurance| endurance.used_eu(wear)),
    }
}
