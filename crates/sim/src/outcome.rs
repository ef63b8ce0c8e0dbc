//! The measurements of a run.

use peryton_device::DeviceStats;
use peryton_engine::{AdaptiveView, ClimbView, LoggingStats, Stats};
use peryton_trace::{Account, RequestHash};
use peryton_units::Nanos;

use crate::{
    ftl_bounds::FtlBounds, intervals::Interval, latency::ResponseTimes, page_cache::PageCacheReport, parts::Parts,
    redundancy::ArrayWrites, touched::Touched, use_map::UseMap, wear_parts::WearParts,
};

/// The measurements from the first request (or the end of the warm-up) to the last reply.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) span: Nanos,
    pub(crate) answered: u64,
    pub(crate) bytes: u128,
    pub(crate) times: ResponseTimes,
    /// The time from the last arrival to the last answer.
    pub(crate) behind: Nanos,
    /// The hash of the requests read from the trace.
    pub(crate) hash: RequestHash,
    /// What became of the trace on its way.
    pub(crate) account: Account,
    /// The extents of the volume that were used.
    pub(crate) touched: Option<Touched>,
    pub(crate) stats: Stats,
    /// The statistics of each device's members, in the order of the design; those of the first volume come first.
    pub(crate) devices: Vec<Vec<DeviceStats>>,
    /// The statistics of the engines of the drives that are in the place of devices.
    pub(crate) drives: Vec<Stats>,
    /// Wear over time.
    pub(crate) wear: WearParts,
    /// What was counted in each interval, if that was asked for.
    pub(crate) intervals: Vec<Interval>,
    /// The course over time, and the parts of the volume that were used, if that was asked for.
    pub(crate) picture: Option<(Vec<Interval>, UseMap)>,
    /// The measured requests in parts, if precision was asked for.
    pub(crate) parts: Option<Box<Parts>>,
    /// What redundancy made of the writes to each device of the design.
    pub(crate) arrays: Vec<Option<ArrayWrites>>,
    pub(crate) wrapped: u64,
    pub(crate) skipped: u64,
    pub(crate) empty: u64,
    /// The state of an adaptive admission threshold at the end.
    pub(crate) adaptive: Option<AdaptiveView>,
    /// The state of hill climbing at the end.
    pub(crate) climb: Option<ClimbView>,
    pub(crate) bounds: Option<FtlBounds>,
    /// What the host's page cache did, if the design has one.
    pub(crate) page_cache: Option<PageCacheReport>,
    /// The most requests in flight at once.
    pub(crate) deepest: u32,
    /// The statistics after the moves in flight at the last reply had ended, and a log had been emptied.
    pub(crate) drained: (Stats, Vec<Vec<DeviceStats>>),
    /// The outcome of each volume, if there are several.
    pub(crate) volumes: Vec<VolumeOutcome>,
}

/// The measurements of one volume.
#[derive(Debug)]
pub(crate) struct VolumeOutcome {
    pub(crate) times: ResponseTimes,
    pub(crate) touched: Option<Touched>,
    pub(crate) stats: Stats,
    /// The engine's statistics after the drive had become idle.
    pub(crate) drained: Stats,
    pub(crate) adaptive: Option<AdaptiveView>,
    pub(crate) climb: Option<ClimbView>,
    pub(crate) bounds: Option<FtlBounds>,
}

impl VolumeOutcome {
    pub(crate) fn answered(&self) -> u64 {
        self.times.count()
    }
}

/// The sum over several volumes. Adaptive thresholds, hill climbing and used extents have no sum; they stay with the
/// volumes.
pub(crate) fn together(parts: &[VolumeOutcome]) -> VolumeOutcome {
    let mut sum = VolumeOutcome {
        times: ResponseTimes::new(),
        touched: None,
        stats: Stats::default(),
        drained: Stats::default(),
        adaptive: None,
        climb: None,
        bounds: None,
    };
    for part in parts {
        sum.times.add(&part.times);
        add(&mut sum.stats, &part.stats);
        add(&mut sum.drained, &part.drained);
        match (&mut sum.bounds, &part.bounds) {
            (Some(sum), Some(part)) => sum.add(part),
            (sum, part) => *sum = part.or(*sum),
        }
    }
    sum
}

/// Adds the figures that a report of several volumes gives for all of them: requests, and the statistics of their logs.
fn add(sum: &mut Stats, part: &Stats) {
    sum.failed_requests += part.failed_requests;
    for (sum, part) in sum.requests.iter_mut().zip(part.requests) {
        *sum += part;
    }
    if let Some(part) = &part.logging {
        sum.logging.get_or_insert_with(LoggingStats::default).add(part);
    }
}
