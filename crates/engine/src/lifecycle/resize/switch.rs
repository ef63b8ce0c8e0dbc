//! The volume is closed with its old size and opened with the new one. The superblocks of the generation that begins say the new size:
//! as long as none of them is durable, the old size is in force.

use peryton_format::{
    block::{BLOCK, BLOCK_LEN},
    checkpoint::{self, CheckpointHeader},
    geometry::Geometry,
    map::{self, Named, Older},
    places::Places,
    storage::Storage,
    superblock::{Superblock, VolumeState},
};
use peryton_units::Bytes;

use super::{
    in_force::sizes_in_force,
    plan::{Layouts, layouts},
    state::Stage,
};
use crate::{
    api::command::DeviceId,
    api::config::Config,
    api::error::OpenError,
    api::opened::Opened,
    api::resizing::{ResizeEnd, Settled},
    cache::{CacheLayout, Reshape},
    lifecycle::{
        any::{AnyDrive, with_drive},
        drive::Drive,
        membership::rebuilt,
        superblocks::Superblocks,
        volume::{Opening, agree, open},
    },
    placement::PlacementOps,
};

impl<P: PlacementOps> Drive<P> {
    /// Whether everything beyond the new end is empty and nothing is under way.
    pub(crate) fn can_switch(&self) -> bool {
        let Some(resizing) = &self.resizing else { return false };
        let is_empty = self.placed.bytes_beyond() == Bytes::ZERO;
        resizing.stage != Stage::Emptying || is_empty && self.is_idle() && !self.io.is_in_doubt() && !self.io.stopped
    }
}

/// Closes the volume, unless that is done, and opens it with its new size, if it could be closed in good order. Can be tried again after
/// an error.
pub(crate) fn resize_now<P: PlacementOps>(
    drive: &mut Drive<P>,
    storage: &mut dyn Storage,
) -> Result<(AnyDrive, Opened), OpenError> {
    let resizing = drive.resizing.as_mut().expect("it is checked before that a device is being resized");
    if resizing.stage == Stage::Emptying {
        // The volume is in no state to go on with, whatever comes of it.
        let lost = drive.close(VolumeState::Clean, storage).is_err();
        let volume = drive.identity.as_ref().expect("it is open").volume;
        storage.has_closed(volume);
        if let Some(resizing) = &mut drive.resizing {
            resizing.stage = Stage::Closed { lost };
        }
    }
    let resizing = drive.resizing.as_ref().expect("it is still there");
    let lost = resizing.stage == Stage::Closed { lost: true };
    let before = drive.config();
    // What climbing has changed meanwhile may not suit the new size.
    let as_asked = &resizing.target.config;
    let after = Config { tuning: drive.io.tuning.clone(), ..as_asked.clone() };
    let after = if after.sizes_with(Some(drive.spare)).is_ok() { after } else { as_asked.clone() };
    let (mut new, opened, end) = open_resized((before, after), resizing.plan.device, storage, lost)?;
    with_drive!(&mut new, new => new.resize_ended = Some(end));
    Ok((rebuilt(new, drive), opened))
}

/// Opens the volume with the size that is in force, or, if it was closed with the old one, with the new one.
fn open_resized(
    (before, after): (Config, Config),
    device: DeviceId,
    storage: &mut dyn Storage,
    lost: bool,
) -> Result<(AnyDrive, Opened, ResizeEnd), OpenError> {
    let planned = sizes_in_force(&before, storage)?;
    let devices: Vec<DeviceId> = (0..planned.devices.len() as u8).map(DeviceId).collect();
    let found = Superblocks::read(&planned.devices, storage).of(&devices)?;
    let blocks: Vec<Superblock> = found.into_iter().map(|found| found.superblock).collect();
    let newest = blocks.iter().max_by_key(|block| block.age()).expect("a volume has devices").clone();
    if newest.geometry.devices == after.devices {
        // An earlier attempt has come so far.
        let (drive, opened) = open(after, storage, Opening::default())?;
        return Ok((drive, opened, ResizeEnd::Resized));
    }
    let closed = |block: &Superblock| block.state == VolumeState::Clean && block.generation == newest.generation;
    if lost || !blocks.iter().all(closed) {
        let (drive, opened) = open(before, storage, Opening::default())?;
        return Ok((drive, opened, ResizeEnd::NotClosed));
    }
    let newest = agree(&devices, &blocks, &before, None)?;
    let settled = Settled::from(&newest.geometry);
    let shaped = match layouts(&before, &after, settled)? {
        None => None,
        Some(layouts) => Some(shape(&layouts, &newest, storage)?),
    };
    let places = shaped.map(|(places, _)| places);
    let geometry = Geometry { devices: after.devices.clone(), places, ..newest.geometry.clone() };
    let mut drive = AnyDrive::new(after, Some(Settled { places, ..settled }))?;
    if let (AnyDrive::Cache(drive), Some((_, reshape))) = (&mut drive, shaped) {
        drive.placed.reshape = Some(reshape);
    }
    let (ended, volume) = (planned.devices[device.index()], newest.volume);
    let opened = with_drive!(&mut drive, drive => {
        drive.open_generation(storage, Opening::default(), (&blocks, &[]), newest, Some((device, geometry)))?
    });
    if let AnyDrive::Cache(drive) = &mut drive {
        drive.placed.move_room(storage, volume).map_err(|device| OpenError::Device { device: device.index() })?;
    }
    with_drive!(&drive, drive => {
        let behind = drive.placed.warmth().map_or(Bytes::ZERO, |warmth| warmth.room);
        let new_end = drive.device_bytes[device.index()];
        forget_end(storage, device, ended, (new_end, new_end + behind));
    });
    Ok((drive, opened, ResizeEnd::Resized))
}

/// Divides the room for the metadata so that the first checkpoint of the new layout leaves alone the one that is valid.
fn shape(layouts: &Layouts, newest: &Superblock, storage: &mut dyn Storage) -> Result<(Places, Reshape), OpenError> {
    let Layouts { before, wanted } = layouts;
    for _ in 0..2 {
        let valid = checkpoint_alone(before, newest, storage)?;
        if let Some((places, which)) = before.metadata.divided(valid, wanted) {
            return Ok((places, Reshape { from: *before, which }));
        }
    }
    Err(OpenError::Damaged { device: before.fast.index(), what: "there is no room for a longer map" })
}

/// Writes the map again in the old layout, to the place of the other checkpoint, so that it needs nothing of the journal, over which the
/// new layout may be. Returns which checkpoint is valid then.
fn checkpoint_alone(layout: &CacheLayout, newest: &Superblock, storage: &mut dyn Storage) -> Result<u64, OpenError> {
    let pair = [layout.fast, layout.slow];
    let found =
        map::read(storage, (&pair, layout.fast), &layout.metadata, newest.volume, (Older::Refused, Named::Lost));
    let found =
        found.map_err(|_| OpenError::Damaged { device: layout.fast.index(), what: "the map cannot be read" })?;
    let header = CheckpointHeader {
        number: found.next_number_base + 1,
        last_commit: 0,
        first_commit: found.next_commit + 1,
        journal_at: found.next,
        entries: found.entries.len() as u32,
        notice: found.notice,
        layout: layout.metadata.number,
    };
    let words = (&found.entries[..], &found.masks[..]);
    checkpoint::store(storage, &pair, &layout.metadata, &header, words, newest.volume)
        .map_err(|device| OpenError::Device { device: device.index() })?;
    Ok(header.which())
}

/// Blanks the superblock at the end that the device had: nothing is to be found there when the first one is damaged. What lies
/// between `from` and `to` is in use.
fn forget_end(storage: &mut dyn Storage, device: DeviceId, ended: Bytes, (from, to): (Bytes, Bytes)) {
    let at = ended - Bytes(BLOCK);
    if at + Bytes(BLOCK) == from || (from..to).contains(&at) {
        return;
    }
    // What fails here does no harm: the superblock is one of an earlier generation.
    let _ = storage.write(device, at, &[0; BLOCK_LEN]);
    let _ = storage.flush(device);
}
