//! Traces: files of any format, or columns in memory.

use std::{path::PathBuf, sync::Arc};

use arrow_array::{RecordBatch, RecordBatchIterator};
use arrow_schema::{Field, Schema};
use peryton_trace::{
    Accounts, Characteristics, ColumnTrace, Format, ObjectCharacteristics, Objects, OpenOptions, Overwrites, Source,
    TraceError, TraceFiles, record_batch, save, schema,
};
use pyo3::{
    prelude::*,
    types::{PyCapsule, PyDict},
};

use crate::{
    arguments::{json, word},
    arrow,
    error::{InPython, input},
    numpy::{self, Column},
    running::{Running, Stoppable, run},
};

/// A trace that can be read again and again.
#[pyclass(frozen, module = "peryton")]
pub(crate) struct Trace {
    pub(crate) opener: Opener,
}

/// Opens a trace, on any thread.
#[derive(Clone)]
pub(crate) struct Opener {
    pub(crate) name: String,
    kind: Kind,
    /// What became of the trace when it was last read.
    accounts: Accounts,
}

#[derive(Clone)]
enum Kind {
    Files(TraceFiles),
    Columns(ColumnTrace),
}

impl Opener {
    /// The requests from the first one.
    pub(crate) fn open(&self) -> Result<Box<dyn Source>, TraceError> {
        match &self.kind {
            Kind::Files(files) => files.again(&self.accounts),
            Kind::Columns(columns) => Ok(self.accounts.of(columns.source())),
        }
    }

    /// The objects, if it is a trace of objects.
    pub(crate) fn objects(&self) -> Result<Option<Objects>, TraceError> {
        match &self.kind {
            Kind::Files(files) if files.specification().is_none() => {
                let reader = files.open()?;
                if reader.is_of_objects() { reader.into_objects().map(Some) } else { Ok(None) }
            }
            _ => Ok(None),
        }
    }

    /// The requests, until work is to end.
    pub(crate) fn stoppable(&self, running: &Arc<Running>) -> Result<Box<dyn Source>, TraceError> {
        Ok(Box::new(Stoppable { source: self.open()?, running: Arc::clone(running), step: None, read: 0 }))
    }

    /// The same for work that does not report its progress by itself.
    pub(crate) fn reporting(&self, running: &Arc<Running>) -> Result<Box<dyn Source>, TraceError> {
        Ok(self.reported(self.open()?, running))
    }

    /// The same with objects whole, if it is a trace of objects.
    pub(crate) fn reporting_objects(&self, running: &Arc<Running>) -> Result<Box<dyn Source>, TraceError> {
        let source = match self.objects()? {
            Some(objects) => self.accounts.of(objects),
            None => self.open()?,
        };
        Ok(self.reported(source, running))
    }

    fn reported(&self, source: Box<dyn Source>, running: &Arc<Running>) -> Box<dyn Source> {
        let step = Some(("requests read", self.requests().unwrap_or(0)));
        Box::new(Stoppable { source, running: Arc::clone(running), step, read: 0 })
    }

    /// The number of requests, if it is known.
    pub(crate) fn requests(&self) -> Option<u64> {
        match &self.kind {
            Kind::Files(_) => None,
            Kind::Columns(columns) => Some(columns.requests()),
        }
    }
}

#[pymethods]
impl Trace {
    #[staticmethod]
    #[pyo3(signature = (paths, format, columns, unit, skip_bad, volumes, concatenate, files_as_volumes, sort, spread))]
    #[allow(clippy::too_many_arguments, reason = "those of the class in Python")]
    fn _open(
        py: Python<'_>,
        paths: Vec<PathBuf>,
        format: Option<&str>,
        columns: Option<&str>,
        unit: Option<&str>,
        skip_bad: bool,
        volumes: Option<Vec<String>>,
        concatenate: bool,
        files_as_volumes: bool,
        sort: bool,
        spread: bool,
    ) -> PyResult<Trace> {
        if paths.iter().any(|path| path.as_os_str() == "-") {
            return Err(input("-: a trace is read several times, standard input only once: give a file"));
        }
        let format = format.map(|name| word::<Format>("format", name)).transpose()?;
        let columns =
            columns.map(str::parse).transpose().map_err(|error: String| input(format!("columns: {error}")))?;
        let units = unit.unwrap_or("").parse().map_err(|error: String| input(format!("unit: {error}")))?;
        let event = None;
        let options = OpenOptions {
            format,
            columns,
            units,
            skip_bad,
            volumes,
            concatenate,
            files_as_volumes,
            event,
            sort,
            spread,
        };
        let files = TraceFiles { paths, options };
        // What cannot be opened is reported at once.
        py.detach(|| files.source(&Accounts::default()).map(drop)).in_python()?;
        Ok(Trace { opener: Opener { name: files.name(), kind: Kind::Files(files), accounts: Accounts::default() } })
    }

    #[staticmethod]
    fn _from_arrow(object: &Bound<'_, PyAny>, name: &str) -> PyResult<Trace> {
        let (schema, batches) = arrow::import(object)?;
        Trace::of_columns(name, &schema, batches)
    }

    #[staticmethod]
    fn _from_buffers(columns: Vec<(String, Bound<'_, PyAny>)>, name: &str) -> PyResult<Trace> {
        let (mut fields, mut arrays) = (Vec::new(), Vec::new());
        for (column, object) in &columns {
            let array = numpy::column(column, object)?;
            fields.push(Field::new(column, array.data_type().clone(), false));
            arrays.push(array);
        }
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays);
        let batch = batch.map_err(|error| input(format!("{name}: the columns do not fit together: {error}")))?;
        Trace::of_columns(name, &schema, vec![batch])
    }

    #[getter]
    fn name(&self) -> &str {
        &self.opener.name
    }

    #[getter]
    fn _requests(&self) -> Option<u64> {
        self.opener.requests()
    }

    #[getter]
    fn _skipped(&self) -> Option<(u64, Vec<String>)> {
        self.opener.accounts.get().map(|account| (account.skipped.count, account.skipped.first))
    }

    #[getter]
    fn _remarks(&self) -> Option<Vec<String>> {
        self.opener.accounts.get().map(|account| account.remarks().iter().map(ToString::to_string).collect())
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        // By the interface, a producer may ignore what was requested.
        let _ = requested_schema;
        match &self.opener.kind {
            Kind::Columns(columns) => {
                let batches: Vec<_> = columns.batches().iter().cloned().map(Ok).collect();
                arrow::export(py, Box::new(RecordBatchIterator::new(batches, Arc::clone(columns.schema()))))
            }
            Kind::Files(_) => {
                let source = self.opener.open().in_python()?;
                arrow::export(py, Box::new(arrow::Rows { source, ended: false }))
            }
        }
    }

    /// The columns `time_ns`, `op`, `volume`, `offset` and `length` for NumPy.
    fn _columns<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let own = match &self.opener.kind {
            Kind::Columns(columns) if *columns.schema() == schema() => match columns.batches() {
                [only] => Some(only.clone()),
                _ => None,
            },
            _ => None,
        };
        let batch = match own {
            Some(batch) => batch,
            None => run(py, 1, None, |running| {
                let (mut source, mut batch, mut all) = (self.opener.stoppable(running)?, Vec::new(), Vec::new());
                loop {
                    source.next_batch(&mut batch)?;
                    if batch.is_empty() {
                        return Ok::<_, TraceError>(record_batch(&all));
                    }
                    all.append(&mut batch);
                }
            })?
            .in_python()?,
        };
        let columns = PyDict::new(py);
        for (field, column) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            columns.set_item(field.name(), Column(Arc::clone(column)))?;
        }
        Ok(columns)
    }

    fn _save(&self, py: Python<'_>, path: PathBuf) -> PyResult<u64> {
        let work = |running: &Arc<Running>| save(&mut *self.opener.stoppable(running)?, &path, &self.opener.name);
        run(py, 1, None, work)?.in_python()
    }

    fn _info(&self, py: Python<'_>) -> PyResult<String> {
        if let Some(mut objects) = py.detach(|| self.opener.objects()).in_python()? {
            let found = py.detach(|| ObjectCharacteristics::of(&mut objects)).in_python()?;
            return json(&found);
        }
        let work = |running: &Arc<Running>| Characteristics::of(&mut *self.opener.stoppable(running)?);
        json(&run(py, 1, None, work)?.in_python()?)
    }

    fn _overwrites(&self, py: Python<'_>) -> PyResult<String> {
        let work = |running: &Arc<Running>| Overwrites::of(&mut *self.opener.stoppable(running)?);
        json(&run(py, 1, None, work)?.in_python()?)
    }
}

impl Trace {
    fn of_columns(name: &str, schema: &Arc<Schema>, batches: Vec<RecordBatch>) -> PyResult<Trace> {
        let columns = ColumnTrace::new(name, schema, batches).in_python()?;
        Ok(Trace {
            opener: Opener { name: name.to_owned(), kind: Kind::Columns(columns), accounts: Accounts::default() },
        })
    }
}

/// The formats of traces, with their descriptions.
#[pyfunction]
pub(crate) fn formats() -> Vec<(&'static str, &'static str)> {
    Format::ALL.iter().map(|format| (format.name(), format.description())).collect()
}
