//! The package `peryton` for Python: the library crates behind functions and classes of Python.
//!
//! The functions here take paths, numbers and columns, call what `peryton` on the command line calls, and return reports
//! as JSON; `python/peryton` makes objects of them. Work is done on threads of its own without the interpreter's lock
//! (`running.rs`).

mod arguments;
mod arrow;
mod curves;
mod design;
mod error;
mod fleet;
mod lifetime;
mod numpy;
mod policy;
mod purchase;
mod reference;
mod running;
mod simulate;
mod size;
mod sweep;
mod trace;

use pyo3::prelude::*;

/// The part of `peryton` that is written in Rust.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    peryton_sim::built_as(peryton_sim::Build { version: peryton_version::VERSION, sources: peryton_version::SOURCES });
    module.add("__version__", peryton_version::VERSION)?;
    module.add("InputError", py.get_type::<error::InputError>())?;
    module.add("SimulationError", py.get_type::<error::SimulationError>())?;
    module.add_class::<trace::Trace>()?;
    module.add_class::<design::Design>()?;
    module.add_class::<sweep::Space>()?;
    module.add_class::<sweep::Rows>()?;
    module.add_class::<policy::Capacity>()?;
    module.add_class::<policy::PyCandidates>()?;
    module.add_function(wrap_pyfunction!(simulate::simulate, module)?)?;
    module.add_function(wrap_pyfunction!(size::size, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::point_row, module)?)?;
    module.add_function(wrap_pyfunction!(sweep::file_hash, module)?)?;
    module.add_function(wrap_pyfunction!(curves::mrc, module)?)?;
    module.add_function(wrap_pyfunction!(lifetime::lifetime, module)?)?;
    module.add_function(wrap_pyfunction!(purchase::plan, module)?)?;
    module.add_function(wrap_pyfunction!(purchase::energy, module)?)?;
    module.add_function(wrap_pyfunction!(fleet::plan_fleet, module)?)?;
    module.add_function(wrap_pyfunction!(fleet::fleet_points, module)?)?;
    module.add_function(wrap_pyfunction!(fleet::fleet_row, module)?)?;
    module.add_function(wrap_pyfunction!(design::profiles, module)?)?;
    module.add_function(wrap_pyfunction!(reference::design_keys, module)?)?;
    module.add_function(wrap_pyfunction!(reference::report_schema, module)?)?;
    module.add_function(wrap_pyfunction!(trace::formats, module)?)?;
    module.add_function(wrap_pyfunction!(policy::policies, module)?)
}
