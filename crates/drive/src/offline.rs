//! What is done to a volume that nobody serves: looked at, put right, given a device in place of one that is gone, taken
//! apart.

use std::io;

use peryton_engine::{Detached, Engine, Inspection, Opened, Trust};
use thiserror::Error;

use crate::{
    format::{empty, zero},
    open::{Device, DeviceOpenError, Opening, named},
    probe,
    spec::VolumeSpec,
    storage::Files,
};

/// Why it could not be done. One line each.
#[derive(Debug, Error)]
pub enum OfflineError {
    /// A device.
    #[error(transparent)]
    Device(#[from] DeviceOpenError),
    /// The engine refuses the design, or what is to be done with the volume; with the devices' names.
    #[error("{0}")]
    Refused(String),
    /// What is to be the new device holds something.
    #[error("device '{name}' holds {what}: give --force to destroy it")]
    Holds {
        /// The device.
        name: String,
        /// What it holds.
        what: &'static str,
    },
    /// No memory.
    #[error("memory for buffers: {0}")]
    System(#[from] io::Error),
}

fn refused<E: std::fmt::Display>(spec: &VolumeSpec) -> impl Fn(E) -> OfflineError {
    |error| OfflineError::Refused(spec.with_names(error))
}

/// As devices are opened that are there already.
const AS_THEY_ARE: Opening = Opening { direct: true, create: false };

/// Looks at a volume without changing anything; `whole`: the journal and the map as well. As it would be without the
/// devices of these names.
///
/// # Errors
/// A device cannot be opened or read, or the volume is not one of this design.
pub fn inspect(spec: &VolumeSpec, whole: bool, without: &[String]) -> Result<Inspection, OfflineError> {
    let without = named(&spec.devices, without)?;
    let devices = Device::open_all(&spec.devices, AS_THEY_ARE, &without)?;
    Engine::inspect(spec.config.clone(), &mut Files::new(&devices)?, whole, &without).map_err(refused(spec))
}

/// Makes good what a crash or a damaged copy left behind, without the devices of these names.
///
/// # Errors
/// As [`inspect`], or there is nothing to repair it from.
pub fn repair(spec: &VolumeSpec, trust: Trust, without: &[String]) -> Result<Opened, OfflineError> {
    let without = named(&spec.devices, without)?;
    let devices = Device::open_all(&spec.devices, AS_THEY_ARE, &without)?;
    Engine::repair(spec.config.clone(), &mut Files::new(&devices)?, trust, &without).map_err(refused(spec))
}

/// Puts an empty device in the place of the one of this name, which is gone. That what is at its path now holds something
/// is an error unless `force` says otherwise; so is a loss that nobody could name afterwards (`linear`, `logging`) unless
/// `accept_loss` says that it is accepted.
///
/// # Errors
/// As [`inspect`], the device is not the one that is gone, or one of the refusals above.
pub fn replace(spec: &VolumeSpec, name: &str, force: bool, accept_loss: bool) -> Result<Opened, OfflineError> {
    let replaced = named(&spec.devices, &[name.to_owned()])?[0];
    let device = replaced.index();
    let mut devices = Device::open_all(&spec.devices, AS_THEY_ARE, &[replaced])?;
    // Nothing is destroyed before it is known that the others can do without it.
    let mut files = Files::new(&devices)?;
    Engine::can_replace(&spec.config, &mut files, replaced, accept_loss).map_err(refused(spec))?;
    drop(files);
    let new = Device::open(&spec.devices[device], Opening { direct: true, create: true })?;
    devices[device] = new;
    let need = spec.config.sizes().map_err(refused(spec))?.devices[device];
    if let Some(new) = &mut devices[device] {
        if !force && let Some(what) = probe::content(new)? {
            return Err(OfflineError::Holds { name: name.to_owned(), what });
        }
        if !new.is_block || new.size >= need {
            let is_empty = empty(new, need).map_err(|(_, source)| source)?;
            if !is_empty && Engine::replaces_with_zeros(&spec.config, replaced) {
                zero(new, need)?;
            }
        }
        new.sync_directory()?;
    }
    Engine::replace(spec.config.clone(), &mut Files::new(&devices)?, replaced, accept_loss).map_err(refused(spec))
}

/// Takes a volume apart, so that one device stands alone.
///
/// # Errors
/// As [`inspect`], or neither device can stand alone.
pub fn detach(spec: &VolumeSpec) -> Result<Detached, OfflineError> {
    let devices = Device::open_all(&spec.devices, AS_THEY_ARE, &[])?;
    Engine::detach(spec.config.clone(), &mut Files::new(&devices)?).map_err(refused(spec))
}
