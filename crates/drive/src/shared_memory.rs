//! Memory that outlives the process: a mapped file of a file system in memory. The server records there which changes the
//! engine has not made durable yet. If the server is killed and started again, the volume has everything that was
//! answered. See `docs/durability.md`.

use std::{
    fmt::Write as _,
    fs, io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    ptr::NonNull,
    sync::atomic::{AtomicU64, Ordering},
};

use peryton_engine::{
    Engine, VolumeId,
    takeover::{Contents, Found, Label, MOST_DEVICES, Record, Words, Writer},
};
use rustix::{
    fs::{FallocateFlags, Mode, OFlags},
    io::Errno,
    mm::{MapFlags, ProtFlags, mmap, munmap},
};
use thiserror::Error;

use crate::open::Device;

/// The kernel's identity of this start of the machine.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// The length of a label: one block.
const BLOCK: usize = 4096;

/// What happens to writes that were answered but not flushed if the server is killed and the machine runs on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProcessDeath {
    /// They survive: the metadata that lead to them are kept in a file in this directory, whose file system is in memory.
    SharedMemory {
        /// The directory.
        directory: PathBuf,
    },
    /// Placements with a map or a log may lose them, as in a power loss.
    Off,
}

impl Default for ProcessDeath {
    fn default() -> ProcessDeath {
        ProcessDeath::SharedMemory { directory: PathBuf::from("/dev/shm") }
    }
}

impl ProcessDeath {
    fn path(&self, volume: VolumeId) -> Option<PathBuf> {
        match self {
            ProcessDeath::SharedMemory { directory } => Some(directory.join(format!("peryton-{:032x}", volume.0))),
            ProcessDeath::Off => None,
        }
    }

    /// Removes the records that a server of this volume has left.
    pub(crate) fn forget(&self, volume: VolumeId) {
        let Some(path) = self.path(volume) else { return };
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                tracing::warn!(path = %path.display(), %error, "what is not needed any more cannot be removed");
            }
            _ => {}
        }
    }
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
    /// The system refused to provide the memory.
    #[error("{}: {source}", path.display())]
    System {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

/// Records of a volume, in memory that outlives the process.
#[derive(Debug)]
pub(crate) struct SharedMemory {
    start: NonNull<u64>,
    words: usize,
    path: PathBuf,
    writer: Writer,
    label: Label,
    doubted: bool,
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
        // Stores become visible in order, so a process that dies leaves all stores before some moment and none after it.
        place.store(word, Ordering::Release);
    }
}

/// The mapping, as a place to store words.
struct Mapped {
    start: NonNull<u64>,
    words: usize,
}

impl SharedMemory {
    /// Makes the memory for the records of a volume that was just opened. It replaces the records of an earlier server. From
    /// now on the engine hands out its records.
    pub(crate) fn begin(
        at: &ProcessDeath,
        engine: &mut Engine,
        devices: &[Option<Device>],
    ) -> Result<SharedMemory, NoMemory> {
        let label = engine.label_of_records().ok_or(NoMemory::NotNeeded)?;
        let path = at.path(label.volume).ok_or(NoMemory::Off)?;
        let system = |source: io::Error| NoMemory::System { path: path.clone(), source };
        let boot = boot_id().map_err(system)?;
        let label = Label { boot, devices: digests(devices), ..label };
        let memory = SharedMemory::create(path.clone(), &label).map_err(system)?;
        engine.keep_records();
        Ok(memory)
    }

    fn create(path: PathBuf, label: &Label) -> io::Result<SharedMemory> {
        let bytes = label.contents.bytes();
        let new = path.with_extension("new");
        // A file that another server had begun and not finished. No other server is using it, because this one has locked the
        // devices.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(&new, flags, Mode::from_raw_mode(0o600))?;
        let made = (|| {
            // All memory is allocated now: if a page could not be allocated later, the kernel would kill the server.
            rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, bytes)?;
            let mut block = [0; BLOCK];
            label.encode(&mut block);
            rustix::io::pwrite(&file, &block, 0)?;
            // SAFETY: a fresh mapping at an address of the kernel's choice touches nothing that exists.
            let start = unsafe {
                let protection = ProtFlags::READ | ProtFlags::WRITE;
                mmap(std::ptr::null_mut(), bytes as usize, protection, MapFlags::SHARED, &file, 0)
            }?;
            Ok::<_, Errno>(NonNull::new(start.cast::<u64>()).expect("a mapping is never at address zero"))
        })();
        let start = made.inspect_err(|_| drop(fs::remove_file(&new)))?;
        let words = bytes as usize / 8;
        let memory = SharedMemory {
            start,
            words,
            path: path.clone(),
            writer: Writer::new(label),
            label: *label,
            doubted: false,
        };
        fs::rename(&new, &path).inspect_err(|_| drop(fs::remove_file(&new)))?;
        Ok(memory)
    }

    /// Stores a record.
    #[inline]
    pub(crate) fn store(&mut self, record: Record) {
        self.writer.store(record, &mut Mapped { start: self.start, words: self.words });
    }

    /// Records whether a device may have lost data that were written to it. The next server does not use the records while
    /// this is so, because they could point to lost data.
    pub(crate) fn doubt(&mut self, is: bool) {
        if self.doubted != is {
            self.doubted = is;
            self.store(Record::Doubted { is });
        }
    }

    /// Notes which devices there are, as another one takes a place. `any`: the index of a place that either of two may have.
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

    /// The path of the file, and its size in bytes.
    pub(crate) fn place(&self) -> (&Path, u64) {
        (&self.path, self.words as u64 * 8)
    }

    /// Removes the file, because the volume was closed in good order and no server needs the records.
    pub(crate) fn remove(self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "what is not needed any more cannot be removed");
        }
    }
}

impl Drop for SharedMemory {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no pointer into it is left.
        let result = unsafe { munmap(self.start.as_ptr().cast(), self.words * 8) };
        debug_assert!(result.is_ok(), "a mapping of ours can be unmapped");
    }
}

/// The records that a killed server of this volume has left, if they can be used.
pub(crate) fn left(at: &ProcessDeath, volume: VolumeId, devices: &[Option<Device>]) -> Option<Found> {
    let path = at.path(volume)?;
    match read(&path, volume, devices) {
        Ok(found) => found,
        Err(why) => {
            tracing::warn!(
                path = %path.display(),
                "the records of a server that was killed are not taken over: {why}; what was flushed is recovered"
            );
            None
        }
    }
}

fn read(path: &Path, volume: VolumeId, devices: &[Option<Device>]) -> Result<Option<Found>, String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => fs::File::from(file),
        Err(Errno::NOENT) => return Ok(None),
        Err(error) => return Err(error.to_string()),
    };
    let about = file.metadata().map_err(|error| error.to_string())?;
    // Every user may create files in the directory, so the file could be another user's.
    let ours = about.is_file() && about.uid() == rustix::process::geteuid().as_raw();
    if !ours || about.permissions().mode() & 0o077 != 0 {
        return Err("they are not this user's alone".to_owned());
    }
    let bytes = whole(&file, volume).map_err(|error| error.to_string())?;
    let words: Vec<u64> = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let found = Found::decode(&words, volume).map_err(|unfit| unfit.to_string())?;
    let boot = boot_id().map_err(|error| format!("{BOOT_ID}: {error}"))?;
    if found.label.boot != boot {
        return Err("the machine was started again since".to_owned());
    }
    for (now, then) in digests(devices).into_iter().zip(found.label.devices) {
        if now != 0 && now != then && then != ANY {
            return Err("a device is another one, or was taken out and put back since".to_owned());
        }
    }
    Ok(Some(found))
}

/// Reads the file, to the length that its label gives.
fn whole(file: &fs::File, volume: VolumeId) -> io::Result<Vec<u8>> {
    use std::os::unix::fs::FileExt as _;
    let mut bytes = vec![0; BLOCK];
    file.read_exact_at(&mut bytes, 0)?;
    let contents = Label::decode(&bytes, volume).map(|label| label.contents);
    let len = contents.map_or(BLOCK as u64, Contents::bytes);
    if file.metadata()?.len() < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    bytes.resize(len as usize, 0);
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn boot_id() -> io::Result<u128> {
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
