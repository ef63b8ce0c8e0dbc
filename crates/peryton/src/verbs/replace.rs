//! `peryton replace`: lets another device take the place of one of a volume that is being served.

use std::path::{Path, PathBuf};

use indicatif::ProgressBar;
use peryton_drive::{Stoppable, control::Ask};
use peryton_units::Bytes;
use serde_json::Value;

use super::check;
use crate::{
    failure::Failure,
    in_service::{self, Follow},
    naming::Served,
    output, terminal, volume,
};

/// Options of `peryton replace`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The old device is copied while the volume is served, and stays in use until the copy is complete. Then the new device \
takes its place, and the design needs the new path (--update-design sets it). If the server is killed earlier, the old device stays, and the \
next call copies from the beginning. A gone device is not copied: an empty one takes its place at once, if the placement has a map of \
lost data. If the volume is not served, nothing is copied, and a device with the only copy of data needs --accept-loss."
)]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// The device that is replaced, by its name in the design (not with --stop)
    #[arg(value_name = "DEVICE", required_unless_present = "stop", requires = "with")]
    name: Option<String>,
    /// The new device: a block device or a file with enough room
    #[arg(long, value_name = "PATH", requires = "name")]
    with: Option<PathBuf>,
    /// The most bytes copied in a second, such as 50MiB [default: no bound]
    #[arg(long, value_name = "SIZE", requires = "with")]
    rate: Option<Bytes>,
    /// Accept that data are lost
    ///
    /// Accept that data are lost. Data that are lost or cannot be read, and that no map names, then read as zeros. Data that
    /// only a log had read as the primary's older version. If the volume is not served, the data that only the old device has
    /// are given up.
    #[arg(long, requires = "with")]
    accept_loss: bool,
    /// Overwrite data on the new device
    #[arg(long, requires = "with")]
    force: bool,
    /// Set the path of the device in the design to the new one
    ///
    /// Set the path of the device in the design to the new one (the stable name of a block device), once the new device is in
    /// use.
    #[arg(long, requires = "with")]
    update_design: bool,
    /// Return when the new device has taken over, and show progress on a terminal
    #[arg(long, requires = "with")]
    wait: bool,
    /// Give up a replacement that has begun; the old device stays
    #[arg(long, conflicts_with_all = ["name", "with"])]
    stop: bool,
    /// The server's control socket, if it is not at its usual place
    #[arg(long, value_name = "SOCKET")]
    control: Option<PathBuf>,
    /// Print the state as JSON
    #[arg(long)]
    json: bool,
}

/// Lets a device be replaced, and waits for it on demand.
pub fn run(args: &Args) -> Result<(), Failure> {
    let volume = Served::new(args.design.named().clone(), args.control.clone());
    let (Some(name), Some(with)) = (&args.name, &args.with) else {
        return in_service::stop(&volume, Stoppable::Replace, args.json, "the old device stays part of the volume");
    };
    let bytes_per_s = in_service::rate(args.rate)?;
    // The server has a working directory of its own, and the devices of a design are beside it.
    let path = std::path::absolute(with).map_err(|error| Failure::bad_input(format!("{}: {error}", with.display())))?;
    if !volume.is_served() {
        return while_not_served(args, name, (with, &path));
    }
    let ask = Ask::Replace {
        device: name.clone(),
        path,
        bytes_per_s,
        accept_loss: args.accept_loss,
        force: args.force,
        update_design: args.update_design,
    };
    let state = volume.value(&ask, "change")?;
    if state["state"] == "succeeded" {
        return ended(name, &state, args.json);
    }
    let begun = format!("copying {} of '{name}'", Bytes(state["bytes"].as_u64().unwrap_or(0)));
    let stays = "is not replaced, and stays part of the volume";
    let follow = Follow { volume: &volume, device: name, done: "copied", stays, wait: args.wait, json: args.json };
    let mut told = false;
    match follow.until_end(&state, &begun, |bar, state| told |= !told && tell_unreadable(bar, name, state))? {
        Some(last) => ended(name, &last, args.json),
        None => Ok(()),
    }
}

/// Puts an empty device in the place of one that a volume has lost.
fn while_not_served(args: &Args, name: &str, (with, path): (&Path, &Path)) -> Result<(), Failure> {
    let spec = args.design.spec(std::slice::from_ref(&name.to_owned()))?;
    let opened = peryton_drive::replace(&spec, name, path, args.force, args.accept_loss)?;
    let updated = args.update_design.then(|| args.design.set_path(name, with));
    let mut value = check::opened_json(&opened);
    in_service::note_design(&mut value, updated);
    in_service::tell_outcome(&value, args.json, || {
        let (with_path, lost) = (with.display(), opened.lost);
        output::tell(&format!("'{name}' is {with_path} now, which was empty: {lost} extents are lost\n"))?;
        if args.update_design { Ok(()) } else { in_service::tell_path(name, with) }
    })
}

/// Says that the new device is in charge.
fn ended(name: &str, last: &Value, json: bool) -> Result<(), Failure> {
    in_service::tell_outcome(last, json, || tell(name, last))
}

fn tell(name: &str, last: &Value) -> Result<(), Failure> {
    let path = last["path"].as_str().unwrap_or("?");
    let set = match last["design"].is_string() {
        true => String::new(),
        false => format!(": set the path of '{name}' in the design to it"),
    };
    output::tell(&format!("'{name}' is {path} now{set}\n"))?;
    match Bytes(last["lost_bytes"].as_u64().unwrap_or(0)) {
        Bytes::ZERO => Ok(()),
        lost => output::tell(&format!(
            "{lost} that only the old device had are lost until they are overwritten or discarded\n"
        )),
    }
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
