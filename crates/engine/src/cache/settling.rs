//! An extent returns to the state whose data are certainly durable, after a failed flush ([`rollback`](crate::cache::rollback)), or after the
//! loss of a device.

use std::collections::BTreeSet;

use peryton_format::{
    blocks::Masks,
    entry::MapEntry,
    mutation::{self, Mutation},
};
use peryton_policy::ReplacementPolicy;

use crate::{
    cache::access::{Mode, Release},
    cache::drive::CacheDrive,
    cache::interpret::{RecoveryRules, State},
    cache::map::changed::NoRecord,
    cache::map::extent::{Loss, Valid},
    cache::step::{CacheCall, CacheIo},
};

/// Each extent once, in their order.
pub(in crate::cache) fn sorted(extents: impl IntoIterator<Item = u32>) -> BTreeSet<u32> {
    extents.into_iter().collect()
}

impl CacheDrive {
    /// Where the data of an extent are certainly durable, if the fast or the slow device has failed a flush.
    pub(in crate::cache) fn sure(&self, extent: u32, [fast_failed, slow_failed]: [bool; 2]) -> State {
        let now = self.state(extent);
        let Some(durable) = &self.journal.durable else { return now };
        let (entry, masks) = durable.of(extent);
        let durable = State { entry, masks };
        let (place, caches) = (now.entry.place(), self.mode == Mode::Caching);
        if now.entry.is_lost() || place.is_some() && mutation::is(Mutation::RevertNewCopies) {
            return now;
        }
        if caches && !slow_failed && !self.gone.slow && now.masks.differs_from_origin() == 0 {
            // The origin has everything, and has lost nothing.
            return State::default();
        }
        if caches && self.gone.slow {
            let both = if place == entry.place() { masks.valid() & now.masks.valid() } else { 0 };
            return match (fast_failed && place.is_some(), both) {
                (false, _) => self.without_origin(extent, now, durable),
                (true, 0) => State::new(None, Masks::default(), true),
                (true, both) => {
                    let newer = masks.differs_from_origin() | now.masks.differs_from_origin() | now.masks.valid();
                    State::new(place, Masks::new(both, newer), false)
                }
            };
        }
        self.interpret_sure(durable)
    }

    /// The state that the durable map is to have of an extent.
    pub(in crate::cache) fn state(&self, extent: u32) -> State {
        State { entry: self.map.entry(extent).entry(), masks: self.map.masks_of(extent) }
    }

    fn interpret_sure(&self, durable: State) -> State {
        let rules = RecoveryRules {
            valid: Some(Valid::Origin),
            unflushed: self.journal.trails_origins,
            ..self.recovery_rules()
        };
        self.interpret(&rules, rules.without_stale_copies(durable))
    }

    /// An extent whose origin is gone. What was written there in place of dirty blocks may never have been flushed, so it is lost even if
    /// the origin returns; and blocks that were written back are valid where the durable map has them.
    fn without_origin(&self, extent: u32, now: State, durable: State) -> State {
        let outdated = self.blocks_outdated(extent);
        match now.entry.place() {
            Some(_) => {
                State { masks: Masks::new(now.masks.valid(), now.masks.differs_from_origin() | outdated), ..now }
            }
            None if outdated != 0 => State::new(None, Masks::default(), true),
            None if durable.entry.is_dirty() => {
                let copy = State { masks: Valid::Origin.masks_after_crash(durable.masks), ..durable };
                self.interpret(&self.recovery_rules(), copy)
            }
            None => now,
        }
    }

    /// Why an extent with this entry cannot be read.
    pub(in crate::cache) fn loss(&self, entry: MapEntry) -> Loss {
        let had_origin = self.mode == Mode::Caching && self.gone.slow && entry.place().is_none();
        match (entry.is_lost(), had_origin) {
            (true, _) => Loss::Newest,
            (false, true) => Loss::WithOrigin,
            (false, false) => Loss::None,
        }
    }

    /// Changes the entry of an extent. Nothing is under way for it.
    pub(in crate::cache) fn settle_in(&mut self, io: &mut CacheIo, extent: u32, State { entry: sure, masks }: State) {
        let before = *self.map.entry(extent);
        if sure.place() != before.place() {
            if let Some(place) = before.place() {
                self.map.set_clean(extent).and(self.map.unmap(extent)).needs_no_record(NoRecord::GivenUpNext);
                self.map.entry_mut(extent).set_outdated(true);
                self.give_up(place, Release::Detached);
            }
            if let Some(place) = sure.place() {
                self.journal.reclaim(place);
                self.map.set_place(extent, Some(place)).needs_no_record(NoRecord::GivenUpNext);
                if let Some(slot) = self.layout.fast_slot(place) {
                    self.map.occupy(slot, extent);
                    self.policy.inserted(slot, extent, 1);
                }
            }
        }
        if self.mode == Mode::Caching && sure.place().is_some() {
            self.map.set_masks(extent, masks, io.now).needs_no_record(NoRecord::GivenUpNext);
        }
        let loss = self.loss(sure);
        let changed = self.map.set_loss(extent, loss);
        self.record(io, changed, false);
        if loss != Loss::None && !before.is_lost() {
            io.stats.lost_extents += 1;
            let durable = self.journal.durable.as_ref().map(|durable| durable.of(extent));
            if let Some((entry, masks)) = durable
                && let Some(place) = entry.place().filter(|place| self.is_on_gone(*place))
            {
                self.map.leave_behind(extent, place, masks);
            }
        }
        if sure.is_dirty() {
            self.set_never_dirty(false);
            io.due_in(io.tuning.writeback_delay);
        }
    }

    /// Says what is lost with a device that is gone.
    #[cold]
    pub(in crate::cache) fn settle_losses(&mut self, io: &mut CacheIo) {
        if self.held.is_some() {
            return;
        }
        if self.mode == Mode::Caching && self.gone.slow {
            for extent in sorted(self.journal.updated()) {
                let (sure, now) = (self.sure(extent, [false; 2]), self.state(extent));
                if sure.entry.place().is_some() && sure != now {
                    self.settle_in(io, extent, sure);
                }
            }
        }
        for extent in 0..self.layout.extents {
            self.mark_lost(io, extent);
        }
    }

    /// The blocks that the durable map calls dirty, and that are newer on the slow device by now. What the slow device has of
    /// them may never have been flushed there.
    pub(in crate::cache) fn blocks_outdated(&self, extent: u32) -> u16 {
        let Some(durable) = &self.journal.durable else { return 0 };
        let (entry, dirty) = (self.map.entry(extent), durable.of(extent).1.dirty());
        match entry.place() {
            Some(_) => dirty & !self.map.masks_of(extent).valid(),
            None if entry.is_outdated() => dirty,
            None => 0,
        }
    }

    /// Whether the durable map has an extent in another place than where it is, or may come to have it there, or with older blocks, by a
    /// commit under way or by updates that wait.
    pub(in crate::cache) fn was_elsewhere(&self, extent: u32) -> bool {
        let Some(durable) = &self.journal.durable else { return false };
        let now = self.map.entry(extent).place();
        match durable.of(extent).0.place() {
            None => !self.journal.group.is_idle() || self.journal.awaits_elsewhere(extent, now),
            place => place != now,
        }
    }

    /// Fails the flushes of the host that wait. Returns whether there were any.
    #[cold]
    pub(in crate::cache) fn flushes_fail(&mut self, io: &mut CacheCall) -> bool {
        let mut flushes = self.journal.group.take_flushes();
        flushes.extend(std::mem::take(&mut self.flushes).into_iter().map(|(request, _)| request));
        let fails = !flushes.is_empty();
        for request in flushes {
            io.flush_fails(request);
        }
        fails
    }
}
