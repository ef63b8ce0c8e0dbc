//! What `peryton grow`, `shrink` and `status` have in common: asking the server, waiting, and telling.

use std::path::Path;

use indicatif::ProgressBar;
use peryton_drive::control::{self, Ask};
use peryton_units::Bytes;
use serde_json::Value;

use crate::{
    failure::Failure,
    in_service::{self, Change, time_left},
    output,
};

const CHANGE: Change = Change { state: "resizing", last: "last_resize", done: "emptied", stays: "keeps its size" };

/// Gives up what has begun.
pub fn stop(socket: &Path) -> Result<(), Failure> {
    control::ask(socket, &Ask::StopResizing, |_| true)?;
    output::tell("stopped; the device keeps its size\n")
}

/// Begins, and returns the state.
pub fn begin(socket: &Path, ask: &Ask) -> Result<Value, Failure> {
    in_service::ask(socket, ask, CHANGE.state)
}

/// Waits for the end.
pub fn wait(socket: &Path, name: &str, begun: &Value, json: bool) -> Result<(), Failure> {
    let bytes = begun["bytes"].as_u64().unwrap_or(0);
    let look = |_: &ProgressBar, state: &Value| (state["emptied_bytes"].as_u64().unwrap_or(0), left(state));
    let last = CHANGE.wait(socket, name, bytes, look)?;
    if json {
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
    let what = if state["direction"] == "shrink" { "SHRINKING" } else { "GROWING" };
    let emptied = match state["direction"] == "shrink" {
        true => format!(": {} of {} emptied, {}", bytes("emptied_bytes"), bytes("bytes"), left(state)),
        false => format!(": {}", left(state)),
    };
    Some(format!("{what}: {name} from {from} to {to} of data{emptied}"))
}

/// How long it will take.
fn left(state: &Value) -> String {
    match state["state"].as_str() {
        Some("emptying") => time_left(state).unwrap_or_else(|| "beginning".to_owned()),
        _ => "the volume is being opened with the new size".to_owned(),
    }
}
