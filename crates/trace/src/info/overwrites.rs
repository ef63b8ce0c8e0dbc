use std::fmt::{self, Display};

use peryton_units::{Bytes, Nanos, Op};
use rustc_hash::FxHashMap;
use serde::Serialize;

use super::{
    distribution::{Collector, Distribution},
    pages::PAGE,
    sample::Sample,
};
use crate::{Request, Source, TraceError};

/// The number of 4 KiB blocks up to which the analysis is exact, in about 4 GiB of memory; for more blocks it uses a
/// sample of them.
pub const DEFAULT_MAX_BLOCKS: usize = 1 << 26;

/// The analysis of Griffin (section 4): how much of a trace's writes a log could keep from an SSD, and how long data
/// must stay in the log for that. Blocks have 4 KiB; a write of several blocks counts once for each.
///
/// ```
/// use peryton_trace::{OpenOptions, Overwrites, read};
///
/// let text = "time_us,op,offset,length\n0,W,0,4096\n9,W,0,4096\n";
/// let mut trace = read("example", text.as_bytes(), &OpenOptions::default())?;
/// let overwrites = Overwrites::of(&mut trace)?;
/// assert_eq!((overwrites.block_writes, overwrites.blocks_written), (2, 1));
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Overwrites {
    /// Number of block writes.
    pub block_writes: u64,
    /// Number of block reads.
    pub block_reads: u64,
    /// Number of blocks written at least once.
    pub blocks_written: u64,
    /// Share of block writes that an ideal write cache saves: those that follow a write of the same block with no read
    /// of it in between (Griffin, 3.3; `W W W R W W` gives 3/5).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ideal_write_savings: Option<f64>,
    /// Share of the overwrites (writes of a block that was written before) that fall on the 1 % most written blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrites_on_top_1pct: Option<f64>,
    /// Share of the block reads that fall on these blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reads_on_top_1pct: Option<f64>,
    /// Spatial curve: the shares for other numbers of the most written blocks.
    pub spatial_curve: Vec<CurvePoint>,
    /// Intervals from a write to the next write of the same block, if that is not read in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_after_write_s: Option<RewriteIntervals>,
    /// Intervals from a write to the first read of the same block after it, if that is not written in between.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_after_write_s: Option<RewriteIntervals>,
    /// The share of blocks in the sample. At one, all figures are exact; below one, all are estimates.
    pub sampled_share: f64,
}

/// The accesses to a share of the most written blocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurvePoint {
    /// Share of the blocks written, the most written first; at least one block.
    pub blocks_share: f64,
    /// Share of the overwrites on these blocks.
    pub overwrites_share: f64,
    /// Share of the reads on these blocks.
    pub reads_share: f64,
}

/// Intervals after a write, in seconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RewriteIntervals {
    /// Mean and percentiles, in seconds.
    #[serde(flatten)]
    pub distribution: Distribution,
    /// Share of block writes with such an interval.
    pub share_of_writes: f64,
    /// Share of block writes with such an interval up to a given time.
    pub within: Vec<IntervalShare>,
}

/// The share of writes with an interval up to a time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct IntervalShare {
    /// The time, in seconds.
    pub within_s: u64,
    /// Share of all block writes.
    pub share_of_writes: f64,
}

/// Points of the spatial curve.
const CURVE: [f64; 8] = [0.001, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0];
/// Times of the interval curve, in seconds; 900 is Griffin's migration timeout.
const TIMES_S: [u64; 7] = [1, 10, 30, 60, 300, 900, 3_600];
/// The most blocks of one request that are counted: 1 GiB, more than any real transfer.
const MAX_REQUEST_BLOCKS: u64 = 1 << 18;

impl Overwrites {
    /// Reads `source` to its end.
    ///
    /// # Errors
    /// Those of the source.
    pub fn of(source: &mut dyn Source) -> Result<Overwrites, TraceError> {
        Overwrites::with_max_blocks(source, DEFAULT_MAX_BLOCKS)
    }

    /// Does the same as [`of`](Overwrites::of), with a bound on the number of blocks in memory. Whenever it is reached,
    /// half of them are dropped, by a hash of their address.
    ///
    /// # Errors
    /// Those of the source.
    pub fn with_max_blocks(source: &mut dyn Source, max_blocks: usize) -> Result<Overwrites, TraceError> {
        let mut collect = Collect {
            blocks: FxHashMap::default(),
            max_blocks: max_blocks.max(1),
            sample: Sample::default(),
            write_after_write: Collector::new(),
            read_after_write: Collector::new(),
        };
        let mut batch = Vec::new();
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                return Ok(collect.finish());
            }
            for request in &batch {
                collect.record(request);
            }
        }
    }
}

/// The state of a block. Counts saturate at four billion accesses of one block.
#[derive(Clone, Copy, Default)]
struct Block {
    /// Time of the last write; valid if `last` is a write.
    written_at: Nanos,
    writes: u32,
    saved: u32,
    reads: u32,
    last_was_write: bool,
}

struct Collect {
    blocks: FxHashMap<(u32, u64), Block>,
    max_blocks: usize,
    sample: Sample,
    write_after_write: Collector,
    read_after_write: Collector,
}

impl Collect {
    fn record(&mut self, request: &Request) {
        if !matches!(request.op, Op::Read | Op::Write) || request.len == Bytes::ZERO {
            return;
        }
        let first = request.offset.0 / PAGE.0;
        let last = request.offset.0.saturating_add(request.len.0 - 1) / PAGE.0;
        for number in first..=last.min(first + MAX_REQUEST_BLOCKS - 1) {
            if self.sample.contains(request.volume, number) {
                self.touch((request.volume, number), request.at, request.op == Op::Write);
            }
        }
    }

    fn touch(&mut self, key: (u32, u64), at: Nanos, write: bool) {
        while self.blocks.len() >= self.max_blocks && !self.blocks.contains_key(&key) {
            self.sample.halve();
            let sample = self.sample;
            self.blocks.retain(|&(volume, number), _| sample.contains(volume, number));
            if !sample.contains(key.0, key.1) {
                return;
            }
        }
        let weight = self.sample.weight();
        let block = self.blocks.entry(key).or_default();
        let since_write = at.saturating_sub(block.written_at).0;
        match (write, block.last_was_write) {
            (true, true) => {
                block.saved = block.saved.saturating_add(1);
                self.write_after_write.record_n(since_write, weight);
            }
            (false, true) => self.read_after_write.record_n(since_write, weight),
            (_, false) => {}
        }
        if write {
            block.writes = block.writes.saturating_add(1);
            block.written_at = at;
        } else {
            block.reads = block.reads.saturating_add(1);
        }
        block.last_was_write = write;
    }

    fn finish(self) -> Overwrites {
        let sum = |part: fn(&Block) -> u32| self.blocks.values().map(|block| u64::from(part(block))).sum::<u64>();
        let (writes, reads, saved) = (sum(|b| b.writes), sum(|b| b.reads), sum(|b| b.saved));
        let mut ranked: Vec<(&(u32, u64), &Block)> = self.blocks.iter().filter(|(_, block)| block.writes > 0).collect();
        // Equally written blocks are ordered by address, so that the order of the table does not affect the result.
        ranked.sort_unstable_by_key(|(key, block)| (std::cmp::Reverse(block.writes), **key));
        let written = ranked.len() as u64;
        let overwrites = writes - written;
        let share = |count: u64, of: u64| if of > 0 { count as f64 / of as f64 } else { 0.0 };
        let mut curve = Vec::new();
        let (mut taken, mut on_writes, mut on_reads) = (0, 0u64, 0u64);
        for blocks_share in CURVE.into_iter().filter(|_| written > 0) {
            let upto = ((blocks_share * written as f64).round() as usize).clamp(1, ranked.len());
            for (_, block) in &ranked[taken..upto] {
                on_writes += u64::from(block.writes) - 1;
                on_reads += u64::from(block.reads);
            }
            taken = upto;
            let (overwrites_share, reads_share) = (share(on_writes, overwrites), share(on_reads, reads));
            curve.push(CurvePoint { blocks_share, overwrites_share, reads_share });
        }
        let top = curve.iter().find(|point| point.blocks_share == 0.01);
        let weight = self.sample.weight();
        let intervals = |collected: &Collector| intervals(collected, writes * weight);
        Overwrites {
            block_writes: writes * weight,
            block_reads: reads * weight,
            blocks_written: written * weight,
            ideal_write_savings: (writes > 0).then(|| share(saved, writes)),
            overwrites_on_top_1pct: top.filter(|_| overwrites > 0).map(|point| point.overwrites_share),
            reads_on_top_1pct: top.filter(|_| reads > 0).map(|point| point.reads_share),
            spatial_curve: curve,
            write_after_write_s: intervals(&self.write_after_write),
            read_after_write_s: intervals(&self.read_after_write),
            sampled_share: self.sample.share(),
        }
    }
}

fn intervals(collected: &Collector, writes: u64) -> Option<RewriteIntervals> {
    let distribution = collected.summary(1e9)?;
    // In a sample, numerator and denominator are estimates, and the ratio may exceed one slightly.
    let share_of_writes = (collected.count() as f64 / writes as f64).min(1.0);
    let within = TIMES_S.into_iter().filter_map(|within_s| {
        let share = collected.share_within(Nanos::from_s(within_s).0)?;
        Some(IntervalShare { within_s, share_of_writes: share * share_of_writes })
    });
    Some(RewriteIntervals { distribution, share_of_writes, within: within.collect() })
}

impl Display for Overwrites {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let percent = |share: f64| format!("{:.2} %", share * 100.0);
        let mut line = |name: &str, value: String| writeln!(f, "{name:<26}{value}");
        let volume = |blocks: u64| Bytes(blocks.saturating_mul(PAGE.0));
        line("written", format!("{} to {} of blocks", volume(self.block_writes), volume(self.blocks_written)))?;
        if let Some(share) = self.ideal_write_savings {
            line("ideal write savings", percent(share))?;
        }
        if let Some(share) = self.overwrites_on_top_1pct {
            line("overwrites on the top 1 %", format!("{} (of the most written blocks)", percent(share)))?;
        }
        if let Some(share) = self.reads_on_top_1pct {
            line("reads on the top 1 %", percent(share))?;
        }
        let rows = [("write after write", &self.write_after_write_s), ("read after write", &self.read_after_write_s)];
        for (name, intervals) in rows {
            let Some(RewriteIntervals { distribution, share_of_writes, within }) = intervals else { continue };
            let [mean, p50, p90] = [distribution.mean, distribution.p50, distribution.p90].map(Nanos::from_s_f64);
            line(name, format!("{} of the writes; {mean} mean, {p50} p50, {p90} p90", percent(*share_of_writes)))?;
            let parts = within.iter().map(|w| format!("{} {}", Nanos::from_s(w.within_s), percent(w.share_of_writes)));
            line("  within", parts.collect::<Vec<_>>().join(", "))?;
        }
        if self.sampled_share < 1.0 {
            line("estimated", format!("from {} of the blocks", percent(self.sampled_share)))?;
        }
        Ok(())
    }
}
