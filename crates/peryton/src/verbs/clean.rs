//! `peryton clean`: writes everything home that is dirty in the cache of a volume that is being served.

use std::{
    path::{Path, PathBuf},
    thread,
};

use indicatif::ProgressStyle;
use peryton_drive::control::Ask;
use peryton_units::Bytes;
use serde_json::Value;

use crate::{
    cleaning,
    failure::Failure,
    in_service::{self, EVERY},
    output, terminal,
};

/// Options of `peryton clean`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "What is dirty when this is called is written to the slow device at full speed; what clients write meanwhile is \
not waited for. Requests go on, and are slower. A volume need not be clean to be stopped; it is for detaching, or before the \
fast device is replaced."
)]
pub struct Args {
    /// The control socket of the volume
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// Return when it is done, and show how far it is on a terminal
    #[arg(long)]
    wait: bool,
    /// Print the state of cleaning as JSON
    #[arg(long)]
    json: bool,
}

/// Asks for everything to be written home, and waits for it on demand.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut state = in_service::ask(&args.socket, &Ask::Clean, "cleaning")?;
    if args.wait {
        state = wait(&args.socket, state)?;
    }
    if args.json {
        return output::print_json(&state);
    }
    let left = Bytes(state["dirty_bytes"].as_u64().unwrap_or(0));
    output::tell(&match (state["state"].as_str(), left) {
        (_, Bytes::ZERO) => "clean\n".to_owned(),
        (Some("asked"), left) => match state["clean_in_s"].as_f64() {
            Some(seconds) => format!("writing {left} home, which takes {}\n", cleaning::time(seconds)),
            None => format!("writing {left} home\n"),
        },
        (_, left) => format!("what was dirty is home; {left} were written since\n"),
    })
}

/// Waits until everything is home that was dirty when that was asked for, and returns the state of cleaning then.
pub fn wait(socket: &Path, mut state: Value) -> Result<Value, Failure> {
    let first = state["dirty_bytes"].as_u64().unwrap_or(0);
    let bar = terminal::bar(first);
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} written home, {eta} left");
    bar.set_style(style.expect("the template is a constant"));
    while state["state"] == "asked" {
        thread::sleep(EVERY);
        state = in_service::ask(socket, &Ask::Status, "status")?["cleaning"].take();
        bar.set_position(first.saturating_sub(state["dirty_bytes"].as_u64().unwrap_or(0)));
    }
    bar.finish_and_clear();
    Ok(state)
}
