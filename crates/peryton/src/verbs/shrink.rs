//! `peryton shrink`: lets a volume that is being served use less of its fast device.

use std::path::PathBuf;

use peryton_drive::control::Ask;
use peryton_units::Bytes;

use crate::{failure::Failure, in_service, output, resizing};

/// Options of `peryton shrink`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "What the fast device has beyond its new end is written home if it is dirty, and given up; then the volume uses only the \
first part of the device, and the rest can be cut off. Only the fast device of caching and partitioned can shrink: all others hold \
parts of the volume that are nowhere else. If the server is killed meanwhile, the device has one of the two sizes, and nothing is \
lost; give the command again if it is the old one."
)]
pub struct Args {
    /// The control socket of the volume
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// The device, by its name in the design
    #[arg(value_name = "NAME", required_unless_present = "stop", requires = "to")]
    name: Option<String>,
    /// How much data it is to have, as `size` in a design
    #[arg(long, value_name = "SIZE", requires = "name")]
    to: Option<Bytes>,
    /// Write at most so much home in a second, such as 50MiB; without a bound if not given
    #[arg(long, value_name = "SIZE", requires = "name")]
    rate: Option<Bytes>,
    /// Return when the new size is in force, and show how far it is on a terminal
    #[arg(long, requires = "name")]
    wait: bool,
    /// Give up what has begun; the device keeps its size
    #[arg(long, conflicts_with = "name")]
    stop: bool,
    /// Print the state as JSON
    #[arg(long)]
    json: bool,
}

/// Asks for a device to be shrunk, and waits for it on demand.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (Some(name), Some(to)) = (&args.name, args.to) else { return resizing::stop(&args.socket) };
    let ask = Ask::Shrink { device: name.clone(), size: to.0, bytes_per_s: in_service::rate(args.rate)? };
    let state = resizing::begin(&args.socket, &ask)?;
    if args.wait {
        return resizing::wait(&args.socket, name, &state, args.json);
    }
    if args.json {
        return output::print_json(&state);
    }
    let bytes = Bytes(state["bytes"].as_u64().unwrap_or(0));
    output::tell(&format!("emptying {bytes} of '{name}'; {}\n", in_service::told_where(&args.socket)))
}
