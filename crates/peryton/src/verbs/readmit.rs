//! `peryton readmit`: returns a device that was given up to its volume, which is being served or not.

use std::{
    fs,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use peryton_drive::control::Ask;
use peryton_units::{Bytes, Nanos};
use serde_json::{Value, json};

use super::{check, clean};
use crate::{failure::Failure, in_service, output, terminal, volume};

/// Options of `peryton readmit`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The device must have everything that it had when it was given up; an older copy is refused, and so is one that was used \
without the others. What was written meanwhile stays as it is, and nothing is copied. If the device cannot be taken back, nothing is \
changed. With the control socket of a volume that is being served, requests wait for a moment."
)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// The device, by its name in the design
    #[arg(value_name = "NAME")]
    name: String,
    /// Where the device is now, if it is not where it was (of a volume that is being served)
    #[arg(long, value_name = "PATH")]
    path: Option<PathBuf>,
    /// Set the path of the device in the design to the one given by --path
    #[arg(long, requires = "path")]
    update_design: bool,
    /// Return when what only one device has is on the slow one, and show how far that is on a terminal (of a volume that is being served)
    #[arg(long)]
    wait: bool,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Readmits the device and prints the findings.
pub fn run(args: &Args) -> Result<(), Failure> {
    let at = args.design.path();
    if fs::metadata(at).is_ok_and(|about| about.file_type().is_socket()) {
        return while_served(args, at);
    }
    for (given, option) in [(args.path.is_some(), "--path"), (args.wait, "--wait")] {
        if given {
            return Err(Failure::bad_input(format!(
                "{option}: is for a volume that is being served: give its control socket instead of the design{}",
                if option == "--path" { ", or set the path with --set devices.NAME.path=PATH" } else { "" }
            )));
        }
    }
    let spec = args.design.spec(&[])?;
    let done = peryton_drive::readmit(&spec, &args.name).map_err(Failure::failed)?;
    if args.json {
        let mut value = check::opened_json(&done.opened);
        value["restored_extents"] = json!(done.restored);
        return output::print_json(&value);
    }
    let (name, restored, lost) = (&args.name, done.restored, done.opened.lost);
    output::tell(&format!("'{name}' is part of the volume again: {restored} extents restored, {lost} stay lost\n"))
}

fn while_served(args: &Args, socket: &Path) -> Result<(), Failure> {
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))
    };
    // The server has a working directory of its own.
    let path = args.path.as_ref().map(absolute).transpose()?;
    let ask = Ask::Readmit { device: args.name.clone(), path, update_design: args.update_design };
    let mut done = in_service::ask(socket, &ask, "readmitted")?;
    if !args.json {
        tell(&args.name, &done)?;
    }
    if args.wait && done["dirty_bytes"].as_u64().is_some_and(|bytes| bytes > 0) {
        let state = in_service::ask(socket, &Ask::Clean, "cleaning")?;
        done["dirty_bytes"] = clean::wait(socket, state)?["dirty_bytes"].take();
        if !args.json {
            output::tell("what only one device had is on both now\n")?;
        }
    }
    if args.json { output::print_json(&done) } else { Ok(()) }
}

fn tell(name: &str, done: &Value) -> Result<(), Failure> {
    let bytes = |key: &str| Bytes(done[key].as_u64().unwrap_or(0));
    let (restored, dirty, lost) =
        (done["restored_extents"].as_u64().unwrap_or(0), bytes("dirty_bytes"), bytes("lost_bytes"));
    let pause = Nanos((done["pause_s"].as_f64().unwrap_or(0.0) * 1e3).ceil() as u64 * 1_000_000);
    let saved = Bytes(bytes("used_bytes").0.saturating_sub(dirty.0));
    let goes_home = if dirty > Bytes::ZERO { format!(", {dirty} are still to be cleaned") } else { String::new() };
    output::tell(&format!(
        "'{name}' is part of the volume again after a pause of {pause}: {restored} extents restored{goes_home}; {saved} need no copying\n"
    ))?;
    if lost > Bytes::ZERO {
        output::tell(&format!("{lost} stay lost until they are overwritten or discarded\n"))?;
    }
    tell_design(done)
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
