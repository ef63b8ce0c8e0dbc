//! A volume that was made for whole extents is opened for parts of extents: the map gets masks. It is opened as it is, with all checks and
//! what a crash has left to do, and closed; then it is opened in the new layout, as if a device had been resized. As long as no superblock
//! says that the extents have blocks, the volume is what it was, and earlier versions of Peryton open it. Where it cannot be done, a driver
//! may open the volume as it is, with a configuration for whole extents.

use peryton_format::{
    storage::Storage,
    superblock::{Superblock, VolumeState},
};
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::config::Config,
    api::error::{ConfigError, OpenError},
    api::opened::{Opened, Trust},
    api::resizing::Settled,
    lifecycle::{
        any::{AnyDrive, with_drive},
        resize::in_force::{newest_superblock, with_whole_extents, would_get_masks},
        resize::plan::layouts,
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
    let refused = |why: &str| Err(OpenError::Upgrade { why: why.to_owned() });
    if newest.geometry.displaced.is_some() {
        return refused("it was taken over with data, so that its metadata cannot be moved");
    }
    if !without.is_empty() || newest.gone != 0 {
        return refused("a device is missing: bring it back or replace it first");
    }
    let (fast, slow) = config.placement.hybrid().map(|pair| (pair.fast, pair.slow)).expect("a cache has two devices");
    let before = with_whole_extents(&config);
    // That is known before anything is written.
    if let Some(most) = most_with_masks(&before, &config, Settled::from(&newest.geometry))? {
        let why = "the room for the map before the data, which formatting has fixed, is too small for what that takes";
        return refused(&format!(
            "{why}: shrink device {} to {}MiB or less first (peryton resize)",
            fast.index(),
            most.0 >> 20
        ));
    }
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

/// The most data that the fast device may have if the map with masks is to have a place in the room that there is for the old one;
/// `None` if it has no more than that.
fn most_with_masks(before: &Config, after: &Config, settled: Settled) -> Result<Option<Bytes>, ConfigError> {
    let pair = after.placement.hybrid().expect("a cache has two devices");
    let (fast, extent) = (pair.fast.index(), pair.extent);
    let fits = |extents: u64| -> Result<bool, ConfigError> {
        let mut smaller = after.clone();
        smaller.devices[fast] = extent * extents;
        Ok(layouts(before, &smaller, settled)?.is_none_or(|layouts| layouts.fit()))
    };
    let (mut most, mut too_many) = (0, after.devices[fast].0 / extent.0);
    if fits(too_many)? {
        return Ok(None);
    }
    while most + 1 < too_many {
        let middle = most + (too_many - most) / 2;
        // So few that the free extents do not fit are too few for a cache, not for the map.
        *(if fits(middle).unwrap_or(true) { &mut most } else { &mut too_many }) = middle;
    }
    Ok(Some(extent * most))
}
