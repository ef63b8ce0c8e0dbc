//! Requests as columns, as they are in the file of a measurement.

use peryton_units::{Bytes, Nanos, Op};
use serde::{Deserialize, Serialize};

use crate::{Io, validate::Measured};

/// Requests that were measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "Columns", into = "Columns")]
pub struct Requests(pub Vec<Measured>);

/// The columns: entry i of each is of request i.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Columns {
    /// `R` or `W` for each.
    op: String,
    at_ns: Vec<u64>,
    offset: Vec<u64>,
    length: Vec<u64>,
    latency_ns: Vec<u64>,
}

/// The longest latency and the latest time, a day, so that sums of them fit.
pub(super) const LONGEST: u64 = 86_400_000_000_000;

impl From<Requests> for Columns {
    fn from(requests: Requests) -> Columns {
        let column = |value: fn(&Measured) -> u64| requests.0.iter().map(value).collect();
        let letter = |request: &Measured| if request.io.op == Op::Read { 'R' } else { 'W' };
        Columns {
            op: requests.0.iter().map(letter).collect(),
            at_ns: column(|request| request.at.0),
            offset: column(|request| request.io.at.0),
            length: column(|request| request.io.len.0),
            latency_ns: column(|request| request.latency.0),
        }
    }
}

impl TryFrom<Columns> for Requests {
    type Error = String;

    fn try_from(columns: Columns) -> Result<Requests, String> {
        let count = columns.op.len();
        let lengths = [&columns.at_ns, &columns.offset, &columns.length, &columns.latency_ns].map(Vec::len);
        if lengths != [count; 4] {
            return Err(format!("columns of different lengths: op has {count}, the others {lengths:?}"));
        }
        let mut requests = Vec::with_capacity(count);
        let mut before = 0;
        for (index, letter) in columns.op.bytes().enumerate() {
            let op = match letter {
                b'R' => Op::Read,
                b'W' => Op::Write,
                _ => return Err(format!("op of request {index}: expected R or W")),
            };
            let (at, latency) = (columns.at_ns[index], columns.latency_ns[index]);
            if at < before || at > LONGEST || latency > LONGEST {
                return Err(format!("request {index}: times must rise, and be less than a day"));
            }
            before = at;
            let io = Io { op, at: Bytes(columns.offset[index]), len: Bytes(columns.length[index]) };
            requests.push(Measured { at: Nanos(at), io, latency: Nanos(latency) });
        }
        Ok(Requests(requests))
    }
}
