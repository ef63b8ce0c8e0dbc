//! Volumes that are not open: they are formatted, opened, inspected, repaired, detached, and get other devices.

use peryton_format::storage::Storage;

use super::Engine;
use crate::{
    api::command::DeviceId,
    api::config::Config,
    api::error::{ConfigError, DetachError, FormatError, OpenError, ReadmitError, ReplaceError},
    api::opened::{Formatting, Opened, Trust},
    lifecycle::Forgone,
    lifecycle::{self, Detached, Inspection, Sizes},
};

impl Engine {
    /// The devices of the volume that were evacuated, one bit each: it opens without them by itself, and they need not be there.
    pub fn evacuated(config: &Config, storage: &mut dyn Storage) -> u32 {
        lifecycle::sizes_in_force(config, storage).map_or(0, |sizes| lifecycle::evacuated(&sizes.devices, storage))
    }

    /// What a volume uses of its devices that is not open: what its superblocks say, or else what a new one would.
    ///
    /// # Errors
    /// The configuration cannot work.
    pub fn sizes_in_force(config: &Config, storage: &mut dyn Storage) -> Result<Sizes, ConfigError> {
        lifecycle::sizes_in_force(config, storage)
    }

    /// Makes a new, empty volume; the devices' content is given up.
    ///
    /// # Errors
    /// The configuration cannot work, or a device is missing, too small, or has failed.
    pub fn format(config: &Config, new: Formatting, storage: &mut dyn Storage) -> Result<(), FormatError> {
        lifecycle::format(config, new, storage)
    }

    /// Opens a volume after [`Engine::close`] or after a crash, and begins a new generation. A crash meanwhile changes
    /// nothing: the next call starts again.
    ///
    /// # Errors
    /// The devices are not all devices of one volume, or needed metadata cannot be read.
    pub fn open(config: Config, storage: &mut dyn Storage) -> Result<(Engine, Opened), OpenError> {
        Engine::open_without(config, storage, &[])
    }

    /// Opens a volume without some of its devices, which need not be there and are not read. Data that only they have
    /// is lost ([`Engine::losses`]), and they are no longer part of the volume. See `docs/failures.md`.
    ///
    /// # Errors
    /// Those of [`Engine::open`]; or the remaining device has no record of what the other one had.
    pub fn open_without(
        config: Config,
        storage: &mut dyn Storage,
        without: &[DeviceId],
    ) -> Result<(Engine, Opened), OpenError> {
        let (drive, opened) = lifecycle::open(config, storage, Trust::Nobody, without)?;
        Ok((Engine { drive }, opened))
    }

    /// Inspects all metadata of the volume. `whole`: also lists the journal and the map. `without`: reports the volume
    /// as it would be without these devices.
    ///
    /// # Errors
    /// The configuration cannot work. Faults of the devices are part of the result.
    pub fn inspect(
        config: Config,
        storage: &mut dyn Storage,
        whole: bool,
        without: &[DeviceId],
    ) -> Result<Inspection, ConfigError> {
        lifecycle::inspect(config, storage, whole, without)
    }

    /// Opens a volume and closes it again, which repairs what a crash or a damaged copy left behind. `trust` says which
    /// device is right if another program has written to one.
    ///
    /// # Errors
    /// Those of [`Engine::open_without`].
    pub fn repair(
        config: Config,
        storage: &mut dyn Storage,
        trust: Trust,
        without: &[DeviceId],
    ) -> Result<Opened, OpenError> {
        lifecycle::repair(config, storage, trust, without)
    }

    /// Writes all data to one device, which can then be used without Peryton: data that only the cache or the log has
    /// is written back. The volume cannot be opened after that.
    ///
    /// # Errors
    /// No device of this placement can have all data, data is lost or cannot be written back, or a device has failed.
    pub fn detach(config: Config, storage: &mut dyn Storage) -> Result<Detached, DetachError> {
        lifecycle::detach(config, storage, Forgone::default(), &mut |_| ())
    }

    /// The same, without some devices; `left` is called with the number of extents (of a log: blocks) that are still to be written, again
    /// and again.
    ///
    /// # Errors
    /// Those of [`Engine::detach`].
    pub fn detach_watched(
        config: Config,
        storage: &mut dyn Storage,
        forgone: Forgone<'_>,
        left: &mut dyn FnMut(u64),
    ) -> Result<Detached, DetachError> {
        lifecycle::detach(config, storage, forgone, left)
    }

    /// Does what [`Engine::detach_watched`] does for a volume of which one device takes reads and refuses writes: nothing is written to
    /// it. Until it succeeds the volume is as it was.
    ///
    /// # Errors
    /// Those of [`Engine::detach`]; or it is the device that is to have everything.
    pub fn rescue(
        config: Config,
        storage: &mut dyn Storage,
        unwritable: DeviceId,
        left: &mut dyn FnMut(u64),
    ) -> Result<Detached, DetachError> {
        lifecycle::rescue(config, storage, unwritable, left)
    }

    /// Takes a device back that was given up, with what it holds. What was written without it stays; what is lost without it
    /// is part of the volume again, if the device has everything that it had when it was given up. A crash meanwhile leaves
    /// the volume without it, and the device as it was.
    ///
    /// # Errors
    /// The others cannot be opened without it; it is not the one that was given up, or has not everything that it had.
    pub fn readmit(
        config: Config,
        storage: &mut dyn Storage,
        device: DeviceId,
    ) -> Result<lifecycle::Readmitted, ReadmitError> {
        lifecycle::readmit(config, storage, device)
    }

    /// Checks whether the device can be replaced: the others can be opened without it, and a loss that no metadata can
    /// name is accepted. Writes nothing.
    ///
    /// # Errors
    /// The others cannot be opened without it, or data would be lost that no metadata names.
    pub fn can_replace(
        config: &Config,
        storage: &mut dyn Storage,
        device: DeviceId,
        accept_loss: bool,
    ) -> Result<(), ReplaceError> {
        lifecycle::can_replace(config, storage, device, accept_loss)
    }

    /// Whether the replacement of this device must read as zeros where data goes, because no map says which of its data
    /// was written.
    pub fn replaces_with_zeros(config: &Config, device: DeviceId) -> bool {
        lifecycle::replaces_with_zeros(config, device)
    }

    /// Makes an empty device part of the volume, in place of a device that is gone, or that is given up with this call.
    /// [`Engine::replaces_with_zeros`] says whether it must read as zeros. `accept_loss`: allow a loss that no metadata
    /// can name. A crash meanwhile leaves the volume without the device.
    ///
    /// # Errors
    /// Those of [`Engine::can_replace`]; or a device is too small or has failed.
    pub fn replace(
        config: Config,
        storage: &mut dyn Storage,
        device: DeviceId,
        accept_loss: bool,
    ) -> Result<Opened, ReplaceError> {
        lifecycle::replace(config, storage, device, accept_loss)
    }
}
