//! What a volume uses of its devices, before it is opened: of one that was resized only its superblocks say it.

use peryton_format::{geometry::Arrangement, storage::Storage, superblock::Superblock};

use crate::{
    api::command::DeviceId,
    api::config::Config,
    api::error::ConfigError,
    api::resizing::Settled,
    lifecycle::{sizes::Sizes, volume::read_superblock},
};

/// The sizes of the volume of this configuration that is on the devices, or else those of a new one.
pub(crate) fn sizes_in_force(config: &Config, storage: &mut dyn Storage) -> Result<Sizes, ConfigError> {
    let planned = config.sizes()?;
    let newest = newest_superblock(&planned, storage);
    let is_same = |found: &Superblock| {
        found.geometry.devices == config.devices
            && found.geometry.arrangement == Arrangement::from(&config.placement)
            && found.geometry.places.is_some()
    };
    match newest.filter(is_same) {
        Some(found) => config.sizes_of(Some(Settled::from(&found.geometry))).or(Ok(planned)),
        None => Ok(planned),
    }
}

/// The newest superblock of those at the ends of these sizes.
fn newest_superblock(planned: &Sizes, storage: &mut dyn Storage) -> Option<Superblock> {
    let mut newest: Option<Superblock> = None;
    for (index, used) in planned.devices.iter().enumerate() {
        // A device that is missing or of something else says nothing about it; opening says what is wrong with it.
        if let Ok(found) = read_superblock(storage, DeviceId(index as u8), *used) {
            newest = [newest, Some(found.superblock)].into_iter().flatten().max_by_key(Superblock::age);
        }
    }
    newest
}
