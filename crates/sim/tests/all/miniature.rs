//! Miss-ratio curves by miniature simulation: the policies decide as in the drive, and the result of a sample is close
//! to that of all blocks.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use crate::common;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use common::{listed, random_requests, request, simulate};
use peryton_engine::Replacement;
use peryton_sim::{CacheUnit, CurvePolicy, CurveSizes, Curves, Miniature, MiniatureError, Options, Replay};
use peryton_trace::{
    MissRatioCurve, MissRatios, OpenOptions, Request, Source, SynthSource, SynthSpec, block_accesses, open,
};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng, rngs::StdRng};

fn miniature(
    open: &(dyn Fn() -> Box<dyn Source> + Sync),
    rate: f64,
    caches: &[(impl Into<CurvePolicy> + Copy, Bytes)],
) -> Vec<MissRatios> {
    let caches = caches.iter().map(|(policy, size)| ((*policy).into(), *size)).collect();
    let mini = Miniature { unit: CacheUnit::Block(Bytes::kib(4)), rate, seed: 0, window: Nanos::from_s(60), caches };
    mini.run(&|| Ok(open()), &|_| {}).unwrap()
}

/// One page a request, skewed, with loops, which the policies treat very differently.
fn pages(count: u64, pages: u64, seed: u64) -> Vec<Request> {
    let mut random = StdRng::seed_from_u64(seed);
    let each = |n: u64| {
        let page = if n % 5_000 < 1_500 {
            n % pages
        } else {
            let drawn: f64 = random.random();
            (drawn.powi(4) * pages as f64) as u64 * 7919 % pages
        };
        // Reads only: a write that waited for its own promotion counts as another access in the drive.
        request(n, Op::Read, page * 4096, 4096)
    };
    (0..count).map(each).collect()
}

#[test]
fn a_bare_cache_decides_as_the_drive_does() {
    let (count, volume, entries) = (60_000, 6_000, 700);
    let requests = pages(count, volume, 4);
    let mut ratios = Vec::new();
    for (word, replacement) in Replacement::ALL {
        let text = format!(
            "[devices.ssd]\nprofile = 'fixed'\nsize = {}\nmodel = {{ read = '1ns', write = '1ns', parallelism = 64 }}\n\
             [devices.hdd]\nprofile = 'fixed'\nsize = {}\nmodel = {{ read = '1ns', write = '1ns', parallelism = 64 }}\n\
             [placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '4KiB'\nreplacement = '{word}'\n\
             promotion = {{ threshold = 0, window = '60s' }}\ndemotion = {{ low = 0, high = 0 }}\nmax_moves = 4096\n\
             writeback = {{ dirty_target = 1 }}\nbypass = {{ sequential = 'never', congested = false }}\n",
            entries * 4096,
            volume * 4096
        );
        // A microsecond between requests, so that each one has ended when the next comes.
        let report =
            simulate(&text, &requests, &Options { replay: Replay::Timed { speed: 1.0 }, ..Options::default() });
        let drive = 1.0 - report.unwrap().fast_hit_ratio.unwrap();
        let bare = miniature(&|| listed(&requests), 1.0, &[(replacement, Bytes::kib(4 * entries))])[0];
        let tolerance = match replacement {
            // The drive may skip a promotion if the clock's hand meets only empty slots.
            Replacement::Wsclock => 0.001 * drive,
            // A drive makes room before it takes an extent in.
            Replacement::Gdsf => 0.02 * drive,
            _ => 1e-9,
        };
        assert!((bare.blocks.all - drive).abs() <= tolerance, "{word}: {} here, {drive} there", bare.blocks.all);
        ratios.push(drive);
    }
    for (index, ratio) in ratios.iter().enumerate() {
        assert!(!ratios[..index].contains(ratio), "the trace does not tell the policies apart: {ratios:?}");
    }
}

#[test]
fn lru_at_rate_one_is_the_exact_curve() {
    // Unaligned sizes and offsets, including discards and flushes.
    let requests = random_requests(20_000, 16 << 20, 100, 5);
    let curve = MissRatioCurve::of(&mut *listed(&requests), Bytes::kib(4), 1 << 20).unwrap();
    let sizes = [0, 4, 8, 100, 1_000, 4_000, 16_384].map(Bytes::kib);
    let caches = sizes.map(|size| (Replacement::Lru, size));
    assert_eq!(miniature(&|| listed(&requests), 1.0, &caches), curve.at(&sizes));
}

fn synth(text: &str) -> Box<dyn Source> {
    Box::new(SynthSource::new(&SynthSpec::parse(text, "test").unwrap(), "test").unwrap())
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

type Opened = Box<dyn Fn() -> Box<dyn Source> + Sync>;

/// The name, and a function that opens the trace. The rates leave about 8,000 blocks or more; the
/// bound in docs/comparing.md is for these.
fn traces() -> Vec<(String, Opened)> {
    let zipf = |exponent: f64, mix: &str| {
        let text = format!(
            "requests = 250_000\nfootprint = '512MiB'\nread_share = 0.6\narrival = '1ms'\nsize = '4KiB'\n{mix}\n\
             address = {{ kind = 'zipf', exponent = {exponent}, extent = '4KiB' }}\n"
        );
        let name = format!("zipf {exponent} {mix}");
        (name, Box::new(move || synth(&text)) as Opened)
    };
    let mut traces = vec![zipf(0.6, ""), zipf(0.9, ""), zipf(0.9, "sequential_share = 0.5"), zipf(1.1, "")];
    let shared = root().join("../shared/traces");
    for path in [root().join("examples/traces/pgbench-ext4.parquet"), shared.join("cloudphysics.vscsi")] {
        if path.exists() {
            let open = move || Box::new(open(&path, &OpenOptions::default()).unwrap()) as Box<dyn Source>;
            traces.push((format!("trace {}", traces.len()), Box::new(open)));
        } else {
            println!("skipped: {} is not at hand", path.display());
        }
    }
    traces
}

#[test]
fn a_sample_of_eight_thousand_blocks_is_within_the_stated_bound() {
    let (mut worst, mut sum, mut count) = (0.0f64, 0.0, 0);
    for (name, open) in traces() {
        let blocks = MissRatioCurve::of(&mut *open(), Bytes::kib(4), 1 << 26).unwrap().blocks();
        let rate = (8_192.0 / blocks as f64).min(1.0);
        let sizes: Vec<Bytes> = [1, 3, 5].into_iter().map(|n| Bytes(((blocks * 4096) >> n) / 4096 * 4096)).collect();
        let policies = Replacement::ALL.map(|(_, policy)| policy.into()).into_iter().chain([CurvePolicy::Optimal]);
        let caches: Vec<(CurvePolicy, Bytes)> =
            policies.flat_map(|policy| sizes.iter().map(move |size| (policy, *size))).collect();
        let full = miniature(&open, 1.0, &caches);
        let sampled = miniature(&open, rate, &caches);
        for rows in [&full, &sampled] {
            let (others, bound) = rows.split_at(rows.len() - sizes.len());
            for (index, other) in others.iter().enumerate() {
                let (fewest, name) = (bound[index % sizes.len()].blocks.all, caches[index].0);
                assert!(fewest <= other.blocks.all + 1e-12, "{name} misses {} and opt {fewest}", other.blocks.all);
            }
        }
        let errors = |of: fn(&MissRatios) -> f64| -> Vec<f64> {
            full.iter().zip(&sampled).map(|(full, sampled)| (of(full) - of(sampled)).abs()).collect()
        };
        let (blocks_off, bytes_off) = (errors(|r| r.blocks.all), errors(|r| r.bytes.all));
        let mean = |errors: &[f64]| errors.iter().sum::<f64>() / errors.len() as f64;
        let most = |errors: &[f64]| errors.iter().copied().fold(0.0, f64::max);
        println!(
            "{name}: {blocks} blocks at {rate:.4}: mean error {:.4}, most {:.4}; of bytes {:.4}, {:.4}",
            mean(&blocks_off),
            most(&blocks_off),
            mean(&bytes_off),
            most(&bytes_off)
        );
        worst = worst.max(most(&blocks_off)).max(most(&bytes_off));
        sum += blocks_off.iter().chain(&bytes_off).sum::<f64>();
        count += 2 * blocks_off.len();
    }
    assert!(worst <= 0.06 && sum / f64::from(count as u32) <= 0.015, "worst {worst}, mean {}", sum / count as f64);
}

/// The fear: an interval in which the figure is not. Where nothing is known of it, there is none.
#[test]
fn intervals_have_the_figure_of_the_whole_trace() {
    let names = ["arc", "s3fifo", "sieve", "lirs", "two_queue", "w_tiny_lfu", "clock_pro"];
    let policies: Vec<CurvePolicy> = names.iter().map(|name| name.parse().unwrap()).collect();
    let (mut inside, mut known, mut widths, mut few) = (0, 0, 0.0, 0);
    for (name, open) in traces().into_iter().take(4) {
        let curves = |rate| {
            let curves = Curves {
                sizes: CurveSizes::Points(9),
                policies: policies.clone(),
                rate: Some(rate),
                ..Curves::default()
            };
            curves.of(&|| Ok(open()), &|_| {}).unwrap()
        };
        for (whole, sampled) in curves(1.0).iter().zip(&curves(0.125)) {
            assert_eq!((whole.replacement, whole.interval), (sampled.replacement, None), "{name}");
            assert_eq!(sampled.interval.is_none(), sampled.few_blocks, "{name}");
            let Some(interval) = sampled.interval else {
                few += 1;
                continue;
            };
            known += 1;
            widths += interval.high - interval.low;
            inside += i32::from((interval.low..=interval.high).contains(&whole.ratios.blocks.all));
        }
    }
    println!("{inside} of {known} are inside, {:.4} wide; {few} have no interval", widths / f64::from(known));
    assert!(known > 80 && few > 80 && f64::from(inside) >= 0.95 * f64::from(known), "{inside} of {known}");
    assert!(widths / f64::from(known) < 0.03, "so wide that they say nothing");
}

#[test]
fn a_hostile_request_does_not_make_it_go_on_forever() {
    let huge = request(0, Op::Write, u64::MAX - 5_000, u64::MAX);
    let empty = request(0, Op::Read, 5, 0);
    let rows = miniature(&|| listed(&[huge, empty]), 1.0, &[(Replacement::Arc, Bytes::mib(1))]);
    assert_eq!((rows[0].blocks.all, rows[0].blocks.read), (1.0, None));
}

#[test]
fn what_does_not_fit_in_memory_is_refused() {
    let run = |rate, size| {
        let caches = vec![(CurvePolicy::LRU, size)];
        let mini =
            Miniature { unit: CacheUnit::Block(Bytes::kib(4)), rate, seed: 0, window: Nanos::from_s(60), caches };
        mini.run(&|| Ok(listed(&[])), &|_| {})
    };
    assert!(matches!(run(1.0, Bytes(1 << 60)), Err(MiniatureError::TooLarge { .. })));
    for rate in [0.0, -1.0, 1.5, f64::NAN] {
        assert!(matches!(run(rate, Bytes::mib(1)), Err(MiniatureError::Rate { .. })));
    }
    // Without accesses there are no hits.
    assert_eq!(run(0.001, Bytes(1 << 40)).unwrap()[0].blocks.all, 1.0);
}

/// OPT is about the accesses of the sample, in the order in which the caches see them, whatever the batches are.
#[test]
fn the_optimum_of_a_trace_is_that_of_its_accesses() {
    let requests = random_requests(30_000, 16 << 20, 100, 6);
    let block = Bytes::kib(4);
    let accesses: Vec<(u32, u64)> = requests
        .iter()
        .flat_map(|request| block_accesses(request, block))
        .map(|access| (access.volume, access.block))
        .collect();
    let sizes = [1, 10, 100, 1_000];
    let rows = miniature(&|| listed(&requests), 1.0, &sizes.map(|blocks| (CurvePolicy::Optimal, Bytes(blocks * 4096))));
    for (size, row) in sizes.into_iter().zip(rows) {
        // The next access of each cached block; the furthest one leaves.
        let (mut cached, mut misses, mut later) = (BTreeMap::new(), 0u32, BTreeMap::new());
        let mut next = vec![usize::MAX; accesses.len()];
        for (index, access) in accesses.iter().enumerate().rev() {
            next[index] = later.insert(*access, index).unwrap_or(usize::MAX - index);
        }
        for (index, access) in accesses.iter().enumerate() {
            if cached.insert(next[index], *access).is_some() {
                unreachable!("each access is the next one of one other");
            }
            if cached.remove(&index).is_none() {
                misses += 1;
                if cached.len() as u64 > size {
                    // The block that came is kept until its next miss would come.
                    let victim = cached.keys().rev().find(|at| **at != next[index]).copied().unwrap();
                    cached.remove(&victim);
                }
            }
        }
        assert_eq!(row.blocks.all, f64::from(misses) / accesses.len() as f64, "{size} blocks");
    }
}

#[test]
fn few_sizes_of_all_blocks_are_simulated_and_agree_with_the_curve_of_all_sizes() {
    let listed_pages = || Ok(Box::new(listed(&pages(40_000, 3_000, 9))) as Box<dyn Source>);
    let sizes = |count: u64| CurveSizes::Given((1..=count).map(|n| Bytes::kib(400 * n)).collect());
    let policies = vec![Replacement::Lru.into(), Replacement::Arc.into()];
    let curves =
        |count| Curves { sizes: sizes(count), rate: Some(1.0), policies: policies.clone(), ..Curves::default() };
    let (few, many) = (curves(2).of(&listed_pages, &|_| {}).unwrap(), curves(9).of(&listed_pages, &|_| {}).unwrap());
    for (policy, few) in few.chunks(2).enumerate() {
        for (few, many) in few.iter().zip(&many[policy * 9..]) {
            assert_eq!((few.replacement, few.ratios, few.sampling_error), (many.replacement, many.ratios, None));
        }
    }
    assert!(few[0].ratios.blocks.all > few[1].ratios.blocks.all);
}

/// The fear: where no sample is taken, LRU corrects it; or where one is, nothing does.
#[test]
fn a_trace_of_few_blocks_is_simulated_whole_and_one_of_more_is_corrected_by_lru() {
    let of_blocks = |blocks: u64| {
        let read = |n: u64| request(n, Op::Read, n % blocks * 4096, 4096);
        let requests: Vec<Request> = (0..blocks + 1_000).map(read).collect();
        let rows = |rate| {
            let policies = vec![Replacement::Arc.into()];
            let curves = Curves { sizes: CurveSizes::Points(3), policies, rate, ..Curves::default() };
            curves.of(&|| Ok(Box::new(listed(&requests)) as Box<dyn Source>), &|_| {}).unwrap()
        };
        let (by_default, whole) = (rows(None), rows(Some(1.0)));
        assert!(
            by_default.iter().zip(&whole).all(|(a, b)| a.ratios.cache_bytes == b.ratios.cache_bytes && a.of == b.of)
        );
        assert!(by_default.iter().all(|row| (row.rate < 1.0) == row.sampling_error.is_some()));
        by_default[0].rate
    };
    assert_eq!(of_blocks(4 * 131_072), 1.0);
    assert!((0.24..0.25).contains(&of_blocks(4 * 131_072 + 4_096)));
}
