//! How much of a disk is used by what is on it, as far as its superblock says so: what lies behind that is unused.

use std::io;

use peryton_units::Bytes;

use crate::{open::Device, own_sizes};

/// How much is used; `None` if that is not known.
pub(super) fn used(device: &Device) -> io::Result<Option<Bytes>> {
    let start = own_sizes::first_block(device)?;
    let used = ext(&start).or_else(|| xfs(&start)).or_else(|| lvm(&start));
    Ok(used.map(Bytes).filter(|used| *used <= device.size))
}

fn little<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at + N)?;
    Some(field.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn big<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let field = bytes.get(at..at + N)?;
    Some(field.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// ext2, ext3 and ext4: the number of blocks, in two halves, and their size.
fn ext(start: &[u8]) -> Option<u64> {
    const AT: usize = 1024;
    const HAS_HIGH_HALF: u64 = 0x80;
    (little::<2>(start, AT + 0x38)? == 0xef53).then_some(())?;
    let log = little::<4>(start, AT + 0x18).filter(|log| *log <= 6)?;
    let low = little::<4>(start, AT + 0x04)?;
    let high = match little::<4>(start, AT + 0x60)? & HAS_HIGH_HALF {
        0 => 0,
        _ => little::<4>(start, AT + 0x150)?,
    };
    (high << 32 | low).checked_mul(1024 << log)
}

/// XFS: the size of blocks and their number.
fn xfs(start: &[u8]) -> Option<u64> {
    (start.get(..4)? == b"XFSB").then_some(())?;
    big::<8>(start, 8)?.checked_mul(big::<4>(start, 4)?)
}

/// LVM: the size that the physical volume has, which `pvresize` can set.
fn lvm(start: &[u8]) -> Option<u64> {
    let label = (0..4).map(|sector| sector * 512).find(|at| start.get(*at..at + 8) == Some(b"LABELONE"))?;
    (start.get(label + 24..label + 32)? == b"LVM2 001").then_some(())?;
    let header = label + little::<4>(start, label + 20)? as usize;
    little::<8>(start, header + 32).filter(|size| *size > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_of_another_kind_or_too_short_uses_an_unknown_part() {
        for start in [vec![], vec![0; 4096], vec![0xff; 4096], b"XFSB".to_vec()] {
            assert_eq!(ext(&start).or(xfs(&start)).or(lvm(&start)), None, "{} bytes", start.len());
        }
    }

    #[test]
    fn a_physical_volume_of_lvm_says_its_size() {
        let mut start = vec![0; 4096];
        start[512..520].copy_from_slice(b"LABELONE");
        start[532..536].copy_from_slice(&32_u32.to_le_bytes());
        start[536..544].copy_from_slice(b"LVM2 001");
        start[576..584].copy_from_slice(&(5_u64 << 30).to_le_bytes());
        assert_eq!(lvm(&start), Some(5 << 30));
        // A label that points out of the block.
        start[532..536].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(lvm(&start), None);
    }
}
