//! Queues through slots, for LRU, FIFO and related policies.

use std::cell::Cell;

use peryton_units::prefetch;

use crate::{
    replacement::SlotIndex,
    search::{OLDEST, Search},
};

const NONE: u32 = u32::MAX;

/// Sixteen bytes, so that a slot is in one cache line.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(16))]
struct Link {
    newer: u32,
    older: u32,
    size: u32,
    queue: u8,
}

const UNLINKED: Link = Link { newer: NONE, older: NONE, size: 0, queue: NO_QUEUE };

#[derive(Clone, Copy, Debug)]
struct Ends {
    newest: u32,
    oldest: u32,
    search: Search<u32>,
    len: u32,
    size: u64,
}

impl Ends {
    const EMPTY: Ends = Ends { newest: NONE, oldest: NONE, search: Search::new(NONE), len: 0, size: 0 };

    /// A slot leaves its place in the queue, which `newer` has from now on.
    #[inline(always)]
    fn pass(&mut self, slot: u32, newer: u32) {
        for place in [&mut self.search.again, &mut self.search.beyond] {
            if *place == slot {
                *place = newer;
            }
        }
    }
}

/// `N` doubly linked queues; each slot is in one of them or in none. They allocate nothing after [`Queues::new`], unless a slot
/// is pushed that was not there then.
///
/// # Examples
///
/// ```
/// use peryton_policy::{Queues, replacement::SlotIndex};
///
/// let mut queues = Queues::<1>::new(3);
/// for slot in 0..3 {
///     queues.push(0, SlotIndex(slot));
/// }
/// queues.renew(0, SlotIndex(0));
/// assert_eq!(queues.first(0), Some(SlotIndex(1)));
/// ```
#[derive(Clone, Debug)]
pub struct Queues<const N: usize> {
    links: Vec<Link>,
    ends: [Ends; N],
    /// The slot that is read next, while a queue is read from its old end on.
    reader: u32,
    /// The slots whose links were prefetched last.
    prefetched: Cell<[u32; PREFETCHED]>,
}

/// After this many further slots the links of a slot have been fetched, and name its neighbours, which are fetched then.
const PREFETCHED: usize = 3;

const NO_QUEUE: u8 = u8::MAX;

impl<const N: usize> Queues<N> {
    /// Makes empty queues for the slots from 0 to `slots` - 1.
    pub fn new(slots: u32) -> Queues<N> {
        let links = vec![UNLINKED; slots as usize];
        Queues { links, ends: [Ends::EMPTY; N], reader: NONE, prefetched: Cell::new([NONE; PREFETCHED]) }
    }

    /// Adds a slot, which is in no queue; it has the next number.
    pub fn add_slot(&mut self) -> SlotIndex {
        self.links.push(UNLINKED);
        SlotIndex(self.links.len() as u32 - 1)
    }

    /// Number of slots in `queue`.
    #[inline]
    pub fn len(&self, queue: usize) -> u32 {
        self.ends[queue].len
    }

    /// The sum of the sizes of what is in `queue`.
    #[inline]
    pub fn size(&self, queue: usize) -> u64 {
        self.ends[queue].size
    }

    /// The sum of the sizes of what is in any queue.
    #[inline]
    pub fn all_sizes(&self) -> u64 {
        self.ends.iter().map(|ends| ends.size).sum()
    }

    /// The size of what is in a slot, which is in a queue.
    #[inline]
    pub fn size_of(&self, slot: SlotIndex) -> u32 {
        self.links[slot.index()].size
    }

    /// The queue that the slot is in.
    #[inline]
    pub fn queue_of(&self, slot: SlotIndex) -> Option<usize> {
        let queue = self.links.get(slot.index())?.queue;
        (queue != NO_QUEUE).then_some(usize::from(queue))
    }

    /// Prefetches the slot's links into the processor's cache, and some calls later those of its neighbours, which change with them.
    #[inline]
    pub fn prefetch(&self, SlotIndex(slot): SlotIndex) {
        let fetch = |slot: u32| {
            let link = self.links.get(slot as usize);
            link.inspect(|link| prefetch(*link))
        };
        fetch(slot);
        let [earliest, rest @ ..] = self.prefetched.get();
        self.prefetched.set([rest[0], rest[1], slot]);
        if let Some(link) = self.links.get(earliest as usize) {
            fetch(link.newer);
            fetch(link.older);
        }
    }

    /// Puts a slot that is in no queue at the new end of `queue`, with an extent, whose size is 1.
    #[inline]
    pub fn push(&mut self, queue: usize, slot: SlotIndex) {
        self.push_sized(queue, slot, 1);
    }

    /// Puts a slot that is in no queue at the new end of `queue`, with something of this size.
    #[inline]
    pub fn push_sized(&mut self, queue: usize, SlotIndex(slot): SlotIndex, size: u32) {
        if slot as usize >= self.links.len() {
            self.extend(slot);
        }
        let ends = &mut self.ends[queue];
        debug_assert_eq!(self.links[slot as usize].queue, NO_QUEUE, "slot {slot} is queued twice");
        self.links[slot as usize] = Link { newer: NONE, older: ends.newest, size, queue: queue as u8 };
        match ends.newest {
            NONE => ends.oldest = slot,
            newest => self.links[newest as usize].newer = slot,
        }
        ends.newest = slot;
        ends.len += 1;
        ends.size += u64::from(size);
    }

    /// A cache of objects has as many slots as it happens to hold objects.
    #[cold]
    fn extend(&mut self, slot: u32) {
        let room = (slot as usize + 1).max(2 * self.links.len());
        self.links.resize(room, UNLINKED);
    }

    /// Removes a slot from its queue; it must be in one.
    #[inline]
    pub fn unlink(&mut self, SlotIndex(slot): SlotIndex) {
        let Link { newer, older, size, queue } = self.links[slot as usize];
        debug_assert_ne!(queue, NO_QUEUE, "slot {slot} is in no queue");
        if slot == self.reader {
            self.reader = newer;
        }
        let ends = &mut self.ends[usize::from(queue)];
        ends.pass(slot, newer);
        ends.len -= 1;
        ends.size -= u64::from(size);
        self.close(slot, older, newer);
    }

    /// Takes a slot out of its place: `older` follows the newer neighbour from now on, and `newer` the older one.
    #[inline(always)]
    fn close(&mut self, slot: u32, older: u32, newer: u32) {
        let link = self.links[slot as usize];
        let ends = &mut self.ends[usize::from(link.queue)];
        match link.newer {
            NONE => ends.newest = older,
            neighbour => self.links[neighbour as usize].older = older,
        }
        match link.older {
            NONE => ends.oldest = newer,
            neighbour => self.links[neighbour as usize].newer = newer,
        }
        self.links[slot as usize].queue = NO_QUEUE;
    }

    /// Puts `by`, which is in no queue, into the place of `slot`, which is in none afterwards.
    pub fn replace(&mut self, SlotIndex(slot): SlotIndex, SlotIndex(by): SlotIndex) {
        let link = self.links[slot as usize];
        debug_assert_ne!(link.queue, NO_QUEUE, "slot {slot} is in no queue");
        if by as usize >= self.links.len() {
            self.extend(by);
        }
        debug_assert_eq!(self.links[by as usize].queue, NO_QUEUE, "slot {by} is queued twice");
        self.links[by as usize] = link;
        if slot == self.reader {
            self.reader = by;
        }
        self.ends[usize::from(link.queue)].pass(slot, by);
        self.close(slot, by, by);
    }

    /// Moves a slot to the new end of `queue`, from any queue.
    #[inline]
    pub fn renew(&mut self, queue: usize, slot: SlotIndex) {
        let newest = self.ends[queue].newest;
        if newest == slot.0 {
            return;
        }
        let Link { newer, older, size, queue: from } = self.links[slot.index()];
        if usize::from(from) != queue {
            self.unlink(slot);
            return self.push_sized(queue, slot, size);
        }
        // Within its queue a slot that is not the newest has a newer neighbour, and the queue stays as long as it is.
        if slot.0 == self.reader {
            self.reader = newer;
        }
        self.ends[queue].pass(slot.0, newer);
        self.links[newer as usize].older = older;
        match older {
            NONE => self.ends[queue].oldest = newer,
            older => self.links[older as usize].newer = newer,
        }
        let link = &mut self.links[slot.index()];
        (link.newer, link.older) = (NONE, newest);
        self.links[newest as usize].newer = slot.0;
        self.ends[queue].newest = slot.0;
    }

    /// The slot that was added to its queue after this one.
    #[inline]
    pub fn newer(&self, slot: SlotIndex) -> Option<SlotIndex> {
        let newer = self.links[slot.0 as usize].newer;
        (newer != NONE).then_some(SlotIndex(newer))
    }

    /// Number of slots that may be queued.
    pub(crate) fn slots(&self) -> u32 {
        self.links.len() as u32
    }

    /// Begins to read a queue from its old end on; one queue is read at a time.
    pub(crate) fn begin_to_read(&mut self, queue: usize) {
        self.reader = self.ends[queue].oldest;
    }

    /// The next slot of the queue that is being read. Slots that were taken out since are passed over.
    pub(crate) fn read(&mut self) -> Option<SlotIndex> {
        let slot = self.reader;
        if slot == NONE {
            return None;
        }
        self.reader = self.links[slot as usize].newer;
        Some(SlotIndex(slot))
    }

    /// Puts a slot at the new end of `queue`, whether it is in a queue or in none.
    pub(crate) fn put(&mut self, queue: usize, slot: SlotIndex) {
        match self.queue_of(slot) {
            Some(_) => self.renew(queue, slot),
            None => self.push(queue, slot),
        }
    }

    /// The oldest slot of `queue`.
    #[inline]
    pub fn first(&self, queue: usize) -> Option<SlotIndex> {
        let oldest = self.ends[queue].oldest;
        (oldest != NONE).then_some(SlotIndex(oldest))
    }

    /// The oldest slot of `queue` that `may_leave`; `None` if a search of at most 128 slots finds none. While the 64 oldest may not leave,
    /// each search looks at 32 of those that were passed over before, and goes on from there.
    #[inline]
    pub fn oldest(&mut self, queue: usize, mut may_leave: impl FnMut(SlotIndex) -> bool) -> Option<SlotIndex> {
        let Ends { oldest, mut search, .. } = self.ends[queue];
        let mut walk = |from, end, most| self.walk(from, end, most, &mut may_leave);
        match walk(oldest, NONE, OLDEST) {
            Ok((slot, _)) => Some(slot),
            Err(NONE) => None,
            Err(next) => {
                let found = search.go_on(next, NONE, walk);
                self.ends[queue].search = search;
                found
            }
        }
    }

    /// The first slot from `from` on that `may_leave`, with its place; otherwise where the walk ended.
    #[inline(always)]
    fn walk(
        &self,
        from: u32,
        end: u32,
        most: usize,
        may_leave: &mut impl FnMut(SlotIndex) -> bool,
    ) -> Result<(SlotIndex, u32), u32> {
        let mut slot = from;
        for _ in 0..most {
            if slot == end || slot == NONE {
                break;
            }
            if may_leave(SlotIndex(slot)) {
                return Ok((SlotIndex(slot), slot));
            }
            slot = self.links[slot as usize].newer;
        }
        Err(slot)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// The oldest 3,000 of 4,000 may not leave.
    fn blocked() -> Queues<1> {
        let mut queues = Queues::new(4_000);
        (0..4_000).for_each(|slot| queues.push(0, SlotIndex(slot)));
        queues
    }

    /// The fear: as soon as 128 in a row are dirty, nothing comes into the cache any more.
    #[test]
    fn a_long_row_that_may_not_leave_is_passed_in_some_searches_and_then_no_more() {
        let mut queues = blocked();
        let looks = Cell::new(0);
        let search = |queues: &mut Queues<1>| {
            looks.set(0);
            let found = queues.oldest(0, |slot| {
                looks.set(looks.get() + 1);
                slot.0 >= 3_000
            });
            assert!(looks.get() <= 128, "a request waits: {}", looks.get());
            found
        };
        let in_vain = (0..200).take_while(|_| search(&mut queues).is_none()).count();
        assert!((60..100).contains(&in_vain), "{in_vain} searches");
        for slot in 3_000..3_900 {
            assert_eq!(search(&mut queues), Some(SlotIndex(slot)));
            queues.unlink(SlotIndex(slot));
        }
    }

    #[test]
    fn what_was_passed_over_and_may_leave_by_now_is_found_before_what_is_newer() {
        let mut queues = blocked();
        while queues.oldest(0, |slot| slot.0 >= 3_000).is_none() {}
        let may_leave = |slot: SlotIndex| slot.0 == 700 || slot.0 >= 3_000;
        let mut found = Vec::new();
        while !found.contains(&700) {
            let slot = queues.oldest(0, may_leave).unwrap();
            queues.unlink(slot);
            found.push(slot.0);
        }
        assert!(found.len() < 100, "{} newer ones left before", found.len());
        // One of the very oldest is found at once, whatever is under way.
        assert_eq!(queues.oldest(0, |slot| slot.0 == 5 || slot.0 >= 3_000), Some(SlotIndex(5)));
    }

    /// Slots come, go and move while searches are under way; what a search finds is in the queue and may leave.
    #[test]
    fn searches_survive_that_the_queue_changes() {
        use rand::{RngExt, SeedableRng, rngs::StdRng};

        let mut random = StdRng::seed_from_u64(1);
        let mut queues = Queues::<2>::new(1_000);
        let mut last_found = 0;
        for step in 0..200_000 {
            let slot = SlotIndex(random.random_range(0..1_000));
            let queue = usize::from(slot.0.is_multiple_of(5));
            match (queues.queue_of(slot), random.random_range(0..8)) {
                (None, _) => queues.push(queue, slot),
                (Some(_), 0) => queues.unlink(slot),
                (Some(_), 1..5) => queues.renew(queue, slot),
                _ => {}
            }
            let wanted = random.random_range(0..1_000);
            let free = |slot: SlotIndex| slot.0.is_multiple_of(100) || slot.0 == wanted;
            if let Some(found) = queues.oldest(0, free) {
                assert!(free(found) && queues.queue_of(found) == Some(0));
                last_found = step;
            }
        }
        assert!(last_found > 199_000);
    }
}
