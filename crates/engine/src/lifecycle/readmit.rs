//! Takes back a device that was given up, with the data that it holds. Its generation and its journal show that it holds
//! everything that it held when it was given up. The other devices hold what was written since, and their map says for each
//! extent whether it was written. The extents that are lost without the device become part of the volume again. (A log has no
//! such map: `log/taking_back.rs` says when it takes a device back.)
//!
//! A crash on the way destroys nothing, because of the order of the writes. First the other devices get the new map, whose
//! meaning does not change while their superblocks say that the device is gone. Then the device gets the map, in place of
//! a checkpoint that it does not need. Its superblocks come next, and those of the other devices last.

use peryton_format::{
    mutation::{self, Mutation},
    storage::Storage,
    superblock::{GivenUp, Superblock},
};

use crate::{
    api::command::DeviceId,
    api::config::Config,
    api::error::{OpenError, ReadmitError},
    api::opened::Opened,
    lifecycle::any::with_drive,
    lifecycle::drive::Drive,
    lifecycle::inspect::Overlay,
    lifecycle::resize::in_force::sizes_in_force,
    lifecycle::superblocks::Superblocks,
    lifecycle::volume::{Opening, open},
    placement::PlacementOps,
};

/// The result of taking a device back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Readmitted {
    /// The volume as it is now.
    pub opened: Opened,
    /// Extents that are part of the volume again.
    pub restored: u64,
}

/// Takes a device back that was given up, with what it holds. What was written without it stays; what is lost without it
/// is part of the volume again, if the device has everything that it had when it was given up. A crash meanwhile leaves
/// the volume without it, and the device as it was.
///
/// # Errors
/// The others cannot be opened without it; it is not the one that was given up, or has not everything that it had.
pub fn readmit(config: Config, storage: &mut dyn Storage, device: DeviceId) -> Result<Readmitted, ReadmitError> {
    // A first pass, which writes to memory only, finds every reason why that is impossible before anything is written.
    take_back(config.clone(), &mut Overlay::new(storage), device)?;
    take_back(config, storage, device)
}

fn take_back(config: Config, storage: &mut dyn Storage, device: DeviceId) -> Result<Readmitted, ReadmitError> {
    let index = device.index();
    let sizes = sizes_in_force(&config, storage).map_err(OpenError::Config)?;
    let size = storage.size(device).ok_or(OpenError::Missing { device: index })?;
    let found = Superblocks::read(&sizes.devices, storage);
    let own = found.of(&[device])?.remove(0).superblock;
    let newest = newest_of_others(&found, device)?;
    check(&own, &newest, device)?;
    let also: Vec<DeviceId> = (0..config.devices.len() as u8)
        .map(DeviceId)
        .filter(|other| *other == device || newest.gone >> other.index() & 1 == 1)
        .collect();
    // If taking it back was interrupted, it has a map that is later than that commit, and begins to count anew.
    let commit = if own.generation == newest.seals[index] { newest.given_up.commit } else { 0 };
    let expected = GivenUp { commit, ..newest.given_up };
    let (mut drive, opened) = open(config, storage, Opening::without(&also))?;
    with_drive!(&mut drive, drive => {
        let need = drive.device_bytes[index];
        if size < need {
            return Err(OpenError::TooSmall { device: index, size, need }.into());
        }
        drive.readmit(storage, device, expected, opened)
    })
}

/// Checks by what a device says of itself whether a volume in service may take it back.
pub(crate) fn can_take_back<P: PlacementOps>(
    drive: &Drive<P>,
    says: &Superblock,
    device: DeviceId,
) -> Result<(), ReadmitError> {
    let identity = drive.identity.as_ref().expect("a volume in service was opened from its devices");
    check(says, identity, device)
}

fn newest_of_others(found: &Superblocks, device: DeviceId) -> Result<Superblock, ReadmitError> {
    let others = (0..).zip(found.all()).filter(|(other, _)| *other != device.index());
    let newest = others.filter_map(|(_, block)| block).max_by_key(|block| block.age()).cloned();
    newest.ok_or_else(|| {
        let problem = found.errors().filter(|(other, _)| *other != device.index()).last();
        problem.map_or(OpenError::NothingLeft { device: device.index() }, |(_, error)| error.clone()).into()
    })
}

/// Checks that the device is the one that was given up, and holds all that it held then.
fn check(own: &Superblock, newest: &Superblock, device: DeviceId) -> Result<(), ReadmitError> {
    let index = device.index();
    if own.volume != newest.volume {
        return Err(OpenError::Foreign { device: index, volume: own.volume, expected: newest.volume }.into());
    }
    if own.device != device {
        return Err(OpenError::Swapped { device: index, is: own.device.index() }.into());
    }
    if newest.gone >> index & 1 == 0 {
        return Err(ReadmitError::NotGone { device: index });
    }
    if own.successions[index] < newest.successions[index] {
        return Err(OpenError::Replaced { device: index }.into());
    }
    // The others have the same number at least, whatever interrupts it when it is taken back.
    let used_alone = own.generation > newest.generation || own.gone & !newest.gone != 0;
    if used_alone && !mutation::is(Mutation::AcceptUsedAlone) {
        return Err(ReadmitError::UsedAlone { device: index });
    }
    // If taking it back was interrupted, its generation is later than the one in which it was given up.
    let given_up = newest.seals[index];
    if own.generation == newest.generation || given_up > 0 && own.generation >= given_up {
        return Ok(());
    }
    Err(match given_up {
        0 => ReadmitError::Unknown { device: index },
        _ => ReadmitError::Older { device: index, generation: own.generation, given_up },
    })
}

impl<P: PlacementOps> Drive<P> {
    fn readmit(
        &mut self,
        storage: &mut dyn Storage,
        device: DeviceId,
        expected: GivenUp,
        mut opened: Opened,
    ) -> Result<Readmitted, ReadmitError> {
        let identity = self.identity.clone().expect("it has just been opened");
        let restored = self.placed.take_back(&self.io, storage, device, (identity.volume, expected))?;
        opened.lost = opened.lost.saturating_sub(restored).max(self.placed.damaged_blocks());
        opened.gone &= !(1 << device.index());
        let mut seals = identity.seals;
        seals[device.index()] = 0;
        let (gone, evacuated) = (opened.gone, identity.evacuated & opened.gone);
        self.join(storage, device, Superblock { gone, evacuated, seals, ..identity })?;
        Ok(Readmitted { opened, restored })
    }
}
