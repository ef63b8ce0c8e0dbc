//! A replacement policy on its own: who would be in a cache, without devices, data or time spent. It decides as
//! `caching` does that promotes on every miss and evicts on demand, on devices that take no time. (But where WSClock's
//! hand meets nothing but empty slots the drive may do without the promotion, and this looks on.)

use peryton_units::Nanos;
use rustc_hash::FxHashMap;

use super::{Policy, Replaces, SlotIndex, View};
use crate::{config::Replacement, extent_map::Extent, free_map::FreeMap, hybrid::spare_extents};

/// A cache of extents without data, for miss-ratio curves.
#[derive(Clone, Debug)]
pub struct BareCache {
    policy: Policy,
    window: Nanos,
    size: u32,
    /// Which slot each cached extent is in.
    cached: FxHashMap<u32, u32>,
    /// For each slot: the extent in it, its map entry, and, as [`View`] has it, the entry's index plus one.
    extents: Vec<u32>,
    entries: Vec<Extent>,
    occupied: Vec<u32>,
    free: FreeMap,
    /// Slots that were given up and wait for a commit. The clock's hand goes by slot, so that it matters which ones are
    /// used again.
    limbo: Vec<u32>,
}

impl BareCache {
    /// An empty cache of `size` extents, at least one; `window` is WSClock's working-set window.
    pub fn new(replacement: Replacement, size: u32, window: Nanos) -> BareCache {
        let size = size.max(1);
        let slots = size + spare_extents(size);
        BareCache {
            policy: Policy::new(replacement, slots, size),
            window,
            size,
            cached: FxHashMap::default(),
            extents: vec![0; slots as usize],
            entries: vec![Extent::default(); slots as usize],
            occupied: vec![0; slots as usize],
            free: FreeMap::full(slots),
            limbo: Vec::new(),
        }
    }

    /// An access to an extent: whether it was cached. It is from now on.
    pub fn access(&mut self, now: Nanos, extent: u32) -> bool {
        if let Some(slot) = self.cached.get(&extent) {
            self.entries[*slot as usize].access(now);
            self.policy.accessed(SlotIndex(*slot));
            return true;
        }
        self.policy.admitting(extent);
        if self.cached.len() as u32 >= self.size {
            self.evict(now);
        }
        let slot = self.free.take_lowest().expect("there are more slots than extents in the cache and in limbo");
        if self.limbo.len() > self.free.count() as usize {
            // The drive commits once that frees more than is free.
            for slot in self.limbo.drain(..) {
                self.free.put(slot);
            }
        }
        self.extents[slot as usize] = extent;
        self.occupied[slot as usize] = slot + 1;
        self.entries[slot as usize] = Extent::default();
        self.entries[slot as usize].access(now);
        self.policy.inserted(SlotIndex(slot), extent);
        self.cached.insert(extent, slot);
        false
    }

    fn evict(&mut self, now: Nanos) {
        let (slots, extents) = (&self.occupied[..], &mut self.entries[..]);
        let mut view = View { now, window: self.window, slots, extents, clean_only: false };
        // The clock looks at a few slots at a time, which may all be empty.
        let SlotIndex(slot) = loop {
            if let Some(slot) = self.policy.victim(&mut view) {
                break slot;
            }
        };
        let extent = self.extents[slot as usize];
        self.policy.removed(SlotIndex(slot), extent, true);
        self.occupied[slot as usize] = 0;
        self.cached.remove(&extent);
        self.limbo.push(slot);
    }
}
