//! Traces in Apache Parquet: the preferred format of stored traces, because it is small, typed, and read by every data
//! tool.
//!
//! The schema is in `docs/parquet-trace.md`: columns `time_ns`, `op`, `volume`, `offset`, `length`, and two entries of
//! key-value metadata. [`ParquetSource`] also reads files of other writers with equivalent columns.

mod column;
mod columns_in_memory;
mod guard;
mod reader;
mod rows;
mod writer;

use std::{io, path::Path};

use crate::TraceError;

pub use columns_in_memory::{ColumnSource, ColumnTrace};
pub(crate) use reader::ParquetRows;
pub use reader::ParquetSource;
pub use writer::{ParquetWriter, record_batch, schema};

/// Key of the metadata entry with the version of the schema.
pub const VERSION_KEY: &str = "peryton.trace.version";
/// Key of the metadata entry with a description of the requests' origin.
pub const ORIGIN_KEY: &str = "peryton.trace.source";
/// Key of the metadata entry with what times are counted from, in nanoseconds on the clock of the original trace.
pub const START_KEY: &str = "peryton.trace.start_ns";
/// The version of the schema that this library writes, and the newest that it reads.
pub const VERSION: u32 = 1;

/// Rows of one row group. A writer holds one group in memory, encoded: a few megabytes. A reader holds one page of each column.
pub const ROW_GROUP_ROWS: usize = 1 << 20;

/// An error about the content of `path`.
fn invalid(path: &Path, message: impl std::fmt::Display) -> TraceError {
    TraceError::Io {
        path: path.display().to_string(),
        source: io::Error::new(io::ErrorKind::InvalidData, one_line(&message.to_string())),
    }
}

/// An error of the operating system about `path`.
fn io_error(path: &Path, source: io::Error) -> TraceError {
    TraceError::Io { path: path.display().to_string(), source }
}

/// Shortens a message of another library to one line of bounded length.
fn one_line(text: &str) -> String {
    const LONGEST: usize = 300;
    let flat = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match flat.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &flat[..end]),
        None => flat,
    }
}
