//! The default extent, and what the map of a volume takes of memory.

use peryton_engine::{MOST_EXTENTS, PlacementKind};
use peryton_units::Bytes;

/// The smallest and the largest extent that is chosen. A cache's blocks are 4 KiB up to 64 KiB: with larger ones, a write of 4 KiB that misses
/// would go past the cache.
pub fn chosen_extents(placement: PlacementKind) -> std::ops::RangeInclusive<Bytes> {
    match placement {
        PlacementKind::Caching => Bytes::kib(16)..=Bytes::kib(64),
        PlacementKind::Partitioned => Bytes::kib(4)..=Bytes::kib(128),
        _ => Bytes::kib(16)..=Bytes::kib(128),
    }
}

/// The memory that the map may take where extents are chosen for no machine in particular.
pub const MAP_MEMORY: Bytes = Bytes::gib(1);
/// The share of a machine's memory that the map may take there, if that is more.
pub const MAP_SHARE: u64 = 64;

/// What the map has for each extent of the volume that was accessed, and for each that the fast device has room for.
const BYTES_PER_EXTENT: u64 = 36;
const BYTES_PER_SLOT: u64 = 16;

/// What the map of a volume takes of memory once all of it has been accessed.
///
/// ```
/// use peryton_engine::PlacementKind;
/// use peryton_sim::map_memory;
/// use peryton_units::Bytes;
///
/// let of = |extent| map_memory(PlacementKind::Caching, Bytes::gib(4096), Bytes::gib(256), Bytes::kib(extent));
/// assert_eq!(of(64).0, 2 * of(128).0);
/// assert_eq!(map_memory(PlacementKind::Single, Bytes::gib(4096), Bytes::ZERO, Bytes::kib(64)), Bytes::ZERO);
/// ```
pub fn map_memory(placement: PlacementKind, volume: Bytes, fast: Bytes, extent: Bytes) -> Bytes {
    match placement {
        PlacementKind::Caching | PlacementKind::Tiering | PlacementKind::Partitioned => {
            let extent = extent.0.max(1);
            Bytes(volume.0 / extent * BYTES_PER_EXTENT + fast.0 / extent * BYTES_PER_SLOT)
        }
        PlacementKind::Single | PlacementKind::Linear | PlacementKind::Logging => Bytes::ZERO,
    }
}

/// The memory that the map may take on a machine that has this much.
pub fn map_budget(machine: Bytes) -> Bytes {
    Bytes(machine.0 / MAP_SHARE).max(MAP_MEMORY)
}

/// The extent of a volume: the smallest of [`chosen_extents`] whose map stays within the memory, or the largest if none does. A volume of
/// which the map cannot number this many extents has larger ones.
///
/// Small extents waste little of the fast device on neighbours that no request asked for.
///
/// ```
/// use peryton_engine::PlacementKind::{Caching, Tiering};
/// use peryton_sim::{MAP_MEMORY, chosen_extent};
/// use peryton_units::Bytes;
///
/// assert_eq!(chosen_extent(Caching, Bytes::gib(300), Bytes::gib(30), MAP_MEMORY), Bytes::kib(16));
/// assert_eq!(chosen_extent(Caching, Bytes::gib(1 << 14), Bytes::gib(1 << 10), MAP_MEMORY), Bytes::kib(64));
/// assert_eq!(chosen_extent(Tiering, Bytes::gib(1 << 14), Bytes::gib(1 << 10), MAP_MEMORY), Bytes::kib(128));
/// assert_eq!(chosen_extent(Caching, Bytes::gib(1 << 20), Bytes::gib(1 << 16), MAP_MEMORY), Bytes::mib(4));
/// ```
pub fn chosen_extent(placement: PlacementKind, volume: Bytes, fast: Bytes, memory: Bytes) -> Bytes {
    let (first, last) = chosen_extents(placement).into_inner();
    let doubled = std::iter::successors(Some(first), |extent| Some(*extent * 2));
    let mut numbered = doubled.skip_while(|extent| (volume + fast).0.div_ceil(extent.0) > MOST_EXTENTS);
    numbered.find(|extent| *extent >= last || map_memory(placement, volume, fast, *extent) <= memory).unwrap_or(last)
}
