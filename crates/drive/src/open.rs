//! Opens the devices of a volume: files and block devices, exclusively, bypassing the page cache if possible.

use std::{
    cell::Cell,
    fmt, fs, io,
    mem::MaybeUninit,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::{FileTypeExt, MetadataExt},
    },
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use peryton_engine::DeviceId;
use peryton_units::Bytes;
use rustix::{
    fs::{FlockOperation, Mode, OFlags, SeekFrom},
    io::Errno,
};
use thiserror::Error;

use crate::{
    block::{BackingFile, Linux},
    copies,
    disks::Ability,
    division::Division,
    probe,
};

/// How long to wait for a device of a server that has just ended. Its lock on a file, and its hold on a block device,
/// end only when the kernel has released the io_uring instance, some time after the process has ended.
const HOLDER_PATIENCE: Duration = Duration::from_secs(5);
/// It is said that this is waited for when it has taken so long.
const SILENT: Duration = Duration::from_secs(1);
/// The interval of attempts meanwhile.
const LOOK: Duration = Duration::from_millis(20);

/// The alignment of devices for which the system states none, in bytes.
const CAUTIOUS_BLOCK: u64 = 4096;

/// The path of a device of a design.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DevicePath {
    /// Its name in the design.
    pub name: String,
    /// Path of a regular file or a block device.
    pub path: PathBuf,
}

impl fmt::Display for DevicePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: device '{}'", self.path.display(), self.name)
    }
}

/// Why a device cannot be opened. One line: which device, what is wrong, what to do.
#[derive(Debug, Error)]
pub enum DeviceOpenError {
    /// It is neither a file nor a block device, is in use, or cannot be opened.
    #[error("{0}")]
    Refused(String),
    /// It can be read and not written.
    #[error(
        "{}: device '{name}' can be read, and not written ({source}): give permission to write it, or copy it to a device that can be \
         written and name that in the design; the data of a fast device or a log can be written back instead (peryton export \
         --read-only {name})",
        path.display()
    )]
    ReadOnly {
        /// The device.
        name: String,
        /// Where.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Whether this user may read what is there.
fn may_be_read(path: &Path) -> bool {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).is_ok()
}

/// Whether files in this place are those of devices: a regular file that is made there is in memory. Shared memory is meant so.
fn is_of_devices(path: &Path) -> bool {
    path.starts_with("/dev") && !path.starts_with("/dev/shm")
}

/// Finds the devices with these names.
pub(crate) fn named(devices: &[DevicePath], names: &[String]) -> Result<Vec<DeviceId>, DeviceOpenError> {
    let find = |name: &String| {
        let index = devices.iter().position(|device| device.name == *name);
        let known = || devices.iter().map(|device| format!("'{}'", device.name)).collect::<Vec<_>>().join(" and ");
        index.map(|index| DeviceId(index as u8)).ok_or_else(|| {
            let known = known();
            DeviceOpenError::Refused(format!(
                "there is no device '{name}' to leave out or replace: the design has {known}"
            ))
        })
    };
    names.iter().map(find).collect()
}

/// An open device.
#[derive(Clone, Debug)]
pub struct Device {
    /// Its name in the design.
    pub name: String,
    /// Where it is.
    pub path: PathBuf,
    pub(crate) file: Arc<OwnedFd>,
    /// How large it is.
    pub size: Bytes,
    /// Whether it is a block device.
    pub is_block: bool,
    /// Whether the page cache is bypassed.
    pub is_direct: bool,
    pub(crate) ability: Ability,
    /// The file beneath a loop device, locked: it may be served by its own name, or by another loop device.
    backing: Option<Arc<OwnedFd>>,
    /// Which file the device is; two paths may lead to one file.
    identity: (u64, u64),
    /// The path of the file when it was opened, if the kernel says it.
    opened_as: Option<PathBuf>,
    /// Whether the file was created when it was opened, so that its directory is not durable yet.
    is_new: bool,
    /// How it is divided, if it had data before it became part of its volume.
    pub(crate) division: Option<Division>,
}

/// Locks the file beneath a loop device. A device that has a part of it shares the lock with those that have others.
fn lock_backing(backing: &BackingFile, holder: &Holder) -> Result<OwnedFd, Errno> {
    let file = rustix::fs::open(&backing.path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    let kind = match backing.is_whole {
        true => FlockOperation::NonBlockingLockExclusive,
        false => FlockOperation::NonBlockingLockShared,
    };
    lock(&file, kind, holder)?;
    Ok(file)
}

/// How devices are opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Whether to bypass the page cache if the file system supports that.
    pub direct: bool,
    /// What may be done with it.
    pub rights: Rights,
}

/// The name that the kernel has for an open file.
fn name_of(file: &OwnedFd) -> Option<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
}

/// Where the file of an open device is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Place {
    /// Where it was opened.
    #[default]
    AtItsPath,
    /// It has another name: the next server does not find it.
    Elsewhere,
    /// It was deleted, so its data end with the server.
    Nowhere,
}

/// What may be done with an open device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rights {
    /// It is read, and never written: it may be on a medium that takes no writes.
    Read,
    /// It is read and written.
    Write,
    /// The same; a regular file is created if there is nothing at the path.
    Create,
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: device '{}'", self.path.display(), self.name)
    }
}

impl Device {
    /// Opens a device and locks it. Returns `None` if there is nothing at the path and `create` is false.
    ///
    /// # Errors
    /// The device cannot be opened, is in use, or is neither a file nor a block device.
    pub fn open(at: &DevicePath, opening: Opening) -> Result<Option<Device>, DeviceOpenError> {
        let DevicePath { name, path } = at;
        let failed = |source: io::Error, remedy| DeviceOpenError::Refused(format!("{at}: {source}{remedy}"));
        let mut is_new = false;
        let is_block = match fs::metadata(path) {
            Ok(about) if about.file_type().is_block_device() => true,
            Ok(about) if about.is_file() => false,
            Ok(about) => {
                let what = if about.is_dir() { "a directory" } else { "neither" };
                return Err(DeviceOpenError::Refused(format!("{at} is {what}: give a regular file or a block device")));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && opening.rights == Rights::Create => {
                if is_of_devices(path) {
                    let problem =
                        format!("{at}: there is no such block device, and a file here is gone at the next start");
                    return Err(DeviceOpenError::Refused(format!(
                        "{problem}: name a block device, or a file elsewhere"
                    )));
                }
                is_new = true;
                false
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed(error, "")),
        };
        let may_write = opening.rights != Rights::Read;
        let mut flags = OFlags::CLOEXEC | if may_write { OFlags::RDWR } else { OFlags::RDONLY };
        if is_block {
            // The kernel then refuses a second opener with this flag, and mounts.
            flags |= OFlags::EXCL;
        } else if opening.rights == Rights::Create {
            flags |= OFlags::CREATE;
            // What has come there meanwhile is another program's.
            flags |= if is_new { OFlags::EXCL } else { OFlags::empty() };
        }
        let in_use = |by: String| DeviceOpenError::Refused(format!("{at} {by}"));
        let user = || Linux::default().in_use(path);
        let holder = Holder::of(path);
        let attempt = |flags| loop {
            match rustix::fs::open(path, flags, Mode::from_raw_mode(0o600)) {
                // Nothing that Linux knows to use it is about to end.
                Err(Errno::BUSY) if user().is_none() && holder.may_end() => {}
                other => return other,
            }
        };
        let open = |flags| match attempt(flags) {
            Err(Errno::BUSY) => Err(in_use(user().unwrap_or_else(|| by_unknown(path)))),
            // A block device that was set read-only says so like a file without permission.
            Err(error @ (Errno::ROFS | Errno::ACCESS | Errno::PERM)) if may_write && may_be_read(path) => {
                Err(DeviceOpenError::ReadOnly { name: name.clone(), path: path.clone(), source: error.into() })
            }
            Err(Errno::ACCESS | Errno::PERM) => {
                Err(failed(Errno::ACCESS.into(), ": it must be readable and writable for you"))
            }
            other => Ok(other),
        };
        let mut is_direct = opening.direct;
        let file = match open(if opening.direct { flags | OFlags::DIRECT } else { flags })? {
            Err(Errno::INVAL) if opening.direct => {
                tracing::warn!(path = %path.display(), "the file system refuses O_DIRECT; the page cache is used");
                is_direct = false;
                open(flags)?
            }
            other => other,
        }
        .map_err(|error| failed(error.into(), ""))?;
        if may_write && is_block && is_set_read_only(&file) {
            let (name, path) = (name.clone(), path.clone());
            return Err(DeviceOpenError::ReadOnly { name, path, source: Errno::ROFS.into() });
        }
        match lock(&file, FlockOperation::NonBlockingLockExclusive, &holder) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let by = locker(&file).map(|pid| format!(", process {pid}")).unwrap_or_default();
                return Err(in_use(format!("is in use by another peryton{by}: only one at a time may have it")));
            }
            Err(error) => return Err(failed(error.into(), ": it cannot be locked")),
        }
        let about = rustix::fs::fstat(&file).map_err(|error| failed(error.into(), ""))?;
        let backing = if is_block { Linux::default().backing_file(about.st_rdev) } else { None };
        let backing = match backing.map(|backing| (lock_backing(&backing, &holder), backing)) {
            Some((Err(Errno::WOULDBLOCK), backing)) => {
                let file = backing.path.display();
                return Err(in_use(format!(
                    "is a loop device of {file}, which another peryton has: only one at a time may have it"
                )));
            }
            // Its file may be anywhere, and not be reached.
            Some((locked, _)) => locked.ok(),
            None => None,
        };
        let size = rustix::fs::seek(&file, SeekFrom::End(0)).map_err(|error| failed(error.into(), ""))?;
        let ability = ability(&file, is_direct, is_block);
        let identity = if is_block { (u64::MAX, about.st_rdev) } else { (about.st_dev, about.st_ino) };
        let (name, path, opened_as) = (name.clone(), path.clone(), name_of(&file));
        let file = Arc::new(file);
        Ok(Some(Device {
            name,
            path,
            file,
            size: Bytes(size),
            is_block,
            is_direct,
            ability,
            backing: backing.map(Arc::new),
            identity,
            opened_as,
            is_new,
            division: None,
        }))
    }

    /// Which file it is, or `u64::MAX` and which block device.
    pub(crate) fn identity(&self) -> (u64, u64) {
        self.identity
    }

    /// Which file, or block device, is at a path now.
    pub(crate) fn identity_at(path: &Path) -> Option<(u64, u64)> {
        let about = fs::metadata(path).ok()?;
        let is_block = about.file_type().is_block_device();
        Some(if is_block { (u64::MAX, about.rdev()) } else { (about.dev(), about.ino()) })
    }

    /// Whether the disk was taken out since it was opened, or the disk or file has become smaller than this: Linux says of a disk that
    /// was taken out that it has no size. This does not wait for commands in flight, as a seek to the end would.
    pub(crate) fn is_smaller_than(&self, least: Bytes) -> bool {
        const BLKGETSIZE64: rustix::ioctl::Opcode = rustix::ioctl::opcode::read::<usize>(0x12, 114);
        let size = match self.is_block {
            // SAFETY: the kernel writes 64 bits, the size in bytes.
            true => unsafe { rustix::ioctl::ioctl(&self.file, rustix::ioctl::Getter::<BLKGETSIZE64, u64>::new()) },
            false => rustix::fs::fstat(&self.file).map(|about| about.st_size as u64),
        };
        size.is_ok_and(|size| size < least.0)
    }

    /// Where its file is now. A block device stays where it is. The kernel is asked for the name of the open file: to look at its path could
    /// wait for a file system that hangs.
    pub(crate) fn place(&self) -> Place {
        match name_of(&self.file) {
            now if self.is_block || now.is_none() || now == self.opened_as => Place::AtItsPath,
            _ if rustix::fs::fstat(&self.file).is_ok_and(|about| about.st_nlink == 0) => Place::Nowhere,
            _ => Place::Elsewhere,
        }
    }

    /// Makes Linux look for partitions of the disk again. What cannot have any is left as it is.
    ///
    /// # Errors
    /// Some of those that it knows are in use.
    pub(crate) fn read_partitions_again(&self) -> io::Result<()> {
        const BLKRRPART: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 95);
        if !self.is_block {
            return Ok(());
        }
        // SAFETY: this call has no argument.
        match unsafe { rustix::ioctl::ioctl(&self.file, rustix::ioctl::NoArg::<BLKRRPART>::new()) } {
            Err(Errno::INVAL | Errno::NOTTY) | Ok(()) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes the directory of a new file durable, so that the file survives a power loss.
    ///
    /// # Errors
    /// The system cannot open or flush the directory.
    pub(crate) fn sync_directory(&self) -> io::Result<()> {
        if !self.is_new {
            return Ok(());
        }
        let path = fs::canonicalize(&self.path)?;
        fs::File::open(path.parent().unwrap_or(Path::new("/")))?.sync_all()
    }

    /// Removes a file that was made for this device, which no volume uses.
    pub(crate) fn remove_new(&self) {
        if self.is_new {
            // The error before is the one to report.
            let _ = fs::remove_file(&self.path);
        }
    }

    /// Releases the lock now, because the kernel takes a while to close a file that io_uring has used. Nothing may be
    /// in flight.
    pub(crate) fn unlock(&self) {
        // A failure means that the file is not locked any more.
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
        if let Some(backing) = &self.backing {
            let _ = rustix::fs::flock(backing, FlockOperation::Unlock);
        }
    }

    /// Drops what the page cache has of the device and need not write. After a write-back that failed it keeps what it could
    /// not write, calls it clean, and would show it to a recovery until it needs the memory.
    pub(crate) fn drop_cached(&self) {
        if !self.is_direct {
            // This is a hint; a file system in memory ignores it.
            let _ = rustix::fs::fadvise(&self.file, 0, None, rustix::fs::Advice::DontNeed);
        }
    }

    /// Opens all devices of a volume except those that are left out; devices that do not exist are `None`.
    ///
    /// # Errors
    /// The error of the first device that cannot be opened.
    pub fn open_all(
        devices: &[DevicePath],
        opening: Opening,
        without: &[DeviceId],
    ) -> Result<Vec<Option<Device>>, DeviceOpenError> {
        let mut open = Vec::new();
        let opened = Device::open_each(devices, opening, without, &mut open);
        opened.inspect_err(|_| open.iter().flatten().for_each(Device::remove_new))?;
        Ok(open)
    }

    fn open_each(
        devices: &[DevicePath],
        opening: Opening,
        without: &[DeviceId],
        open: &mut Vec<Option<Device>>,
    ) -> Result<(), DeviceOpenError> {
        for (index, at) in devices.iter().enumerate() {
            if without.iter().any(|device| device.index() == index) {
                open.push(None);
                continue;
            }
            // Two devices with one file would otherwise appear as "in use", because the first has locked it.
            if let Some(other) = open.iter().flatten().find(|other| same_file(&other.path, &at.path)) {
                return Err(DeviceOpenError::Refused(format!(
                    "{}: devices '{}' and '{}' are the same: give each its own file or block device",
                    at.path.display(),
                    other.name,
                    at.name
                )));
            }
            open.push(Device::open(at, opening)?);
        }
        let mut seen: Vec<(u64, u64)> = open.iter().flatten().map(|device| device.identity).collect();
        seen.sort_unstable();
        debug_assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "one device, open twice");
        Ok(())
    }
}

/// What is said of a block device that another program has for itself, where Linux does not say which one.
fn by_unknown(path: &Path) -> String {
    if let Some(server) = copies::server_of(path) {
        return format!("is served by peryton already, by {server}: stop that first");
    }
    let holds = probe::signature(path).map(|what| format!(", and holds {what}")).unwrap_or_default();
    format!(
        "is in use by another program, or is mounted where this one does not see it{holds}: stop using it first (lsof {} shows \
         programs), or name another device",
        path.display()
    )
}

/// Whether a block device was set read-only. Some can be opened to be written all the same, and each write fails.
fn is_set_read_only(file: &OwnedFd) -> bool {
    const BLKROGET: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 94);
    // SAFETY: the kernel writes an integer.
    unsafe { rustix::ioctl::ioctl(file, rustix::ioctl::Getter::<BLKROGET, i32>::new()) }.is_ok_and(|is| is != 0)
}

/// Refuses a device that is about to be overwritten, if it is in use.
pub(crate) fn refuse_used(at: &DevicePath) -> Result<(), DeviceOpenError> {
    match Linux::default().in_use(&at.path) {
        Some(by) => Err(DeviceOpenError::Refused(format!("{at} {by}"))),
        None => Ok(()),
    }
}

/// Locks the file. The lock of a killed server ends only when the kernel has finished the writes that were in flight.
/// Waiting for that is necessary: such a write must not overwrite ours.
fn lock(file: &OwnedFd, how: FlockOperation, holder: &Holder) -> rustix::io::Result<()> {
    loop {
        match rustix::fs::flock(file, how) {
            Err(Errno::WOULDBLOCK) if holder.may_end() => {}
            other => return other,
        }
    }
}

/// The process that has locked a file, if Linux says so: it knows none of another container.
fn locker(file: &OwnedFd) -> Option<u32> {
    let about = rustix::fs::fstat(file).ok()?;
    let (major, minor) = (rustix::fs::major(about.st_dev), rustix::fs::minor(about.st_dev));
    let place = format!("{major:02x}:{minor:02x}:{}", about.st_ino);
    let locks = fs::read_to_string("/proc/locks").ok()?;
    // "1: FLOCK  ADVISORY  WRITE 12798 fe:00:6684855 0 EOF"
    let of_file = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        (fields.get(1) == Some(&"FLOCK") && fields.get(5) == Some(&&*place)).then(|| fields[4].parse().ok()).flatten()
    };
    locks.lines().find_map(of_file).filter(|pid| *pid != 0)
}

/// Whoever has a device that is to be opened.
struct Holder<'a> {
    path: &'a Path,
    /// From when on it is waited for.
    began: Instant,
    /// Whether it was said that it is waited for.
    said: Cell<bool>,
}

impl Holder<'_> {
    fn of(path: &Path) -> Holder<'_> {
        Holder { path, began: Instant::now(), said: Cell::new(false) }
    }

    /// Whether it may still end by itself. Looks again after a while.
    fn may_end(&self) -> bool {
        let waited = self.began.elapsed();
        if waited >= SILENT && !self.said.replace(true) {
            let (path, most) = (self.path.display(), HOLDER_PATIENCE.as_secs());
            tracing::warn!("{path} is in use: waiting for at most {most} s, in case the program that has it is ending");
        }
        let may_end = waited < HOLDER_PATIENCE;
        if may_end {
            thread::sleep(LOOK);
        }
        may_end
    }
}

/// Whether two paths lead to one file or device.
pub(crate) fn same_file(one: &Path, other: &Path) -> bool {
    match (fs::metadata(one), fs::metadata(other)) {
        (Ok(one), Ok(other)) if one.file_type().is_block_device() && other.file_type().is_block_device() => {
            one.rdev() == other.rdev()
        }
        (Ok(one), Ok(other)) => (one.dev(), one.ino()) == (other.dev(), other.ino()),
        _ => one == other,
    }
}

/// What the device requires of offsets, lengths and memory.
pub(crate) fn ability(file: &OwnedFd, is_direct: bool, is_block: bool) -> Ability {
    let (mut block, mut memory) = (1, 1);
    if is_direct {
        (block, memory) = direct_alignment(file).unwrap_or_else(|| {
            let block = is_block.then(|| rustix::fs::ioctl_blksszget(file).ok().map(u64::from)).flatten();
            let block = block.unwrap_or(CAUTIOUS_BLOCK);
            (block, block)
        });
    }
    Ability { block, memory, punch: true, zero_range: true, wear: Arc::default() }
}

/// The alignment that direct I/O on the file requires: of offsets and lengths, and of memory (`STATX_DIOALIGN`, Linux
/// 6.1).
fn direct_alignment(file: &OwnedFd) -> Option<(u64, u64)> {
    let mut about = MaybeUninit::<libc::statx>::zeroed();
    // SAFETY: the path is an empty C string, and the structure is a local buffer for the result.
    let about = unsafe {
        let flags = libc::AT_EMPTY_PATH;
        let result = libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, libc::STATX_DIOALIGN, about.as_mut_ptr());
        if result != 0 {
            return None;
        }
        about.assume_init()
    };
    let (block, memory) = (u64::from(about.stx_dio_offset_align), u64::from(about.stx_dio_mem_align));
    let known = about.stx_mask & libc::STATX_DIOALIGN != 0 && block.is_power_of_two() && memory.is_power_of_two();
    // The buffers do not support blocks larger than a page.
    (known && block <= CAUTIOUS_BLOCK && memory <= CAUTIOUS_BLOCK).then_some((block, memory))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fear: an operator is told that something has the device, and not what.
    #[test]
    fn the_process_that_has_a_device_is_named() {
        let folder = tempfile::tempdir().expect("a folder");
        let at = DevicePath { name: "fast".to_owned(), path: folder.path().join("fast") };
        let file = fs::File::create(&at.path).expect("a file").into();
        assert_eq!(locker(&file), None);
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).expect("nothing else has it");
        assert_eq!(locker(&file), Some(std::process::id()));
        let refused = Device::open(&at, Opening { direct: false, rights: Rights::Write });
        let said = refused.expect_err("it is locked").to_string();
        assert!(said.contains(&format!("another peryton, process {}:", std::process::id())), "{said}");
    }

    /// The fear: the path of a block device has a typing error, and a file in memory becomes a part of the volume.
    #[test]
    fn no_file_is_made_among_devices() {
        let path = PathBuf::from("/dev/peryton-no-such-device");
        let at = DevicePath { name: "fast".to_owned(), path: path.clone() };
        let refused = Device::open(&at, Opening { direct: true, rights: Rights::Create });
        let said = refused.expect_err("there is no such device").to_string();
        assert!(said.contains("there is no such block device"), "{said}");
        assert!(!path.exists());
        assert!(!is_of_devices(Path::new("/dev/shm/a")) && !is_of_devices(Path::new("/device")));
    }
}
