//! Which devices a volume has changes while clients go on: a device that was gone comes back, an empty one takes its place, or one
//! leaves that holds nothing which the others lack.
//!
//! The driver holds back the requests of the host, lets the drive come to rest, and closes the volume in good order. Then the same
//! is done that is done to a volume that is not served ([`readmit`](super::readmit), [`replace`](super::replace)), and the volume is
//! opened again. So whenever the power goes, the devices are as after an operation on a closed volume that was cut short.

use peryton_format::{
    mutation::{self, Mutation},
    storage::Storage,
    superblock::Superblock,
};
use peryton_policy::{Partition, partition::Regulation};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::cleaning::Cleaning,
    api::command::DeviceId,
    api::config::{Config, Journal, Placement, Tuning, WritePolicy},
    api::error::{OpenError, ReplaceError},
    api::evacuation::EvacuationError,
    api::opened::Opened,
    api::resizing::Settled,
    lifecycle::any::{AnyDrive, with_drive},
    lifecycle::drive::Drive,
    lifecycle::replace::replaces_with_zeros,
    lifecycle::resize::in_force::sizes_in_force,
    lifecycle::superblocks::Superblocks,
    lifecycle::volume::{Opening, open},
    placement::PlacementOps,
};

/// With this threshold nothing is promoted.
const NEVER: u32 = u32::MAX / 2;
/// The most moves at a time while a cache is emptied slowly.
const FEW: u32 = 4;
/// All of them, in parts per million.
const ALL: u32 = 1_000_000;

/// The devices of the volume that were evacuated, one bit each: it opens without them by itself, and they need not be there.
pub fn evacuated(config: &Config, storage: &mut dyn Storage) -> u32 {
    sizes_in_force(config, storage).map_or(0, |sizes| evacuated_of(&sizes.devices, storage))
}

/// The devices that were evacuated, one bit each: the newest superblock says that they hold nothing which the others lack. A device of
/// another volume does not count as the evacuated one: it is the wrong device, or the others are.
fn evacuated_of(used: &[Bytes], storage: &mut dyn Storage) -> u32 {
    let found = Superblocks::read(used, storage);
    let Some(newest) = found.newest() else { return 0 };
    let is_known = |block: Option<&Superblock>| block.is_none_or(|block| block.volume == newest.volume);
    let known = (0..).zip(found.all()).filter(|(_, block)| is_known(*block));
    known.fold(0, |all, (index, _)| all | 1 << index) & newest.evacuated & newest.gone
}

/// These devices, and those that were evacuated.
pub(super) fn with_evacuated(used: &[Bytes], storage: &mut dyn Storage, without: &[DeviceId]) -> Vec<DeviceId> {
    let evacuated = if mutation::is(Mutation::ForgetEvacuated) { 0 } else { evacuated_of(used, storage) };
    let others = (0..used.len() as u8).map(DeviceId).filter(|device| evacuated >> device.index() & 1 == 1);
    let mut all = without.to_vec();
    all.extend(others.filter(|device| !without.contains(device)));
    all
}

/// Which device a volume is opened again without, besides those that its superblocks say are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Without {
    /// None.
    None,
    /// This one, which holds nothing that the others lack ([`Engine::is_evacuated`](crate::Engine::is_evacuated)); that is recorded.
    Leaving(DeviceId),
    /// This one, which has failed; what only it had is lost.
    Failed(DeviceId),
}

/// Opens the volume of a drive again: it was closed and the devices have changed, or the drive has stopped because a flush has failed,
/// which is recovered as a power loss is.
pub(crate) fn open_again<P: PlacementOps>(
    before: &Drive<P>,
    storage: &mut dyn Storage,
    without: Without,
) -> Result<(AnyDrive, Opened), OpenError> {
    let mut config = before.config();
    let (leaving, failed) = match without {
        Without::None => (None, None),
        Without::Leaving(device) => (Some(device), None),
        Without::Failed(device) => (None, Some(device)),
    };
    let found = Superblocks::read(&before.device_bytes, storage);
    // A device may have its new size already.
    let resized = before.resizing.as_ref().map(|resizing| resizing.data_bytes_after());
    if let (Some(resized), Some(newest)) = (resized, found.newest())
        && newest.geometry.devices == resized
    {
        config.devices = resized.to_vec();
    }
    let gone = found.newest().map_or(0, |newest| newest.gone);
    let all = (0..config.devices.len() as u8).map(DeviceId);
    let is_without = |device: &DeviceId| [leaving, failed].contains(&Some(*device));
    let without: Vec<DeviceId> = all.filter(|device| gone >> device.index() & 1 == 1 || is_without(device)).collect();
    let (drive, opened) = open(config, storage, Opening { leaving, ..Opening::without(&without) })?;
    Ok((rebuilt(drive, before), opened))
}

/// The drive of a volume that was opened again, which goes on where the one before has ended: with its statistics and its time, and with
/// what the host has to be told.
pub(super) fn rebuilt<P: PlacementOps>(mut drive: AnyDrive, before: &Drive<P>) -> AnyDrive {
    with_drive!(&mut drive, drive => {
        drive.io.stats = before.io.stats.clone();
        drive.io.errors_owed = before.io.errors_owed;
        drive.io.excuses = before.io.excuses;
        drive.io.continue_from(before.io.now);
        // Closing may have failed, and what was written last may be lost.
        drive.io.owes_error |= before.io.owes_error || before.io.in_doubt;
        drive.io.in_doubt |= before.io.in_doubt;
    });
    drive
}

/// Checks that the volume can do without the device once that is empty.
pub(crate) fn can_evacuate<P: PlacementOps>(drive: &Drive<P>, device: DeviceId) -> Result<(), EvacuationError> {
    let index = device.index();
    if index >= drive.device_bytes.len() {
        return Err(EvacuationError::Unknown { device: index });
    }
    if let Some(gone) = (0..drive.device_bytes.len()).find(|gone| drive.io.fenced >> gone & 1 == 1) {
        return Err(EvacuationError::Gone { device: gone });
    }
    if let Some(replaced) = drive.replaced_now() {
        return Err(EvacuationError::Busy { device: replaced.index() });
    }
    if drive.displaced.is_some() {
        return Err(EvacuationError::Adopted);
    }
    let volume = drive.volume_size;
    match &drive.placement {
        Placement::Caching(pair) | Placement::Partitioned(pair) if pair.fast == device => {}
        Placement::Caching(pair) | Placement::Partitioned(pair) => {
            let room = drive.data_bytes[pair.fast.index()];
            return Err(EvacuationError::Slow { device: index, volume, room });
        }
        Placement::Tiering(pair) => {
            let other = if pair.fast == device { pair.slow } else { pair.fast };
            return Err(EvacuationError::NoRoom { device: index, volume, room: drive.data_bytes[other.index()] });
        }
        Placement::Logging(_) | Placement::Linear { .. } | Placement::Single { .. } => {
            return Err(EvacuationError::Placement { device: index });
        }
    }
    let bytes = drive.losses(0).bytes;
    if bytes > Bytes::ZERO {
        return Err(EvacuationError::Lost { device: index, bytes });
    }
    Ok(())
}

/// Checks whether an empty device may take the place of one that is gone while the volume is served: a map has to say what is lost.
pub(crate) fn can_take_in<P: PlacementOps>(
    drive: &Drive<P>,
    device: DeviceId,
) -> Result<(Bytes, Bytes, Bytes), ReplaceError> {
    let index = device.index();
    let config = drive.config();
    if replaces_with_zeros(&config, device) || matches!(config.placement, Placement::Logging(_)) {
        return Err(ReplaceError::NotInService { device: index });
    }
    // Of a volume that was resized, only what it says of itself has the places.
    let settled = drive.identity.as_ref().map(|identity| Settled::from(&identity.geometry));
    let sizes = config.sizes_of(settled).map_err(OpenError::Config)?;
    Ok((sizes.devices[index], sizes.data_at[index], sizes.behind[index]))
}

impl<P: PlacementOps> Drive<P> {
    /// Checks that the device holds nothing which the others lack.
    pub(crate) fn is_evacuated(&self, device: DeviceId) -> Result<(), EvacuationError> {
        can_evacuate(self, device)?;
        match self.placed.dirty_left() {
            0 => Ok(()),
            _ if mutation::is(Mutation::LeaveDirty) => Ok(()),
            extents => Err(EvacuationError::NotEmpty { device: device.index(), extents }),
        }
    }

    /// Whether the device has data that no other device has, or is the last one.
    pub(crate) fn is_needed(&self, device: DeviceId) -> bool {
        let others = (0..self.device_bytes.len() as u8).map(DeviceId).filter(|other| *other != device);
        let may_go = match &self.placement {
            Placement::Caching(pair) | Placement::Partitioned(pair) => pair.fast == device,
            Placement::Logging(log) => log.log == device,
            Placement::Tiering(_) | Placement::Linear { .. } | Placement::Single { .. } => false,
        };
        !may_go
            || self.placed.dirty_left() > 0
            || self.displaced.is_some()
            || others.into_iter().all(|other| self.io.is_fenced(other))
    }

    /// The devices that were evacuated, one bit each.
    pub(crate) fn evacuated(&self) -> u32 {
        self.identity.as_ref().map_or(0, |identity| identity.evacuated & self.io.fenced)
    }

    /// The configuration of the drive, with the tuning in force.
    pub(crate) fn config(&self) -> Config {
        Config { devices: self.data_bytes.clone(), placement: self.placement.clone(), tuning: self.io.tuning.clone() }
    }
}

/// The tuning while a cache is emptied: nothing comes in, and no write makes anything newer than its origin. `slowly`: nothing is written
/// back but what the driver asks for.
pub(crate) fn leaving_tuning(tuning: &Tuning, slowly: bool) -> Tuning {
    let mut leaving = Tuning {
        promotion_threshold: NEVER,
        comes_in_early: false,
        write: WritePolicy::Through,
        // The other device has to say by itself that it has everything.
        journal: Journal::Mirrored,
        partition: Partition { regulation: Regulation::Share(ALL), promote_reads: 0, ..tuning.partition },
        climb: None,
        ..tuning.clone()
    };
    if slowly {
        leaving.cleaning = Cleaning::UNBOUNDED;
        leaving.writeback_delay = Nanos(u64::MAX >> 1);
        // Little is under way when the driver pauses it.
        leaving.max_moves = tuning.max_moves.min(FEW);
    }
    leaving
}
