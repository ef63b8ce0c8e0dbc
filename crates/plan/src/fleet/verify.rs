//! What was predicted of a drive is simulated: all of its volumes together, each in its part of the devices.

use std::{collections::BTreeMap, sync::Arc};

use peryton_device::flash::Images;
use peryton_sim::{Design, MOST_SHARING, Options, SharedReport, Sharing, SimError, run_shared, sampling::pack_regions};
use peryton_trace::Request;
use peryton_units::{Bytes, Nanos, Op};
use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::{
    drive::free,
    error::FleetPlanError,
    load::nanoseconds,
    recordings::{Recordings, Taken},
};

/// The most requests of a drive that are simulated: of a longer recording the time up to its busiest window. The first half warm the drive up.
pub const MOST_SIMULATED: u64 = 2_000_000;
/// Requests of several drives that are in memory at a time: 40 bytes each.
const MOST_HELD: u64 = 16_000_000;

/// A drive that is to be simulated.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct DriveTask {
    pub(super) volumes: Vec<TaskVolume>,
    /// The part of the fleet's time.
    #[serde(with = "nanoseconds")]
    pub(super) from: Nanos,
    #[serde(with = "nanoseconds")]
    pub(super) to: Nanos,
    /// About how many requests that is.
    pub(super) requests: u64,
    /// Whether all data are on flash: then what is not touched needs not be simulated.
    pub(super) on_flash: bool,
}

/// A volume of a drive that is to be simulated.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct TaskVolume {
    pub(super) number: u32,
    pub(super) name: String,
    #[serde(with = "nanoseconds")]
    pub(super) shift: Nanos,
    /// Its part of the drive, as a design.
    pub(super) design_toml: String,
    /// Its part of the flash, where a slow device has the data.
    pub(super) flash: Option<Bytes>,
}

/// What a simulated drive did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveDone {
    pub(super) requests: u64,
    pub(super) mean_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) power_w: Option<f64>,
    pub(super) overloaded: bool,
    pub(super) volumes: Vec<VolumeDone>,
}

/// What a simulated drive did for a volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct VolumeDone {
    pub(super) number: u32,
    pub(super) requests: u64,
    pub(super) mean_ms: f64,
    pub(super) p99_ms: f64,
    pub(super) read_ms: Option<f64>,
    pub(super) write_ms: Option<f64>,
    pub(super) fast_hit_ratio: Option<f64>,
}

impl Recordings {
    /// Simulates drives on all cores.
    ///
    /// # Errors
    /// A recording cannot be read any more, or a simulation fails.
    pub fn simulate(
        &self,
        tasks: &[DriveTask],
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<Vec<DriveDone>, FleetPlanError> {
        let images = Images::shared();
        let (mut done, mut at) = (Vec::with_capacity(tasks.len()), 0);
        while at < tasks.len() {
            let (mut held, mut end) = (0, at);
            while end < tasks.len() && (end == at || held + tasks[end].requests <= MOST_HELD) {
                held += tasks[end].requests;
                end += 1;
            }
            let some = &tasks[at..end];
            let taken: Vec<Vec<Taken>> = some.iter().map(DriveTask::taken).collect();
            let requests = self.requests(&taken)?;
            let counted = std::sync::atomic::AtomicU64::new(at as u64);
            let one = |(task, requests): (&DriveTask, Vec<Request>)| {
                let found = task.simulate(requests, &images);
                progress(counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1, tasks.len() as u64);
                found
            };
            let results: Vec<DriveDone> = some.par_iter().zip(requests).map(one).collect::<Result<_, _>>()?;
            done.extend(results);
            at = end;
        }
        Ok(done)
    }
}

impl DriveTask {
    /// The numbers of its volumes.
    pub(super) fn numbers(&self) -> impl Iterator<Item = usize> + '_ {
        self.volumes.iter().map(|volume| volume.number as usize)
    }

    fn taken(&self) -> Vec<Taken> {
        let one =
            |volume: &TaskVolume| Taken { volume: volume.number, shift: volume.shift, from: self.from, to: self.to };
        self.volumes.iter().map(one).collect()
    }

    fn simulate(&self, requests: Vec<Request>, images: &Arc<Images>) -> Result<DriveDone, FleetPlanError> {
        debug_assert!(self.volumes.len() <= MOST_SHARING, "a drive has a bound");
        let (requests, reaches) = if self.on_flash { packed(requests) } else { (requests, BTreeMap::new()) };
        let touched = touched(&requests);
        let drive = self.volumes.iter().map(|volume| {
            let mut overrides = Vec::new();
            if self.on_flash {
                let reach = reaches.get(&volume.number).copied().unwrap_or(Bytes::mib(64));
                overrides.push(format!("volume.size={}", reach.0));
            }
            // More flash than what is touched would make no difference.
            let extents = touched.get(&volume.number).copied().unwrap_or(0);
            let most = |extent: Bytes| free(extent) as u64 + extent.0 * (extents * (EXTENT.0 / extent.0).max(1) + 64);
            let design = Design::parse(&volume.design_toml, &volume.name, &overrides).map_err(SimError::from)?;
            let mut design = match (volume.flash, design.placement.hybrid()) {
                (Some(flash), Some(pair)) if flash.0 > most(pair.extent) => {
                    overrides.push(format!("devices.fast.size={}", most(pair.extent).next_multiple_of(pair.extent.0)));
                    Design::parse(&volume.design_toml, &volume.name, &overrides).map_err(SimError::from)?
                }
                _ => design,
            };
            design.images = Some(Arc::clone(images));
            Ok(Sharing { volume: volume.number, design })
        });
        let drive: Vec<Sharing> = drive.collect::<Result<_, SimError>>()?;
        let options = Options { warm_up_requests: requests.len() as u64 / 2, ..Options::default() };
        let report = run_shared(&drive, &Arc::new(requests), &options)?;
        Ok(done(&report))
    }
}

fn done(report: &SharedReport) -> DriveDone {
    let ms = |summary: &Option<peryton_sim::LatencySummary>| summary.as_ref().map(|summary| summary.mean / 1e3);
    let volume = |volume: &peryton_sim::SharedVolume| VolumeDone {
        number: volume.volume,
        requests: volume.latency_us.all.as_ref().map_or(0, |all| all.count),
        mean_ms: ms(&volume.latency_us.all).unwrap_or(0.0),
        p99_ms: volume.latency_us.all.as_ref().map_or(0.0, |all| all.p99 / 1e3),
        read_ms: ms(&volume.latency_us.read),
        write_ms: ms(&volume.latency_us.write),
        fast_hit_ratio: volume.fast_hit_ratio,
    };
    let all = report.latency_us.all.as_ref();
    DriveDone {
        requests: all.map_or(0, |all| all.count),
        mean_ms: all.map_or(0.0, |all| all.mean / 1e3),
        p99_ms: all.map_or(0.0, |all| all.p99 / 1e3),
        power_w: report.mean_power_w,
        overloaded: report.overloaded,
        volumes: report.volumes.iter().map(volume).collect(),
    }
}

/// The requests of each volume with the extents that it touches next to each other, and the space that each then needs.
fn packed(requests: Vec<Request>) -> (Vec<Request>, BTreeMap<u32, Bytes>) {
    let mut of: BTreeMap<u32, Vec<Request>> = BTreeMap::new();
    requests.into_iter().for_each(|request| of.entry(request.volume).or_default().push(request));
    let (mut all, mut reaches) = (Vec::new(), BTreeMap::new());
    for (volume, requests) in of {
        let (requests, reach) = pack_regions(&requests, EXTENT);
        reaches.insert(volume, reach);
        all.extend(requests);
    }
    all.sort_by_key(|request| (request.at, request.volume));
    (all, reaches)
}

/// The unit in which what is touched is counted.
const EXTENT: Bytes = Bytes::kib(64);

/// Number of extents that each volume touches.
fn touched(requests: &[Request]) -> BTreeMap<u32, u64> {
    let mut seen: BTreeMap<u32, rustc_hash::FxHashSet<u64>> = BTreeMap::new();
    for request in requests.iter().filter(|request| matches!(request.op, Op::Read | Op::Write)) {
        let of = seen.entry(request.volume).or_default();
        let last = request.offset.0.saturating_add(request.len.0).saturating_sub(1) / EXTENT.0;
        of.extend(request.offset.0 / EXTENT.0..=last);
    }
    seen.into_iter().map(|(volume, extents)| (volume, extents.len() as u64)).collect()
}
