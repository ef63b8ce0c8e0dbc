//! `peryton events`: prints the events of a volume that is being served.

use peryton_drive::control::Ask;
use serde_json::Value;

use crate::{failure::Failure, naming::Served, output};

/// Options of `peryton events`.
#[derive(Debug, clap::Args)]
pub struct Args {
    #[command(flatten)]
    volume: Served,
    /// Also print new events, until the volume is closed
    #[arg(long)]
    follow: bool,
    /// Only print events after the one with this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    after: u64,
    /// Print each event as a line of JSON
    #[arg(long)]
    json: bool,
}

/// Prints events as they arrive.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut result = Ok(());
    let ask = Ask::Events { after: args.after, follow: args.follow };
    args.volume.ask(&ask, |event| {
        if event.get("ok").is_none() {
            result = if args.json { output::print_json_line(&event) } else { output::print(&shown(&event)) };
        }
        result.is_ok()
    })?;
    result
}

/// An event as a line such as `12:03:55.120 #4 device_error device=ssd action=read ...`, with the time in UTC.
fn shown(event: &Value) -> String {
    let ms = event["unix_ms"].as_u64().unwrap_or(0);
    let (s, ms) = (ms / 1000, ms % 1000);
    let time = format!("{:02}:{:02}:{:02}.{ms:03}", s / 3600 % 24, s / 60 % 60, s % 60);
    let mut line = format!("{time} #{} {}", event["number"], event["event"].as_str().unwrap_or("?"));
    for (key, value) in event.as_object().into_iter().flatten() {
        if !["unix_ms", "number", "event"].contains(&key.as_str()) {
            line.push_str(&format!(" {key}={value}"));
        }
    }
    line.push('\n');
    line
}
