use std::{
    fs::File,
    path::{Path, PathBuf},
};

use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder},
    },
    file::metadata::ParquetMetaData,
};

use super::{ORIGIN_KEY, START_KEY, VERSION, VERSION_KEY, guard::guarded, invalid, io_error, rows::Columns};
use crate::{
    Account, BATCH, Request, Source, TraceError,
    decode::Decode,
    order::{Order, Sorting},
};

/// Reads a trace from Parquet, in bounded memory: a page of each column.
///
/// The columns are those of [`ParquetWriter`](super::ParquetWriter), or equivalent ones of another writer: `time_ns`,
/// `time_us`, `time_ms` or `time_s`; `op` as code or word; `offset` in bytes or `sector`; `length` in bytes or
/// `sectors` (of 512 bytes); `volume` if there is one. Numbers may have any width, and times may be floating point.
/// Other columns are ignored. Rows of other writers may be out of order, as lines of text may.
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
    rows: ParquetRows,
    order: Order,
    requests: u64,
}

impl ParquetSource {
    /// Opens the trace at `path` and checks its columns.
    ///
    /// # Errors
    /// The file cannot be read, is not Parquet, or lacks a required column.
    pub fn open(path: impl AsRef<Path>) -> Result<ParquetSource, TraceError> {
        let rows = ParquetRows::open(path.as_ref())?;
        let sorting = if rows.is_in_order() { Sorting::Promised } else { Sorting::Window };
        Ok(ParquetSource { rows, order: Order::new(sorting), requests: 0 })
    }

    /// The origin of the requests, as the writer described it.
    pub fn origin(&self) -> Option<&str> {
        self.rows.about.origin.as_deref()
    }

    /// The number of requests according to the file.
    pub fn requests(&self) -> u64 {
        self.rows.about.requests
    }
}

impl Source for ParquetSource {
    fn next_batch(&mut self, batch: &mut Vec<Request>) -> Result<(), TraceError> {
        let ParquetSource { rows, order, requests } = self;
        let name = rows.path.display().to_string();
        order.next_batch(&name, batch, |out| rows.fill(out).map(|()| !rows.done))?;
        *requests += batch.len() as u64;
        Ok(())
    }

    fn account(&self) -> Account {
        let mut account = Account { requests: self.requests, ..Account::default() };
        self.order.add_to(&mut account);
        account
    }
}

/// The rows of a file in its order, with times on the trace's own clock.
pub(crate) struct ParquetRows {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
    columns: Columns,
    about: About,
    /// Number of rows returned, for error messages.
    row: u64,
    /// Whether the end or an error was reached; after it, there are no more.
    done: bool,
}

impl ParquetRows {
    pub(crate) fn open(path: &Path) -> Result<ParquetRows, TraceError> {
        let file = File::open(path).map_err(|error| io_error(path, error))?;
        if file.metadata().map_err(|error| io_error(path, error))?.is_dir() {
            return Err(invalid(path, "is a directory, expected a Parquet file"));
        }
        let opened = guarded(|| open_file(file)).unwrap_or_else(Err);
        let (reader, columns, about) = opened.map_err(|message| invalid(path, message))?;
        Ok(ParquetRows { path: path.to_owned(), reader, columns, about, row: 0, done: false })
    }

    /// Whether the rows promise to be in order of time: those of other writers do not.
    pub(crate) fn is_in_order(&self) -> bool {
        self.about.ours
    }
}

impl Decode for ParquetRows {
    fn fill(&mut self, out: &mut Vec<Request>) -> Result<(), TraceError> {
        let before = out.len();
        while !self.done && out.len() == before {
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
            let rows = rows.map_err(|message| format!("after row {}: {message}", self.row));
            let filled = rows.and_then(|rows| {
                self.columns.fill(&rows, self.row, self.about.start, out)?;
                self.row += rows.num_rows() as u64;
                Ok(())
            });
            if let Err(message) = filled {
                self.done = true;
                return Err(invalid(&self.path, message));
            }
        }
        Ok(())
    }

    fn add_to(&self, _: &mut Account) {}
}

/// The file's metadata.
struct About {
    ours: bool,
    /// What times are counted from, in nanoseconds.
    start: u64,
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
    let start = entry(START_KEY)
        .map_or(Ok(0), |start| start.parse())
        .map_err(|_| format!("has a {START_KEY} that is no number"))?;
    Ok(About { ours: version.is_some(), start, origin: entry(ORIGIN_KEY), requests })
}
