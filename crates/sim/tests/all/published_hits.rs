//! The fear: a policy has the name of a published one and decides otherwise. Here are the hits of others on a trace that they
//! publish, to the hit. `docs/comparing.md` says where they come from.
#![allow(clippy::unwrap_used, reason = "a panic is the report")]

use std::path::PathBuf;

use peryton_engine::Replacement;
use peryton_policy::replacement::{s3fifo, two_queue};
use peryton_sim::{CacheUnit, CurvePolicy, Miniature};
use peryton_trace::{OpenOptions, Source, TraceError, open};
use peryton_units::{Bytes, Nanos};

const BLOCKS: f64 = 3_912_296.0;

/// The file of this name of the ARC paper's traces; `None` where it is not.
fn published(name: &str) -> Option<PathBuf> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces/arc").join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not here", path.display());
        return None;
    }
    Some(path)
}

/// The hits of these policies on trace P3, each with its size in blocks of 512 bytes, as `peryton trace mrc --block 512 --rate 1`
/// simulates them; `None` where the trace is not.
fn hits(caches: &[(CurvePolicy, u64)]) -> Option<Vec<u64>> {
    let path = published("P3.lis.zst")?;
    let block = Bytes(512);
    let caches = caches.iter().map(|(policy, blocks)| (*policy, block * *blocks)).collect();
    let miniature = Miniature { unit: CacheUnit::Block(block), rate: 1.0, seed: 0, window: Nanos::from_s(60), caches };
    let trace = || -> Result<Box<dyn Source>, TraceError> { Ok(Box::new(open(&path, &OpenOptions::default())?)) };
    let rows = miniature.run(&trace, &|_| {}).unwrap();
    Some(rows.iter().map(|row| ((1.0 - row.blocks.all) * BLOCKS).round() as u64).collect())
}

/// All twenty counts of the traces' page: `file: P3.lis, capacity: 1024, algo: lru, requests: 3912296, hits: 41051, ratio: 1.05`.
#[test]
fn lru_and_arc_hit_as_often_as_on_the_traces_page_of_arc() {
    let Some(path) = published("P3-hits.txt") else { return };
    let text = std::fs::read_to_string(path).unwrap();
    let count = |line: &str, name: &str| -> String {
        let field = line.split(',').map(str::trim).find_map(|field| field.strip_prefix(name));
        field.unwrap().trim_start_matches(':').trim().to_owned()
    };
    let published: Vec<((CurvePolicy, u64), u64)> = text
        .lines()
        .map(|line| {
            assert_eq!(count(line, "requests").parse::<f64>().unwrap(), BLOCKS);
            let policy = count(line, "algo").parse().unwrap();
            ((policy, count(line, "capacity").parse().unwrap()), count(line, "hits").parse().unwrap())
        })
        .collect();
    assert_eq!(published.len(), 20);
    let (caches, expected): (Vec<_>, Vec<u64>) = published.into_iter().unzip();
    let Some(hits) = hits(&caches) else { return };
    for (index, (policy, blocks)) in caches.iter().enumerate() {
        assert_eq!(hits[index], expected[index], "{} of {blocks} blocks", policy);
    }
}

/// What other programs count on the same trace at 1,024, 32,768 and 262,144 blocks: libCacheSim (aa0fc40), for CLOCK-Pro the
/// simulator of Caffeine (ccef955), without its rule that a block accessed twice in a row was accessed once.
const COUNTED: [(CurvePolicy, [u64; 3]); 5] = [
    (CurvePolicy::Optimal, [120_127, 1_261_555, 3_043_836]),
    (CurvePolicy::Replacement(Replacement::S3fifo(s3fifo::Parameters::DEFAULT)), [37_938, 662_918, 2_590_685]),
    (CurvePolicy::Replacement(Replacement::Sieve), [32_239, 392_049, 2_394_056]),
    (CurvePolicy::Replacement(Replacement::TwoQueue(two_queue::Parameters::DEFAULT)), [40_639, 512_990, 2_524_348]),
    (CurvePolicy::Replacement(Replacement::ClockPro), [32_085, 717_178, 2_615_216]),
];

#[test]
fn other_policies_hit_as_often_as_in_the_programs_of_others() {
    let sizes = [1_024, 32_768, 262_144];
    let caches: Vec<(CurvePolicy, u64)> =
        COUNTED.iter().flat_map(|(policy, _)| sizes.map(|size| (*policy, size))).collect();
    let Some(hits) = hits(&caches) else { return };
    for ((policy, counted), hits) in COUNTED.iter().zip(hits.chunks(sizes.len())) {
        assert_eq!(hits, counted, "{}", policy);
    }
}

/// What W-TinyLFU keeps is decided by small differences of counts, which must not be those of a hash. Caffeine's simulator (with
/// `sketch = perfect-table`) counts as much, where both round the window alike.
#[test]
fn w_tiny_lfu_hits_as_often_as_caffeine_with_exact_counts_whatever_the_seed() {
    let policies = [0, 1, 2].map(|seed| format!("w_tiny_lfu:seed={seed}").parse().unwrap());
    for (size, caffeine) in [(1_000, Some(23_381)), (8_192, None), (20_000, Some(489_853))] {
        let Some(found) = hits(&policies.map(|policy| (policy, size))) else { return };
        let expected = caffeine.unwrap_or(found[0]);
        assert!(found.iter().all(|hits| *hits == expected), "{size} blocks: {found:?}");
    }
}
