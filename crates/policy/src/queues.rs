//! Queues through slots, for LRU, FIFO and related policies.

use peryton_units::prefetch;

use crate::replacement::SlotIndex;

const NONE: u32 = u32::MAX;

/// The most slots that are examined from the end of a queue for one that may leave: it bounds the time that a request waits for a victim.
/// Those passed over have an access or a move in flight, or are dirty where only what is clean may leave. If all of these are such, none is
/// found: the caller cleans some first, or passes the cache by.
const MOST_EXAMINED: usize = 128;

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
    len: u32,
    size: u64,
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
/// assert_eq!(queues.oldest(0, |_| true), Some(SlotIndex(1)));
/// ```
#[derive(Clone, Debug)]
pub struct Queues<const N: usize> {
    links: Vec<Link>,
    ends: [Ends; N],
    /// The slot that is read next, while a queue is read from its old end on.
    reader: u32,
}

const NO_QUEUE: u8 = u8::MAX;

impl<const N: usize> Queues<N> {
    /// Makes empty queues for the slots from 0 to `slots` - 1.
    pub fn new(slots: u32) -> Queues<N> {
        Queues {
            links: vec![UNLINKED; slots as usize],
            ends: [Ends { newest: NONE, oldest: NONE, len: 0, size: 0 }; N],
            reader: NONE,
        }
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

    /// Prefetches the slot's links into the processor's cache.
    #[inline]
    pub fn prefetch(&self, SlotIndex(slot): SlotIndex) {
        if let Some(link) = self.links.get(slot as usize) {
            prefetch(link);
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

    /// The first slot that `may_leave`, from the oldest of `queue` on; `None` if there is none among the first 128.
    #[inline]
    pub fn oldest(&self, queue: usize, mut may_leave: impl FnMut(SlotIndex) -> bool) -> Option<SlotIndex> {
        let mut slot = self.ends[queue].oldest;
        for _ in 0..MOST_EXAMINED {
            if slot == NONE {
                return None;
            }
            if may_leave(SlotIndex(slot)) {
                return Some(SlotIndex(slot));
            }
            slot = self.links[slot as usize].newer;
        }
        None
    }
}
