//! `peryton schema`: prints the JSON Schema of reports.

use peryton_drive::PathHealth;
use serde_json::Value;

use crate::{failure::Failure, output};

/// Options of `peryton schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The schema (draft 2020-12) describes the output of `peryton sim --json`: a list with an object for each design. A figure that \
does not apply is absent, never null. Later versions may add figures. Further definitions: PathHealth is the output of peryton health for a path, and FleetPlan that of peryton plan --fleet.")]
pub struct Args {
    /// Describe a single report in place of the list
    ///
    /// Describe a single report, as the library and the package for Python give it, in place of the list.
    #[arg(long)]
    one: bool,
    /// Describe what peryton health --json writes
    ///
    /// Describe what `peryton health --json` writes: a list with an object for each path.
    #[arg(long, conflicts_with = "one")]
    health: bool,
    /// Describe what peryton plan --fleet --json writes
    #[arg(long, conflicts_with_all = ["one", "health"])]
    fleet: bool,
}

/// What is bought for many volumes.
fn fleet() -> Value {
    peryton_sim::schema_of::<peryton_plan::fleet::FleetPlan>("fleet", "What peryton plan --fleet --json writes")
}

/// What there is beside reports, with their names.
fn others() -> [(&'static str, Value); 2] {
    let health = peryton_sim::schema_of::<PathHealth>("path-health", "What peryton health --json writes for a path");
    [("PathHealth", health), ("FleetPlan", fleet())]
}

/// The schema of reports, with what the other verbs write among its definitions.
fn all() -> Value {
    let mut all = peryton_sim::reports_schema();
    for (name, mut schema) in others() {
        let Some(own) = schema.as_object_mut() else { continue };
        for of_a_whole_schema in ["$schema", "$id", "version"] {
            own.remove(of_a_whole_schema);
        }
        let more = own.remove("$defs");
        if let Some(definitions) = all["$defs"].as_object_mut() {
            definitions.insert(name.to_owned(), schema);
            if let Some(Value::Object(more)) = more {
                definitions.extend(more);
            }
        }
    }
    all
}

/// Prints the schema.
pub fn run(args: &Args) -> Result<(), Failure> {
    output::print_json(&match args {
        Args { one: true, .. } => peryton_sim::report_schema(),
        Args { fleet: true, .. } => fleet(),
        Args { health: true, .. } => {
            peryton_sim::schema_of::<Vec<PathHealth>>("health", "What peryton health --json writes, for each path")
        }
        Args { .. } => all(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_types_have_one_name() {
        let whole = all();
        let schemas = others().into_iter().map(|(_, schema)| schema).chain([peryton_sim::reports_schema()]);
        for schema in schemas {
            for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
                assert_eq!(whole["$defs"][name], *definition, "two types are called {name}");
            }
        }
    }
}
