//! `Characteristics` compared with the simplest possible computation of the same figures, on hostile traces.

use std::collections::{BTreeSet, HashMap, HashSet};

use peryton_trace::{BATCH, Characteristics, Request, STREAMS, Source, TraceError};
use peryton_units::{Bytes, Nanos, Op};
use proptest::prelude::*;

/// A trace in memory.
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

fn of(requests: &[Request]) -> Characteristics {
    Characteristics::of(&mut Given(requests.to_vec(), 0)).unwrap()
}

/// Requests with few different places and times, so that coincidences are frequent.
fn trace() -> impl Strategy<Value = Vec<Request>> {
    let step = prop_oneof![Just(0u64), 0..2_000_000_000u64, 0..100_000_000_000u64];
    let request = (step, 0u64..300, 0u64..80, 0u32..3, 0u8..4);
    prop::collection::vec(request, 1..400).prop_map(|parts| {
        let mut now = 1_000_000_007;
        let parts = parts.into_iter().map(|(step, offset, len, volume, op)| {
            now += step;
            let op = Op::from_code(op).unwrap();
            Request { at: Nanos(now), offset: Bytes(offset * 1024), len: Bytes(len * 1024), volume, op }
        });
        parts.collect()
    })
}

fn pages(r: &Request) -> impl Iterator<Item = (u32, u64)> + use<> {
    let volume = r.volume;
    (r.offset.0 / 4096..(r.offset.0 + r.len.0).div_ceil(4096)).map(move |page| (volume, page)).filter({
        let empty = r.len.0 == 0;
        move |_| !empty
    })
}

fn data(requests: &[Request]) -> impl Iterator<Item = &Request> {
    requests.iter().filter(|r| matches!(r.op, Op::Read | Op::Write))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn counts_and_footprint(requests in trace()) {
        let c = of(&requests);
        let count = |op| requests.iter().filter(|r| r.op == op).count() as u64;
        let bytes = |op| requests.iter().filter(|r| r.op == op).map(|r| r.len.0).sum::<u64>();
        prop_assert_eq!([c.reads, c.writes, c.discards, c.flushes], Op::ALL.map(count));
        prop_assert_eq!([c.bytes_read, c.bytes_written, c.bytes_discarded], [Op::Read, Op::Write, Op::Discard].map(bytes));
        let unique = |op| requests.iter().filter(|r| r.op == op).flat_map(pages).collect::<HashSet<_>>();
        let (read, written) = (unique(Op::Read), unique(Op::Write));
        prop_assert_eq!(c.footprint.pages_read, read.len() as u64);
        prop_assert_eq!(c.footprint.pages_written, written.len() as u64);
        prop_assert_eq!(c.footprint.pages_read_and_written, read.intersection(&written).count() as u64);
        prop_assert_eq!(c.footprint.pages, read.union(&written).count() as u64);
        let page_writes = requests.iter().filter(|r| r.op == Op::Write).flat_map(pages).count();
        let first = (page_writes > 0).then(|| written.len() as f64 / page_writes as f64);
        prop_assert!((c.first_write_share.unwrap_or(-1.0) - first.unwrap_or(-1.0)).abs() < 1e-12);
        let span = requests[requests.len() - 1].at - requests[0].at;
        prop_assert_eq!(c.span_s, span.as_s_f64());
        let mut seconds: HashMap<u64, (u64, u64)> = HashMap::new();
        for r in &requests {
            let second = seconds.entry((r.at - requests[0].at).0 / 1_000_000_000).or_default();
            second.0 += 1;
            second.1 += if matches!(r.op, Op::Read | Op::Write) { r.len.0 } else { 0 };
        }
        prop_assert_eq!(c.peak_iops, seconds.values().map(|s| s.0).max().unwrap());
        prop_assert_eq!(c.peak_mib_per_s, seconds.values().map(|s| s.1).max().unwrap() as f64 / 1048576.0);
    }

    #[test]
    fn working_sets(requests in trace()) {
        for row in of(&requests).working_set {
            let mut windows: HashMap<u64, BTreeSet<(u32, u64)>> = HashMap::new();
            let window = |r: &Request| (r.at - requests[0].at).0 / 1_000_000_000 / row.window_s;
            for r in data(&requests) {
                windows.entry(window(r)).or_default().extend(pages(r));
            }
            let count = data(&requests).map(window).max().map_or(1, |last| last + 1);
            let sum: usize = windows.values().map(BTreeSet::len).sum();
            prop_assert_eq!(row.max_pages, windows.values().map(BTreeSet::len).max().unwrap_or(0) as u64);
            prop_assert!((row.mean_pages - sum as f64 / count as f64).abs() < 1e-9, "{:?} {} {}", row, sum, count);
        }
    }

    #[test]
    fn sequentiality(requests in trace()) {
        let c = of(&requests).sequential_share;
        let (mut all, mut own, mut streams) = (0, [0; 2], 0);
        let (mut last, mut last_own) = (HashMap::new(), HashMap::new());
        let mut open: HashMap<u32, Vec<u64>> = HashMap::new();
        let mut counts = [0; 2];
        for r in data(&requests).filter(|r| r.len.0 > 0) {
            let (start, end) = (r.offset.0, r.offset.0 + r.len.0);
            counts[r.op as usize] += 1;
            all += usize::from(last.insert(r.volume, end) == Some(start));
            own[r.op as usize] += usize::from(last_own.insert((r.volume, r.op), end) == Some(start));
            let open = open.entry(r.volume).or_default();
            match open.iter().rposition(|&e| e == start) {
                Some(stream) => {
                    streams += 1;
                    open.remove(stream);
                }
                None if open.len() == STREAMS => drop(open.remove(0)),
                None => {}
            }
            open.push(end);
        }
        let share = |count: usize, of: usize| (of > 0).then(|| count as f64 / of as f64);
        let both = counts[0] + counts[1];
        prop_assert_eq!(c.all, share(all, both));
        prop_assert_eq!(c.read, share(own[0], counts[0]));
        prop_assert_eq!(c.write, share(own[1], counts[1]));
        prop_assert_eq!(c.streams, share(streams, both));
    }

    #[test]
    fn no_trace_causes_a_panic(parts in prop::collection::vec((any::<u64>(), any::<u64>(), any::<u64>(), any::<u32>(), 0u8..4), 0..20)) {
        let requests: Vec<Request> = parts.into_iter().map(|(at, offset, len, volume, op)| Request {
            at: Nanos(at),
            offset: Bytes(offset),
            len: Bytes(len >> (at % 64)),
            volume,
            op: Op::from_code(op).unwrap(),
        }).collect();
        let c = of(&requests);
        prop_assert_eq!(c.requests, requests.len() as u64);
        let json = serde_json::to_string(&c).unwrap();
        prop_assert!(!json.contains("null"), "a figure that does not apply is absent: {json}");
        prop_assert!(!c.to_string().contains("NaN"));
    }
}

#[test]
fn above_its_bound_the_footprint_is_an_estimate_and_says_so() {
    let requests: Vec<Request> = (0..400_000u64)
        .map(|i| Request {
            at: Nanos(i * 1_000_000),
            // Scattered 64 KiB blocks, each written twice.
            offset: Bytes((i % 200_000).wrapping_mul(2_654_435_761) % 1_000_000_007 * 65536),
            len: Bytes::kib(64),
            volume: 0,
            op: Op::Write,
        })
        .collect();
    let exact = of(&requests);
    assert_eq!((exact.footprint.sampled_share, exact.footprint.pages), (1.0, 200_000 * 16));
    let estimate = Characteristics::with_max_pages(&mut Given(requests, 0), 1 << 20).unwrap();
    assert!(estimate.footprint.sampled_share < 1.0);
    let error = |a: f64, b: f64| (a - b).abs() / b;
    assert!(error(estimate.footprint.pages as f64, exact.footprint.pages as f64) < 0.04, "{:?}", estimate.footprint);
    assert!(error(estimate.overwrite_share.unwrap(), 0.5) < 0.04, "{:?}", estimate.overwrite_share);
    let (estimated, expected) = (estimate.working_set[1].mean_pages, exact.working_set[1].mean_pages);
    assert!(error(estimated, expected) < 0.04, "{estimated}, expected {expected}");
    assert!(estimate.to_string().contains("estimated from"));
}

#[test]
fn an_empty_trace_has_characteristics() {
    let c = of(&[]);
    assert_eq!((c.requests, c.read_share, c.footprint.pages), (0, None, 0));
    assert!(!serde_json::to_string(&c).unwrap().contains("null"));
    assert!(c.to_string().starts_with("requests"));
}
