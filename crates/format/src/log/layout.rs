//! The division of a log device. All sizes are known before anything is allocated, because memory is taken in
//! proportion to the volume and a superblock may claim any size.

use std::ops::Range;

use peryton_units::Bytes;

use super::{HEADER, MOST_LOG_BYTES};
use crate::{
    block::BLOCK,
    geometry::{Logging, MOST_PRIMARIES},
    holder::RESERVED,
    layout::MetadataLayout,
    storage::DeviceId,
};

/// The largest ring of commits. The ring takes a 64th of the log, within bounds.
const LARGEST_RING: u64 = 64 << 20;
const SMALLEST_RING: u64 = 64 << 10;
/// With this many segments, a migration wastes little space by closing the open segment.
const SEGMENTS: u64 = 64;
const SMALLEST_SEGMENT: u64 = 1 << 20;
const LARGEST_SEGMENT: u64 = 1 << 30;
/// The log begins at a multiple of this many bytes on its device.
const LOG_ALIGNMENT: u64 = 1 << 20;
/// The part of each primary but the first begins at a multiple of this many bytes of the volume, so that neither a block nor a unit of a
/// migration lies on two primaries.
const PRIMARY_ALIGNMENT: u64 = 1 << 20;

/// The places on the devices of a volume with a log.
///
/// ```
/// use peryton_format::{geometry::Logging, log::layout::LogLayout, storage::DeviceId};
/// use peryton_units::Bytes;
///
/// let pair = Logging { primaries: DeviceId(0).into(), log: DeviceId(1), block: Bytes::kib(4) };
/// let layout = LogLayout::new(pair, &[Bytes::gib(100)], Bytes::gib(8)).expect("both devices are large enough");
/// assert_eq!(layout.volume_size(), Bytes::gib(100));
/// assert_eq!((layout.segments(), layout.segment_bytes()), (64, 128 << 20));
/// // Commits lie before the log on its device.
/// assert!(layout.ring_at() + Bytes(layout.ring_bytes()) <= layout.log_at());
/// assert_eq!(LogLayout::new(pair, &[Bytes::gib(100)], LogLayout::least(pair.block) - Bytes(1)), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLayout {
    pair: Logging,
    /// Where the part of each primary ends in the volume.
    ends: [u64; MOST_PRIMARIES],
    segment_bytes: u64,
    segments: u64,
    ring_bytes: u64,
}

impl LogLayout {
    /// Divides a log device with `log` bytes of data, before primaries with so many bytes. Of each primary but the last, whole MiB are used.
    /// `None` if the block size is not a power of two from 512 to 65,536 bytes, if there are not as many sizes as primaries, if a primary
    /// has no room ([`LogLayout::least_primary`]), or if the log has none for two segments ([`LogLayout::least`]).
    pub fn new(pair: Logging, primaries: &[Bytes], log: Bytes) -> Option<LogLayout> {
        let block = pair.block.0;
        let possible = block.is_power_of_two() && (SMALLEST_BLOCK.0..=LARGEST_BLOCK.0).contains(&block);
        (possible && primaries.len() == pair.primaries.len()).then_some(())?;
        let (mut ends, mut end) = ([0; MOST_PRIMARIES], 0u64);
        for (index, size) in primaries.iter().enumerate() {
            let unit = Self::least_primary(&pair, index).0;
            let used = Some(size.0 & !(unit - 1)).filter(|used| *used > 0)?;
            end = end.checked_add(used)?;
            ends[index] = end;
        }
        let (segment_bytes, segments) = divide(log.0, block)?;
        let ring_bytes = (segment_bytes * segments / 64).next_multiple_of(BLOCK).clamp(SMALLEST_RING, LARGEST_RING);
        Some(LogLayout { pair, ends, segment_bytes, segments, ring_bytes })
    }

    /// The least number of bytes of the primary with this index, of which a whole number is used.
    pub fn least_primary(pair: &Logging, index: usize) -> Bytes {
        if index + 1 < pair.primaries.len() { Bytes(PRIMARY_ALIGNMENT) } else { pair.block }
    }

    /// The least number of bytes of a log of two segments, with blocks of a possible size.
    pub fn least(block: Bytes) -> Bytes {
        Bytes(2 * smallest_segment(block.0))
    }

    /// The devices, and the size of a block.
    pub fn pair(&self) -> Logging {
        self.pair
    }

    /// Size of the volume.
    pub fn volume_size(&self) -> Bytes {
        self.primaries().map(|(_, range)| range.end).last().unwrap_or_default()
    }

    /// The primaries, and the part of the volume that each has.
    pub fn primaries(&self) -> impl Iterator<Item = (DeviceId, Range<Bytes>)> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let ranges = starts.zip(&self.ends).map(|(from, to)| Bytes(*from)..Bytes(*to));
        self.pair.primaries.iter().copied().zip(ranges)
    }

    /// Size of a segment in bytes, a power of two.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// Number of segments.
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// Offset of the ring of commits on the log device.
    pub fn ring_at(&self) -> Bytes {
        Bytes(RESERVED)
    }

    /// Length of the ring of commits in bytes.
    pub fn ring_bytes(&self) -> u64 {
        self.ring_bytes
    }

    /// Offset of the first segment on the log device.
    pub fn log_at(&self) -> Bytes {
        Bytes((RESERVED + self.ring_bytes).next_multiple_of(LOG_ALIGNMENT))
    }

    /// What the volume occupies on a device.
    pub fn device_bytes(&self, device: DeviceId) -> Bytes {
        match self.primaries().find(|(primary, _)| *primary == device) {
            Some((_, range)) => MetadataLayout::bare().device_bytes(range.end - range.start),
            None => Bytes((self.segments * self.segment_bytes).saturating_add(self.log_at().0 + BLOCK)),
        }
    }

    /// Offset of the data on a primary, or of the log on its device.
    pub fn data_at(&self, device: DeviceId) -> Bytes {
        if device == self.pair.log { self.log_at() } else { MetadataLayout::bare().data_at }
    }
}

/// The smallest block of a volume with a log.
pub const SMALLEST_BLOCK: Bytes = Bytes(512);
/// The largest block of a volume with a log.
pub const LARGEST_BLOCK: Bytes = Bytes::kib(64);

/// The smallest segment that holds an unaligned record of one block.
fn smallest_segment(block: u64) -> u64 {
    (2 * (HEADER + block)).next_power_of_two()
}

/// The size of the segments of a log of `bytes`, and their number; `None` if there are fewer than two.
fn divide(bytes: u64, block: u64) -> Option<(u64, u64)> {
    let bytes = bytes.min(MOST_LOG_BYTES - 1);
    let wanted = (bytes / SEGMENTS).clamp(SMALLEST_SEGMENT, LARGEST_SEGMENT).min(bytes / 2);
    let smallest = smallest_segment(block);
    let segment = if wanted < smallest { smallest } else { 1 << wanted.ilog2() };
    let count = bytes / segment;
    (count >= 2).then_some((segment, count))
}
