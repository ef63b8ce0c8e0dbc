//! The content of an open volume's superblocks.

use peryton_format::{
    geometry::{Geometry, MOST_DEVICES},
    superblock::{Superblock, VolumeId, VolumeState},
};

use crate::api::command::DeviceId;

/// The content of an open volume's superblocks.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(super) volume: VolumeId,
    pub(super) generation: u64,
    pub(super) formatted_unix_s: u64,
    pub(super) gone: u32,
    /// Of each device that is gone: the generation in which it was given up.
    pub(super) given_up: [u64; MOST_DEVICES],
    /// The last commit that was durable then.
    pub(super) given_up_commit: u64,
    /// How often each device was replaced while the volume was served.
    pub(super) successions: [u8; MOST_DEVICES],
    /// Those of the devices that are gone which held nothing that the others lack, one bit each.
    pub(super) evacuated: u32,
    pub(super) geometry: Geometry,
    pub(super) notes: String,
}

impl Identity {
    pub(super) fn set_gone(&mut self, device: DeviceId, last_commit: u64) {
        self.gone |= 1 << device.index();
        self.given_up_commit = last_commit;
        self.given_up[device.index()] = self.generation;
    }

    /// The superblock of a device, with no device gone.
    pub(super) fn superblock_of_all(&self, device: DeviceId, state: VolumeState) -> Superblock {
        Superblock { gone: 0, evacuated: 0, seals: [0; MOST_DEVICES], ..self.superblock(device, state) }
    }

    /// With this device part of the volume again.
    pub(super) fn superblock_with(&self, back: DeviceId, device: DeviceId, state: VolumeState) -> Superblock {
        let mut block = self.superblock(device, state);
        block.gone &= !(1 << back.index());
        block.evacuated &= block.gone;
        block.seals[back.index()] = 0;
        block
    }

    pub(super) fn open_superblock(&self, device: DeviceId) -> Superblock {
        self.superblock(device, VolumeState::Open)
    }

    pub(super) fn superblock(&self, device: DeviceId, state: VolumeState) -> Superblock {
        Superblock {
            volume: self.volume,
            device,
            generation: self.generation,
            state,
            formatted_unix_s: self.formatted_unix_s,
            touched: [0, 0],
            gone: self.gone,
            fingerprint: 0,
            seals: self.given_up,
            given_up_commit: self.given_up_commit,
            successions: self.successions,
            evacuated: self.evacuated,
            geometry: self.geometry.clone(),
            notes: self.notes.clone(),
        }
    }
}
