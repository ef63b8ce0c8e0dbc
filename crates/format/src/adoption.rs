//! Records of the progress while a disk with data is taken over or given back. They lie at the end of the fast device, in two blocks
//! that are written in turn: while one is written, the other is whole.

use peryton_units::Bytes;

use crate::{
    block::{BLOCK, BLOCK_LEN, Kind, MOST_NUMBERS, get_u32, get_u64, has_kind, is_sealed, put_u32, put_u64, seal},
    displaced::Displaced,
    geometry::MOST_DEVICES,
    storage::{DeviceError, DeviceId, Storage},
    superblock::{VolumeId, get_displaced, put_displaced},
};

/// The length of the records, at the end of the fast device.
pub const RECORDS: Bytes = Bytes(2 * BLOCK);
const MAGIC: &[u8; 8] = b"PERYTON\n";
const VERSION: u32 = 1;
const SIZES_AT: usize = 160;
const SECTOR: usize = 512;

/// The progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Phase {
    /// The first part of the disk is being copied to its home. The disk is as it was.
    Copying = 1,
    /// The copy is durable and was compared. The first part of the disk may be overwritten.
    Copied = 2,
    /// The volume is made.
    Adopted = 3,
    /// The disk has everything but its first part, which is being copied back.
    Returning = 4,
    /// The disk holds what the volume held, and nothing more is written to it.
    Returned = 5,
}

/// A record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The identity of the volume.
    pub volume: VolumeId,
    /// Of two records, the one with the higher number is the newer.
    pub sequence: u64,
    /// The progress.
    pub phase: Phase,
    /// When taking over began, in seconds since 1970.
    pub began_unix_s: u64,
    /// The checksum of the displaced data (crc32c). It is 0 during [`Phase::Copying`], before the copy is complete.
    pub digest: u32,
    /// Bytes of data on each device of the volume.
    pub devices: Vec<Bytes>,
    /// How the disk is divided.
    pub displaced: Displaced,
}

impl Record {
    /// Encodes the record into a block. Only its first 512 bytes differ from zero.
    ///
    /// # Panics
    ///
    /// If there are more than [`MOST_DEVICES`] devices.
    pub fn encode(&self) -> Vec<u8> {
        assert!(self.devices.len() <= MOST_DEVICES, "a record of {} devices", self.devices.len());
        let mut block = vec![0; BLOCK_LEN];
        block[8..16].copy_from_slice(MAGIC);
        put_u32(&mut block, 16, VERSION);
        put_u32(&mut block, 20, self.phase as u32);
        block[24..40].copy_from_slice(&self.volume.0.to_le_bytes());
        put_u64(&mut block, 40, self.sequence);
        put_u64(&mut block, 48, self.began_unix_s);
        put_u32(&mut block, 56, self.digest);
        put_u32(&mut block, 60, self.devices.len() as u32);
        for (index, size) in self.devices.iter().enumerate() {
            put_u64(&mut block, SIZES_AT + index * 8, size.0);
        }
        put_displaced(&mut block, &self.displaced);
        seal(&mut block, Kind::Adoption, self.volume);
        block
    }

    /// Decodes a record; `None` if the block is none, or is damaged.
    pub fn decode(block: &[u8]) -> Option<Record> {
        if !has_kind(block, Kind::Adoption) || block[8..16] != MAGIC[..] {
            return None;
        }
        let volume = volume_at(block);
        let sealed = is_sealed(block, Kind::Adoption, volume) && get_u32(block, 16) == VERSION;
        sealed.then_some(())?;
        let phase = match get_u32(block, 20) {
            1 => Phase::Copying,
            2 => Phase::Copied,
            3 => Phase::Adopted,
            4 => Phase::Returning,
            5 => Phase::Returned,
            _ => return None,
        };
        let (sequence, count) = (get_u64(block, 40), get_u32(block, 60) as usize);
        (sequence < MOST_NUMBERS && count <= MOST_DEVICES).then_some(())?;
        let devices: Vec<Bytes> = (0..count).map(|index| Bytes(get_u64(block, SIZES_AT + index * 8))).collect();
        let displaced = get_displaced(block, &devices)?;
        let (began_unix_s, digest) = (get_u64(block, 48), get_u32(block, 56));
        Some(Record { volume, sequence, phase, began_unix_s, digest, devices, displaced })
    }
}

fn volume_at(block: &[u8]) -> VolumeId {
    VolumeId(u128::from_le_bytes(block[24..40].try_into().expect("sixteen bytes")))
}

/// Where the records lie on a fast device of this size: the offset of the first of the two blocks.
pub fn records_at(size: Bytes) -> Bytes {
    Bytes((size.0 / BLOCK * BLOCK).saturating_sub(RECORDS.0))
}

/// The newest record on the fast device, and in which of the two blocks it is. A failed write may have left the record in the device's
/// cache alone, so the device is flushed before the record is returned.
///
/// # Errors
///
/// The device is not there, could not be read, or could not be flushed.
pub fn newest(storage: &mut dyn Storage, fast: DeviceId) -> Result<Option<(usize, Record)>, DeviceError> {
    let size = storage.size(fast).ok_or(DeviceError)?;
    if size < RECORDS {
        return Ok(None);
    }
    let mut blocks = [0; 2 * BLOCK_LEN];
    storage.read(fast, records_at(size), &mut blocks)?;
    let found = blocks.chunks_exact(BLOCK_LEN).enumerate();
    let records = found.filter_map(|(slot, block)| Some((slot, Record::decode(block)?)));
    let newest = records.max_by_key(|(_, record)| record.sequence);
    if newest.is_some() {
        storage.flush(fast)?;
    }
    Ok(newest)
}

/// Writes a record in place of the older one, with the next number, and makes it durable.
///
/// # Errors
///
/// The device failed, or does not return what was written to it. The previous record is whole.
pub fn write(storage: &mut dyn Storage, fast: DeviceId, record: &Record) -> Result<(), DeviceError> {
    let (slot, sequence) = newest(storage, fast)?.map_or((0, 1), |(slot, newest)| (1 - slot, newest.sequence + 1));
    let block = Record { sequence, ..record.clone() }.encode();
    let at = records_at(storage.size(fast).ok_or(DeviceError)?) + Bytes(slot as u64 * BLOCK);
    storage.write(fast, at, &block)?;
    storage.flush(fast)?;
    let mut written = vec![0; BLOCK_LEN];
    storage.read(fast, at, &mut written)?;
    if written == block { Ok(()) } else { Err(DeviceError) }
}

/// Removes the records, the older one first.
///
/// # Errors
///
/// The device failed.
pub fn remove(storage: &mut dyn Storage, fast: DeviceId) -> Result<(), DeviceError> {
    let Some((slot, _)) = newest(storage, fast)? else { return Ok(()) };
    let at = records_at(storage.size(fast).ok_or(DeviceError)?);
    for slot in [1 - slot, slot] {
        storage.write(fast, at + Bytes(slot as u64 * BLOCK), &[0; BLOCK_LEN])?;
        storage.flush(fast)?;
    }
    Ok(())
}

/// Whose the first block of the disk is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// The block says that it belongs to the volume.
    Ours,
    /// It is as it was before the disk was taken over.
    AsItWas,
    /// Some sectors are as they were before, and the others are those of the new block: a write was cut off between sectors.
    Torn,
    /// The block is neither that of the volume nor that from before.
    Another,
}

/// Judges the first block of the disk. `copy` is that block from before the disk was taken over. A record overwrites the block, and later
/// a superblock of the volume overwrites the record. The first sector of both names the volume. The other sectors of a record are zeros.
pub fn whose(block: &[u8], copy: &[u8], volume: VolumeId) -> Whose {
    if block[8..16] == MAGIC[..] && volume_at(block) == volume {
        return Whose::Ours;
    }
    if block == copy {
        return Whose::AsItWas;
    }
    let mut sectors = block.chunks(SECTOR).zip(copy.chunks(SECTOR)).enumerate();
    let torn =
        sectors.all(|(index, (sector, copy))| sector == copy || index > 0 && sector.iter().all(|byte| *byte == 0));
    if torn { Whose::Torn } else { Whose::Another }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sample(phase: Phase) -> Record {
        let displaced = Displaced {
            device: DeviceId(1),
            home: DeviceId(0),
            metadata: Bytes::mib(1),
            bytes: Bytes::mib(3),
            at: Bytes::mib(5),
            volume: Bytes::mib(20),
            used: Bytes::mib(21) + Bytes(BLOCK),
        };
        Record {
            volume: VolumeId(0x1234),
            sequence: 7,
            phase,
            began_unix_s: 1_760_000_000,
            digest: 99,
            devices: vec![Bytes::mib(2), Bytes::mib(20)],
            displaced,
        }
    }

    #[test]
    fn every_phase_is_decoded_as_it_was_encoded_and_lies_in_one_sector() {
        for phase in [Phase::Copying, Phase::Copied, Phase::Adopted, Phase::Returning, Phase::Returned] {
            let block = sample(phase).encode();
            assert_eq!(Record::decode(&block), Some(sample(phase)));
            assert!(block[SECTOR..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    fn the_record_before_is_whole_while_another_is_written() {
        let fast = DeviceId(0);
        let mut disks = vec![vec![0; (1 << 20) + 512]];
        assert_eq!(newest(&mut disks, fast), Ok(None));
        for (sequence, phase) in [(1, Phase::Copying), (2, Phase::Copied), (3, Phase::Adopted)] {
            let before = disks.clone();
            write(&mut disks, fast, &sample(phase)).unwrap();
            let changed: Vec<usize> =
                (0..256).filter(|at| disks[0][at * 4096..][..4096] != before[0][at * 4096..][..4096]).collect();
            assert_eq!(changed, [254 + (sequence - 1) % 2]);
            let (_, found) = newest(&mut disks, fast).unwrap().unwrap();
            assert_eq!((found.sequence, found.phase), (sequence as u64, phase));
        }
        remove(&mut disks, fast).unwrap();
        assert_eq!(newest(&mut disks, fast), Ok(None));
    }

    #[test]
    fn a_block_that_another_program_has_written_is_not_ours() {
        let (copy, marker) = (vec![5; BLOCK_LEN], sample(Phase::Copied).encode());
        let volume = VolumeId(0x1234);
        assert_eq!(whose(&marker, &copy, volume), Whose::Ours);
        assert_eq!(whose(&marker, &copy, VolumeId(1)), Whose::Another);
        assert_eq!(whose(&copy, &copy, volume), Whose::AsItWas);
        let mut torn = copy.clone();
        torn[512..1024].fill(0);
        assert_eq!(whose(&torn, &copy, volume), Whose::Torn);
        torn[1030] = 9;
        assert_eq!(whose(&torn, &copy, volume), Whose::Another);
    }

    proptest! {
        #[test]
        fn no_content_of_a_block_breaks_the_reader(bytes in proptest::collection::vec(any::<u8>(), BLOCK_LEN), sealed: bool) {
            let mut block = bytes;
            if sealed {
                block[8..16].copy_from_slice(MAGIC);
                put_u32(&mut block, 16, VERSION);
                let volume = volume_at(&block);
                seal(&mut block, Kind::Adoption, volume);
            }
            let _ = Record::decode(&block);
        }
    }
}
