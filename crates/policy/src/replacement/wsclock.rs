//! WSClock (GreenDM, section 2.3): a clock whose hand spares extents that were referenced since its last round, and
//! takes one that was idle for longer than the working-set window.

use super::{Candidates, Capacity, ReplacementPolicy, SlotIndex};

/// Number of slots that the hand passes before it takes the one among them that was idle longest. This bounds the cost
/// of a victim when no extent has left the working set.
const MOST_EXAMINED: u32 = 8;

/// The state of the policy.
#[derive(Clone, Debug)]
pub struct Wsclock {
    hand: u32,
    slots: u32,
}

impl Wsclock {
    /// Makes the policy for an empty cache of this capacity.
    pub fn new(capacity: Capacity) -> Wsclock {
        Wsclock { hand: 0, slots: capacity.slots }
    }
}

impl ReplacementPolicy for Wsclock {
    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        // Two rounds of a small clock, because the first may only clear the reference bits.
        let most = MOST_EXAMINED.min(self.slots.saturating_mul(2));
        let (now, window) = (candidates.now(), candidates.window());
        let mut longest_idle: Option<(u64, SlotIndex)> = None;
        for _ in 0..most {
            let slot = SlotIndex(self.hand);
            self.hand = if self.hand + 1 >= self.slots { 0 } else { self.hand + 1 };
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
