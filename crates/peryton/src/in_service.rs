//! What the verbs have in common that change the devices of a volume that is being served: waiting, and telling.

use std::{
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use indicatif::{ProgressBar, ProgressStyle};
use peryton_drive::{Stoppable, control::Ask};
use peryton_units::{Bytes, Nanos};
use serde_json::{Value, json};

use crate::{failure::Failure, naming::Served, output, terminal};

/// How often the progress is looked at.
pub const EVERY: Duration = Duration::from_millis(300);

/// How a verb is followed that has begun a change.
#[derive(Clone, Copy, Debug)]
pub struct Follow<'a> {
    pub volume: &'a Served,
    /// The name of the device.
    pub device: &'a str,
    /// What has happened to the bytes that the bar counts.
    pub done: &'static str,
    /// What stays as it was if it fails, after the device's name.
    pub stays: &'static str,
    pub wait: bool,
    pub json: bool,
}

/// A bound in bytes per second as the server takes it.
pub fn rate(rate: Option<Bytes>) -> Result<Option<u64>, Failure> {
    match rate {
        Some(Bytes::ZERO) => Err(Failure::bad_input("--rate 0: give at least 1 byte in a second, or leave it out")),
        rate => Ok(rate.map(|rate| rate.0)),
    }
}

impl Follow<'_> {
    /// Says what has begun, `state`, in these words; or waits for its end, on demand, and returns how it has succeeded. `look` sees the
    /// states meanwhile.
    pub fn until_end(
        self,
        state: &Value,
        begun: &str,
        mut look: impl FnMut(&ProgressBar, &Value),
    ) -> Result<Option<Value>, Failure> {
        let volume = self.volume;
        let told_where = format!("peryton status {volume} shows how far it is");
        match (self.wait, self.json) {
            (false, true) => return output::print_json(state).map(|()| None),
            (false, false) => return output::tell(&format!("{begun}; {told_where}\n")).map(|()| None),
            (true, _) => {}
        }
        let bar = terminal::bar(state["bytes"].as_u64().unwrap_or(0));
        let style =
            ProgressStyle::with_template(&format!("{{bar:30}} {{bytes}}/{{total_bytes}} {}, {{msg}}", self.done));
        bar.set_style(style.expect("the template is a constant"));
        let last = loop {
            let mut status = volume.value(&Ask::Status {}, "status")?;
            let state = &status["change"];
            if state.is_null() {
                break status["last_change"].take();
            }
            if let Some(device) = takes_no_writes(&status) {
                bar.finish_and_clear();
                return Err(Failure::failed(format!(
                    "the change of '{}' goes on when device '{device}' takes writes again, or is no longer needed: {told_where}",
                    self.device
                )));
            }
            look(&bar, state);
            bar.set_position(state["done_bytes"].as_u64().unwrap_or(0));
            bar.set_message(left(state));
            thread::sleep(EVERY);
        };
        bar.finish_and_clear();
        if last["succeeded"] != true {
            let why = last["why"].as_str().unwrap_or("the server has ended it");
            return Err(Failure::failed(format!("'{}' {}: {why}", self.device, self.stays)));
        }
        Ok(Some(last))
    }
}

/// Gives up the change of this kind that is under way.
pub fn stop(volume: &Served, kind: Stoppable, json: bool, stays: &str) -> Result<(), Failure> {
    volume.ask(&Ask::StopChange { kind }, |_| true)?;
    match json {
        true => output::print_json(&json!({ "stopped": true })),
        false => output::tell(&format!("stopped; {stays}\n")),
    }
}

/// A line of the status about the change that is under way.
pub fn line(state: &Value) -> Option<String> {
    let name = state["device"].as_str()?;
    let bytes = |key: &str| Bytes(state[key].as_u64().unwrap_or(0));
    let (done, of, left) = (bytes("done_bytes"), bytes("bytes"), left(state));
    Some(match state["kind"].as_str()? {
        "replace" => {
            let unreadable = Bytes(state["unreadable"]["bytes"].as_u64().unwrap_or(0));
            let cannot =
                if unreadable > Bytes::ZERO { format!("; {unreadable} cannot be read") } else { String::new() };
            let path = state["path"].as_str().unwrap_or("?");
            format!("REPLACING: {name} by {path}: {done} of {of} copied, {left}{cannot}")
        }
        "resize" => {
            let emptied = if of > Bytes::ZERO { format!("{done} of {of} emptied, ") } else { String::new() };
            format!("RESIZING: {name} from {} to {} of data: {emptied}{left}", bytes("from_bytes"), bytes("to_bytes"))
        }
        "remove" => format!("REMOVING: {name}: {} are not written back yet, {left}", bytes("dirty_bytes")),
        _ => return None,
    })
}

/// How long it will take, or what else is awaited.
fn left(state: &Value) -> String {
    match (state["state"].as_str(), state["left_s"].as_f64()) {
        (Some("copying" | "emptying"), Some(seconds)) => {
            format!("{} left", Nanos((seconds.ceil() as u64) * 1_000_000_000))
        }
        (Some("copying" | "emptying"), None) => "beginning".to_owned(),
        (Some("unreadable"), _) => "the rest cannot be read".to_owned(),
        _ => "and then requests wait for a moment".to_owned(),
    }
}

/// The device that takes no writes for longer than the patience, and is needed.
fn takes_no_writes(status: &Value) -> Option<&str> {
    let mut devices = status["devices"].as_object().into_iter().flatten();
    devices.find(|(_, device)| device["outage"]["only_reads"] == true).map(|(name, _)| name.as_str())
}

/// Notes in an outcome whether the design has the new path of a device, as a server does.
pub fn note_design(done: &mut Value, updated: Option<Result<PathBuf, String>>) {
    let (design, error) = match updated {
        None => (Value::Null, Value::Null),
        Some(Ok(design)) => (json!(design), Value::Null),
        Some(Err(why)) => (Value::Null, json!(why)),
    };
    (done["design"], done["design_error"]) = (design, error);
}

/// Says which path the design needs.
pub fn tell_path(name: &str, path: &Path) -> Result<(), Failure> {
    output::tell(&format!("set the path of '{name}' in the design to {}\n", path.display()))
}

/// Prints an outcome as JSON, or in words by `tell`, which leaves out the design. It is a failure if the design could not be changed.
pub fn tell_outcome(done: &Value, json: bool, tell: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    if json {
        output::print_json(done)?
    } else {
        tell()?
    }
    match (done["design"].as_str(), done["design_error"].as_str()) {
        (_, Some(why)) => {
            Err(Failure::failed(format!("the device has taken its place, and the design is unchanged: {why}")))
        }
        (Some(design), None) if !json => output::tell(&format!("{design} has the new path\n")),
        (_, None) => Ok(()),
    }
}
