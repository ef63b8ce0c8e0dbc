//! `peryton disconnect`: removes the block device of a volume that nothing serves.

use peryton_drive::remove_block_device;
use serde_json::json;

use crate::{failure::Failure, output};

/// Options of `peryton disconnect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A block device outlives its server, so that the next one can take it over (peryton serve --ublk). The verb removes a device that waits for a server: \
its requests fail from then on, and a mounted file system loses its unflushed writes.")]
pub struct Args {
    /// The volume, by its name, or the block device, such as /dev/ublkb0
    #[arg(value_name = "NAME|DEVICE")]
    which: String,
    /// Print what was removed as JSON
    #[arg(long)]
    json: bool,
}

/// Removes the block device.
pub fn run(args: &Args) -> Result<(), Failure> {
    let device = remove_block_device(&args.which)?;
    if args.json {
        return output::print_json(&json!({
            "path": device.path(),
            "name": device.name,
            "volume": format!("{:032x}", device.volume),
            "design": device.design,
        }));
    }
    output::tell(&format!("{} ({}) is removed\n", device.path(), device.name))
}
