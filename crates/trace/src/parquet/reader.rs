use std::{
    borrow::Cow,
    fs::File,
    path::{Path, PathBuf},
};

use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_schema::{DataType, SchemaRef};
use parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ArrowReaderOptions, ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder},
    },
    file::metadata::ParquetMetaData,
};
use peryton_units::{Bytes, Nanos, Op};

use super::{
    ORIGIN_KEY, VERSION, VERSION_KEY,
    column::{is_number, numbers, words},
    guard::guarded,
    invalid, io_error,
};
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

/// The indices of the projected columns, and the factor that converts each to bytes or nanoseconds.
struct Columns {
    time: (usize, u64),
    op: usize,
    volume: Option<usize>,
    offset: (usize, u64),
    length: (usize, u64),
}

const TIMES: &[(&str, u64)] = &[("time_ns", 1), ("time_us", 1_000), ("time_ms", 1_000_000), ("time_s", 1_000_000_000)];
const OFFSETS: &[(&str, u64)] = &[("offset", 1), ("sector", 512)];
const LENGTHS: &[(&str, u64)] = &[("length", 1), ("sectors", 512)];

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
        let (path, first_row) = (&self.path, self.row);
        let at = |name: &'static str| {
            move |(row, what): (usize, String)| {
                invalid(path, format!("row {}: {name} {what}", first_row + row as u64 + 1))
            }
        };
        let columns = &self.columns;
        let time = numbers(rows.column(columns.time.0), columns.time.1).map_err(at("time"))?;
        let op = ops(rows.column(columns.op)).map_err(at("op"))?;
        let offset = numbers(rows.column(columns.offset.0), columns.offset.1).map_err(at("offset"))?;
        let length = numbers(rows.column(columns.length.0), columns.length.1).map_err(at("length"))?;
        let volume = match columns.volume {
            Some(column) => numbers(rows.column(column), 1).map_err(at("volume"))?,
            None => Cow::Borrowed(&[][..]),
        };
        if let Some(row) = volume.iter().position(|&v| v > u64::from(u32::MAX)) {
            return Err(at("volume")((row, format!("is {}, expected at most {}", volume[row], u32::MAX))));
        }
        if let Some(row) = (0..rows.num_rows()).find(|&i| offset[i].checked_add(length[i]).is_none()) {
            return Err(at("offset")((row, format!("{} + length {} passes 2^64", offset[row], length[row]))));
        }
        let start = *self.start.get_or_insert_with(|| time.first().copied().unwrap_or(0));
        let columns = time.iter().zip(op.iter()).zip(offset.iter()).zip(length.iter()).enumerate();
        batch.extend(columns.map(|(row, (((&time, &op), &offset), &len))| Request {
            at: Nanos(time.saturating_sub(start)),
            offset: Bytes(offset),
            len: Bytes(len),
            volume: volume.get(row).map_or(0, |&v| v as u32),
            op: Op::ALL[usize::from(op & 3)],
        }));
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
    let mut wanted =
        vec![pick(&schema, TIMES)?.0, find(&schema, "op")?, pick(&schema, OFFSETS)?.0, pick(&schema, LENGTHS)?.0];
    wanted.extend(schema.index_of("volume"));
    let mask = ProjectionMask::roots(builder.parquet_schema(), wanted);
    let reader = builder.with_batch_size(BATCH).with_projection(mask).build().map_err(|error| error.to_string())?;
    // The projection renumbers the columns.
    let schema = arrow_array::RecordBatchReader::schema(&reader);
    let columns = Columns {
        time: pick(&schema, TIMES)?,
        op: find(&schema, "op")?,
        volume: schema.index_of("volume").ok(),
        offset: pick(&schema, OFFSETS)?,
        length: pick(&schema, LENGTHS)?,
    };
    for (column, field) in schema.fields().iter().enumerate() {
        let word = column == columns.op && *field.data_type() == DataType::Utf8;
        if !word && !is_number(field.data_type()) {
            return Err(format!("column '{}' has type {}, expected whole numbers", field.name(), field.data_type()));
        }
    }
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

/// The first of the named columns that exists in the file, and its factor.
fn pick(schema: &SchemaRef, names: &[(&str, u64)]) -> Result<(usize, u64), String> {
    let found = names.iter().find_map(|(name, scale)| Some((schema.index_of(name).ok()?, *scale)));
    found.ok_or_else(|| missing(schema, &names.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("' or '")))
}

fn find(schema: &SchemaRef, name: &str) -> Result<usize, String> {
    schema.index_of(name).map_err(|_| missing(schema, name))
}

fn missing(schema: &SchemaRef, names: &str) -> String {
    let present = schema.fields().iter().map(|field| field.name().as_str()).collect::<Vec<_>>().join(", ");
    format!(
        "has no column '{names}' (it has: {present}): rename the column, or convert the trace from its original format"
    )
}

/// Checked codes of operations.
fn ops(array: &ArrayRef) -> Result<Cow<'_, [u8]>, (usize, String)> {
    if let Some(words) = words(array)? {
        let mut codes = Vec::with_capacity(words.len());
        for row in 0..words.len() {
            let word = words.value(row);
            let op = match word.to_ascii_lowercase().as_str() {
                "r" | "read" => Op::Read,
                "w" | "write" => Op::Write,
                "d" | "discard" | "trim" | "unmap" => Op::Discard,
                "f" | "flush" => Op::Flush,
                _ => return Err((row, format!("is '{word}', expected read, write, discard or flush"))),
            };
            codes.push(op as u8);
        }
        return Ok(Cow::Owned(codes));
    }
    let codes = match array.as_any().downcast_ref::<arrow_array::UInt8Array>() {
        Some(codes) if codes.null_count() == 0 => Cow::Borrowed(&codes.values()[..]),
        _ => Cow::Owned(numbers(array, 1)?.iter().map(|&code| u8::try_from(code).unwrap_or(u8::MAX)).collect()),
    };
    match codes.iter().position(|&code| Op::from_code(code).is_none()) {
        Some(row) => {
            Err((row, format!("has code {}, expected 0 (read), 1 (write), 2 (discard) or 3 (flush)", codes[row])))
        }
        None => Ok(codes),
    }
}
