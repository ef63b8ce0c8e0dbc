//! What reports and designs may contain: the schema of reports, and the keys of designs.

use peryton_sim::{KeyDefault, design_keys as all_keys, report_schema as schema};
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::arguments::json;

/// The JSON Schema of a report, as JSON.
#[pyfunction]
pub(crate) fn report_schema() -> PyResult<String> {
    json(&schema())
}

/// The keys of designs, as JSON.
#[pyfunction]
pub(crate) fn design_keys() -> PyResult<String> {
    let keys = all_keys().map(|key| {
        let placements: Vec<&str> = key.placements.iter().map(|kind| kind.name()).collect();
        let default: Value = match key.default {
            KeyDefault::Required => Value::Null,
            KeyDefault::Value(text) | KeyDefault::Else(text) => text.into(),
        };
        json!({
            "key": key.path, "about": key.about(), "type": key.type_name, "words": (key.words)(), "unit": key.unit,
            "default": default, "required": key.default == KeyDefault::Required, "placements": placements, "live": key.live,
        })
    });
    json(&keys.collect::<Vec<_>>())
}
