//! Columns that go to and come from other libraries by Arrow's interface of capsules, without being copied
//! (<https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>).

use std::{ffi::CStr, sync::Arc};

use arrow_array::{
    RecordBatch, RecordBatchReader,
    ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader},
};
use arrow_schema::{ArrowError, Schema};
use peryton_trace::{Request, Source, TraceError, record_batch, schema};
use pyo3::{prelude::*, types::PyCapsule};

use crate::error::input;

const STREAM: &CStr = c"arrow_array_stream";

/// All record batches of an object with `__arrow_c_stream__`, such as a data frame of polars or a table of pyarrow.
pub(crate) fn import(object: &Bound<'_, PyAny>) -> PyResult<(Arc<Schema>, Vec<RecordBatch>)> {
    let capsule = object.call_method0("__arrow_c_stream__")?;
    let pointer = capsule.cast::<PyCapsule>()?.pointer_checked(Some(STREAM))?;
    // SAFETY: by the interface, a capsule of this name points to a stream, which is moved out: what remains has no release
    // function, so that the capsule's destructor does nothing.
    let reader = unsafe { RecordBatchStreamReader::from_raw(pointer.as_ptr().cast::<FFI_ArrowArrayStream>()) };
    let wrong = |error: ArrowError| input(format!("the columns cannot be read: {error}"));
    let reader = reader.map_err(wrong)?;
    let schema = reader.schema();
    // Reading may call functions of Python, so the interpreter's lock is kept.
    let batches = reader.collect::<Result<Vec<_>, _>>().map_err(wrong)?;
    Ok((schema, batches))
}

/// A capsule from which another library reads record batches.
pub(crate) fn export<'py>(
    py: Python<'py>,
    reader: Box<dyn RecordBatchReader + Send>,
) -> PyResult<Bound<'py, PyCapsule>> {
    // The stream frees itself when it is dropped, unless the reader has moved it out.
    PyCapsule::new_with_value_and_destructor(py, FFI_ArrowArrayStream::new(reader), STREAM, |stream, _| drop(stream))
}

/// The rows of a record batch of [`Rows`].
const ROWS: usize = 1 << 16;

/// The requests of a source as record batches, read as they are asked for.
pub(crate) struct Rows {
    pub(crate) source: Box<dyn Source>,
    pub(crate) ended: bool,
}

impl Rows {
    fn read(&mut self) -> Result<Vec<Request>, TraceError> {
        let (mut rows, mut batch) = (Vec::new(), Vec::new());
        while rows.len() < ROWS && !self.ended {
            self.source.next_batch(&mut batch)?;
            self.ended = batch.is_empty();
            rows.append(&mut batch);
        }
        Ok(rows)
    }
}

impl Iterator for Rows {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        match self.read() {
            Ok(rows) if rows.is_empty() => None,
            Ok(rows) => Some(Ok(record_batch(&rows))),
            Err(error) => {
                self.ended = true;
                Some(Err(ArrowError::ExternalError(Box::new(error))))
            }
        }
    }
}

impl RecordBatchReader for Rows {
    fn schema(&self) -> Arc<Schema> {
        schema()
    }
}
