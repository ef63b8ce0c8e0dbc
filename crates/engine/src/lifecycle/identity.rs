//! The content of an open volume's superblocks.

use peryton_format::{
    geometry::Geometry,
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
    pub(super) geometry: Geometry,
    pub(super) notes: String,
}

impl Identity {
    pub(super) fn set_gone(&mut self, device: DeviceId) {
        self.gone |= 1 << device.index();
    }

    /// The superblock of a device, with no device gone.
    pub(super) fn superblock_of_all(&self, device: DeviceId, state: VolumeState) -> Superblock {
        Superblock { gone: 0, ..self.superblock(device, state) }
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
            geometry: self.geometry.clone(),
            notes: self.notes.clone(),
        }
    }
}
