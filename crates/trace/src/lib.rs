//! A workload: block requests, the readers and writers of the formats that they come in, their characteristics, and
//! synthetic ones.
//!
//! Everything streams: a [`Source`] yields batches of [`Request`]s in bounded memory whatever the length of the trace.

mod info;
mod parquet;
mod request;
mod synth;

pub use info::{
    Characteristics, DEFAULT_MAX_PAGES, Distribution, Footprint, Intervals, PAGE, STREAMS, Sequentiality, SizeBucket,
    SizeDistribution, Sizes, VolumeRow, WorkingSet,
};
pub use parquet::{ParquetSource, ParquetWriter};
pub use request::{Request, Source};
pub use synth::{
    Address, Arrival, FileAccess, Files, Flush, OpSpec, Phase, Region, Rewrite, Size, SynthError, SynthSource, SynthSpec,
};
/// The most requests that a [`Source`] puts into one batch: large enough to amortise a virtual call, small enough
/// to stay in the second-level cache.
pub const BATCH: usize = 4096;

/// What is wrong with a trace: where, what was found and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be read.
    #[error("{path}: {source}")]
    Io {
        /// The trace.
        path: String,
        /// What the system said.
        source: std::io::Error,
    },
}
