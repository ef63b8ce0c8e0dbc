//! What a description of a space has. Its values are read one by one, so that an error can say what belongs there.

use serde::{Deserialize, de::DeserializeOwned};
use toml::Value;

use super::axis::Scale;
use crate::document::one_line;

/// A description. All but `set`, `keys` and `draw` is one value or a list of them, and `fit` is one.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    pub(super) designs: Value,
    pub(super) traces: Value,
    pub(super) replay: Option<Value>,
    pub(super) speed: Option<Value>,
    pub(super) new: Option<Value>,
    pub(super) warm_up_requests: Option<Value>,
    pub(super) limit: Option<Value>,
    pub(super) sample: Option<Value>,
    pub(super) fit: Option<Value>,
    pub(super) set: Option<Value>,
    pub(super) keys: Option<Value>,
    pub(super) draw: Option<Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Draw {
    pub(super) by: By,
    pub(super) points: Option<usize>,
    pub(super) seed: Option<u64>,
}

#[derive(Clone, Copy, Deserialize, PartialEq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum By {
    Grid,
    Random,
    LatinHypercube,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenTrace {
    pub(super) files: Value,
    pub(super) name: Option<String>,
    pub(super) format: Option<String>,
    #[serde(default)]
    pub(super) skip_bad: bool,
    pub(super) columns: Option<String>,
    pub(super) unit: Option<String>,
    pub(super) volumes: Option<Vec<Value>>,
    #[serde(default)]
    pub(super) concatenate: bool,
    #[serde(default)]
    pub(super) files_as_volumes: bool,
    #[serde(default)]
    pub(super) sort: bool,
    #[serde(default)]
    pub(super) spread: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WrittenRange {
    pub(super) from: Value,
    pub(super) to: Value,
    pub(super) step: Option<Value>,
    pub(super) points: Option<usize>,
    #[serde(default)]
    pub(super) scale: Scale,
}

/// A kind of value: what to give, and how it is read.
pub(super) struct Kind<T> {
    pub(super) give: &'static str,
    pub(super) read: fn(&Value) -> Option<T>,
}

pub(super) const WHOLE: Kind<u64> =
    Kind { give: "a whole number, 0 or more", read: |value| value.as_integer()?.try_into().ok() };
pub(super) const SPEED: Kind<f64> = Kind { give: "a number above 0, such as 2", read: number };
pub(super) const SHARE: Kind<f64> = Kind { give: "a number above 0 and up to 1, such as 0.01", read: number };
pub(super) const YES_NO: Kind<bool> = Kind { give: "true or false", read: Value::as_bool };
pub(super) const REPLAY: Kind<String> = Kind { give: "timed, sync, or qd=N", read: text };
pub(super) const FIT: Kind<String> = Kind { give: "error, wrap or skip", read: text };
pub(super) const FILE: Kind<String> = Kind { give: "the path of a file", read: text };

fn number(value: &Value) -> Option<f64> {
    value.as_float().or_else(|| value.as_integer().map(|whole| whole as f64))
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

impl<T> Kind<T> {
    pub(super) fn one(&self, value: &Value) -> Result<T, String> {
        (self.read)(value).ok_or_else(|| format!("'{}': give {}", shown(value), self.give))
    }

    /// One or several, at least one.
    pub(super) fn several(&self, value: &Value) -> Result<Vec<T>, String> {
        match value {
            Value::Array(values) if values.is_empty() => {
                Err(format!("an empty list: there is nothing to simulate: give {}", self.give))
            }
            Value::Array(values) => values.iter().map(|value| self.one(value)).collect(),
            one => Ok(vec![self.one(one).map_err(|problem| format!("{problem}, or a list of such values"))?]),
        }
    }
}

/// The values of a list, or the only one.
pub(super) fn list(value: Value) -> Vec<Value> {
    match value {
        Value::Array(values) => values,
        one => vec![one],
    }
}

/// A table with these keys; `has` says which keys there are.
pub(super) fn table<T: DeserializeOwned>(value: Value, has: &str) -> Result<T, String> {
    if !value.is_table() {
        return Err(format!("'{}': {has}", shown(&value)));
    }
    value.try_into().map_err(|error: toml::de::Error| format!("{}: {has}", one_line(&error.to_string())))
}

/// A value as it was written, but for a text's quotes.
fn shown(value: &Value) -> String {
    one_line(&value.as_str().map_or_else(|| value.to_string(), str::to_owned))
}
