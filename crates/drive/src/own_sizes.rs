//! What the devices of a volume say themselves: how large they are, and which sizes the volume on them was formatted with.

use std::{
    fs, io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::FileTypeExt,
    },
    path::Path,
};

use peryton_engine::DeviceId;
use peryton_format::{
    geometry::Geometry,
    snapshot::Room,
    superblock::{Superblock, Unreadable, VolumeId},
};
use peryton_units::Bytes;
use rustix::{
    fs::{Mode, OFlags, SeekFrom},
    io::Errno,
};

use crate::{
    arena::Arena,
    open::{Device, DeviceOpenError, DevicePath},
};

/// What the devices say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnSizes {
    /// How large each device is, in the order of the design; `None` if it is not there, or is an empty file.
    pub devices: Vec<Option<Bytes>>,
    /// What formatting has fixed, if there is a volume on this many devices.
    pub formatted: Option<Geometry>,
}

const BLOCK: u64 = 4096;
/// The last superblock is at the end of what the volume uses. Where the first one is damaged, the last one is searched for in so
/// many bytes before the end of the device: it lies an extent and the alignment of the data before the end, if extents are no larger
/// than by default.
const END: u64 = 4 << 20;
/// How much is read at once.
const PIECE: u64 = 256 << 10;
/// The last superblock of a disk that had data before lies behind its metadata, of which there are no more than this on a disk of
/// 16 TiB.
const MOST_METADATA: u64 = 256 << 20;

/// Asks the devices. Those of the names `without` may belong to another volume, so they say no more than their size, and that only if the
/// others have no volume.
///
/// # Errors
/// A device is there, and cannot be opened or read.
pub fn own_sizes(devices: &[DevicePath], without: &[String]) -> Result<OwnSizes, DeviceOpenError> {
    let mut sizes = Vec::new();
    let mut superblocks = Vec::new();
    for at in devices {
        let failed = |source: io::Error| {
            let remedy = match source.kind() {
                io::ErrorKind::PermissionDenied => ": it must be readable and writable for you",
                _ => "",
            };
            DeviceOpenError::Refused(format!("{at}: {source}{remedy}"))
        };
        let (size, superblock) = match without.contains(&at.name) {
            true => (None, None),
            false => ask(&at.path).map_err(failed)?,
        };
        sizes.push(size);
        superblocks.extend(superblock);
    }
    let formatted = formatted(superblocks, devices.len());
    for (at, size) in devices.iter().zip(&mut sizes).filter(|(at, _)| formatted.is_none() && without.contains(&at.name))
    {
        *size = ask(&at.path).ok().and_then(|(size, _)| size);
    }
    Ok(OwnSizes { formatted, devices: sizes })
}

/// The names of the devices that were evacuated, as the newest of the others says: the volume needs none of them. What cannot be read
/// says nothing.
pub fn evacuated(devices: &[DevicePath]) -> Vec<String> {
    let says = |at: &DevicePath| ask(&at.path).ok().and_then(|(_, superblock)| superblock);
    let blocks: Vec<Option<Superblock>> = devices.iter().map(says).collect();
    let Some(newest) = blocks.iter().flatten().max_by_key(|block| block.age()) else { return Vec::new() };
    let mask = newest.evacuated & newest.gone;
    let is_known = |block: &Option<Superblock>| block.as_ref().is_none_or(|block| block.volume == newest.volume);
    let left = devices.iter().zip(&blocks).enumerate();
    let left = left.filter(|(index, (_, block))| mask >> index & 1 == 1 && is_known(block));
    left.map(|(_, (device, _))| device.name.clone()).collect()
}

/// The volume that each device says that it belongs to, and which of its devices it is.
pub(crate) fn members(devices: &[DevicePath]) -> Vec<Option<(VolumeId, DeviceId)>> {
    let says = |at: &DevicePath| ask(&at.path).ok()?.1.map(|superblock| (superblock.volume, superblock.device));
    devices.iter().map(says).collect()
}

/// The geometry of the volume that most devices belong to; of two, that of the newer one. (A device may have been part of another
/// volume before. The volume is not opened then, but the reason is to be said of the right volume.)
fn formatted(superblocks: Vec<Superblock>, count: usize) -> Option<Geometry> {
    let possible = superblocks.iter().filter(|superblock| superblock.geometry.devices.len() == count);
    let members = |of: &Superblock| superblocks.iter().filter(|superblock| superblock.volume == of.volume).count();
    let chosen = possible.max_by_key(|superblock| (members(superblock), superblock.formatted_unix_s, superblock.age()));
    chosen.map(|superblock| superblock.geometry.clone())
}

/// The size of a device, and one of its superblocks.
fn ask(path: &Path) -> io::Result<(Option<Bytes>, Option<Superblock>)> {
    match fs::metadata(path) {
        Ok(about) if about.is_file() || about.file_type().is_block_device() => {}
        // Opening it says what is wrong with anything else.
        Ok(_) => return Ok((None, None)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok((None, None)),
        Err(error) => return Err(error),
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    // What the page cache keeps of a device would be read again later, when it is older than the device.
    let file = match rustix::fs::open(path, flags | OFlags::DIRECT, Mode::empty()) {
        Err(Errno::INVAL) => rustix::fs::open(path, flags, Mode::empty())?,
        other => other?,
    };
    let size = rustix::fs::seek(&file, SeekFrom::End(0))?;
    if size == 0 {
        return Ok((None, None));
    }
    // A device that cannot be read has a size all the same.
    Ok((Some(Bytes(size)), search(size, &mut Reader::new(file.as_fd())?)))
}

/// Reads a device without the page cache, into the same memory each time: a search reads hundreds of MiB.
struct Reader<'a> {
    file: BorrowedFd<'a>,
    arena: Arena,
}

impl Reader<'_> {
    fn new(file: BorrowedFd<'_>) -> io::Result<Reader<'_>> {
        Ok(Reader { file, arena: Arena::new(PIECE as usize)? })
    }

    /// At most [`PIECE`] bytes; fewer at the end of the device.
    fn read(&mut self, at: u64, len: u64) -> io::Result<&[u8]> {
        // SAFETY: no other reference to the memory exists, because this one borrows the reader.
        let bytes = unsafe { self.arena.at(0).slice_mut(len as usize) };
        let mut done = 0;
        while done < bytes.len() {
            match rustix::io::pread(self.file, &mut bytes[done..], at + done as u64) {
                Ok(0) => break,
                Ok(moved) => done += moved,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(&bytes[..done])
    }
}

/// A superblock, at the start, at the end, or, where that at the start is damaged, at the place of that of a disk that had data
/// before.
fn search(size: u64, device: &mut Reader<'_>) -> Option<Superblock> {
    let first = device.read(0, BLOCK).map_err(|_| Unreadable::Damaged).and_then(Superblock::decode);
    let unreadable = match first {
        Ok(superblock) => return Some(superblock),
        Err(unreadable) => unreadable,
    };
    let from = size.saturating_sub(END).next_multiple_of(BLOCK);
    // Behind the superblock there may be room for snapshots, at the end of which is a block that says where it begins.
    let (mut marked, mut to) = (None, from.max(size / BLOCK * BLOCK));
    while to > from {
        let at = to.saturating_sub(PIECE).max(from);
        let piece = device.read(at, to - at).unwrap_or_default();
        for block in piece.rchunks_exact(BLOCK as usize) {
            if let Ok(last) = Superblock::decode(block) {
                return Some(last);
            }
            let mark = || Room::marks_end(block).filter(|end| end.0 >= BLOCK && end.0 <= size);
            marked = marked.or_else(mark);
        }
        to = at;
    }
    let behind = marked.and_then(|end| Superblock::decode(device.read(end.0 - BLOCK, BLOCK).ok()?).ok());
    if behind.is_some() || unreadable != Unreadable::Damaged {
        return behind;
    }
    (0..MOST_METADATA.min(size)).step_by(PIECE as usize).find_map(|from| {
        let found = device.read(from, PIECE.min(size - from)).ok()?;
        let mut superblocks = found.chunks_exact(BLOCK as usize).filter_map(|block| Superblock::decode(block).ok());
        superblocks.find(|superblock| superblock.geometry.displaced.is_some())
    })
}

/// The first block of an open device.
pub(crate) fn first_block(device: &Device) -> io::Result<Vec<u8>> {
    Reader::new(device.file.as_fd())?.read(0, BLOCK).map(<[u8]>::to_vec)
}

/// A superblock of an open device, wherever it may be.
pub(crate) fn any_superblock(device: &Device) -> Option<Superblock> {
    search(device.size.0, &mut Reader::new(device.file.as_fd()).ok()?)
}
