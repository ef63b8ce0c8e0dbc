//! `peryton import`: takes over a disk that has data. It keeps them, and gains a cache.

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use clap::builder::{PossibleValuesParser, TypedValueParser};
use peryton_drive::{Adopted, Adopting, Linux, VolumeSpec};
use peryton_engine::{PlacementKind, adoption::Home};
use serde_json::{Value, json};

use crate::{
    at_risk::at_risk,
    failure::Failure,
    naming,
    new_design::{Named, NewDesign, NewDevice, Write},
    output, terminal,
};

/// Options of `peryton import`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The volume has the data of the disk at the same offsets, so mount the file systems of the disk from the \
volume. The first MiBs of the disk move, to make room for metadata, so the disk alone can no longer be mounted. If import is \
ended early, run the same command again, or add --undo. peryton export gives the disk back. docs/making-a-volume.md names the data that the loss of \
each device costs."
)]
pub struct Args {
    /// The volume: its name, or the path of the design to write
    ///
    /// The volume: its name, or the path of the design to write; the design may exist from an earlier call with the same
    /// options.
    #[arg(value_name = naming::VOLUME, value_parser = naming::new_volume(), add = naming::completer())]
    volume: naming::Named,
    /// The disk that has data: a disk, a partition, or a file
    ///
    /// The disk that has data: a whole disk, a partition, or any other block device or file.
    #[arg(long, value_name = "DEVICE")]
    slow: PathBuf,
    /// The fast device, which becomes the cache
    #[arg(long, value_name = "DEVICE")]
    fast: PathBuf,
    /// How data are placed on the devices
    #[arg(long, value_name = "MODE", default_value = "caching", value_parser = modes())]
    mode: PlacementKind,
    /// When a cache acknowledges writes [default: back]
    #[arg(long, value_enum)]
    write: Option<Write>,
    /// Set a key of the design that is written, such as placement.extent=64KiB
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// New place of the disk's first MiBs
    #[arg(long, value_enum, default_value = "auto")]
    home: WantedHome,
    /// Overwrite data on the fast device; a device in use is refused
    ///
    /// Overwrite data on the fast device. A device in use is refused all the same.
    #[arg(long)]
    force: bool,
    /// Print each step and what it would cost; write nothing
    ///
    /// Print each step, and the data that the loss of each device would cost afterwards; write nothing.
    #[arg(long)]
    dry_run: bool,
    /// Restore the disk as it was before an import that was ended early
    #[arg(long, conflicts_with_all = ["dry_run", "force", "home"])]
    undo: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

/// Reads the name of a placement that can take over a disk.
fn modes() -> impl TypedValueParser<Value = PlacementKind> {
    PossibleValuesParser::new([PlacementKind::Caching, PlacementKind::Partitioned].map(PlacementKind::name)).map(
        |name| {
            if name == PlacementKind::Partitioned.name() { PlacementKind::Partitioned } else { PlacementKind::Caching }
        },
    )
}

/// Where the first part of the disk moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum WantedHome {
    /// To the end of the disk if what is on it leaves that unused, otherwise to the fast device
    Auto,
    /// To the end of the disk: the loss of the fast device does not lose it
    Disk,
    /// To the end of the fast device: its loss loses it
    Fast,
}

/// Takes the disk over and prints the result.
pub fn run(args: &Args) -> Result<(), Failure> {
    if args.write.is_some() && args.mode != PlacementKind::Caching {
        return Err(Failure::bad_input("--write is for a cache: leave it out, or give --mode caching"));
    }
    let (path, force) = (args.volume.design(), args.force);
    let device = |path: &Path| {
        Named::of(path, &Linux::default(), false).map(|named| NewDevice { path: Some(named), ..NewDevice::default() })
    };
    let devices = vec![device(&args.fast)?, device(&args.slow)?];
    let new = NewDesign { mode: args.mode, devices, volume: None, write: args.write };
    let written = new.written(path, &args.set)?;
    let text = &written.text;
    let near = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let spec = written.in_place(path)?.spec_to_serve()?;
    if args.undo {
        return undo(args, &spec);
    }
    let home = match args.home {
        WantedHome::Auto => None,
        WantedHome::Disk => Some(Home::Disk),
        WantedHome::Fast => Some(Home::Fast),
    };
    let planned = peryton_drive::adopt(&spec, Adopting { home, force, dry_run: true })?;
    if args.dry_run {
        return report(args, &spec, &planned);
    }
    naming::make_folder(path)?;
    let is_new = write_design(path, near, text)?;
    let adopted = peryton_drive::adopt(&spec, Adopting { home, force, dry_run: false }).inspect_err(|error| {
        // Once the disk may be changed, the design is needed.
        let untouched = !matches!(error, peryton_drive::OfflineError::Failed(_));
        if is_new && untouched {
            // The first error is the one to report.
            let _ = fs::remove_file(path);
        }
    })?;
    report(args, &spec, &adopted)
}

fn undo(args: &Args, spec: &VolumeSpec) -> Result<(), Failure> {
    let changed = peryton_drive::undo_adoption(spec)?;
    let disk = args.slow.display();
    if args.json {
        return output::print_json(&json!({ "path": args.slow, "restored": changed }));
    }
    // What it does not use at its end may have been the place of its first part.
    let how = if changed { "its first part was copied back" } else { "none of them had been changed" };
    output::print(&format!("the data of {disk} are as they were: {how}\n"))
}

/// Writes the design, unless it is there with the same text. Returns whether it was written.
fn write_design(path: &Path, near: &Path, text: &str) -> Result<bool, Failure> {
    let failed = |error: std::io::Error| Failure::writing(&path.display().to_string(), &error);
    let written = File::create_new(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    match written {
        Ok(()) => {}
        // It may have been cut off when an earlier call was ended.
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            let there = fs::read(path).map_err(failed)?;
            if there == text.as_bytes() {
                return Ok(false);
            }
            if !text.as_bytes().starts_with(&there) {
                return Err(Failure::bad_input(format!(
                    "{}: there is another design already, which stays as it is: give another name",
                    path.display()
                )));
            }
            let mut file = File::create(path).map_err(failed)?;
            file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)?;
        }
        Err(error) => return Err(failed(error)),
    }
    File::open(near).and_then(|folder| folder.sync_all()).map_err(failed)?;
    Ok(true)
}

/// What the loss of each device costs, one line each, beyond what `at_risk` says of any such design.
fn costs(spec: &VolumeSpec, adopted: &Adopted) -> Vec<String> {
    let mut lines = Vec::new();
    let Adopted { displaced, size, .. } = adopted;
    if displaced.elsewhere {
        lines.push(format!(
            "{}: device '{}' has the only copy of the first {} of the disk: if it fails, they are lost as well, usually with \
             the metadata of the file system; use two drives as md RAID 1, or make the file system {} smaller first, so that they can \
             stay on the disk (--home disk)",
            displaced.path.display(),
            displaced.device,
            displaced.bytes,
            displaced.bytes,
        ));
    } else {
        lines.push(format!(
            "{}: without the fast device the disk still has all of its data, up to {size}, except writes that are not written back",
            adopted.path.display()
        ));
    }
    lines.extend(at_risk(spec, &Linux::default()));
    lines
}

fn report(args: &Args, spec: &VolumeSpec, adopted: &Adopted) -> Result<(), Failure> {
    let costs = costs(spec, adopted);
    let Adopted { volume, size, disk, path, holds, displaced, cache, done, .. } = adopted;
    let (path, design) = (path.display(), args.volume.design().display());
    if args.json {
        let mut value = serde_json::to_value(adopted).map_err(Failure::failed)?;
        value["design"] = json!(args.volume.design());
        value["costs"] = Value::from(costs);
        return output::print_json(&value);
    }
    let moved = format!(
        "the first {} move to {} at {} of {} ({})",
        displaced.bytes,
        if displaced.elsewhere { "the fast device," } else { "the end of the disk," },
        displaced.at,
        displaced.device,
        displaced.path.display()
    );
    let Some(volume) = volume else {
        let of = match holds {
            Some(what) => format!("holds {what}, and would be taken over:"),
            None => "is being taken over; that would go on, or is done:".to_owned(),
        };
        let mut text = format!(
            "device '{disk}' ({path}) {of}\n  a volume of {size}, with {cache} for copies on '{}'\n",
            fast(spec)
        );
        text.push_str(&format!("  {moved}\n"));
        costs.iter().for_each(|cost| text.push_str(&format!("  {cost}\n")));
        return output::print(&(text + "nothing was written\n"));
    };
    costs.iter().for_each(|cost| terminal::remark(cost));
    if adopted.has_old_partitions {
        terminal::remark(&format!(
            "{path}: Linux still has the partitions that it found on it: mount none of them, and start the machine again, or partprobe {path}"
        ));
    }
    let named = &args.volume;
    let how = match *done {
        "already" => "was taken over already",
        "resumed" => "is taken over: what an earlier call had begun is done",
        "begun_again" => "is taken over: an earlier call had not changed its data, so this one began again",
        _ => "is taken over",
    };
    output::print(&format!(
        "device '{disk}' ({path}) {how}\nvolume {volume} of {size}, with {cache} for copies; {moved}\nthe design is {design}: peryton \
         serve {named}; peryton export {named} gives the disk back\n"
    ))
}

fn fast(spec: &VolumeSpec) -> &str {
    let fast = spec.config.placement.hybrid().map(|pair| pair.fast.index());
    fast.and_then(|fast| spec.devices.get(fast)).map_or("the fast device", |device| device.name.as_str())
}
