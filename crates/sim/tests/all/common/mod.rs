//! Traces in memory, and designs to replay them on.

#![allow(dead_code)]

use peryton_sim::{Design, Options, Report, SimError, run_one};
use peryton_trace::{BATCH, Request, Source, TraceError};
use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng, rngs::StdRng};

/// A trace in memory.
pub struct Listed {
    requests: std::sync::Arc<Vec<Request>>,
    at: usize,
}

pub fn listed(requests: &[Request]) -> Box<dyn Source> {
    Box::new(Listed { requests: requests.to_vec().into(), at: 0 })
}

impl Source for Listed {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        let end = (self.at + BATCH).min(self.requests.len());
        batch.extend_from_slice(&self.requests[self.at..end]);
        self.at = end;
        Ok(())
    }
}

pub fn request(at_us: u64, op: Op, offset: u64, len: u64) -> Request {
    Request { at: Nanos::from_us(at_us), offset: Bytes(offset), len: Bytes(len), volume: 0, op }
}

/// Reads, writes, and a few discards and flushes, anywhere within `volume`, with unaligned offsets and sizes.
pub fn random_requests(count: usize, volume: u64, gap_us: u64, seed: u64) -> Vec<Request> {
    let mut random = StdRng::seed_from_u64(seed);
    let mut now = 0;
    let each = |_| {
        now += random.random_range(0..=2 * gap_us);
        let op = match random.random_range(0..100) {
            0..50 => Op::Read,
            50..92 => Op::Write,
            92..96 => Op::Discard,
            _ => return request(now, Op::Flush, 0, 0),
        };
        // A hot tenth takes most of the accesses.
        let span = if random.random_range(0..10) < 8 { volume / 10 } else { volume };
        let len = random.random_range(1..=256) * 512;
        let offset = random.random_range(0..=(span - len) / 512) * 512;
        request(now, op, offset, len)
    };
    (0..count).map(each).collect()
}

pub fn design(text: &str) -> Design {
    Design::parse(text, "test.toml", &[]).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

pub fn simulate(text: &str, requests: &[Request], options: &Options) -> Result<Report, SimError> {
    run_one(&design(text), "trace", listed(requests), options, &|_| {})
}

/// A hybrid drive of 16 MiB SSD and 64 MiB disk with fixed latencies.
pub fn hybrid(mode: &str, more: &str) -> String {
    format!(
        "[devices.ssd]\nprofile = 'fixed'\nsize = '16MiB'\n\
         [devices.hdd]\nprofile = 'fixed'\nsize = '64MiB'\n\
         model = {{ read = '8ms', write = '8ms', capacity = '1TiB', active_w = 9, idle_w = 6, standby_w = 1 }}\n\
         [placement]\nmode = '{mode}'\nfast = 'ssd'\nslow = 'hdd'\nextent = '64KiB'\n\
         promotion = {{ threshold = 1, window = '60s' }}\ndemotion = {{ low = 8, high = 16 }}\n{more}\n"
    )
}

pub const SINGLE: &str = "[devices.ssd]\nprofile = 'fixed'\nsize = '1GiB'\n\
                          model = { read = '40us', write = '200us' }\n[placement]\nmode = 'single'\n";
