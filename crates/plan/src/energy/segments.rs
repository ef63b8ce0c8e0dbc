//! How unlike the parts of a trace's data are.

use peryton_trace::{Request, Source, TraceError};
use peryton_units::{Bytes, Op};
use rustc_hash::FxHashMap;

use super::Segment;

/// Data are divided into regions of this size, twice as large whenever there are more than `MOST_REGIONS`.
const REGION: Bytes = Bytes::mib(1);
const MOST_REGIONS: usize = 1 << 20;
/// Where the hottest data is cut into segments: shares of all data.
const CUTS: [f64; 5] = [0.01, 0.03, 0.1, 0.3, 1.0];

impl Segment {
    /// Reads a trace to its end: its data from the hottest to the coldest, as shares of `capacity_mb`.
    ///
    /// # Errors
    /// A trace that cannot be read.
    pub fn of(source: &mut dyn Source, capacity_mb: f64) -> Result<Vec<Segment>, TraceError> {
        let mut regions: FxHashMap<(u32, u64), u64> = FxHashMap::default();
        let (mut shift, mut batch) = (REGION.0.trailing_zeros(), Vec::<Request>::new());
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                break;
            }
            for request in batch.iter().filter(|request| matches!(request.op, Op::Read | Op::Write)) {
                // A request's bytes count where it begins: regions are much larger than requests.
                *regions.entry((request.volume, request.offset.0 >> shift)).or_default() += request.len.0;
            }
            while regions.len() > MOST_REGIONS {
                shift += 1;
                let mut merged: FxHashMap<(u32, u64), u64> = FxHashMap::default();
                for ((volume, region), bytes) in regions {
                    *merged.entry((volume, region >> 1)).or_default() += bytes;
                }
                regions = merged;
            }
        }
        let mut heat: Vec<u64> = regions.into_values().collect();
        heat.sort_unstable_by(|a, b| b.cmp(a));
        let total: u64 = heat.iter().sum();
        let region_share = ((1u64 << shift) as f64 / 1e6 / capacity_mb).min(1.0);
        let mut segments: Vec<Segment> = Vec::new();
        let (mut taken, mut before) = (0, 0.0);
        for cut in CUTS {
            let upto = if cut == 1.0 { heat.len() } else { ((cut / region_share) as usize).min(heat.len()) };
            let bytes: u64 = heat[taken.min(upto)..upto].iter().sum();
            let accesses = if total > 0 { bytes as f64 / total as f64 } else { cut - before };
            segments.push(Segment { data: cut - before, accesses });
            (taken, before) = (upto.max(taken), cut);
        }
        Ok(segments)
    }
}
