//! The counts of a translation layer's own work.

use peryton_units::{Bytes, Nanos};
use serde::{Serialize, Serializer};

/// The statistics of a translation layer. Figures that a layer does not have are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FtlStats {
    /// Data in the part written in single-level mode that was not folded yet; absent without such a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub slc_cache_used: Option<Bytes>,
    /// The present fragmentation of the data (page-mapped and block-mapped layers).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fragmentation: Option<Fragmentation>,
    /// Statistics of the demand-cached map.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mapping: Option<MappingStats>,
    /// Merges of block-mapped layers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub merges: Option<Merges>,
    /// Static wear-levelling, if the layer has it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub levelling: Option<Levelling>,
}

/// The distribution of the valid data: in few blocks that are full of it, or in many with a little of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fragmentation {
    /// Share of the blocks that are erased.
    pub free_share: f64,
    /// Share of the units in the other blocks that are still valid: 1 means no fragmentation at all.
    pub valid_share: f64,
    /// Number of other blocks with less than 10 %, 20 %, … of their units valid; the last includes the full ones.
    pub blocks_by_valid_tenth: [u32; 10],
}

impl Fragmentation {
    /// Computes the fragmentation from blocks of `units` each: the number of `free` ones, and the valid units of the
    /// others.
    pub(super) fn new(free: u32, units: u32, others: impl Iterator<Item = u32>) -> Fragmentation {
        let mut fragmentation = Fragmentation::default();
        let (mut used, mut valid) = (0u32, 0u64);
        for count in others {
            used += 1;
            valid += u64::from(count);
            let tenth = (u64::from(count) * 10 / u64::from(units)).min(9);
            fragmentation.blocks_by_valid_tenth[tenth as usize] += 1;
        }
        fragmentation.free_share = f64::from(free) / f64::from((free + used).max(1));
        fragmentation.valid_share = valid as f64 / (f64::from(used) * f64::from(units)).max(1.0);
        fragmentation
    }
}

/// The cost of a map that does not fit in RAM (DFTL: Gupta, Kim and Urgaonkar 2009).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MappingStats {
    /// Entries looked up.
    pub lookups: u64,
    /// Lookups that found the entry in the cache.
    pub hits: u64,
    /// Translation pages read: for entries that were missing, or to change a part of them.
    pub reads: u64,
    /// Translation pages written, including those that cleaning moved.
    pub writes: u64,
    /// The part of `writes` made because a changed entry left the cache.
    pub evictions: u64,
    /// The part of `writes` made because cleaning had moved data whose entries were not cached.
    pub updates: u64,
    /// The part of `writes` made because cleaning moved the translation pages themselves.
    pub moves: u64,
    /// Blocks of translation pages erased; `DeviceStats::erases` includes them.
    pub erases: u64,
}

impl MappingStats {
    /// Share of the lookups that found the entry in the cache; `None` if there were no lookups.
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.lookups > 0).then(|| self.hits as f64 / self.lookups as f64)
    }
}

/// Merges of a data block with the block that took its overwrites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Merges {
    /// The log block was complete and in order: it became the data block.
    pub switches: u64,
    /// The log block was in order but not complete: the rest was copied into it.
    pub partial: u64,
    /// All valid data was copied to a third block.
    pub full: u64,
    /// Units copied.
    pub units_copied: u64,
}

/// The cost of static wear-levelling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Levelling {
    /// Blocks erased by wear-levelling; `DeviceStats::erases` includes them.
    pub erases: u64,
    /// Bytes of cold data moved.
    pub bytes_moved: Bytes,
    /// Time of the dies that wear-levelling took.
    #[serde(rename = "time_s", serialize_with = "as_seconds")]
    #[cfg_attr(feature = "schema", schemars(with = "f64"))]
    pub time: Nanos,
    /// Number of times that wear-levelling delayed a move because of a burst of writes.
    pub put_off: u64,
}

fn as_seconds<S: Serializer>(time: &Nanos, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_s_f64())
}
