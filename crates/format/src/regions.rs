//! Regions of a volume: aligned runs of extents, by which the slow device names what may be newer on the fast one.

use std::ops::Range;

/// The most extents in a region, as a power of two: 256 MiB with extents of 64 KiB.
const LARGEST: u32 = 12;

/// How the extents of a volume lie in regions. A small volume has about as many regions as a region has extents.
///
/// ```
/// use peryton_format::regions::Regions;
///
/// let regions = Regions::of_extents(100);
/// assert_eq!((regions.region(15), regions.region(16)), (0, 1));
/// assert_eq!((regions.extents(6), regions.extents(7)), (Some(96..100), None));
/// assert_eq!(Regions::of_extents(u32::MAX).region(4096), 1);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Regions {
    extents: u32,
    /// A region has this power of two of extents.
    shift: u32,
}

impl Regions {
    /// The regions of a volume with this many extents.
    pub const fn of_extents(extents: u32) -> Regions {
        let half = (u32::BITS - extents.leading_zeros()).div_ceil(2);
        Regions { extents, shift: if half < LARGEST { half } else { LARGEST } }
    }

    /// The region of an extent.
    pub const fn region(self, extent: u32) -> u32 {
        extent >> self.shift
    }

    /// The extents of a region; `None` if the volume has no such region.
    pub fn extents(self, region: u32) -> Option<Range<u32>> {
        let start = region.checked_mul(1 << self.shift).filter(|start| *start < self.extents)?;
        Some(start..start.saturating_add(1 << self.shift).min(self.extents))
    }
}
