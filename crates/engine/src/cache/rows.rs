//! The map as a table: where each extent is, what is under way for it, and how it was used (GreenDM, section 2.6, "Statistics export").

use std::collections::BTreeMap;

use peryton_format::{
    blocks::Masks,
    entry::MapEntry,
    snapshot::{self, items},
    storage::Storage,
    superblock::VolumeId,
};
use peryton_units::{Bytes, Nanos};

use super::{
    layout::CacheLayout,
    movers::table::Kind,
    warm::state::{MISSED, RESIDENT, age},
};
use crate::{
    api::location::{BlocksRow, MapOf, MapPart, MapRow},
    cache::drive::CacheDrive,
};

const NS_PER_S: u64 = 1_000_000_000;

/// How an extent was used: how often, and how long ago the last time was.
#[derive(Clone, Copy, Debug)]
struct Used {
    accesses: u32,
    ago: Nanos,
}

impl Used {
    /// Writes the use into a row. `unix_s`: the time now; 0 if it is not known.
    fn tell(self, row: &mut MapRow, unix_s: u64) {
        if self.accesses > 0 {
            row.accesses = Some(self.accesses);
            row.last_access_unix_s = unix_s.checked_sub(self.ago.0 / NS_PER_S).filter(|_| unix_s > 0);
        }
    }
}

impl Kind {
    /// The move under way, in a word.
    fn name(self) -> &'static str {
        match self {
            Kind::Promotion => "promoted",
            Kind::Overwrite | Kind::Fill => "filled",
            Kind::Demotion => "demoted",
            Kind::Eviction => "evicted",
            Kind::WriteBack => "written_back",
            Kind::Zero => "zeroed",
            Kind::Drain(_) => "drained",
            Kind::Allocation => "allocated",
        }
    }
}

impl CacheLayout {
    /// The row of an extent.
    pub(crate) fn row(&self, extent: u32, entry: MapEntry, masks: Option<Masks>) -> MapRow {
        let place = entry.place().filter(|place| self.has_place(*place)).map(|place| self.at(place));
        MapRow {
            offset: u64::from(extent) * self.extent_bytes(),
            len: self.extent_bytes(),
            device: place.map(|(device, _)| device.index()),
            at: place.map(|(_, at)| at.0),
            dirty: entry.is_dirty(),
            blocks: masks.zip(self.block_count()).map(|(masks, count)| BlocksRow { masks, count }),
            lost: entry.is_lost(),
            ..MapRow::default()
        }
    }
}

impl CacheDrive {
    /// The rows of `most` extents from an offset on. An extent without a place and without accesses has no row.
    pub(in crate::cache) fn rows_from(&self, now: Nanos, from: Bytes, most: u32) -> MapPart {
        let (map, layout) = (&self.map, &self.layout);
        let first = u32::try_from(from.0 / layout.extent_bytes()).unwrap_or(u32::MAX).min(layout.extents);
        let to = layout.extents.min(first.saturating_add(most));
        let unix_s = self.warm.unix_s(now);
        let row = |extent: u32| {
            let entry = map.entry(extent);
            if entry.entry().is_empty() && entry.uses == 0 && entry.moving().is_none() {
                return None;
            }
            let masks = entry.slot().filter(|_| map.has_parts()).map(|slot| map.masks(slot));
            let mut row = layout.row(extent, entry.entry(), masks);
            row.state = Some(match entry.moving() {
                Some(index) => self.moves[index].kind.name(),
                None if entry.in_flight > 0 => "accessed",
                None => "idle",
            });
            Used { accesses: entry.uses, ago: now.saturating_sub(entry.last_access) }.tell(&mut row, unix_s);
            Some(row)
        };
        let next = (to < layout.extents).then(|| Bytes(u64::from(to) * layout.extent_bytes()));
        MapPart { of: MapOf::Extents, rows: (first..to).filter_map(row).collect(), next }
    }
}

/// The uses of extents, as the newest snapshot on a device says, and when it was taken, in seconds since 1970.
#[derive(Debug, Default)]
pub(crate) struct SavedUses {
    unix_s: u64,
    uses: BTreeMap<u32, Used>,
}

impl SavedUses {
    pub(crate) fn read(layout: &CacheLayout, storage: &mut dyn Storage, volume: VolumeId) -> SavedUses {
        let (room, fast) = (layout.room(), layout.fast);
        if !room.is_marked(storage, fast, volume) {
            return SavedUses::default();
        }
        let Some((header, blocks)) = snapshot::newest(storage, fast, &room, volume, u64::MAX).0 else {
            return SavedUses::default();
        };
        let used = |(list, item): (u16, &[u32])| match (list, item) {
            (RESIDENT | MISSED, [extent, usage, accesses]) => {
                Some((*extent, Used { accesses: *accesses, ago: age(*usage) }))
            }
            _ => None,
        };
        let uses = blocks.iter().flat_map(|words| items(words)).filter_map(used).collect();
        SavedUses { unix_s: header.unix_s, uses }
    }

    /// The row of an extent; `None`: it is nowhere, and was not used lately.
    pub(crate) fn row(
        &self,
        layout: &CacheLayout,
        extent: u32,
        entry: MapEntry,
        masks: Option<Masks>,
    ) -> Option<MapRow> {
        let used = self.uses.get(&extent);
        if entry.is_empty() && used.is_none() {
            return None;
        }
        let mut row = layout.row(extent, entry, masks);
        if let Some(used) = used {
            used.tell(&mut row, self.unix_s);
        }
        Some(row)
    }
}
