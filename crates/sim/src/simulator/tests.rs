//! Every request is answered exactly once, and the statistics of engine and device models agree.

use peryton_device::DeviceStats;
use peryton_engine::DeviceTraffic;
use peryton_trace::{BATCH, Request, Source, TraceError};
use peryton_units::{Bytes, Nanos, Op};
use proptest::prelude::*;

use super::simulate;
use crate::{Design, Fit, Options, Replay, outcome::Outcome, request_source::RequestSource};

struct Listed(Vec<Request>, usize);

impl Source for Listed {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        let end = (self.1 + BATCH).min(self.0.len());
        batch.extend_from_slice(&self.0[self.1..end]);
        self.1 = end;
        Ok(())
    }
}

fn replay(text: &str, requests: Vec<Request>, options: &Options) -> Outcome {
    let design = Design::parse(text, "test.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let machine = design.build(!options.new_volume).unwrap();
    let source = Box::new(Listed(requests, 0));
    let source = RequestSource::new(source, design.volume, 1, Fit::Wrap, None, &|_| {}).unwrap();
    simulate(&design, machine, source, options, false).unwrap()
}

fn requests() -> impl Strategy<Value = Vec<Request>> {
    let op = prop_oneof![4 => Just(Op::Read), 4 => Just(Op::Write), 1 => Just(Op::Discard), 1 => Just(Op::Flush)];
    let one = (0u64..3_000, 0u64..(48 << 20), 0u64..300_000, op);
    prop::collection::vec(one, 1..400).prop_map(|list| {
        let mut now = 0;
        let each = |(gap, offset, len, op): (u64, u64, u64, Op)| {
            now += gap;
            let (offset, len) = if op == Op::Flush { (0, 0) } else { (offset, len) };
            Request { at: Nanos::from_us(now), offset: Bytes(offset), len: Bytes(len), volume: 0, op }
        };
        list.into_iter().map(each).collect()
    })
}

fn designs() -> impl Strategy<Value = String> {
    let devices = "[devices.ssd]\nprofile = 'intel-320-300gb'\nsize = '8MiB'\n\
                   [devices.hdd]\nprofile = 'seagate-st32000641as'\nsize = '40MiB'\n";
    let hybrid = move |mode: &str, more: &str| {
        format!(
            "{devices}[placement]\nmode = '{mode}'\nfast = 'ssd'\nslow = 'hdd'\nextent = '64KiB'\n\
             promotion = {{ threshold = 0 }}\ndemotion = {{ low = 4, high = 8 }}\nmax_moves = 4\n{more}\n\
             [power.hdd]\nspin_down_after = '100ms'\n"
        )
    };
    let striped = "[devices.a]\nprofile = 'fixed'\nsize = '48MiB'\ncount = 3\nstripe = '16KiB'\n\
                   [placement]\nmode = 'single'\n";
    prop_oneof![
        Just(format!("{devices}[placement]\nmode = 'linear'\n")),
        Just(hybrid("tiering", "")),
        Just(hybrid("tiering", "replacement = 'lru'")),
        Just(hybrid("caching", "write = 'back'\nwriteback = { delay = '1ms' }")),
        Just(hybrid("caching", "write = 'through'")),
        Just(hybrid("caching", "write = 'around'")),
        Just(striped.to_owned()),
    ]
}

/// Compares the engine's statistics of a device with the model's, for devices where one command of the engine is one of
/// the model.
fn agree(traffic: &DeviceTraffic, stats: &DeviceStats, zero_by_writing: bool) -> Result<(), TestCaseError> {
    let sum = |counts: &[u64; 5]| counts.iter().sum::<u64>();
    prop_assert_eq!(sum(&traffic.reads), stats.reads);
    prop_assert_eq!(sum(&traffic.bytes_read), stats.bytes_read.0);
    prop_assert_eq!(traffic.flushes, stats.flushes);
    if zero_by_writing {
        // The engine counts zeroing as discards; a disk writes the zeros.
        prop_assert_eq!(sum(&traffic.writes) + traffic.discards, stats.writes + stats.discards);
    } else {
        prop_assert_eq!(sum(&traffic.writes), stats.writes);
        prop_assert_eq!(sum(&traffic.bytes_written), stats.bytes_written.0);
        prop_assert_eq!(traffic.discards, stats.discards);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_request_is_answered_once_and_the_statistics_agree(
        requests in requests(), text in designs(), depth in 0u32..20, new_volume in any::<bool>(),
    ) {
        let replay_mode = match depth {
            0 => Replay::Timed { speed: 1.0 },
            1 => Replay::Sync,
            depth => Replay::Depth(depth),
        };
        let options = Options { replay: replay_mode, new_volume, ..Options::default() };
        // Requests without a length have no part in the simulation.
        let is_simulated = |request: &&Request| request.op == Op::Flush || request.len > Bytes::ZERO;
        let count = |op| requests.iter().filter(is_simulated).filter(|request| request.op == op).count() as u64;
        let expected = [count(Op::Read), count(Op::Write), count(Op::Discard), count(Op::Flush)];
        let total = expected.iter().sum::<u64>();
        let outcome = replay(&text, requests, &options);
        prop_assert_eq!(outcome.answered, total);
        let times = &outcome.times;
        let counted = [Op::Read, Op::Write, Op::Discard, Op::Flush]
            .map(|op| times.of(op).summary().map_or(0, |summary| summary.count));
        prop_assert_eq!(counted, expected);
        prop_assert_eq!(outcome.stats.requests.iter().sum::<u64>(), total);
        prop_assert_eq!(outcome.stats.failed_requests, 0);
        if let Replay::Depth(depth) = replay_mode {
            prop_assert!(outcome.deepest <= depth);
        }
        let (counts, devices) = &outcome.drained;
        for (index, (traffic, members)) in counts.devices.iter().zip(devices).enumerate() {
            if let [stats] = &members[..] {
                agree(traffic, stats, index == 1)?;
            } else {
                let bytes = |of: fn(&DeviceStats) -> Bytes| members.iter().map(|stats| of(stats).0).sum::<u64>();
                prop_assert_eq!(traffic.bytes_read.iter().sum::<u64>(), bytes(|stats| stats.bytes_read));
                prop_assert_eq!(traffic.bytes_written.iter().sum::<u64>(), bytes(|stats| stats.bytes_written));
            }
            // Every nanosecond of each member is in one state.
            for stats in members {
                let states = stats.busy + stats.idle + stats.standby;
                prop_assert!(states.0 > 0 || outcome.span == Nanos::ZERO);
            }
        }
    }
}
