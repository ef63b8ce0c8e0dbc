//! `peryton schema`: prints the JSON Schema of reports.

use crate::{failure::Failure, output};

/// Options of `peryton schema`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The schema (draft 2020-12) describes what `peryton sim --json` writes: a list with an object for each design. A figure that does
not apply is absent, never null. Later versions may add figures.")]
pub struct Args {
    /// Describe a single report, as the library and the package for Python give it, in place of the list
    #[arg(long)]
    one: bool,
}

/// Prints the schema.
pub fn run(args: &Args) -> Result<(), Failure> {
    output::print_json(&if args.one { peryton_sim::report_schema() } else { peryton_sim::reports_schema() })
}
