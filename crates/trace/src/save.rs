//! Writes a trace to a file, in the format that the file's name says.

use std::{
    io::{self, BufWriter, Write},
    path::Path,
};

use peryton_units::{Nanos, Op};
use thiserror::Error;

use crate::{ParquetWriter, Request, Source, TraceError, new_file::NewFile};

/// The first line of a CSV trace.
pub const CSV_HEADER: &str = "time_us,op,offset,length,volume\n";

/// Writes a request as a line of CSV; times keep their nanoseconds, and count from `start` before the first request.
///
/// # Errors
/// Those of `out`.
pub fn csv_line(out: &mut dyn Write, start: Nanos, request: &Request) -> io::Result<()> {
    let op = match request.op {
        Op::Read => 'R',
        Op::Write => 'W',
        Op::Discard => 'D',
        Op::Flush => 'F',
    };
    let at = request.at.0.saturating_add(start.0);
    let (us, ns) = (at / 1_000, at % 1_000);
    match ns {
        0 => write!(out, "{us}")?,
        ns => write!(out, "{us}.{ns:03}")?,
    }
    writeln!(out, ",{op},{},{},{}", request.offset.0, request.len.0, request.volume)
}

/// The reason why a trace was not saved.
#[derive(Debug, Error)]
pub enum SaveError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The file cannot be written.
    #[error("{path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// The system's error.
        source: io::Error,
    },
}

/// Writes all requests to a file: CSV if its name ends in `.csv`, otherwise Parquet. `origin` says in words where the
/// requests come from; Parquet keeps it. Both keep the time of the first request on the trace's own clock, so that files of one clock
/// can be merged. Returns the number of requests. The file gets its name when it is complete, so it may be one
/// that is being read.
///
/// # Errors
/// The trace cannot be read further, or the file cannot be written.
///
/// ```
/// use peryton_trace::{OpenOptions, open, read, save};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("my.csv");
/// let text = "time_us,op,offset,length\n0,W,0,8192\n250,R,4096,4096\n";
/// let mut trace = read("example", text.as_bytes(), &OpenOptions::default())?;
/// assert_eq!(save(&mut trace, &path, "an example")?, 2);
/// # assert_eq!(std::fs::read_to_string(&path)?, "time_us,op,offset,length,volume\n0,W,0,8192,0\n250,R,4096,4096,0\n");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn save(source: &mut dyn Source, path: &Path, origin: &str) -> Result<u64, SaveError> {
    let mut batch = Vec::new();
    let failed = |source| SaveError::Write { path: path.display().to_string(), source };
    if path.extension().is_some_and(|extension| extension == "csv") {
        let (kept, file) = NewFile::create(path).map_err(failed)?;
        let mut out = BufWriter::new(file);
        out.write_all(CSV_HEADER.as_bytes()).map_err(failed)?;
        let (mut requests, mut start) = (0, None);
        loop {
            source.next_batch(&mut batch)?;
            if batch.is_empty() {
                out.flush().and_then(|()| kept.keep(out.get_ref())).map_err(failed)?;
                return Ok(requests);
            }
            requests += batch.len() as u64;
            let start = *start.get_or_insert_with(|| source.account().start);
            batch.iter().try_for_each(|request| csv_line(&mut out, start, request)).map_err(failed)?;
        }
    }
    // What the writer reports is about the file that it writes.
    let failed = |error| match error {
        TraceError::Io { path, source } => SaveError::Write { path, source },
        error => SaveError::Trace(error),
    };
    let mut writer = ParquetWriter::create(path, origin).map_err(failed)?;
    loop {
        source.next_batch(&mut batch)?;
        if batch.is_empty() {
            writer.starts_at(source.account().start);
            return writer.finish().map_err(failed);
        }
        writer.write(&batch).map_err(failed)?;
    }
}
