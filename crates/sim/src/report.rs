//! The report of a simulation. Its names are stable, because scripts rely on them. Figures that do not apply are
//! absent.

use std::collections::BTreeMap;

use peryton_device::{DeviceStats, Profile, flash::FtlStats};
use peryton_engine::{LoggingStats, PartitionStats, Stats, endurance::Wear};
use peryton_trace::RequestHash;
use peryton_units::Nanos;
use schemars::JsonSchema;
use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    Design, DeviceDesign, Options, Picture,
    admission_report::AdmissionReport,
    array_report::{self, ArrayReport},
    build,
    ftl_bounds::{FtlBounds, FtlReport},
    interval_report::IntervalReport,
    latency_report::{Latency, LatencyHistograms, histograms_of, latency_of},
    lifetime::{Lifetime, programmed},
    lifetime_interval::{self, LifetimeInterval},
    nested_report::{self, NestedReport},
    off_estimate::OffEstimate,
    outcome::Outcome,
    page_cache::PageCacheReport,
    precision::Precision,
    sampling::estimates::SampleReport,
    volume_report::{VolumeReport, volume_report},
    warnings::{self, Warning},
};

const HOURS_PER_YEAR: f64 = 8_766.0;

/// The result of one design under one trace. The measured span begins with the first request, or the end of the
/// warm-up, and ends with the last reply; it does not wait for moves that are then in flight.
///
/// Fields that do not apply are `None`, and absent in JSON:
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let design = "[devices.only]\nprofile = 'fixed'\nsize = '8GiB'\n[placement]\nmode = 'single'\n";
/// # let design = peryton_sim::Design::parse(design, "my design", &[])?;
/// # let trace = peryton_trace::open("../../examples/traces/sqlite-ext4.parquet", &Default::default())?;
/// let report = peryton_sim::run_one(&design, "sqlite", Box::new(trace), &Default::default(), &|_| {})?;
/// let (name, device) = &report.devices[0];
/// println!("{name} was busy for {} of {} s", device.busy_s, report.simulated_s);
/// let json = serde_json::to_value(&report)?;
/// assert_eq!(json["requests"], report.requests);
/// // One device: there is no cache to hit.
/// assert!(report.fast_hit_ratio.is_none() && json.get("fast_hit_ratio").is_none());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// The version that made the report.
    pub peryton_version: String,
    /// The command that made the report, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The design's name.
    pub design: String,
    /// The trace's name.
    pub trace: String,
    /// A hash of the requests that were read from the trace; it does not depend on the trace's format.
    pub trace_hash: RequestHash,
    /// Number of requests read from the trace, including the warm-up and skipped ones.
    pub trace_requests: u64,
    /// Circumstances that make the figures misleading, each with a remedy.
    pub warnings: Vec<Warning>,
    /// The sample and its estimates of the whole trace, if only a sample was simulated. All other figures of this
    /// report are those of the sample itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample: Option<SampleReport>,
    /// Requests answered within the measured span.
    pub requests: u64,
    /// The measured span.
    pub simulated_s: f64,
    /// Requests per second of the measured span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iops: Option<f64>,
    /// MiB read and written by the host per second of the measured span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mib_per_s: Option<f64>,
    /// Response times in µs, from arrival to reply.
    pub latency_us: Latency,
    /// The whole distributions of the response times, as buckets.
    pub latency_histogram_us: LatencyHistograms,
    /// The work of the host's page cache, if the design has one (`page_cache.size`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCacheReport>,
    /// Share of the reads and writes, by extent, that were the first access to their extent: a cache that is empty at
    /// the start cannot avoid these misses (tiering, caching, partitioned).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_touch_ratio: Option<f64>,
    /// Share of accesses that the fast device, or RAM, served.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_hit_ratio: Option<f64>,
    /// Moves between the devices (tiering, caching).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub moves: Option<MoveReport>,
    /// Number of accesses that waited for a promotion and were served from its buffer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub served_from_ram: Option<u64>,
    /// Share of the host's written bytes that did not have to be written to the primary (logging; Griffin, section
    /// 3.3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_savings: Option<f64>,
    /// The write savings if the log were emptied at the end, because data that are still in the log are delayed,
    /// not saved. The two savings differ if the trace is short relative to the migration's triggers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_savings_emptied: Option<f64>,
    /// Share of reads that needed the log (logging; Griffin, section 3.3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_penalty: Option<f64>,
    /// The statistics of the log (logging).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<LoggingStats>,
    /// The statistics of the dynamic controller (partitioned; MixedStore, section 5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionReport>,
    /// The report of each volume that shares the log device, if there are several. The figures above are for all
    /// volumes together.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeReport>,
    /// Bounds on the primary's erases that the log saved, and the sequentiality of the primary's writes (logging;
    /// Griffin, sections 6.2 and 6.3).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ftl_bounds: Option<FtlReport>,
    /// Accesses that bypassed the fast device, by reason (caching, tiering).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bypasses: Option<peryton_engine::Bypasses>,
    /// Requests that admission kept out of the cache (caching with an admission rule other than `all`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub admission: Option<AdmissionReport>,
    /// The result of hill climbing, if the design has it enabled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub climb: Option<peryton_engine::ClimbView>,
    /// The inner drives that take the place of devices, by the names of these devices.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub nested: BTreeMap<String, NestedReport>,
    /// The devices in the order of the design. A member of a striped array has its number after the name. A device
    /// of an inner drive has the name of that drive before its own.
    #[serde(serialize_with = "as_map")]
    #[schemars(with = "BTreeMap<String, DeviceReport>")]
    pub devices: Vec<(String, DeviceReport)>,
    /// The arrays with redundancy, and the commands that their writes cost.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub redundancy: BTreeMap<String, ArrayReport>,
    /// Energy of all devices together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Mean power of all devices together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_power_w: Option<f64>,
    /// Years until the first device is worn out, at the rate of the measured span: the smaller of
    /// `lifetime_rated_years` and `lifetime_physical_years`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
    /// How sure that is.
    #[serde(flatten)]
    pub lifetime_interval: LifetimeInterval,
    /// Years according to the manufacturers' ratings: bytes written, starts and stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_rated_years: Option<f64>,
    /// Years according to the program-erase cycles of flash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_physical_years: Option<f64>,
    /// Mean response time in ms, divided by the lifetime in years.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency_over_lifetime: Option<f64>,
    /// Prices and costs.
    pub cost: Cost,
    /// The size of the volume.
    pub volume_bytes: u64,
    /// The replay mode.
    pub replay: String,
    /// Whether the volume was new, so that a tier began empty.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub new_volume: bool,
    /// The share of the active data that the trace touches; absent if it touches all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_share: Option<f64>,
    /// Requests before the measured span.
    #[serde(skip_serializing_if = "is_zero")]
    pub warm_up_requests: u64,
    /// The seed of everything random.
    pub seed: u64,
    /// Overrides of the design file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<String>,
    /// The values of the swept keys (`peryton sim --sweep`), by key.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sweep: BTreeMap<String, String>,
    /// The full design as TOML: every key of its file, and the overrides.
    pub design_toml: String,
    /// The values of the models that are estimates, by profile.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub estimated_values: BTreeMap<String, Vec<String>>,
    /// Requests whose offset was taken modulo the size of the volume.
    #[serde(skip_serializing_if = "is_zero")]
    pub wrapped_requests: u64,
    /// Requests that were left out because they reach past the end of the volume.
    #[serde(skip_serializing_if = "is_zero")]
    pub skipped_requests: u64,
    /// Reads, writes and discards without a length. They are left out, and count in no average.
    #[serde(skip_serializing_if = "is_zero")]
    pub empty_requests: u64,
    /// Requests that were answered with an error.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed_requests: u64,
    /// The most requests in flight at once.
    pub deepest_queue: u32,
    /// Map updates and journal (tiering, caching).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MetadataReport>,
    /// The length of the intervals, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<f64>,
    /// The precision of the figures, if it was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<Precision>,
    /// The figures of each interval of the measured span; the last interval may be shorter.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<IntervalReport>,
    /// What a page draws of the run, if that was asked for. It is in no file: intervals have more.
    #[serde(skip)]
    #[schemars(skip)]
    pub picture: Option<Picture>,
    /// The figures with each estimated value of the devices changed, if they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sensitivity: Option<Vec<OffEstimate>>,
}

/// Moves between the devices.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MoveReport {
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
    /// The causes of cancelled moves.
    pub cancelled_by: peryton_engine::Cancelled,
}

/// The statistics of the map's journal.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MetadataReport {
    /// Journal commits.
    pub commits: u64,
    /// Map updates in the journal's commits.
    pub map_updates: u64,
    /// Checkpoints of the whole map.
    pub checkpoints: u64,
    /// Bytes of metadata written to all devices.
    pub bytes_written: u64,
}

/// The work and the energy of a device.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct DeviceReport {
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Pages of 4 KiB that the reads touched; a part of a page counts as one.
    pub pages_read: u64,
    /// Pages of 4 KiB that the writes touched; `wear_eu` is reckoned by pages.
    pub pages_written: u64,
    /// Time with at least one command in service.
    pub busy_s: f64,
    /// Energy, including spin-ups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_j: Option<f64>,
    /// Mean power over the measured span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_power_w: Option<f64>,
    /// Time in the active state: with a command in service.
    pub active_s: f64,
    /// Time ready, without a command in service.
    pub idle_s: f64,
    /// Time in standby (disks, and devices that a power policy puts into standby).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub standby_s: Option<f64>,
    /// Spin-downs followed by spin-ups (disks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_stops: Option<u64>,
    /// Bytes of zones that were rewritten, because their data were in the cache of conventional tracks (shingled
    /// disks).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_rewritten: Option<u64>,
    /// Blocks erased (flash).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erases: Option<u64>,
    /// Erases over the measured span (flash).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erases_per_s: Option<f64>,
    /// Erases of the least and of the most worn block, since the device was made (flash).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub erase_count_min_max: Option<(u32, u32)>,
    /// Bytes programmed into flash.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nand_bytes_written: Option<u64>,
    /// Bytes of postponed garbage collection: work that the drive would do in idle time after the span. The
    /// physical lifetime includes them (flash that works in idle time).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nand_bytes_owed: Option<u64>,
    /// Bytes programmed, including postponed work, divided by bytes written (flash).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_amplification: Option<f64>,
    /// The work of the translation layer, and the fragmentation of the data at the end (flash).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ftl: Option<FtlStats>,
    /// Share of the requested map entries that were cached (flash with a demand-cached map).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapping_hit_ratio: Option<f64>,
    /// Share of the written bytes that continued the previous write.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequential_write_share: Option<f64>,
    /// Millionths of its life that the device used up in the measured span (GreenDM, section 2.5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wear_eu: Option<f64>,
    /// Years until the device is worn out, at the rate of the measured span: the smaller of `lifetime_rated_years`
    /// and `lifetime_physical_years`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
    /// The lower end of the 90 % interval of `lifetime_years`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years_low: Option<f64>,
    /// The upper end of the 90 % interval of `lifetime_years`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years_high: Option<f64>,
    /// Years according to the device's rating: bytes written, starts and stops.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_rated_years: Option<f64>,
    /// Years according to the program-erase cycles of its blocks (flash).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_physical_years: Option<f64>,
}

impl DeviceReport {
    pub(crate) fn lifetime(&self) -> Lifetime {
        Lifetime { rated: self.lifetime_rated_years, physical: self.lifetime_physical_years }
    }
}

/// Prices and costs, in US dollars.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Cost {
    /// The price of whole devices, spares included; owned devices cost nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices_usd: Option<f64>,
    /// Cost of a year's electricity at the mean power of the measured span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub energy_usd_per_year: Option<f64>,
    /// Purchase price per 10⁹ bytes of the volume, or of the data that the devices are bought for (`cost.data`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_gb: Option<f64>,
    /// The price of electricity used for that cost.
    pub electricity_usd_per_kwh: f64,
}

pub(crate) fn is_zero(value: &u64) -> bool {
    *value == 0
}

pub(crate) fn as_map<S: Serializer>(devices: &[(String, DeviceReport)], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(devices.len()))?;
    for (name, device) in devices {
        map.serialize_entry(name, device)?;
    }
    map.end()
}

/// The routing of a partitioned drive's writes, and the quality of its predictions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PartitionReport {
    /// Share of the writes that went to the fast device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_write_share: Option<f64>,
    /// Writes that regulation sent to the slow device.
    pub regulated: u64,
    /// Cold extents moved to the slow device while the host was idle.
    pub busted: u64,
    /// Often-read extents moved to the fast device while the host was idle.
    pub promoted_idle: u64,
    /// Writes whose response time was predicted.
    pub predicted: u64,
    /// Mean error of the predictions over the mean response time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prediction_error: Option<f64>,
    /// The mean error if the last value had been the prediction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_value_error: Option<f64>,
    /// Share of the variance of the response times that the predictions explain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub r_squared: Option<f64>,
    /// Number of predictions by the mean service time, because the model had too few observations or a larger error.
    pub stand_ins: u64,
    /// Number of times that the model had to start again.
    pub resets: u64,
}

impl PartitionReport {
    fn new(stats: &PartitionStats) -> PartitionReport {
        let writes = stats.writes_fast + stats.writes_slow;
        PartitionReport {
            fast_write_share: (writes > 0).then(|| stats.writes_fast as f64 / writes as f64),
            regulated: stats.regulated,
            busted: stats.busted,
            promoted_idle: stats.promoted_idle,
            predicted: stats.predicted,
            prediction_error: stats.relative_error(),
            last_value_error: stats.last_value_relative_error(),
            r_squared: stats.r_squared(),
            stand_ins: stats.stand_ins,
            resets: stats.resets,
        }
    }
}

fn estimated_values(design: &Design) -> BTreeMap<String, Vec<String>> {
    let of = |profile: &Profile| profile.estimated().0.into_iter().map(str::to_owned).collect();
    let leaves = design.leaves().into_iter();
    let all = leaves.map(|leaf| (leaf.device.profile.name.clone(), of(&leaf.device.profile)));
    all.filter(|(_, values): &(String, Vec<String>)| !values.is_empty()).collect()
}

pub(crate) fn make(design: &Design, trace: &str, options: &Options, outcome: &Outcome) -> Report {
    let span_s = outcome.span.as_s_f64();
    let per_s = |count: f64| (span_s > 0.0).then(|| count / span_s);
    let stats = &outcome.stats;
    let latency_us = latency_of(&outcome.times);
    // A recording has the times in which nothing goes on.
    let duty = if options.recorded.is_some() { 1.0 } else { design.duty };
    let mut devices = Vec::new();
    for (index, (device, members)) in design.devices.iter().zip(&outcome.devices).enumerate() {
        let spins_down = design.tuning.spin_down_after[index].is_some();
        for (member, stats) in device.members(spins_down).into_iter().zip(members) {
            let report = device_report(member.device, stats, (member.spins_down, outcome.span, duty));
            devices.push((member.name, report));
        }
    }
    let energy_j = devices.iter().map(|(_, device)| device.energy_j).sum::<Option<f64>>();
    let mean_power_w = energy_j.and_then(per_s);
    let lifetime = devices.iter().map(|(_, device)| device.lifetime()).fold(Lifetime::default(), Lifetime::shorter);
    let lifetime_years = lifetime.years();
    let intervals = lifetime_interval::of(design, outcome, duty);
    let of_members = intervals.members.iter().flatten();
    for ((_, device), interval) in devices.iter_mut().zip(of_members) {
        let interval = interval.map(|interval| interval.around(device.lifetime_years));
        device.lifetime_years_low = interval.map(|interval| interval.low);
        device.lifetime_years_high = interval.map(|interval| interval.high);
    }
    let hybrid = design.placement.hybrid().is_some();
    let volumes = outcome.volumes.iter().enumerate();
    let volumes =
        volumes.map(|(number, volume)| volume_report(design, &devices, outcome.span, number, volume)).collect();
    let mean_ms = latency_us.all.as_ref().map(|summary| summary.mean / 1e3);
    let touched = outcome.touched.as_ref();
    let mut report = Report {
        peryton_version: build().version.to_owned(),
        command: None,
        design: design.name.clone(),
        trace: trace.to_owned(),
        trace_hash: outcome.hash,
        trace_requests: outcome.hash.requests(),
        warnings: Vec::new(),
        sample: None,
        page_cache: outcome.page_cache.clone(),
        first_touch_ratio: touched.filter(|t| t.accesses > 0).map(|t| t.first as f64 / t.accesses as f64),
        design_toml: design.toml.clone(),
        estimated_values: estimated_values(design),
        requests: outcome.answered,
        simulated_s: span_s,
        iops: per_s(outcome.answered as f64),
        mib_per_s: per_s(outcome.bytes as f64 / f64::from(1 << 20)),
        fast_hit_ratio: stats.fast_hit_ratio().filter(|_| hybrid),
        moves: hybrid.then(|| moves(stats)),
        served_from_ram: hybrid.then_some(stats.served_from_ram),
        write_savings: stats.logging.as_ref().and_then(LoggingStats::write_savings),
        write_savings_emptied: outcome.drained.0.logging.as_ref().and_then(LoggingStats::write_savings),
        read_penalty: stats.logging.as_ref().and_then(LoggingStats::read_penalty),
        logging: stats.logging.clone(),
        partition: stats.partition.as_ref().map(PartitionReport::new),
        volumes,
        ftl_bounds: outcome.bounds.as_ref().map(FtlBounds::report),
        admission: AdmissionReport::of(design, stats.bypassed, outcome.adaptive.clone()),
        bypasses: design.placement.promotes().then_some(stats.bypasses),
        climb: outcome.climb.clone(),
        nested: nested_report::of(design, &outcome.drives),
        redundancy: array_report::of(design, &outcome.arrays),
        devices,
        energy_j,
        mean_power_w,
        lifetime_years,
        lifetime_interval: LifetimeInterval::of(outcome, &intervals, lifetime),
        lifetime_rated_years: lifetime.rated,
        lifetime_physical_years: lifetime.physical,
        latency_over_lifetime: mean_ms.zip(lifetime_years).map(|(latency, lifetime)| latency / lifetime),
        cost: cost(design, mean_power_w),
        volume_bytes: design.volume_bytes().0,
        replay: options.replay.to_string(),
        new_volume: options.new_volume,
        simulated_share: None,
        warm_up_requests: options.warm_up_requests,
        seed: design.seed,
        overrides: design.overrides.clone(),
        sweep: BTreeMap::new(),
        wrapped_requests: outcome.wrapped,
        skipped_requests: outcome.skipped,
        empty_requests: outcome.empty,
        failed_requests: stats.failed_requests,
        deepest_queue: outcome.deepest,
        metadata: hybrid.then(|| metadata(stats)),
        latency_us,
        latency_histogram_us: histograms_of(&outcome.times),
        interval_s: options.interval.map(Nanos::as_s_f64),
        precision: None,
        intervals: Vec::new(),
        picture: None,
        sensitivity: None,
    };
    report.precision = outcome.parts.as_ref().map(|parts| Precision::of(&report, parts));
    report.warnings = warnings::of(design, options, outcome, &report);
    report
}

pub(crate) fn metadata(stats: &Stats) -> MetadataReport {
    let of_device =
        |device: &peryton_engine::DeviceTraffic| device.bytes_written[peryton_engine::Cause::Metadata as usize];
    MetadataReport {
        commits: stats.commits,
        map_updates: stats.map_updates,
        checkpoints: stats.checkpoints,
        bytes_written: stats.devices.iter().map(of_device).sum(),
    }
}

pub(crate) fn moves(stats: &Stats) -> MoveReport {
    let moves = &stats.moves;
    let by = moves.cancelled;
    MoveReport {
        promotions: moves.promotions,
        demotions: moves.demotions,
        writebacks: moves.writebacks,
        bytes: moves.bytes.0,
        cancelled: by.sum(),
        cancelled_by: by,
    }
}

fn device_report(
    device: &DeviceDesign,
    stats: &DeviceStats,
    (spins_down, span, duty): (bool, Nanos, f64),
) -> DeviceReport {
    let span_s = span.as_s_f64();
    let per_s = |count: f64| (span_s > 0.0).then(|| count / span_s);
    let is_disk = device.is_disk();
    let written = stats.bytes_written.0 as f64;
    let share = |part: f64| (written > 0.0).then(|| part / written);
    // A model without power figures gives no energy.
    let energy_j = device.profile.has_power().then_some(stats.energy_j);
    let erases_per_s = stats.erases.and_then(|erases| per_s(erases as f64));
    let wear =
        Wear { pages_read: stats.pages_read, pages_written: stats.pages_written, start_stops: stats.start_stops };
    // The load of the span is all that there is in a longer time.
    let lifetime = Lifetime::of(device, stats, span_s / duty);
    DeviceReport {
        reads: stats.reads,
        writes: stats.writes,
        bytes_read: stats.bytes_read.0,
        bytes_written: stats.bytes_written.0,
        pages_read: stats.pages_read,
        pages_written: stats.pages_written,
        busy_s: stats.busy.as_s_f64(),
        energy_j,
        mean_power_w: energy_j.and_then(per_s),
        active_s: stats.busy.as_s_f64(),
        idle_s: stats.idle.as_s_f64(),
        standby_s: (is_disk || spins_down).then(|| stats.standby.as_s_f64()),
        start_stops: is_disk.then_some(stats.start_stops),
        bytes_rewritten: stats.bytes_rewritten.map(|bytes| bytes.0),
        erases: stats.erases,
        erases_per_s,
        erase_count_min_max: stats.erase_count_min_max,
        nand_bytes_written: stats.nand_bytes_written.map(|bytes| bytes.0),
        nand_bytes_owed: stats.nand_bytes_owed.map(|bytes| bytes.0).filter(|bytes| *bytes > 0),
        write_amplification: programmed(stats).and_then(|bytes| share(bytes.0 as f64)),
        mapping_hit_ratio: stats.ftl.as_ref().and_then(|ftl| ftl.mapping?.hit_ratio()),
        ftl: stats.ftl.clone(),
        sequential_write_share: share(stats.sequential_bytes_written.0 as f64),
        wear_eu: device.endurance().map(|endurance| endurance.used_eu(wear)),
        lifetime_years: lifetime.years(),
        lifetime_years_low: None,
        lifetime_years_high: None,
        lifetime_rated_years: lifetime.rated,
        lifetime_physical_years: lifetime.physical,
    }
}

/// The price by the data that the devices are bought for.
pub(crate) fn usd_per_gb(design: &Design, devices_usd: Option<f64>) -> Option<f64> {
    let gb = design.bought_for.unwrap_or(design.volume_bytes()).0 as f64 / 1e9;
    devices_usd.map(|price| price / gb)
}

fn cost(design: &Design, mean_power_w: Option<f64>) -> Cost {
    let price = |device: &DeviceDesign| device.price_usd.map(|price| price * f64::from(device.bought()));
    let devices_usd = design.bought().into_iter().map(price).sum::<Option<f64>>();
    Cost {
        devices_usd,
        energy_usd_per_year: mean_power_w.map(|watts| watts / 1e3 * HOURS_PER_YEAR * design.electricity_usd_per_kwh),
        usd_per_gb: usd_per_gb(design, devices_usd),
        electricity_usd_per_kwh: design.electricity_usd_per_kwh,
    }
}
