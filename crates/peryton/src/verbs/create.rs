//! `peryton create`: makes a new volume by a design, which it writes if there is none yet.

mod described;

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Write as _},
    path::{Path, PathBuf},
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use peryton_drive::{Linux, Made, VolumeSpec};
use peryton_engine::PlacementKind;
use peryton_sim::Design;
use peryton_units::Bytes;
use serde_json::{Value, json};

use crate::{
    at_risk::at_risk,
    failure::Failure,
    naming::{self, Named},
    new_design::{Write, Written},
    output, page, terminal,
    volume::DesignArgs,
};

/// Options of `peryton create`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The design is /etc/peryton/NAME.toml, for users other than root ~/.config/peryton/NAME.toml, or at the given path (- for standard \
output). If it exists, ITS DEVICES ARE FORMATTED. Otherwise it is written from the options, and its devices are formatted if they have paths; a design without paths is for simulations. A device in use is refused. A device with \
content is refused without --force.

Examples:
  peryton create data --fast /dev/nvme0n1 --slow /dev/sdb
  peryton create my.toml --mode tiering --fast-profile wd-black-sn850x-2tb --size 4TiB")]
pub struct Args {
    /// The volume: its name, or the path of its design
    #[arg(value_name = naming::VOLUME, value_parser = naming::new_volume(), add = naming::completer())]
    volume: Named,
    /// How data are placed on the devices [default: caching]
    #[arg(long, value_name = "MODE", value_parser = modes())]
    mode: Option<PlacementKind>,
    /// The fast device, or the only one: a block device or an image file
    #[arg(long, value_name = "DEVICE")]
    fast: Option<PathBuf>,
    /// The slow device
    #[arg(long, value_name = "DEVICE")]
    slow: Option<PathBuf>,
    /// When a cache acknowledges writes [default: back]
    #[arg(long, value_enum)]
    write: Option<Write>,
    /// The part of the fast device that is used [default: all]
    #[arg(long, value_name = "SIZE")]
    fast_size: Option<Bytes>,
    /// The part of the slow device that is used [default: all]
    #[arg(long, value_name = "SIZE")]
    slow_size: Option<Bytes>,
    /// The size of the volume [default: what the devices hold]
    #[arg(long, value_name = "SIZE")]
    size: Option<Bytes>,
    /// The profile of the fast device in simulations (peryton profiles)
    #[arg(long, value_name = "PROFILE")]
    fast_profile: Option<String>,
    /// The profile of the slow device
    #[arg(long, value_name = "PROFILE")]
    slow_profile: Option<String>,
    /// Set a key of the design, such as placement.extent=64KiB
    #[arg(long, value_name = "KEY=VALUE", add = crate::completing::key_value())]
    set: Vec<String>,
    /// Overwrite data on the devices, and an existing design
    ///
    /// Overwrite data on the devices, and an existing design. A device in use is refused all the same.
    #[arg(long)]
    force: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Reads the name of a placement.
fn modes() -> impl TypedValueParser<Value = PlacementKind> {
    let mode = |name: String| PlacementKind::ALL.into_iter().find(|kind| kind.name() == name);
    PossibleValuesParser::new(PlacementKind::ALL.map(PlacementKind::name))
        .map(move |name| mode(name).expect("it is listed"))
}

impl Args {
    /// Whether the options say what the design is to be.
    fn describes(&self) -> bool {
        let Args { mode, fast, slow, write, fast_size, slow_size, size, fast_profile, slow_profile, .. } = self;
        mode.is_some()
            || fast.is_some()
            || slow.is_some()
            || write.is_some()
            || [fast_size, slow_size, size].iter().any(|size| size.is_some())
            || fast_profile.is_some()
            || slow_profile.is_some()
    }
}

/// Makes the volume and prints the result.
pub fn run(args: &Args) -> Result<(), Failure> {
    let path = args.volume.design();
    if !args.describes() && path.exists() {
        let (spec, mut remarks) = DesignArgs::new(args.volume.clone(), args.set.clone()).spec_to_format()?;
        let made = peryton_drive::format(&spec, args.force)?;
        let unsaid = args.set.iter().map(|set| {
            format!("--set {set}: {} does not say so: write it there, or give it to every verb", path.display())
        });
        remarks.extend(unsaid);
        return report(args, &spec, remarks, &made, None);
    }
    let to_stdout = output::is_stdout(path);
    if !to_stdout && !args.force && fs::symlink_metadata(path).is_ok() {
        return Err(is_there(path));
    }
    if !args.describes() {
        return Err(Failure::bad_input(format!(
            "{}: there is no such design: name its devices with --fast and --slow, or give --mode for one to simulate",
            path.display()
        )));
    }
    let new = described::gather(args)?;
    if to_stdout {
        let Written { text, .. } = new.written(path, &args.set)?;
        return output::print(&text);
    }
    naming::make_folder(path)?;
    if new.can_be_served() {
        let written = new.written(path, &args.set)?;
        let (spec, made) = format_new(path, &written, args.force)?;
        return report(args, &spec, Vec::new(), &made, Some((path, &written)));
    }
    let Written { text, .. } = new.written(path, &args.set)?;
    // What is written can be simulated; otherwise the options do not go together, and the message says why.
    let design = Design::parse(&text, &path.display().to_string(), &[])?;
    write_new(path, &text, args.force)?;
    if args.json {
        return output::print_json(&json!({ "design": path, "size": design.volume, "devices": [] }));
    }
    output::tell(&format!(
        "the design is {}, {} with a volume of {}, to be simulated: its devices have no paths, so nothing was formatted\n",
        page::quoted(&path.display().to_string()),
        new.mode.name(),
        design.volume
    ))
}

/// Writes a design and formats its devices. If that fails, no design is left behind.
fn format_new(path: &Path, new: &Written, force: bool) -> Result<(VolumeSpec, Made), Failure> {
    let failed = |error: io::Error| Failure::writing(&path.display().to_string(), &error);
    let near = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let spec = new.in_place(path)?.spec_to_serve()?;
    let absolute = |path: &Path| std::path::absolute(path).ok();
    if let Some(at) = spec.devices.iter().find(|at| absolute(&at.path) == absolute(path)) {
        return Err(Failure::bad_input(format!("{at} is the design as well: give the design another name")));
    }
    // The file is there before anything is formatted, because there may be no room for it. It replaces another one only when the
    // volume is made.
    let mut partial = OsString::from(path);
    partial.push(format!(".partial-{}", std::process::id()));
    let at = if force { Path::new(&partial) } else { path };
    let written = File::create_new(at).and_then(|mut file| {
        file.write_all(new.text.as_bytes())?;
        file.sync_all()
    });
    // The first error is the one to report.
    let remove = || drop(fs::remove_file(at));
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => is_there(path),
        _ => {
            remove();
            failed(error)
        }
    })?;
    let made = peryton_drive::format(&spec, force).inspect_err(|_| remove())?;
    if force {
        fs::rename(at, path).map_err(failed)?;
    }
    File::open(near).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok((spec, made))
}

/// Writes a design that nothing is formatted by.
fn write_new(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    if force {
        return output::write(path, text.to_owned());
    }
    // Another program may have made the file meanwhile.
    let file = File::options().write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|error| Failure::writing(&path.display().to_string(), &error))
}

fn is_there(path: &Path) -> Failure {
    let path = path.display();
    Failure::bad_input(format!(
        "{path}: there is a design already, which stays as it is: give another name, or --force to overwrite it"
    ))
}

fn report(
    args: &Args,
    spec: &VolumeSpec,
    mut remarks: Vec<String>,
    made: &Made,
    design: Option<(&Path, &Written)>,
) -> Result<(), Failure> {
    remarks.extend(at_risk(spec, &Linux::default()));
    remarks.iter().for_each(|remark| terminal::remark(remark));
    if args.json {
        let mut value = serde_json::to_value(made).map_err(Failure::failed)?;
        if let Some((design, written)) = design {
            value["design"] = json!(design);
            if let Some((extent, map)) = written.map {
                value["extent_bytes"] = json!(extent.0);
                value["map_bytes"] = json!(map.0);
            }
        }
        if !remarks.is_empty() {
            value["remarks"] = Value::from(remarks);
        }
        return output::print_json(&value);
    }
    let mut text = format!("volume {} of {} on\n", made.volume, made.size);
    for device in &made.devices {
        text.push_str(&format!("  {} ({}): {}\n", device.name, device.path.display(), device.used.at_least()));
    }
    if let Some((design, written)) = design {
        if let Some((extent, map)) = written.map {
            text.push_str(&format!(
                "extents of {extent}: the map takes {map} of memory once all of the volume was accessed\n"
            ));
        }
        text.push_str(&format!("the design is {}: peryton serve {}\n", design.display(), args.volume));
    }
    output::tell(&text)
}
