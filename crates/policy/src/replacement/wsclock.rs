//! WSClock (GreenDM, section 2.3): a clock whose hand spares extents that were referenced since its last round, and
//! takes one that was idle for longer than the working-set window.

use crate::saving::Saving;

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};

/// Number of slots that the hand passes before it takes the one among them that was idle longest. This bounds the cost
/// of a victim when no extent has left the working set. As many empty slots are passed besides.
const MOST_EXAMINED: u32 = 8;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Wsclock {
    hand: u32,
    slots: u32,
    /// The victim that was named last.
    named: SlotIndex,
}

impl Wsclock {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Wsclock {
        Wsclock { hand: 0, slots: capacity.slots, named: SlotIndex(0) }
    }

    #[inline]
    fn search<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        // Two rounds of a small clock, because the first may only clear the reference bits.
        let most = MOST_EXAMINED.min(self.slots.saturating_mul(2));
        let (now, window) = (candidates.now(), candidates.window());
        let mut longest_idle: Option<(u64, SlotIndex)> = None;
        let (mut left, mut empty) = (most, most);
        while left > 0 {
            let slot = SlotIndex(self.hand);
            self.hand = if self.hand + 1 >= self.slots { 0 } else { self.hand + 1 };
            if empty > 0 && candidates.is_empty(slot) {
                empty -= 1;
                continue;
            }
            left -= 1;
            let Some(candidate) = candidates.candidate(slot) else { continue };
            let idle = now.saturating_sub(candidate.last_access);
            if std::mem::take(candidate.referenced) {
                continue;
            }
            if idle > window {
                return Some(slot);
            }
            if longest_idle.is_none_or(|(longest, _)| idle.0 > longest) {
                longest_idle = Some((idle.0, slot));
            }
        }
        // All extents were referenced within one pass: the hand has cleared their bits, and the next one has waited
        // longest.
        longest_idle.map(|(_, slot)| slot).or_else(|| {
            (0..most).map(|step| SlotIndex((self.hand + step) % self.slots)).find(|slot| candidates.may_leave(*slot))
        })
    }
}

impl ReplacementPolicy for Wsclock {
    #[inline]
    fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex> {
        // The search for the last victim may have gone past it.
        let next = if victim == self.named { self.hand } else { victim.0 + 1 };
        Some(SlotIndex(if next >= self.slots { 0 } else { next }))
    }

    #[inline]
    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        let victim = self.search(candidates);
        self.named = victim.unwrap_or(self.named);
        victim
    }

    fn saved_version(&self) -> u32 {
        1
    }

    /// The hand alone: the rest is what the owner knows.
    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        to.put(0, &[self.hand]);
        true
    }

    fn load(&mut self, _list: u8, item: &[u32], _slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        if let [hand] = *item {
            self.hand = if hand < self.slots { hand } else { 0 };
        }
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::Nanos;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;
    use crate::replacement::Candidate;

    const NOW: u64 = 1_000;
    const WINDOW: u64 = 300;

    /// A slot: when its extent was last accessed, and whether since the hand passed it; `None` if it is empty.
    type Slot = Option<(Nanos, bool)>;

    /// The slots, and whether the owner says which are empty.
    struct Ring(Vec<Slot>, bool);

    impl Candidates for Ring {
        fn now(&self) -> Nanos {
            Nanos(NOW)
        }

        fn window(&self) -> Nanos {
            Nanos(WINDOW)
        }

        fn is_empty(&self, slot: SlotIndex) -> bool {
            self.1 && self.0[slot.index()].is_none()
        }

        fn candidate(&mut self, slot: SlotIndex) -> Option<Candidate<'_>> {
            let (last_access, referenced) = self.0[slot.index()].as_mut()?;
            Some(Candidate { last_access: *last_access, referenced })
        }
    }

    /// What the hand does on the paper's terms: the slots that it passes, and which of them it chooses.
    fn by_definition(before: &[Slot], hand: usize, says_empty: bool) -> (usize, Option<usize>) {
        let most = 8.min(2 * before.len());
        let (mut ring, mut unreferenced) = (before.to_vec(), Vec::new());
        let at = |step: usize| (hand + step) % before.len();
        let (mut step, mut examined, mut empty) = (0, 0, 0);
        while examined < most {
            examined += 1;
            match &mut ring[at(step)] {
                None if says_empty && empty < most => (examined, empty) = (examined - 1, empty + 1),
                None => {}
                // It was used since the last round, so it is in the working set.
                Some((_, referenced @ true)) => *referenced = false,
                // It has left the working set.
                Some((last, false)) if NOW - last.0 > WINDOW => return (step + 1, Some(at(step))),
                Some((last, false)) => unreferenced.push((last.0, step)),
            }
            step += 1;
        }
        // The one that was idle for the longest time, or else the next one that the hand will come to.
        let idle = unreferenced.into_iter().min().map(|(_, step)| at(step));
        (step, idle.or_else(|| (step..step + most).map(at).find(|slot| before[*slot].is_some())))
    }

    #[test]
    fn the_hand_spares_what_was_used_and_takes_what_left_the_working_set() {
        let mut random = StdRng::seed_from_u64(3);
        let mut seen = [0; 4];
        for size in [1, 2, 3, 5, 8, 9, 40] {
            for turn in 0..2_000 {
                let mut slot = || {
                    let last_access = Nanos(NOW - random.random_range(0..=WINDOW + WINDOW / 8));
                    random.random_bool(0.8).then(|| (last_access, random.random_bool(0.7)))
                };
                let mut ring = Ring((0..size).map(|_| slot()).collect(), turn % 2 == 0);
                let hand = random.random_range(0..size);
                let mut policy = Wsclock { hand: hand as u32, slots: size as u32, named: SlotIndex(0) };
                let before = ring.0.clone();
                let victim = policy.victim(&mut ring).map(SlotIndex::index);
                let (passed, chosen) = by_definition(&before, hand, turn % 2 == 0);
                assert_eq!(victim, chosen, "hand {hand} of {before:?}");
                assert_eq!(policy.hand as usize, (hand + passed) % size);
                for step in passed..size {
                    assert_eq!(ring.0[(hand + step) % size], before[(hand + step) % size], "the hand was not there");
                }
                let reason = match victim.and_then(|victim| before[victim]) {
                    None => 0,
                    Some((last, _)) if NOW - last.0 > WINDOW => 1,
                    Some((_, false)) => 2,
                    Some((_, true)) => 3,
                };
                seen[reason] += 1;
            }
        }
        assert!(seen.iter().all(|times| *times > 100), "each reason for a choice occurs: {seen:?}");
    }
}
