//! A workload: block requests, the readers and writers of the formats that they come in, their characteristics, and
//! synthetic ones.
//!
//! Everything streams: a [`Source`] yields batches of [`Request`]s in bounded memory whatever the length of the trace.

// The samples of the integration tests are those of the unit tests, and name this crate.
#[cfg(test)]
extern crate self as peryton_trace;

mod compression;
mod decode;
mod error;
mod field;
mod format;
mod formats;
mod info;
mod input;
mod join;
mod open;
mod order;
mod parquet;
mod request;
mod synth;
mod volumes;

pub use decode::{MAX_TRANSFER, Skipped};
pub use error::TraceError;
pub use format::{Format, UnknownFormatName};
pub use formats::{
    block_event::{BlockEvent, device_number},
    disksim_validate::{Measured, Measurements, measurements},
    oracle_general::OBJECT_UNIT,
};
pub use info::{
    BlockAccess, Characteristics, CurvePoint, DEFAULT_MAX_BLOCKS, DEFAULT_MAX_PAGES, Distribution, Footprint,
    IntervalShare, Intervals, MissRatioCurve, MissRatios, Overwrites, PAGE, Ratios, RewriteIntervals, STREAMS,
    Sequentiality, SizeBucket, SizeDistribution, Sizes, Tally, VolumeRow, WorkingSet, block_accesses, block_hash,
};
pub use join::Join;
pub use open::{MAX_FILES, OpenOptions, Reader, TimeUnit, open, open_all, read};
pub use order::REORDER_WINDOW;
pub use parquet::{ParquetSource, ParquetWriter};
pub use request::{Request, Source};
pub use synth::{
    Address, Arrival, FileAccess, Files, Flush, OpSpec, Phase, Region, Rewrite, Size, SynthError, SynthSource,
    SynthSpec,
};
pub use volumes::{VOLUME_ALIGNMENT, VolumeRange};

/// The most requests that a [`Source`] puts into one batch: large enough to amortise a virtual call, small enough
/// to stay in the second-level cache.
pub const BATCH: usize = 4096;
