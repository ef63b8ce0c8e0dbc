//! What `peryton grow`, `shrink` and `status` have in common: asking the server, waiting, and telling.

use std::{path::Path, thread, time::Duration};

use indicatif::ProgressStyle;
use peryton_drive::control::{self, Ask};
use peryton_units::{Bytes, Nanos};
use serde_json::Value;

use crate::{failure::Failure, output, terminal};

/// How often the progress is looked at.
const EVERY: Duration = Duration::from_millis(300);

/// Gives up what has begun.
pub fn stop(socket: &Path) -> Result<(), Failure> {
    control::ask(socket, &Ask::StopResizing, |_| true)?;
    output::tell("stopped; the device keeps its size\n")
}

/// Begins, and returns the state.
pub fn begin(socket: &Path, ask: &Ask) -> Result<Value, Failure> {
    let mut state = Value::Null;
    control::ask(socket, ask, |mut answer| {
        state = answer["resizing"].take();
        true
    })?;
    Ok(state)
}

/// Where it is said how far it is.
pub fn told_where(socket: &Path) -> String {
    format!("peryton status {} shows how far it is", socket.display())
}

/// Waits for the end.
pub fn wait(socket: &Path, name: &str, begun: &Value, json: bool) -> Result<(), Failure> {
    let bar = terminal::bar(begun["bytes"].as_u64().unwrap_or(0));
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} emptied, {msg}");
    bar.set_style(style.expect("the template is a constant"));
    let last = loop {
        let mut status = Value::Null;
        control::ask(socket, &Ask::Status, |mut answer| {
            status = answer["status"].take();
            true
        })?;
        let state = &status["resizing"];
        if state.is_null() {
            break status["last_resize"].take();
        }
        bar.set_position(state["emptied_bytes"].as_u64().unwrap_or(0));
        bar.set_message(left(state));
        thread::sleep(EVERY);
    };
    bar.finish_and_clear();
    if last["succeeded"] != true {
        let why = last["why"].as_str().unwrap_or("the server has ended it");
        return Err(Failure::failed(format!("'{name}' keeps its size: {why}")));
    }
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
    match (state["state"].as_str(), state["left_s"].as_f64()) {
        (Some("emptying"), Some(seconds)) => format!("{} left", Nanos((seconds.ceil() as u64) * 1_000_000_000)),
        (Some("emptying"), None) => "beginning".to_owned(),
        _ => "the volume is being opened with the new size".to_owned(),
    }
}
