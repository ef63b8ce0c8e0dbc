//! What a volume asks of a drive: its load in each window of time, and its miss-ratio curve.
//!
//! A recording is read once, whatever its length: windows become wider as it goes on, and the curve follows a sample of the blocks
//! ([`GrowingCurve`], SHARDS).

use peryton_sim::Load;
use peryton_trace::{GrowingCurve, MissRatioCurve, MissRatios, Request};
use peryton_units::{Bytes, Nanos, Op};
use serde::{Deserialize, Serialize};

/// The most windows of a fleet. More would not change an answer, and each is looked at for each group that is tried.
pub const MOST_WINDOWS: usize = 256;
/// The shortest window is 2^26 ns: 67 ms.
const SHORTEST_BITS: u32 = 26;
/// The unit in which a cache has data, and that in which it knows which of them it has.
const EXTENT: Bytes = Bytes::kib(64);
const BLOCK: Bytes = Bytes::kib(4);
/// The most blocks that a curve follows: its error is about one in the root of them.
const FOLLOWED: usize = 4096;
/// Volumes are in use, so the first requests of a recording say less than the later ones: whenever there are twice as many, those that
/// follow count twice as much, so often.
const FIRST: u64 = 1024;
const MOST_DOUBLED: u32 = 10;
/// The least flash of a volume: with less, single extents would decide.
pub(super) const LEAST_FLASH: Bytes = Bytes::mib(16);
/// Sizes on a curve for each doubling.
const STEPS: u32 = 2;

/// The load in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Window {
    pub(super) reads: f64,
    pub(super) writes: f64,
    pub(super) flushes: f64,
    pub(super) read_bytes: f64,
    pub(super) written_bytes: f64,
}

impl Window {
    fn add(&mut self, other: &Window) {
        self.reads += other.reads;
        self.writes += other.writes;
        self.flushes += other.flushes;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
    }

    pub(super) fn times(&self, factor: f64) -> Window {
        Window {
            reads: self.reads * factor,
            writes: self.writes * factor,
            flushes: self.flushes * factor,
            read_bytes: self.read_bytes * factor,
            written_bytes: self.written_bytes * factor,
        }
    }

    pub(super) fn requests(&self) -> f64 {
        self.reads + self.writes + self.flushes
    }
}

/// Windows of one width, from that with the first request to that with the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Windows {
    /// They are 2^bits ns wide.
    bits: u32,
    /// The number of the first one: its start divided by the width.
    pub(super) first: u64,
    pub(super) each: Vec<Window>,
}

impl Windows {
    fn new() -> Windows {
        Windows { bits: SHORTEST_BITS, first: 0, each: Vec::new() }
    }

    /// Their width.
    pub(super) fn width(&self) -> Nanos {
        Nanos(1 << self.bits)
    }

    /// The number of the one behind the last.
    pub(super) fn end(&self) -> u64 {
        self.first + self.each.len() as u64
    }

    #[inline]
    fn at(&mut self, at: Nanos) -> &mut Window {
        if self.each.is_empty() {
            self.first = at.0 >> self.bits;
        }
        // Requests come in the order of their times, but for those that a recorder exchanged at the very beginning.
        while (at.0 >> self.bits).saturating_sub(self.first) >= MOST_WINDOWS as u64 {
            self.widen();
        }
        let index = (at.0 >> self.bits).saturating_sub(self.first) as usize;
        if index >= self.each.len() {
            self.each.resize(index + 1, Window::default());
        }
        &mut self.each[index]
    }

    /// Makes one of each two.
    fn widen(&mut self) {
        let (first, mut each) = (self.first, std::mem::take(&mut self.each).into_iter());
        let mut wide: Vec<Window> = Vec::new();
        // A first window with an odd number is the second half of a wide one.
        if first % 2 == 1 {
            wide.extend(each.next());
        }
        while let Some(mut window) = each.next() {
            if let Some(next) = each.next() {
                window.add(&next);
            }
            wide.push(window);
        }
        (self.bits, self.first, self.each) = (self.bits + 1, first / 2, wide);
    }

    /// The same with windows at least as wide as those of 2^bits ns.
    pub(super) fn widened(mut self, bits: u32) -> Windows {
        while self.bits < bits {
            self.widen();
        }
        self
    }
}

/// The width that all volumes have in common, as the logarithm of its nanoseconds.
pub(super) fn common_bits(all: &[VolumeLoad]) -> u32 {
    let widest = all.iter().map(|load| load.windows.bits).max().unwrap_or(SHORTEST_BITS);
    (widest..64)
        .find(|bits| {
            let first = all.iter().map(|load| load.start.0 >> bits).min().unwrap_or(0);
            let last = all.iter().map(|load| load.end.0 >> bits).max().unwrap_or(0);
            last - first < MOST_WINDOWS as u64
        })
        .unwrap_or(63)
}

/// A point of a curve: what misses a cache of this size. Reads that miss are read from the slow device; writes that miss push other data
/// out, which are written back.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CurvePoint {
    pub(super) flash: f64,
    /// Shares of the reads and writes, and of their bytes.
    pub(super) read_miss: f64,
    pub(super) read_bytes_miss: f64,
    pub(super) write_miss: f64,
    pub(super) write_bytes_miss: f64,
}

impl CurvePoint {
    /// The point between this one and another.
    pub(super) fn towards(&self, other: &CurvePoint, share: f64) -> CurvePoint {
        let between = |from: f64, to: f64| from + (to - from) * share;
        CurvePoint {
            flash: between(self.flash, other.flash),
            read_miss: between(self.read_miss, other.read_miss),
            read_bytes_miss: between(self.read_bytes_miss, other.read_bytes_miss),
            write_miss: between(self.write_miss, other.write_miss),
            write_bytes_miss: between(self.write_bytes_miss, other.write_bytes_miss),
        }
    }
}

/// Times as numbers of nanoseconds.
pub(super) mod nanoseconds {
    use peryton_units::Nanos;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(in super::super) fn serialize<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u64(time.0)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Nanos, D::Error> {
        u64::deserialize(deserializer).map(Nanos)
    }
}

/// What was measured of one volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeLoad {
    /// Its name.
    pub name: String,
    /// Its number in the trace, or that of its file.
    pub number: u32,
    /// Number of requests.
    pub requests: u64,
    /// Bytes to be stored: the span of its addresses.
    pub stored: Bytes,
    /// Bytes that it touches, in whole extents.
    pub touched: Bytes,
    /// Its first and its last request, on the clock of its recording.
    #[serde(with = "nanoseconds")]
    pub start: Nanos,
    /// The last request.
    #[serde(with = "nanoseconds")]
    pub end: Nanos,
    pub(super) total: Window,
    pub(super) windows: Windows,
    pub(super) curve: Vec<CurvePoint>,
}

impl VolumeLoad {
    /// The same, as if its first request came at time 0.
    pub(super) fn begun_at_zero(&self) -> VolumeLoad {
        let mut load = self.clone();
        (load.start, load.end, load.windows.first) = (Nanos::ZERO, self.end - self.start, 0);
        load
    }
}

/// Measures a volume while its requests come.
pub(super) struct Meter {
    requests: u64,
    weight: u64,
    reach: u64,
    span: Option<(Nanos, Nanos)>,
    windows: Windows,
    extents: GrowingCurve,
    blocks: GrowingCurve,
}

impl Meter {
    pub(super) fn new() -> Meter {
        Meter {
            requests: 0,
            weight: 1,
            reach: 0,
            span: None,
            windows: Windows::new(),
            extents: GrowingCurve::new(EXTENT, FOLLOWED),
            blocks: GrowingCurve::new(BLOCK, FOLLOWED),
        }
    }

    /// Takes a request that comes at this time.
    #[inline]
    pub(super) fn add(&mut self, at: Nanos, request: &Request) {
        let (start, end) = self.span.unwrap_or((at, at));
        self.span = Some((start.min(at), end.max(at)));
        let (window, bytes) = (self.windows.at(at), request.len.0 as f64);
        match request.op {
            Op::Read => (window.reads, window.read_bytes) = (window.reads + 1.0, window.read_bytes + bytes),
            Op::Write => (window.writes, window.written_bytes) = (window.writes + 1.0, window.written_bytes + bytes),
            Op::Flush => window.flushes += 1.0,
            Op::Discard => {}
        }
        if request.op != Op::Flush {
            self.reach = self.reach.max(request.offset.0.saturating_add(request.len.0));
        }
        self.requests += 1;
        if self.requests == (FIRST * self.weight) && self.weight < 1 << MOST_DOUBLED {
            self.weight *= 2;
        }
        self.extents.add(request, self.weight);
        self.blocks.add(request, self.weight);
    }

    /// What was measured; `None` without a request.
    pub(super) fn ended(self, name: String, number: u32) -> Option<VolumeLoad> {
        let (start, end) = self.span?;
        let mut total = Window::default();
        self.windows.each.iter().for_each(|window| total.add(window));
        let curve = curve(&self.extents.curve(), &self.blocks.curve());
        let touched = Bytes(self.extents.curve().blocks().saturating_mul(EXTENT.0));
        let (requests, stored) = (self.requests, Load::reach(Bytes(self.reach)));
        Some(VolumeLoad { name, number, requests, stored, touched, start, end, total, windows: self.windows, curve })
    }
}

/// The points of a curve, up to the size that holds all that was touched. A cache takes room in extents, and has those of their blocks that
/// were accessed: a read hits if its extent is there and its block was accessed before.
fn curve(extents: &MissRatioCurve, blocks: &MissRatioCurve) -> Vec<CurvePoint> {
    let whole = Bytes(extents.blocks().saturating_mul(EXTENT.0)).max(LEAST_FLASH);
    let step = 2f64.powf(1.0 / f64::from(STEPS));
    let larger = std::iter::successors(Some(LEAST_FLASH.0 as f64), |size| Some(size * step));
    let sizes: Vec<Bytes> =
        larger.map(|size| Bytes(size as u64)).take_while(|size| *size < whole).chain([whole]).collect();
    let largest = blocks.largest().max(BLOCK);
    let known = blocks.at(&[largest])[0];
    let rows = extents.at(&sizes);
    let all = rows[rows.len() - 1];
    // Of the reads whose extent is there, those whose block is there too.
    let of = |block: Option<f64>, extent: Option<f64>| {
        let (block, extent) = (1.0 - block.unwrap_or(1.0), 1.0 - extent.unwrap_or(1.0));
        if extent > 0.0 { (block / extent).min(1.0) } else { 0.0 }
    };
    let (reads, bytes) = (of(known.blocks.read, all.blocks.read), of(known.bytes.read, all.bytes.read));
    let point = |row: &MissRatios| CurvePoint {
        flash: row.cache_bytes as f64,
        read_miss: 1.0 - (1.0 - row.blocks.read.unwrap_or(1.0)) * reads,
        read_bytes_miss: 1.0 - (1.0 - row.bytes.read.unwrap_or(1.0)) * bytes,
        write_miss: row.blocks.write.unwrap_or(0.0),
        write_bytes_miss: row.bytes.write.unwrap_or(0.0),
    };
    rows.iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn request(op: Op, offset: Bytes, len: Bytes) -> Request {
        Request { at: Nanos::ZERO, offset, len, volume: 0, op }
    }

    #[test]
    fn windows_become_wider_and_lose_nothing() {
        let mut meter = Meter::new();
        for n in 0..10_000u64 {
            let op = if n.is_multiple_of(4) { Op::Read } else { Op::Write };
            meter.add(Nanos::from_ms(5_000 + n * 100), &request(op, Bytes(n % 50 * 4096), Bytes::kib(4)));
        }
        let load = meter.ended("v".to_owned(), 3).unwrap();
        assert!(load.windows.each.len() <= MOST_WINDOWS && load.windows.each.len() > MOST_WINDOWS / 4);
        assert_eq!((load.total.reads, load.total.writes, load.total.read_bytes), (2_500.0, 7_500.0, 2_500.0 * 4096.0));
        assert_eq!((load.start, load.end), (Nanos::from_ms(5_000), Nanos::from_ms(1_004_900)));
        let width = load.windows.width().0;
        assert_eq!((load.windows.first, load.windows.end()), (load.start.0 / width, load.end.0 / width + 1));
        // Requests come evenly: windows that are whole have as many of them.
        let middle = &load.windows.each[1..load.windows.each.len() - 1];
        assert!(middle.iter().all(|window| (window.requests() - width as f64 / 1e8).abs() <= 1.0), "{middle:?}");
        let json = serde_json::to_string(&load).unwrap();
        assert_eq!(serde_json::from_str::<VolumeLoad>(&json).unwrap(), load);
    }

    /// The fear: a recording of a volume in use seems to miss what it reads for the first time since it was begun.
    #[test]
    fn a_curve_tells_what_is_read_again_from_what_is_read_once() {
        let (mut again, mut once) = (Meter::new(), Meter::new());
        for n in 0..40_000u64 {
            again.add(Nanos(n), &request(Op::Read, Bytes(n % 800 * 65_536), Bytes::kib(4)));
            once.add(Nanos(n), &request(Op::Read, Bytes(n * 65_536), Bytes::kib(4)));
        }
        let last = |meter: Meter| *meter.ended(String::new(), 0).unwrap().curve.last().unwrap();
        let (again, once) = (last(again), last(once));
        assert!(again.read_miss < 0.01 && again.flash == 800.0 * 65_536.0, "{again:?}");
        assert!(once.read_miss > 0.99, "{once:?}");
    }

    #[test]
    fn blocks_of_an_extent_that_were_not_read_are_not_there() {
        let mut meter = Meter::new();
        // 16 blocks of each extent in turn, each block twice.
        for n in 0..32_000u64 {
            meter.add(Nanos(n), &request(Op::Read, Bytes(n / 2 * 4096), Bytes::kib(4)));
        }
        let point = *meter.ended(String::new(), 0).unwrap().curve.last().unwrap();
        assert!((point.read_miss - 0.5).abs() < 0.05, "{point:?}");
    }
}
