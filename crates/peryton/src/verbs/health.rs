//! `peryton health`: reads the health of drives once.

use std::path::PathBuf;

use peryton_drive::{Linux, PathHealth};
use serde_json::Value;

use crate::{
    drive_health,
    failure::Failure,
    naming::{self, Named},
    output,
    volume::DesignArgs,
};

/// Options of `peryton health`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The verb reads the drives beneath each path, through partitions, md, device mapper, loop devices and file systems. It needs \
root, and wakes no drive. Exit code: 0 if every path has a drive that was read and none warns; 1 if one fails, warns or cannot be \
read; 2 for a path that does not exist.")]
pub struct Args {
    /// Drives, partitions, arrays, files that lie on them, or volumes
    #[arg(value_name = "DEVICE|NAME", required = true, add = naming::completer())]
    devices: Vec<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Reads and prints.
pub fn run(args: &Args) -> Result<(), Failure> {
    let devices = devices(args)?;
    if let Some((path, error)) = devices.iter().find_map(|path| Some((path, std::fs::metadata(path).err()?))) {
        return Err(Failure::bad_input(format!("{}: {error}: name a device, a file or a volume", path.display())));
    }
    let linux = Linux::default();
    let all: Vec<PathHealth> = devices.iter().map(|path| linux.health(path)).collect();
    if args.json {
        output::print_json(&all)?;
    } else {
        let texts: Result<Vec<String>, Failure> = all.iter().map(shown).collect();
        output::print(&texts?.join("\n"))?;
    }
    let is_well = all.iter().all(|path| !path.drives.is_empty() && !path.has_warnings() && path.was_read());
    if is_well { Ok(()) } else { Err(Failure::quietly(1)) }
}

/// The paths, those of the devices of a volume in place of its name.
fn devices(args: &Args) -> Result<Vec<PathBuf>, Failure> {
    let mut all = Vec::new();
    for given in &args.devices {
        let is_word = !naming::is_path(given.as_os_str());
        let may_be_named = is_word || !given.exists() || given.extension().is_some_and(|extension| extension == "toml");
        match Named::find(given.as_os_str()) {
            Ok(volume) if may_be_named && volume.is_design() && volume.design().exists() => {
                all.extend(DesignArgs::new(volume, Vec::new()).devices()?.into_iter().map(|device| device.path));
            }
            _ => all.push(given.clone()),
        }
    }
    Ok(all)
}

fn shown(path: &PathHealth) -> Result<String, Failure> {
    let mut text = format!("{}\n", path.path);
    for drive in &path.drives {
        let drive = serde_json::to_value(drive).map_err(Failure::failed)?;
        text += &format!("  {}\n    {}\n", drive_health::name(&drive), drive_health::judgement(&drive));
        for (what, value) in drive_health::figures(&drive) {
            text += &format!("    {what:<20} {value}\n");
        }
        for line in drive["not_read"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            text += &format!("    not read: {line}\n");
        }
    }
    for line in &path.not_read {
        text += &format!("  not read: {line}\n");
    }
    Ok(text)
}
