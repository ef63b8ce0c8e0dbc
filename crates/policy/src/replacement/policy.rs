//! The interface of a replacement policy.

use peryton_units::Nanos;

use crate::saving::Saving;

/// A slot of the fast device: room for one extent. In a cache of objects: the number of one that is cached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotIndex(pub u32);

impl SlotIndex {
    /// The index for tables with a row for each slot.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// The capacity of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Number of slots. They are numbered from 0. A cache of objects may have more than it began with.
    pub slots: u32,
    /// The most that is cached at the same time: extents, each of which has the size 1, or bytes of objects. Further slots are
    /// spare, because one that was given up may not be reused immediately.
    pub size: u64,
}

/// An eighth of a cache is spare slots, but at most this many: as many as the engine's layout has. A test compares the
/// two.
const MOST_SPARE: u32 = 256;

impl Capacity {
    /// The capacity of a cache of `usable` extents, as the engine lays it out.
    pub fn of_cache(usable: u32) -> Capacity {
        Capacity { slots: usable + (usable / 8).clamp(1, MOST_SPARE), size: u64::from(usable) }
    }

    /// The capacity of a cache of this many bytes of objects.
    pub fn of_objects(bytes: u64) -> Capacity {
        Capacity { slots: 0, size: bytes }
    }
}

/// An extent that may leave, as a policy sees it.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// When it was last accessed.
    pub last_access: Nanos,
    /// Its use bit: every access sets it, and the policy clears it.
    pub referenced: &'a mut bool,
}

/// The extents among which a policy chooses a victim. The owner of the slots implements it.
pub trait Candidates {
    /// The time of the choice.
    fn now(&self) -> Nanos;

    /// The working-set window (TW): an extent that was idle for longer has left the working set.
    fn window(&self) -> Nanos;

    /// The extent in a slot, if it may leave now. `None` if it is in use, if the slot is empty, or if the owner asks
    /// for clean extents and it is dirty.
    fn candidate(&mut self, slot: SlotIndex) -> Option<Candidate<'_>>;

    /// Whether a request waits for the choice, so that the search must be bounded. If none does, as in [`BareCache`], a policy
    /// searches as long as its paper says.
    ///
    /// [`BareCache`]: super::BareCache
    #[inline]
    fn is_awaited(&self) -> bool {
        true
    }

    /// Whether there is no extent in a slot. An owner that does not say so has none in few of them.
    #[inline]
    fn is_empty(&self, _slot: SlotIndex) -> bool {
        false
    }

    /// Whether the slot has an extent that may leave now.
    #[inline]
    fn may_leave(&mut self, slot: SlotIndex) -> bool {
        self.candidate(slot).is_some()
    }
}

impl<C: Candidates + ?Sized> Candidates for &mut C {
    #[inline]
    fn now(&self) -> Nanos {
        (**self).now()
    }

    #[inline]
    fn window(&self) -> Nanos {
        (**self).window()
    }

    #[inline]
    fn candidate(&mut self, slot: SlotIndex) -> Option<Candidate<'_>> {
        (**self).candidate(slot)
    }

    #[inline]
    fn is_awaited(&self) -> bool {
        (**self).is_awaited()
    }

    #[inline]
    fn is_empty(&self, slot: SlotIndex) -> bool {
        (**self).is_empty(slot)
    }

    #[inline]
    fn may_leave(&mut self, slot: SlotIndex) -> bool {
        (**self).may_leave(slot)
    }
}

/// A replacement policy. The owner reports when slots are given an extent, accessed, and given up; the policy names
/// victims.
///
/// All methods but [`victim`](ReplacementPolicy::victim) do nothing by default.
///
/// # Examples
///
/// First in, first out, in a cache of 2 extents. With the sizes of objects it works as it stands:
///
/// ```
/// use peryton_policy::{BareCache, Queues, replacement::{Candidates, ReplacementPolicy, SlotIndex}};
/// use peryton_units::Nanos;
///
/// struct Fifo(Queues<1>);
///
/// impl ReplacementPolicy for Fifo {
///     fn inserted(&mut self, slot: SlotIndex, _extent: u32, size: u32) {
///         self.0.push_sized(0, slot, size);
///     }
///     fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
///         self.0.unlink(slot);
///     }
///     fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
///         self.0.oldest(0, |slot| candidates.may_leave(slot))
///     }
/// }
///
/// let mut cache = BareCache::with_policy(2, Nanos::from_s(60), |capacity| Fifo(Queues::new(capacity.slots)));
/// let hits = [1, 2, 1, 3, 1].map(|extent| cache.access(Nanos::ZERO, extent));
/// assert_eq!(hits, [false, false, true, false, false]); // The hit on 1 did not save it.
/// ```
pub trait ReplacementPolicy {
    /// Whether the policy looks at when an extent was last accessed, and at its use bit ([`Candidates::candidate`]). An owner need
    /// not keep them otherwise.
    const LOOKS_AT_USES: bool = true;

    /// Whether an object is taken in before others make room for it, so that it may be the first to leave (as in GDSF). A drive
    /// makes room before.
    const INSERTS_FIRST: bool = false;

    /// Called when an extent missed and is about to be given a slot. `size` is 1, or the bytes of an object.
    #[inline]
    fn admitting(&mut self, _extent: u32, _size: u32) {}

    /// Called when an extent was given this slot.
    #[inline]
    fn inserted(&mut self, _slot: SlotIndex, _extent: u32, _size: u32) {}

    /// Whether an object of this size may be cached; one that is larger than the cache never is.
    #[inline]
    fn takes(&self, _size: u32) -> bool {
        true
    }

    /// Called when the extent in this slot was accessed.
    #[inline]
    fn accessed(&mut self, _slot: SlotIndex) {}

    /// Called when the extent in this slot will be accessed soon, to prefetch the policy's data into the processor's
    /// cache.
    #[inline]
    fn prefetch(&self, _slot: SlotIndex) {}

    /// Called when an extent that is not cached will be accessed soon, or is likely to leave soon, to prefetch what the policy keeps of
    /// extents that have left.
    #[inline]
    fn prefetch_extent(&self, _extent: u32) {}

    /// The slot that the policy would name as the next victim after this one, if it named this one; `None` if that needs a search.
    /// Only a hint.
    #[inline]
    fn likely_next(&self, _victim: SlotIndex) -> Option<SlotIndex> {
        None
    }

    /// Called when the slot was given up: to make room if `evicted`, otherwise because its extent was discarded or
    /// failed.
    #[inline]
    fn removed(&mut self, _slot: SlotIndex, _extent: u32, _evicted: bool) {}

    /// The slot whose extent should leave: one for which [`Candidates::candidate`] returns an extent; `None` if the
    /// policy found none. The extent leaves only with [`removed`](ReplacementPolicy::removed), and the owner may ask
    /// again before that. A request waits for the answer, so the search must be bounded (unless
    /// [`Candidates::is_awaited`] says otherwise).
    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex>;

    /// The version of what [`save`](ReplacementPolicy::save) writes, so that no other version is taken back; 0 if it writes nothing,
    /// which is the default.
    fn saved_version(&self) -> u32 {
        0
    }

    /// Saves a part of what the policy knows besides what its owner knows (which extent is in which slot, when it was last
    /// accessed, its use bit). Called again and again until it returns true, when everything is saved; the policy may be used
    /// meanwhile.
    fn save(&mut self, _to: &mut Saving<'_>) -> bool {
        true
    }

    /// Takes an item back that [`save`](ReplacementPolicy::save) has written, in the same order. The policy is new and knows nothing
    /// else. `slot_of`: the slot that an extent is in now; what is said of extents that are in none does not count. Items that
    /// make no sense are ignored.
    fn load(&mut self, _list: u8, _item: &[u32], _slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {}

    /// Called after the last item.
    fn loaded(&mut self) {}

    /// Whether the policy knows that the slot has an extent. The owner reports those that it does not know as
    /// [inserted](ReplacementPolicy::inserted), once everything is [loaded](ReplacementPolicy::loaded).
    fn knows(&self, _slot: SlotIndex) -> bool {
        false
    }
}
