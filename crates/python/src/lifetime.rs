//! The lifetime of a mixed SSD array, by arithmetic.

use std::path::PathBuf;

use peryton_plan::lifetime::{Array, Lifetime};
use pyo3::{prelude::*, types::PyDict};
use serde::Serialize;

use crate::{
    arguments::{json, toml_table},
    error::{InPython, input},
};

/// A lifetime and the version that computed it, as `peryton lifetime --json` writes them.
#[derive(Serialize)]
struct Computed {
    peryton_version: &'static str,
    #[serde(flatten)]
    lifetime: Lifetime,
}

/// Computes the lifetime for each share of admitted misses; returns JSON.
#[pyfunction]
#[pyo3(signature = (file, values, admit))]
pub(crate) fn lifetime(file: Option<PathBuf>, values: &Bound<'_, PyDict>, admit: Vec<f64>) -> PyResult<String> {
    let array = Array::load(file.as_deref(), &toml_table(values, 0)?);
    // What is not of a file is of the arguments.
    let array = array.map_err(|error| input(error.to_string().replacen("the command line", "the array", 1)))?;
    let lifetimes = array.lifetimes(&admit).in_python()?;
    let version = peryton_version::VERSION;
    json(&lifetimes.into_iter().map(|lifetime| Computed { peryton_version: version, lifetime }).collect::<Vec<_>>())
}
