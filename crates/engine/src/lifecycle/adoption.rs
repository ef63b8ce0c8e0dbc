//! Takes over a disk that has data, and gives it back.
//!
//! The disk becomes the slow device of a cache. The volume has the data of the disk at their old offsets. The first part of the
//! disk is copied to its *home* first, because the volume's metadata go there; [`Displaced`] says where the home is. All of this is a
//! sequence of writes and flushes on a [`Storage`] of whole devices, which may end after any of them: a
//! [record](peryton_format::adoption) on the fast device says how far it came, and the next call goes on from there.
//!
//! ```text
//! taking over   record "copying"   copy to the home, flush, compare   record "copied"   block 0 of the disk says that it
//!               belongs to the volume, flush   format the volume   record "adopted"
//! giving back   detach the volume   record "returning"   block 0 says that it belongs to the volume, flush   copy back all
//!               but block 0, flush, compare   copy back block 0, flush, compare   record "returned"   remove the superblocks and
//!               the records of the fast device
//! ```
//!
//! Until the record says "copied" the disk is as it was; from then on until it says "returned" the home has the first part of it.
//! Whether block 0 of the disk says that it belongs to the volume shows whether anything else may have been overwritten.

mod alone;

use peryton_format::{
    adoption::{self, Phase, Record, Whose},
    block::{BLOCK, BLOCK_LEN},
    copies,
    displaced::{Displaced, UNIT},
    storage::{DeviceError, Storage},
    superblock::{Superblock, VolumeId},
    translated::Translated,
};
use peryton_units::Bytes;
use thiserror::Error;

use crate::{
    api::command::DeviceId,
    api::config::{Config, Hybrid, Placement},
    api::error::{ConfigError, DetachError, FormatError, OpenError},
    api::opened::Formatting,
    api::resizing::Settled,
    lifecycle::offline::{Forgone, detach},
    lifecycle::superblocks::used_by,
    lifecycle::volume::format,
};

/// The most bytes that are copied at once.
const AT_ONCE: u64 = 1 << 20;

/// Why a disk cannot be taken over or given back.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum AdoptError {
    /// The design has no device that keeps all data in their places.
    #[error(
        "only a cache can take over a disk that has data (placement.mode = \"caching\" or \"partitioned\"): in other designs the \
         data have no fixed places"
    )]
    Placement,
    /// The configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A device is too small.
    #[error("device {device} has {}, and taking over the disk needs {} of it: give a larger one",
        size.beside(*need), need.beside(*size))]
    TooSmall {
        /// The index of the device.
        device: usize,
        /// Its size.
        size: Bytes,
        /// What is needed.
        need: Bytes,
    },
    /// The disk ends within a block of a device.
    #[error(
        "device {device} has {size}, which is no multiple of {block}, the blocks in which the devices are written: {remedy}"
    )]
    Unaligned {
        /// The index of the device.
        device: usize,
        /// Its size.
        size: Bytes,
        /// The block.
        block: Bytes,
        /// What to do.
        remedy: &'static str,
    },
    /// The volume could not be made.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A device failed.
    #[error("device {device} could not be read or written: check it and try again")]
    Device {
        /// The index of the device.
        device: usize,
    },
    /// What was copied is not what is read back.
    #[error("the copy on device {home} of the first part of device {disk} is not what was copied: check both devices")]
    Differs {
        /// The index of the device with the copy.
        home: usize,
        /// The index of the disk.
        disk: usize,
    },
    /// Taking over was begun with another design.
    #[error(
        "device {device} was being taken over with other sizes or settings, and its first part is overwritten already: give the same \
         as before, or --undo"
    )]
    OtherSettings {
        /// The index of the disk.
        device: usize,
    },
    /// The disk is being given back.
    #[error("device {device} is being given back: run peryton export again first")]
    Returning {
        /// The index of the disk.
        device: usize,
    },
    /// The disk is taken over already.
    #[error("device {device} is taken over: peryton export gives it back, with what was written since")]
    IsAdopted {
        /// The index of the disk.
        device: usize,
    },
    /// The disk is taken over already, by a volume with another placement or division.
    #[error(
        "device {device} is taken over already, with another mode, extent or place of its first part: peryton serve has the volume by its \
         design, and peryton export gives the disk back"
    )]
    IsOtherVolume {
        /// The index of the disk.
        device: usize,
    },
    /// There is nothing to undo.
    #[error("device {device} has no record of a disk that was being taken over: there is nothing to undo")]
    NothingBegun {
        /// The index of the fast device.
        device: usize,
    },
    /// Some data are on a device that is not there.
    #[error(
        "only device {device} has {bytes} of the data{}: attach it, or a copy of it, or accept that they read as they were before \
         (--accept-loss)", first_part(*first)
    )]
    Lost {
        /// The index of the device.
        device: usize,
        /// How much, with the first part if that has moved there.
        bytes: Bytes,
        /// How much of the first part of the disk has moved there.
        first: Bytes,
    },
    /// The volume could not be detached.
    #[error(transparent)]
    Detach(#[from] DetachError),
}

fn first_part(first: Bytes) -> String {
    match first {
        Bytes::ZERO => String::new(),
        first => format!(", and the first {first} of the disk, which would read as zeros"),
    }
}

impl From<OpenError> for AdoptError {
    fn from(error: OpenError) -> AdoptError {
        AdoptError::Detach(DetachError::Open(error))
    }
}

/// Where the first part of the disk moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// To the end of the fast device. If that is lost, so is this part.
    Fast,
    /// To the end of the disk itself, where nothing is used. The volume ends before it.
    Disk,
}

/// How a disk would be taken over.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The configuration of the volume.
    pub config: Config,
    /// How the disk is divided.
    pub displaced: Displaced,
}

fn pair_of(config: &Config) -> Result<Hybrid, AdoptError> {
    match config.placement {
        Placement::Caching(pair) | Placement::Partitioned(pair) => Ok(pair),
        _ => Err(AdoptError::Placement),
    }
}

fn down(size: u64, unit: u64) -> u64 {
    size / unit * unit
}

/// Plans how a disk is taken over by a volume of this configuration, whose sizes do not count. `sizes`: the sizes of the
/// devices.
///
/// # Errors
/// The placement is no cache, or a device is too small.
pub fn plan(config: &Config, sizes: &[Bytes], home: Home) -> Result<Plan, AdoptError> {
    let pair = pair_of(config)?;
    let (fast, disk) = (pair.fast.index(), pair.slow.index());
    let size = |device: usize| sizes.get(device).copied().ok_or(ConfigError::Device { device, devices: sizes.len() });
    let (fast_size, disk_size) = (size(fast)?, size(disk)?);
    let unit = pair.extent.0.max(1);
    let mut config = config.clone();
    // There is no more metadata than this, whatever is left for data.
    config.devices[fast] = Bytes(down(fast_size.0, unit));
    config.devices[disk] = Bytes(disk_size.0.next_multiple_of(unit));
    let metadata = config.sizes()?.data_at[disk];
    // Behind the metadata lie the rest of the last extent and a superblock.
    let bytes = Bytes((metadata.0 + unit + BLOCK).next_multiple_of(UNIT));
    // A disk that is hardly larger than what is displaced gains nothing.
    let least = Bytes(bytes.0 * 2 + if home == Home::Disk { bytes.0 + UNIT } else { 0 });
    if disk_size < least {
        return Err(AdoptError::TooSmall { device: disk, size: disk_size, need: least });
    }
    let records = adoption::records_at(fast_size).0;
    let (at, volume, room) = match home {
        Home::Fast => {
            let at = down(records.saturating_sub(bytes.0), UNIT);
            (at, disk_size, at)
        }
        Home::Disk => {
            let at = down(disk_size.0 - bytes.0, UNIT);
            (at, Bytes(at), records)
        }
    };
    config.devices[disk] = Bytes(volume.0.next_multiple_of(unit));
    let too_small = |need| AdoptError::TooSmall { device: fast, size: fast_size, need };
    let mut data = down(room, unit);
    let sizes = loop {
        config.devices[fast] = Bytes(data);
        let sizes = match config.sizes() {
            Err(ConfigError::TooSmall { device, need, .. }) if device == fast => {
                return Err(too_small(need + metadata + bytes + adoption::RECORDS));
            }
            other => other?,
        };
        // Behind the volume comes its room for snapshots.
        let excess = (sizes.devices[fast] + sizes.behind[fast]).0.saturating_sub(room);
        if excess == 0 {
            break sizes;
        }
        data = data.checked_sub(excess.next_multiple_of(unit)).ok_or(too_small(metadata + bytes + Bytes(2 * unit)))?;
    };
    let displaced = Displaced {
        device: pair.slow,
        home: if home == Home::Fast { pair.fast } else { pair.slow },
        metadata: sizes.data_at[disk],
        bytes,
        at: Bytes(at),
        volume,
        used: sizes.devices[disk],
    };
    debug_assert_eq!(displaced.used, displaced.metadata + config.devices[disk] + Bytes(BLOCK));
    debug_assert!(displaced.is_possible() && sizes.volume >= volume, "{displaced:?} {sizes:?}");
    Ok(Plan { config, displaced })
}

/// What an earlier call has left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Standing {
    /// Nothing that counts for this plan.
    New,
    /// The disk is as it was; copying begins again.
    Begun(Record),
    /// The copy is durable, and the first part of the disk may be overwritten in part.
    Moved(Record),
    /// The disk is taken over.
    Adopted(Record),
    /// The disk is being given back.
    Returning(Record),
}

fn failed(device: DeviceId) -> impl Fn(DeviceError) -> AdoptError {
    move |DeviceError| AdoptError::Device { device: device.index() }
}

fn read(storage: &mut dyn Storage, device: DeviceId, at: Bytes, len: u64) -> Result<Vec<u8>, AdoptError> {
    let mut bytes = vec![0; len as usize];
    storage.read(device, at, &mut bytes).map_err(failed(device))?;
    Ok(bytes)
}

/// Whose the disk is. A torn block 0 counts as the volume's only if the rest of the first part is as it was. The answer is durable: a
/// process that was killed may have left block 0 in a cache of the disk.
fn whose(storage: &mut dyn Storage, record: &Record) -> Result<Whose, AdoptError> {
    let Displaced { device, home, at, bytes, .. } = record.displaced;
    storage.flush(device).map_err(failed(device))?;
    let (block, copy) = (read(storage, device, Bytes::ZERO, BLOCK)?, read(storage, home, at, BLOCK)?);
    match adoption::whose(&block, &copy, record.volume) {
        Whose::Torn if !is_same(storage, record, BLOCK..bytes.0)? => Ok(Whose::Another),
        other => Ok(other),
    }
}

/// Pieces of a range, of [`AT_ONCE`] bytes at the most: offset and length.
fn pieces(range: std::ops::Range<u64>) -> impl Iterator<Item = (u64, u64)> {
    let end = range.end;
    range.step_by(AT_ONCE as usize).map(move |at| (at, AT_ONCE.min(end - at)))
}

/// Whether a range of the first part of the disk is the same on the disk and at its home.
fn is_same(storage: &mut dyn Storage, record: &Record, range: std::ops::Range<u64>) -> Result<bool, AdoptError> {
    let Displaced { device, home, at, .. } = record.displaced;
    for (from, len) in pieces(range) {
        if read(storage, device, Bytes(from), len)? != read(storage, home, at + Bytes(from), len)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The checksum of what is at the home.
fn digest(storage: &mut dyn Storage, displaced: &Displaced) -> Result<u32, AdoptError> {
    let mut digest = 0;
    for (from, len) in pieces(0..displaced.bytes.0) {
        digest = crc32c::crc32c_append(digest, &read(storage, displaced.home, displaced.at + Bytes(from), len)?);
    }
    Ok(digest)
}

/// The newest superblock of the volume that the record names.
fn newest_of(storage: &mut dyn Storage, record: &Record) -> Option<Superblock> {
    let mut seen = Translated::new(storage, record.displaced);
    let found = (0..record.devices.len() as u8).filter_map(|device| {
        let (device, metadata) = (DeviceId(device), record.displaced.metadata);
        let used = metadata + record.devices[device.index()] + Bytes(BLOCK);
        copies::read(&mut seen, device, used, used_by).ok()
    });
    found.map(|found| found.superblock).filter(|block| block.volume == record.volume).max_by_key(Superblock::age)
}

/// If the volume was opened, it was made, even if the last record does not say so, and it may have newer data.
fn was_opened(newest: &Option<Superblock>) -> bool {
    newest.as_ref().is_some_and(|block| block.generation > 0)
}

/// What an earlier call of [`adopt`] or [`give_back`] has left on these devices, as far as it concerns this plan.
///
/// # Errors
/// A device could not be read, or the disk was being taken over with other settings.
pub fn standing(plan: &Plan, storage: &mut dyn Storage) -> Result<Standing, AdoptError> {
    let Plan { config, displaced } = plan;
    let fast = pair_of(config)?.fast;
    let Some((_, record)) = adoption::newest(storage, fast).map_err(failed(fast))? else { return Ok(Standing::New) };
    let is_this_one = record.devices == config.devices && record.displaced == *displaced;
    // Whatever else the record says, nothing is overwritten where the devices cannot hold what it names.
    let fits = |device: DeviceId, end: Bytes| storage.size(device).is_some_and(|size| end <= size);
    let old = &record.displaced;
    if !fits(old.device, old.needs()) || !fits(old.home, old.at + old.bytes) || old.device != displaced.device {
        return Ok(Standing::New);
    }
    let is_ours = matches!(whose(storage, &record)?, Whose::Ours | Whose::Torn);
    let block = newest_of(storage, &record);
    if is_ours && (record.phase == Phase::Adopted || record.phase == Phase::Copied && was_opened(&block)) {
        let is_same = block.is_none_or(|block| block.geometry.placement == config.placement);
        return match is_same && record.displaced == *displaced {
            true => Ok(Standing::Adopted(record)),
            false => Err(AdoptError::IsOtherVolume { device: displaced.device.index() }),
        };
    }
    Ok(match record.phase {
        Phase::Copied | Phase::Copying if !is_ours && is_this_one => Standing::Begun(record),
        Phase::Copied if is_ours && is_this_one => Standing::Moved(record),
        Phase::Copied if is_ours => return Err(AdoptError::OtherSettings { device: displaced.device.index() }),
        Phase::Returning if is_ours => Standing::Returning(record),
        _ => Standing::New,
    })
}

/// What [`adopt`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// All of it.
    New,
    /// It began again what an earlier call had begun; the disk was still as it was.
    BegunAgain,
    /// It went on where an earlier call had ended.
    Resumed,
    /// Nothing: the disk was taken over already.
    Already,
}

/// Takes over a disk. If the call ends early, because the process is killed or a device fails, the next one goes on.
///
/// # Errors
/// A device failed; what was copied is not what is read back; or the volume cannot be made.
pub fn adopt(plan: &Plan, new: Formatting, storage: &mut dyn Storage) -> Result<(VolumeId, Taken), AdoptError> {
    let Plan { config, displaced } = plan;
    let fast = pair_of(config)?.fast;
    let disk = displaced.device;
    let (volume, began_unix_s, taken, moved) = match standing(plan, storage)? {
        Standing::Adopted(record) => return Ok((record.volume, Taken::Already)),
        Standing::Returning(_) => return Err(AdoptError::Returning { device: disk.index() }),
        Standing::New => (new.volume, new.unix_s, Taken::New, None),
        Standing::Begun(record) => (record.volume, record.began_unix_s, Taken::BegunAgain, None),
        Standing::Moved(record) => (record.volume, record.began_unix_s, Taken::Resumed, Some(record)),
    };
    let record = |phase, digest| Record {
        volume,
        sequence: 0,
        phase,
        began_unix_s,
        digest,
        devices: config.devices.clone(),
        displaced: *displaced,
    };
    let write = |storage: &mut dyn Storage, record| adoption::write(storage, fast, &record).map_err(failed(fast));
    let copied = match moved {
        Some(copied) => copied,
        None => {
            write(storage, record(Phase::Copying, 0))?;
            copy_to_home(storage, displaced)?;
            let copied = record(Phase::Copied, digest(storage, displaced)?);
            if !is_same(storage, &copied, 0..displaced.bytes.0)? {
                return Err(AdoptError::Differs { home: displaced.home.index(), disk: disk.index() });
            }
            write(storage, copied.clone())?;
            copied
        }
    };
    check_home(storage, &copied)?;
    mark(storage, &copied)?;
    let marker = marker(&copied).try_into().expect("a record is a block");
    // What free places hold is not known.
    let new = Formatting { volume, unix_s: began_unix_s, zeroed: false, notes: new.notes };
    format(config, new, &mut Translated::new(storage, *displaced).with_marker(marker))?;
    write(storage, record(Phase::Adopted, copied.digest))?;
    Ok((volume, taken))
}

fn copy_to_home(storage: &mut dyn Storage, displaced: &Displaced) -> Result<(), AdoptError> {
    let Displaced { device, home, at, bytes, .. } = *displaced;
    // What a program has written just now may be in a cache of the disk.
    storage.flush(device).map_err(failed(device))?;
    for (from, len) in pieces(0..bytes.0) {
        let piece = read(storage, device, Bytes(from), len)?;
        storage.write(home, at + Bytes(from), &piece).map_err(failed(home))?;
    }
    storage.flush(home).map_err(failed(home))
}

/// Checks that the home still has what was recorded, before anything relies on it.
fn check_home(storage: &mut dyn Storage, record: &Record) -> Result<(), AdoptError> {
    let Displaced { device, home, .. } = record.displaced;
    let same = digest(storage, &record.displaced)? == record.digest;
    if same { Ok(()) } else { Err(AdoptError::Differs { home: home.index(), disk: device.index() }) }
}

/// The block that says that the disk belongs to the volume. All but its first sector is zeros.
fn marker(record: &Record) -> Vec<u8> {
    Record { sequence: 0, phase: Phase::Copied, ..record.clone() }.encode()
}

/// Makes block 0 of the disk say that it belongs to the volume.
fn mark(storage: &mut dyn Storage, record: &Record) -> Result<(), AdoptError> {
    let disk = record.displaced.device;
    storage.write(disk, Bytes::ZERO, &marker(record)).map_err(failed(disk))?;
    storage.flush(disk).map_err(failed(disk))
}

/// Copies the first part of the disk back from its home, the first block last.
fn restore(storage: &mut dyn Storage, record: &Record) -> Result<(), AdoptError> {
    let bytes = record.displaced.bytes.0;
    begin_to_restore(storage, record)?;
    copy_back(storage, record, BLOCK..bytes)?;
    copy_back(storage, record, 0..BLOCK)
}

fn begin_to_restore(storage: &mut dyn Storage, record: &Record) -> Result<(), AdoptError> {
    check_home(storage, record)?;
    if whose(storage, record)? == Whose::Ours {
        // A superblock may have something in its other sectors, so that what is left of a torn block could not be recognised.
        mark(storage, record)?;
    }
    Ok(())
}

fn copy_back(storage: &mut dyn Storage, record: &Record, range: std::ops::Range<u64>) -> Result<(), AdoptError> {
    let Displaced { device, home, at, .. } = record.displaced;
    for (from, len) in pieces(range.clone()) {
        let piece = read(storage, home, at + Bytes(from), len)?;
        storage.write(device, Bytes(from), &piece).map_err(failed(device))?;
    }
    storage.flush(device).map_err(failed(device))?;
    if is_same(storage, record, range)? {
        Ok(())
    } else {
        Err(AdoptError::Differs { home: home.index(), disk: device.index() })
    }
}

/// Makes the disk as it was, if taking it over was begun and has not come to its end. Returns whether the disk had been
/// changed.
///
/// # Errors
/// There is nothing to undo, the disk is taken over or being given back, or a device failed.
pub fn undo(config: &Config, storage: &mut dyn Storage) -> Result<bool, AdoptError> {
    let pair = pair_of(config)?;
    let fast = pair.fast;
    let nothing = AdoptError::NothingBegun { device: fast.index() };
    let (_, record) = adoption::newest(storage, fast).map_err(failed(fast))?.ok_or(nothing.clone())?;
    let disk = record.displaced.device;
    if disk != pair.slow {
        return Err(nothing);
    }
    let is_ours = matches!(whose(storage, &record)?, Whose::Ours | Whose::Torn);
    match record.phase {
        Phase::Copied if is_ours && was_opened(&newest_of(storage, &record)) => {
            return Err(AdoptError::IsAdopted { device: disk.index() });
        }
        Phase::Adopted if is_ours => return Err(AdoptError::IsAdopted { device: disk.index() }),
        Phase::Returning if is_ours => return Err(AdoptError::Returning { device: disk.index() }),
        Phase::Copying | Phase::Copied => {}
        _ => return Err(nothing),
    }
    let changed = record.phase == Phase::Copied && is_ours;
    if changed {
        restore(storage, &record)?;
    }
    clear_fast(config, storage, fast)?;
    Ok(changed)
}

/// What [`give_back`] has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GivenBack {
    /// The disk.
    pub device: DeviceId,
    /// How much of it is the volume.
    pub len: Bytes,
    /// Number of extents that were written back for it.
    pub written_back: u64,
    /// How much was lost with a device that is not there.
    pub lost: Bytes,
    /// Whether an earlier call had begun it.
    pub resumed: bool,
}

/// The record of giving the disk back, if that was begun. A record that an earlier volume has left does not count.
fn begun_return(pair: Hybrid, storage: &mut dyn Storage) -> Result<Option<Record>, AdoptError> {
    let fast = pair.fast;
    let newest = adoption::newest(storage, fast).map_err(failed(fast))?.map(|(_, record)| record);
    let begun = newest.filter(|record| matches!(record.phase, Phase::Returning | Phase::Returned));
    let Some(record) = begun.filter(|record| record.displaced.device == pair.slow) else { return Ok(None) };
    for device in [pair.fast, pair.slow] {
        let block = read(storage, device, Bytes::ZERO, BLOCK)?;
        if Superblock::decode(&block).is_ok_and(|superblock| superblock.volume != record.volume) {
            return Ok(None);
        }
    }
    Ok(Some(record))
}

/// Whether the disk is being given back: all data are on it, or at its home, and nothing opens the volume any more. `without`: the
/// devices that are not there.
///
/// # Errors
/// The device that has the record could not be read.
pub fn is_returning(config: &Config, storage: &mut dyn Storage, without: &[DeviceId]) -> Result<bool, AdoptError> {
    match pair_of(config) {
        Ok(pair) if without.contains(&pair.fast) => Ok(alone::begun(pair, storage)?.is_some()),
        Ok(pair) => Ok(begun_return(pair, storage)?.is_some()),
        Err(_) => Ok(false),
    }
}

/// Gives back a disk that was taken over, as the volume is now. `displaced`: how it is divided, if its superblocks say so. If the
/// call ends early, the next one goes on. `left` is called with the number of extents that are still to be written back. `forgone`: the
/// fast device may be among those that are not there.
///
/// # Errors
/// The volume cannot be detached, or a device failed; or data would be lost with a device that is not there.
pub fn give_back(
    config: &Config,
    displaced: Option<Displaced>,
    storage: &mut dyn Storage,
    forgone: Forgone<'_>,
    left: &mut dyn FnMut(u64),
) -> Result<GivenBack, AdoptError> {
    let pair = pair_of(config)?;
    let fast = pair.fast;
    if forgone.devices.contains(&fast) {
        return alone::give_back(config, displaced, storage, forgone.accept_loss);
    }
    let (record, written_back, resumed) = match (begun_return(pair, storage)?, displaced) {
        (Some(record), _) => (record, 0, true),
        (None, Some(displaced)) => {
            let (record, written_back) = detach_translated(config, displaced, storage, left)?;
            adoption::write(storage, fast, &record).map_err(failed(fast))?;
            (record, written_back, false)
        }
        (None, None) => return Err(OpenError::NotFormatted { device: fast.index() }.into()),
    };
    if record.phase == Phase::Returning {
        // Block 0 comes last: once it is as it was, so is all else, and other programs may have used the disk since.
        if matches!(whose(storage, &record)?, Whose::Ours | Whose::Torn) {
            restore(storage, &record)?;
        }
        let returned = Record { phase: Phase::Returned, ..record.clone() };
        adoption::write(storage, fast, &returned).map_err(failed(fast))?;
    }
    clear_fast(config, storage, fast)?;
    let Displaced { device, volume: len, .. } = record.displaced;
    Ok(GivenBack { device, len, written_back, lost: Bytes::ZERO, resumed })
}

/// Detaches the volume, if it is not yet, and records what is to be copied back.
fn detach_translated(
    config: &Config,
    displaced: Displaced,
    storage: &mut dyn Storage,
    left: &mut dyn FnMut(u64),
) -> Result<(Record, u64), AdoptError> {
    let mut seen = Translated::new(storage, displaced);
    let written_back = match detach(config.clone(), &mut seen, Forgone::default(), left) {
        Ok(detached) => detached.written_back,
        Err(DetachError::Open(OpenError::Detached { .. })) => 0,
        Err(error) => return Err(error.into()),
    };
    let disk = displaced.device;
    let of_disk = copies::read(&mut seen, disk, displaced.used, |_| None);
    let Superblock { volume, formatted_unix_s, geometry, .. } =
        of_disk.map_err(|_| AdoptError::Device { device: disk.index() })?.superblock;
    let digest = digest(storage, &displaced)?;
    let (phase, began_unix_s, devices) = (Phase::Returning, formatted_unix_s, geometry.devices);
    Ok((Record { volume, sequence: 0, phase, began_unix_s, digest, devices, displaced }, written_back))
}

/// Removes the superblocks of the volume from the fast device, and the records last.
fn clear_fast(config: &Config, storage: &mut dyn Storage, fast: DeviceId) -> Result<(), AdoptError> {
    let first = read(storage, fast, Bytes::ZERO, BLOCK)?;
    if let Ok(superblock) = Superblock::decode(&first) {
        let config = Config { devices: superblock.geometry.devices.clone(), ..config.clone() };
        let as_formatted = Settled { places: None, ..Settled::from(&superblock.geometry) };
        let used = config.sizes_of(Some(as_formatted)).ok().map(|sizes| sizes.devices[fast.index()]);
        let last = used.map(|used| used - Bytes(BLOCK));
        for at in last.into_iter().chain([Bytes::ZERO]) {
            storage.write(fast, at, &[0; BLOCK_LEN]).map_err(failed(fast))?;
            storage.flush(fast).map_err(failed(fast))?;
        }
    }
    adoption::remove(storage, fast).map_err(failed(fast))
}
