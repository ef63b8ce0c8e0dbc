//! Takes back a device of a log that was given up.
//!
//! *A primary* comes back if no write to it that went past the log was in doubt when it was given up. The log then has kept everything that
//! the primary may lack (`beside_gone.rs`), and the next opening finds it. Otherwise it is refused: it may have lost such a write, for which
//! the log has given up an older copy.
//!
//! *The log*: the primary was written without it, and no record says where. It therefore comes back only if it holds
//! nothing that the primary lacks. Then it is emptied, and the primary's data are the volume.

use peryton_format::{
    block::BLOCK,
    log::{NOWHERE, header},
    storage::Storage,
    superblock::VolumeId,
};
use peryton_units::Bytes;

use crate::{
    api::command::DeviceId,
    api::error::{OpenError, ReadmitError},
    log::{damage::OnDamage, drive::LogDrive, layout::BUFFER},
};

impl LogDrive {
    /// See [`PlacementOps::take_back`](crate::placement::PlacementOps::take_back). Returns how many blocks are part of the volume
    /// again.
    pub(in crate::log) fn takes_back(
        &mut self,
        storage: &mut dyn Storage,
        device: DeviceId,
        (volume, returnable): (VolumeId, u32),
    ) -> Result<u64, ReadmitError> {
        let index = device.index();
        if self.primaries.has(device) {
            let may_return = returnable >> index & 1 == 1 && !self.gone.log;
            return if may_return {
                Ok(self.lost_with(device))
            } else {
                Err(ReadmitError::PrimaryOfLog { device: index })
            };
        }
        let mut back = LogDrive::new(self.layout);
        // Data that is damaged is data that the primary lacks.
        back.on_damage = OnDamage::Name;
        let recorded = back.read_ring(storage, volume, None)?;
        let contents = back.find(storage, (&recorded, volume), false, &mut |_| {})?;
        let newer = back.differing_bytes(storage).ok_or(OpenError::Device { device: index })?;
        if newer > 0 {
            return Err(ReadmitError::LogIsNewer { device: index, bytes: Bytes(newer) });
        }
        // Everything in the log is given up.
        let next_sequence = back.sequence_after(&recorded, &contents);
        back.log.restore(&[], next_sequence);
        back.record_anew(storage, volume, &recorded, (next_sequence, NOWHERE), &[])?;
        Ok(0)
    }

    /// The blocks that only this primary has.
    fn lost_with(&self, device: DeviceId) -> u64 {
        let mut blocks = 0;
        for primary in self.primaries.iter().filter(|primary| primary.device == device) {
            self.map.walk_all(self.size, |from, to, place| {
                let (low, high) = (from.max(primary.from), to.min(primary.to));
                blocks += if place.is_none() { high.saturating_sub(low).div_ceil(self.block) } else { 0 };
            });
        }
        blocks
    }

    /// How many bytes of the volume the log has otherwise than the primary; `None` if that cannot be read.
    fn differing_bytes(&self, storage: &mut dyn Storage) -> Option<u64> {
        let mut ranges: Vec<(u64, u64, u64)> = Vec::new();
        self.map.walk_all(self.size, |from, to, place| ranges.extend(place.map(|at| (from, to, at))));
        let mut differing = 0;
        let mut read = |place: (DeviceId, Bytes), len: u64, into: &mut Vec<u8>| {
            let (device, Bytes(at)) = place;
            let first = at / BLOCK * BLOCK;
            into.resize(((at + len).next_multiple_of(BLOCK) - first) as usize, 0);
            storage.read(device, Bytes(first), into).ok()?;
            into.drain(..(at - first) as usize);
            into.truncate(len as usize);
            Some(())
        };
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for (from, to, at) in ranges {
            for next in (from..to).step_by(BUFFER as usize) {
                let len = BUFFER.min(to - next);
                let differs = self.log.is_damaged(at + (next - from), len) || {
                    read(self.log_place(at + (next - from)), len, &mut ours)?;
                    read(self.primaries.place_of(next), len, &mut theirs)?;
                    header::data_checksum(&ours) != header::data_checksum(&theirs) || ours != theirs
                };
                differing += if differs { len } else { 0 };
            }
        }
        Some(differing)
    }
}
