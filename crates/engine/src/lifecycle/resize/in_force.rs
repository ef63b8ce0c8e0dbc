//! What a volume uses of its devices, before it is opened: of one that was resized only its superblocks say it.

use peryton_format::{
    geometry::{Arrangement, Geometry},
    storage::Storage,
    superblock::Superblock,
};
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::config::{Config, Fill, Placement, Tuning},
    api::error::ConfigError,
    api::resizing::Settled,
    lifecycle::{sizes::Sizes, volume::read_superblock},
};

/// The sizes of the volume of this configuration that is on the devices, or else those of a new one.
pub(crate) fn sizes_in_force(config: &Config, storage: &mut dyn Storage) -> Result<Sizes, ConfigError> {
    let planned = config.sizes()?;
    let newest = newest_superblock(&planned, storage);
    if let Some(found) = newest.as_ref().filter(|found| would_get_masks(config, &found.geometry)) {
        // Until it is opened it has whole extents.
        let before = with_whole_extents(config);
        return before.sizes_of(Some(Settled::from(&found.geometry))).or(Ok(planned));
    }
    // That the design says so counts for a new volume alone.
    let shares = config.shares_frames();
    let is_same = |found: &Superblock| {
        found.geometry.devices == config.devices
            && found.geometry.arrangement == Arrangement::from(&config.placement)
            && (found.geometry.places.is_some() || found.geometry.shares_frames != shares)
    };
    match newest.filter(is_same) {
        Some(found) => config.sizes_of(Some(Settled::from(&found.geometry))).or(Ok(planned)),
        None => Ok(planned),
    }
}

/// The newest superblock of those at the ends of these sizes.
pub(in crate::lifecycle) fn newest_superblock(planned: &Sizes, storage: &mut dyn Storage) -> Option<Superblock> {
    let mut newest: Option<Superblock> = None;
    for (index, used) in planned.devices.iter().enumerate() {
        // A device that is missing or of something else says nothing about it; opening says what is wrong with it.
        if let Ok(found) = read_superblock(storage, DeviceId(index as u8), *used) {
            newest = [newest, Some(found.superblock)].into_iter().flatten().max_by_key(Superblock::age);
        }
    }
    newest
}

/// The configuration with which the volume was used before.
pub(in crate::lifecycle) fn with_whole_extents(config: &Config) -> Config {
    Config { tuning: Tuning { fill: Fill::Extent, ..config.tuning.clone() }, ..config.clone() }
}

/// Whether a volume of this geometry becomes one of this configuration by getting masks, and by nothing else.
pub(in crate::lifecycle) fn would_get_masks(config: &Config, found: &Geometry) -> bool {
    let is_cache = matches!(config.placement, Placement::Caching(_) | Placement::Partitioned(_));
    is_cache
        && config.tuning.fill != Fill::Extent
        && found.block == Bytes::ZERO
        && found.devices == config.devices
        && found.arrangement == Arrangement::from(&config.placement)
}
