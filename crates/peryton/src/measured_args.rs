//! Options of the verbs that read traces with measured latencies.

use std::path::Path;

use peryton_device::{Io, validate::Measured};
use peryton_trace::{Format, OpenOptions, measured};

use crate::failure::Failure;

/// Reads a trace with measured latencies.
pub fn read(path: &Path, format: Option<Format>) -> Result<Vec<Measured>, Failure> {
    let requests = measured(path, &OpenOptions { format, ..OpenOptions::default() })?;
    let measured = |timed: &peryton_trace::TimedRequest| Measured {
        at: timed.request.at,
        io: Io { op: timed.request.op, at: timed.request.offset, len: timed.request.len },
        latency: timed.latency,
    };
    Ok(requests.iter().map(measured).collect())
}
