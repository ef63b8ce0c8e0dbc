//! The map of a volume with a resized device: it is read in the old layout, and written in the new one.

use peryton_format::{
    blocks::Masks,
    entry::MapEntry,
    map::DurableMap,
    mutation::{self, Mutation},
    snapshot::Room,
};

use crate::cache::{access::Mode, drive::CacheDrive, layout::CacheLayout, map::extent::Place};

/// The layout from which a recovery takes the map.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reshape {
    pub(crate) from: CacheLayout,
    /// The place of the first checkpoint in the new layout (0: A, 1: B), which is not over the one that is valid in the old layout.
    pub(crate) which: u64,
}

impl Reshape {
    /// Where the snapshots lie that were taken before.
    pub(in crate::cache) fn room(&self) -> Room {
        self.from.room()
    }

    /// The number of the first checkpoint: higher than all on the devices, and in its place. `base`: the next number is free.
    pub(in crate::cache) fn checkpoint_after(&self, base: u64) -> u64 {
        base + 1 + u64::from((base + 1) % 2 != self.which)
    }
}

impl CacheDrive {
    /// Changes the map to that of the present layout.
    pub(in crate::cache) fn reshape_map(&self, found: &mut DurableMap, reshape: &Reshape) -> Result<(), &'static str> {
        let (old, new) = (&reshape.from, &self.layout);
        if found.entries.len() > new.extents as usize {
            return Err("the volume would lose its end");
        }
        for entry in &mut found.entries {
            let Some(place) = entry.place() else { continue };
            let place = match old.fast_slot(place) {
                Some(slot) if slot.0 < new.fast_slots => place,
                None if mutation::is(Mutation::KeepSlowPlaces) => place,
                None if self.mode == Mode::Tiering && old.slow_slot(place) < new.slow_slots => {
                    new.slow_place(old.slow_slot(place))
                }
                _ => return Err("an extent is in a place that is given up"),
            };
            *entry = MapEntry::new(Some(Place(place.0)), entry.is_dirty(), entry.is_lost());
        }
        found.entries.resize(new.extents as usize, MapEntry::default());
        found.masks.resize(self.map.all_masks().len(), Masks::default());
        Ok(())
    }
}
