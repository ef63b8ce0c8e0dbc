//! How a log device is divided. The sizes are known before anything is allocated: memory is taken in proportion to the
//! volume, and a superblock may claim any size.

use peryton_units::Bytes;

use super::{HEADER, MOST_LOG_BYTES};
use crate::{block::BLOCK, geometry::LogPair, layout::MetadataLayout, storage::DeviceId};

/// The ring of commits takes a 64th of the log within these bounds.
const LARGEST_RING: u64 = 64 << 20;
const SMALLEST_RING: u64 = 64 << 10;
/// With this many segments a migration wastes little by closing the one that is being filled.
const SEGMENTS: u64 = 64;
const SMALLEST_SEGMENT: u64 = 1 << 20;
const LARGEST_SEGMENT: u64 = 1 << 30;
/// The log begins at a multiple of this on its device.
const LOG_ALIGNMENT: u64 = 1 << 20;

/// Where things lie on the two devices of a volume with a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogLayout {
    pair: LogPair,
    volume_bytes: u64,
    segment_bytes: u64,
    segments: u64,
    ring_bytes: u64,
}

impl LogLayout {
    /// How a log device for `log` bytes of data is divided, before a primary for `primary` bytes. `None` if the primary does
    /// not hold a block, or the log not two segments ([`LogLayout::least`]), or a block is not a power of two between 512
    /// and 65,536 bytes.
    pub fn new(pair: LogPair, primary: Bytes, log: Bytes) -> Option<LogLayout> {
        let block = pair.block.0;
        let possible = block.is_power_of_two() && (SMALLEST_BLOCK.0..=LARGEST_BLOCK.0).contains(&block);
        possible.then_some(())?;
        let volume_bytes = primary.0 & !(block - 1);
        let (segment_bytes, segments) = divide(log.0, block).filter(|_| volume_bytes > 0)?;
        let ring_bytes = (segment_bytes * segments / 64).next_multiple_of(BLOCK).clamp(SMALLEST_RING, LARGEST_RING);
        Some(LogLayout { pair, volume_bytes, segment_bytes, segments, ring_bytes })
    }

    /// The least that a log of two segments takes, with blocks of a size that is possible.
    pub fn least(block: Bytes) -> Bytes {
        Bytes(2 * smallest_segment(block.0))
    }

    /// The two devices, and the size of a block.
    pub fn pair(&self) -> LogPair {
        self.pair
    }

    /// How large the volume is.
    pub fn volume_size(&self) -> Bytes {
        Bytes(self.volume_bytes)
    }

    /// How long a segment is: a power of two.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// How many segments there are.
    pub fn segments(&self) -> u64 {
        self.segments
    }

    /// Where the ring of commits begins on the log device.
    pub fn ring_at(&self) -> Bytes {
        Bytes(BLOCK)
    }

    /// How long the ring of commits is.
    pub fn ring_bytes(&self) -> u64 {
        self.ring_bytes
    }

    /// Where the first segment begins on the log device.
    pub fn log_at(&self) -> Bytes {
        Bytes((BLOCK + self.ring_bytes).next_multiple_of(LOG_ALIGNMENT))
    }

    /// How much the volume occupies of the primary and of the log device.
    pub fn device_bytes(&self) -> (Bytes, Bytes) {
        let log = (self.segments * self.segment_bytes).saturating_add(self.log_at().0 + BLOCK);
        (MetadataLayout::bare().device_bytes(self.volume_size()), Bytes(log))
    }

    /// Where data begins on the primary, or the log on its device.
    pub fn data_at(&self, device: DeviceId) -> Bytes {
        if device == self.pair.log { self.log_at() } else { MetadataLayout::bare().data_at }
    }
}

/// The smallest and the largest block of a volume with a log.
pub const SMALLEST_BLOCK: Bytes = Bytes(512);
/// See [`SMALLEST_BLOCK`].
pub const LARGEST_BLOCK: Bytes = Bytes::kib(64);

/// The smallest segment that holds an unaligned record of one block.
fn smallest_segment(block: u64) -> u64 {
    (2 * (HEADER + block)).next_power_of_two()
}

/// How large the segments of a log of `bytes` are, and how many; `None` if there are not two.
fn divide(bytes: u64, block: u64) -> Option<(u64, u64)> {
    let bytes = bytes.min(MOST_LOG_BYTES - 1);
    let wanted = (bytes / SEGMENTS).clamp(SMALLEST_SEGMENT, LARGEST_SEGMENT).min(bytes / 2);
    let smallest = smallest_segment(block);
    let segment = if wanted < smallest { smallest } else { 1 << wanted.ilog2() };
    let count = bytes / segment;
    (count >= 2).then_some((segment, count))
}
