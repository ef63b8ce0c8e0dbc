//! WSClock (GreenDM, section 2.3): a clock whose hand spares what was referenced since its last round and takes what
//! has been idle for longer than the working-set window.

use super::{Replaces, SlotIndex, View};

/// How many slots the hand passes before it settles for the one that has been idle longest among them. Bounds the
/// cost of a victim when nothing has left the working set.
const MOST_EXAMINED: u32 = 8;

#[derive(Clone, Debug)]
pub(crate) struct Wsclock {
    hand: u32,
    slots: u32,
}

impl Wsclock {
    pub(super) fn new(slots: u32) -> Wsclock {
        Wsclock { hand: 0, slots }
    }
}

impl Replaces for Wsclock {
    fn victim(&mut self, view: &mut View<'_>) -> Option<SlotIndex> {
        // Two rounds of a small clock: the first may do no more than clear the reference bits.
        let most = MOST_EXAMINED.min(self.slots.saturating_mul(2));
        let (now, window) = (view.now, view.window);
        let mut longest_idle: Option<(u64, SlotIndex)> = None;
        for _ in 0..most {
            let slot = SlotIndex(self.hand);
            self.hand = if self.hand + 1 >= self.slots { 0 } else { self.hand + 1 };
            let Some(extent) = view.eligible(slot) else { continue };
            let idle = now.saturating_sub(extent.last_access);
            if std::mem::take(&mut extent.referenced) {
                continue;
            }
            if idle > window {
                return Some(slot);
            }
            if longest_idle.is_none_or(|(longest, _)| idle.0 > longest) {
                longest_idle = Some((idle.0, slot));
            }
        }
        // All were referenced within one pass: the hand has cleared them, and the first it meets now has waited most.
        longest_idle.map(|(_, slot)| slot).or_else(|| {
            (0..most).map(|step| SlotIndex((self.hand + step) % self.slots)).find(|slot| view.eligible(*slot).is_some())
        })
    }
}
