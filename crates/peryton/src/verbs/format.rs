//! `peryton format`: makes a new volume on the devices of a design, or on two devices, for which it writes the design.

use std::{
    ffi::OsString,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use peryton_drive::{Linux, Made, VolumeSpec};
use peryton_sim::DesignText;
use serde_json::{Value, json};

use crate::{
    at_risk::at_risk,
    failure::Failure,
    new_design::{Mode, NewDesign, Write},
    output, terminal,
    volume::{DesignArgs, InPlace, Purpose},
};

/// Options of `peryton format`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Devices without a size are used as a whole. A device that is in use is refused, and so is one that holds \
anything, unless --force is given. With --fast and --slow the design is written to DESIGN.toml, which must not be there yet."
)]
pub struct Args {
    /// Design file; its devices have a `path`, and need no profile. With --fast and --slow: the design to write
    /// [default: volume.toml]
    #[arg(value_name = "DESIGN.toml", required_unless_present = "fast")]
    design: Option<PathBuf>,
    /// Set a key of the design, such as devices.ssd.path=/dev/sdb or placement.extent=64KiB
    #[arg(long, value_name = "KEY=VALUE", conflicts_with = "fast")]
    set: Vec<String>,
    /// Write the design by itself, with this fast device
    #[arg(long, value_name = "DEVICE", requires = "slow")]
    fast: Option<PathBuf>,
    /// The slow device of the design that is written
    #[arg(long, value_name = "DEVICE", requires = "fast")]
    slow: Option<PathBuf>,
    /// What the two devices are for
    #[arg(long, value_enum, requires = "fast", default_value = "caching")]
    mode: Mode,
    /// Where the writes of a cache go [default: back]
    #[arg(long, value_enum, requires = "fast")]
    write: Option<Write>,
    /// Overwrite what devices hold, and a design that is there; devices in use are refused all the same
    #[arg(long)]
    force: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// The design that is written if no name is given.
const NEW: &str = "volume.toml";

/// Formats the devices and prints the result.
pub fn run(args: &Args) -> Result<(), Failure> {
    let design = args.design.clone().unwrap_or_else(|| NEW.into());
    let (Some(fast), Some(slow)) = (&args.fast, &args.slow) else {
        let spec = DesignArgs::new(design, args.set.clone()).spec_to_format()?;
        let made = peryton_drive::format(&spec, args.force)?;
        return report(args, &spec, &made, None);
    };
    if args.write.is_some() && args.mode != Mode::Caching {
        return Err(Failure::bad_input("--write is for a cache: leave it out, or give --mode caching"));
    }
    let new = NewDesign { fast, slow, mode: args.mode, write: args.write, by: "format" };
    let (spec, made) = format_new(&design, &new, args.force)?;
    report(args, &spec, &made, Some(&design))
}

/// Writes a design and formats its devices. If that fails, no design is left behind.
fn format_new(path: &Path, new: &NewDesign<'_>, force: bool) -> Result<(VolumeSpec, Made), Failure> {
    let failed = |error: std::io::Error| Failure::writing(&path.display().to_string(), &error);
    if !force && fs::symlink_metadata(path).is_ok() {
        return Err(is_there(path));
    }
    let text = new.text(&Linux::default())?;
    let near = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let named = DesignText::new(text.as_str(), path.display().to_string());
    let spec = InPlace::read(named, near, &[], Purpose::Format)?.spec_to_serve()?;
    // The file is there before anything is formatted, because there may be no room for it. It replaces another one only when the
    // volume is made.
    let mut partial = OsString::from(path);
    partial.push(format!(".partial-{}", std::process::id()));
    let at = if force { Path::new(&partial) } else { path };
    let written = File::create_new(at).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| match error.kind() {
        std::io::ErrorKind::AlreadyExists => is_there(path),
        _ => failed(error),
    })?;
    let made = peryton_drive::format(&spec, force).inspect_err(|_| {
        // The first error is the one to report.
        let _ = fs::remove_file(at);
    })?;
    if force {
        fs::rename(at, path).map_err(failed)?;
    }
    File::open(near).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok((spec, made))
}

fn is_there(path: &Path) -> Failure {
    let path = path.display();
    Failure::bad_input(format!(
        "{path}: there is a file already, which stays as it is: name another one for the design, as in peryton format new.toml --fast ..."
    ))
}

fn report(args: &Args, spec: &VolumeSpec, made: &Made, design: Option<&Path>) -> Result<(), Failure> {
    let remarks = at_risk(spec, &Linux::default());
    remarks.iter().for_each(|remark| terminal::remark(remark));
    if args.json {
        let mut value = serde_json::to_value(made).map_err(Failure::failed)?;
        if let Some(design) = design {
            value["design"] = json!(design);
        }
        if !remarks.is_empty() {
            value["remarks"] = Value::from(remarks);
        }
        return output::print_json(&value);
    }
    let mut text = format!("volume {} of {} on\n", made.volume, made.size);
    for device in &made.devices {
        text.push_str(&format!("  {} ({}): {}\n", device.name, device.path.display(), device.used));
    }
    if let Some(design) = design {
        let design = design.display();
        text.push_str(&format!("the design is {design}: peryton serve {design}\n"));
    }
    output::tell(&text)
}
