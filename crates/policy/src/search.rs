//! A search for a victim that is bounded, and goes on next time where it ended.

use crate::replacement::SlotIndex;

/// How many of the oldest a search looks at first. A request waits for it, and those that may not leave (dirty, or with an access or a
/// move in flight) can be many in a row.
pub(crate) const OLDEST: usize = 64;
/// How many of those that earlier searches have passed over it looks at then, because they may leave by now.
const AGAIN: usize = 32;
/// How many it looks at beyond these.
const BEYOND: usize = 32;

/// Where a search goes on if none of the oldest may leave, in an order with places `P`. So it finds what an unbounded one would, if
/// need be after some calls.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search<P> {
    /// What was passed over lies before `beyond`, and is looked at once more from `again` on.
    pub again: P,
    pub beyond: P,
}

impl<P: Copy + PartialEq> Search<P> {
    /// No search is under way; `end` is the place behind the newest.
    pub const fn new(end: P) -> Search<P> {
        Search { again: end, beyond: end }
    }

    /// Goes on. `next`: the place after the oldest; `walk` looks at so many from a place on but not as far as another, and returns the slot
    /// that may leave with its place, or the place where it ended.
    #[cold]
    pub fn go_on(
        &mut self,
        next: P,
        end: P,
        mut walk: impl FnMut(P, P, usize) -> Result<(SlotIndex, P), P>,
    ) -> Option<SlotIndex> {
        let or_next = |place| if place == end { next } else { place };
        self.beyond = or_next(self.beyond);
        match walk(or_next(self.again), self.beyond, AGAIN) {
            Ok((slot, place)) => {
                self.again = place;
                return Some(slot);
            }
            Err(place) => self.again = if place == self.beyond { end } else { place },
        }
        let found = walk(self.beyond, end, BEYOND);
        self.beyond = found.map_or_else(|place| place, |(_, place)| place);
        found.ok().map(|(slot, _)| slot)
    }
}
