use std::{
    fs::File,
    path::{Path, PathBuf},
};

use arrow_array::RecordBatch;
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder},
    },
    file::metadata::ParquetMetaData,
};

use super::{ORIGIN_KEY, VERSION, VERSION_KEY, guard::guarded, invalid, io_error, rows::Columns};
use crate::{BATCH, Request, Source, TraceError};

/// Reads a trace from Parquet, in bounded memory: a page of each column.
///
/// The columns are those of [`ParquetWriter`](super::ParquetWriter), or equivalent ones of another writer: `time_ns`,
/// `time_us`, `time_ms` or `time_s`; `op` as code or word; `offset` in bytes or `sector`; `length` in bytes or
/// `sectors` (of 512 bytes); `volume` if there is one. Numbers may have any width, and times may be floating point.
/// Other columns are ignored. Times of other writers are counted from their first request.
///
/// ```
/// use peryton_trace::{Characteristics, ParquetSource};
///
/// let mut trace = ParquetSource::open("../../examples/traces/sqlite-ext4.parquet")?;
/// let requests = trace.requests();
/// assert_eq!(Characteristics::of(&mut trace)?.requests, requests);
/// # Ok::<(), peryton_trace::TraceError>(())
/// ```
pub struct ParquetSource {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    columns: Columns,
    origin: Option<String>,
    requests: u64,
    /// Number of rows returned, for error messages.
    row: u64,
    /// The time that is subtracted from times; unknown before the first row if another program wrote the file.
    start: Option<u64>,
    /// Whether the end or an error was reached; after it, batches are empty.
    done: bool,
}

impl ParquetSource {
    /// Opens the trace at `path` and checks its columns.
    ///
    /// # Errors
    /// The file cannot be read, is not Parquet, or lacks a required column.
    pub fn open(path: impl AsRef<Path>) -> Result<ParquetSource, TraceError> {
        let path = path.as_ref().to_owned();
        let file = File::open(&path).map_err(|error| io_error(&path, error))?;
        if file.metadata().map_err(|error| io_error(&path, error))?.is_dir() {
            return Err(invalid(&path, "is a directory, expected a Parquet file"));
        }
        let opened = guarded(|| open_file(file)).unwrap_or_else(Err);
        let (reader, columns, about) = opened.map_err(|message| invalid(&path, message))?;
        let start = about.ours.then_some(0);
        let About { origin, requests, .. } = about;
        Ok(ParquetSource { path, reader, columns, origin, requests, row: 0, start, done: false })
    }

    /// The origin of the requests, as the writer described it.
    pub fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }

    /// The number of requests according to the file.
    pub fn requests(&self) -> u64 {
        self.requests
    }

    fn fill(&mut self, rows: &RecordBatch, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        let filled = self.columns.fill(rows, self.row, &mut self.start, batch);
        filled.map_err(|message| invalid(&self.path, message))?;
        self.row += rows.num_rows() as u64;
        Ok(())
    }
}

impl Source for ParquetSource {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        batch.clear();
        while !self.done && batch.is_empty() {
            let reader = &mut self.reader;
            let next = guarded(|| reader.next());
            let rows = match next {
                Ok(None) => {
                    self.done = true;
                    break;
                }
                Ok(Some(Ok(rows))) => Ok(rows),
                Ok(Some(Err(error))) => Err(error.to_string()),
                Err(message) => Err(message),
            };
            let filled = rows
                .map_err(|message| invalid(&self.path, format!("after row {}: {message}", self.row)))
                .and_then(|rows| self.fill(&rows, batch));
            if let Err(error) = filled {
                self.done = true;
                batch.clear();
                return Err(error);
            }
        }
        Ok(())
    }
}

/// The file's metadata.
struct About {
    ours: bool,
    origin: Option<String>,
    requests: u64,
}

fn open_file(file: File) -> Result<(ParquetRecordBatchReader, Columns, About), String> {
    // Types come from the Parquet schema, because an embedded Arrow schema might contradict it.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let builder = ParquetRecordBatchReaderBuilder::try_new_with_options(file, options)
        .map_err(|error| format!("is not a readable Parquet file: {error}"))?;
    let about = about(builder.metadata())?;
    let schema = builder.schema().clone();
    let wanted = Columns::of(&schema)?.indices();
    let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
    let reader = builder.with_batch_size(BATCH).with_projection(mask).build().map_err(|error| error.to_string())?;
    // The projection renumbers the columns.
    let schema = arrow_array::RecordBatchReader::schema(&reader);
    let columns = Columns::of(&schema)?;
    Ok((reader, columns, about))
}

fn about(metadata: &ParquetMetaData) -> Result<About, String> {
    let file = metadata.file_metadata();
    let entry = |key: &str| {
        let entries = file.key_value_metadata()?;
        entries.iter().find(|entry| entry.key == key)?.value.clone()
    };
    let version = entry(VERSION_KEY);
    if let Some(version) = &version
        && version.parse::<u32>().map_or(true, |version| version > VERSION)
    {
        return Err(format!(
            "has trace schema version '{version}', this program reads up to {VERSION}: use a newer one"
        ));
    }
    let requests = u64::try_from(file.num_rows()).map_err(|_| "says it has a negative number of rows".to_owned())?;
    Ok(About { ours: version.is_some(), origin: entry(ORIGIN_KEY), requests })
}
