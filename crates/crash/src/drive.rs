//! The simulated disks as a driver uses them, and one call at a time.

use std::rc::Rc;

use peryton_engine::{
    Command, Config, DeviceError, DeviceId, Engine, Inspection, OpenError, Opened, Origin, Source, Storage, VolumeId,
    closed, handoff::Found,
};
use peryton_units::{Bytes, Op};
use rand_pcg::Pcg64Mcg;

use crate::{
    disk::{Disk, Entry, Payload, SECTOR, Tag, expand, tag_of},
    driver::{Disks, Driver, Effect, Pending},
    memory::Memory,
};

impl Disks for Vec<Disk> {
    type Cell = Tag;
    type Payload = Payload;
    const CELL: u64 = SECTOR;
    const ZERO: Tag = 0;
    const UNSET: Tag = Tag::MAX;

    fn data(cells: &[Tag]) -> Payload {
        Payload::Data(Rc::from(cells))
    }

    fn copied(cells: &[Tag]) -> Payload {
        Payload::Copied(Rc::from(cells))
    }

    fn read_any(&self, device: DeviceId, at: Bytes, into: &mut [Tag]) -> Result<(), DeviceError> {
        let disk = &self[device.index()];
        if disk.is_bad(at, Bytes(into.len() as u64 * SECTOR)) {
            return Err(DeviceError);
        }
        disk.read_any(at, into);
        Ok(())
    }

    fn swap(&mut self, one: DeviceId, other: DeviceId) {
        self.as_mut_slice().swap(one.index(), other.index());
    }

    fn is_still(payload: &Payload, cells: &[Tag]) -> bool {
        matches!(payload, Payload::Data(data) | Payload::Copied(data) if **data == *cells)
    }

    fn to_bytes(cells: &[Tag]) -> Vec<u8> {
        let mut bytes = vec![0; cells.len() * SECTOR as usize];
        bytes.chunks_exact_mut(SECTOR as usize).zip(cells).for_each(|(into, tag)| expand(*tag, into));
        bytes
    }

    fn from_bytes(bytes: &[u8]) -> Vec<Tag> {
        bytes.chunks_exact(SECTOR as usize).map(tag_of).collect()
    }

    fn metadata(&self, device: DeviceId, at: Bytes, bytes: Vec<u8>) -> Payload {
        self[device.index()].entry(at, bytes).payload
    }

    fn is_dead(&self, device: DeviceId) -> bool {
        self[device.index()].dead
    }

    fn read(&self, device: DeviceId, at: Bytes, into: &mut [Tag]) -> Result<(), DeviceError> {
        let disk = &self[device.index()];
        if disk.is_bad(at, Bytes(into.len() as u64 * SECTOR)) {
            return Err(DeviceError);
        }
        disk.read(at, into);
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, payload: Payload, effect: Effect, rng: &mut Pcg64Mcg) {
        let entry = Entry::new(at, payload);
        self[device.index()].write(if effect == Effect::Whole { entry } else { entry.partial(rng) });
    }

    fn mark(&self, device: DeviceId) -> u64 {
        self[device.index()].mark()
    }

    fn flushed(&mut self, device: DeviceId, mark: u64) {
        self[device.index()].flushed(mark);
    }

    fn flush_failed(&mut self, device: DeviceId, rng: &mut Pcg64Mcg) -> bool {
        self[device.index()].flush_failed(rng)
    }
}

/// The engine on simulated disks.
pub(crate) type Drive = Driver<Vec<Disk>>;

/// What a command may leave on the disk if the power goes now.
fn entry_of(pending: &Pending<Payload>, rng: &mut Pcg64Mcg) -> Option<Entry> {
    let payload = || pending.payload.clone().expect("it writes");
    match pending.command {
        Command::Write { at, .. } | Command::Zero { at, .. } => Some(Entry::new(at, payload())),
        Command::Discard { at, .. } => Some(Entry::new(at, payload()).partial(rng)),
        _ => None,
    }
}

impl Drive {
    /// Opens the volume on these disks.
    pub(crate) fn open(
        config: &Config,
        mut disks: Vec<Disk>,
        without: &[DeviceId],
        memory: Option<&Memory>,
    ) -> Result<(Drive, Opened), (OpenError, Vec<Disk>)> {
        let opened = Engine::open_without(config.clone(), &mut Direct { disks: &mut disks, memory }, without);
        match opened {
            Ok((engine, opened)) => {
                if opened.generation.is_multiple_of(CHECKED_ONE_IN) {
                    check_numbers(config, &mut Direct { disks: &mut disks, memory }, without);
                }
                Ok((Drive::new(engine, disks), opened))
            }
            Err(error) => Err((error, disks)),
        }
    }

    /// Says how an opening would end.
    pub(crate) fn try_open(config: &Config, storage: &mut Direct<'_>) -> Result<(), OpenError> {
        Engine::open(config.clone(), storage).map(|_| ())
    }

    /// When the oldest read in flight was submitted.
    pub(crate) fn oldest_read(&self) -> u32 {
        let reads = self.requests.values().filter(|asked| asked.request.op == Op::Read);
        reads.map(|asked| asked.from).min().unwrap_or(u32::MAX)
    }

    /// Checks that two copies are equal wherever the engine says that it may read either, and nothing is under way there.
    pub(crate) fn copies_agree(&self) -> Result<(), String> {
        if self.engine.is_in_doubt() {
            return Ok(());
        }
        for row in self.engine.map_part(Bytes::ZERO, u32::MAX).rows.iter().filter(|row| row.state == Some("idle")) {
            let mut offset = Bytes(row.offset);
            while offset < Bytes(row.offset + row.len)
                && let Some(Source { len, origin }) = self.engine.source(offset)
            {
                self.agree(offset, len, origin)?;
                offset += len;
            }
        }
        Ok(())
    }

    fn agree(&self, offset: Bytes, len: Bytes, origin: Origin) -> Result<(), String> {
        let Origin::At { first, second: Some(second) } = origin else { return Ok(()) };
        let tags = |(device, at): (DeviceId, Bytes)| {
            let mut tags = vec![0; Drive::cells(len)];
            let is_read = !self.disks.is_dead(device) && self.disks.read(device, at, &mut tags).is_ok();
            is_read.then_some(tags)
        };
        let (Some(one), Some(other)) = (tags(first), tags(second)) else { return Ok(()) };
        match one.iter().zip(&other).position(|(one, other)| one != other) {
            None => Ok(()),
            Some(at) => {
                let (sector, one, other) = (Drive::cells(offset) + at, one[at], other[at]);
                Err(format!("sector {sector} holds {one}, and its clean copy {other}"))
            }
        }
    }

    /// The disks as they are if the power goes now.
    pub(crate) fn disks_after_crash(&self, rng: &mut Pcg64Mcg) -> Vec<Disk> {
        let disks = 0..self.disks.len();
        disks
            .map(|index| {
                let here = self.pending.iter().filter(|pending| pending.disk().index() == index);
                let entries: Vec<Entry> = here.filter_map(|pending| entry_of(pending, rng)).collect();
                self.disks[index].after_crash(entries.into_iter(), rng)
            })
            .collect()
    }

    /// The disks as they are if the process dies now.
    pub(crate) fn disks_after_process_death(&self, rng: &mut Pcg64Mcg) -> Vec<Disk> {
        let disks = 0..self.disks.len();
        disks
            .map(|index| {
                let here = self.pending.iter().filter(|pending| pending.disk().index() == index);
                let entries: Vec<Entry> = here.filter_map(|pending| entry_of(pending, rng)).collect();
                self.disks[index].after_process_death(entries.into_iter(), rng)
            })
            .collect()
    }
}

/// The numbers of commits are checked at one opening of this many.
const CHECKED_ONE_IN: u64 = 4;

/// Panics if the next commit has the number of one of which blocks may be in a journal: blocks of both could pass for a whole commit.
fn check_numbers(config: &Config, storage: &mut Direct<'_>, without: &[DeviceId]) {
    let found = closed::inspect(config.clone(), storage, false, without).expect("the volume has just been opened");
    if let Some((newest, next)) = commit_numbers(&found) {
        assert!(newest < next, "a commit has number {newest}, and the next one {next}");
    }
}

/// The highest number of a commit of which a block is in a journal, and the number of the first commit that is in no checkpoint; `None` if
/// the volume has no map.
pub fn commit_numbers(found: &Inspection) -> Option<(u64, u64)> {
    let newest = found.devices.iter().filter_map(|device| device.newest_commit).max();
    let checkpoints = found.devices.iter().flat_map(|device| device.checkpoints.iter().flatten());
    newest.zip(checkpoints.map(|checkpoint| checkpoint.first_commit).max())
}

/// Carries out the calls of `Engine::open` and its siblings on the disks, each at once.
pub(crate) struct Direct<'a> {
    pub(crate) disks: &'a mut [Disk],
    /// What a process that died has left.
    pub(crate) memory: Option<&'a Memory>,
}

impl<'a> Direct<'a> {
    pub(crate) fn new(disks: &'a mut [Disk]) -> Direct<'a> {
        Direct { disks, memory: None }
    }
}

impl Storage for Direct<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        let disk = &self.disks[device.index()];
        (!disk.dead).then(|| disk.size())
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        let disk = &self.disks[device.index()];
        if disk.dead || disk.is_bad(at, Bytes(into.len() as u64)) {
            return Err(DeviceError);
        }
        disk.read_bytes(at, into);
        Ok(())
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        let disk = &mut self.disks[device.index()];
        if disk.dead {
            return Err(DeviceError);
        }
        let entry = disk.entry(at, from.to_vec());
        disk.write(entry);
        Ok(())
    }

    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        let disk = &mut self.disks[device.index()];
        if disk.dead {
            return Err(DeviceError);
        }
        disk.write_out();
        Ok(())
    }

    fn left_in_memory(&mut self, volume: VolumeId, _clean: bool) -> Option<Found> {
        self.memory.and_then(|memory| memory.found(volume))
    }
}

/// A storage that loses power, or whose process dies, at the write or flush after `left` others.
pub(crate) struct Interruptible<'a> {
    pub(crate) direct: Direct<'a>,
    pub(crate) left: u32,
    /// Whether the power has gone; `in_flight` then holds the write that it cut.
    pub(crate) interrupted: bool,
    pub(crate) in_flight: Option<(DeviceId, Entry)>,
    /// Whether what the process has in memory counts no longer.
    pub(crate) has_closed: bool,
}

impl<'a> Interruptible<'a> {
    pub(crate) fn new(disks: &'a mut [Disk], memory: Option<&'a Memory>, left: u32) -> Interruptible<'a> {
        Interruptible { direct: Direct { disks, memory }, left, interrupted: false, in_flight: None, has_closed: false }
    }

    fn interrupts(&mut self) -> bool {
        self.interrupted |= self.left == 0;
        self.left = self.left.saturating_sub(1);
        self.interrupted
    }
}

impl Storage for Interruptible<'_> {
    fn size(&self, device: DeviceId) -> Option<Bytes> {
        self.direct.size(device)
    }

    fn read(&mut self, device: DeviceId, at: Bytes, into: &mut [u8]) -> Result<(), DeviceError> {
        if self.interrupted { Err(DeviceError) } else { self.direct.read(device, at, into) }
    }

    fn write(&mut self, device: DeviceId, at: Bytes, from: &[u8]) -> Result<(), DeviceError> {
        if self.interrupted {
            return Err(DeviceError);
        }
        if self.interrupts() {
            self.in_flight = Some((device, self.direct.disks[device.index()].entry(at, from.to_vec())));
            return Err(DeviceError);
        }
        self.direct.write(device, at, from)
    }

    fn flush(&mut self, device: DeviceId) -> Result<(), DeviceError> {
        if self.interrupted || self.interrupts() {
            return Err(DeviceError);
        }
        self.direct.flush(device)
    }

    fn left_in_memory(&mut self, volume: VolumeId, clean: bool) -> Option<Found> {
        self.direct.left_in_memory(volume, clean)
    }

    fn has_closed(&mut self, _: VolumeId) {
        self.has_closed |= !self.interrupted;
    }
}
