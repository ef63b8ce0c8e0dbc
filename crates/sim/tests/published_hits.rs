//! The fear: a policy has the name of a published one and decides otherwise. Here are the hits of others on a trace that they
//! publish, to the hit.
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use std::path::PathBuf;

use peryton_policy::{BareCache, Replacement};
use peryton_trace::{OpenOptions, Source, open};
use peryton_units::Nanos;

/// The blocks of 512 bytes that trace P3 of the ARC paper reads, in order; `None` where the trace is not.
fn blocks_of_p3() -> Option<Vec<u32>> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/arc/P3.lis.zst");
    if !path.exists() {
        eprintln!("skipped: {} is not here", path.display());
        return None;
    }
    let mut trace = open(&path, &OpenOptions::default()).unwrap();
    let (mut blocks, mut batch) = (Vec::new(), Vec::new());
    loop {
        trace.next_batch(&mut batch).unwrap();
        if batch.is_empty() {
            return Some(blocks);
        }
        for request in &batch {
            let first = request.offset.0 / 512;
            blocks.extend((first..first + request.len.0 / 512).map(|block| u32::try_from(block).unwrap()));
        }
    }
}

#[test]
fn lru_and_arc_hit_as_often_as_on_the_traces_page_of_arc() {
    let Some(blocks) = blocks_of_p3() else { return };
    assert_eq!(blocks.len(), 3_912_296);
    for (size, lru, arc) in [(1_024, 41_051, 43_999), (32_768, 139_485, 669_507), (524_288, 3_114_981, 3_118_604)] {
        for (replacement, published) in [(Replacement::Lru, lru), (Replacement::Arc, arc)] {
            let mut cache = BareCache::new(replacement, size, Nanos::from_s(60));
            let hits = blocks.iter().filter(|block| cache.access(Nanos::ZERO, **block)).count();
            assert_eq!(hits, published, "{replacement:?} of {size} blocks");
        }
    }
}
