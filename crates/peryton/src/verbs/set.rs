//! `peryton set`: changes settings of a volume that is being served.

use peryton_drive::control::Ask;
use serde_json::Value;

use crate::{completing, failure::Failure, naming::Served, output};

/// Options of `peryton set`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    volume: Served,
    /// Keys of the design, such as placement.max_moves=4
    ///
    /// Keys of the design file, such as placement.max_moves=4; they stay in force when the volume is served again.
    #[arg(value_name = "KEY=VALUE", required_unless_present = "unset", add = completing::live_key_value())]
    settings: Vec<String>,
    /// Restore the design's value of a key
    #[arg(long, value_name = "KEY", add = completing::live_key())]
    unset: Vec<String>,
    /// Print all settings in force as JSON
    #[arg(long)]
    json: bool,
}

/// Changes the settings and prints those in force.
pub fn run(args: Args) -> Result<(), Failure> {
    let set = args.volume.value(&Ask::Set { settings: args.settings, unset: args.unset }, "settings")?;
    if args.json {
        return output::print_json(&set);
    }
    let lines: Vec<&str> = set.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if lines.is_empty() {
        return output::tell("all settings are those of the design\n");
    }
    output::tell(&format!("{}\n", lines.join("\n")))
}
