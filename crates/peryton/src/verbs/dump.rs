//! `peryton dump`: prints all metadata of a volume as text or JSON.

use std::io::{self, Write};

use peryton_drive::{VolumeSpec, control::Ask};
use peryton_engine::{Inspection, LogRecord, LogReport, MapRow, Metadata, OpenError, SuperblockReport};
use serde_json::{Value, json};

use self::map::Map;
use super::check;
use crate::{failure::Failure, naming::Served, output, volume};

mod map;

/// Options of `peryton dump`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The verb writes nothing. The map of a served volume comes from its server; all other metadata need a closed volume.

The map has for each extent its place, the move under way, the number of accesses, and the time of the last one. docs/format.md \
explains the rest. The exit code is 2 if the devices are not those of a volume, or one is missing.")]
pub struct Args {
    #[command(flatten)]
    design: volume::DesignArgs,
    /// Do not print the map
    #[arg(long)]
    no_map: bool,
    /// Print the volume as it would be without this device
    #[arg(long, value_name = "NAME")]
    without: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Prints the metadata.
pub fn run(args: &Args) -> Result<(), Failure> {
    let served = Served::new(args.design.named().clone(), None);
    if args.without.is_empty() && served.is_served() {
        return of_served(args, &served);
    }
    let spec = args.design.spec(&args.without)?;
    let mut found = peryton_drive::inspect(&spec, true, &args.without)?;
    if args.no_map {
        found.map.clear();
    }
    match args.json {
        true => output::print_json(&check::as_json(&spec, &found))?,
        false => print(&spec, &found)?,
    }
    match &found.opened {
        Err(error) if found.metadata == Metadata::Unseen && !matches!(error, OpenError::Detached { .. }) => {
            Err(Failure::bad_input(spec.why_not_opened(error)))
        }
        _ => Ok(()),
    }
}

/// Prints the metadata of a volume that is not being served, as text.
fn print(spec: &VolumeSpec, found: &Inspection) -> Result<(), Failure> {
    let name = |device: usize| spec.devices.get(device).map_or("?", |device| device.name.as_str());
    let names: Vec<String> = spec.devices.iter().map(|device| device.name.clone()).collect();
    let rows: Vec<Value> = found.map.iter().map(|row| json!(row)).collect();
    let map = Map { rows: &rows, names: &names, is_of_log: found.log.is_some() };
    let row = |row: &MapRow| map.line(&json!(row));
    output::lines(|out| {
        for device in &found.devices {
            let size = device.size.map_or("missing".to_owned(), |size| format!("{size} bytes"));
            let path = spec.devices[device.device].path.display();
            writeln!(
                out,
                "device {} ({path}): {size}, {} used, data at {}",
                name(device.device),
                device.used,
                device.data_at
            )?;
            for (superblock, which) in device.superblocks.iter().zip(["first", "last"]) {
                match superblock {
                    SuperblockReport::Whole { volume, device, generation, state } => {
                        writeln!(
                            out,
                            "  {which} superblock: volume {volume}, device {device}, generation {generation}, {state}"
                        )?;
                    }
                    SuperblockReport::Damaged => writeln!(out, "  {which} superblock: damaged")?,
                    SuperblockReport::Version { version } => writeln!(out, "  {which} superblock: version {version}")?,
                    SuperblockReport::Features { features } => {
                        writeln!(out, "  {which} superblock: unknown features {features:#x}")?;
                    }
                    SuperblockReport::Absent => writeln!(out, "  {which} superblock: none")?,
                }
            }
            for (checkpoint, which) in device.checkpoints.iter().zip(["A", "B"]) {
                match checkpoint {
                    Some(at) => writeln!(
                        out,
                        "  checkpoint {which}: number {}, {} extents, followed by commit {}, {} damaged blocks",
                        at.number, at.extents, at.first_commit, at.damaged_blocks
                    )?,
                    None => writeln!(out, "  checkpoint {which}: none")?,
                }
            }
            for (snapshot, which) in device.snapshots.iter().zip(["A", "B"]) {
                match snapshot {
                    Some(of) => writeln!(
                        out,
                        "  snapshot {which}: number {}, generation {}, {} extents by {}, {} bytes, taken {}, {}",
                        of.number,
                        of.generation,
                        of.extents,
                        of.policy,
                        of.bytes,
                        if of.unix_s > 0 {
                            format!("{} s after the start of 1970", of.unix_s)
                        } else {
                            "at an unknown time".to_owned()
                        },
                        if of.whole { "whole" } else { "torn" }
                    )?,
                    None => writeln!(out, "  snapshot {which}: none")?,
                }
            }
            if let (Some(newest), Some(damaged)) = (device.newest_commit, device.damaged_journal_blocks) {
                writeln!(out, "  journal: newest commit {newest}, {damaged} torn or damaged blocks")?;
            }
        }
        for commit in &found.commits {
            writeln!(out, "commit {}", commit.number)?;
            for update in &commit.updates {
                writeln!(out, "  {}", row(update))?;
            }
        }
        if let Some(log) = &found.log {
            list(log, out)?;
        }
        if !found.map.is_empty() {
            map.write(out)?;
        }
        Ok(())
    })
}

/// Prints the map of a volume that is being served.
fn of_served(args: &Args, served: &Served) -> Result<(), Failure> {
    let (mut names, mut rows, mut of) = (Vec::new(), Vec::new(), Value::Null);
    served.ask(&Ask::Map {}, |mut line| {
        if let Value::Array(part) = line["map"].take() {
            rows.extend(part);
            let said = line["devices"].as_array().into_iter().flatten();
            names = said.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        }
        of = line["of"].take();
        true
    })?;
    if args.no_map {
        rows.clear();
    }
    if args.json {
        let devices: Vec<Value> =
            names.iter().enumerate().map(|(device, name)| json!({ "device": device, "name": name })).collect();
        return output::print_json(&json!({ "served": true, "devices": devices, "map": rows }));
    }
    output::lines(|out| Map { rows: &rows, names: &names, is_of_log: of == "log_ranges" }.write(out))
}

/// Prints the records of a log, in the order in which opening the volume reads them.
fn list(log: &LogReport, out: &mut dyn Write) -> io::Result<()> {
    let LogReport { newest_commit, first_needed_commit, segment_bytes, cut, .. } = log;
    writeln!(out, "log: newest commit {newest_commit}, needed from {first_needed_commit} on; next append {cut}")?;
    for record in &log.records {
        match record {
            LogRecord::Void { offset, len, before } => {
                writeln!(out, "  void: {offset} +{len} of appends before {before}")?;
            }
            LogRecord::Absent { from, to } => writeln!(out, "  absent: appends {from} to {}", to.saturating_sub(1))?,
            LogRecord::Listed { segment, opened, as_of } => {
                writeln!(out, "  listed: of segment {segment}, opened by {opened}, as of {as_of} only:")?;
            }
            LogRecord::Left { offset, len, at } => writeln!(out, "    {offset} +{len} at {at}")?,
        }
    }
    for segment in &log.segments {
        let at = segment.at;
        writeln!(
            out,
            "segment {}: {at} to {}, opened by append {}",
            segment.segment,
            at + segment_bytes,
            segment.opened
        )?;
    }
    for index in &log.indexes {
        let (sequence, at, last) = (index.sequence, index.at, index.upto.saturating_sub(1));
        writeln!(out, "index {sequence} at {at}: appends {} to {last}, {} writes", index.first, index.entries)?;
    }
    for append in &log.appends {
        writeln!(out, "append {} at {}, {} bytes", append.sequence, append.at, append.len)?;
        for write in &append.writes {
            writeln!(out, "  {} +{} at {}", write.offset, write.len, write.at)?;
        }
    }
    Ok(())
}
