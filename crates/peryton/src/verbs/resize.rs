//! `peryton resize`: lets a volume that is being served use more or less of a device.

use peryton_drive::{Stoppable, control::Ask};
use peryton_units::Bytes;

use crate::{
    failure::Failure,
    in_service::{self, Follow},
    naming::Served,
    output,
    volume::DesignArgs,
};

/// Options of `peryton resize`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "More: make the device larger first (the LV, the partition, the file or the disk). A larger fast device has room for more \
of the cache. A larger slow device of a cache, or a larger device of tiering, single or linear, lets the volume grow. \
Clients of NBD see the new size when they connect again; docs/operate.md says when a ublk device has it.\n\n\
Less: only for the fast device of caching and partitioned, because every other device holds the only copy of some data. Dirty data beyond \
the new end are written back, and then the rest of the device can be cut off.\n\n\
Requests wait while the volume is opened with its new size, about as long as a restart takes. If the server is killed meanwhile, the \
device has one of the two sizes, and nothing is lost."
)]
pub struct Args {
    #[command(flatten)]
    volume: Served,
    /// The device, by its name in the design (not with --stop)
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
    let (volume, json, stays) = (&args.volume, args.json, "keeps its size");
    let Some(device) = &args.name else {
        return in_service::stop(volume, Stoppable::Resize, json, "the device keeps its size");
    };
    let (size, bytes_per_s) = (args.to.map(|size| size.0), in_service::rate(args.rate)?);
    let state = volume.value(&Ask::Resize { device: device.clone(), size, bytes_per_s }, "change")?;
    let bytes = |key: &str| Bytes(state[key].as_u64().unwrap_or(0));
    let begun = match state["direction"].as_str() {
        Some("shrink") => format!("emptying {} of '{device}'", bytes("bytes")),
        _ => format!("'{device}' is to have {} of data", bytes("to_bytes")),
    };
    let follow = Follow { volume, device, done: "emptied", stays, wait: args.wait, json };
    let Some(last) = follow.until_end(&state, &begun, |_, _| {})? else { return Ok(()) };
    if args.json {
        return output::print_json(&last);
    }
    let bytes = |key: &str| Bytes(last[key].as_u64().unwrap_or(0));
    let (size, used, volume) = (bytes("size_bytes"), bytes("used_bytes").at_least(), bytes("volume_bytes"));
    output::tell(&format!(
        "'{device}' has {size} of data now, in the first {used} of the device, and the volume has {volume}\n",
    ))?;
    if let Some(path) = last["block_device_keeps_its_size"].as_str() {
        output::tell(&format!(
            "{path} keeps its size until nothing uses it (unmount it) and the server is stopped and started again\n"
        ))?;
    }
    let design = DesignArgs::new(args.volume.named().clone(), Vec::new()).kept_sizes(&[]);
    design.iter().try_for_each(|kept| output::tell(&format!("{kept}: correct it for simulations of this design\n")))
}
