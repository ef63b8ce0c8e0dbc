//! What the verbs have in common that change the devices of a volume that is being served: waiting, and telling.

use std::{thread, time::Duration};

use indicatif::{ProgressBar, ProgressStyle};
use peryton_drive::control::Ask;
use peryton_units::{Bytes, Nanos};
use serde_json::{Value, json};

use crate::{failure::Failure, naming::Served, output, terminal};

/// How often the progress is looked at.
pub const EVERY: Duration = Duration::from_millis(300);

/// A change that is under way, as the status calls it.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The key of its state, which is `null` when it has ended.
    pub state: &'static str,
    /// The key of how it has ended.
    pub last: &'static str,
    /// What has happened to the bytes that the bar counts.
    pub done: &'static str,
    /// What stays as it was if it fails, after the device's name.
    pub stays: &'static str,
}

/// A bound in bytes per second as the server takes it.
pub fn rate(rate: Option<Bytes>) -> Result<Option<u64>, Failure> {
    match rate {
        Some(Bytes::ZERO) => Err(Failure::bad_input("--rate 0: give at least 1 byte in a second, or leave it out")),
        rate => Ok(rate.map(|rate| rate.0)),
    }
}

/// Where it is said how far it is.
pub fn told_where(volume: &Served) -> String {
    format!("peryton status {volume} shows how far it is")
}

impl Change {
    /// Waits for the end, and returns how it has ended if it has succeeded. The bar goes to `bytes`; `look` says from the state how far it is,
    /// and how long it will take.
    pub fn wait(
        self,
        volume: &Served,
        name: &str,
        bytes: u64,
        mut look: impl FnMut(&ProgressBar, &Value) -> (u64, String),
    ) -> Result<Value, Failure> {
        let bar = terminal::bar(bytes);
        let style =
            ProgressStyle::with_template(&format!("{{bar:30}} {{bytes}}/{{total_bytes}} {}, {{msg}}", self.done));
        bar.set_style(style.expect("the template is a constant"));
        let last = loop {
            let mut status = volume.value(&Ask::Status {}, "status")?;
            let state = &status[self.state];
            if state.is_null() {
                break status[self.last].take();
            }
            if let Some(device) = takes_no_writes(&status) {
                bar.finish_and_clear();
                return Err(Failure::failed(format!(
                    "the change of '{name}' goes on when device '{device}' takes writes again, or is no longer needed: {}",
                    told_where(volume)
                )));
            }
            let (at, left) = look(&bar, state);
            bar.set_position(at);
            bar.set_message(left);
            thread::sleep(EVERY);
        };
        bar.finish_and_clear();
        if last["succeeded"] == true {
            return Ok(last);
        }
        let why = last["why"].as_str().unwrap_or("the server has ended it");
        Err(Failure::failed(format!("'{name}' {}: {why}", self.stays)))
    }
}

/// The device that takes no writes for longer than the patience, and is needed.
fn takes_no_writes(status: &Value) -> Option<&str> {
    let mut devices = status["devices"].as_object().into_iter().flatten();
    devices.find(|(_, device)| device["outage"]["only_reads"] == true).map(|(name, _)| name.as_str())
}

/// Says that a change was given up.
pub fn stopped(json: bool, stays: &str) -> Result<(), Failure> {
    match json {
        true => output::print_json(&json!({ "stopped": true })),
        false => output::tell(&format!("stopped; {stays}\n")),
    }
}

/// Says what came of setting the path in the design.
pub fn tell_design(done: &Value) -> Result<(), Failure> {
    match (done["design"].as_str(), done["design_error"].as_str()) {
        (Some(design), _) => output::tell(&format!("{design} has the new path\n")),
        (None, Some(why)) => {
            terminal::remark(&format!("the design is as it was: {why}"));
            Ok(())
        }
        (None, None) => Ok(()),
    }
}

/// How long it will take, if that is known.
pub fn time_left(state: &Value) -> Option<String> {
    let seconds = state["left_s"].as_f64()?;
    Some(format!("{} left", Nanos((seconds.ceil() as u64) * 1_000_000_000)))
}
