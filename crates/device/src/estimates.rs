//! The values of a profile's model that are estimates without a source, and variants of the model with such a value
//! changed.

use peryton_units::{Bytes, Nanos};

use crate::{Model, Origin, Profile};

/// The share by which estimates are varied to find their effect.
pub const OFF_BY: f64 = 0.3;

/// Values that define the device, so that another value would be another device.
const NOT_VARIED: [&str; 6] = ["capacity", "precondition", "ftl", "sector", "planes", "page"];

impl Profile {
    /// The name of its model's table.
    pub fn model_name(&self) -> &'static str {
        match self.model {
            Model::Disk(_) => "disk",
            Model::Flash(_) => "flash",
            Model::Fixed(_) => "fixed",
        }
    }

    /// Whether a value is an estimate, or was fitted only to estimates.
    pub fn is_estimate(&self, path: &str) -> bool {
        let estimated = |path: &str| self.provenance.of(path).is_some_and(|said| said.origin == Origin::Estimated);
        let target = |key: &String| estimated(&format!("data_sheet.{key}")) || estimated(&format!("measured.{key}"));
        estimated(path)
            || self.provenance.of(path).is_some_and(|said| {
                said.origin == Origin::Fitted && !said.fitted_to.is_empty() && said.fitted_to.iter().all(target)
            })
    }

    /// The model's values that are estimates, and the number of all its values.
    pub fn estimated(&self) -> (Vec<&str>, usize) {
        let name = self.model_name();
        let of_model = |path: &str| path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'));
        let all: Vec<&str> = self.provenance.values().map(|(path, _)| path).filter(|path| of_model(path)).collect();
        (all.iter().copied().filter(|path| self.is_estimate(path)).collect(), all.len())
    }

    /// A value of the model (such as `flash.read`) times `factor`, in the form of a design file. `None` for values that
    /// are no quantities, or would make another device.
    pub fn varied(&self, path: &str, factor: f64) -> Option<toml::Value> {
        let name = path.rsplit('.').next().unwrap_or(path);
        if NOT_VARIED.contains(&name) {
            return None;
        }
        let (_, sourced) = self.provenance.values().find(|(known, _)| *known == path)?;
        let value = &sourced.value;
        // An integer may stand for a value with decimals: 30 % of 5 W are 1.5 W.
        let exact = value.as_integer().map(|number| toml::Value::Float(number as f64 * factor));
        let exact = exact.filter(|exact| path == "price_usd" || self.with_value(path, exact.clone()).is_some());
        exact.or_else(|| scaled(value, factor)).filter(|varied| varied != value)
    }

    /// The profile with another value in its model; `None` if the model refuses it.
    fn with_value(&self, path: &str, mut value: toml::Value) -> Option<Profile> {
        let keys = path.strip_prefix(self.model_name())?.strip_prefix('.')?;
        for key in keys.rsplit('.') {
            value = toml::Value::Table(toml::Table::from_iter([(key.to_owned(), value)]));
        }
        self.clone().with_model(value.as_table()?).ok()
    }

    /// The profile with that value varied; `None` if the model refuses it.
    pub fn with_varied(&self, path: &str, factor: f64) -> Option<Profile> {
        let profile = self.with_value(path, self.varied(path, factor)?)?;
        profile.build(Some(Bytes::mib(64).min(profile.capacity)), 1).ok()?;
        Some(profile)
    }
}

fn scaled(value: &toml::Value, factor: f64) -> Option<toml::Value> {
    Some(match value {
        toml::Value::Integer(number) => {
            let by = (*number as f64 * factor).round() as i64;
            toml::Value::Integer(if *number > 0 { by.max(1) } else { by })
        }
        toml::Value::Float(number) => toml::Value::Float(number * factor),
        toml::Value::String(text) => {
            if let Ok(time) = text.parse::<Nanos>() {
                toml::Value::String(format!("{}ns", (time.0 as f64 * factor).round() as u64))
            } else {
                let size = text.parse::<Bytes>().ok()?;
                // The size of memory is rounded to whole pages.
                let pages = (size.0 as f64 * factor / 4096.0).round().max(1.0) as u64;
                toml::Value::String(format!("{}B", pages * 4096))
            }
        }
        toml::Value::Table(table) => {
            let each = table.iter().map(|(key, value)| Some((key.clone(), scaled(value, factor)?)));
            toml::Value::Table(each.collect::<Option<_>>()?)
        }
        _ => return None,
    })
}
