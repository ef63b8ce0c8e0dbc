//! `peryton format`: makes a new volume on the devices of a design.

use crate::{failure::Failure, output, volume};

/// Options of `peryton format`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// Overwrite devices even if they hold data
    #[arg(long)]
    force: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Formats the devices and prints the result.
pub fn run(args: &Args) -> Result<(), Failure> {
    let spec = args.design.spec_to_serve()?;
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
