//! `peryton resize`: lets a volume that is being served use more or less of a device.

use std::path::Path;

use peryton_drive::{Stoppable, control::Ask};
use peryton_sim::DesignText;
use peryton_units::Bytes;
use toml::{Table, Value};

use crate::{
    failure::Failure,
    in_service::{self, Follow},
    naming::Served,
    output,
};

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
    let (volume, json, stays) = (&args.volume, args.json, "keeps its size");
    let Some(device) = &args.name else {
        return in_service::stop(volume, Stoppable::Resize, json, "the device keeps its size");
    };
    sizes_are_left_to_the_devices(volume.design(), device)?;
    let (size, bytes_per_s) = (args.to.map(|size| size.0), in_service::rate(args.rate)?);
    let state = volume.value(&Ask::Resize { device: device.clone(), size, bytes_per_s }, "change")?;
    let bytes = |key: &str| Bytes(state[key].as_u64().unwrap_or(0));
    let begun = match state["direction"].as_str() {
        Some("shrink") => format!("emptying {} of '{device}'", bytes("bytes")),
        _ => format!("'{device}' is to have {} of data", bytes("to_bytes")),
    };
    let follow = Follow { volume, device, done: "emptied", stays, wait: args.wait, json };
    let Some(last) = follow.until_end(&state, &begun, |_, _| {})? else { return Ok(()) };
    let bytes = |key: &str| Bytes(last[key].as_u64().unwrap_or(0));
    let (size, used, volume) = (bytes("size_bytes"), bytes("used_bytes"), bytes("volume_bytes"));
    output::tell(&format!(
        "'{device}' has {size} of data now, in the first {used} of the device, and the volume has {volume}\n",
    ))?;
    match last["block_device_keeps_its_size"].as_str() {
        Some(path) => output::tell(&format!(
            "{path} keeps its size until nothing uses it (unmount it) and the server is stopped and started again\n"
        )),
        None => Ok(()),
    }
}

/// A size in the design would contradict the devices after the change, and the volume would not start again.
fn sizes_are_left_to_the_devices(design: &Path, device: &str) -> Result<(), Failure> {
    let text = DesignText::read(design)?;
    let table: Table = text.text().parse().map_err(|error| Failure::bad_input(format!("{}: {error}", text.name())))?;
    let has_size = |of: Option<&Value>| of.is_some_and(|of| of.get("size").is_some());
    let key = match table.get("devices").and_then(|devices| devices.get(device)) {
        of_device @ Some(_) if has_size(of_device) => format!("devices.{device}.size"),
        _ if has_size(table.get("volume")) => "volume.size".to_owned(),
        _ => return Ok(()),
    };
    let (name, why) = (text.name(), "the volume would not start with it after the change");
    Err(Failure::bad_input(format!(
        "{name}: {key}: {why}: remove it from the design; the devices say how large they are"
    )))
}
