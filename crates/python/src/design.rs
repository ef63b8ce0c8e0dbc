//! Designs: from files, texts and dictionaries.

use std::path::PathBuf;

use peryton_device::Profile;
use peryton_sim::{Design as Parsed, DesignText};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    arguments::{toml_table, toml_value},
    error::{InPython, failed, input},
};

/// A design with its overrides; it is parsed again for each simulation.
#[pyclass(module = "peryton")]
pub(crate) struct Design {
    text: DesignText,
    overrides: Vec<String>,
    about: About,
}

/// What the design says of itself.
struct About {
    name: String,
    volume_bytes: u64,
    toml: String,
}

impl Design {
    fn new(text: DesignText) -> PyResult<Design> {
        let about = About::of(&text, &[])?;
        Ok(Design { text, overrides: Vec::new(), about })
    }

    /// The design as it is written, and what was set.
    pub(crate) fn written(&self) -> (DesignText, Vec<String>) {
        (self.text.clone(), self.overrides.clone())
    }

    /// The design for the simulator.
    pub(crate) fn parsed(&self) -> PyResult<Parsed> {
        self.text.design(&self.overrides).in_python()
    }
}

impl About {
    fn of(text: &DesignText, overrides: &[String]) -> PyResult<About> {
        let design = text.design(overrides).in_python()?;
        if let Some(index) = design.ignored_overrides.first() {
            return Err(input(format!("set {}: does not apply to this design: leave it out", overrides[*index])));
        }
        let volume_bytes = design.volume_bytes().0;
        Ok(About { name: design.name, volume_bytes, toml: design.toml })
    }
}

#[pymethods]
impl Design {
    #[staticmethod]
    fn _load(path: PathBuf) -> PyResult<Design> {
        Design::new(DesignText::read(path).in_python()?)
    }

    #[staticmethod]
    fn _parse(text: &str, name: &str) -> PyResult<Design> {
        Design::new(DesignText::new(text, name))
    }

    #[staticmethod]
    fn _from_dict(table: &Bound<'_, PyDict>, name: &str) -> PyResult<Design> {
        let text = toml::to_string(&toml_table(table, 0)?).map_err(failed)?;
        Design::new(DesignText::new(text, name))
    }

    fn _set(&mut self, key: &str, value: &Bound<'_, PyAny>) -> PyResult<()> {
        // Another value for the same key replaces it.
        let mut overrides = self.overrides.clone();
        overrides.retain(|text| text.split_once('=').is_none_or(|(known, _)| known.trim() != key.trim()));
        overrides.push(format!("{key}={}", toml_value(value, 0)?));
        self.about = About::of(&self.text, &overrides)?;
        self.overrides = overrides;
        Ok(())
    }

    fn _copy(&self) -> PyResult<Design> {
        let about = About::of(&self.text, &self.overrides)?;
        Ok(Design { text: self.text.clone(), overrides: self.overrides.clone(), about })
    }

    #[getter]
    fn name(&self) -> &str {
        &self.about.name
    }

    #[getter]
    fn volume_bytes(&self) -> u64 {
        self.about.volume_bytes
    }

    #[getter]
    fn overrides(&self) -> Vec<String> {
        self.overrides.clone()
    }

    fn to_toml(&self) -> &str {
        &self.about.toml
    }
}

/// The names of the shipped profiles of devices.
#[pyfunction]
pub(crate) fn profiles() -> Vec<&'static str> {
    Profile::shipped().collect()
}
