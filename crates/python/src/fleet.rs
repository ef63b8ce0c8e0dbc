//! What to buy for many volumes.

use std::{path::PathBuf, sync::Arc};

use peryton_plan::fleet::{self, DriveTask, FleetAsk, FleetPlanError, FleetPoint, FleetPoints, Recordings};
use peryton_sim::PointTrace;
use pyo3::{prelude::*, types::PyDict};

use crate::{
    arguments::{given, json},
    error::{InPython, input},
    purchase,
    running::{Running, raise, run, threads},
};

/// How the files are read: as a point of a sweep has it.
fn reading(path: &std::path::Path, arguments: &Bound<'_, PyDict>) -> PyResult<PointTrace> {
    Ok(PointTrace {
        name: path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        files: vec![path.to_owned()],
        format: given(arguments, "format")?,
        columns: given(arguments, "columns")?,
        unit: given(arguments, "unit")?,
        skip_bad: given(arguments, "skip_bad")?.unwrap_or(false),
        volumes: given(arguments, "volumes")?,
        concatenate: false,
        files_as_volumes: false,
        sort: given(arguments, "sort")?.unwrap_or(false),
        spread: given(arguments, "spread")?.unwrap_or(false),
        hashes: Vec::new(),
    })
}

fn recordings(path: &std::path::Path, arguments: &Bound<'_, PyDict>) -> PyResult<(Recordings, PointTrace)> {
    let reading = reading(path, arguments)?;
    let options = reading.opened_by().map_err(input)?.options;
    let speed: f64 = given(arguments, "speed")?.unwrap_or(1.0);
    if !(speed > 0.0 && speed.is_finite()) {
        return Err(input(format!("speed {speed}: give a number above 0, such as 2")));
    }
    Ok((Recordings::at(path, &options, speed).in_python()?, reading))
}

/// The parts of the measurement of a fleet, as JSON, that other machines can do.
#[pyfunction]
pub(crate) fn fleet_points(py: Python<'_>, path: PathBuf, arguments: &Bound<'_, PyDict>) -> PyResult<Vec<String>> {
    let (recordings, reading) = recordings(&path, arguments)?;
    let points = py.detach(|| FleetPoints::new(&recordings, reading).measurements()).in_python()?;
    points.iter().map(json).collect()
}

/// Does a part of the work with these files, on one thread; returns its row as JSON.
#[pyfunction]
pub(crate) fn fleet_row(py: Python<'_>, point: &str, files: Vec<PathBuf>) -> PyResult<String> {
    let mut point: FleetPoint = serde_json::from_str(point).map_err(|error| input(format!("point: {error}")))?;
    point.trace.files = files;
    run(py, 1, None, |_: &Arc<Running>| point.row())?.in_python()
}

/// Makes a plan for a fleet; returns it as JSON. `rows`: what was measured elsewhere. `simulate`: a function that does simulations
/// elsewhere, from a list of points to the list of their rows. The arguments are those of `peryton.plan_fleet`.
#[pyfunction]
pub(crate) fn plan_fleet(
    py: Python<'_>,
    path: PathBuf,
    arguments: &Bound<'_, PyDict>,
    rows: Option<Vec<String>>,
    simulate: Option<Py<PyAny>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let one = purchase::ask(arguments)?;
    let ask = FleetAsk {
        constraints: one.constraints,
        objective: one.objective,
        most: one.most,
        protection: one.protection,
        account: one.account,
        duty: one.duty,
    };
    ask.check().in_python()?;
    let catalogue = purchase::catalogue(arguments)?;
    let (recordings, reading) = recordings(&path, arguments)?;
    let work = |running: &Arc<Running>| -> Result<_, FleetPlanError> {
        let report = |what: &str, done: u64, of: u64| running.report(what, done, of);
        let loads = match rows {
            None => recordings.measure(&|done, of| report("reading the recordings", done, of))?,
            Some(rows) => {
                let all = rows.iter().map(|row| FleetPoint::loads(row)).collect::<Result<Vec<_>, _>>()?;
                recordings.checked(all.into_iter().flatten().collect())?
            }
        };
        let mut points = FleetPoints::new(&recordings, reading);
        let points = std::cell::RefCell::new(&mut points);
        let simulated = |drives: &[DriveTask]| match &simulate {
            None => recordings.simulate(drives, &|done, of| report("simulating drives", done, of)),
            Some(elsewhere) => {
                let points = points.borrow_mut().simulations(drives)?;
                let rows = Python::attach(|py| -> PyResult<Vec<String>> {
                    let points: Vec<String> = points.iter().map(json).collect::<PyResult<_>>()?;
                    elsewhere.call1(py, (points,))?.extract(py)
                });
                let rows = rows.unwrap_or_else(|error| raise(error));
                let drives = rows.iter().map(|row| FleetPoint::drives(row)).collect::<Result<Vec<_>, _>>()?;
                Ok(drives.into_iter().flatten().collect())
            }
        };
        fleet::plan(&ask, &catalogue, &recordings.name, &loads, &simulated, &report)
    };
    json(&run(py, threads(given(arguments, "jobs")?)?, progress, work)?.in_python()?)
}
