//! Disks with a volatile cache.

use std::collections::{BTreeMap, BTreeSet};

use peryton_crash::Effect;
use peryton_engine::{DeviceError, DeviceId, Storage};
use peryton_units::Bytes;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use super::SECTOR;

/// One disk: what it says it holds, and for each sector written since the last flush all it may hold after a crash.
#[derive(Clone, PartialEq)]
pub struct Disk {
    bytes: Vec<u8>,
    volatile: BTreeMap<usize, Vec<[u8; SECTOR]>>,
    /// Sectors that cannot be read before they are written again.
    bad: BTreeSet<usize>,
}

impl Disk {
    pub fn new(len: usize) -> Disk {
        Disk { bytes: vec![0; len], volatile: BTreeMap::new(), bad: BTreeSet::new() }
    }

    pub fn contents(&self) -> &[u8] {
        &self.bytes
    }

    pub fn contents_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }

    pub fn make_bad(&mut self, at: u64) {
        self.bad.insert(at as usize / SECTOR);
    }

    fn read(&self, at: usize, into: &mut [u8]) -> Result<(), DeviceError> {
        if self.bad.range(at / SECTOR..(at + into.len()).div_ceil(SECTOR)).next().is_some() {
            return Err(DeviceError);
        }
        into.copy_from_slice(&self.bytes[at..][..into.len()]);
        Ok(())
    }

    fn put(&mut self, at: usize, from: &[u8]) {
        for (sector, new) in (at / SECTOR..).zip(from.chunks_exact(SECTOR)) {
            let range = sector * SECTOR..(sector + 1) * SECTOR;
            let old: [u8; SECTOR] = self.bytes[range.clone()].try_into().unwrap();
            self.bad.remove(&sector);
            self.volatile.entry(sector).or_default().push(old);
            self.bytes[range].copy_from_slice(new);
        }
    }

    pub fn crash(&mut self, rng: &mut Pcg64Mcg) {
        // Disks differ in how much they lose.
        let keeps = [0.0, 0.1, 0.5, 0.9, 1.0][rng.random_range(0..5)];
        for (sector, versions) in std::mem::take(&mut self.volatile) {
            if !rng.random_bool(keeps) {
                let version = versions[rng.random_range(0..versions.len())];
                self.bytes[sector * SECTOR..(sector + 1) * SECTOR].copy_from_slice(&version);
            }
        }
    }
}

#[derive(Clone)]
pub struct Disks(pub Vec<Option<Disk>>);

impl peryton_crash::Disks for Disks {
    type Cell = u8;
    type Payload = Vec<u8>;
    const CELL: u64 = 1;
    const ZERO: u8 = 0;
    const UNSET: u8 = 0;

    fn data(cells: &[u8]) -> Vec<u8> {
        cells.to_vec()
    }

    fn is_still(payload: &Vec<u8>, cells: &[u8]) -> bool {
        payload == cells
    }

    fn to_bytes(cells: &[u8]) -> Vec<u8> {
        cells.to_vec()
    }

    fn from_bytes(bytes: &[u8]) -> Vec<u8> {
        bytes.to_vec()
    }

    fn metadata(&self, _: DeviceId, _: Bytes, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }

    fn is_dead(&self, device: DeviceId) -> bool {
        self.0[device.index()].is_none()
    }

    fn read(&self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        let disk = self.0[device.index()].as_ref().ok_or(DeviceError)?;
        disk.read(at.0 as usize, into)
    }

    /// Of a write that failed or was under way when the power went, any part may be there.
    fn write(&mut self, device: DeviceId, at: Bytes, payload: Vec<u8>, effect: Effect, rng: &mut Pcg64Mcg) {
        let all = effect == Effect::Whole || effect == Effect::Failed && rng.random_bool(0.3);
        let disk = self.0[device.index()].as_mut().expect("it is not dead");
        for (sector, from) in payload.chunks_exact(SECTOR).zip((at.0 as usize..).step_by(SECTOR)) {
            if all || rng.random_bool(0.5) {
                disk.put(from, sector);
            }
        }
    }

    fn mark(&self, _: DeviceId) -> u64 {
        0
    }

    /// What completed while the flush was under way is flushed as well, as on many disks.
    fn flushed(&mut self, device: DeviceId, _: u64) {
        self.0[device.index()].as_mut().expect("it is not dead").volatile.clear();
    }

    /// All that was not flushed is as it was before. Only where a test makes flushes fail and nothing else: where anything may
    /// fail, a flush that fails keeps what there is.
    fn flush_failed(&mut self, device: DeviceId, _: &mut Pcg64Mcg) -> bool {
        let disk = self.0[device.index()].as_mut().expect("it is not dead");
        let volatile = std::mem::take(&mut disk.volatile);
        for (sector, versions) in &volatile {
            disk.bytes[sector * SECTOR..(sector + 1) * SECTOR].copy_from_slice(&versions[0]);
        }
        !volatile.is_empty()
    }
}

impl Disks {
    /// An empty device is in the place of another.
    pub fn empty(&mut self, device: DeviceId) {
        let len = self.0[device.index()].as_ref().map_or(0, |disk| disk.bytes.len());
        self.0[device.index()] = Some(Disk::new(len));
    }

    /// A crash that loses everything that no flush covers.
    pub fn lose_everything(&mut self) {
        for disk in self.0.iter_mut().flatten() {
            for (sector, versions) in std::mem::take(&mut disk.volatile) {
                disk.bytes[sector * SECTOR..(sector + 1) * SECTOR].copy_from_slice(&versions[0]);
            }
        }
    }

    /// A write that fails: some of its sectors may be there.
    pub fn write_in_part(&mut self, device: DeviceId, at: Bytes, from: &[u8], rng: &mut Pcg64Mcg) {
        let keeps = [0.0, 0.5, 1.0][rng.random_range(0..3)];
        let Some(disk) = &mut self.0[device.index()] else { return };
        for (sector, at) in from.chunks_exact(SECTOR).zip((at.0 as usize..).step_by(SECTOR)) {
            if rng.random_bool(keeps) {
                disk.put(at, sector);
            }
        }
    }

    /// A flush that fails: of what it should have covered anything may be lost, and later flushes know nothing of it.
    pub fn flush_loses(&mut self, device: DeviceId, rng: &mut Pcg64Mcg) {
        if let Some(disk) = &mut self.0[device.index()] {
            disk.crash(rng);
        }
    }

    pub fn crash(&mut self, rng: &mut Pcg64Mcg) {
        self.0.iter_mut().flatten().for_each(|disk| disk.crash(rng));
    }

    fn disk(&mut self, device: DeviceId) -> Result<&mut Disk, DeviceError> {
        self.0[device.index()].as_mut().ok_or(DeviceError)
    }
}

impl Storage for Disks {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.0[device.index()].as_ref().map(|disk| Bytes(disk.bytes.len() as u64))
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        self.disk(device)?.read(at.0 as usize, into)
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        self.disk(device)?.put(at.0 as usize, from);
        Ok(())
    }

    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        self.disk(device)?.volatile.clear();
        Ok(())
    }
}

/// Fails for good after a number of writes and flushes, like a crash during opening or closing.
pub struct Interrupted<'a> {
    pub disks: &'a mut Disks,
    pub left: u32,
}

impl Interrupted<'_> {
    fn count(&mut self) -> Result<(), DeviceError> {
        self.left = self.left.checked_sub(1).ok_or(DeviceError)?;
        Ok(())
    }
}

impl Storage for Interrupted<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.disks.size(device)
    }
    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        self.disks.read(device, at, into)
    }
    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        self.count()?;
        self.disks.write(device, at, from)
    }
    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        self.count()?;
        self.disks.flush(device)
    }
}

pub fn flip(disks: &mut Disks, device: DeviceId, at: u64, bits: u8) {
    disks.0[device.index()].as_mut().unwrap().bytes[at as usize] ^= bits;
}

/// Changes a field of a metadata block and seals it again, as a forger could who knows the volume's identity.
pub fn forge(disks: &mut Disks, device: DeviceId, at: u64, field: u64, value: u64) {
    let bytes = &mut disks.0[device.index()].as_mut().unwrap().bytes[at as usize..][..4096];
    bytes[field as usize..][..8].copy_from_slice(&value.to_le_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&0xabc_u128.to_le_bytes()), &bytes[4..]);
    bytes[..4].copy_from_slice(&sum.to_le_bytes());
}
