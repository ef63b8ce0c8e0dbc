//! What a replacement policy is told, may look at, and has to answer.

use peryton_units::Nanos;

/// A slot of the fast device: room for one extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SlotIndex(pub u32);

impl SlotIndex {
    /// For tables with a row for each slot.
    #[inline]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// How many slots there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Slots are numbered from 0 to this, less one.
    pub slots: u32,
    /// At most so many of them hold an extent at a time. The others are spare: a slot that was given up may not be used
    /// again at once.
    pub usable: u32,
}

/// Spare slots of a cache are an eighth of it, but no more than this: as many as the engine's layout has, where a test
/// compares the two.
const MOST_SPARE: u32 = 256;

impl Capacity {
    /// That of a cache of `usable` extents, as the engine lays it out.
    pub fn of_cache(usable: u32) -> Capacity {
        Capacity { slots: usable + (usable / 8).clamp(1, MOST_SPARE), usable }
    }
}

/// What a policy may know of an extent that may leave.
#[derive(Debug)]
pub struct Candidate<'a> {
    /// When it was last accessed.
    pub last_access: Nanos,
    /// Its use bit: set by every access, cleared by the policy.
    pub referenced: &'a mut bool,
}

/// What a policy may look at when it chooses a victim. The owner of the slots implements it.
pub trait Candidates {
    /// The time of the choice.
    fn now(&self) -> Nanos;

    /// The working-set window (TW): an extent that was idle for longer has left the working set.
    fn window(&self) -> Nanos;

    /// The extent in a slot, if it may leave now; `None` while it is in use, where the owner asks for clean extents and
    /// it is dirty, and where the slot is empty.
    fn candidate(&mut self, slot: SlotIndex) -> Option<Candidate<'_>>;

    /// Whether there is an extent in the slot that may leave now.
    #[inline]
    fn may_leave(&mut self, slot: SlotIndex) -> bool {
        self.candidate(slot).is_some()
    }
}

/// A replacement policy. Slots are given an extent, accessed, and given up; the policy hears of each, and names victims.
///
/// All methods but [`victim`](ReplacementPolicy::victim) do nothing by default.
///
/// # Examples
///
/// First in, first out, in a cache of 2 extents:
///
/// ```
/// use peryton_policy::{BareCache, Queues, replacement::{Candidates, ReplacementPolicy, SlotIndex}};
/// use peryton_units::Nanos;
///
/// struct Fifo(Queues<1>);
///
/// impl ReplacementPolicy for Fifo {
///     fn inserted(&mut self, slot: SlotIndex, _extent: u32) {
///         self.0.push(0, slot);
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
    /// An extent missed and is about to be given a slot.
    #[inline]
    fn admitting(&mut self, _extent: u32) {}

    /// An extent was given this slot.
    #[inline]
    fn inserted(&mut self, _slot: SlotIndex, _extent: u32) {}

    /// The extent in this slot was accessed.
    #[inline]
    fn accessed(&mut self, _slot: SlotIndex) {}

    /// The extent in this slot will be accessed soon: a hint, to fetch what that needs into the processor's cache.
    #[inline]
    fn prefetch(&self, _slot: SlotIndex) {}

    /// The slots that the policy would name next if their extents may leave, where that takes no search: a hint.
    #[inline]
    fn likely_victims(&self) -> Option<(SlotIndex, SlotIndex)> {
        None
    }

    /// The slot was given up; `evicted` to make room, rather than because its extent was discarded or failed.
    #[inline]
    fn removed(&mut self, _slot: SlotIndex, _extent: u32, _evicted: bool) {}

    /// The slot whose extent should leave: one of which [`Candidates::candidate`] says that it may; `None` if the policy
    /// found none. The extent has not left before [`removed`](ReplacementPolicy::removed) says so, and the owner may ask
    /// again first. A request waits for the answer, so the search has to be bounded.
    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex>;
}
