use std::{fs, path::Path};

use peryton_units::Bytes;
use serde::Deserialize;

use super::{Address, Arrival, Size, SynthError, error::text_error};

/// The specification of a trace: keys of the whole trace, and of its workload. [`Phase`]s may change the latter over
/// time.
///
/// ```
/// use peryton_trace::{Address, Size, SynthSpec};
/// use peryton_units::Bytes;
///
/// let text = "
///     requests = 1000
///     footprint = '1GiB'
///     read_share = 0.7
///     arrival = { kind = 'poisson', mean = '1ms' }
///     size = '4KiB'
///     address = { kind = 'zipf', exponent = 0.9, extent = '64KiB' }";
/// let spec = SynthSpec::parse(text, "example")?;
/// assert_eq!(spec.size, Some(Size::Constant(Bytes::kib(4))));
/// assert_eq!(spec.address, Some(Address::Zipf { exponent: 0.9, extent: Some(Bytes::kib(64)) }));
/// // An error names the key and the remedy.
/// assert!(SynthSpec::parse("request = 1000", "example").is_err());
/// # Ok::<(), peryton_trace::SynthError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SynthSpec {
    /// A description of the trace, kept as its origin.
    pub name: Option<String>,
    /// Number of requests, including flushes. Not allowed with phases, which have their own.
    pub requests: Option<u64>,
    /// The size of the address range that requests may touch.
    pub footprint: Bytes,
    /// Offset of the footprint on the volume.
    #[serde(default)]
    pub start: Bytes,
    /// Offsets and lengths are multiples of this.
    #[serde(default = "alignment")]
    pub alignment: Bytes,
    /// The volume's number.
    #[serde(default)]
    pub volume: u32,
    /// The seed: another seed gives another trace with the same characteristics.
    #[serde(default = "seed")]
    pub seed: u64,
    /// Share of reads among reads and writes.
    pub read_share: Option<f64>,
    /// Share of requests that begin where the previous request, of either operation, ended.
    pub sequential_share: Option<f64>,
    /// Arrival times of the requests.
    pub arrival: Option<Arrival>,
    /// Size of the requests.
    pub size: Option<Size>,
    /// Addresses of requests that are not sequential.
    pub address: Option<Address>,
    /// Settings that differ for reads.
    pub read: Option<OpSpec>,
    /// Settings that differ for writes.
    pub write: Option<OpSpec>,
    /// Writes that overwrite recently written data.
    pub rewrite: Option<Rewrite>,
    /// Flushes among the writes.
    pub flush: Option<Flush>,
    /// Phases, one after the other, each with its own number of requests; for keys that a phase omits, the values above
    /// apply.
    #[serde(default)]
    pub phases: Vec<Phase>,
}

fn alignment() -> Bytes {
    Bytes::kib(4)
}

fn seed() -> u64 {
    1
}

/// A part of the trace with different characteristics.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Number of requests, including flushes.
    pub requests: u64,
    /// As in [`SynthSpec`].
    pub read_share: Option<f64>,
    /// As in [`SynthSpec`].
    pub sequential_share: Option<f64>,
    /// As in [`SynthSpec`].
    pub arrival: Option<Arrival>,
    /// As in [`SynthSpec`].
    pub size: Option<Size>,
    /// As in [`SynthSpec`]; the popular places differ from those outside of the phase.
    pub address: Option<Address>,
    /// As in [`SynthSpec`]; replaces the table as a whole.
    pub read: Option<OpSpec>,
    /// As in [`SynthSpec`]; replaces the table as a whole.
    pub write: Option<OpSpec>,
    /// As in [`SynthSpec`].
    pub rewrite: Option<Rewrite>,
    /// As in [`SynthSpec`].
    pub flush: Option<Flush>,
}

/// Settings that differ for one operation.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OpSpec {
    /// Size of its requests.
    pub size: Option<Size>,
    /// Addresses of its requests; the popular places differ from those of the other operation.
    pub address: Option<Address>,
    /// Share of its requests that begin where the previous request *of the same operation* ended.
    pub sequential_share: Option<f64>,
}

/// Writes that overwrite recently written data: offset and length of an earlier write, drawn evenly from the last few.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    /// Share of rewrites among the writes that are not sequential.
    pub share: f64,
    /// Number of remembered writes; rewrites are not remembered.
    pub recent: usize,
}

/// Flushes, in one of two ways.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "FlushTable")]
pub enum Flush {
    /// Share of flushes among all requests.
    Share(f64),
    /// One flush after every so many writes.
    EveryWrites(u64),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table: { every_writes = 1 }, or { share = 0.1 }")]
struct FlushTable {
    share: Option<f64>,
    every_writes: Option<u64>,
}

impl TryFrom<FlushTable> for Flush {
    type Error = &'static str;

    fn try_from(FlushTable { share, every_writes }: FlushTable) -> Result<Flush, &'static str> {
        match (share, every_writes) {
            (Some(share), None) => Ok(Flush::Share(share)),
            (None, Some(writes)) => Ok(Flush::EveryWrites(writes)),
            _ => Err("flush takes one of share and every_writes"),
        }
    }
}

impl SynthSpec {
    /// Reads a specification from TOML; `path` is its name in messages.
    ///
    /// # Errors
    /// The text is not TOML, or has a key or value that a specification does not have.
    pub fn parse(text: &str, path: impl AsRef<Path>) -> Result<SynthSpec, SynthError> {
        toml::from_str(text).map_err(|error| match toml::from_str::<toml::Table>(text) {
            // The two kinds of files are easily confused on a command line.
            Ok(tables) if tables.contains_key("placement") => SynthError::Text {
                place: path.as_ref().display().to_string(),
                message: "this is a design of a drive: give a trace, or a specification of a workload".to_owned(),
            },
            _ => text_error(path.as_ref(), text, &error),
        })
    }

    /// Reads a specification from a file.
    ///
    /// # Errors
    /// The file cannot be read, or an error of [`SynthSpec::parse`].
    pub fn load(path: impl AsRef<Path>) -> Result<SynthSpec, SynthError> {
        let path = path.as_ref();
        let text =
            fs::read_to_string(path).map_err(|source| SynthError::Io { path: path.display().to_string(), source })?;
        SynthSpec::parse(&text, path)
    }

    /// The phases, with the values of the whole trace for omitted keys.
    pub(super) fn stretches(&self) -> Vec<Phase> {
        let whole = Phase {
            requests: self.requests.unwrap_or(0),
            read_share: self.read_share,
            sequential_share: self.sequential_share,
            arrival: self.arrival,
            size: self.size.clone(),
            address: self.address.clone(),
            read: self.read.clone(),
            write: self.write.clone(),
            rewrite: self.rewrite,
            flush: self.flush,
        };
        if self.phases.is_empty() {
            return vec![whole];
        }
        let filled = self.phases.iter().map(|phase| Phase {
            requests: phase.requests,
            read_share: phase.read_share.or(whole.read_share),
            sequential_share: phase.sequential_share.or(whole.sequential_share),
            arrival: phase.arrival.or(whole.arrival),
            size: phase.size.clone().or_else(|| whole.size.clone()),
            address: phase.address.clone().or_else(|| whole.address.clone()),
            read: phase.read.clone().or_else(|| whole.read.clone()),
            write: phase.write.clone().or_else(|| whole.write.clone()),
            rewrite: phase.rewrite.or(whole.rewrite),
            flush: phase.flush.or(whole.flush),
        });
        filled.collect()
    }
}
