//! A small trace that asks devices for the same as a large one.
//!
//! Of the space only some regions are kept, chosen by a hash of their address (SHARDS, as in `peryton trace mrc`), and
//! every request that begins in one of them. Time is compressed by as much as there are fewer requests, so that devices
//! are asked as often as before; caches and logs, and the times that go with their turnover, shrink by the share of the
//! space ([`Scale`]). Load on devices, hit ratios, overwrites and wear per device then stay what they were. Bursts do
//! not: one of a hundred requests has fewer in the sample, so that a sample is friendlier to slow devices than its trace.
//! Where the trace has too few regions for that, its first requests are the sample.

use std::sync::Arc;

use peryton_trace::{Request, Source, TraceError, block_hash};
use peryton_units::{Bytes, Nanos, Op};
use rustc_hash::FxHashMap;

use super::workload::{Held, Workload};

/// What is sampled: large enough for most of a run of sequential requests to stay together, and a whole number of any
/// candidate's extents.
const REGION: u64 = 1 << 20;
/// With fewer regions than this, one of them more or less makes a difference.
const LEAST_REGIONS: f64 = 48.0;
/// A sample of so much is not worth its error.
const WHOLE: f64 = 0.7;

/// How much smaller than it will be a design is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// Share of the space, and so of caches and logs.
    pub(super) space: f64,
    /// The volume that the requests need.
    pub(super) volume: Bytes,
    /// The most that a cache, tier or log can have use for.
    pub(super) most: Bytes,
}

impl Scale {
    /// Nothing is smaller than it will be.
    pub fn whole(volume: Bytes) -> Scale {
        Scale { space: 1.0, volume, most: volume }
    }

    /// How a trace stands for more data than it touches: as if it were a sample of so much of the space (see above), in a
    /// volume that is as much smaller, but not less than the trace reaches over.
    pub(super) fn of(space: f64, capacity: Bytes, reach: Bytes) -> Scale {
        if space >= 1.0 {
            return Scale::whole(reach);
        }
        let volume = Bytes(((capacity.0 as f64 * space) as u64).next_multiple_of(1 << 20)).max(reach);
        Scale { space, volume, most: volume }
    }

    /// Share of the space: 1 where the design is simulated as large as it will be.
    pub fn space(&self) -> f64 {
        self.space
    }

    /// The volume that is simulated.
    pub fn volume(&self) -> Bytes {
        self.volume
    }
}

/// A sample, in two layouts.
pub(super) struct Sample {
    /// Share of the space that it has.
    pub(super) share: f64,
    /// Where requests are as they were: for disks, whose seeks are as long as before.
    spread: Arc<Vec<Request>>,
    spread_reach: Bytes,
    /// With the regions next to each other: for flash, which has to be as full as before.
    packed: Arc<Vec<Request>>,
    packed_reach: Bytes,
}

impl Sample {
    /// About so many requests of a trace; less than the trace has.
    pub(super) fn draw(workload: &Workload<'_>, requests: u64) -> Result<Option<Sample>, TraceError> {
        let regions = (workload.like.footprint_bytes / REGION).max(1) as f64;
        let wanted = requests as f64 / workload.like.requests as f64;
        if wanted >= WHOLE {
            return Ok(None);
        }
        if wanted * regions < LEAST_REGIONS {
            return Sample::beginning(workload, requests).map(Some);
        }
        // The 64-bit threshold of the share.
        let below = (wanted * u64::MAX as f64) as u64;
        let (mut source, mut batch, mut kept) = (workload.source()?, Vec::new(), Vec::<Request>::new());
        let mut read = 0u64;
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            read += batch.len() as u64;
            let chosen = |request: &&Request| block_hash(request.volume, request.offset.0 / REGION) < below;
            kept.extend(batch.iter().filter(chosen));
        }
        if kept.len() < 2 {
            return Ok(None);
        }
        let rate = kept.len() as f64 / read as f64;
        let first = kept[0].at;
        for request in &mut kept {
            request.at = Nanos((request.at.saturating_sub(first).0 as f64 * rate) as u64);
        }
        let (packed, packed_reach) = packed(&kept);
        Ok(Some(Sample {
            share: wanted,
            spread: Arc::new(kept),
            spread_reach: workload.reach,
            packed: Arc::new(packed),
            packed_reach,
        }))
    }

    /// The first requests of a trace.
    fn beginning(workload: &Workload<'_>, requests: u64) -> Result<Sample, TraceError> {
        let (mut source, mut batch, mut kept) = (workload.source()?, Vec::new(), Vec::<Request>::new());
        while (kept.len() as u64) < requests {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            kept.extend_from_slice(&batch);
        }
        kept.truncate(requests as usize);
        let kept = Arc::new(kept);
        Ok(Sample {
            share: 1.0,
            spread: kept.clone(),
            spread_reach: workload.reach,
            packed: kept,
            packed_reach: workload.reach,
        })
    }

    /// How many requests there are.
    pub(super) fn requests(&self) -> u64 {
        self.spread.len() as u64
    }

    /// The requests for a design whose data live on flash, or on disks.
    pub(super) fn source(&self, flash: bool) -> Box<dyn Source> {
        Box::new(Held::new(if flash { &self.packed } else { &self.spread }))
    }

    /// What a design has to be for them, where it is `whole` for the whole trace.
    pub(super) fn scale(&self, flash: bool, whole: Scale) -> Scale {
        let share = |volume: Bytes, of: f64| Bytes((volume.0 as f64 * of) as u64);
        let space = self.share * whole.space;
        if !flash {
            return Scale { space, volume: whole.volume.max(self.spread_reach), most: share(whole.volume, self.share) };
        }
        // A volume larger than the trace reaches over is as much larger here.
        let larger = whole.volume.0 as f64 / self.spread_reach.0 as f64;
        let volume = Bytes(share(self.packed_reach, larger).0.next_multiple_of(REGION)).max(self.packed_reach);
        Scale { space, volume, most: volume }
    }
}

/// Regions in the order of their addresses, without what lies between them.
fn packed(requests: &[Request]) -> (Vec<Request>, Bytes) {
    let mut regions: Vec<u64> = requests.iter().map(|request| request.offset.0 / REGION).collect();
    regions.sort_unstable();
    regions.dedup();
    let place: FxHashMap<u64, u64> = regions.iter().zip(0u64..).map(|(region, place)| (*region, place)).collect();
    let mut reach = 64 * REGION;
    let moved = |request: &Request| {
        if request.op == Op::Flush {
            return *request;
        }
        let offset = Bytes(place[&(request.offset.0 / REGION)] * REGION + request.offset.0 % REGION);
        reach = reach.max(offset.0 + request.len.0);
        Request { offset, ..*request }
    };
    let requests = requests.iter().map(moved).collect();
    (requests, Bytes(reach.next_multiple_of(REGION)))
}
