//! A replacement policy alone: it computes which extents, or objects, would be in a cache, without devices, data or time. It decides
//! like `caching` that promotes on every miss and evicts on demand, on devices that take no time. (Two differences: where WSClock's
//! hand meets only empty slots, the drive may skip the promotion, and this cache searches on; and where a drive bounds the search for
//! a victim because a request waits for it, this cache searches as long as the policy's paper says.)

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_units::{Nanos, prefetch};

use super::{
    BuiltInPolicy, Candidate, Candidates, Capacity, ForeseenVictims, Replacement, ReplacementPolicy, SlotIndex,
};

/// A cache of extents without data, for miss ratios. Extents are numbers; those from 0 on take the least memory.
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
    size: u64,
    used: u64,
    len: u32,
    /// The slot of each cached extent.
    cached: SlotTable,
    rows: Vec<Row>,
    /// When each slot was last accessed, and its use bit, for a policy that looks at them.
    uses: Vec<Use>,
    /// Slots from here on have never been used.
    unused: u32,
    /// Free slots that were used before; the lowest is taken first. Only a policy that looks at uses has them.
    free: BinaryHeap<Reverse<u32>>,
    /// Slots that were given up. With a policy that looks at uses they wait for a commit, as in the drive: WSClock's hand moves by
    /// slot, so it matters which slots are reused. With others the last one is reused first, because it is in the processor's caches.
    pending_free: Vec<u32>,
    foreseen: ForeseenVictims,
    /// Whether slots are added as they are needed.
    holds_objects: bool,
}

/// A slot: its extent, and the size of it; 0 if the slot is empty.
#[derive(Clone, Copy, Debug, Default)]
struct Row {
    extent: u32,
    size: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Use {
    last_access: Nanos,
    referenced: bool,
}

/// Accesses to be simulated, in columns.
#[derive(Clone, Copy, Debug)]
pub struct Accesses<'a> {
    /// The extent, or object, of each.
    pub extents: &'a [u32],
    /// When.
    pub times: &'a [Nanos],
    /// The bytes of the object; absent for extents, of which each has the size 1.
    pub sizes: Option<&'a [u32]>,
}

/// A cache under some policy.
pub trait Simulated: Send {
    /// Simulates accesses, one after the other; calls `missed` with the place of each that missed.
    fn replay(&mut self, accesses: Accesses<'_>, missed: &mut dyn FnMut(usize));
}

/// How many accesses ahead the slot of an extent is fetched, and how many ahead what the policy keeps for the slot.
const FETCH_SLOT: usize = 24;
const FETCH_ROW: usize = 12;

impl<P: ReplacementPolicy + Send> Simulated for BareCache<P> {
    fn replay(&mut self, accesses: Accesses<'_>, missed: &mut dyn FnMut(usize)) {
        let Accesses { extents, times, sizes } = accesses;
        assert_eq!(extents.len(), times.len(), "each access has a time");
        for (index, (extent, now)) in extents.iter().zip(times).enumerate() {
            if let Some(extent) = extents.get(index + FETCH_SLOT) {
                self.cached.prefetch(*extent);
            }
            if let Some(extent) = extents.get(index + FETCH_ROW) {
                match self.cached.get(*extent) {
                    Some(slot) => {
                        self.policy.prefetch(SlotIndex(slot));
                        if P::LOOKS_AT_USES {
                            prefetch(&self.uses[slot as usize]);
                        }
                    }
                    None => self.policy.prefetch_extent(*extent),
                }
            }
            let size = sizes.map_or(1, |sizes| sizes[index]);
            if !self.access_sized(*now, *extent, size) {
                missed(index);
            }
        }
    }
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
        BareCache::with_capacity(Capacity::of_cache(size.max(1)), window, make)
    }

    /// The same with any capacity: of extents, or of [bytes of objects](Capacity::of_objects).
    pub fn with_capacity(capacity: Capacity, window: Nanos, make: impl FnOnce(Capacity) -> P) -> BareCache<P> {
        let slots = capacity.slots as usize;
        BareCache {
            policy: make(capacity),
            window,
            size: capacity.size.max(1),
            used: 0,
            len: 0,
            cached: SlotTable::default(),
            rows: vec![Row::default(); slots],
            uses: if P::LOOKS_AT_USES { vec![Use::default(); slots] } else { Vec::new() },
            unused: 0,
            free: BinaryHeap::new(),
            pending_free: Vec::new(),
            foreseen: ForeseenVictims::default(),
            holds_objects: capacity.slots == 0,
        }
    }

    /// Accesses an extent; returns whether it was cached. It is cached from now on.
    #[inline]
    pub fn access(&mut self, now: Nanos, extent: u32) -> bool {
        self.access_sized(now, extent, 1)
    }

    /// Accesses an object of this size; returns whether it was cached. It is cached from now on, if it fits. One that is cached keeps
    /// the size that it had when it came.
    #[inline]
    pub fn access_sized(&mut self, now: Nanos, extent: u32, size: u32) -> bool {
        if let Some(slot) = self.cached.get(extent) {
            if P::LOOKS_AT_USES {
                self.uses[slot as usize] = Use { last_access: now, referenced: true };
            }
            self.policy.accessed(SlotIndex(slot));
            return true;
        }
        self.take_in(now, extent, size);
        false
    }

    fn take_in(&mut self, now: Nanos, extent: u32, size: u32) {
        let size = size.max(1);
        if u64::from(size) > self.size || !self.policy.takes(size) {
            return;
        }
        self.policy.admitting(extent, size);
        if !P::INSERTS_FIRST {
            self.make_room(now, u64::from(size));
        }
        let slot = self.take_slot();
        self.rows[slot as usize] = Row { extent, size };
        if P::LOOKS_AT_USES {
            self.uses[slot as usize] = Use { last_access: now, referenced: true };
        }
        self.used += u64::from(size);
        self.len += 1;
        self.cached.set(extent, slot);
        self.policy.inserted(SlotIndex(slot), extent, size);
        if P::INSERTS_FIRST {
            self.make_room(now, 0);
        }
    }

    fn make_room(&mut self, now: Nanos, size: u64) {
        while self.used + size > self.size {
            self.evict(now);
        }
    }

    /// Number of cached extents.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether no extent is cached.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn take_slot(&mut self) -> u32 {
        if !P::LOOKS_AT_USES
            && let Some(slot) = self.pending_free.pop()
        {
            return slot;
        }
        let slot = self.free.pop().map_or(self.unused, |Reverse(slot)| slot);
        if self.holds_objects && slot as usize == self.rows.len() {
            self.rows.push(Row::default());
            if P::LOOKS_AT_USES {
                self.uses.push(Use::default());
            }
        }
        assert!((slot as usize) < self.rows.len(), "there are more slots than extents cached and slots pending");
        self.unused = self.unused.max(slot + 1);
        let free = self.free.len() + self.rows.len() - self.unused as usize;
        if P::LOOKS_AT_USES && self.pending_free.len() > free {
            // The drive commits when that frees more slots than are free.
            self.free.extend(self.pending_free.drain(..).map(Reverse));
        }
        slot
    }

    fn evict(&mut self, now: Nanos) {
        let mut candidates =
            Occupied { now, window: self.window, rows: &self.rows, uses: &mut self.uses, looks: P::LOOKS_AT_USES };
        // The clock examines a few slots at a time, which may all be empty.
        let tries = 2 * candidates.rows.len();
        let victim = (0..tries).find_map(|_| self.policy.victim(&mut candidates));
        let slot = victim.expect("a policy finds a victim where every extent may leave");
        let row = &mut self.rows[slot.index()];
        assert!(row.size > 0, "the policy named slot {} as a victim, which is empty", slot.0);
        let Row { extent, size } = std::mem::take(row);
        let BareCache { policy, rows, cached, foreseen, .. } = &mut *self;
        let near = |slot: SlotIndex| {
            if let Some(row) = rows.get(slot.index()) {
                cached.prefetch(row.extent);
                policy.prefetch_extent(row.extent);
            }
        };
        let far = |slot: SlotIndex| {
            if let Some(row) = rows.get(slot.index()) {
                prefetch(row);
            }
        };
        foreseen.after(policy, slot, rows.len() as u32, near, far);
        self.policy.removed(slot, extent, true);
        self.used -= u64::from(size);
        self.len -= 1;
        self.cached.remove(extent);
        self.pending_free.push(slot.0);
    }
}

/// The slot of each cached extent, in pages that exist where extents were cached.
#[derive(Clone, Debug, Default)]
struct SlotTable {
    pages: Vec<Option<Box<[u32; PAGE]>>>,
}

/// Extents on a page of the table.
const PAGE: usize = 4096;
const NOT_CACHED: u32 = u32::MAX;

impl SlotTable {
    #[inline]
    fn prefetch(&self, extent: u32) {
        if let Some(Some(page)) = self.pages.get(extent as usize / PAGE) {
            prefetch(&page[extent as usize % PAGE]);
        }
    }

    #[inline]
    fn get(&self, extent: u32) -> Option<u32> {
        let page = self.pages.get(extent as usize / PAGE)?.as_ref()?;
        let slot = page[extent as usize % PAGE];
        (slot != NOT_CACHED).then_some(slot)
    }

    fn set(&mut self, extent: u32, slot: u32) {
        let page = extent as usize / PAGE;
        if page >= self.pages.len() {
            self.pages.resize(page + 1, None);
        }
        self.pages[page].get_or_insert_with(|| Box::new([NOT_CACHED; PAGE]))[extent as usize % PAGE] = slot;
    }

    fn remove(&mut self, extent: u32) {
        if let Some(Some(page)) = self.pages.get_mut(extent as usize / PAGE) {
            page[extent as usize % PAGE] = NOT_CACHED;
        }
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
            let extent_in = |slot: SlotIndex| (rows[slot.index()].size > 0).then(|| rows[slot.index()].extent);
            let mut put = |list: u8, item: &[u32]| items.push((list, item.to_vec()));
            if policy.save(&mut crate::saving::Saving::new(&mut cursor, 37, &extent_in, &mut put)) {
                break;
            }
            meanwhile(self);
        }
        let mut other = BareCache::new(replacement, self.size as u32, self.window);
        (other.cached, other.rows, other.uses) = (self.cached.clone(), self.rows.clone(), self.uses.clone());
        (other.free, other.pending_free, other.unused) = (self.free.clone(), self.pending_free.clone(), self.unused);
        (other.used, other.len) = (self.used, self.len);
        let BareCache { policy, cached, rows, .. } = &mut other;
        let slot_of = |extent: u32| cached.get(extent).map(SlotIndex);
        items.iter().for_each(|(list, item)| policy.load(*list, item, &slot_of));
        policy.loaded();
        for (slot, row) in (0..).map(SlotIndex).zip(rows.iter()).filter(|(_, row)| row.size > 0) {
            if !policy.knows(slot) {
                policy.inserted(slot, row.extent, 1);
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
    rows: &'a [Row],
    uses: &'a mut [Use],
    looks: bool,
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
        assert!(self.looks, "a policy that looks at uses says so (LOOKS_AT_USES)");
        let Use { last_access, referenced } = &mut self.uses[slot.index()];
        (self.rows[slot.index()].size > 0).then_some(Candidate { last_access: *last_access, referenced })
    }

    #[inline]
    fn may_leave(&mut self, slot: SlotIndex) -> bool {
        self.rows[slot.index()].size > 0
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
