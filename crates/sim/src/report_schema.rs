//! The JSON Schema of reports, generated from their types.

use schemars::{JsonSchema, Schema, generate::SchemaSettings};
use serde_json::{Map, Value};

use crate::{Report, comment::without_links};

/// The schema (draft 2020-12) of a report as JSON. A figure that does not apply is absent, so it is not required, and never
/// null. Later versions may add figures, so unknown ones are allowed.
///
/// ```
/// let schema = peryton_sim::report_schema();
/// assert_eq!(schema["properties"]["simulated_s"]["type"], "number");
/// let required = schema["required"].as_array().unwrap();
/// assert!(required.contains(&"requests".into()) && !required.contains(&"fast_hit_ratio".into()));
/// ```
pub fn report_schema() -> Value {
    schema_of::<Report>("report", "A report of a simulation by Peryton")
}

/// The schema of what `peryton sim --json` writes: a list with the report of each design.
pub fn reports_schema() -> Value {
    schema_of::<Vec<Report>>("reports", "The reports that peryton sim --json writes, one for each design")
}

/// The version of the schemas: that of the package.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The schema of another type that is reported as JSON, in the same manner. `$id` has its name and the version of the schemas.
pub fn schema_of<T: JsonSchema>(name: &str, title: &str) -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema: Schema = generator.into_root_schema_for::<T>();
    schema.insert("$id".to_owned(), format!("urn:peryton:{name}:{VERSION}").into());
    schema.insert("version".to_owned(), VERSION.into());
    schema.insert("title".to_owned(), title.into());
    let mut schema = schema.to_value();
    tidy(&mut schema);
    schema
}

/// Makes optional figures never null, and descriptions text for people.
fn tidy(value: &mut Value) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Object(object) => {
            let required = object.get("required").cloned().unwrap_or_default();
            let is_required = |name: &str| required.as_array().is_some_and(|names| names.iter().any(|one| one == name));
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                for (name, property) in properties.iter_mut() {
                    if let (false, Value::Object(property)) = (is_required(name), property) {
                        never_null(property);
                    }
                }
            }
            if let Some(Value::String(text)) = object.get_mut("description") {
                *text = without_links(text);
            }
            object.values_mut().for_each(tidy);
        }
        _ => {}
    }
}

fn never_null(property: &mut Map<String, Value>) {
    if let Some(Value::Array(types)) = property.get_mut("type") {
        types.retain(|one| one != "null");
        if let [one] = types.as_slice() {
            let one = one.clone();
            property.insert("type".to_owned(), one);
        }
    }
    // A type that has a definition is `anyOf: [{ $ref }, { type: null }]`.
    if let Some(Value::Array(choices)) = property.get_mut("anyOf") {
        choices.retain(|choice| choice["type"] != "null");
        if let [Value::Object(one)] = choices.as_slice() {
            let one = one.clone();
            property.remove("anyOf");
            property.extend(one);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_absent_is_never_null() {
        let schema = report_schema();
        let properties = schema["properties"].as_object().unwrap();
        assert_eq!(properties["iops"]["type"], "number");
        assert_eq!(properties["moves"]["$ref"], "#/$defs/MoveReport");
        assert!(properties["devices"]["additionalProperties"]["$ref"].is_string(), "{}", properties["devices"]);
        assert!(properties.contains_key("lifetime_years_low"), "what is flattened is there");
        let required = schema["required"].as_array().unwrap();
        for (name, property) in properties {
            assert!(property["description"].is_string(), "{name} has no description");
            assert!(required.iter().any(|one| one == name) || property["type"] != "null", "{name}");
        }
    }
}
