//! Recovery of one extent: where it is, according to its entry in the durable map and the events since that map was
//! written. The table of the test is the whole rule.

use peryton_format::{
    blocks::Masks,
    entry::MapEntry,
    map,
    mutation::{self, Mutation},
};

use crate::{
    cache::access::{Fenced, Mode},
    cache::map::extent::{Place, Valid},
};

/// An extent in the durable map: its entry, and the masks of the place that the entry names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::cache) struct State {
    pub(in crate::cache) entry: MapEntry,
    pub(in crate::cache) masks: Masks,
}

impl State {
    pub(in crate::cache) fn of(entry: MapEntry, masks: &[Masks]) -> State {
        State { entry, masks: map::masks_of(entry, masks) }
    }

    /// An extent of a cache with these blocks in a place; without blocks it has none.
    pub(in crate::cache) fn new(place: Option<Place>, masks: Masks, lost: bool) -> State {
        let place = place.filter(|_| !masks.is_empty());
        let masks = if place.is_some() { masks } else { Masks::default() };
        State { entry: MapEntry::new(place, masks.dirty() != 0, lost), masks }
    }
}

/// The rules by which an extent of the durable map is read: what has happened to the volume since its map was written.
#[derive(Clone, Copy, Debug)]
pub(in crate::cache) struct RecoveryRules {
    pub(in crate::cache) mode: Mode,
    pub(in crate::cache) gone: Fenced,
    /// All blocks of an extent (caching).
    pub(in crate::cache) all: u16,
    /// The valid one of copy and origin where the map calls a copy clean; `None`: they agree (caching).
    pub(in crate::cache) valid: Option<Valid>,
    /// Whether clean copies may lack what was made durable at their origins (caching).
    pub(in crate::cache) unflushed: bool,
    /// Whether the origins count alone, because another program has written to them (caching).
    pub(in crate::cache) trusts_origins: bool,
}

impl RecoveryRules {
    /// Drops a clean copy whose data may not be durable: its slot may belong to another extent by now. But where blocks are lost, only the
    /// place says which.
    pub(in crate::cache) fn without_stale_copies(&self, durable: State) -> State {
        let State { entry, masks } = durable;
        let drops = self.unflushed && self.mode == Mode::Caching && !entry.is_dirty() && masks.lost() == 0;
        if drops { State::new(None, Masks::default(), entry.is_lost()) } else { durable }
    }

    /// Where the extent is, after [`RecoveryRules::without_stale_copies`]. `is_on_gone`: its place is on a device that is gone.
    pub(in crate::cache) fn interpret(&self, durable: State, is_on_gone: bool) -> State {
        match self.mode {
            Mode::Tiering if is_on_gone => State::new(None, Masks::default(), true),
            Mode::Tiering => durable,
            Mode::Caching => self.copy(durable, is_on_gone),
        }
    }

    fn copy(&self, durable: State, is_on_gone: bool) -> State {
        let State { entry, masks } = durable;
        if is_on_gone || self.trusts_origins || entry.place().is_none() {
            // Dirty data are lost with their place, and a place that is gone no longer records which blocks are lost.
            let misses = is_on_gone && entry.is_dirty() || masks.lost() != 0 && !self.trusts_origins;
            return State::new(None, masks, entry.is_lost() || misses);
        }
        let mut masks = Masks::new(masks.valid() & self.all, masks.differs_from_origin() & self.all);
        if mutation::is(Mutation::ForgetMasks) {
            masks = Masks::new(self.all, masks.differs_from_origin());
        }
        if self.gone.slow {
            // The origin may be older than any block on the fast device.
            masks = masks.all_dirty();
            if mutation::is(Mutation::ForgetLostBlocks) {
                masks = Masks::new(self.all, self.all);
            }
        } else if let Some(valid) = self.valid {
            masks = valid.masks_after_crash(masks);
        }
        // The map keeps the place of what was lost with a device. If the device is there, it was not given up, and the place counts.
        State::new(entry.place(), masks, false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Fenced = Fenced { fast: false, slow: false };
    const FAST: Fenced = Fenced { fast: true, slow: false };
    const SLOW: Fenced = Fenced { fast: false, slow: true };
    const CALM: RecoveryRules = RecoveryRules {
        mode: Mode::Caching,
        gone: NONE,
        all: 15,
        valid: None,
        unflushed: false,
        trusts_origins: false,
    };

    /// An extent in place 3, of four blocks.
    fn here(valid: u16, differs_from_origin: u16) -> State {
        State::new(Some(Place(3)), Masks::new(valid, differs_from_origin), false)
    }

    fn nowhere(lost: bool) -> State {
        State::new(None, Masks::default(), lost)
    }

    #[test]
    fn what_has_happened_decides_what_the_map_means() {
        let copies = RecoveryRules { valid: Some(Valid::Copy), ..CALM };
        let origin_valid = RecoveryRules { valid: Some(Valid::Origin), ..CALM };
        let unflushed = RecoveryRules { unflushed: true, ..copies };
        let alone = RecoveryRules { trusts_origins: true, ..CALM };
        let tiers = RecoveryRules { mode: Mode::Tiering, all: 0, ..CALM };
        // The place was given to another extent, which is newer there.
        let shared = State { entry: MapEntry::new(Some(Place(3)), false, false), masks: Masks::new(7, 1) };
        let whole = State { entry: MapEntry::new(Some(Place(3)), false, false), masks: Masks::default() };
        for (rules, gone, durable, means) in [
            // It was closed.
            (CALM, NONE, here(7, 12), here(7, 12)),
            (CALM, NONE, nowhere(true), nowhere(true)),
            // It was lost with its device, which is there.
            (CALM, NONE, State::new(Some(Place(3)), Masks::new(7, 12), true), here(7, 12)),
            // The power was lost.
            (copies, NONE, here(7, 12), here(7, 15)),
            (origin_valid, NONE, here(7, 12), here(4, 12)),
            (origin_valid, NONE, here(7, 0), nowhere(false)),
            (unflushed, NONE, here(7, 0), nowhere(false)),
            (unflushed, NONE, here(7, 8), here(7, 15)),
            (unflushed, NONE, shared, nowhere(false)),
            (alone, NONE, here(7, 12), nowhere(false)),
            // The fast device is gone.
            (CALM, FAST, here(7, 0), nowhere(false)),
            (CALM, FAST, here(7, 1), nowhere(true)),
            (CALM, FAST, here(7, 8), nowhere(true)),
            // The slow device is gone, with what only the origin has.
            (copies, SLOW, here(7, 1), here(7, 7)),
            (copies, SLOW, here(7, 9), here(7, 15)),
            (unflushed, SLOW, here(7, 0), nowhere(false)),
            (CALM, SLOW, nowhere(false), nowhere(false)),
            (CALM, SLOW, nowhere(true), nowhere(true)),
            // Tiering has each extent once.
            (tiers, NONE, whole, whole),
            (tiers, FAST, whole, nowhere(true)),
            (tiers, SLOW, whole, whole),
            (tiers, SLOW, nowhere(false), nowhere(false)),
        ] {
            let counts = rules.without_stale_copies(durable);
            let is_on_gone = gone.fast && counts.entry.place().is_some();
            let found = RecoveryRules { gone, ..rules }.interpret(counts, is_on_gone);
            assert_eq!(found, means, "{rules:?} {durable:?}");
        }
    }
}
