//! Empties the slots beyond the new end of a fast device that becomes smaller, while the drive goes on. Dirty extents are written back
//! and dropped, clean ones are dropped, and no extent enters these slots.

use peryton_format::mutation::{self, Mutation};
use peryton_policy::replacement::SlotIndex;
use peryton_units::{Bytes, Nanos};

use crate::{
    cache::access::{Mode, Release},
    cache::drive::CacheDrive,
    cache::map::changed::NoRecord,
    cache::map::extent::Place,
    cache::step::{CacheCall, CacheIo},
};

/// The most slots that are looked at with one call, and the most clean extents that are given up.
const MOST_LOOKED_AT: u32 = 2_048;
const MOST_DROPPED: u32 = 64;
/// The most extents that are being written back for this.
const MOST_LEAVING: u32 = 8;
/// The pause between two calls, and between two rounds over all slots.
const PAUSE: Nanos = Nanos::from_ms(1);
const ROUND_PAUSE: Nanos = Nanos::from_ms(20);

/// The slots that are being emptied.
#[derive(Debug)]
pub(in crate::cache) struct Emptying {
    /// The first slot that is given up.
    pub(in crate::cache) from: u32,
    /// The next slot to look at.
    next: u32,
    /// Whether every slot was looked at once: extents that are still there are written again and again.
    is_again: bool,
    /// The most bytes that are written back in a second; zero: no bound.
    rate: Bytes,
    goes_on_at: Nanos,
}

impl CacheDrive {
    /// Begins to empty the slots from this one on; from now on at most `usable` slots are used. Returns false if only these slots record
    /// which blocks are lost.
    pub(in crate::cache) fn begin_emptying(&mut self, io: &mut CacheIo, from: u32, usable: u32, rate: Bytes) -> bool {
        let mut slots = (from..self.layout.fast_slots).map(SlotIndex);
        if slots.any(|slot| self.map.masks(slot).lost() != 0) {
            return false;
        }
        self.map.withhold(from, usable);
        self.emptying = Some(Emptying { from, next: from, is_again: false, rate, goes_on_at: io.now });
        io.due_in(Nanos::ZERO);
        true
    }

    /// Ends the emptying: the slots are used as before.
    pub(in crate::cache) fn end_emptying(&mut self, io: &mut CacheIo) {
        if self.emptying.take().is_some() {
            self.map.withhold_nothing();
            io.due_in(Nanos::ZERO);
        }
    }

    /// How many of the slots still have an extent.
    pub(in crate::cache) fn still_beyond(&self) -> u32 {
        self.map.beyond()
    }

    /// Goes on with the emptying, as far as rate and bounds allow.
    pub(in crate::cache) fn go_on_emptying(&mut self, io: &mut CacheCall) {
        let now = io.now;
        let Some(emptying) = &self.emptying else { return };
        if self.gone.any() || self.still_beyond() == 0 {
            return;
        }
        let goes_on_at = emptying.goes_on_at.max(self.room_pauses_until);
        if now < goes_on_at {
            return io.due(goes_on_at);
        }
        debug_assert_eq!(self.mode, Mode::Caching, "what a tier gives up would have nowhere to go");
        let (mut slot, is_again, rate) = (emptying.next, emptying.is_again, emptying.rate);
        let (mut looked_at, mut dropped) = (0, 0);
        let mut goes_on_at = now.saturating_add(PAUSE);
        while slot < self.layout.fast_slots && looked_at < MOST_LOOKED_AT && dropped < MOST_DROPPED {
            looked_at += 1;
            let here = SlotIndex(slot);
            slot += 1;
            let Some(extent) = self.map.tenant(here) else { continue };
            let entry = self.map.entry(extent);
            // In a partitioned drive, a completed write that bypassed a copy treats any move of its extent as the one
            // that drops the copy.
            let can_be_held = is_again && entry.is_dirty() && self.controller.is_none();
            let is_busy = entry.moving().is_some() || entry.in_flight > 0 && !can_be_held;
            if is_busy || entry.place() != Some(Place(here.0)) || self.map.masks(here).lost() != 0 {
                continue;
            }
            if !entry.is_dirty() || mutation::is(Mutation::DropBeyondEnd) && entry.in_flight == 0 {
                self.map.set_clean(extent).needs_no_record(NoRecord::GivenUpNext);
                io.stats.moves.demotions += 1;
                self.drop_clean(io, extent, Release::Evicted);
                dropped += 1;
                continue;
            }
            if self.demoting >= MOST_LEAVING || self.copying >= io.tuning.max_moves {
                // The end of a move goes on from here.
                slot -= 1;
                goes_on_at = now.saturating_add(ROUND_PAUSE);
                break;
            }
            // Writes to an extent that is written again and again wait, so that it stays clean for long enough to be dropped.
            match can_be_held {
                true => self.start_held_writeback(io, extent),
                false => self.start_writeback(io, extent, true),
            }
            let time = u128::from(self.layout.extent_bytes) * 1_000_000_000 / u128::from(rate.0.max(1));
            if rate > Bytes::ZERO {
                goes_on_at = now.saturating_add(Nanos(u64::try_from(time).unwrap_or(u64::MAX)));
                break;
            }
        }
        let Some(emptying) = &mut self.emptying else { return };
        emptying.next = slot;
        if slot >= self.layout.fast_slots {
            (emptying.next, emptying.is_again) = (emptying.from, true);
            goes_on_at = goes_on_at.max(now.saturating_add(ROUND_PAUSE));
        }
        emptying.goes_on_at = goes_on_at;
        io.due(goes_on_at);
    }
}
