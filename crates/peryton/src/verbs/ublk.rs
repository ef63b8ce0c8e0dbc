//! `peryton ublk`: lists the block devices of this machine that are volumes, and removes those that nobody serves.

use peryton_drive::{BlockDevice, UblkError, block_device, block_devices, remove_block_device};
use serde_json::{Value, json};

use crate::{failure::Failure, output, table};

/// The verbs of `peryton ublk`.
#[derive(Debug, clap::Subcommand)]
pub enum Verb {
    /// List the block devices: which volume each is, and whether it is served or waits for a server
    List(ListArgs),
    /// Remove a block device that waits for a server. Its requests fail from then on, and a file system that is mounted on it loses
    /// what it had not flushed
    Remove(RemoveArgs),
    /// Print what udev has to know of a block device, if it is a volume: the kernel's mark is looked at, not only a file
    Name(NameArgs),
}

/// Options of `peryton ublk name`.
#[derive(Debug, clap::Args)]
pub struct NameArgs {
    /// The kernel's name of the device, as ublkb0
    #[arg(value_name = "KERNEL_NAME")]
    which: String,
}

/// Options of `peryton ublk list`.
#[derive(Debug, clap::Args)]
pub struct ListArgs {
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// Options of `peryton ublk remove`.
#[derive(Debug, clap::Args)]
pub struct RemoveArgs {
    /// The block device, as /dev/ublkb0, or the name of its volume
    #[arg(value_name = "DEVICE|NAME")]
    which: String,
    /// Print what was removed as JSON
    #[arg(long)]
    json: bool,
}

/// Runs the verb.
pub fn run(verb: &Verb) -> Result<(), Failure> {
    match verb {
        Verb::List(args) => {
            let devices = block_devices().map_err(refused)?;
            if args.json { output::print_json(&all(&devices)) } else { output::tell(&shown(&devices)) }
        }
        Verb::Name(args) => name(args),
        Verb::Remove(args) => {
            let device = remove_block_device(&args.which).map_err(refused)?;
            if args.json {
                output::print_json(&about(&device))
            } else {
                output::tell(&format!("{} ({}) is removed\n", device.path(), device.name))
            }
        }
    }
}

/// Lines of `KEY=value`, as udev's `IMPORT{program}` reads them.
fn name(args: &NameArgs) -> Result<(), Failure> {
    let device = block_device(&args.which).map_err(refused)?;
    let device = device.ok_or_else(|| Failure::failed(format!("{}: is no volume of Peryton", args.which)))?;
    output::tell(&format!("PERYTON_NAME={}\nPERYTON_VOLUME={:032x}\n", device.name, device.volume))
}

fn refused(error: UblkError) -> Failure {
    match error {
        UblkError::System { .. } => Failure::failed(error),
        _ => Failure::bad_input(error),
    }
}

fn about(device: &BlockDevice) -> Value {
    json!({
        "path": device.path(),
        "name": device.name,
        "state": device.state,
        "pid": device.pid,
        "volume": format!("{:032x}", device.volume),
        "design": device.design,
    })
}

fn all(devices: &[BlockDevice]) -> Vec<Value> {
    devices.iter().map(about).collect()
}

fn shown(devices: &[BlockDevice]) -> String {
    let mut rows = table::text(&["device", "volume", "state", "process", "design"]);
    for device in devices {
        rows.add_row(vec![
            device.path(),
            device.name.clone(),
            device.state.to_owned(),
            device.pid.map_or(table::NONE.to_owned(), |pid| pid.to_string()),
            device.design.display().to_string(),
        ]);
    }
    rows.shown()
}
