//! `peryton resize`: lets a volume that is being served use more or less of a device.

use indicatif::ProgressBar;
use peryton_drive::control::Ask;
use peryton_units::Bytes;
use serde_json::Value;

use crate::{
    failure::Failure,
    in_service::{self, Change, time_left},
    naming::Served,
    output,
};

const CHANGE: Change = Change { state: "resizing", last: "last_resize", done: "emptied", stays: "keeps its size" };

/// Options of `peryton resize`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "More: make the device larger first (the LV, the partition, the file or the disk). A larger fast device has room for more \
of the cache. With a larger device of tiering, single or linear, or slow device of a cache, the volume grows. \
Clients of NBD see the new size when they connect again; docs/operate.md says when a ublk device has it.\n\n\
Less: only for the fast device of caching and partitioned, because every other device holds the only copy of some data. Dirty data beyond \
the new end are written back, and then the rest of the device can be cut off.\n\n\
Requests wait while the volume is opened with its new size, about as long as a restart takes. If the server is killed meanwhile, the \
device has one of the two sizes, and nothing is lost."
)]
pub struct Args {
    #[command(flatten)]
    volume: Served,
    /// The device, by its name in the design
    #[arg(value_name = "DEVICE", required_unless_present = "stop")]
    name: Option<String>,
    /// Bytes of data on the device afterwards [default: all that fit]
    ///
    /// Bytes of data on the device afterwards, like `size` in a design [default: all that fit].
    #[arg(long, value_name = "SIZE", requires = "name")]
    to: Option<Bytes>,
    /// The most bytes written back in a second [default: no bound]
    ///
    /// The most bytes written back in a second, such as 50MiB [default: no bound].
    #[arg(long, value_name = "SIZE", requires = "to")]
    rate: Option<Bytes>,
    /// Return when the new size is in force, and show progress on a terminal
    #[arg(long, requires = "name")]
    wait: bool,
    /// Give up a change that has begun; the device keeps its size
    #[arg(long, conflicts_with = "name")]
    stop: bool,
    /// Print the state as JSON
    #[arg(long)]
    json: bool,
}

/// Asks for a device to be resized, and waits for it on demand.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Some(name) = &args.name else {
        args.volume.ask(&Ask::StopResizing {}, |_| true)?;
        return in_service::stopped(args.json, "the device keeps its size");
    };
    let (size, bytes_per_s) = (args.to.map(|size| size.0), in_service::rate(args.rate)?);
    let ask = Ask::Resize { device: name.clone(), size, bytes_per_s };
    let state = args.volume.value(&ask, CHANGE.state)?;
    if args.wait {
        return wait(args, name, &state);
    }
    if args.json {
        return output::print_json(&state);
    }
    let bytes = |key: &str| Bytes(state[key].as_u64().unwrap_or(0));
    let what = match state["direction"].as_str() {
        Some("shrink") => format!("emptying {} of '{name}'", bytes("bytes")),
        _ => format!("'{name}' is to have {} of data", bytes("to_bytes")),
    };
    output::tell(&format!("{what}; {}\n", in_service::told_where(&args.volume)))
}

/// Waits for the end.
fn wait(args: &Args, name: &str, begun: &Value) -> Result<(), Failure> {
    let bytes = begun["bytes"].as_u64().unwrap_or(0);
    let look = |_: &ProgressBar, state: &Value| (state["emptied_bytes"].as_u64().unwrap_or(0), left(state));
    let last = CHANGE.wait(&args.volume, name, bytes, look)?;
    if args.json {
        return output::print_json(&last);
    }
    let bytes = |key: &str| Bytes(last[key].as_u64().unwrap_or(0));
    let (size, used, volume) = (bytes("size_bytes"), bytes("used_bytes"), bytes("volume_bytes"));
    let exact = size.0;
    output::tell(&format!(
        "'{name}' has {size} of data now, in the first {used} of the device, and the volume has {volume}. If the design has a size for \
         '{name}', set it to {exact}, or remove it\n",
    ))?;
    match last["block_device_keeps_its_size"].as_str() {
        Some(path) => output::tell(&format!(
            "{path} keeps its size until nothing uses it (unmount it) and the server is stopped and started again\n"
        )),
        None => Ok(()),
    }
}

/// A line for the status.
pub fn line(state: &Value) -> Option<String> {
    let name = state["device"].as_str()?;
    let bytes = |key: &str| Bytes(state[key].as_u64().unwrap_or(0));
    let (from, to) = (bytes("from_bytes"), bytes("to_bytes"));
    let emptied = match state["direction"] == "shrink" {
        true => format!("{} of {} emptied, {}", bytes("emptied_bytes"), bytes("bytes"), left(state)),
        false => left(state),
    };
    Some(format!("RESIZING: {name} from {from} to {to} of data: {emptied}"))
}

/// How long it will take.
fn left(state: &Value) -> String {
    match state["state"].as_str() {
        Some("emptying") => time_left(state).unwrap_or_else(|| "beginning".to_owned()),
        _ => "the volume is being opened with the new size".to_owned(),
    }
}
