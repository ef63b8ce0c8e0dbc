//! `peryton writeback`: writes back everything that is dirty in the cache of a volume that is being served.

use std::thread;

use indicatif::ProgressStyle;
use peryton_drive::control::Ask;
use peryton_units::Bytes;
use serde_json::Value;

use crate::{cleaning, failure::Failure, in_service::EVERY, naming::Served, output, terminal};

/// Options of `peryton writeback`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "All data that are dirty at the call are written to the slow device at full speed; the verb does not wait for later \
writes. Requests continue, and are slower. Write back before the fast device is taken away; a stop of the server does not need it."
)]
pub struct Args {
    #[command(flatten)]
    volume: Served,
    /// Return when it is done, and show progress on a terminal
    #[arg(long)]
    wait: bool,
    /// Print the state of write-back as JSON
    #[arg(long)]
    json: bool,
}

/// Asks for everything to be written back, and waits for it on demand.
pub fn run(args: &Args) -> Result<(), Failure> {
    let mut state = args.volume.value(&Ask::Writeback {}, "cleaning")?;
    if args.wait {
        state = wait(&args.volume, state)?;
    }
    if args.json {
        return output::print_json(&state);
    }
    let left = Bytes(state["dirty_bytes"].as_u64().unwrap_or(0));
    output::tell(&match (state["state"].as_str(), left) {
        (_, Bytes::ZERO) => "nothing is dirty\n".to_owned(),
        (Some("asked"), left) => {
            match (cleaning::waits_for(&args.volume.value(&Ask::Status {}, "status")?), state["clean_in_s"].as_f64()) {
                (Some(device), _) => format!("writing back {left}, which waits for device '{device}'\n"),
                (None, Some(seconds)) => format!("writing back {left}, which takes {}\n", cleaning::time(seconds)),
                (None, None) => format!("writing back {left}\n"),
            }
        }
        (_, left) => format!("the dirty data are written back; {left} became dirty meanwhile\n"),
    })
}

/// Waits until everything is written back that was dirty when that was asked for, and returns the state of cleaning then.
pub fn wait(volume: &Served, mut state: Value) -> Result<Value, Failure> {
    let first = state["dirty_bytes"].as_u64().unwrap_or(0);
    let lost = |status: &Value| status["lost"]["bytes"].as_u64().unwrap_or(0);
    let mut status = volume.value(&Ask::Status {}, "status")?;
    let before = lost(&status);
    let bar = terminal::bar(first);
    let style = ProgressStyle::with_template("{bar:30} {bytes}/{total_bytes} written back, {eta} left");
    bar.set_style(style.expect("the template is a constant"));
    while state["state"] == "asked" {
        thread::sleep(EVERY);
        status = volume.value(&Ask::Status {}, "status")?;
        state = status["cleaning"].take();
        bar.set_position(first.saturating_sub(state["dirty_bytes"].as_u64().unwrap_or(0)));
    }
    bar.finish_and_clear();
    let (lost, left) = (Bytes(lost(&status).saturating_sub(before)), Bytes(state["dirty_bytes"].as_u64().unwrap_or(0)));
    if lost > Bytes::ZERO {
        let why = "are lost with a device that was given up meanwhile: peryton status says where";
        return Err(Failure::lost(format!("{lost} {why}")));
    }
    let mut devices = status["devices"].as_object().into_iter().flatten();
    match devices.find(|(_, device)| device["state"] == "gone").filter(|_| left > Bytes::ZERO) {
        None => Ok(state),
        Some((name, _)) => Err(Failure::failed(format!(
            "{left} stay dirty, because device '{name}' was given up: peryton status names the remedy"
        ))),
    }
}
