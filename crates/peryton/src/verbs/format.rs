//! `peryton format`: makes a new volume on the devices of a design.

use std::path::PathBuf;

use crate::{failure::Failure, output, volume};

/// Options of `peryton format`.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Design file; its devices have a `path`
    #[arg(value_name = "DESIGN.toml")]
    design: PathBuf,
    /// Overwrite devices even if they hold data
    #[arg(long)]
    force: bool,
    /// Set a key of the design, such as devices.ssd.path=/dev/sdb
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Formats the devices and prints the result.
pub fn run(args: &Args) -> Result<(), Failure> {
    let spec = volume::spec(&args.design, &args.set)?;
    volume::in_service(&spec).map_err(|error| Failure::bad_input(format!("{}: {error}", args.design.display())))?;
    let made = peryton_drive::format(&spec, args.force)?;
    if args.json {
        return output::print_json(&made);
    }
    let mut text = format!("volume {} of {} on\n", made.volume, made.size);
    for device in &made.devices {
        text.push_str(&format!("  {} ({}): {}\n", device.name, device.path.display(), device.used));
    }
    output::print(&text)
}
