//! How sizes and times are written in files and reports, for JSON Schema.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

use crate::{Bytes, Nanos};

impl JsonSchema for Bytes {
    fn schema_name() -> Cow<'static, str> {
        "Bytes".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        match generator.contract().is_serialize() {
            true => json_schema!({ "type": "integer", "format": "uint64", "minimum": 0 }),
            false => json_schema!({ "title": "size", "type": ["string", "integer"] }),
        }
    }
}

impl JsonSchema for Nanos {
    fn schema_name() -> Cow<'static, str> {
        "Nanos".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        match generator.contract().is_serialize() {
            true => json_schema!({ "type": "integer", "format": "uint64", "minimum": 0 }),
            false => json_schema!({ "title": "time", "type": "string" }),
        }
    }
}
