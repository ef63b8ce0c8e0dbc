//! What a volume uses of its devices, before it is opened: of one that was resized only its superblocks say it.

use peryton_format::{storage::Storage, superblock::Superblock};

use crate::{
    api::config::Config,
    api::error::ConfigError,
    api::resizing::Settled,
    lifecycle::{sizes::Sizes, superblocks::Superblocks},
};

/// What a volume uses of its devices that is not open: what its superblocks say, or else what a new one would.
///
/// # Errors
/// The configuration cannot work.
pub fn sizes_in_force(config: &Config, storage: &mut dyn Storage) -> Result<Sizes, ConfigError> {
    let planned = config.sizes()?;
    // A device that is missing or of something else says nothing about it; opening says what is wrong with it.
    let found = Superblocks::read(&planned.devices, storage);
    let is_same = |found: &&Superblock| {
        found.geometry.devices == config.devices
            && found.geometry.placement == config.placement
            && found.geometry.places.is_some()
    };
    match found.newest().filter(is_same) {
        Some(found) => config.sizes_of(Some(Settled::from(&found.geometry))).or(Ok(planned)),
        None => Ok(planned),
    }
}
