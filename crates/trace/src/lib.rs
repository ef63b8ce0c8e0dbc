//! Workloads: block requests, readers and writers of trace formats, the characteristics of traces, and synthetic
//! traces.
//!
//! All readers stream: a [`Source`] yields batches of [`Request`]s in bounded memory, for traces of any length.
//! [`open`] and [`open_all`] read files, [`read`] any stream of bytes; all of them recognise the [`Format`].
//!
//! ```
//! use peryton_trace::{Characteristics, Format, OpenOptions, Source, read};
//!
//! let text = "time_us,op,offset,length\n0,W,0,8192\n250,R,4096,4096\n900,F,,\n";
//! let mut trace = read("example", text.as_bytes(), &OpenOptions::default())?;
//! assert_eq!(trace.format(), Format::Csv);
//! let about = Characteristics::of(&mut trace)?;
//! assert_eq!((about.requests, about.footprint.pages), (3, 2));
//!
//! // The requests themselves, batch by batch; an empty batch is the end.
//! let mut trace = read("example", text.as_bytes(), &OpenOptions::default())?;
//! let (mut batch, mut bytes) = (Vec::new(), 0);
//! loop {
//!     trace.next_batch(&mut batch)?;
//!     if batch.is_empty() {
//!         break;
//!     }
//!     bytes += batch.iter().map(|request| request.len.0).sum::<u64>();
//! }
//! assert_eq!(bytes, 8192 + 4096);
//! # Ok::<(), peryton_trace::TraceError>(())
//! ```

#![warn(clippy::missing_errors_doc)]

// The samples of the integration tests are also those of the unit tests, and they use the name of this crate.
#[cfg(test)]
extern crate self as peryton_trace;

mod account;
mod by_volume;
mod columns;
mod compression;
mod decode;
mod error;
mod field;
mod files;
mod format;
mod formats;
mod info;
mod input;
mod join;
mod measured;
mod new_file;
mod objects;
mod open;
mod order;
#[cfg(feature = "parquet")]
mod parquet;
#[cfg(not(feature = "parquet"))]
#[path = "no_parquet.rs"]
mod parquet;
mod problem;
mod request;
mod request_hash;
mod save;
mod seconds;
mod synth;
mod volume_names;
mod volumes;

pub use account::{Account, Remark, Skipped};
pub use by_volume::{ByVolume, OneVolume};
pub use columns::{Columns, Units};
pub use decode::MAX_TRANSFER;
pub use error::TraceError;
pub use files::{Accounts, SourceError, TraceFiles};
pub use format::UnknownFormatName;
pub use formats::{Format, TimeUnit, block_event::BlockEvent};
pub use info::{
    BlockAccess, Characteristics, CurvePoint, DEFAULT_MAX_BLOCKS, DEFAULT_MAX_PAGES, Distribution, Footprint,
    GrowingCurve, IntervalShare, Intervals, MissRatioCurve, MissRatios, ObjectCharacteristics, Overwrites, PAGE,
    Ratios, RewriteIntervals, STREAMS, Sequentiality, SizeBucket, SizeDistribution, Sizes, Tally, VolumeRow,
    WorkingSet, block_accesses, block_hash,
};
pub use join::Join;
pub use measured::{MAX_MEASURED, TimedRequest, measured};
pub use new_file::partial_of;
pub use objects::{ObjectRequest, Objects};
pub use open::{MAX_FILES, OpenOptions, Reader, open, open_all, read};
pub use order::{MAX_RUNS, REORDER_WINDOW, SORT_RUN};
#[cfg(feature = "parquet")]
pub use parquet::{ColumnSource, ColumnTrace, record_batch, schema};
pub use parquet::{ParquetSource, ParquetWriter};
pub use request::{BATCH, OBJECT_UNIT, Request, Source};
pub use request_hash::{Hashed, RequestHash};
pub use save::{CSV_HEADER, SaveError, csv_line, save};
pub use synth::{
    Address, Arrival, FileAccess, Files, Flush, OpSpec, Phase, Region, Rewrite, Size, SynthError, SynthSource,
    SynthSpec,
};
pub use volume_names::{VolumeNames, device_number};
pub use volumes::{VOLUME_ALIGNMENT, VolumeRange};

/// The examples of the README are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
