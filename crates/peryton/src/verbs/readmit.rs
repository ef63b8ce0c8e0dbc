//! `peryton readmit`: returns a device that was given up to its volume.

use serde_json::json;

use super::check;
use crate::{failure::Failure, output, volume};

/// Options of `peryton readmit`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The device must have everything that it had when it was given up; an older copy is refused. What was \
written meanwhile stays as it is. If the device cannot be taken back, nothing is changed."
)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// The device, by its name in the design
    #[arg(value_name = "NAME")]
    name: String,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Readmits the device and prints the findings.
pub fn run(args: &Args) -> Result<(), Failure> {
    let spec = args.design.spec(&[])?;
    let done = peryton_drive::readmit(&spec, &args.name).map_err(Failure::failed)?;
    if args.json {
        let mut value = check::opened_json(&done.opened);
        value["restored_extents"] = json!(done.restored);
        return output::print_json(&value);
    }
    let (name, restored, lost) = (&args.name, done.restored, done.opened.lost);
    output::tell(&format!("'{name}' is part of the volume again: {restored} extents restored, {lost} stay lost\n"))
}
