//! The keys of `[devices.NAME.model]`: the parameters of device models, from the types that they are read into.

use peryton_device::{DiskParameters, fixed::FixedParameters, flash::FlashParameters};
use peryton_units::{Bytes, Nanos};
use schemars::{JsonSchema, generate::SchemaSettings};
use serde_json::Value;

/// A parameter of a device model, which a design may give in place of the profile's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelKey {
    /// The model: `disk`, `flash` or `fixed`.
    pub model: &'static str,
    /// Its dotted path below `devices.NAME.model`; `[]` stands for a list of tables.
    pub path: String,
    /// The type of its value, or the words that it takes.
    pub kind: String,
    /// What holds if neither the profile nor the design gives it; `None` if every profile has to, or if nothing does.
    pub default: Option<String>,
    /// What it is, in sentences.
    pub about: String,
}

/// The parameters of all device models.
///
/// ```
/// let rpm = peryton_sim::model_keys().into_iter().find(|key| key.path == "rpm").unwrap();
/// assert_eq!((rpm.model, rpm.kind.as_str()), ("disk", "number"));
/// ```
pub fn model_keys() -> Vec<ModelKey> {
    let mut keys = of::<DiskParameters>("disk");
    keys.extend(of::<FlashParameters>("flash"));
    keys.extend(of::<FixedParameters>("fixed"));
    keys
}

fn of<T: JsonSchema>(model: &'static str) -> Vec<ModelKey> {
    let generator = SchemaSettings::draft2020_12().into_generator();
    let root = generator.into_root_schema_for::<T>().to_value();
    let mut keys = Vec::new();
    below(&root, &root, "", model, &mut keys);
    keys
}

/// What a schema refers to; itself if it refers to nothing.
fn resolved<'a>(root: &'a Value, schema: &'a Value) -> &'a Value {
    let options = schema["anyOf"].as_array().into_iter().flatten();
    let option = options.into_iter().find(|one| one["type"] != "null");
    let schema = option.unwrap_or(schema);
    match schema["$ref"].as_str().and_then(|place| root.pointer(place.strip_prefix('#')?)) {
        Some(definition) => definition,
        None => schema,
    }
}

fn below(root: &Value, table: &Value, path: &str, model: &'static str, keys: &mut Vec<ModelKey>) {
    for (name, property) in table["properties"].as_object().into_iter().flatten() {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        let target = resolved(root, property);
        let items = resolved(root, &target["items"]);
        if target["properties"].is_object() {
            below(root, target, &path, model, keys);
        } else if items["properties"].is_object() {
            below(root, items, &format!("{path}[]"), model, keys);
        } else {
            let about = property["description"].as_str().or(target["description"].as_str()).unwrap_or_default();
            let about = crate::comment::without_links(about);
            keys.push(ModelKey { model, path, kind: kind(root, target), default: default(property, target), about });
        }
    }
}

/// The type of a value for people.
fn kind(root: &Value, schema: &Value) -> String {
    if let Some(title) = schema["title"].as_str().filter(|title| ["time", "size"].contains(title)) {
        return title.to_owned();
    }
    let words: Vec<&str> = match (schema["enum"].as_array(), schema["oneOf"].as_array()) {
        (Some(words), _) => words.iter().filter_map(Value::as_str).collect(),
        (_, Some(choices)) => choices
            .iter()
            .flat_map(|choice| {
                let listed = choice["enum"].as_array().into_iter().flatten();
                listed.chain(std::iter::once(&choice["const"])).filter_map(Value::as_str)
            })
            .collect(),
        (None, None) => Vec::new(),
    };
    if !words.is_empty() {
        return words.join(", ");
    }
    let of = |name: &str| match name {
        "integer" => "whole number".to_owned(),
        "boolean" => "true or false".to_owned(),
        "string" => "text".to_owned(),
        "array" => match (schema["prefixItems"].as_array(), &schema["items"]) {
            (Some(parts), _) => {
                let parts: Vec<String> = parts.iter().map(|part| kind(root, resolved(root, part))).collect();
                format!("pair of {}", parts.join(" and "))
            }
            (None, items) => {
                let one = kind(root, resolved(root, items));
                // In the plural.
                format!("list of {}", one.strip_prefix("pair ").map_or(format!("{one}s"), |of| format!("pairs {of}")))
            }
        },
        other => other.to_owned(),
    };
    match &schema["type"] {
        Value::String(name) => of(name),
        Value::Array(names) => {
            let names: Vec<String> = names.iter().filter_map(Value::as_str).filter(|n| *n != "null").map(of).collect();
            names.join(" or ")
        }
        _ => "any value".to_owned(),
    }
}

fn default(property: &Value, target: &Value) -> Option<String> {
    let value = property.get("default").filter(|value| !value.is_null())?;
    let shown = match (target["title"].as_str(), value.as_u64()) {
        (Some("time"), Some(nanos)) => Nanos(nanos).to_string(),
        // The largest size stands for no bound.
        (Some("size"), Some(u64::MAX)) => "no bound".to_owned(),
        (Some("size"), Some(bytes)) => Bytes(bytes).to_string(),
        _ => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
    };
    Some(shown)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fear: a parameter that profiles use is not in the reference.
    #[test]
    fn every_value_of_every_shipped_profile_is_a_key() {
        fn paths(table: &toml::Table, before: &str, into: &mut Vec<String>) {
            for (key, value) in table {
                let path = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
                match value {
                    toml::Value::Table(table) => paths(table, &path, into),
                    toml::Value::Array(items) if items.iter().all(toml::Value::is_table) && !items.is_empty() => {
                        items
                            .iter()
                            .filter_map(toml::Value::as_table)
                            .for_each(|t| paths(t, &format!("{path}[]"), into));
                    }
                    _ => into.push(path),
                }
            }
        }
        let keys = model_keys();
        let mut seen = 0;
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../device/profiles");
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let file: toml::Table = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            // The members of a family say what differs.
            let members = file.get("member").and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::values);
            for said in std::iter::once(&file).chain(members.filter_map(toml::Value::as_table)) {
                for model in ["disk", "flash", "fixed"] {
                    let Some(table) = said.get(model).and_then(toml::Value::as_table) else { continue };
                    let mut found = Vec::new();
                    paths(table, "", &mut found);
                    seen += found.len();
                    for value in found {
                        let known = keys.iter().any(|key| key.model == model && key.path == value);
                        assert!(known, "{}: {model}.{value}", path.display());
                    }
                }
            }
        }
        assert!(seen > 500, "{seen} values");
    }

    #[test]
    fn every_parameter_says_what_it_is() {
        for key in model_keys() {
            assert!(key.about.len() > 8 && !key.about.contains("[`"), "{}.{}: '{}'", key.model, key.path, key.about);
            assert!(!key.kind.is_empty() && key.kind != "any value" && key.kind != "object", "{key:?}");
        }
    }
}
