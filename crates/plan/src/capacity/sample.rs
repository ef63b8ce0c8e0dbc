//! Sampling: a small trace that loads devices in the same way as a large one.
//!
//! The sample keeps some regions of the address space, chosen by a hash of their address (SHARDS, as in `peryton trace
//! mrc`), and every request that begins in one of them. Time is compressed in proportion to the number of requests, so
//! that devices get requests at the same rate as before. Caches, logs and the times that depend on their turnover
//! shrink by the share of the space (`Design::with_load`). So load on devices, hit ratios, overwrites and wear per device stay
//! the same. Bursts do not: a burst of a hundred requests has fewer in the sample, so a sample is easier for slow
//! devices than its trace. If a trace has too few regions, its first requests are the sample.

use std::sync::Arc;

use peryton_sim::{
    Load,
    sampling::{Held, REGION, compress_times, pack_regions},
};
use peryton_trace::{Request, Source, TraceError, block_hash};
use peryton_units::Bytes;

use super::workload::Workload;

/// The fewest regions of a sample. With fewer, a single region would change the result.
const LEAST_REGIONS: f64 = 48.0;
/// Samples with a larger share of the requests than this are not worth their error.
const WHOLE: f64 = 0.7;

/// The data that designs are bought for, and how much of their load is simulated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Scale {
    pub(super) data: Bytes,
    pub(super) load: Load,
}

impl Scale {
    /// The size of the simulated volume of these data.
    pub(super) fn volume(&self) -> Bytes {
        self.load.volume(self.data)
    }
}

/// A sample, in two layouts.
pub(super) struct Sample {
    /// Its share of the space.
    pub(super) share: f64,
    /// Requests at their original addresses: for disks, whose seeks stay as long as before.
    spread: Arc<Vec<Request>>,
    spread_reach: Bytes,
    /// Requests with the regions moved next to each other: for flash, which has to be as full as before.
    packed: Arc<Vec<Request>>,
    packed_reach: Bytes,
}

impl Sample {
    /// Draws about this many requests of a trace, which has more than that.
    pub(super) fn draw(workload: &Workload<'_>, requests: u64) -> Result<Option<Sample>, TraceError> {
        let regions = (workload.like.footprint_bytes / REGION.0).max(1) as f64;
        let wanted = requests as f64 / workload.like.requests as f64;
        if wanted >= WHOLE {
            return Ok(None);
        }
        if wanted * regions < LEAST_REGIONS {
            return Sample::beginning(workload, requests).map(Some);
        }
        // The 64-bit threshold below which a region's hash is sampled.
        let below = (wanted * u64::MAX as f64) as u64;
        let (mut source, mut batch, mut kept) = (workload.source()?, Vec::new(), Vec::<Request>::new());
        let mut read = 0u64;
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            read += batch.len() as u64;
            let chosen = |request: &&Request| block_hash(request.volume, request.offset.0 / REGION.0) < below;
            kept.extend(batch.iter().filter(chosen));
        }
        if kept.len() < 2 {
            return Ok(None);
        }
        let rate = kept.len() as f64 / read as f64;
        compress_times(&mut kept, rate);
        let (packed, packed_reach) = pack_regions(&kept, REGION);
        Ok(Some(Sample {
            share: wanted,
            spread: Arc::new(kept),
            spread_reach: workload.reach,
            packed: Arc::new(packed),
            packed_reach,
        }))
    }

    /// The first requests of a trace as a sample.
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

    /// The number of requests in the sample.
    pub(super) fn requests(&self) -> u64 {
        self.spread.len() as u64
    }

    /// The requests, for a design whose data is stored on flash or on disks.
    pub(super) fn source(&self, flash: bool) -> Box<dyn Source> {
        Box::new(Held::new(Arc::clone(if flash { &self.packed } else { &self.spread })))
    }

    /// The scale of a design under this sample, given that of the whole trace.
    pub(super) fn scale(&self, flash: bool, whole: Scale) -> Scale {
        let Load { share, volume_share, reach } = whole.load;
        let share = self.share * share;
        let load = match flash {
            true => Load { share, volume_share: self.share * volume_share, reach: self.packed_reach },
            // Disks keep their data as far apart as they are.
            false => Load { share, volume_share, reach: reach.max(self.spread_reach) },
        };
        Scale { load, ..whole }
    }
}
