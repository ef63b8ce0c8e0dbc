//! A hash of a trace's requests, independent of its name and format.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::{Account, Request, Source, TraceError, info::mixed};

/// A hash of requests in their order: time, operation, volume, offset and length of each. Equal requests give an equal
/// hash from any format and compression. It distinguishes traces; it does not protect against forgery.
///
/// ```
/// use peryton_trace::{Request, RequestHash};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// let first = Request { at: Nanos::ZERO, offset: Bytes::ZERO, len: Bytes::kib(4), volume: 0, op: Op::Read };
/// let second = Request { at: Nanos::from_ms(1), ..first };
/// let hash = |requests: &[Request]| {
///     let mut hash = RequestHash::default();
///     requests.iter().for_each(|request| hash.add(request));
///     hash.to_string()
/// };
/// assert_ne!(hash(&[first, second]), hash(&[second, first]));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHash {
    state: u64,
    requests: u64,
    /// The volume of the last request, and its part of the hash.
    volume: u32,
    volume_hash: u64,
}

impl Default for RequestHash {
    fn default() -> RequestHash {
        RequestHash { state: 0, requests: 0, volume: 0, volume_hash: mixed(0) }
    }
}

impl RequestHash {
    /// Adds the next request.
    #[inline]
    pub fn add(&mut self, request: &Request) {
        // Odd multipliers distinguish the fields; the chained mixing distinguishes the order.
        let place = request.offset.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let time = request.at.0.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
        let rest = request.len.0.wrapping_mul(0x1656_67b1_9e37_79f9) ^ (request.op as u64) << 56;
        if request.volume != self.volume {
            (self.volume, self.volume_hash) = (request.volume, mixed(u64::from(request.volume)));
        }
        // This is `block_hash(volume, …)`.
        self.state = mixed(self.state.rotate_left(23) ^ place ^ time.rotate_left(17) ^ rest ^ self.volume_hash);
        self.requests += 1;
    }

    /// Number of requests.
    pub fn requests(&self) -> u64 {
        self.requests
    }
}

impl fmt::Display for RequestHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", mixed(self.state ^ self.requests ^ mixed(0)))
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for RequestHash {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "RequestHash".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let about = "A hash of requests in their order: time, operation, volume, offset and length of each.";
        schemars::json_schema!({ "description": about, "type": "string", "pattern": "^[0-9a-f]{16}$" })
    }
}

impl Serialize for RequestHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A source that hashes the requests read through it.
///
/// ```
/// use peryton_trace::{Hashed, OpenOptions, Source, read};
///
/// let text = "time_us,op,offset,length\n0,W,0,4096\n9,R,0,4096\n";
/// let mut trace = Hashed::new(read("example", text.as_bytes(), &OpenOptions::default())?);
/// let mut batch = Vec::new();
/// trace.next_batch(&mut batch)?;
/// assert_eq!(trace.hash().requests(), 2);
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
pub struct Hashed<S> {
    source: S,
    hash: RequestHash,
}

impl<S: Source> Hashed<S> {
    /// Wraps `source`; hashes all requests that are read from now on.
    pub fn new(source: S) -> Hashed<S> {
        Hashed { source, hash: RequestHash::default() }
    }

    /// The hash of all requests read so far.
    pub fn hash(&self) -> RequestHash {
        self.hash
    }
}

impl<S: Source> Source for Hashed<S> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        self.source.next_batch(batch)?;
        batch.iter().for_each(|request| self.hash.add(request));
        Ok(())
    }

    fn account(&self) -> Account {
        self.source.account()
    }
}

impl Source for Box<dyn Source> {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        (**self).next_batch(batch)
    }

    fn account(&self) -> Account {
        (**self).account()
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::{Bytes, Nanos, Op};

    use super::*;

    #[test]
    fn every_field_and_the_order_count() {
        let one = Request { at: Nanos(5), offset: Bytes(4096), len: Bytes(512), volume: 1, op: Op::Read };
        let others = [
            Request { at: Nanos(6), ..one },
            Request { offset: Bytes(8192), ..one },
            Request { len: Bytes(1024), ..one },
            Request { volume: 2, ..one },
            Request { op: Op::Write, ..one },
        ];
        let of = |requests: &[Request]| {
            let mut hash = RequestHash::default();
            requests.iter().for_each(|request| hash.add(request));
            hash.to_string()
        };
        let mut seen = vec![of(&[]), of(&[one]), of(&[one, one])];
        for other in others {
            seen.extend([of(&[other]), of(&[one, other]), of(&[other, one])]);
        }
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count);
        // Reports contain the hash, so it must not change from one version to the next.
        assert_eq!(of(&[one]), "8385be21419c65e9");
    }
}
