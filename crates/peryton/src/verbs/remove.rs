//! `peryton remove`: empties the fast device of a cache that is being served, so that it can be pulled.

use peryton_drive::{Stoppable, control::Ask};
use peryton_units::Bytes;

use crate::{
    failure::Failure,
    in_service::{self, Follow},
    naming::Served,
    output,
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
    /// The device, by its name in the design (not with --stop)
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
    let stays = "is not removed, and stays part of the volume";
    let (volume, json) = (&args.volume, args.json);
    let Some(device) = &args.name else {
        return in_service::stop(volume, Stoppable::Remove, json, "the device stays part of the volume");
    };
    let ask = Ask::Remove { device: device.clone(), bytes_per_s: in_service::rate(args.rate)? };
    let state = volume.value(&ask, "change")?;
    let begun = format!("writing back {} of '{device}'", Bytes(state["dirty_bytes"].as_u64().unwrap_or(0)));
    let follow = Follow { volume, device, done: "written back", stays, wait: args.wait, json };
    match follow.until_end(&state, &begun, |_, _| {})? {
        Some(last) if json => output::print_json(&last),
        Some(_) => {
            output::tell(&format!("'{device}' is removed: the volume goes on without it, and it can be taken out\n"))
        }
        None => Ok(()),
    }
}
