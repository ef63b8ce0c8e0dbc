//! The parts of a report about response times: quantiles and whole distributions.

use peryton_units::Op;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{
    LatencySummary,
    latency::{LatencyHistogram, ResponseTimes},
};

/// Response times by kind of request.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Latency {
    /// All requests, including discards and flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub all: Option<LatencySummary>,
    /// Reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<LatencySummary>,
    /// Writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<LatencySummary>,
    /// Flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<LatencySummary>,
    /// From a write's arrival to the end of the first flush that covers it: the time until the data is durable. A flush
    /// covers the writes that were answered before it was submitted. `count` is the number of writes covered within the
    /// measured span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_then_flush: Option<LatencySummary>,
}

/// The distributions of response times by kind of request. That of all requests is the sum of reads, writes, flushes and
/// discards.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LatencyHistograms {
    /// Reads.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read: Option<LatencyHistogram>,
    /// Writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write: Option<LatencyHistogram>,
    /// Flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush: Option<LatencyHistogram>,
    /// Discards.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub discard: Option<LatencyHistogram>,
    /// From a write's arrival to the end of the first flush that covers it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_then_flush: Option<LatencyHistogram>,
}

impl LatencyHistograms {
    /// The distributions that there are, with their names.
    pub fn named(&self) -> impl Iterator<Item = (&'static str, &LatencyHistogram)> {
        let LatencyHistograms { read, write, flush, discard, write_then_flush } = self;
        let all = [
            ("read", read),
            ("write", write),
            ("flush", flush),
            ("discard", discard),
            ("write_then_flush", write_then_flush),
        ];
        all.into_iter().filter_map(|(name, histogram)| Some((name, histogram.as_ref()?)))
    }
}

pub(crate) fn latency_of(times: &ResponseTimes) -> Latency {
    Latency {
        all: times.all().summary(),
        read: times.of(Op::Read).summary(),
        write: times.of(Op::Write).summary(),
        flush: times.of(Op::Flush).summary(),
        write_then_flush: times.write_then_flush.summary(),
    }
}

pub(crate) fn histograms_of(times: &ResponseTimes) -> LatencyHistograms {
    LatencyHistograms {
        read: times.of(Op::Read).histogram(),
        write: times.of(Op::Write).histogram(),
        flush: times.of(Op::Flush).histogram(),
        discard: times.of(Op::Discard).histogram(),
        write_then_flush: times.write_then_flush.histogram(),
    }
}
