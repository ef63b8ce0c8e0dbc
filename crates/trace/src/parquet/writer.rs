use std::{
    fs::File,
    io::{self, BufWriter},
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
};

use arrow_array::{ArrayRef, RecordBatch, UInt8Array, UInt32Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use parquet::{
    arrow::ArrowWriter,
    basic::{Compression, Encoding, ZstdLevel},
    errors::ParquetError,
    file::{
        metadata::KeyValue,
        properties::{EnabledStatistics, WriterProperties, WriterVersion},
    },
    schema::types::ColumnPath,
};

use super::{ORIGIN_KEY, ROW_GROUP_ROWS, START_KEY, VERSION, VERSION_KEY, invalid, io_error};
use peryton_units::Nanos;

use crate::{Request, TraceError, new_file::NewFile};

/// Writes a trace as Parquet, in bounded memory: one row group, encoded.
///
/// The file gets its name when [`finish`](ParquetWriter::finish) has succeeded. A writer that is dropped leaves no
/// file, and does not change an existing file of that name.
///
/// ```
/// use peryton_trace::{ParquetSource, ParquetWriter, Request};
/// use peryton_units::{Bytes, Nanos, Op};
///
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("my.parquet");
/// let mut writer = ParquetWriter::create(&path, "an example")?;
/// writer.write(&[Request { at: Nanos::ZERO, offset: Bytes::ZERO, len: Bytes::kib(4), volume: 0, op: Op::Read }])?;
/// assert_eq!(writer.finish()?, 1);
/// assert_eq!(ParquetSource::open(&path)?.origin(), Some("an example"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct ParquetWriter {
    path: PathBuf,
    file: NewFile,
    writer: ArrowWriter<BufWriter<File>>,
    requests: u64,
    latest: Nanos,
}

impl ParquetWriter {
    /// Starts a trace at `path`; `origin` is a description of the requests' origin, which is kept in the file.
    ///
    /// # Errors
    /// The file cannot be created.
    pub fn create(path: impl AsRef<Path>, origin: &str) -> Result<ParquetWriter, TraceError> {
        let path = path.as_ref().to_owned();
        let (kept, file) = NewFile::create(&path).map_err(|error| io_error(&path, error))?;
        let writer = ArrowWriter::try_new(BufWriter::new(file), schema(), Some(properties(origin)));
        let writer = writer.map_err(|error| invalid(&path, error))?;
        Ok(ParquetWriter { path, file: kept, writer, requests: 0, latest: Nanos::ZERO })
    }

    /// Says what times are counted from: the arrival of the first request on the trace's own clock.
    pub fn starts_at(&mut self, start: Nanos) {
        self.writer.append_key_value_metadata(KeyValue::new(START_KEY.to_owned(), start.0.to_string()));
    }

    /// Appends any number of requests, in the order of time.
    ///
    /// # Errors
    /// The file cannot be written, or a request arrives before one that was written.
    pub fn write(&mut self, requests: &[Request]) -> Result<(), TraceError> {
        let mut latest = self.latest;
        for (request, number) in requests.iter().zip(self.requests + 1..) {
            if request.at < latest {
                let path = self.path.display().to_string();
                return Err(TraceError::Late { path, request: number, by: latest - request.at });
            }
            latest = request.at;
        }
        self.latest = latest;
        let batch = record_batch(requests);
        self.writer.write(&batch).map_err(|error| failed(&self.path, error))?;
        self.requests += requests.len() as u64;
        Ok(())
    }

    /// Completes the file, makes it durable and gives it its name. Returns the number of requests in it.
    ///
    /// # Errors
    /// The file cannot be written, made durable or renamed; there is no file under its name then.
    pub fn finish(self) -> Result<u64, TraceError> {
        let ParquetWriter { path, file, writer, requests, .. } = self;
        let buffered = writer.into_inner().map_err(|error| failed(&path, error))?;
        let written = buffered.into_inner().map_err(|error| io_error(&path, error.into_error()))?;
        file.keep(&written).map_err(|error| io_error(&path, error))?;
        Ok(requests)
    }
}

/// An error of the library, which is mostly one of the file.
fn failed(path: &Path, error: ParquetError) -> TraceError {
    match error {
        ParquetError::External(inner) => match inner.downcast::<io::Error>() {
            Ok(error) => io_error(path, *error),
            Err(error) => invalid(path, error),
        },
        error => invalid(path, error),
    }
}

/// Requests as columns of the schema of [`ParquetWriter`].
pub fn record_batch(requests: &[Request]) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(requests.iter().map(|r| r.at.0))),
        Arc::new(UInt8Array::from_iter_values(requests.iter().map(|r| r.op as u8))),
        Arc::new(UInt32Array::from_iter_values(requests.iter().map(|r| r.volume))),
        Arc::new(UInt64Array::from_iter_values(requests.iter().map(|r| r.offset.0))),
        Arc::new(UInt64Array::from_iter_values(requests.iter().map(|r| r.len.0))),
    ];
    RecordBatch::try_new(schema(), columns).expect("the columns are those of the schema, equally long")
}

/// The columns. A length has 64 bits because a discard may span a device; with dictionary encoding these take no space.
pub fn schema() -> Arc<Schema> {
    static SCHEMA: LazyLock<Arc<Schema>> = LazyLock::new(|| Arc::new(columns()));
    Arc::clone(&SCHEMA)
}

fn columns() -> Schema {
    Schema::new(vec![
        Field::new("time_ns", DataType::UInt64, false),
        Field::new("op", DataType::UInt8, false),
        Field::new("volume", DataType::UInt32, false),
        Field::new("offset", DataType::UInt64, false),
        Field::new("length", DataType::UInt64, false),
    ])
}

fn properties(origin: &str) -> WriterProperties {
    let column = |name: &str| ColumnPath::from(name);
    WriterProperties::builder()
        .set_writer_version(WriterVersion::PARQUET_2_0)
        .set_created_by(concat!("peryton ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(9).expect("zstd has levels 1 to 22")))
        .set_max_row_group_row_count(Some(ROW_GROUP_ROWS))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        // Times grow in small steps.
        .set_column_dictionary_enabled(column("time_ns"), false)
        .set_column_encoding(column("time_ns"), Encoding::DELTA_BINARY_PACKED)
        .set_column_dictionary_enabled(column("offset"), false)
        .set_column_encoding(column("offset"), Encoding::DELTA_BINARY_PACKED)
        .set_key_value_metadata(Some(vec![
            KeyValue::new(VERSION_KEY.to_owned(), VERSION.to_string()),
            KeyValue::new(ORIGIN_KEY.to_owned(), origin.to_owned()),
        ]))
        .build()
}
