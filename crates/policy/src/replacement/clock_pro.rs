//! CLOCK-Pro (Jiang, Chen and Zhang, USENIX ATC 2005): extents whose last two accesses lie close together are hot and stay; the
//! others are cold and leave. A hit only sets a mark. A cold extent that comes has a test period, as long as the time since the
//! last move of the hot extent that moved longest ago; it becomes hot if it is accessed again in that time, even if it has left
//! the cache. The target number of cold extents follows how many of them are.
//!
//! The paper has one circular list with three hands. The position before the hot hand is the list's head, where extents are
//! put. So the hands are at the hot extent, the cold extent and the extent in its test period that were put there longest ago,
//! and here each of the three kinds has a queue of its own, with the time of the last move to the head in common.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};
use crate::{
    ExtentTable, PerSlot, Queues,
    saving::{Saving, halves, whole},
};

/// The queues of cached extents.
const HOT: usize = 0;
const COLD: usize = 1;
/// The only queue of the extents in their test period, cached or not.
const TEST: usize = 0;
/// The numbers of lists where the state is saved: those of the queues of cached extents are theirs.
const TESTED: u8 = 2;
const FIGURES: u8 = 3;
/// The bits of the higher half of a time that are saved. Above them are flags: of an extent in its test period, whether it is a
/// ghost; of a cached one, its mark.
const MOST_HIGH: u32 = (1 << 30) - 1;
const GHOST: u32 = 1 << 30;
/// At least this part of the cache is for cold extents, and at most all but as much (the authors' program: 1 %).
const LEAST_PART: u64 = 100;
/// At least this many slots are for cold extents, as in the authors' program.
const LEAST_COLD: u64 = 2;
/// The most marks that the hands clear in search of one victim, where a request waits for it. After that the hot hand demotes
/// nothing, and the oldest cold extent leaves. The hot hand clears as many at most for an extent that comes again.
const MOST_SPARED: u32 = 1024;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct ClockPro {
    cached: Queues<2>,
    marked: PerSlot<bool>,
    /// Extents in their test period: slots have the even numbers, ghosts the odd ones.
    test: Queues<1>,
    /// When each slot and each ghost was put at the head of the list, counted in such moves.
    moved: PerSlot<u64>,
    moves: u64,
    size: u64,
    /// The paper's m_c, and the bounds within which it adapts.
    cold_target: u64,
    cold_bounds: (u64, u64),
    /// Whether nothing was evicted yet: the first extents are hot.
    filling: bool,
    /// The most marks that one search clears.
    most_spared: u32,
    /// The ghost of an extent, and the extent of each ghost.
    ghosts: ExtentTable,
    ghost_extents: Vec<u32>,
    free_ghosts: Vec<u32>,
    /// The sum of the sizes of ghosts.
    ghost_size: u64,
}

/// The place of a slot among the extents in their test period.
fn slot_node(slot: SlotIndex) -> SlotIndex {
    SlotIndex(slot.0 * 2)
}

/// The place of a ghost.
fn ghost_node(ghost: u32) -> SlotIndex {
    SlotIndex(ghost * 2 + 1)
}

/// What is at a place among the extents in their test period.
enum Node {
    Slot(SlotIndex),
    Ghost(u32),
}

fn at(node: SlotIndex) -> Node {
    if node.0 & 1 == 1 { Node::Ghost(node.0 / 2) } else { Node::Slot(SlotIndex(node.0 / 2)) }
}

impl ClockPro {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> ClockPro {
        let Capacity { slots, size } = capacity;
        let least = (size / LEAST_PART).max(LEAST_COLD).min(size);
        let most = (u128::from(size) * u128::from(LEAST_PART - 1) / u128::from(LEAST_PART)) as u64;
        let most = most.min(size - least).max(least);
        ClockPro {
            cached: Queues::new(slots),
            marked: PerSlot::new(slots),
            test: Queues::new(slots * 2),
            moved: PerSlot::new(slots * 2),
            moves: 0,
            size,
            cold_target: least,
            cold_bounds: (least, most),
            filling: true,
            most_spared: MOST_SPARED,
            ghosts: ExtentTable::default(),
            ghost_extents: Vec::new(),
            free_ghosts: Vec::new(),
            ghost_size: 0,
        }
    }

    fn new_ghost(&mut self, extent: u32, size: u32) -> u32 {
        let ghost = self.free_ghosts.pop().unwrap_or_else(|| {
            self.ghost_extents.push(0);
            self.ghost_extents.len() as u32 - 1
        });
        self.ghosts.insert(extent, ghost);
        self.ghost_extents[ghost as usize] = extent;
        self.ghost_size += u64::from(size);
        ghost
    }

    fn oldest(&self, queue: usize) -> Option<SlotIndex> {
        self.cached.first(queue)
    }

    fn is_tested(&self, node: SlotIndex) -> bool {
        self.test.queue_of(node).is_some()
    }

    /// When something that was saved had moved to the head.
    fn has_moved(&mut self, node: SlotIndex, [low, high]: [u32; 2]) {
        let moved = whole([low, high & MOST_HIGH]);
        self.moved.set(node, moved);
        self.moves = self.moves.max(moved);
    }

    fn adjust_cold_target(&mut self, up: bool, by: u32) {
        let (least, most) = self.cold_bounds;
        let by = u64::from(by);
        let target = if up { self.cold_target.saturating_add(by) } else { self.cold_target.saturating_sub(by) };
        self.cold_target = target.clamp(least, most);
    }

    /// Puts a cached extent at the head of the list, without its mark.
    fn put_at_head(&mut self, slot: SlotIndex, queue: usize, tested: bool) {
        let node = slot_node(slot);
        let size = self.cached.size_of(slot);
        self.cached.renew(queue, slot);
        if self.is_tested(node) {
            self.test.unlink(node);
        }
        if tested {
            self.test.push_sized(TEST, node, size);
        }
        self.marked.set(slot, false);
        self.moves += 1;
        self.moved.set(node, self.moves);
    }

    /// Takes an extent out of its test period, and out of the list if it is not cached.
    fn leave_test(&mut self, node: SlotIndex) {
        let size = self.test.size_of(node);
        self.test.unlink(node);
        if let Node::Ghost(ghost) = at(node) {
            self.ghosts.remove(self.ghost_extents[ghost as usize]);
            self.free_ghosts.push(ghost);
            self.ghost_size -= u64::from(size);
        }
    }

    /// Ends the test period of an extent: what was not accessed in it says that there are too many cold extents.
    fn end_test(&mut self, node: SlotIndex) {
        let accessed = matches!(at(node), Node::Slot(slot) if self.marked[slot]);
        let size = self.test.size_of(node);
        self.leave_test(node);
        self.adjust_cold_target(accessed, size);
    }

    /// Ends the test periods that the hot hand passes on its way to a position.
    fn end_tests_before(&mut self, position: u64) {
        while let Some(node) = self.test.first(TEST)
            && self.moved[node] < position
        {
            self.end_test(node);
        }
    }

    /// Ends the test periods of what moved before any hot extent did.
    fn settle(&mut self) {
        if let Some(hot) = self.oldest(HOT) {
            self.end_tests_before(self.moved[slot_node(hot)]);
        }
    }

    /// Moves the hot hand until it has made a hot extent cold; returns whether it has. It stops where it meets `trigger`, the
    /// cold extent for whose sake it moves: all hot extents were accessed later than this one.
    fn demotes_before(&mut self, trigger: SlotIndex, may_spare: &mut u32) -> bool {
        let limit = self.moved[trigger];
        let mut demoted = false;
        while !demoted
            && let Some(hot) = self.oldest(HOT)
            && self.moved[slot_node(hot)] < limit
        {
            self.end_tests_before(self.moved[slot_node(hot)]);
            demoted = !self.marked[hot];
            if !demoted {
                if *may_spare == 0 {
                    return false;
                }
                *may_spare -= 1;
            }
            self.put_at_head(hot, if demoted { COLD } else { HOT }, false);
        }
        if !demoted {
            self.end_tests_before(limit);
        }
        self.settle();
        demoted
    }

    /// Whether an extent that was accessed in its test period becomes hot. It does not if the hot hand finds no other one to
    /// make room for it (so in the authors' program).
    fn becomes_hot(&mut self, node: SlotIndex, may_spare: &mut u32) -> bool {
        let size = self.test.size_of(node);
        self.adjust_cold_target(true, size);
        if let Node::Slot(slot) = at(node) {
            self.marked[slot] = false;
        }
        while self.cached.size(HOT) + u64::from(size) > self.size - self.cold_target {
            if !self.is_tested(node) || !self.demotes_before(node, may_spare) {
                return false;
            }
        }
        true
    }
}

impl ReplacementPolicy for ClockPro {
    const LOOKS_AT_USES: bool = false;

    fn inserted(&mut self, slot: SlotIndex, extent: u32, size: u32) {
        let cached = self.cached.size(HOT) + self.cached.size(COLD);
        let fills = self.filling && self.size.saturating_sub(cached + u64::from(size) - 1) > self.cold_bounds.0;
        let hot = match self.ghosts.get(extent) {
            Some(ghost) => {
                let node = ghost_node(ghost);
                let hot = self.becomes_hot(node, &mut { self.most_spared });
                if self.is_tested(node) {
                    self.leave_test(node);
                }
                hot
            }
            None => fills,
        };
        let queue = if hot { HOT } else { COLD };
        self.cached.push_sized(queue, slot, size);
        self.put_at_head(slot, queue, !hot);
        self.settle();
    }

    #[inline]
    fn prefetch(&self, slot: SlotIndex) {
        self.marked.prefetch(slot);
    }

    #[inline]
    fn accessed(&mut self, slot: SlotIndex) {
        self.marked[slot] = true;
    }

    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        self.filling &= !evicted;
        let (node, size) = (slot_node(slot), self.cached.size_of(slot));
        self.cached.unlink(slot);
        self.marked[slot] = false;
        if !self.is_tested(node) {
            return self.settle();
        }
        if !evicted {
            self.test.unlink(node);
            return;
        }
        let ghost = self.new_ghost(extent, size);
        self.test.replace(node, ghost_node(ghost));
        self.moved.set(ghost_node(ghost), self.moved[node]);
        // The test hand keeps ghosts at the size of the cache (section 4.3).
        while self.ghost_size > self.size
            && let Some(oldest) = self.test.first(TEST)
        {
            self.end_test(oldest);
        }
    }

    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        // Where nothing waits, each mark is cleared.
        let all = self.cached.len(HOT).saturating_add(self.cached.len(COLD)).saturating_mul(2);
        self.most_spared = if candidates.is_awaited() { MOST_SPARED } else { all };
        let mut may_spare = self.most_spared;
        while may_spare > 0
            && let Some(slot) = self.cached.oldest(COLD, |slot| candidates.may_leave(slot))
        {
            if !self.marked[slot] {
                return Some(slot);
            }
            may_spare -= 1;
            let node = slot_node(slot);
            let hot = self.is_tested(node) && self.becomes_hot(node, &mut may_spare);
            self.put_at_head(slot, if hot { HOT } else { COLD }, !hot);
            self.settle();
        }
        [COLD, HOT].into_iter().find_map(|queue| self.cached.oldest(queue, |slot| candidates.may_leave(slot)))
    }

    fn saved_version(&self) -> u32 {
        1
    }

    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let extent_in = to.extent_in();
        loop {
            let complete = match to.part() {
                0 => {
                    let [low, high] = halves(self.moves);
                    let [cold, cold_high] = halves(self.cold_target);
                    to.put(FIGURES, &[low, high, cold, cold_high, u32::from(self.filling), self.most_spared]);
                    true
                }
                part @ 1..3 => {
                    let queue = part as usize - 1;
                    to.queue(queue as u8, &mut self.cached, queue, |slot| {
                        let [low, high] = halves(self.moved[slot_node(slot)]);
                        Some([extent_in(slot)?, low, high & MOST_HIGH | u32::from(self.marked[slot]) << 31])
                    })
                }
                3 => to.queue(TESTED, &mut self.test, TEST, |node| {
                    let [low, high] = halves(self.moved[node]);
                    match at(node) {
                        Node::Slot(slot) => Some([extent_in(slot)?, low, high & MOST_HIGH]),
                        Node::Ghost(ghost) => Some([self.ghost_extents[ghost as usize], low, high & MOST_HIGH | GHOST]),
                    }
                }),
                _ => return true,
            };
            if !to.next_if(complete) {
                return false;
            }
        }
    }

    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        match (list, item) {
            (FIGURES, [low, high, target, target_high, filling, spared]) => {
                let (least, most) = self.cold_bounds;
                self.moves = whole([*low, high & MOST_HIGH]);
                self.cold_target = whole([*target, *target_high]).clamp(least, most);
                self.filling = *filling != 0;
                self.most_spared = u64::from(*spared).min(2 * self.size.max(u64::from(MOST_SPARED))) as u32;
            }
            (0 | 1, [extent, low, high]) => {
                let Some(slot) = slot_of(*extent) else { return };
                self.cached.put(usize::from(list), slot);
                self.marked.set(slot, high >> 31 == 1);
                self.has_moved(slot_node(slot), [*low, *high]);
            }
            (TESTED, [extent, low, high]) if high & GHOST == GHOST => {
                if slot_of(*extent).is_some_and(|slot| self.knows(slot)) {
                    return;
                }
                let known = self.ghosts.get(*extent);
                if known.is_none() && self.ghost_size >= self.size {
                    return;
                }
                let ghost = known.unwrap_or_else(|| self.new_ghost(*extent, 1));
                let node = ghost_node(ghost);
                self.test.put(TEST, node);
                self.has_moved(node, [*low, *high]);
            }
            (TESTED, [extent, low, high]) => {
                let Some(slot) = slot_of(*extent).filter(|slot| self.cached.queue_of(*slot) == Some(COLD)) else {
                    return;
                };
                self.test.put(TEST, slot_node(slot));
                self.has_moved(slot_node(slot), [*low, *high]);
            }
            _ => {}
        }
    }

    fn loaded(&mut self) {
        self.settle();
    }

    fn knows(&self, slot: SlotIndex) -> bool {
        self.cached.queue_of(slot).is_some()
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::Nanos;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use crate::{BareCache, Replacement};

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Status {
        Hot,
        Cold,
        /// Cold, cached, in its test period.
        Tested,
        /// Cold, not cached, in its test period.
        Gone,
    }

    #[derive(Clone, Copy, Debug)]
    struct Page {
        extent: u32,
        status: Status,
        marked: bool,
    }

    /// The algorithm as the paper gives it (sections 4.1 to 4.3), on one list with its head at the end. The hands are found
    /// again each time.
    struct Plain {
        list: Vec<Page>,
        size: usize,
        target: usize,
        least: usize,
        most: usize,
    }

    impl Plain {
        fn new(size: usize) -> Plain {
            let least = (size / 100).max(2).min(size);
            let most = (size * 99 / 100).min(size - least).max(least);
            Plain { list: Vec::new(), size, target: least, least, most }
        }

        fn count(&self, of: impl Fn(Status) -> bool) -> usize {
            self.list.iter().filter(|page| of(page.status)).count()
        }

        fn hand(&self, of: impl Fn(Status) -> bool) -> Option<usize> {
            self.list.iter().position(|page| of(page.status))
        }

        fn place(&self, extent: u32) -> Option<usize> {
            self.list.iter().position(|page| page.extent == extent)
        }

        fn adjust(&mut self, by: isize) {
            self.target = self.target.saturating_add_signed(by).clamp(self.least, self.most);
        }

        fn put_at_head(&mut self, place: usize, status: Status) {
            let page = self.list.remove(place);
            self.list.push(Page { status, marked: false, ..page });
        }

        fn end_test(&mut self, place: usize) {
            let Page { status, marked, .. } = self.list[place];
            match status {
                Status::Tested => self.list[place].status = Status::Cold,
                Status::Gone => {
                    self.list.remove(place);
                }
                Status::Hot | Status::Cold => return,
            }
            self.adjust(if marked { 1 } else { -1 });
        }

        /// The hot hand goes from the last hot page towards the head, and does the test hand's work on its way.
        fn run_hot_hand(&mut self, trigger: u32) -> bool {
            let mut demoted = false;
            let mut hand = self.hand(|status| status == Status::Hot).unwrap_or(0);
            while !demoted && self.list[hand].extent != trigger {
                let Page { status, marked, .. } = self.list[hand];
                match status {
                    Status::Hot => {
                        demoted = !marked;
                        // The hand then points at the page that follows, which has moved into this place.
                        self.put_at_head(hand, if marked { Status::Hot } else { Status::Cold });
                    }
                    Status::Gone => self.end_test(hand),
                    Status::Cold | Status::Tested => {
                        self.end_test(hand);
                        hand += 1;
                    }
                }
            }
            self.settle();
            demoted
        }

        /// No page behind the hot hand is in its test period.
        fn settle(&mut self) {
            let mut place = 0;
            while let Some(hot) = self.hand(|status| status == Status::Hot)
                && place < hot
            {
                let before = self.list.len();
                self.end_test(place);
                place += usize::from(self.list.len() == before);
            }
        }

        fn becomes_hot(&mut self, extent: u32) -> bool {
            let tested = |plain: &Plain| {
                let place = plain.place(extent)?;
                matches!(plain.list[place].status, Status::Tested | Status::Gone).then_some(place)
            };
            let Some(place) = tested(self) else { return false };
            self.adjust(1);
            self.list[place].marked = false;
            while self.count(|status| status == Status::Hot) >= self.size - self.target {
                if tested(self).is_none() || !self.run_hot_hand(extent) {
                    return false;
                }
            }
            true
        }

        fn run_cold_hand(&mut self) {
            let resident = |status| matches!(status, Status::Cold | Status::Tested);
            let place = self.hand(resident).expect("some page is cold");
            let Page { extent, status, marked } = self.list[place];
            if marked {
                let hot = status == Status::Tested && self.becomes_hot(extent);
                let place = self.place(extent).expect("it is cached");
                self.put_at_head(place, if hot { Status::Hot } else { Status::Tested });
                return self.settle();
            }
            if status == Status::Cold {
                self.list.remove(place);
            } else {
                self.list[place].status = Status::Gone;
            }
            while self.count(|status| status == Status::Gone) > self.size {
                let test = self.hand(|status| matches!(status, Status::Tested | Status::Gone));
                self.end_test(test.expect("some are not cached"));
            }
        }

        fn access(&mut self, extent: u32) -> bool {
            let cached = |plain: &Plain| plain.count(|status| status != Status::Gone);
            if let Some(place) = self.place(extent)
                && self.list[place].status != Status::Gone
            {
                self.list[place].marked = true;
                return true;
            }
            let free = self.size - cached(self);
            while cached(self) == self.size {
                self.run_cold_hand();
            }
            let status = match self.place(extent) {
                // (Its own test period may end meanwhile.)
                Some(_) if self.becomes_hot(extent) => Status::Hot,
                None if free > self.least => Status::Hot,
                _ => Status::Tested,
            };
            if let Some(place) = self.place(extent) {
                self.list.remove(place);
            }
            self.list.push(Page { extent, status, marked: false });
            self.settle();
            false
        }
    }

    #[test]
    fn hits_and_misses_are_those_of_the_paper() {
        let mut random = StdRng::seed_from_u64(7);
        for size in [1usize, 2, 3, 5, 10, 60, 250] {
            let mut cache = BareCache::new(Replacement::ClockPro, size as u32, Nanos(1));
            let (mut plain, mut hits) = (Plain::new(size), 0);
            for step in 0..20_000u64 {
                let drawn: f64 = random.random();
                let extent = match step % 4_000 {
                    // A loop that is a little larger than the cache.
                    0..1_500 => step as u32 % (size as u32 * 5 / 4 + 1),
                    _ => (drawn * drawn * 4.0 * size as f64) as u32,
                };
                let (want, got) = (plain.access(extent), cache.access(Nanos(step), extent));
                assert_eq!(want, got, "step {step} of {size} entries: extent {extent}");
                hits += u32::from(got);
            }
            assert!((2_000..18_000).contains(&hits) || size < 5, "{hits} hits tell little");
        }
    }

    #[test]
    fn a_loop_that_is_larger_than_the_cache_is_kept_in_part() {
        let caches = [Replacement::ClockPro, Replacement::Lru].map(|policy| BareCache::new(policy, 1_000, Nanos(1)));
        let hits = caches.map(|mut cache| (0..200_000).filter(|step| cache.access(Nanos(1), step % 1_300)).count());
        assert!(hits[0] > 100_000 && hits[1] == 0, "{hits:?}");
    }
}
