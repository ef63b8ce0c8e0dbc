//! A volume that was made for whole extents is opened for parts of extents: the map gets masks. It is opened as it is, with all checks and
//! what a crash has left to do, and closed; then it is opened in the new layout, as if a device had been resized. As long as no superblock
//! says that the extents have blocks, the volume is what it was, and earlier versions of Peryton open it.

use peryton_format::{
    storage::Storage,
    superblock::{Superblock, VolumeState},
};

use crate::{
    api::command::DeviceId,
    api::config::Config,
    api::error::OpenError,
    api::opened::{Opened, Trust},
    lifecycle::{
        any::{AnyDrive, with_drive},
        resize::in_force::{newest_superblock, with_whole_extents, would_get_masks},
        resize::switch::open_resized,
        volume::open,
    },
};

/// Opens a volume as [`open`] does; before that one for whole extents gets parts of extents, if the configuration has them.
pub(crate) fn open_or_upgrade(
    config: Config,
    storage: &mut dyn Storage,
    trust: Trust,
    without: &[DeviceId],
) -> Result<(AnyDrive, Opened), OpenError> {
    let newest =
        newest_superblock(&config.sizes()?, storage).filter(|newest| would_get_masks(&config, &newest.geometry));
    match newest {
        Some(newest) => open_upgraded(config, storage, (trust, without), &newest),
        None => open(config, storage, trust, without),
    }
}

/// Opens a volume for parts of extents whose superblocks, of which `newest` is the newest one, say that it has whole ones.
fn open_upgraded(
    config: Config,
    storage: &mut dyn Storage,
    (trust, without): (Trust, &[DeviceId]),
    newest: &Superblock,
) -> Result<(AnyDrive, Opened), OpenError> {
    let refused = |why| Err(OpenError::Upgrade { why });
    if newest.geometry.displaced.is_some() {
        return refused("it was taken over with data, so that its metadata cannot be moved");
    }
    if !without.is_empty() || newest.gone != 0 {
        return refused("a device is missing: bring it back or replace it first");
    }
    let slow = config.placement.hybrid().expect("a cache has a slow device").slow;
    let before = with_whole_extents(&config);
    let (mut drive, mut opened) = open(before.clone(), storage, trust, &[])?;
    let volume = opened.volume;
    let closed = with_drive!(&mut drive, drive => drive.close(VolumeState::Clean, storage));
    drop(drive);
    storage.has_closed(volume);
    if closed.is_err() {
        return Err(OpenError::Device { device: slow.index() });
    }
    if opened.lost > 0 {
        return refused("extents are lost: write or discard them first");
    }
    let (drive, again, _) = open_resized((before, config), slow, storage, false)?;
    (opened.generation, opened.repaired) = (again.generation, opened.repaired + again.repaired);
    (opened.mapped, opened.dirty, opened.upgraded) = (again.mapped, again.dirty, true);
    Ok((drive, opened))
}
