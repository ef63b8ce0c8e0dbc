//! Finds the present content of a device, by the signatures of file systems, partition tables and volume managers.

use std::{
    fs, io,
    os::unix::fs::FileExt,
    path::Path,
    time::{Duration, Instant},
};

use rustix::fs::SeekFrom;

use crate::{
    arena::{Arena, PAGE},
    open::Device,
};

/// A signature: bytes at an offset from the start.
struct Mark {
    what: &'static str,
    at: usize,
    bytes: &'static [u8],
}

const fn mark(what: &'static str, at: usize, bytes: &'static [u8]) -> Mark {
    Mark { what, at, bytes }
}

/// From the headers of the Linux kernel, util-linux (libblkid) and qemu. The more specific ones come first: a
/// boot-sector signature beside that of a file system belongs to the file system.
const MARKS: &[Mark] = &[
    mark("a Peryton volume", 8, b"PERYTON\n"),
    mark("an ext2, ext3 or ext4 file system", 1080, &[0x53, 0xef]),
    mark("an XFS file system", 0, b"XFSB"),
    mark("a Btrfs file system", 0x10040, b"_BHRfS_M"),
    mark("an F2FS file system", 1024, &[0x10, 0x20, 0xf5, 0xf2]),
    mark("a bcachefs or bcache device", 4096 + 24, &BCACHE),
    mark("a bcachefs file system", 4096 + 24, &BCACHEFS),
    mark("a ReiserFS file system", 0x10034, b"ReIsEr"),
    mark("a JFS file system", 0x8000, b"JFS1"),
    mark("an NTFS file system", 3, b"NTFS    "),
    mark("an exFAT file system", 3, b"EXFAT   "),
    mark("a FAT file system", 54, b"FAT1"),
    mark("a FAT file system", 82, b"FAT32"),
    mark("an ISO 9660 file system", 0x8001, b"CD001"),
    mark("a UDF file system", 0x8001, b"BEA01"),
    mark("a SquashFS file system", 0, b"hsqs"),
    mark("an EROFS file system", 1024, &[0xe2, 0xe1, 0xf5, 0xe0]),
    mark("a NILFS2 file system", 1030, &[0x34, 0x34]),
    mark("a HFS+ file system", 1024, b"H+\x00\x04"),
    mark("an APFS container", 32, b"NXSB"),
    mark("a GFS2 file system", 0x10000, &[0x01, 0x16, 0x19, 0x70]),
    mark("swap space", 4086, b"SWAPSPACE2"),
    mark("an encrypted volume (LUKS)", 0, b"LUKS\xba\xbe"),
    mark("an encrypted volume (BitLocker)", 3, b"-FVE-FS-"),
    mark("an LVM physical volume", 512, b"LABELONE"),
    mark("an LVM physical volume", 0, b"LABELONE"),
    mark("an LVM physical volume", 1024, b"LABELONE"),
    mark("an LVM physical volume", 1536, b"LABELONE"),
    mark("a member of a RAID array (md)", 0, &MD),
    mark("a member of a RAID array (md)", 4096, &MD),
    mark("a device of dm-integrity", 0, b"integrt\0"),
    mark("a device of VDO", 0, b"dmvdo001"),
    mark("a device of a Stratis pool", 516, b"!Stra0tis\x86\xff\x02^\x41rh"),
    mark("a device of Ceph (BlueStore)", 0, b"bluestore block device"),
    mark("a dm-thin pool", 32, &[0x9a, 0x41, 0x9b, 0x01]),
    mark("a disk image (qcow2)", 0, b"QFI\xfb"),
    mark("a disk image (VMDK)", 0, b"KDMV"),
    mark("a disk image (VDI)", 64, &[0x7f, 0x10, 0xda, 0xbe]),
    mark("a partition table (GPT)", 512, b"EFI PART"),
    mark("a partition table (GPT)", 4096, b"EFI PART"),
    mark("a partition table (Apple)", 512, b"PM\x00\x00"),
];

/// What begins with code for booting may be of any kind.
const BOOT: Mark = mark("a partition table or boot sector", 510, &[0x55, 0xaa]);

/// An uberblock of ZFS; each of its four labels has a ring of them, at multiples of 1 KiB.
const ZFS: u64 = 0x00ba_b10c;
const ZFS_RING: usize = 128 << 10;

const MD: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
const BCACHE: [u8; 16] =
    [0xc6, 0x85, 0x73, 0xf6, 0x4e, 0x1a, 0x45, 0xca, 0x82, 0x65, 0xf5, 0x7f, 0x48, 0xba, 0x6d, 0x81];
const BCACHEFS: [u8; 16] =
    [0xc6, 0x85, 0x73, 0xf6, 0x66, 0xce, 0x90, 0xa9, 0xd9, 0x6a, 0x60, 0xcf, 0x80, 0x3d, 0xf7, 0xef];

/// The number of bytes at the start that are examined.
const START: usize = 256 << 10;
/// The number of bytes at the end that are examined: backup partition tables, RAID of version 0.9 and 1.0, ZFS labels.
const END: usize = 256 << 10;

/// The number of bytes after the start that are read in full: partitions and images begin there.
const DENSE: u64 = 64 << 20;
/// The number of bytes read at each further place.
const SAMPLE: u64 = 16 << 10;
/// The number of places in the first pass over the device, evenly spread; each further pass reads between them.
const FIRST_PASS: u64 = 1024;
/// The time for passes; there are at most [`MOST_PASSES`].
const LOOK_TIME: Duration = Duration::from_secs(5);
const MOST_PASSES: u32 = 8;
/// The most data extents of a sparse file that are examined, each at its beginning.
const MOST_STRETCHES: usize = 65_536;

/// Returns what the device holds; `None` if no data is found at its start and end, in the extents of a sparse file, or
/// at places all over it.
pub(crate) fn content(device: &Device) -> io::Result<Option<&'static str>> {
    let size = device.size.0 as usize;
    let arena = Arena::new(START + END)?;
    // SAFETY: no other code knows the arena.
    let bytes = unsafe { arena.at(0).slice_mut(START + END) };
    let (start, end) = bytes.split_at_mut(START);
    let start = read(device, 0, &mut start[..START.min(size)])?;
    // Direct I/O requires whole blocks.
    let at = size.saturating_sub(END).next_multiple_of(4096);
    let end = read(device, at as u64, &mut end[..size.saturating_sub(at).min(END)])?;
    match judge(start, end) {
        Some(what) => Ok(Some(what)),
        None => Ok(holds_data(device)?.then_some("data of an unknown kind")),
    }
}

/// The extents of a file that have data, in order: start and end. A block device is one extent.
fn stretches(device: &Device) -> Vec<(u64, u64)> {
    let size = device.size.0;
    let whole = vec![(0, size)];
    if device.is_block {
        return whole;
    }
    let (mut found, mut at) = (Vec::new(), 0);
    while at < size && found.len() < MOST_STRETCHES {
        let from = match rustix::fs::seek(&device.file, SeekFrom::Data(at)) {
            Ok(from) => from,
            // Only a hole follows, up to the end.
            Err(rustix::io::Errno::NXIO) => break,
            Err(_) => return whole,
        };
        let to = rustix::fs::seek(&device.file, SeekFrom::Hole(from)).unwrap_or(size);
        found.push((from - from % PAGE as u64, to.min(size)));
        at = to.max(from + 1);
    }
    found
}

/// Whether any byte that is examined is not zero.
fn holds_data(device: &Device) -> io::Result<bool> {
    let arena = Arena::new(1 << 20)?;
    let any = |at: u64, len: u64| -> io::Result<bool> {
        // SAFETY: no other code knows the arena.
        let bytes = unsafe { arena.at(0).slice_mut(len.min(device.size.0 - at) as usize) };
        Ok(read(device, at, bytes)?.iter().any(|byte| *byte != 0))
    };
    let (began, stretches) = (Instant::now(), stretches(device));
    let mut dense = DENSE;
    for (from, to) in &stretches {
        let to = (*to).min(from + dense.max(SAMPLE));
        for at in (*from..to).step_by(1 << 20) {
            if any(at, (to - at).min(1 << 20))? {
                return Ok(true);
            }
        }
        dense = dense.saturating_sub(to - from);
    }
    let all: u64 = stretches.iter().map(|(from, to)| to - from).sum();
    for pass in 0..MOST_PASSES {
        let stride = (all / (FIRST_PASS << pass)).max(SAMPLE).next_multiple_of(PAGE as u64);
        // From the second pass on, each place is in the middle between two of the earlier passes.
        let mut next = if pass == 0 { 0 } else { stride / 2 / PAGE as u64 * PAGE as u64 };
        let mut before = 0;
        for (from, to) in &stretches {
            while next < before + (to - from) {
                if any(from + (next - before), SAMPLE)? {
                    return Ok(true);
                }
                if pass > 0 && began.elapsed() > LOOK_TIME {
                    return Ok(false);
                }
                next += stride;
            }
            before += to - from;
        }
        if stride == SAMPLE {
            break;
        }
    }
    Ok(false)
}

/// Reads at `at`, up to the end of the device.
fn read<'a>(device: &Device, at: u64, into: &'a mut [u8]) -> io::Result<&'a [u8]> {
    let mut done = 0;
    // A file that ends within a block is read past its end, which direct I/O allows.
    let whole = into.len();
    while done < whole {
        match rustix::io::pread(&device.file, &mut into[done..], at + done as u64) {
            Ok(0) => break,
            Ok(moved) => done += moved,
            Err(rustix::io::Errno::INTR) => {}
            // The rest of an incomplete last block.
            Err(rustix::io::Errno::INVAL) if done > 0 || !whole.is_multiple_of(512) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(&into[..done])
}

/// What the device or file at a path is, by its signature, also while it is in use.
pub(crate) fn signature(path: &Path) -> Option<&'static str> {
    let file = fs::File::open(path).ok()?;
    let size = rustix::fs::seek(&file, SeekFrom::End(0)).ok()?;
    let read = |at: u64, len: usize| {
        let mut bytes = vec![0; len.min((size - at) as usize)];
        file.read_exact_at(&mut bytes, at).ok().map(|()| bytes)
    };
    let at = size.saturating_sub(END as u64);
    known(&read(0, START)?, &read(at, END)?)
}

/// The kind of what begins and ends with these bytes.
fn known(start: &[u8], end: &[u8]) -> Option<&'static str> {
    let has = |mark: &Mark| start.get(mark.at..mark.at + mark.bytes.len()) == Some(mark.bytes);
    if let Some(mark) = MARKS.iter().find(|mark| has(mark)) {
        return Some(mark.what);
    }
    let is_uberblock = |slot: &[u8]| slot.starts_with(&ZFS.to_le_bytes()) || slot.starts_with(&ZFS.to_be_bytes());
    let ring = start.get(ZFS_RING..).unwrap_or_default();
    if ring.chunks(1024).chain(end.chunks(1024)).any(is_uberblock) {
        return Some("a member of a ZFS pool");
    }
    if has(&BOOT) {
        return Some(BOOT.what);
    }
    if end.windows(8).step_by(512).any(|window| window == b"EFI PART") {
        return Some("a partition table (GPT, its backup)");
    }
    end.chunks(4096).any(|block| block.starts_with(&MD)).then_some("a member of a RAID array (md)")
}

/// Whether the last blocks say that the device is a member of an md array, whatever it begins with: a member of a mirror with its
/// superblock at the end begins like the array.
pub(crate) fn ends_as_md(device: &Device) -> io::Result<bool> {
    let size = device.size.0;
    let at = size.saturating_sub(END as u64).next_multiple_of(4096);
    let arena = Arena::new(END)?;
    // SAFETY: no other code knows the arena.
    let end = unsafe { arena.at(0).slice_mut((size.saturating_sub(at) as usize).min(END)) };
    Ok(read(device, at, end)?.chunks(4096).any(|block| block.starts_with(&MD)))
}

fn judge(start: &[u8], end: &[u8]) -> Option<&'static str> {
    let holds = |bytes: &[u8]| bytes.iter().any(|byte| *byte != 0);
    known(start, end).or_else(|| (holds(start) || holds(end)).then_some("data of an unknown kind"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::open::{DevicePath, Opening, Rights};

    #[test]
    fn known_signatures_are_recognised_and_zeros_are_no_data() {
        assert_eq!(judge(&[0; START], &[0; END]), None);
        for mark in MARKS.iter().chain([&BOOT]) {
            let mut start = vec![0; START];
            start[mark.at..mark.at + mark.bytes.len()].copy_from_slice(mark.bytes);
            assert!(known(&start, &[]).is_some(), "{}", mark.what);
        }
        for slot in [ZFS_RING, ZFS_RING + 5 * 1024] {
            let mut start = vec![0; START];
            start[slot..slot + 8].copy_from_slice(&ZFS.to_le_bytes());
            assert_eq!(judge(&start, &[]), Some("a member of a ZFS pool"));
        }
        let mut end = vec![0; END];
        end[END - 512..END - 504].copy_from_slice(b"EFI PART");
        assert_eq!(judge(&[0; START], &end), Some("a partition table (GPT, its backup)"));
        assert_eq!(judge(&[0; 100], &[1]), Some("data of an unknown kind"));
    }

    #[test]
    fn data_in_the_middle_is_found_in_a_sparse_file_and_in_a_full_one() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("device");
        let at = DevicePath { name: "ssd".to_owned(), path: path.clone() };
        let look = || {
            let device = Device::open(&at, Opening { direct: true, rights: Rights::Write }).unwrap().unwrap();
            content(&device).unwrap()
        };
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(64 << 30).unwrap();
        assert_eq!(look(), None);
        // This place is neither in the first nor in the last MiB.
        file.write_all_at(&[1], 40 << 30).unwrap();
        assert_eq!(look(), Some("data of an unknown kind"));
        // Allocated zeros count as no data, but a byte among them is found.
        file.set_len(0).unwrap();
        file.write_all_at(&vec![0; 8 << 20], 0).unwrap();
        assert_eq!(look(), None);
        file.write_all_at(&[1], 5 << 20).unwrap();
        assert!(look().is_some());
    }

    proptest! {
        #[test]
        fn no_content_is_too_short_or_too_strange(start in prop::collection::vec(any::<u8>(), 0..5000), end in prop::collection::vec(any::<u8>(), 0..5000)) {
            let empty = start.iter().chain(&end).all(|byte| *byte == 0);
            prop_assert_eq!(judge(&start, &end).is_none(), empty);
        }
    }
}
