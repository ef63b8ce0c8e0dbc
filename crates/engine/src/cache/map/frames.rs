//! Frames: the room for an extent on the fast device, in which its slot is. Where extents are there in part, two slots share a frame, and
//! so do the extents in them, as long as no block of one has the offset of a block of the other. (Tags that share data in this way make
//! a decoupled sectored cache: Seznec, ISCA 1994.)
//!
//! A slot *claims* a block before anything is written there, and keeps it until the slot is free, which is when the durable map does not
//! point to it any more. So what is durable of one extent is never overwritten for another one.
//!
//! Sharing pays where most extents have few blocks. Where they go on to need more, an extent is refused blocks, which go past the fast
//! device, and the other one has to leave. So no further frame is shared while many blocks are claimed on average, nor for some time after
//! many refusals.

use peryton_format::mutation::{self, Mutation};
use peryton_policy::replacement::SlotIndex;

use crate::cache::map::index_set::IndexSet;

/// log2 of the number of slots that share a frame.
pub(in crate::cache) const SHARING: u32 = 1;
/// A frame is shared while its extent has claimed at most one of so many blocks: one with more is likely to need others.
const FEW: u32 = 8;
/// How many open slots are looked at for one whose frame has room for the blocks of an extent.
const MOST_LOOKED_AT: u32 = 16;
/// Frames are shared until of those in use more than one of so many blocks is claimed on average, or more than so many blocks are. Then no
/// further one is shared until it is three quarters of that, so that extents do not leave and come back by turns.
const SPARSE: u32 = 4;
const FEWEST_SPARSE: u32 = 2;
/// Frames are shared while at most one refusal comes to so many slots given out beside another extent, but for the first ones.
const GIVEN_FOR_REFUSAL: u32 = 8;
const FIRST_REFUSALS: u32 = 64;
/// Both counts are halved when so many were given out.
const SPAN: u32 = 4096;
/// After too many refusals no frame is shared until as many slots were given out as there are frames, or so many.
const LEAST_PAUSE: u32 = 4096;

/// What a slot is to its frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    Free,
    /// It has, or is reserved for, an extent.
    Taken,
    /// It was given up, and is not free yet.
    GivenUp,
}

/// What is counted of a frame: flags.
type State = u8;
/// It has an extent.
const IN_USE: State = 1;
/// Both slots are free.
const EMPTY: State = 2;
/// The one slot or the other is free, and the other one has an extent with few blocks.
const OPEN: [State; 2] = [4, 8];
/// A slot will be open once it is free.
const COMING: State = 16;

/// The frames of a fast device.
#[derive(Debug)]
pub(super) struct Frames {
    /// For each slot, the blocks that it has claimed.
    claimed: Vec<u16>,
    states: Vec<State>,
    empty: IndexSet,
    open: IndexSet,
    in_use: u32,
    coming: u32,
    /// An extent with at most so many blocks shares its frame.
    most_claimed: u32,
    /// Frames are shared until more than so many blocks of each are claimed on average.
    sparse: u32,
    /// How many blocks are claimed, and whether that is too many.
    claims: u64,
    is_dense: bool,
    /// Where the search for an open slot goes on.
    next: u32,
    /// Frames from this one on are not to be used any more.
    end: u32,
    /// How many slots were given out beside another extent, and how often a claim was refused.
    given: u32,
    refused: u32,
    /// How many slots are given out before frames are shared again; zero while they are.
    pause: u32,
}

impl Frames {
    /// Makes as many as these slots are in, all of which are free. `blocks`: the number of blocks of an extent.
    pub(super) fn new(slots: u32, blocks: u32) -> Frames {
        let frames = slots >> SHARING;
        Frames {
            claimed: vec![0; slots as usize],
            states: vec![EMPTY; frames as usize],
            empty: IndexSet::full(frames),
            open: IndexSet::empty(slots),
            in_use: 0,
            coming: 0,
            most_claimed: (blocks / FEW).max(1),
            sparse: (blocks / SPARSE).max(FEWEST_SPARSE),
            claims: 0,
            is_dense: false,
            next: 0,
            end: frames,
            given: 0,
            refused: 0,
            pause: 0,
        }
    }

    /// The other slot of the frame.
    #[inline]
    pub(super) fn beside(slot: SlotIndex) -> SlotIndex {
        SlotIndex(slot.0 ^ 1)
    }

    /// The blocks that a slot has claimed.
    #[inline]
    pub(super) fn claimed(&self, slot: SlotIndex) -> u16 {
        self.claimed[slot.index()]
    }

    /// Claims these blocks, unless the other slot of the frame has claimed one of them.
    pub(super) fn claim(&mut self, slot: SlotIndex, blocks: u16, used: impl Fn(u32) -> Use) -> bool {
        if blocks & self.claimed(Self::beside(slot)) != 0 && !mutation::is(Mutation::ClaimTaken) {
            self.refused = self.refused.saturating_add(1);
            if self.pause == 0 && self.refused > self.given / GIVEN_FOR_REFUSAL + FIRST_REFUSALS {
                self.pause = (self.states.len() as u32).max(LEAST_PAUSE);
            }
            return false;
        }
        let new = blocks & !self.claimed(slot);
        if new != 0 {
            self.claimed[slot.index()] |= blocks;
            self.claims += u64::from(new.count_ones());
            self.recount(slot, used);
        }
        true
    }

    /// A slot is free from now on: it claims nothing.
    pub(super) fn freed(&mut self, slot: SlotIndex, used: impl Fn(u32) -> Use) {
        self.unclaim(slot);
        self.recount(slot, used);
    }

    fn unclaim(&mut self, slot: SlotIndex) {
        let claimed = std::mem::take(&mut self.claimed[slot.index()]);
        self.claims -= u64::from(claimed.count_ones());
    }

    /// A slot has been given up, and will be free later.
    pub(super) fn given_up(&mut self, slot: SlotIndex, used: impl Fn(u32) -> Use) {
        if mutation::is(Mutation::UnclaimEarly) {
            self.unclaim(slot);
        }
        self.recount(slot, used);
    }

    /// Counts the frame of a slot again, which has changed.
    pub(super) fn recount(&mut self, slot: SlotIndex, used: impl Fn(u32) -> Use) {
        let frame = slot.0 >> SHARING;
        let state = if frame < self.end { self.state(frame, used) } else { 0 };
        let before = std::mem::replace(&mut self.states[frame as usize], state);
        if before != state {
            self.change_state(frame, before, state);
        }
        let most = u64::from(self.in_use) * u64::from(self.sparse);
        self.is_dense = self.claims > if self.is_dense { most / 4 * 3 } else { most };
    }

    fn change_state(&mut self, frame: u32, before: State, state: State) {
        let change = |count: &mut u32, flag: State| {
            *count = *count + u32::from(state & flag != 0) - u32::from(before & flag != 0);
        };
        change(&mut self.in_use, IN_USE);
        change(&mut self.coming, COMING);
        let set = |set: &mut IndexSet, index: u32, flag: State| match (before & flag != 0, state & flag != 0) {
            (false, true) => set.put(index),
            (true, false) => set.take(index),
            _ => {}
        };
        set(&mut self.empty, frame, EMPTY);
        for (slot, flag) in Self::slots_of(frame).into_iter().zip(OPEN) {
            set(&mut self.open, slot, flag);
        }
    }

    fn slots_of(frame: u32) -> [u32; 2] {
        [frame << SHARING, (frame << SHARING) + 1]
    }

    fn state(&self, frame: u32, used: impl Fn(u32) -> Use) -> State {
        let slots = Self::slots_of(frame);
        let (taken, other) = match slots.map(used) {
            [Use::Free, Use::Free] => return EMPTY,
            [Use::Taken, Use::Taken] => return IN_USE,
            [Use::Taken, other] => (0, other),
            [other, Use::Taken] => (1, other),
            _ => return 0,
        };
        let few = self.claimed[slots[taken] as usize].count_ones() <= self.most_claimed;
        match other {
            _ if !few => IN_USE,
            Use::Free => IN_USE | OPEN[1 - taken],
            _ => IN_USE | COMING,
        }
    }

    /// Whether frames are shared, and not only those that already are.
    pub(super) fn are_shared(&self) -> bool {
        self.pause == 0 && !self.is_dense
    }

    /// Chooses a free slot in whose frame there is room for these blocks: of an empty frame, as long as there is one.
    pub(super) fn choose(&mut self, blocks: u16) -> Option<SlotIndex> {
        if self.pause > 0 {
            self.pause -= 1;
            if self.pause == 0 {
                (self.given, self.refused) = (0, 0);
            }
        }
        if let Some(frame) = self.empty.next_from(0) {
            return Some(SlotIndex(frame << SHARING));
        }
        if !self.are_shared() {
            return None;
        }
        for _ in 0..MOST_LOOKED_AT.min(self.open.count()) {
            let slot = SlotIndex(self.open.next_from(self.next).or_else(|| self.open.next_from(0))?);
            self.next = slot.0 + 1;
            if blocks & self.claimed(Self::beside(slot)) == 0 {
                self.given += 1;
                if self.given >= SPAN {
                    (self.given, self.refused) = (self.given / 2, self.refused / 2);
                }
                return Some(slot);
            }
        }
        None
    }

    /// Whether a frame is empty.
    pub(super) fn has_empty(&self) -> bool {
        self.empty.count() > 0
    }

    /// How many slots can be given out at once.
    pub(super) fn available(&self) -> u32 {
        self.empty.count() + if self.are_shared() { self.open.count() } else { 0 }
    }

    /// How many slots can be given out, at once or when those given up are free.
    pub(super) fn room(&self) -> u32 {
        let shared = if self.are_shared() { self.open.count() + self.coming } else { 0 };
        self.end - self.in_use.min(self.end) + shared
    }

    /// From now on the frames from the one of this slot on are not to be used, and all before it are.
    pub(super) fn end_at(&mut self, slot: u32, used: impl Fn(u32) -> Use) {
        let before = std::mem::replace(&mut self.end, slot >> SHARING);
        for frame in self.end.min(before)..self.end.max(before) {
            self.recount(SlotIndex(frame << SHARING), &used);
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    const BLOCKS: u32 = 16;

    /// What a plain count of the frames says: in use, empty, open, coming.
    fn counted(claimed: &[u16], uses: &[Use], end: u32) -> [u32; 4] {
        let mut counts = [0; 4];
        for frame in 0..end as usize {
            let [a, b] = [2 * frame, 2 * frame + 1];
            counts[0] += u32::from(uses[a] == Use::Taken || uses[b] == Use::Taken);
            counts[1] += u32::from(uses[a] == Use::Free && uses[b] == Use::Free);
            for (one, other) in [(a, b), (b, a)] {
                if uses[other] == Use::Taken && claimed[other].count_ones() <= BLOCKS / FEW {
                    counts[2] += u32::from(uses[one] == Use::Free);
                    counts[3] += u32::from(uses[one] == Use::GivenUp);
                }
            }
        }
        counts
    }

    #[test]
    fn the_counts_are_those_of_a_plain_count() {
        const SLOTS: u32 = 40;
        let mut rng = StdRng::seed_from_u64(1);
        let mut frames = Frames::new(SLOTS, BLOCKS);
        let mut uses = vec![Use::Free; SLOTS as usize];
        let mut end = SLOTS / 2;
        let mut steps = [0; 6];
        for _ in 0..20_000 {
            let slot = rng.random_range(0..SLOTS);
            let at = slot as usize;
            let step = rng.random_range(0..6);
            let done = match (step, uses[at]) {
                (0, _) => {
                    let blocks = 1u16 << rng.random_range(0..BLOCKS);
                    frames.choose(blocks).inspect(|slot| {
                        assert_eq!(uses[slot.index()], Use::Free);
                        assert!(slot.0 < 2 * end);
                        assert_eq!(frames.claimed(Frames::beside(*slot)) & blocks, 0);
                        uses[slot.index()] = Use::Taken;
                        frames.recount(*slot, |slot| uses[slot as usize]);
                        assert!(frames.claim(*slot, blocks, |slot| uses[slot as usize]));
                    });
                    true
                }
                (1, Use::Taken) => {
                    let (blocks, before) = (rng.random::<u16>() & rng.random::<u16>(), frames.claimed(SlotIndex(slot)));
                    let beside = frames.claimed(Frames::beside(SlotIndex(slot)));
                    let claimed = frames.claim(SlotIndex(slot), blocks, |slot| uses[slot as usize]);
                    assert_eq!(claimed, blocks & beside == 0);
                    let now = frames.claimed(SlotIndex(slot));
                    assert_eq!(now, if claimed { before | blocks } else { before });
                    true
                }
                (2, Use::Taken) => {
                    uses[at] = Use::GivenUp;
                    frames.given_up(SlotIndex(slot), |slot| uses[slot as usize]);
                    true
                }
                (3, Use::GivenUp) => {
                    uses[at] = Use::Free;
                    frames.freed(SlotIndex(slot), |slot| uses[slot as usize]);
                    assert_eq!(frames.claimed(SlotIndex(slot)), 0);
                    true
                }
                (4, Use::GivenUp) => {
                    // It is taken back, with what it has claimed.
                    uses[at] = Use::Taken;
                    frames.recount(SlotIndex(slot), |slot| uses[slot as usize]);
                    true
                }
                (5, _) if rng.random_ratio(1, 20) => {
                    end = rng.random_range(1..=SLOTS / 2);
                    frames.end_at(2 * end, |slot| uses[slot as usize]);
                    true
                }
                _ => false,
            };
            steps[step] += u32::from(done);
            let found = [frames.in_use, frames.empty.count(), frames.open.count(), frames.coming];
            assert_eq!(found, counted(&frames.claimed, &uses, end));
        }
        let claimed: u32 = frames.claimed.iter().map(|blocks| blocks.count_ones()).sum();
        assert_eq!(u64::from(claimed), frames.claims);
        assert!(steps.iter().all(|count| *count > 100), "{steps:?}");
    }

    #[test]
    fn frames_are_shared_when_none_is_empty_and_blocks_differ() {
        let mut frames = Frames::new(8, BLOCKS);
        let mut uses = [Use::Free; 8];
        let mut take = |frames: &mut Frames, blocks: u16| {
            let slot = frames.choose(blocks)?;
            uses[slot.index()] = Use::Taken;
            frames.recount(slot, |slot| uses[slot as usize]);
            assert!(frames.claim(slot, blocks, |slot| uses[slot as usize]));
            Some(slot.0)
        };
        let first: Vec<_> = (0..4).map(|block| take(&mut frames, 1 << block)).collect();
        assert_eq!(first, [0, 2, 4, 6].map(Some), "empty frames first");
        assert_eq!(frames.room(), 4);
        // Frames 0 to 3 have block 0 to 3.
        assert_eq!([take(&mut frames, 0b1011), take(&mut frames, 0b0111)], [Some(5), Some(7)]);
        assert_eq!(take(&mut frames, 0b0011), None);
        assert_eq!(frames.room(), 2);
        // Four frames have 13 blocks then, and with another one more than a quarter.
        assert_eq!([take(&mut frames, 0b1110), take(&mut frames, 0b1100)], [Some(1), Some(3)]);
        assert_eq!((frames.room(), frames.available(), frames.claims), (0, 0, 15));
        assert!(frames.are_shared());
        assert!(frames.claim(SlotIndex(0), 0b11 << 14, |_| Use::Taken) && !frames.are_shared());
        // Four frames may have 16, and 12 before they are shared again.
        for (slot, shared) in [(1, false), (3, true)] {
            uses[slot] = Use::Free;
            frames.freed(SlotIndex(slot as u32), |slot| uses[slot as usize]);
            assert_eq!(frames.are_shared(), shared, "{} blocks", frames.claims);
        }
    }

    #[test]
    fn nothing_is_shared_for_a_while_after_many_refusals() {
        let mut frames = Frames::new(2 * LEAST_PAUSE, BLOCKS);
        // Every frame has an extent.
        let used = |slot: u32| if slot.is_multiple_of(2) { Use::Taken } else { Use::Free };
        for slot in (0..2 * LEAST_PAUSE).step_by(2) {
            frames.recount(SlotIndex(slot), used);
            assert!(frames.claim(SlotIndex(slot), 1, used));
        }
        assert!(!(0..FIRST_REFUSALS).any(|_| frames.claim(SlotIndex(1), 1, used)));
        assert!(frames.choose(2).is_some() && frames.room() == LEAST_PAUSE);
        assert!(!frames.claim(SlotIndex(1), 1, used) && !frames.are_shared());
        assert_eq!((frames.room(), frames.available()), (0, 0));
        assert!((1..LEAST_PAUSE).all(|_| frames.choose(2).is_none()));
        assert!(frames.choose(2).is_some() && frames.room() == LEAST_PAUSE, "it is tried again");
    }
}
