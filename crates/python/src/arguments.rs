//! Arguments of Python as values of the libraries.

use std::{collections::BTreeMap, fmt::Display, str::FromStr};

use peryton_units::{Bytes, Nanos};
use pyo3::{
    conversion::FromPyObjectOwned,
    exceptions::{PyOverflowError, PyTypeError},
    prelude::*,
    types::{PyBool, PyDict, PyFloat, PyInt, PyList, PyString, PyTuple},
};

use crate::error::input;

/// A size: a number of bytes, or a text such as "4KiB".
pub(crate) struct Size(pub(crate) Bytes);

impl<'py> FromPyObject<'_, 'py> for Size {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Size> {
        if let Ok(text) = object.cast::<PyString>() {
            return text.to_str()?.parse().map(Size).map_err(input);
        }
        Ok(Size(Bytes(object.extract()?)))
    }
}

/// A time: a number of seconds, or a text such as "60s".
pub(crate) struct Time(pub(crate) Nanos);

impl<'py> FromPyObject<'_, 'py> for Time {
    type Error = PyErr;
    fn extract(object: Borrowed<'_, 'py, PyAny>) -> PyResult<Time> {
        let text = match object.cast::<PyString>() {
            Ok(text) => text.to_str()?.to_owned(),
            Err(_) => format!("{}s", object.extract::<f64>()?),
        };
        text.parse().map(Time).map_err(input)
    }
}

/// A value that is written as a word, such as `raid5`; the error names the argument.
pub(crate) fn word<T: FromStr>(argument: &str, text: &str) -> PyResult<T>
where
    T::Err: Display,
{
    text.parse().map_err(|error| input(format!("{argument}: {error}")))
}

/// An optional argument of a dictionary of arguments.
pub(crate) fn given<'py, T>(arguments: &Bound<'py, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T: FromPyObjectOwned<'py>,
{
    match arguments.get_item(name)? {
        Some(value) if !value.is_none() => taken(name, &value).map(Some),
        _ => Ok(None),
    }
}

/// A value of an argument. The package has checked its type; what is left are values that the type of Rust cannot have.
pub(crate) fn taken<'py, T>(name: &str, value: &Bound<'py, PyAny>) -> PyResult<T>
where
    T: FromPyObjectOwned<'py>,
{
    let py = value.py();
    value.extract::<T>().map_err(|error| {
        let error: PyErr = error.into();
        match error.is_instance_of::<PyOverflowError>(py) {
            true => input(format!("{name} {value}: use a number that is not below 0, nor beyond 64 bits")),
            false => PyErr::from_type(error.get_type(py), format!("{name}: {}", error.value(py))),
        }
    })
}

/// An optional argument that is a word.
pub(crate) fn word_given<T: FromStr>(arguments: &Bound<'_, PyDict>, name: &str) -> PyResult<Option<T>>
where
    T::Err: Display,
{
    let text: Option<Bound<'_, PyAny>> = given(arguments, name)?;
    // Numbers are written as words, too: `spares=2`.
    text.map(|text| word(name, &text.str()?.to_string())).transpose()
}

/// One of a list of words.
pub(crate) fn one_of<T: Copy>(argument: &str, text: &str, known: &[(&str, T)]) -> PyResult<T> {
    let found = known.iter().find(|(name, _)| *name == text);
    found.map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        input(format!("{argument} '{text}': use one of {}", names.join(", ")))
    })
}

/// A value in an override, `KEY=VALUE`: a text as it is, unless TOML would read it as something else.
pub(crate) fn override_text(value: &Bound<'_, PyAny>) -> PyResult<String> {
    Ok(peryton_sim::override_text(&toml_value(value, 0)?))
}

/// The deepest nesting of a dictionary, as of TOML.
const DEEPEST: usize = 80;

/// A value as TOML.
pub(crate) fn toml_value(value: &Bound<'_, PyAny>, depth: usize) -> PyResult<toml::Value> {
    if depth > DEEPEST {
        return Err(input(format!("the dictionary is nested more than {DEEPEST} deep")));
    }
    if value.is_instance_of::<PyBool>() {
        return Ok(toml::Value::Boolean(value.extract()?));
    }
    if value.is_instance_of::<PyInt>() {
        let number = value.extract().map_err(|_| input(format!("{value}: too large for TOML: write it as a text")))?;
        return Ok(toml::Value::Integer(number));
    }
    if value.is_instance_of::<PyFloat>() {
        return Ok(toml::Value::Float(value.extract()?));
    }
    if value.is_instance_of::<PyString>() {
        return Ok(toml::Value::String(value.extract()?));
    }
    if let Ok(table) = value.cast::<PyDict>() {
        return Ok(toml::Value::Table(toml_table(table, depth)?));
    }
    if value.is_instance_of::<PyList>() || value.is_instance_of::<PyTuple>() {
        let values = value.try_iter()?.map(|one| toml_value(&one?, depth + 1));
        return Ok(toml::Value::Array(values.collect::<PyResult<_>>()?));
    }
    // Paths, and numbers of NumPy.
    for method in ["__fspath__", "item"] {
        if let Ok(inner) = value.call_method0(method) {
            return toml_value(&inner, depth + 1);
        }
    }
    let kind = value.get_type().name()?;
    Err(PyTypeError::new_err(format!("{kind}: a design has texts, numbers, booleans, lists and dictionaries alone")))
}

/// A dictionary as a table of TOML.
pub(crate) fn toml_table(table: &Bound<'_, PyDict>, depth: usize) -> PyResult<toml::Table> {
    let mut found = toml::Table::new();
    for (key, value) in table {
        let key = key.extract::<String>().map_err(|_| input(format!("{key}: the key of a dictionary is a text")))?;
        // `None` is an absent key.
        if !value.is_none() {
            found.insert(key, toml_value(&value, depth + 1)?);
        }
    }
    Ok(found)
}

/// Names and numbers in the order of the names.
pub(crate) fn pairs<T>(map: Option<BTreeMap<String, T>>) -> Vec<(String, T)> {
    map.unwrap_or_default().into_iter().collect()
}

/// A value as JSON, for the Python part of the package.
pub(crate) fn json<T: serde::Serialize + ?Sized>(value: &T) -> PyResult<String> {
    serde_json::to_string(value).map_err(crate::error::failed)
}
