//! The command-line option that names a figure of a design.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use peryton_plan::constraint::Metric;

/// Reads the name of a figure; help lists all of them with their descriptions.
pub fn figures() -> impl TypedValueParser<Value = Metric> {
    let named =
        |metric: &Metric| PossibleValue::new(metric.name()).aliases(metric.aliases()).help(metric.description());
    PossibleValuesParser::new(Metric::ALL.iter().map(named)).try_map(|name| name.parse::<Metric>())
}
