//! Overwrites and LRU curves compared with the simplest possible computation of the same figures.

use std::collections::HashMap;

use peryton_trace::{BATCH, MissRatioCurve, Overwrites, Request, Source, SynthSource, SynthSpec, TraceError};
use peryton_units::{Bytes, Nanos, Op};
use proptest::prelude::*;

struct Given(Vec<Request>, usize);

impl Source for Given {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        let end = self.0.len().min(self.1 + BATCH);
        batch.extend_from_slice(&self.0[self.1..end]);
        self.1 = end;
        Ok(())
    }
}

fn synth(text: &str) -> SynthSource {
    SynthSource::new(&SynthSpec::parse(text, "test").unwrap(), "test").unwrap()
}

/// One request a second, each of one block: `W3` writes block 3.
fn trace(text: &str) -> Vec<Request> {
    let request = |(index, word): (usize, &str)| Request {
        at: Nanos::from_s(index as u64),
        offset: Bytes::kib(4 * word[1..].parse::<u64>().unwrap()),
        len: Bytes::kib(4),
        volume: 0,
        op: if word.starts_with('R') { Op::Read } else { Op::Write },
    };
    text.split(' ').enumerate().map(request).collect()
}

fn overwrites(requests: &[Request]) -> Overwrites {
    Overwrites::of(&mut Given(requests.to_vec(), 0)).unwrap()
}

#[test]
fn the_example_of_griffin_saves_three_fifths() {
    let o = overwrites(&trace("W7 W7 W7 R7 W7 W7"));
    assert_eq!(o.ideal_write_savings, Some(0.6));
    let (after_write, after_read) = (o.write_after_write_s.unwrap(), o.read_after_write_s.unwrap());
    assert_eq!((after_write.distribution.mean, after_write.share_of_writes), (1.0, 0.6));
    assert_eq!((after_read.distribution.mean, after_read.share_of_writes), (1.0, 0.2));
    assert_eq!((o.block_writes, o.blocks_written, o.block_reads), (5, 1, 1));
}

#[test]
fn the_most_written_blocks_are_found() {
    let mut requests = trace("W0 W1 W1 W1 R1 R2");
    let first = requests[0];
    // Blocks 10 to 207 once each: 200 blocks written in all, so that 1 % are blocks 1 and 0 (equal counts by address).
    requests.extend((10..208).map(|block| Request { offset: Bytes::kib(4 * block), ..first }));
    let o = overwrites(&requests);
    assert_eq!((o.blocks_written, o.overwrites_on_top_1pct, o.reads_on_top_1pct), (200, Some(1.0), Some(0.5)));
}

#[test]
fn a_sample_estimates_what_all_blocks_would_give() {
    let spec = r#"
        requests = 300_000
        footprint = "400MiB"
        read_share = 0.3
        arrival = { kind = "poisson", mean = "1ms" }
        size = "4KiB"
    "#;
    let exact = Overwrites::of(&mut synth(spec)).unwrap();
    let estimate = Overwrites::with_max_blocks(&mut synth(spec), 20_000).unwrap();
    assert!(exact.sampled_share == 1.0 && estimate.sampled_share < 0.5);
    let near = |a: Option<f64>, b: Option<f64>| assert!((a.unwrap() - b.unwrap()).abs() < 0.02, "{a:?} {b:?}");
    near(estimate.ideal_write_savings, exact.ideal_write_savings);
    near(estimate.overwrites_on_top_1pct, exact.overwrites_on_top_1pct);
    let share = |o: &Overwrites| o.read_after_write_s.as_ref().map(|i| i.share_of_writes);
    near(share(&estimate), share(&exact));
    assert!((estimate.block_writes as f64 / exact.block_writes as f64 - 1.0).abs() < 0.05);
}

/// Misses of an LRU cache, kept as a list.
fn plain_lru(requests: &[Request], blocks: usize) -> [u64; 2] {
    let (mut stack, mut misses) = (Vec::<u64>::new(), [0; 2]);
    for r in requests {
        for block in r.offset.0 / 4096..(r.offset.0 + r.len.0).div_ceil(4096) {
            match stack.iter().position(|&b| b == block) {
                Some(place) => drop(stack.remove(place)),
                None => misses[r.op as usize] += 1,
            }
            stack.insert(0, block);
            stack.truncate(blocks);
        }
    }
    misses
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn the_curve_is_that_of_lru(parts in prop::collection::vec((0u64..60, 1u64..20, any::<bool>()), 1..300)) {
        let requests: Vec<Request> = parts.into_iter().map(|(offset, len, read)| Request {
            at: Nanos(0), offset: Bytes(offset * 1024), len: Bytes(len * 512), volume: 0,
            op: if read { Op::Read } else { Op::Write },
        }).collect();
        let curve = MissRatioCurve::of(&mut Given(requests.clone(), 0), Bytes::kib(4), 1000).unwrap();
        let sizes: Vec<Bytes> = (0..20).map(|blocks| Bytes::kib(4 * blocks)).collect();
        let all = plain_lru(&requests, 0);
        for (blocks, row) in curve.at(&sizes).iter().enumerate() {
            let misses = plain_lru(&requests, blocks);
            prop_assert!((row.blocks.all - (misses[0] + misses[1]) as f64 / (all[0] + all[1]) as f64).abs() < 1e-12);
            for (op, ratio) in [row.blocks.read, row.blocks.write].into_iter().enumerate() {
                let expected = (all[op] > 0).then(|| misses[op] as f64 / all[op] as f64);
                prop_assert!((ratio.unwrap_or(-1.0) - expected.unwrap_or(-1.0)).abs() < 1e-12);
            }
        }
    }

    #[test]
    fn savings_are_writes_after_writes(parts in prop::collection::vec((0u64..12, 1u64..3, any::<bool>()), 1..200)) {
        let requests: Vec<Request> = parts.into_iter().enumerate().map(|(i, (block, len, read))| Request {
            at: Nanos(i as u64), offset: Bytes::kib(4 * block), len: Bytes::kib(4 * len), volume: 0,
            op: if read { Op::Read } else { Op::Write },
        }).collect();
        let mut last: HashMap<u64, Op> = HashMap::new();
        let (mut writes, mut saved) = (0u64, 0u64);
        for r in &requests {
            for block in r.offset.0 / 4096..(r.offset.0 + r.len.0) / 4096 {
                let before = last.insert(block, r.op);
                writes += u64::from(r.op == Op::Write);
                saved += u64::from(r.op == Op::Write && before == Some(Op::Write));
            }
        }
        let o = overwrites(&requests);
        prop_assert_eq!(o.ideal_write_savings, (writes > 0).then(|| saved as f64 / writes as f64));
        let json = serde_json::to_string(&o).unwrap();
        prop_assert!(!json.contains("null"), "{json}");
    }
}

#[test]
fn long_traces_renumber_and_samples_stay_near() {
    let spec = r#"
        requests = 400_000
        footprint = "256MiB"
        read_share = 0.5
        arrival = "1ms"
        size = "4KiB"
        address = { kind = "zipf", exponent = 0.8 }
    "#;
    let sizes = [Bytes::mib(8), Bytes::mib(32), Bytes::mib(128)];
    let exact = MissRatioCurve::of(&mut synth(spec), Bytes::kib(4), 1 << 20).unwrap();
    let sampled = MissRatioCurve::of(&mut synth(spec), Bytes::kib(4), 10_000).unwrap();
    assert!(exact.sampled_share() == 1.0 && sampled.sampled_share() < 0.5);
    for (a, b) in exact.at(&sizes).iter().zip(sampled.at(&sizes)) {
        assert!((a.blocks.all - b.blocks.all).abs() < 0.03 && (a.bytes.all - b.bytes.all).abs() < 0.03, "{a:?} {b:?}");
    }
}
