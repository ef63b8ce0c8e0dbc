//! `peryton remove`: empties the fast device of a cache that is being served, so that it can be pulled.

use peryton_drive::control::Ask;
use peryton_units::Bytes;
use serde_json::Value;

use crate::{
    failure::Failure,
    in_service::{self, Change, time_left},
    naming::Served,
    output,
};

const CHANGE: Change = Change {
    state: "evacuation",
    last: "last_evacuation",
    done: "written back",
    stays: "is not removed, and stays part of the volume",
};

/// Options of `peryton remove`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Dirty data are written to the slow device while the volume is served, and no further extents enter the cache. Then \
requests wait for a moment, and the volume goes on without the device, also after restarts. The device may be pulled, and its content is \
not used any more: `peryton re-add` takes it back, empty. If the server is killed before the device has left, run the command again."
)]
pub struct Args {
    #[command(flatten)]
    volume: Served,
    /// The device, by its name in the design
    #[arg(value_name = "DEVICE", required_unless_present = "stop")]
    name: Option<String>,
    /// The most bytes written back in a second [default: no bound]
    ///
    /// The most bytes written back in a second, such as 50MiB [default: no bound].
    #[arg(long, value_name = "SIZE", requires = "name")]
    rate: Option<Bytes>,
    /// Return when the device can be pulled, and show progress on a terminal
    #[arg(long, requires = "name")]
    wait: bool,
    /// Give up a removal that has begun; the device stays
    #[arg(long, conflicts_with = "name")]
    stop: bool,
    /// Print the state as JSON
    #[arg(long)]
    json: bool,
}

/// Asks for a device to be removed, and waits for it on demand.
pub fn run(args: &Args) -> Result<(), Failure> {
    let Some(name) = &args.name else {
        args.volume.ask(&Ask::StopRemoving {}, |_| true)?;
        return in_service::stopped(args.json, "the device stays part of the volume");
    };
    let ask = Ask::Remove { device: name.clone(), bytes_per_s: in_service::rate(args.rate)? };
    let state = args.volume.value(&ask, CHANGE.state)?;
    if args.wait {
        return wait(args, name, state["bytes"].as_u64().unwrap_or(0));
    }
    if args.json {
        return output::print_json(&state);
    }
    let bytes = Bytes(state["dirty_bytes"].as_u64().unwrap_or(0));
    output::tell(&format!("writing back {bytes} of '{name}'; {}\n", in_service::told_where(&args.volume)))
}

/// Waits for the end.
fn wait(args: &Args, name: &str, bytes: u64) -> Result<(), Failure> {
    let last = CHANGE.wait(&args.volume, name, bytes, |_, state| {
        (bytes.saturating_sub(state["dirty_bytes"].as_u64().unwrap_or(0)), left(state))
    })?;
    if args.json {
        return output::print_json(&last);
    }
    output::tell(&format!("'{name}' is removed: the volume goes on without it, and it can be taken out\n"))
}

/// A line for the status.
pub fn line(state: &Value) -> Option<String> {
    let name = state["device"].as_str()?;
    let dirty = Bytes(state["dirty_bytes"].as_u64().unwrap_or(0));
    Some(format!("REMOVING: {name}: {dirty} are not written back yet, {}", left(state)))
}

/// How long it will take.
fn left(state: &Value) -> String {
    match state["state"].as_str() {
        Some("leaving") => "and then the device leaves".to_owned(),
        _ => time_left(state).unwrap_or_else(|| "beginning".to_owned()),
    }
}
