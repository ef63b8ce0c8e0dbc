//! `peryton re-add`: returns a device that was given up to its volume, which is being served or not.

use std::path::PathBuf;

use peryton_drive::control::Ask;
use peryton_units::{Bytes, Nanos};
use serde_json::{Value, json};

use super::{check, writeback};
use crate::{failure::Failure, in_service, naming::Served, output, volume};

/// Options of `peryton re-add`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The device must have all data that it had when it was given up. A copy that lacks a commit is refused, and so is a device that was \
used alone since then. A copy that lacks only overwrites of cached data cannot be told from the device. A device that was removed (peryton remove) comes back empty. Newer writes on the other devices stay, and nothing is \
copied. If the device cannot be taken back, nothing is changed. While the volume is served, requests wait for a moment."
)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// The device, by its name in the design
    #[arg(value_name = "DEVICE")]
    name: String,
    /// Where the device is now [default: where it was]
    #[arg(long, value_name = "PATH")]
    path: Option<PathBuf>,
    /// Set the path of the device in the design to --path
    #[arg(long, requires = "path")]
    update_design: bool,
    /// Return when dirty data are written back, and show progress on a terminal
    #[arg(long)]
    wait: bool,
    /// The server's control socket, if it is not at its usual place
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Print what was found as JSON
    #[arg(long)]
    json: bool,
}

/// Adds the device again and prints the findings.
pub fn run(args: &Args) -> Result<(), Failure> {
    let volume = Served::new(args.design.named().clone(), args.control.clone());
    if volume.is_served() {
        return while_served(args, &volume);
    }
    if args.wait {
        return Err(Failure::bad_input("--wait: is for a volume that is being served, and this one is not"));
    }
    let design = match &args.path {
        Some(path) => args.design.with_path(&args.name, path)?,
        None => args.design.clone(),
    };
    let spec = design.spec(&[])?;
    let done = peryton_drive::readmit(&spec, &args.name)?;
    let updated =
        args.path.as_deref().filter(|_| args.update_design).map(|path| args.design.set_path(&args.name, path));
    let mut value = check::opened_json(&done.opened);
    value["restored_extents"] = json!(done.restored);
    in_service::note_design(&mut value, updated);
    in_service::tell_outcome(&value, args.json, || {
        let (name, restored, lost) = (&args.name, done.restored, done.opened.lost);
        output::tell(&format!(
            "'{name}' is part of the volume again: {restored} extents restored, {lost} stay lost\n"
        ))?;
        tell_path(args)
    })
}

/// Says which path the design needs, if it is not set.
fn tell_path(args: &Args) -> Result<(), Failure> {
    match args.path.as_deref().filter(|_| !args.update_design) {
        Some(path) => in_service::tell_path(&args.name, path),
        None => Ok(()),
    }
}

fn while_served(args: &Args, volume: &Served) -> Result<(), Failure> {
    let absolute = |path: &PathBuf| {
        std::path::absolute(path).map_err(|error| Failure::bad_input(format!("{}: {error}", path.display())))
    };
    // The server has a working directory of its own.
    let path = args.path.as_ref().map(absolute).transpose()?;
    let ask = Ask::ReAdd { device: args.name.clone(), path, update_design: args.update_design };
    let mut done = volume.value(&ask, "readmitted")?;
    if !args.json {
        in_service::tell_outcome(&done, false, || {
            tell(&args.name, &done)?;
            tell_path(args)
        })?;
    }
    if args.wait && done["dirty_bytes"].as_u64().is_some_and(|bytes| bytes > 0) {
        let state = volume.value(&Ask::Writeback {}, "cleaning")?;
        done["dirty_bytes"] = writeback::wait(volume, state)?["dirty_bytes"].take();
        if !args.json {
            output::tell("the data that only one device had are on both now\n")?;
        }
    }
    if args.json { in_service::tell_outcome(&done, true, || Ok(())) } else { Ok(()) }
}

fn tell(name: &str, done: &Value) -> Result<(), Failure> {
    let bytes = |key: &str| Bytes(done[key].as_u64().unwrap_or(0));
    let (restored, dirty, lost) =
        (done["restored_extents"].as_u64().unwrap_or(0), bytes("dirty_bytes"), bytes("lost_bytes"));
    let pause = Nanos((done["pause_s"].as_f64().unwrap_or(0.0) * 1e3).ceil() as u64 * 1_000_000);
    let saved = Bytes(bytes("used_bytes").0.saturating_sub(dirty.0));
    let is_dirty = if dirty > Bytes::ZERO { format!(", {dirty} are dirty") } else { String::new() };
    output::tell(&format!(
        "'{name}' is part of the volume again after a pause of {pause}: {restored} extents restored{is_dirty}; {saved} need no copying\n"
    ))?;
    if lost > Bytes::ZERO {
        output::tell(&format!("{lost} stay lost until they are overwritten or discarded\n"))?;
    }
    Ok(())
}
