//! `peryton replace`: lets another device take the place of one of a volume that is being served.

use std::path::PathBuf;

use indicatif::ProgressBar;
use peryton_drive::control::{self, Ask};
use peryton_units::Bytes;
use serde_json::Value;

use super::readmit;
use crate::{
    failure::Failure,
    in_service::{self, Change, time_left},
    output, terminal,
};

const CHANGE: Change = Change {
    state: "replacement",
    last: "last_replacement",
    done: "copied",
    stays: "is not replaced, and stays part of the volume",
};

/// Options of `peryton replace`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The device is copied to the new one while the volume is served, and stays part of it until everything is copied. \
Then the new one takes its place at once, and the path in the design has to be set to it (--update-design does that). If the server is killed before that, \
the old device is in charge as before, and copying begins again when this is called again. The place of a device that is gone is \
taken by an empty one at once, where a map says what is lost with it."
)]
pub struct Args {
    /// The control socket of the volume
    #[arg(value_name = "SOCKET")]
    socket: PathBuf,
    /// The device that is replaced, by its name in the design
    #[arg(value_name = "NAME", required_unless_present = "stop", requires = "with")]
    name: Option<String>,
    /// The new device: a block device, or a file of the size
    #[arg(long, value_name = "PATH", requires = "name")]
    with: Option<PathBuf>,
    /// Copy at most so much in a second, such as 50MiB; without a bound if not given
    #[arg(long, value_name = "SIZE", requires = "with")]
    rate: Option<Bytes>,
    /// Let what cannot be read from the old device read as zeros from the new one
    #[arg(long, requires = "with")]
    accept_loss: bool,
    /// Overwrite what the new device holds
    #[arg(long, requires = "with")]
    force: bool,
    /// Set the path of the device in the design to the new one, once that is in charge (the stable name of a block device)
    #[arg(long, requires = "with")]
    update_design: bool,
    /// Return when the new device is in charge, and show how far it is on a terminal
    #[arg(long, requires = "with")]
    wait: bool,
    /// Give up what has begun; the old device stays
    #[arg(long, conflicts_with_all = ["name", "with"])]
    stop: bool,
    /// Print the state as JSON
    #[arg(long)]
    json: bool,
}

/// Asks for a device to be replaced, and waits for it on demand.
pub fn run(args: &Args) -> Result<(), Failure> {
    let (Some(name), Some(with)) = (&args.name, &args.with) else {
        control::ask(&args.socket, &Ask::StopReplacing, |_| true)?;
        return output::tell("stopped; the old device stays part of the volume\n");
    };
    let bytes_per_s = in_service::rate(args.rate)?;
    // The server has a working directory of its own.
    let path = std::path::absolute(with).map_err(|error| Failure::bad_input(format!("{}: {error}", with.display())))?;
    let ask = Ask::Replace {
        device: name.clone(),
        path,
        bytes_per_s,
        accept_loss: args.accept_loss,
        force: args.force,
        update_design: args.update_design,
    };
    let state = in_service::ask(&args.socket, &ask, CHANGE.state)?;
    if state["state"] == "succeeded" {
        return ended(args, name, &state);
    }
    if args.wait {
        return wait(args, name, state["bytes"].as_u64().unwrap_or(0));
    }
    if args.json {
        return output::print_json(&state);
    }
    let bytes = Bytes(state["bytes"].as_u64().unwrap_or(0));
    output::tell(&format!("copying {bytes} of '{name}'; {}\n", in_service::told_where(&args.socket)))
}

/// Waits for the end.
fn wait(args: &Args, name: &str, bytes: u64) -> Result<(), Failure> {
    let mut told = false;
    let last = CHANGE.wait(&args.socket, name, bytes, |bar, state| {
        told |= !told && tell_unreadable(bar, name, state);
        (state["copied_bytes"].as_u64().unwrap_or(0), left(state))
    })?;
    ended(args, name, &last)
}

/// Says that the new device is in charge.
fn ended(args: &Args, name: &str, last: &Value) -> Result<(), Failure> {
    if args.json {
        return output::print_json(last);
    }
    let path = last["path"].as_str().unwrap_or("?");
    let set = match last["design"].is_string() {
        true => String::new(),
        false => format!(": set the path of '{name}' in the design to it"),
    };
    output::tell(&format!("'{name}' is {path} now{set}\n"))?;
    let lost = Bytes(last["lost_bytes"].as_u64().unwrap_or(0));
    if lost > Bytes::ZERO {
        output::tell(&format!(
            "{lost} that only the old device had are lost until they are overwritten or discarded\n"
        ))?;
    }
    readmit::tell_design(last)
}

/// Says that copying waits for what cannot be read, and what can be done.
fn tell_unreadable(bar: &ProgressBar, name: &str, state: &Value) -> bool {
    let waits = state["state"] == "unreadable";
    if waits {
        let bytes = Bytes(state["unreadable"]["bytes"].as_u64().unwrap_or(0));
        bar.suspend(|| {
            terminal::remark(&format!(
                "{bytes} of '{name}' cannot be read, and everything else is copied: they are tried again every minute, and copied \
                 when they are written; or stop it, and begin again with --accept-loss, which lets them read as zeros"
            ));
        });
    }
    waits
}

/// A line for the status.
pub fn line(state: &Value) -> Option<String> {
    let name = state["device"].as_str()?;
    let bytes = |key: &str| Bytes(state[key].as_u64().unwrap_or(0));
    let unreadable = Bytes(state["unreadable"]["bytes"].as_u64().unwrap_or(0));
    let cannot = if unreadable > Bytes::ZERO { format!("; {unreadable} cannot be read") } else { String::new() };
    let path = state["path"].as_str().unwrap_or("?");
    Some(format!(
        "REPLACING: {name} by {path}: {} of {} copied, {}{cannot}",
        bytes("copied_bytes"),
        bytes("bytes"),
        left(state)
    ))
}

/// How long it will take.
fn left(state: &Value) -> String {
    match (state["state"].as_str(), time_left(state)) {
        (Some("copying"), Some(left)) => left,
        (Some("unreadable"), _) => "the rest cannot be read".to_owned(),
        (Some("copied" | "succeeding"), _) => "the new device is being put in charge".to_owned(),
        _ => "beginning".to_owned(),
    }
}
