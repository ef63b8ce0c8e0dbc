//! `peryton grow`: lets a volume that is being served use more of a device, after that was made larger.

use std::path::PathBuf;

use peryton_drive::control::Ask;
use peryton_units::Bytes;

use crate::{failure::Failure, in_service, output, resizing};

/// Options of `peryton grow`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Make the device larger first: the LV, the partition, the file or the disk. A larger fast device has room for more of the \
cache; in tiering, single and linear the volume becomes larger with the device, as it does with a larger slow device of a cache. \
Clients of NBD see the new size when they connect again, and a block device of ublk when the server was stopped while nothing used it. Requests wait \
while the volume is opened with its new size, which takes as long as to stop and start it. If the server is killed meanwhile, \
the volume has one of the two sizes and all data."
)]
pub struct Args {
    /// The control socket of the volume
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// The device that was made larger, by its name in the design
    #[arg(value_name = "NAME", required_unless_present = "stop")]
    name: Option<String>,
    /// How much data it is to have, as `size` in a design; as much as there is room for if not given
    #[arg(long, value_name = "SIZE", requires = "name")]
    to: Option<Bytes>,
    /// Return when the new size is in force
    #[arg(long, requires = "name")]
    wait: bool,
    /// Give up what has begun; the device keeps its size
    #[arg(long, conflicts_with = "name")]
    stop: bool,
    /// Print the state as JSON
    #[arg(long)]
    json: bool,
}

/// Asks for a device to be grown, and waits for it on demand.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Some(name) = &args.name else { return resizing::stop(&args.socket) };
    let ask = Ask::Grow { device: name.clone(), size: args.to.map(|size| size.0) };
    let state = resizing::begin(&args.socket, &ask)?;
    if args.wait {
        return resizing::wait(&args.socket, name, &state, args.json);
    }
    if args.json {
        return output::print_json(&state);
    }
    let to = Bytes(state["to_bytes"].as_u64().unwrap_or(0));
    output::tell(&format!("'{name}' is to have {to} of data; {}\n", in_service::told_where(&args.socket)))
}
