//! A replacement policy alone: it computes which extents would be in a cache, without devices, data or time. It decides
//! like `caching` that promotes on every miss and evicts on demand, on devices that take no time. (Two differences: where WSClock's
//! hand meets only empty slots, the drive may skip the promotion, and this cache searches on; and where a drive bounds the search for
//! a victim because a request waits for it, this cache searches as long as the policy's paper says.)

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_units::Nanos;
use rustc_hash::FxHashMap;

use super::{BuiltInPolicy, Candidate, Candidates, Capacity, Replacement, ReplacementPolicy, SlotIndex};

/// A cache of extents without data, for miss ratios.
///
/// # Examples
///
/// ```
/// use peryton_policy::{BareCache, Replacement};
/// use peryton_units::Nanos;
///
/// let mut cache = BareCache::new(Replacement::Lru, 2, Nanos::from_s(60));
/// let hits = [7, 8, 7, 9, 8].map(|extent| cache.access(Nanos::ZERO, extent));
/// assert_eq!(hits, [false, false, true, false, false]); // 9 took the place of 8.
/// ```
#[derive(Clone, Debug)]
pub struct BareCache<P = BuiltInPolicy> {
    policy: P,
    window: Nanos,
    size: u32,
    /// The slot of each cached extent.
    cached: FxHashMap<u32, u32>,
    rows: Vec<Row>,
    /// Slots from here on have never been used.
    unused: u32,
    /// Free slots that were used before; the lowest is taken first.
    free: BinaryHeap<Reverse<u32>>,
    /// Slots that were given up and wait for a commit, as in the drive. WSClock's hand moves by slot, so it matters
    /// which slots are reused.
    pending_free: Vec<u32>,
}

/// A slot, and the extent in it if it is occupied.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    last_access: Nanos,
    extent: u32,
    occupied: bool,
    referenced: bool,
}

impl BareCache {
    /// An empty cache of `size` extents, at least one; `window` is WSClock's working-set window.
    pub fn new(replacement: Replacement, size: u32, window: Nanos) -> BareCache {
        BareCache::with_policy(size, window, |capacity| BuiltInPolicy::new(replacement, capacity))
    }
}

impl<P: ReplacementPolicy> BareCache<P> {
    /// The same with any policy, which `make` makes for the cache's capacity. [`ReplacementPolicy`] has an example.
    pub fn with_policy(size: u32, window: Nanos, make: impl FnOnce(Capacity) -> P) -> BareCache<P> {
        let size = size.max(1);
        let capacity = Capacity::of_cache(size);
        BareCache {
            policy: make(capacity),
            window,
            size,
            cached: FxHashMap::default(),
            rows: vec![Row::default(); capacity.slots as usize],
            unused: 0,
            free: BinaryHeap::new(),
            pending_free: Vec::new(),
        }
    }

    /// Accesses an extent; returns whether it was cached. It is cached from now on.
    pub fn access(&mut self, now: Nanos, extent: u32) -> bool {
        if let Some(slot) = self.cached.get(&extent) {
            let row = &mut self.rows[*slot as usize];
            (row.last_access, row.referenced) = (now, true);
            self.policy.accessed(SlotIndex(*slot));
            return true;
        }
        self.policy.admitting(extent);
        if self.cached.len() as u32 >= self.size {
            self.evict(now);
        }
        let slot = self.take_slot();
        self.rows[slot as usize] = Row { last_access: now, extent, occupied: true, referenced: true };
        self.policy.inserted(SlotIndex(slot), extent);
        self.cached.insert(extent, slot);
        false
    }

    /// Number of cached extents.
    pub fn len(&self) -> u32 {
        self.cached.len() as u32
    }

    /// Whether no extent is cached.
    pub fn is_empty(&self) -> bool {
        self.cached.is_empty()
    }

    fn take_slot(&mut self) -> u32 {
        let slot = self.free.pop().map_or(self.unused, |Reverse(slot)| slot);
        assert!((slot as usize) < self.rows.len(), "there are more slots than extents cached and slots pending");
        self.unused = self.unused.max(slot + 1);
        let free = self.free.len() + self.rows.len() - self.unused as usize;
        if self.pending_free.len() > free {
            // The drive commits when that frees more slots than are free.
            self.free.extend(self.pending_free.drain(..).map(Reverse));
        }
        slot
    }

    fn evict(&mut self, now: Nanos) {
        let mut candidates = Occupied { now, window: self.window, rows: &mut self.rows };
        // The clock examines a few slots at a time, which may all be empty.
        let tries = 2 * candidates.rows.len();
        let victim = (0..tries).find_map(|_| self.policy.victim(&mut candidates));
        let slot = victim.expect("a policy finds a victim where every extent may leave");
        let row = &mut self.rows[slot.index()];
        assert!(row.occupied, "the policy named slot {} as a victim, which is empty", slot.0);
        row.occupied = false;
        let extent = row.extent;
        self.policy.removed(slot, extent, true);
        self.cached.remove(&extent);
        self.pending_free.push(slot.0);
    }
}

#[cfg(test)]
impl BareCache {
    /// The same cache with a new policy, which takes back what this one saves, and is given the extents that it does not know. Accesses go on
    /// between two parts of the saving.
    pub(super) fn reopened(
        &mut self,
        replacement: Replacement,
        mut meanwhile: impl FnMut(&mut BareCache),
    ) -> BareCache {
        let (mut cursor, mut items) = (crate::saving::Cursor::default(), Vec::new());
        loop {
            let BareCache { policy, rows, .. } = self;
            let extent_in = |slot: SlotIndex| rows[slot.index()].occupied.then(|| rows[slot.index()].extent);
            let mut put = |list: u8, item: &[u32]| items.push((list, item.to_vec()));
            if policy.save(&mut crate::saving::Saving::new(&mut cursor, 37, &extent_in, &mut put)) {
                break;
            }
            meanwhile(self);
        }
        let mut other = BareCache::new(replacement, self.size, self.window);
        (other.cached, other.rows, other.unused) = (self.cached.clone(), self.rows.clone(), self.unused);
        (other.free, other.pending_free) = (self.free.clone(), self.pending_free.clone());
        let BareCache { policy, cached, rows, .. } = &mut other;
        let slot_of = |extent: u32| cached.get(&extent).map(|slot| SlotIndex(*slot));
        items.iter().for_each(|(list, item)| policy.load(*list, item, &slot_of));
        policy.loaded();
        for (slot, row) in (0..).map(SlotIndex).zip(rows.iter()).filter(|(_, row)| row.occupied) {
            if !policy.knows(slot) {
                policy.inserted(slot, row.extent);
            }
        }
        other
    }

    /// Evicts without an access.
    pub(super) fn shrink(&mut self, now: Nanos) {
        if !self.is_empty() {
            self.evict(now);
        }
    }
}

/// A view in which every extent may leave.
struct Occupied<'a> {
    now: Nanos,
    window: Nanos,
    rows: &'a mut [Row],
}

impl Candidates for Occupied<'_> {
    #[inline]
    fn now(&self) -> Nanos {
        self.now
    }

    #[inline]
    fn window(&self) -> Nanos {
        self.window
    }

    #[inline]
    fn candidate(&mut self, slot: SlotIndex) -> Option<Candidate<'_>> {
        let row = &mut self.rows[slot.index()];
        row.occupied.then_some(Candidate { last_access: row.last_access, referenced: &mut row.referenced })
    }

    #[inline]
    fn is_awaited(&self) -> bool {
        false
    }
}

/// Compares the hits of a policy with those of a plain model of its paper, access by access, in caches of these sizes. `reach`: how
/// many extents are accessed with a cache of this size, the lower ones more often.
#[cfg(test)]
pub(super) fn agrees_with<P>(
    policy: Replacement,
    sizes: &[usize],
    reach: impl Fn(usize) -> f64,
    model: impl Fn(usize) -> P,
    access: impl Fn(&mut P, u32, usize) -> bool,
) {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    let mut random = StdRng::seed_from_u64(7);
    for &size in sizes {
        let (mut plain, mut cache) = (model(size), BareCache::new(policy, size as u32, Nanos(1)));
        for step in 0..20_000u64 {
            let drawn: f64 = random.random();
            let extent = (drawn * drawn * reach(size)) as u32;
            let (want, got) = (access(&mut plain, extent, size), cache.access(Nanos(step), extent));
            assert_eq!(want, got, "{policy:?}: step {step} of {size} entries: extent {extent}");
        }
    }
}
