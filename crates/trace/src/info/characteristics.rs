use std::collections::BTreeMap;

use peryton_units::{Bytes, Nanos, Op, pages};
use serde::Serialize;

use super::{
    distribution::{Collector, Distribution, SizeCollector, SizeDistribution},
    pages::{DEFAULT_MAX_PAGES, PAGE, PageTable, WorkingSet},
    sequential::{Sequentiality, Tracker},
};
use crate::{Account, Request, Source, TraceError};

/// The characteristics of a trace. A figure that does not apply is absent. A page has 4 KiB; MiB are 2²⁰ bytes.
///
/// ```
/// use peryton_trace::{Characteristics, OpenOptions, read};
///
/// let text = "time_us,op,offset,length\n0,W,0,8192\n250,R,8192,4096\n900,F,,\n";
/// let about = Characteristics::of(&mut read("example", text.as_bytes(), &OpenOptions::default())?)?;
/// assert_eq!((about.reads, about.writes, about.flushes), (1, 1, 1));
/// println!("{about}"); // The text of `peryton trace info`.
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Characteristics {
    /// Number of all requests.
    pub requests: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Number of discards (TRIM).
    pub discards: u64,
    /// Number of flushes.
    pub flushes: u64,
    /// Number of reads, writes and discards without a length: they are in no size and no share.
    #[serde(skip_serializing_if = "is_zero")]
    pub without_length: u64,
    /// Share of reads among reads and writes that have a length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_share: Option<f64>,
    /// Bytes of all reads.
    pub bytes_read: u64,
    /// Bytes of all writes.
    pub bytes_written: u64,
    /// Bytes of all discards.
    pub bytes_discarded: u64,
    /// Time from the first arrival to the last, in seconds.
    pub span_s: f64,
    /// What became of the trace on its way: what was skipped, left out, moved in time, cut.
    pub account: Account,
    /// Requests per second over the span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_iops: Option<f64>,
    /// Requests in the busiest second.
    pub peak_iops: u64,
    /// Data read and written per second over the span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_mib_per_s: Option<f64>,
    /// Data read and written in the second with the most data.
    pub peak_mib_per_s: f64,
    /// Sizes of reads and writes, in bytes.
    pub request_bytes: Sizes,
    /// Times between one request and the next, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inter_arrival_us: Option<Intervals>,
    /// Shares of sequential requests.
    pub sequential_share: Sequentiality,
    /// Share of reads and writes whose offset and length are multiples of 4 KiB.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aligned_4kib_share: Option<f64>,
    /// Distinct pages accessed.
    pub footprint: Footprint,
    /// Share of page writes that are the first to their page: distinct pages written over pages written.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_write_share: Option<f64>,
    /// Share of page writes to a page that the trace wrote before. With the share of first writes, it adds up to one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overwrite_share: Option<f64>,
    /// Distinct pages within windows of time.
    pub working_set: Vec<WorkingSet>,
    /// Each volume, by number; at most 65,536 of them, the first to appear.
    pub volumes: Vec<VolumeRow>,
    /// Number of requests of volumes that have no row of their own.
    #[serde(skip_serializing_if = "is_zero")]
    pub requests_of_other_volumes: u64,
}

/// The most volumes that are listed.
const MAX_ROWS: usize = 1 << 16;

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// Sizes by operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sizes {
    /// Sizes of reads and writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<SizeDistribution>,
    /// Sizes of reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<SizeDistribution>,
    /// Sizes of writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<SizeDistribution>,
}

/// Times between arrivals.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Intervals {
    /// Mean and percentiles, in microseconds.
    #[serde(flatten)]
    pub distribution: Distribution,
    /// Share of requests that arrive at the same time as the previous one.
    pub zero_share: f64,
}

/// Distinct pages of 4 KiB that were accessed, on all volumes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Footprint {
    /// Pages read or written.
    pub pages: u64,
    /// The size of these pages in bytes.
    pub bytes: u64,
    /// Pages read.
    pub pages_read: u64,
    /// Pages written.
    pub pages_written: u64,
    /// Pages both read and written.
    pub pages_read_and_written: u64,
    /// The share of pages in the sample. At one, figures are exact; below one, this table and the working set are
    /// estimates.
    pub sampled_share: f64,
}

/// A volume's share of the trace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct VolumeRow {
    /// The volume's number.
    pub volume: u32,
    /// What the trace calls it.
    pub name: String,
    /// Number of all requests.
    pub requests: u64,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Bytes of all reads.
    pub bytes_read: u64,
    /// Bytes of all writes.
    pub bytes_written: u64,
    /// The highest end of a request: the least size of the volume.
    pub end_bytes: u64,
}

impl Characteristics {
    /// Reads `source` to its end.
    ///
    /// # Errors
    /// Those of the source.
    pub fn of(source: &mut dyn Source) -> Result<Characteristics, TraceError> {
        Characteristics::with_max_pages(source, DEFAULT_MAX_PAGES)
    }

    /// Does the same as [`of`](Characteristics::of), with a bound on the number of pages in memory. Above it,
    /// footprint, overwrites and working set are estimated from a sample of at least half as many pages.
    ///
    /// # Errors
    /// Those of the source.
    pub fn with_max_pages(source: &mut dyn Source, max_pages: u64) -> Result<Characteristics, TraceError> {
        let mut collect = Collect::new(max_pages);
        let mut batch = Vec::new();
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                return Ok(collect.finish(source.account()));
            }
            for request in &batch {
                collect.record(request);
            }
        }
    }
}

/// The pass over a trace.
struct Collect {
    counts: [u64; 4],
    bytes: [u64; 4],
    without_length: u64,
    first: Option<Nanos>,
    /// The latest arrival so far, and the arrival of the last request.
    latest: Nanos,
    last: Nanos,
    second: Second,
    peak: Second,
    sizes: [SizeCollector; 3],
    gaps: Collector,
    zero_gaps: u64,
    sequential: Tracker,
    aligned: u64,
    pages: PageTable,
    pages_written: u64,
    volumes: BTreeMap<u32, VolumeRow>,
    other_volumes: u64,
}

/// The arrivals within one second.
#[derive(Clone, Copy, Default)]
struct Second {
    number: u64,
    requests: u64,
    bytes: u64,
}

impl Collect {
    fn new(max_pages: u64) -> Collect {
        Collect {
            counts: [0; 4],
            bytes: [0; 4],
            without_length: 0,
            first: None,
            latest: Nanos::ZERO,
            last: Nanos::ZERO,
            second: Second::default(),
            peak: Second::default(),
            sizes: std::array::from_fn(|_| SizeCollector::new()),
            gaps: Collector::new(),
            zero_gaps: 0,
            sequential: Tracker::default(),
            aligned: 0,
            pages: PageTable::new(max_pages),
            pages_written: 0,
            volumes: BTreeMap::new(),
            other_volumes: 0,
        }
    }

    fn record(&mut self, request: &Request) {
        let op = request.op as usize;
        self.counts[op] += 1;
        self.bytes[op] = self.bytes[op].saturating_add(request.len.0);
        self.record_arrival(request);
        self.record_volume(request);
        let write = request.op == Op::Write;
        let has_length = request.len > Bytes::ZERO;
        self.without_length += u64::from(request.op != Op::Flush && !has_length);
        if !matches!(request.op, Op::Read | Op::Write) {
            return;
        }
        if has_length {
            self.sizes[0].record(request.len.0);
            self.sizes[1 + op].record(request.len.0);
            self.sequential.record(request);
            self.aligned += u64::from(Bytes(request.offset.0 | request.len.0).is_multiple_of(PAGE));
        }
        let since_first = self.latest.saturating_sub(self.first.unwrap_or_default());
        self.pages.touch(since_first, request.volume, request.offset, request.len, write);
        if write {
            self.pages_written = self.pages_written.saturating_add(pages(request.offset, request.len));
        }
    }

    fn record_arrival(&mut self, request: &Request) {
        match self.first {
            None => {
                self.first = Some(request.at);
                self.latest = request.at;
            }
            Some(_) => {
                let gap = request.at.saturating_sub(self.last);
                self.gaps.record(gap.0);
                self.zero_gaps += u64::from(gap == Nanos::ZERO);
                self.latest = self.latest.max(request.at);
            }
        }
        self.last = request.at;
        let number = self.latest.saturating_sub(self.first.unwrap_or_default()).0 / 1_000_000_000;
        if number != self.second.number {
            self.end_second();
            self.second = Second { number, ..Second::default() };
        }
        self.second.requests += 1;
        if matches!(request.op, Op::Read | Op::Write) {
            self.second.bytes = self.second.bytes.saturating_add(request.len.0);
        }
    }

    fn end_second(&mut self) {
        self.peak.requests = self.peak.requests.max(self.second.requests);
        self.peak.bytes = self.peak.bytes.max(self.second.bytes);
    }

    fn record_volume(&mut self, request: &Request) {
        if self.volumes.len() >= MAX_ROWS && !self.volumes.contains_key(&request.volume) {
            self.other_volumes += 1;
            return;
        }
        let row =
            self.volumes.entry(request.volume).or_insert(VolumeRow { volume: request.volume, ..VolumeRow::default() });
        row.requests += 1;
        match request.op {
            Op::Read => {
                row.reads += 1;
                row.bytes_read = row.bytes_read.saturating_add(request.len.0);
            }
            Op::Write => {
                row.writes += 1;
                row.bytes_written = row.bytes_written.saturating_add(request.len.0);
            }
            Op::Discard | Op::Flush => {}
        }
        row.end_bytes = row.end_bytes.max(request.offset.0.saturating_add(request.len.0));
    }

    fn finish(mut self, account: Account) -> Characteristics {
        self.end_second();
        let share = |count: u64, of: u64| (of > 0).then(|| count as f64 / of as f64);
        let [reads, writes, discards, flushes] = self.counts;
        let [bytes_read, bytes_written, bytes_discarded, _] = self.bytes;
        let requests = self.counts.iter().sum();
        let span_s = self.latest.saturating_sub(self.first.unwrap_or_default()).as_s_f64();
        let per_second = |amount: f64| (span_s > 0.0).then(|| amount / span_s);
        let mib = |bytes: u64| bytes as f64 / Bytes::mib(1).0 as f64;
        let unique = self.pages.unique();
        let pages = unique.read + unique.written - unique.both;
        let overwrite_share = share(self.pages.overwrites(), self.pages_written).map(|share| share.min(1.0));
        Characteristics {
            requests,
            reads,
            writes,
            discards,
            flushes,
            without_length: self.without_length,
            read_share: share(self.sizes[1].count(), self.sizes[0].count()),
            bytes_read,
            bytes_written,
            bytes_discarded,
            span_s,
            mean_iops: per_second(requests as f64),
            peak_iops: self.peak.requests,
            mean_mib_per_s: per_second(mib(bytes_read.saturating_add(bytes_written))),
            peak_mib_per_s: mib(self.peak.bytes),
            request_bytes: Sizes {
                all: self.sizes[0].summary(),
                read: self.sizes[1].summary(),
                write: self.sizes[2].summary(),
            },
            inter_arrival_us: self.gaps.summary(1e3).map(|distribution| Intervals {
                distribution,
                zero_share: self.zero_gaps as f64 / self.gaps.count() as f64,
            }),
            sequential_share: self.sequential.summary(),
            aligned_4kib_share: share(self.aligned, self.sizes[0].count()),
            footprint: Footprint {
                pages,
                bytes: pages.saturating_mul(PAGE.0),
                pages_read: unique.read,
                pages_written: unique.written,
                pages_read_and_written: unique.both,
                sampled_share: self.pages.sampled_share(),
            },
            first_write_share: overwrite_share.map(|share| 1.0 - share),
            overwrite_share,
            working_set: self.pages.working_sets(),
            volumes: self
                .volumes
                .into_values()
                .map(|row| VolumeRow { name: account.names.name(row.volume), ..row })
                .collect(),
            requests_of_other_volumes: self.other_volumes,
            account,
        }
    }
}
