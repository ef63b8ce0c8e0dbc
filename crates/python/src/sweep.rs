//! Sweeps: spaces, their points, and the data sets that their rows go into.

use std::{
    collections::{BTreeMap, HashMap},
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use peryton_sim::{DataSet, Point, Prepared, Row, Space as Parsed, SpaceError, sweep_into};
use peryton_trace::Source;
use pyo3::{prelude::*, types::PyDict};

use crate::{
    arguments::{json, toml_table},
    error::{InPython, failed, input},
    running::{Running, Stoppable, run, threads},
};

/// What is to be simulated.
#[pyclass(frozen, module = "peryton")]
pub(crate) struct Space {
    space: Parsed,
}

/// The rows of a sweep in a folder.
#[pyclass(frozen, module = "peryton")]
pub(crate) struct Rows {
    /// `None` once it is closed.
    set: Mutex<Option<DataSet>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn stoppable(running: &Arc<Running>, source: Box<dyn Source>) -> Box<dyn Source> {
    Box::new(Stoppable { source, running: Arc::clone(running), step: None, read: 0 })
}

#[pymethods]
impl Space {
    #[staticmethod]
    fn _load(py: Python<'_>, path: PathBuf) -> PyResult<Space> {
        Ok(Space { space: py.detach(|| Parsed::load(path)).in_python()? })
    }

    /// Of a dictionary. `optimised`: an optimiser will choose the values of the keys.
    #[staticmethod]
    fn _from_dict(
        py: Python<'_>,
        table: &Bound<'_, PyDict>,
        place: &str,
        folder: PathBuf,
        optimised: bool,
    ) -> PyResult<Space> {
        let text = toml::to_string(&toml_table(table, 0)?).map_err(failed)?;
        let parse = if optimised { Parsed::to_optimise } else { Parsed::parse };
        Ok(Space { space: py.detach(|| parse(&text, place, &folder)).in_python()? })
    }

    fn __len__(&self) -> usize {
        self.space.len()
    }

    /// The keys with their values, as JSON.
    fn _keys(&self) -> PyResult<String> {
        json(self.space.keys())
    }

    /// A point, as JSON, and its hash.
    fn _point(&self, py: Python<'_>, index: usize) -> PyResult<(String, String)> {
        if index >= self.space.len() {
            return Err(input(format!("point {index}: there are {}", self.space.len())));
        }
        with_hash(py, &self.space.point(index))
    }

    /// The points of some values of the keys.
    fn _at(&self, py: Python<'_>, values: BTreeMap<String, String>) -> PyResult<Vec<(String, String)>> {
        self.space.at(&values).iter().map(|point| with_hash(py, point)).collect()
    }

    /// A number of the range of a key as its value.
    fn _value(&self, key: &str, number: f64) -> PyResult<String> {
        let axis = self.space.keys().iter().find(|axis| axis.key == key);
        axis.map(|axis| axis.rounded(number)).ok_or_else(|| input(format!("{key}: is no key of the sweep")))
    }

    /// Simulates all points; returns the number of points, of those that were known, simulated, and ended with an error.
    fn _sweep(
        &self,
        py: Python<'_>,
        rows: &Rows,
        retry_errors: bool,
        jobs: Option<usize>,
        progress: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<(usize, usize, usize, usize)> {
        let work = |running: &Arc<Running>| {
            let mut set = locked(&rows.set);
            let set = set.as_mut().ok_or_else(closed)?;
            let wrapped = |source| stoppable(running, source);
            sweep_into(set, &self.space, retry_errors, &wrapped, &|done| {
                running.report("points", (done.known + done.simulated) as u64, done.points as u64);
            })
        };
        let done = run(py, threads(jobs)?, progress, work)?.in_python()?;
        Ok((done.points, done.known, done.simulated, done.errors))
    }
}

fn with_hash(py: Python<'_>, point: &Point) -> PyResult<(String, String)> {
    let hash = py.detach(|| point.prepared(None).hash);
    Ok((json(point)?, hash))
}

fn closed() -> SpaceError {
    SpaceError::Wrong { place: "the data set".to_owned(), problem: "is closed".to_owned() }
}

/// Simulates a point with the files of its trace, on one thread; returns its row as JSON.
#[pyfunction]
pub(crate) fn point_row(py: Python<'_>, point: &str, files: Vec<PathBuf>) -> PyResult<String> {
    let mut point: Point = serde_json::from_str(point).map_err(|error| input(format!("point: {error}")))?;
    point.trace.files = files;
    let work = |running: &Arc<Running>| Prepared::row(&point.prepared(None), &|source| stoppable(running, source));
    json(&run(py, 1, None, work)?)
}

/// The hash of a file's bytes, as a point has it of the files of its trace.
#[pyfunction]
pub(crate) fn file_hash(py: Python<'_>, path: PathBuf) -> PyResult<String> {
    py.detach(|| peryton_sim::file_hash(&path)).in_python()
}

#[pymethods]
impl Rows {
    #[staticmethod]
    fn _open(py: Python<'_>, path: PathBuf) -> PyResult<Rows> {
        Ok(Rows { set: Mutex::new(Some(py.detach(|| DataSet::open(path)).in_python()?)) })
    }

    /// Whether a point is there without an error; None if it is not there.
    fn _known(&self, point: &str) -> Option<bool> {
        locked(&self.set).as_ref()?.known(point)
    }

    /// Figures of all rows, as JSON.
    fn _figures(&self, py: Python<'_>, names: Vec<String>) -> PyResult<String> {
        json(&self.with(py, |set| set.figures(&names))?)
    }

    /// Adds rows, which are JSON; they are on the device when this returns.
    fn _add(&self, py: Python<'_>, rows: Vec<String>) -> PyResult<()> {
        let rows = rows.iter().map(|row| serde_json::from_str(row)).collect::<Result<Vec<Row>, _>>();
        let rows = rows.map_err(|error| input(format!("row: {error}")))?;
        self.with(py, |set| set.add(rows))
    }

    /// Puts the rows in the order of these points.
    fn _finish(&self, py: Python<'_>, points: Vec<String>) -> PyResult<()> {
        let mut order = HashMap::new();
        for (place, point) in points.into_iter().enumerate() {
            order.entry(point).or_insert(place);
        }
        self.with(py, |set| set.finish(&order))
    }

    /// Lets others write into the folder.
    fn _close(&self) {
        *locked(&self.set) = None;
    }
}

impl Rows {
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        work: impl FnOnce(&mut DataSet) -> Result<T, SpaceError> + Send,
    ) -> PyResult<T> {
        py.detach(|| work(locked(&self.set).as_mut().ok_or_else(closed)?)).in_python()
    }
}
