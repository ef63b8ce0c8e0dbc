//! Promotions (tiering): an extent that missed often enough is read into memory, the waiting accesses are served from there, and
//! it is written to the fast device.

use peryton_format::{
    blocks::Masks,
    entry::MapEntry,
    mutation::{self, Mutation},
};
use peryton_units::Op;

use crate::{
    api::command::Cause,
    cache::access::{Fragment, Release},
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::table::{Kind, Move, Phase},
    cache::step::CacheCall,
};

/// GreenDM cancels a promotion while its extent is accessed (section 2.6). Peryton cancels it this many times in a row;
/// then the promotion begins, and new accesses wait until those in flight have ended.
pub(in crate::cache) const PATIENCE: u32 = 8;

impl CacheDrive {
    /// Promotes the extent of a fragment that missed; the fragment waits for it. Returns false if one of GreenDM's
    /// conditions (section 2.3) forbids it; each refusal is counted.
    pub(in crate::cache) fn try_promote(&mut self, io: &mut CacheCall, fragment: Fragment) -> bool {
        let extent = fragment.extent;
        let tuning = &io.tuning;
        let (threshold, most_moves) = (tuning.promotion_threshold, tuning.max_moves);
        let cancelled = &mut io.stats.moves.cancelled;
        if self.journal.is_checkpointing() {
            cancelled.metadata_flush += 1;
            return false;
        }
        let entry = self.map.entry(extent);
        let in_use = entry.in_flight > 0;
        let fills = !in_use && fragment.op == Op::Write && self.covers_extent(fragment);
        // A lost extent may have older data at its origin, so only a write that replaces all of it may be promoted.
        if entry.is_lost() && !fills || self.gone.any() {
            cancelled.device_error += 1;
            return false;
        }
        if in_use {
            cancelled.in_use += 1;
            // With many requests in flight the hottest extents are never idle and would never be promoted.
            if entry.misses <= threshold.saturating_add(PATIENCE) {
                return false;
            }
        }
        if self.copying >= most_moves {
            cancelled.move_limit += 1;
            return false;
        }
        let Some(slot) = self.slot_for_promotion(io, extent) else {
            io.stats.moves.cancelled.fast_full += 1;
            return false;
        };
        let to = Place(slot.0);
        self.map.entry_mut(extent).access(io.now);
        if fills {
            self.start_overwrite(io, fragment, to);
        } else {
            let phase = if in_use { Phase::Draining } else { Phase::Reading };
            let buffer = self.take_buffer();
            let index = self.start_with(Kind::Promotion, phase, extent, Some(to), None, buffer);
            self.moves[index].waiters.push(fragment);
            if !in_use {
                self.move_read(io, index, self.current_place(extent), Cause::Promotion);
            }
        }
        self.make_room(io);
        true
    }

    /// Starts a promotion after the accesses that it waited for have ended.
    pub(in crate::cache) fn promotion_drained(&mut self, io: &mut CacheCall, index: u32) {
        let row = &mut self.moves[index];
        row.phase = Phase::Reading;
        let extent = row.extent;
        self.move_read(io, index, self.current_place(extent), Cause::Promotion);
    }

    /// Serves the waiting accesses from the buffer after the extent was read, which saves the fast device an access
    /// each (GreenDM, section 2.3, "Serving directly from RAM").
    pub(in crate::cache) fn serve_from_ram(&mut self, io: &mut CacheCall, index: u32) {
        let Move { phase, buffer, waiters, .. } = &mut self.moves[index];
        *phase = Phase::Writing;
        let wrote = match waiters[..] {
            // Mostly the read that has started the promotion.
            [only] if only.op == Op::Read => {
                waiters.clear();
                Self::copy_from_move(io, *buffer, only);
                io.part_done(only.request, Ok(()));
                false
            }
            _ => self.serve_all_from_ram(io, index),
        };
        let row = &self.moves[index];
        let to = row.to.expect("a promotion has a destination");
        if wrote {
            self.moves[index].ram_dirty = true;
            self.volatile.push(index);
        }
        self.move_write(io, index, to, Cause::Promotion);
        if mutation::is(Mutation::CommitBeforeData) {
            let extent = self.moves[index].extent;
            let entry = MapEntry::new(Some(to), false, false);
            self.journal.update(io, extent, (entry, Masks::default()), false);
        }
    }

    /// Serves the waiting accesses from the buffer, as far as that is allowed; returns whether one of them wrote.
    #[inline(never)]
    fn serve_all_from_ram(&mut self, io: &mut CacheCall, index: u32) -> bool {
        let at_once = !self.map.keeps_changed() || mutation::is(Mutation::AnswerFromRam);
        let Move { buffer, waiters, answers, .. } = &mut self.moves[index];
        let mut wrote = false;
        waiters.retain(|fragment| {
            let served = matches!(fragment.op, Op::Read | Op::Write);
            if served {
                wrote |= fragment.op == Op::Write;
                Self::copy_from_move(io, *buffer, *fragment);
                // Data in RAM alone do not survive the process: writes there, and reads of them, are answered when the device has the data.
                match at_once || !wrote {
                    true => io.part_done(fragment.request, Ok(())),
                    false => answers.push(*fragment),
                }
            }
            !served
        });
        wrote
    }

    pub(in crate::cache) fn promoted(&mut self, io: &mut CacheCall, index: u32) {
        let row = &self.moves[index];
        let (extent, to) = (row.extent, row.to.expect("a promotion has a destination"));
        io.stats.moves.promotions += 1;
        self.settle(io, extent, to);
        self.end(io, index);
    }

    pub(in crate::cache) fn abort_promotion(&mut self, io: &mut CacheCall, index: u32) {
        let to = self.moves[index].to.expect("a promotion has a destination");
        let slot = self.layout.fast_slot(to).expect("a promotion goes to the fast device");
        self.release_slot(slot, Release::NeverUsed);
        self.end(io, index);
    }
}
