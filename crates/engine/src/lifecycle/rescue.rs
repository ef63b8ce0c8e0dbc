//! A device that takes reads and refuses writes, such as a worn SSD, is not lost: what only it has is written to the device that can
//! stand alone.
//!
//! Opening the volume for that writes metadata, to the device that refuses it as well. So all metadata goes to memory, and only
//! data go to the other device, to the places that are theirs. They are what the first device says is newer, so that until the last
//! step the volume is as it was, and the rescue can be made again. The last step is the superblocks of the other device, which say that it
//! was detached; it can be made again as well.

use peryton_format::{copies, storage::Storage, superblock::VolumeState};
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::config::Config,
    api::error::{DetachError, DeviceError, OpenError},
    lifecycle::inspect::Overlay,
    lifecycle::offline::{Detached, Forgone, detach},
    lifecycle::resize::in_force::sizes_in_force,
    lifecycle::superblocks::read_superblock,
};

/// Does what [`detach`] does for a volume of which one device takes reads and refuses writes: nothing is written to it. Until it succeeds
/// the volume is as it was.
///
/// # Errors
/// Those of [`detach`]; or it is the device that is to have everything.
pub fn rescue(
    config: Config,
    storage: &mut dyn Storage,
    unwritable: DeviceId,
    left: &mut dyn FnMut(u64),
) -> Result<Detached, DetachError> {
    let home = config.placement.stands_alone().ok_or(DetachError::Divided)?;
    if home == unwritable {
        return Err(DetachError::Device);
    }
    let sizes = sizes_in_force(&config, storage).map_err(OpenError::Config)?;
    let (used, data) = (sizes.devices[home.index()], sizes.data_at[home.index()]);
    // The last step was cut short, or no record says that it was completed.
    let own = read_superblock(storage, home, used)?.superblock;
    if own.state == VolumeState::Detached {
        copies::write(storage, &own, used).map_err(|DeviceError| DetachError::Device)?;
        return Ok(Detached { device: home, at: data, len: sizes.volume, written_back: 0, lost: Bytes::ZERO });
    }
    let mut copy = Overlay::passing(storage, home, data..data + sizes.volume);
    let detached = detach(config, &mut copy, Forgone::default(), left)?;
    let says = read_superblock(&mut copy, home, used)?.superblock;
    copies::write(storage, &says, used).map_err(|DeviceError| DetachError::Device)?;
    Ok(detached)
}
