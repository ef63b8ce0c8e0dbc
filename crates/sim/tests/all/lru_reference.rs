//! A cache with extents of one page that promotes on every miss is an LRU cache: its miss ratio equals that of an LRU
//! list.

use crate::common;

use std::collections::{BTreeMap, HashMap};

use common::{request, simulate};
use peryton_sim::{Options, Replay};
use peryton_trace::Request;
use peryton_units::Op;
use rand::{RngExt, SeedableRng, rngs::StdRng};

const PAGE: u64 = 4096;

/// Zipf with exponent 1 over `objects`, scattered independently of their popularity.
fn zipf(count: usize, objects: usize, seed: u64) -> Vec<Request> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut sums = Vec::with_capacity(objects);
    let mut sum = 0.0;
    for rank in 1..=objects {
        sum += 1.0 / rank as f64;
        sums.push(sum);
    }
    let mut place: Vec<u64> = (0..objects as u64).collect();
    for i in (1..objects).rev() {
        place.swap(i, random.random_range(0..=i));
    }
    (0..count)
        .map(|_| {
            let drawn = random.random_range(0.0..sum);
            let rank = sums.partition_point(|s| *s < drawn).min(objects - 1);
            request(0, Op::Read, place[rank] * PAGE, PAGE)
        })
        .collect()
}

/// Misses of a straightforward LRU cache of `entries`.
fn lru_misses(requests: &[Request], entries: usize) -> u64 {
    let (mut last, mut order, mut misses) = (HashMap::new(), BTreeMap::new(), 0);
    for (now, request) in requests.iter().enumerate() {
        match last.insert(request.offset, now) {
            Some(before) => {
                order.remove(&before);
            }
            None => {
                misses += 1;
                if last.len() > entries {
                    let (_, oldest) = order.pop_first().expect("it holds all that `last` does");
                    last.remove(&oldest);
                }
            }
        }
        order.insert(now, request.offset);
    }
    misses
}

#[test]
fn the_miss_ratio_of_caching_is_that_of_an_lru_list() {
    let (objects, entries) = (20_000, 2_000);
    let requests = zipf(200_000, objects, 1);
    let text = format!(
        "[devices.ssd]\nprofile = 'fixed'\nsize = {}\nmodel = {{ read = '1us', write = '1us' }}\n\
         [devices.hdd]\nprofile = 'fixed'\nsize = {}\nmodel = {{ read = '5us', write = '5us' }}\n\
         [placement]\nmode = 'caching'\nfast = 'ssd'\nslow = 'hdd'\nextent = '4KiB'\nreplacement = 'lru'\n\
         promotion = {{ threshold = 0, window = '60s' }}\ndemotion = {{ low = 0, high = 0 }}\nmax_moves = 4096\n",
        entries as u64 * PAGE,
        objects as u64 * PAGE
    );
    let options = Options { replay: Replay::Sync, ..Options::default() };
    let report = simulate(&text, &requests, &options).unwrap();
    let expected = lru_misses(&requests, entries) as f64 / requests.len() as f64;
    let got = 1.0 - report.fast_hit_ratio.unwrap();
    assert!((0.1..0.9).contains(&expected), "the trace does not exercise the cache: {expected}");
    assert!((got - expected).abs() < 5e-5, "miss ratio {got:.5}, an LRU list has {expected:.5}; {:?}", report.moves);
}
