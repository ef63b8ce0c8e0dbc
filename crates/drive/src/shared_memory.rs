//! Memory that outlives the process. The server records there which changes the engine has not made durable yet. If the server is
//! killed and started again, the volume has everything that was answered. See `docs/durability.md`.
//!
//! The program that watches the server keeps the memory, if there is one that does ([`Notifier::keeps`]): then it has no name that
//! anybody could take. Otherwise it is a file in a directory that is this user's alone (`own_directory.rs`).

use std::{
    ffi::OsString,
    fmt::Write as _,
    fs::{self, File},
    io,
    os::{
        fd::AsFd as _,
        unix::fs::{FileExt as _, MetadataExt as _},
    },
    path::PathBuf,
    ptr::NonNull,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use peryton_engine::{
    Engine, VolumeId,
    handoff::{Contents, Found, Label, MOST_DEVICES, Record, Words, Writer},
};
use rustix::{
    fs::{FallocateFlags, FlockOperation, MemfdFlags},
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use thiserror::Error;

use crate::{notify::Notifier, open::Device, own_directory::OwnDirectory};

/// The kernel's identity of this start of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The length of a label: one block.
const BLOCK: usize = 4096;
/// The name of the memory, for people who look at a process's descriptors, and for the program that keeps it.
pub(crate) const NAME: &str = "peryton-handoff";
/// The most files of one volume in a directory: one for each server that was killed on other devices (clones).
const MOST_FILES: u32 = 64;

/// What happens to writes that were answered but not flushed if the server is killed and the machine runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessDeath {
    /// They survive: the metadata that lead to them are in memory that outlives the server.
    SharedMemory {
        /// The directory for it if no program keeps it, whose file system is in memory; `None`: one of this user's own.
        directory: Option<PathBuf>,
    },
    /// Placements with a map or a log may lose them, as in a power loss.
    Off,
}

impl Default for ProcessDeath {
    fn default() -> ProcessDeath {
        ProcessDeath::SharedMemory { directory: None }
    }
}

/// The memory that is kept.
#[derive(Debug)]
struct Kept {
    file: File,
    /// Its name in the directory; `None`: the program that watches this one keeps it.
    name: Option<OsString>,
}

/// Where records are left for the next server, and what the one before has left.
#[derive(Clone, Debug)]
pub(crate) struct Handoff {
    process_death: ProcessDeath,
    notifier: Notifier,
    kept: Arc<Mutex<Option<Kept>>>,
}

impl Handoff {
    pub(crate) fn new(process_death: &ProcessDeath, notifier: &Notifier) -> Handoff {
        Handoff { process_death: process_death.clone(), notifier: notifier.clone(), kept: Arc::default() }
    }

    /// Nothing is kept.
    pub(crate) fn none() -> Handoff {
        Handoff::new(&ProcessDeath::Off, &Notifier::default())
    }

    /// The directory for files that are this user's alone.
    pub(crate) fn directory(&self) -> Result<OwnDirectory, String> {
        match &self.process_death {
            ProcessDeath::Off => Err("durability.process_death is \"off\"".to_owned()),
            ProcessDeath::SharedMemory { directory: Some(directory) } => OwnDirectory::at(directory),
            ProcessDeath::SharedMemory { directory: None } => OwnDirectory::of_user(),
        }
    }

    fn kept(&self) -> std::sync::MutexGuard<'_, Option<Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The records that a killed server of this volume has left, if they can be used.
    pub(crate) fn left(&self, volume: VolumeId, devices: &[Option<Device>], clean: bool) -> Option<Found> {
        if self.process_death == ProcessDeath::Off {
            return None;
        }
        let (mut found, mut why) = (None, None);
        for candidate in self.candidates(volume) {
            match read(&candidate.file, volume, devices) {
                Ok(Some(records)) => {
                    *self.kept() = Some(candidate);
                    found = Some(records);
                    break;
                }
                Ok(None) => {}
                Err(said) => why = Some(said),
            }
        }
        if let (None, Some(why), false) = (&found, why, clean) {
            tracing::warn!(
                "the records of the killed server are not taken over: {why}; the flushed writes are recovered"
            );
        }
        found
    }

    /// Where a server of this volume may have left records: the memory of this process, memory from the watching program, and files.
    fn candidates(&self, volume: VolumeId) -> Vec<Kept> {
        let again = |kept: &Kept| Some(Kept { file: kept.file.try_clone().ok()?, name: kept.name.clone() });
        let own = self.kept().as_ref().and_then(again);
        let inherited = self.notifier.inherited().map(|file| Kept { file, name: None });
        let kept = own.into_iter().chain(inherited);
        let Ok(directory) = self.directory() else { return kept.collect() };
        let files = (0..MOST_FILES).filter_map(|number| {
            let name = name_of(volume, number);
            // A file that a server has locked belongs to a copy of the volume, which that server serves.
            let file = directory.open(&name).ok().filter(lock)?;
            Some(Kept { file, name: Some(name) })
        });
        kept.chain(files).collect()
    }

    /// Clears the records that an earlier server of this volume has left.
    pub(crate) fn forget(&self, volume: VolumeId, devices: &[Option<Device>]) {
        if self.process_death == ProcessDeath::Off {
            return;
        }
        for candidate in self.candidates(volume) {
            // The records of a copy of the volume stay.
            if matches!(read(&candidate.file, volume, devices), Ok(Some(_)) | Err(Unusable::Stale(_))) {
                self.clear(&candidate);
            }
        }
        self.release();
    }

    /// Removes the records that killed servers of these volumes have left, where all devices that they served are among those here, which were
    /// overwritten: no server can use the records.
    pub(crate) fn forget_overwritten(&self, volumes: &[VolumeId], devices: &[Option<Device>]) {
        let overwritten = digests(devices);
        let is_overwritten =
            |label: &Label| label.devices.iter().all(|device| *device == 0 || overwritten.contains(device));
        for volume in volumes.iter().filter(|_| self.process_death != ProcessDeath::Off) {
            let left = self.candidates(*volume).into_iter();
            left.filter(|kept| label_of(&kept.file, *volume).is_some_and(|label| is_overwritten(&label)))
                .for_each(|kept| self.clear(&kept));
        }
    }

    /// Closes a file that was removed. Memory that the watching program keeps is used again.
    fn release(&self) {
        let mut kept = self.kept();
        if kept.as_ref().is_some_and(|kept| kept.name.is_some()) {
            *kept = None;
        }
    }

    fn clear(&self, kept: &Kept) {
        let cleared = match &kept.name {
            None => kept.file.write_all_at(&[0; BLOCK], 0),
            Some(name) => self.directory().map_err(io::Error::other).and_then(|directory| directory.remove(name)),
        };
        if let Err(error) = cleared {
            tracing::warn!(%error, "records for the next server that are not needed any more cannot be removed");
        }
    }

    /// Makes the memory for the records of a volume that was just opened. It replaces the records of an earlier server. From
    /// now on the engine hands out its records. `doubted`: the next server does not use them yet ([`SharedMemory::doubt`]).
    pub(crate) fn begin(
        &self,
        engine: &mut Engine,
        devices: &[Option<Device>],
        doubted: bool,
    ) -> Result<SharedMemory, NoMemory> {
        let label = engine.label_of_records().ok_or(NoMemory::NotNeeded)?;
        if self.process_death == ProcessDeath::Off {
            return Err(NoMemory::Off);
        }
        let system = |source: io::Error| NoMemory::System { why: source.to_string() };
        let boot = boot_id().map_err(system)?;
        let label = Label { boot, devices: digests(devices), ..label };
        // The records from which this volume was opened are not needed any more: all their changes are durable.
        let kept = self.kept().take();
        let (kept, place) =
            if self.notifier.keeps() { self.with_keeper(kept)? } else { self.in_directory(kept, &label)? };
        let memory = self.map(&kept.file, &label, place, doubted).map_err(system)?;
        *self.kept() = Some(kept);
        engine.keep_records();
        Ok(memory)
    }

    fn map(&self, file: &File, label: &Label, place: String, doubted: bool) -> io::Result<SharedMemory> {
        let bytes = label.contents.bytes();
        // Without a label the memory is ignored.
        file.set_len(0)?;
        // All memory is allocated now: if a page could not be allocated later, the kernel would kill the server.
        rustix::fs::fallocate(file, FallocateFlags::empty(), 0, bytes)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
        let start = unsafe {
            let protection = ProtFlags::READ | ProtFlags::WRITE;
            mmap(std::ptr::null_mut(), bytes as usize, protection, MapFlags::SHARED, file, 0)
        }?;
        let start = NonNull::new(start.cast::<u64>()).expect("a mapping is never at address zero");
        let words = bytes as usize / 8;
        let writer = Writer::new(label);
        let handoff = self.clone();
        let mut memory = SharedMemory { start, words, place, writer, label: *label, doubted: false, handoff };
        memory.doubt(doubted);
        let mut block = [0; BLOCK];
        label.encode(&mut block);
        file.write_all_at(&block, 0)?;
        Ok(memory)
    }

    fn with_keeper(&self, before: Option<Kept>) -> Result<(Kept, String), NoMemory> {
        let system =
            |source: io::Error| NoMemory::System { why: format!("the program that watches this one: {source}") };
        if let Some(before) = before.as_ref().filter(|before| before.name.is_some()) {
            self.clear(before);
        }
        let place = "a descriptor that the program keeps which watches this one".to_owned();
        let before = before.filter(|before| before.name.is_none()).map(|before| before.file);
        if let Some(file) = before.or_else(|| self.notifier.inherited()) {
            return Ok((Kept { file, name: None }, place));
        }
        let file =
            File::from(rustix::fs::memfd_create(NAME, MemfdFlags::CLOEXEC).map_err(|error| system(error.into()))?);
        self.notifier.keep(file.as_fd()).map_err(system)?;
        Ok((Kept { file, name: None }, place))
    }

    fn in_directory(&self, before: Option<Kept>, label: &Label) -> Result<(Kept, String), NoMemory> {
        let system = |why: String| NoMemory::System { why };
        let directory = self.directory().map_err(system)?;
        remove_those_before(&directory, label.boot);
        let shown = |name: &OsString| directory.path().join(name).display().to_string();
        if let Some(before) = before
            && let Some(name) = &before.name
        {
            let place = shown(name);
            return Ok((before, place));
        }
        for number in 0..MOST_FILES {
            let name = name_of(label.volume, number);
            let file = match directory.create(&name) {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // A server that has ended left the file. It can be used again if it is of these devices, or from before
                    // the last boot.
                    match directory.open(&name).ok().filter(|file| lock(file) && is_of_no_use(file, label)) {
                        Some(file) => file,
                        None => continue,
                    }
                }
                Err(error) => return Err(system(format!("{}: {error}", shown(&name)))),
            };
            let _ = rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive);
            let place = shown(&name);
            return Ok((Kept { file, name: Some(name) }, place));
        }
        Err(system(format!(
            "{}: has {MOST_FILES} files of copies of this volume: remove those that are not needed",
            directory.path().display()
        )))
    }
}

fn name_of(volume: VolumeId, number: u32) -> OsString {
    format!("{:032x}.{number}", volume.0).into()
}

/// Locks a file, unless a server has it, or another has removed it.
fn lock(file: &File) -> bool {
    let is_locked = rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok();
    is_locked && file.metadata().is_ok_and(|about| about.nlink() > 0)
}

fn label_of(file: &File, volume: VolumeId) -> Option<Label> {
    let mut block = [0; BLOCK];
    file.read_exact_at(&mut block, 0).ok()?;
    Label::decode(&block, volume)
}

/// Removes the records of all volumes that were left before this start of the machine: no server can use them.
fn remove_those_before(directory: &OwnDirectory, boot: u128) {
    for name in directory.names().unwrap_or_default() {
        let volume =
            name.to_str().and_then(|name| name.split_once('.')).map(|(volume, _)| u128::from_str_radix(volume, 16));
        let Some(Ok(volume)) = volume else { continue };
        let label =
            directory.open(&name).ok().filter(lock).and_then(|file| Some((label_of(&file, VolumeId(volume))?, file)));
        if let Some((_, _locked)) = label.filter(|(label, _)| label.boot != boot) {
            // What stays is only in the way.
            let _ = directory.remove(&name);
        }
    }
}

/// Whether a file of this volume can be overwritten: it is of the same devices, or from before the last boot.
fn is_of_no_use(file: &File, label: &Label) -> bool {
    label_of(file, label.volume).is_none_or(|old| old.boot != label.boot || old.devices == label.devices)
}

/// Why a server keeps no records.
#[derive(Debug, Error)]
pub(crate) enum NoMemory {
    /// The design has switched it off.
    #[error("durability.process_death is \"off\"")]
    Off,
    /// The placement keeps nothing in memory that its devices lack.
    #[error("nothing of this placement is in memory alone")]
    NotNeeded,
    /// The system refused to provide the memory, or there is no safe place for it.
    #[error("{why}")]
    System {
        /// Why.
        why: String,
    },
}

/// Records of a volume, in memory that outlives the process.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<u64>,
    words: usize,
    /// Where it is kept, for people.
    place: String,
    writer: Writer,
    label: Label,
    doubted: bool,
    handoff: Handoff,
}

/// A digest that stands for any device.
const ANY: u64 = u64::MAX;

// SAFETY: the mapping belongs to this value alone, and no thread-local state refers to it.
unsafe impl Send for SharedMemory {}

impl Words for Mapped {
    #[inline]
    fn store(&mut self, index: usize, word: u64) {
        assert!(index < self.words, "a record lies within the memory");
        // SAFETY: the word is within the mapping, aligned, and accessed as an atomic by every process that maps it.
        let place = unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(index)) };
        // Stores become visible in order. If the process dies, all stores up to some moment are visible, and none of the later ones.
        place.store(word, Ordering::Release);
    }
}

/// The mapping, as a place to store words.
struct Mapped {
    start: NonNull<u64>,
    words: usize,
}

impl SharedMemory {
    /// Stores a record.
    #[inline]
    pub(crate) fn store(&mut self, record: Record) {
        self.writer.store(record, &mut Mapped { start: self.start, words: self.words });
    }

    /// Records whether a device may have lost data that were written to it, or a host has still to hear of a loss. The next server does not
    /// use the records while this is so: they could point to lost data, and the host hears of the loss by then.
    pub(crate) fn doubt(&mut self, is: bool) {
        if self.doubted != is {
            self.doubted = is;
            self.store(Record::Doubted { is });
        }
    }

    pub(crate) fn is_doubted(&self) -> bool {
        self.doubted
    }

    /// Records which devices the volume has, when one is replaced. `any`: the index of a device of which old and new are both accepted.
    pub(crate) fn set_devices(&mut self, devices: &[Option<Device>], any: Option<usize>) {
        self.label.devices = digests(devices);
        if let Some(any) = any {
            self.label.devices[any] = ANY;
        }
        let mut block = [0; BLOCK];
        self.label.encode(&mut block);
        let mut mapped = Mapped { start: self.start, words: self.words };
        let words = block.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
        words.enumerate().for_each(|(index, word)| mapped.store(index, word));
    }

    /// Where it is kept, for people, and its size in bytes.
    pub(crate) fn place(&self) -> (&str, u64) {
        (&self.place, self.words as u64 * 8)
    }

    /// The volume was closed in good order, and no server needs the records.
    pub(crate) fn remove(self) {
        if let Some(kept) = &*self.handoff.kept() {
            self.handoff.clear(kept);
        }
        self.handoff.release();
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no pointer into it is left.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.words * 8) };
        debug_assert!(result.is_ok(), "a mapping of ours can be unmapped");
    }
}

/// Why records cannot be used.
#[derive(Debug, Error)]
enum Unusable {
    /// No server can use them.
    #[error("{0}")]
    Stale(String),
    /// They are of other devices.
    #[error("a device is another one, or was taken out and put back since")]
    OtherDevices,
}

/// Reads records; `Ok(None)`: there are none.
fn read(file: &File, volume: VolumeId, devices: &[Option<Device>]) -> Result<Option<Found>, Unusable> {
    let stale = |why: &dyn std::fmt::Display| Unusable::Stale(why.to_string());
    let bytes = match whole(file, volume) {
        Ok(bytes) if bytes[..BLOCK].iter().all(|byte| *byte == 0) => return Ok(None),
        Ok(bytes) => bytes,
        Err(error) => return Err(stale(&error)),
    };
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let found = Found::decode(&words, volume).map_err(|unfit| stale(&unfit))?;
    let boot = boot_id().map_err(|error| stale(&format_args!("{BOOT_ID}: {error}")))?;
    if found.label.boot != boot {
        return Err(stale(&"the machine was started again since"));
    }
    for (now, then) in digests(devices).into_iter().zip(found.label.devices) {
        if now != 0 && now != then && then != ANY {
            return Err(Unusable::OtherDevices);
        }
    }
    Ok(Some(found))
}

/// Reads the records, to the length that their label gives.
fn whole(file: &File, volume: VolumeId) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; BLOCK];
    match file.read_exact_at(&mut bytes, 0) {
        // A server was killed before it had written its label.
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(vec![0; BLOCK]),
        other => other?,
    }
    let contents = Label::decode(&bytes, volume).map(|label| label.contents);
    let len = contents.map_or(BLOCK as u64, Contents::bytes);
    if file.metadata()?.len() < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.resize(len as usize, 0);
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

pub(crate) fn boot_id() -> io::Result<u128> {
    let text = fs::read_to_string(BOOT_ID)?;
    u128::from_str_radix(&text.trim().replace('-', ""), 16).map_err(|_| io::ErrorKind::InvalidData.into())
}

/// For each device a number that differs for any other device, and for the same device once it has been taken out and put
/// back; 0 for a device that is absent.
fn digests(devices: &[Option<Device>]) -> [u64; MOST_DEVICES] {
    let mut digests = [0; MOST_DEVICES];
    for (digest, device) in digests.iter_mut().zip(devices) {
        *digest = device.as_ref().map_or(0, digest_of);
    }
    digests
}

fn digest_of(device: &Device) -> u64 {
    let (of, number) = device.identity();
    let mut text = format!("{of} {number}");
    if device.is_block {
        let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
        // A partition has the sequence number of its disk.
        let places = ["diskseq", "../diskseq"].map(|name| format!("/sys/dev/block/{major}:{minor}/{name}"));
        let sequence = places.iter().find_map(|place| fs::read_to_string(place).ok()).unwrap_or_default();
        let _ = write!(text, " {}", sequence.trim());
    }
    // FNV-1a: it need not be hard to forge.
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
        .max(1)
}

#[cfg(test)]
mod tests {
    use std::slice;

    use super::*;
    use crate::open::{DevicePath, Opening, Rights};

    /// The fear: memory is lost to records of volumes that are no more, or records that a server needs are removed.
    #[test]
    fn records_that_no_server_can_use_are_removed_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let device = |name: &str| {
            let at = DevicePath { name: name.to_owned(), path: folder.path().join(name) };
            Device::open(&at, Opening { direct: false, rights: Rights::Create }).unwrap()
        };
        let [fast, slow, other] = ["fast", "slow", "other"].map(device);
        let process_death = ProcessDeath::SharedMemory { directory: Some(folder.path().join("own")) };
        let handoff = Handoff::new(&process_death, &Notifier::default());
        let directory = handoff.directory().unwrap();
        let (now, volume, another) = (boot_id().unwrap(), VolumeId(7), VolumeId(8));
        let leave = |volume: VolumeId, number, boot, devices: &[Option<Device>]| {
            let contents = Contents::Map { extents: 1, places: 0 };
            let mut block = [0; BLOCK];
            Label { volume, generation: 1, boot, devices: digests(devices), contents }.encode(&mut block);
            directory.create(&name_of(volume, number)).unwrap().write_all_at(&block, 0).unwrap();
        };
        let left = || {
            let mut names = directory.names().unwrap();
            names.retain(|name| !name.to_string_lossy().starts_with('.'));
            names.sort();
            names
        };
        leave(volume, 0, now, &[fast.clone(), slow.clone()]);
        leave(volume, 1, now, &[other.clone(), slow.clone()]);
        leave(another, 0, now ^ 1, slice::from_ref(&fast));
        leave(another, 1, now ^ 1, slice::from_ref(&fast));
        directory.create("notes".as_ref()).unwrap();
        directory.create(&name_of(volume, 2)).unwrap();
        // A server has one of them.
        let used = directory.open(&name_of(another, 1)).unwrap();
        assert!(lock(&used));
        remove_those_before(&directory, now);
        let names = [name_of(volume, 0), name_of(volume, 1), name_of(volume, 2), name_of(another, 1), "notes".into()];
        assert_eq!(left(), names);
        drop(used);
        remove_those_before(&directory, now);
        assert_eq!(left(), [&names[..3], &names[4..]].concat());
        // The other device still has the volume.
        for devices in [slice::from_ref(&fast), &[fast.clone(), other.clone()]] {
            handoff.forget_overwritten(&[volume], devices);
            assert_eq!(left().len(), 4);
        }
        handoff.forget_overwritten(&[another], &[fast.clone(), slow.clone()]);
        assert_eq!(left().len(), 4);
        handoff.forget_overwritten(&[another, volume], &[slow, fast]);
        assert_eq!(left(), [&names[1..3], &names[4..]].concat());
    }
}
