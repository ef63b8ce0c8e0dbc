//! What is done to a volume that nobody serves: looked at, put right, taken apart.

use std::io;

use peryton_engine::{ConfigError, DetachError, Detached, Engine, Inspection, OpenError, Opened, Trust};
use thiserror::Error;

use crate::{
    open::{Device, DeviceOpenError, Opening},
    serve::VolumeSpec,
    storage::Files,
};

/// Why it could not be done. One line each.
#[derive(Debug, Error)]
pub enum OfflineError {
    /// A device.
    #[error(transparent)]
    Device(#[from] DeviceOpenError),
    /// The design.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The volume cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It cannot be taken apart.
    #[error(transparent)]
    Detach(#[from] DetachError),
    /// No memory.
    #[error("memory for buffers: {0}")]
    System(#[from] io::Error),
}

/// As devices are opened that are there already.
const AS_THEY_ARE: Opening = Opening { direct: true, create: false };

/// Looks at a volume without changing anything; `whole`: the journal and the map as well.
pub fn inspect(spec: &VolumeSpec, whole: bool) -> Result<Inspection, OfflineError> {
    let devices = Device::open_all(&spec.devices, AS_THEY_ARE)?;
    Ok(Engine::inspect(spec.config.clone(), &mut Files::new(&devices)?, whole)?)
}

/// Makes good what a crash or a damaged copy left behind.
pub fn repair(spec: &VolumeSpec, trust: Trust) -> Result<Opened, OfflineError> {
    let devices = Device::open_all(&spec.devices, AS_THEY_ARE)?;
    Ok(Engine::repair(spec.config.clone(), &mut Files::new(&devices)?, trust, &[])?)
}

/// Takes a volume apart, so that one device stands alone.
pub fn detach(spec: &VolumeSpec) -> Result<Detached, OfflineError> {
    let devices = Device::open_all(&spec.devices, AS_THEY_ARE)?;
    Ok(Engine::detach(spec.config.clone(), &mut Files::new(&devices)?)?)
}
