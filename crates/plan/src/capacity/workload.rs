//! The trace to plan for, which can be opened repeatedly, and its characteristics.

use std::sync::Arc;

use peryton_sim::{Load, Replay, TraceFactory, sampling::Held};
use peryton_trace::{Account, Characteristics, Hashed, Request, RequestHash, Source, TraceError};
use peryton_units::Bytes;
use serde::Serialize;

use super::error::PlanError;

/// A trace of up to this many requests is kept in memory (40 bytes each); a longer one is read again for every
/// simulation.
pub const MOST_HELD: usize = 6_000_000;

/// A trace to plan for.
pub struct Workload<'a> {
    /// The name of the trace.
    pub name: String,
    /// The characteristics of the trace.
    pub like: Like,
    /// The address space that it spans, in whole MiB.
    pub reach: Bytes,
    /// A hash of its requests.
    pub hash: RequestHash,
    /// Whether the trace has no times of its own.
    untimed: bool,
    /// Number of reads and writes.
    both: u64,
    trace: &'a TraceFactory<'a>,
    held: Option<Arc<Vec<Request>>>,
}

/// The characteristics that MixedStore's models use (section 4.2), and others that a plan needs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Like {
    /// Number of all requests.
    pub requests: u64,
    /// Seconds from the first arrival to the last.
    pub span_s: f64,
    /// Share of reads among reads and writes.
    pub read_share: f64,
    /// Share of reads and writes that begin where the previous one ended.
    pub sequential_share: f64,
    /// Mean time between requests.
    pub inter_arrival_ms: f64,
    /// Mean size of reads and writes.
    pub request_kib: f64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Amount of distinct data that is touched.
    pub footprint_bytes: u64,
    /// The address space that the trace spans.
    pub reach_bytes: u64,
}

impl<'a> Workload<'a> {
    /// Reads the trace to its end.
    ///
    /// # Errors
    /// A trace that cannot be read, has several volumes, or no reads and writes.
    pub fn measure(name: &str, trace: &'a TraceFactory<'a>) -> Result<Workload<'a>, PlanError> {
        let mut tee = Tee { source: Hashed::new(trace()?), held: Some(Vec::new()) };
        let found = Characteristics::of(&mut tee)?;
        if found.volumes.len() > 1 {
            return Err(PlanError::SeveralVolumes { volumes: found.volumes.len() });
        }
        let both = found.reads + found.writes;
        let mean_bytes = found.request_bytes.all.as_ref().map(|sizes| sizes.distribution.mean);
        let (Some(read_share), Some(mean_bytes)) = (found.read_share, mean_bytes) else {
            return Err(PlanError::NoRate { requests: both, span_s: found.span_s });
        };
        let end: u64 = found.volumes.iter().map(|volume| volume.end_bytes).max().unwrap_or(0);
        let reach = Load::reach(Bytes(end));
        let like = Like {
            requests: found.requests,
            span_s: found.span_s,
            read_share,
            sequential_share: found.sequential_share.all.unwrap_or(0.0),
            inter_arrival_ms: found.span_s * 1e3 / found.requests.saturating_sub(1).max(1) as f64,
            request_kib: mean_bytes / 1024.0,
            written_bytes: found
                .request_bytes
                .write
                .as_ref()
                .map_or(0, |sizes| (sizes.distribution.mean * found.writes as f64) as u64),
            footprint_bytes: found.footprint.bytes,
            reach_bytes: reach.0,
        };
        Ok(Workload {
            name: name.to_owned(),
            like,
            reach,
            hash: tee.source.hash(),
            untimed: found.account.untimed > 0,
            both,
            trace,
            held: tee.held.map(Arc::new),
        })
    }

    /// The number of requests that warm up every design unless the user gives another: half of the trace. An empty cache or
    /// tier would be compared with devices that need no filling.
    pub fn warm_up_requests(&self) -> u64 {
        self.hash.requests() / 2
    }

    /// Checks that something says how fast requests come: the trace, or the replay.
    ///
    /// # Errors
    /// The trace has no times, or fewer than two requests at different times, and is to be replayed at them.
    pub fn check_pace(&self, replay: Replay) -> Result<(), PlanError> {
        let Replay::Timed { speed } = replay else { return Ok(()) };
        if self.untimed && speed == 1.0 {
            return Err(PlanError::NoTimes);
        }
        match self.both > 1 && self.like.span_s > 0.0 {
            true => Ok(()),
            false => Err(PlanError::NoRate { requests: self.both, span_s: self.like.span_s }),
        }
    }

    /// The share of a day in which the load writes so much.
    ///
    /// # Errors
    /// It writes nothing, or less than that in a whole day.
    pub fn duty(&self, per_day: Bytes) -> Result<f64, PlanError> {
        let a_day = self.like.written_bytes as f64 / self.like.span_s * 86_400.0;
        let duty = per_day.0 as f64 / a_day;
        match duty > 0.0 && duty <= 1.0 {
            true => Ok(duty),
            false => Err(PlanError::PerDay { per_day, a_day: Bytes(a_day as u64) }),
        }
    }

    /// The whole trace, from its start.
    ///
    /// # Errors
    /// A trace that cannot be opened again.
    pub fn source(&self) -> Result<Box<dyn Source>, TraceError> {
        match &self.held {
            Some(held) => Ok(Box::new(Held::new(Arc::clone(held)))),
            None => (self.trace)(),
        }
    }
}

/// Passes a trace on, and keeps its requests as long as they are few.
struct Tee {
    source: Hashed<Box<dyn Source>>,
    held: Option<Vec<Request>>,
}

impl Source for Tee {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        self.source.next_batch(batch)?;
        match &mut self.held {
            Some(held) if held.len() + batch.len() <= MOST_HELD => held.extend_from_slice(batch),
            held => *held = None,
        }
        Ok(())
    }

    fn account(&self) -> Account {
        self.source.account()
    }
}
