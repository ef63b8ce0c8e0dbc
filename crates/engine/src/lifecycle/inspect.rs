//! Inspection of a volume that is not open: what is on its devices, what is wrong, and what opening it would do.
//! Nothing is written.

use std::{collections::HashMap, ops::Range};

use peryton_format::{
    block::{BLOCK, BLOCK_LEN},
    checkpoint::{self, CheckpointHeader},
    displaced::Displaced,
    entry::MapEntry,
    handoff::Found,
    journal::JournalRing,
    layout::MetadataLayout,
    snapshot::Header,
    storage::Storage,
    superblock::{Superblock, Unreadable, VolumeId, VolumeState},
};
use peryton_units::Bytes;
use serde::Serialize;

use crate::{
    api::command::DeviceId,
    api::config::Config,
    api::error::{ConfigError, DeviceError, OpenError},
    api::location::{Losses, MapRow},
    api::logging::LogPart,
    api::opened::Opened,
    api::resizing::Settled,
    cache::{CacheLayout, SavedUses, snapshots_on_device},
    lifecycle::any::with_drive,
    lifecycle::resize::in_force::sizes_in_force,
    lifecycle::sizes::{Laid, lay_out},
    lifecycle::volume::{Opening, open},
    log::{LogDrive, LogReport},
};

/// A writable copy of devices in memory: a read returns what was written to the copy, or else the devices' content.
pub struct Overlay<'a> {
    beneath: &'a mut dyn Storage,
    blocks: HashMap<(DeviceId, u64), Box<[u8; BLOCK_LEN]>>,
    /// What is written there goes to the device.
    passes: Option<(DeviceId, Range<Bytes>)>,
}

impl<'a> Overlay<'a> {
    /// Makes a copy of these devices, which stay unchanged.
    pub fn new(beneath: &'a mut dyn Storage) -> Overlay<'a> {
        Overlay { beneath, blocks: HashMap::new(), passes: None }
    }

    /// Makes a copy of these devices, which stay unchanged but for this range of one.
    pub(super) fn passing(beneath: &'a mut dyn Storage, device: DeviceId, range: Range<Bytes>) -> Overlay<'a> {
        Overlay { passes: Some((device, range)), ..Overlay::new(beneath) }
    }
}

impl Storage for Overlay<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.beneath.size(device)
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        let first = at.0 / BLOCK;
        let covered =
            (first..).zip(into.chunks(BLOCK_LEN)).all(|(block, _)| self.blocks.contains_key(&(device, block)));
        if !covered {
            self.beneath.read(device, at, into)?;
        }
        for (block, into) in (first..).zip(into.chunks_mut(BLOCK_LEN)) {
            if let Some(ours) = self.blocks.get(&(device, block)) {
                into.copy_from_slice(&ours[..into.len()]);
            }
        }
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        if self.passes.as_ref().is_some_and(|(passes, range)| *passes == device && range.contains(&at)) {
            return self.beneath.write(device, at, from);
        }
        for (block, from) in (at.0 / BLOCK..).zip(from.chunks_exact(BLOCK_LEN)) {
            let mut ours = Box::new([0; BLOCK_LEN]);
            ours.copy_from_slice(from);
            self.blocks.insert((device, block), ours);
        }
        Ok(())
    }

    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        match self.passes {
            Some((passes, _)) if passes == device => self.beneath.flush(device),
            _ => Ok(()),
        }
    }

    fn left_in_memory(&mut self, volume: VolumeId, clean: bool) -> Option<Found> {
        self.beneath.left_in_memory(volume, clean)
    }

    fn displaced(&self) -> Option<Displaced> {
        self.beneath.displaced()
    }
}

/// The metadata of a volume. What of its data is lost is said by [`Inspection::lost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metadata {
    /// Every copy is valid, and the volume was closed in good order.
    Whole,
    /// Opening the volume, or `repair`, restores it; no data that a flush made durable is lost by that.
    Repairable,
    /// The volume cannot be opened as it is.
    Damaged,
    /// Not seen: the devices are not those of a volume that this design describes, or not all of them are there.
    Unseen,
}

/// The state of one of the two superblocks of a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum SuperblockReport {
    /// Valid.
    Whole {
        /// The volume's identity, in hexadecimal.
        volume: String,
        /// The index of the device in the volume.
        device: usize,
        /// How often the volume had been opened.
        generation: u64,
        /// The state of the volume: opening, open, closing, closed, detached or aside.
        state: &'static str,
    },
    /// A Peryton superblock that is damaged or cannot be read.
    Damaged,
    /// Written by a newer version of Peryton.
    Version {
        /// The version.
        version: u32,
    },
    /// It uses features that are not known.
    Features {
        /// The features, one bit each.
        features: u32,
    },
    /// Not a Peryton superblock.
    Absent,
}

/// A checkpoint on a device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointReport {
    /// The number of the checkpoint; the highest one is current.
    pub number: u64,
    /// Number of the first commit that is not in it.
    pub first_commit: u64,
    /// Number of extents in its map.
    pub extents: u32,
    /// Number of its blocks that are damaged on this device.
    pub damaged_blocks: u64,
}

/// A snapshot of what the cache has learnt. No data depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SnapshotReport {
    /// The number of the snapshot; the highest one that is whole counts.
    pub number: u64,
    /// The generation of the volume in which it was taken.
    pub generation: u64,
    /// When it was taken, in seconds since 1970; 0 if that is not known.
    pub unix_s: u64,
    /// Its length.
    pub bytes: u64,
    /// Number of extents on the fast device that it describes.
    pub extents: u64,
    /// The replacement policy that it was taken of.
    pub policy: String,
    /// Whether all of its blocks are there. If not, the other one counts.
    pub whole: bool,
}

impl SnapshotReport {
    fn of((header, whole): (Header, bool)) -> SnapshotReport {
        let Header { number, generation, unix_s, extents, policy: (policy, _), blocks, .. } = header;
        SnapshotReport { number, generation, unix_s, bytes: BLOCK * (1 + u64::from(blocks)), extents, policy, whole }
    }
}

/// The metadata on one device of the volume. Sizes and offsets are in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceReport {
    /// Its index in the design.
    pub device: usize,
    /// Its size; absent if the device is missing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size: Option<u64>,
    /// How much of it the volume uses.
    pub used: u64,
    /// Offset of the data: mount a detached device at this offset.
    pub data_at: u64,
    /// The superblocks at its start and at its end.
    pub superblocks: Vec<SuperblockReport>,
    /// The checkpoints A and B, if the placement has a map.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub checkpoints: Vec<Option<CheckpointReport>>,
    /// The highest number of a commit in its journal.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub newest_commit: Option<u64>,
    /// Snapshots of what the cache has learnt, in the halves of the room for them; absent without such room.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub snapshots: Vec<Option<SnapshotReport>>,
    /// Number of damaged blocks in its journal; the last commit before a crash may leave some.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub damaged_journal_blocks: Option<u64>,
}

/// A commit that follows the newest checkpoint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CommitReport {
    /// The number of the commit.
    pub number: u64,
    /// The map entries that it changed.
    pub updates: Vec<MapRow>,
}

/// Where the first part of a volume lies whose slow device had data before. Offset and length are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct DisplacedReport {
    /// The index of the device.
    pub home: usize,
    /// The length of that part.
    pub bytes: u64,
    /// Its offset on the device.
    pub at: u64,
}

/// The most lost ranges that are listed.
const MOST_LOST: usize = 4096;
/// The most of them that a finding names.
const MOST_SAID: usize = 4;

/// The data that is lost until it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Lost {
    /// Number of lost bytes.
    pub bytes: u64,
    /// Offsets and lengths of the lost ranges, in order.
    pub ranges: Vec<(u64, u64)>,
    /// Whether there are more ranges.
    pub more: bool,
    /// Whether further data may be older than what was written, and nothing says which: the log that had it is gone.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub unknown: bool,
}

impl Lost {
    fn of(losses: &Losses) -> Lost {
        let ranges = losses.ranges.iter().map(|range| (range.start.0, (range.end - range.start).0)).collect();
        Lost { bytes: losses.bytes.0, ranges, more: losses.more, unknown: losses.unknown }
    }
}

/// The result of inspecting a volume.
///
/// ```
/// use peryton_engine::{Config, DeviceId, Engine, Formatting, Hybrid, Metadata, Placement, Tuning, closed};
/// use peryton_units::Bytes;
///
/// let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: Bytes::kib(64) };
/// let tuning = Tuning { demotion_low: 0, demotion_high: 0, ..Tuning::default() };
/// let config = Config { devices: vec![Bytes::mib(1), Bytes::mib(8)], placement: Placement::Caching(pair), tuning };
/// // Devices in memory.
/// let mut devices: Vec<Vec<u8>> = config.sizes()?.devices.iter().map(|size| vec![0; size.0 as usize]).collect();
/// Engine::format(&config, Formatting::default(), &mut devices)?;
/// let found = closed::inspect(config.clone(), &mut devices, false, &[])?;
/// assert_eq!((found.metadata, found.findings.len()), (Metadata::Whole, 0));
///
/// // One of the two superblocks of the cache is damaged, and the next opening writes it again.
/// devices[0][..4096].fill(0xff);
/// let found = closed::inspect(config, &mut devices, false, &[])?;
/// assert_eq!(found.metadata, Metadata::Repairable, "{:?}", found.findings);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Inspection {
    /// The metadata of each device.
    pub devices: Vec<DeviceReport>,
    /// Where the first part of the volume lies, if the slow device had data before it became part of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub displaced: Option<DisplacedReport>,
    /// What opening would find, or why the volume cannot be opened.
    #[serde(skip)]
    pub opened: Result<Opened, OpenError>,
    /// Data that cannot be read, because its device failed or would be left out.
    pub lost: Lost,
    /// What is wrong, one line each.
    pub findings: Vec<String>,
    /// The condition of the metadata.
    pub metadata: Metadata,
    /// Commits after the newest checkpoint, if asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub commits: Vec<CommitReport>,
    /// The content of the log, if requested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LogReport>,
    /// Every extent with a map entry, after all commits, if requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub map: Vec<MapRow>,
}

fn superblock_at(storage: &mut dyn Storage, device: DeviceId, at: Bytes) -> (SuperblockReport, Option<Superblock>) {
    let mut block = [0; BLOCK_LEN];
    if storage.read(device, at, &mut block).is_err() {
        return (SuperblockReport::Damaged, None);
    }
    match Superblock::decode(&block) {
        Ok(found) => {
            let report = SuperblockReport::Whole {
                volume: format!("{:032x}", found.volume.0),
                device: found.device.index(),
                generation: found.generation,
                state: found.state.name(),
            };
            (report, Some(found))
        }
        Err(Unreadable::Absent) => (SuperblockReport::Absent, None),
        Err(Unreadable::Damaged) => (SuperblockReport::Damaged, None),
        Err(Unreadable::Version(version)) => (SuperblockReport::Version { version }, None),
        Err(Unreadable::Features(features)) => (SuperblockReport::Features { features }, None),
    }
}

/// Inspects all metadata of the volume. `whole`: also lists the journal and the map. `without`: reports the volume as
/// it would be without these devices.
///
/// # Errors
/// The configuration cannot work. Faults of the devices are part of the result.
pub fn inspect(
    config: Config,
    storage: &mut dyn Storage,
    whole: bool,
    without: &[DeviceId],
) -> Result<Inspection, ConfigError> {
    let planned = sizes_in_force(&config, storage)?;
    let mut newest: Option<Superblock> = None;
    let mut devices = Vec::new();
    for (index, used) in planned.devices.iter().enumerate() {
        let device = DeviceId(index as u8);
        let size = storage.size(device);
        let mut superblocks = Vec::new();
        for at in [Bytes::ZERO, *used - Bytes(BLOCK)] {
            if size.is_some_and(|size| at + Bytes(BLOCK) <= size) {
                let (report, found) = superblock_at(storage, device, at);
                superblocks.push(report);
                newest = [newest, found].into_iter().flatten().max_by_key(Superblock::age);
            }
        }
        devices.push(DeviceReport {
            device: index,
            size: size.map(|size| size.0),
            used: used.0,
            data_at: planned.data_at[index].0,
            superblocks,
            checkpoints: Vec::new(),
            newest_commit: None,
            snapshots: Vec::new(),
            damaged_journal_blocks: None,
        });
    }
    let mut commits = Vec::new();
    let mut map = Vec::new();
    let mut log = None;
    // If the number of spare extents is not possible, opening reports that.
    if let Some(newest) = &newest {
        match lay_out(&config, Some(Settled::from(&newest.geometry))) {
            Ok((Laid::Cache(layout), _)) => {
                let lists = whole.then_some((&mut commits, &mut map));
                inspect_map(&layout, storage, newest.volume, &mut devices, lists);
            }
            // Opening reports the error, so nothing is listed here.
            Ok((Laid::Log(layout), _)) if whole => {
                let clean = matches!(newest.state, VolumeState::Clean | VolumeState::Detached);
                let mut logging = LogDrive::new(layout);
                if !without.contains(&logging.log_device)
                    && let Ok((report, newest)) = logging.report(storage, newest.volume, clean)
                {
                    (log, map) = (Some(report), newest);
                }
            }
            _ => {}
        }
    }
    let opened = open(config, &mut Overlay::new(storage), Opening::without(without));
    let lost = match &opened {
        Ok((drive, _)) => with_drive!(drive, drive => drive.losses(MOST_LOST)),
        Err(_) => Losses::default(),
    };
    let displaced = storage.displaced().map(|displaced| DisplacedReport {
        home: displaced.home.index(),
        bytes: displaced.bytes.0,
        at: displaced.at.0,
    });
    let parts =
        opened.as_ref().ok().and_then(|(drive, _)| drive.log()).map_or_else(Vec::new, |drive| drive.placed.parts());
    let opened = opened.map(|(_, opened)| opened);
    let (findings, metadata) = judge(&devices, &opened, (&lost, &parts));
    let lost = Lost::of(&lost);
    Ok(Inspection { devices, displaced, opened, lost, findings, metadata, commits, log, map })
}

/// Inspects checkpoints and journals.
fn inspect_map(
    map_of: &CacheLayout,
    storage: &mut dyn Storage,
    volume: VolumeId,
    devices: &mut [DeviceReport],
    lists: Option<(&mut Vec<CommitReport>, &mut Vec<MapRow>)>,
) {
    let pair = [map_of.fast, map_of.slow];
    let layout: &MetadataLayout = &map_of.metadata;
    let mut newest: Option<CheckpointHeader> = None;
    let mut rings = Vec::new();
    for device in pair {
        let report = &mut devices[device.index()];
        if report.size.is_none_or(|size| size < report.used) {
            rings.push(None);
            continue;
        }
        for header in checkpoint::headers(storage, device, layout, volume) {
            report.checkpoints.push(header.map(|header| CheckpointReport {
                number: header.number,
                first_commit: header.first_commit,
                extents: header.entries,
                damaged_blocks: checkpoint::damaged_blocks(storage, device, layout, &header, volume),
            }));
            newest = [newest, header].into_iter().flatten().max_by_key(|header| header.number);
        }
        if device == map_of.fast
            && let Some(found) = snapshots_on_device(storage, device, &map_of.room(), volume)
        {
            report.snapshots = found.map(|found| found.map(SnapshotReport::of)).to_vec();
        }
        let ring = JournalRing::read(storage, device, layout, volume).ok();
        report.newest_commit = ring.as_ref().map(JournalRing::newest);
        report.damaged_journal_blocks = ring.as_ref().map(|ring| ring.damaged_blocks());
        rings.push(ring);
    }
    let (Some((commits, map)), Some(header)) = (lists, newest) else { return };
    let Some((mut image, mut masks)) = checkpoint::load(storage, &pair, layout, &header, volume) else { return };
    let (mut number, mut at) = (header.first_commit, header.journal_at);
    while let Some(found) = rings.iter().flatten().find_map(|ring: &JournalRing| ring.find(number, at)) {
        let mut updates = Vec::new();
        for record in &found.records {
            record.apply(&mut image, &mut masks);
            let theirs = record.entry.place().filter(|_| layout.masks > 0).map(|_| record.masks);
            updates.push(map_of.row(record.extent, record.entry, theirs));
        }
        commits.push(CommitReport { number, updates });
        (number, at) = (number + 1, found.next);
    }
    let saved = SavedUses::read(map_of, storage, volume);
    let of = |entry: &MapEntry| entry.place().and_then(|place| masks.get(place.0 as usize)).copied();
    map.extend((0..).zip(&image).filter_map(|(extent, entry)| saved.row(map_of, extent, *entry, of(entry))));
}

fn judge(
    devices: &[DeviceReport],
    opened: &Result<Opened, OpenError>,
    (lost, parts): (&Losses, &[LogPart]),
) -> (Vec<String>, Metadata) {
    let mut findings = Vec::new();
    let mut metadata = Metadata::Whole;
    let mut find = |text: String, how_bad: Metadata| {
        findings.push(text);
        metadata = metadata.max(how_bad);
    };
    match opened {
        Err(error @ OpenError::NoSuperblocks { .. }) => find(error.to_string(), Metadata::Repairable),
        Err(error) if error.is_of_the_volume() => find(error.to_string(), Metadata::Damaged),
        Err(error) => return (vec![error.to_string()], Metadata::Unseen),
        Ok(opened) if !opened.clean => {
            let Opened { commits, .. } = opened;
            let s = if *commits == 1 { "" } else { "s" };
            find(
                format!("not closed in good order: opening it replays {commits} commit{s} from the journal"),
                Metadata::Repairable,
            );
            if devices.len() > 1 {
                find(
                    "until the volume is closed in good order, only the journal can tell a device from an older copy of it, \
                     such as a snapshot"
                        .to_owned(),
                    Metadata::Repairable,
                );
            }
        }
        Ok(_) => {}
    }
    // What an evacuated device says does not count.
    let evacuated = opened.as_ref().map_or(0, |opened| opened.evacuated);
    let counts = || devices.iter().filter(|report| evacuated >> report.device & 1 == 0);
    // Of two checkpoints, the older one may have been about to be overwritten.
    let newest = counts().flat_map(|report| report.checkpoints.iter().flatten()).map(|found| found.number).max();
    for report in counts() {
        let device = report.device;
        for (superblock, which) in report.superblocks.iter().zip(["first", "last"]) {
            if !matches!(superblock, SuperblockReport::Whole { .. }) {
                find(format!("device {device}: its {which} superblock is not whole"), Metadata::Repairable);
            }
        }
        for checkpoint in report.checkpoints.iter().flatten().filter(|found| found.damaged_blocks > 0) {
            if Some(checkpoint.number) != newest {
                continue;
            }
            let CheckpointReport { number, damaged_blocks, .. } = checkpoint;
            find(
                format!("device {device}: {damaged_blocks} blocks of checkpoint {number} are not whole"),
                Metadata::Repairable,
            );
        }
        if let Some(newest) = newest
            && !report.checkpoints.is_empty()
            && !report.checkpoints.iter().flatten().any(|found| found.number == newest)
        {
            find(format!("device {device}: it has no copy of checkpoint {newest}"), Metadata::Repairable);
        }
    }
    if lost.bytes > Bytes::ZERO {
        let first: Vec<String> =
            lost.ranges.iter().take(MOST_SAID).map(|range| format!("{} to {}", range.start.0, range.end.0)).collect();
        let more = match lost.ranges.len().saturating_sub(MOST_SAID) {
            0 => String::new(),
            more => format!(", and {more} more ranges (check --json lists them)"),
        };
        let (bytes, first) = (lost.bytes, first.join(", "));
        find(
            format!("{bytes} lost with a device, until they are overwritten or discarded: bytes {first}{more}"),
            Metadata::Whole,
        );
        for part in parts.iter().filter(|part| parts.len() > 1 && part.lost > Bytes::ZERO) {
            let LogPart { device, range, gone, lost } = part;
            let is_gone = if *gone { ", which is gone" } else { "" };
            find(
                format!("of them {lost} in the part of device {}{is_gone}: bytes from {} on", device.0, range.start.0),
                Metadata::Whole,
            );
        }
    }
    (findings, metadata)
}
