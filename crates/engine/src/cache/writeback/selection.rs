//! Passes over the dirty extents in the order of their origins, from where the last pass ended.

use peryton_policy::replacement::SlotIndex;
use peryton_units::{Bytes, Nanos, prefetch};

use crate::{
    api::cleaning::CleaningState,
    cache::blocks::FULL,
    cache::drive::CacheDrive,
    cache::step::{CacheCall, CacheIo},
    cache::writeback::urgency::{Figures, MOST_OLD, Old, Pass, max_age},
};

/// The pause of a pass that has examined its most dirty extents.
const NEXT_CALL: Nanos = Nanos::from_ms(1);
/// The pause before another pass, if all candidates are in use.
const RETRY_IN_USE: Nanos = Nanos::from_ms(10);

/// The most passes in max_age over extents that are older than half of it.
const PASSES_PER_AGE: u64 = 64;

/// While too many extents are dirty, each further pass writes back units that are less full, by this many sixteenths.
const FULLNESS_STEP: u32 = 4;

/// How a chosen extent is written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    /// With its neighbours, if they are dirty as well.
    Sweep,
    /// Alone, and writes of the host to it wait until then: otherwise an extent that is written all the time would never be
    /// clean.
    Held,
}

/// Whether a pass leaves out extents that were written again lately.
fn spares_rewritten(state: CleaningState) -> bool {
    matches!(state, CleaningState::Idle | CleaningState::Filling | CleaningState::Full)
}

/// Whether a pass looks at the extents alone that have been dirty longest.
fn is_about_age(state: CleaningState) -> bool {
    matches!(state, CleaningState::Aging | CleaningState::Overdue)
}

impl CacheDrive {
    /// Writes back everything that is dirty now, without delay. Can be called again as completions come; what the host has
    /// written since the last call then counts as well.
    pub(in crate::cache) fn write_back_all(&mut self, io: &mut CacheCall) {
        if self.map.dirty().count() > 0 {
            self.cleaner.asked = Some(io.now);
        }
        self.clean(io);
    }

    /// Starts the write-backs for which it is time. They take at most half of MCML, so that promotions can proceed.
    pub(in crate::cache) fn clean(&mut self, io: &mut CacheCall) {
        if self.held.is_some() {
            return;
        }
        let now = io.now;
        self.release_held(io);
        let dirty = self.map.dirty().count();
        if dirty == 0 {
            return self.cleaner.all_is_clean();
        }
        // Without the slow device there is no origin to write to. A partitioned drive cleans only on demand.
        if self.gone.any() || io.rests || self.controller.is_some() && self.cleaner.asked.is_none() {
            return;
        }
        let share = self.dirty_extents_weighted();
        if share < self.crowded_from
            && let Some(again) = self.cleaner.goes_on_resting(now)
        {
            return io.due(again);
        }
        let Some(oldest) = self.map.oldest_dirty() else { return };
        self.look_at_responses(io);
        let slow = self.layout.slow;
        let figures = Figures {
            now,
            dirty: share,
            oldest,
            most: Some(self.most_dirty).filter(|most| *most < u32::MAX),
            slow_is_busy: io.is_busy_for_host(slow),
            slow_sleeps: io.sleeps(slow),
            sleeps_after: io.tuning.spin_down_after.get(slow.index()).copied().flatten(),
            bytes: Bytes(self.map.dirty_bytes()),
        };
        let decision = self.cleaner.decide(&io.tuning, &figures);
        io.due(decision.again);
        if !matches!(decision.state, CleaningState::Filling | CleaningState::Full) {
            self.cleaner.full_enough = FULL;
        }
        if decision.state == CleaningState::Resting {
            return;
        }
        let (rests_below, until) = self.cleaner.rests;
        if decision.state <= rests_below && now < until {
            return io.due(until);
        }
        let most = (io.tuning.max_moves / 2).max(1);
        self.cleaner.may_examine_more(now);
        while self.cleaner.commands < decision.commands
            && self.writing_back < most
            && self.copying < io.tuning.max_moves
        {
            if self.cleaner.failures.are_many() {
                // What is under way may still succeed.
                let pause = if self.cleaner.commands == 0 { self.cleaner.failures.pause() } else { None };
                return pause.map_or((), |pause| self.rest(io, decision.state, pause));
            }
            let Some((extent, choice)) = self.choose(io, decision.state) else { return };
            let room = (most - self.writing_back).min(io.tuning.max_moves - self.copying);
            match choice {
                Choice::Held => self.start_held_writeback(io, extent),
                Choice::Sweep if !self.start_run(io, extent, room) => {
                    if is_about_age(decision.state) {
                        self.cleaner.old.list.push(extent);
                    }
                    return;
                }
                Choice::Sweep => {}
            }
        }
    }

    fn look_at_responses(&mut self, io: &mut CacheIo) {
        if io.tuning.cleaning.max_foreground_p99.is_none() {
            return;
        }
        let now = io.now;
        let responses = io.foreground();
        if self.cleaner.look_at_responses(now, responses.count(), || Nanos(responses.p99_ns() as u64)) {
            responses.clear();
        }
    }

    /// The next extent to write back; `None` if there is none for now. Then a later pass looks again.
    fn choose(&mut self, io: &mut CacheIo, state: CleaningState) -> Option<(u32, Choice)> {
        if is_about_age(state) {
            return self.choose_old(io, state);
        }
        loop {
            let cursor = self.cleaner.cursor;
            if self.cleaner.pass.is_none_or(|pass| pass.state < state) {
                let least = self.least_full(state);
                self.cleaner.pass = Some(Pass { state, start: cursor, wrapped: false, found: false, least });
            }
            let pass = self.cleaner.pass.as_mut().expect("it has just begun");
            let next = self.map.next_dirty(cursor, spares_rewritten(state));
            let Some(extent) = next.filter(|next| !pass.wrapped || *next < pass.start) else {
                if pass.wrapped {
                    self.end_pass(io, state);
                    return None;
                }
                (pass.wrapped, self.cleaner.cursor) = (true, 0);
                continue;
            };
            if self.cleaner.may_examine == 0 {
                io.due_in(NEXT_CALL);
                return None;
            }
            self.cleaner.may_examine -= 1;
            self.cleaner.cursor = extent + 1;
            if let Some(choice) = self.chooses(io, state, extent) {
                if let Some(pass) = &mut self.cleaner.pass {
                    pass.found = true;
                }
                // The one that is likely to be examined next.
                if let Some(next) = self.map.next_dirty(extent + 1, spares_rewritten(state)) {
                    prefetch(self.map.entry(next));
                }
                return Some((extent, choice));
            }
        }
    }

    /// The next of the extents that have been dirty longest.
    fn choose_old(&mut self, io: &mut CacheIo, state: CleaningState) -> Option<(u32, Choice)> {
        if !std::mem::replace(&mut self.cleaner.old.begun, true) {
            self.list_old(io);
        }
        while let Some(extent) = self.cleaner.old.list.pop() {
            self.cleaner.cursor = extent + 1;
            if self.map.entry(extent).is_dirty()
                && let Some(choice) = self.chooses(io, state, extent)
            {
                return Some((extent, choice));
            }
        }
        self.cleaner.old.begun = false;
        let pause = match self.cleaner.failures.pause() {
            Some(pause) => pause,
            None if self.cleaner.old.after.is_some() => NEXT_CALL,
            // No other extent becomes too old before that.
            None => Nanos(max_age(&io.tuning).0 / PASSES_PER_AGE).max(RETRY_IN_USE),
        };
        self.rest(io, state, pause);
        None
    }

    /// Lists those that are older than half of max_age, in the order of their origins from where the last pass ended.
    fn list_old(&mut self, io: &CacheIo) {
        let before = io.now.saturating_sub(Nanos(max_age(&io.tuning).0 / 2));
        let Old { list, after, .. } = &mut self.cleaner.old;
        *after = self.map.dirty_since(before, MOST_OLD, *after, list);
        let cursor = self.cleaner.cursor;
        list.sort_unstable_by_key(|extent| std::cmp::Reverse((*extent < cursor, *extent)));
    }

    /// A pass has seen every dirty extent. If it was in vain, or a write-back has failed, the next one comes later.
    fn end_pass(&mut self, io: &mut CacheIo, state: CleaningState) {
        let ended = self.cleaner.pass.take();
        let found = ended.is_some_and(|pass| pass.found);
        if let Some(pass) = ended {
            self.cleaner.full_enough = pass.least.saturating_sub(FULLNESS_STEP);
        }
        let pause = match self.cleaner.failures.pause() {
            Some(pause) => pause,
            // Then extents that were written again lately have their next chance.
            None if state == CleaningState::Idle => io.tuning.writeback_delay.max(RETRY_IN_USE),
            None if found => NEXT_CALL,
            None => RETRY_IN_USE,
        };
        if spares_rewritten(state) {
            self.map.forget_rewritten();
        }
        self.rest(io, state, pause);
    }

    /// Begins no pass of this urgency or a lower one for a while.
    fn rest(&mut self, io: &mut CacheIo, state: CleaningState, pause: Nanos) {
        let until = io.now.saturating_add(pause);
        self.cleaner.rests = (state, until);
        io.due(until);
    }

    /// Whether to write this dirty extent back now, and how.
    fn chooses(&self, io: &CacheIo, state: CleaningState, extent: u32) -> Option<Choice> {
        let entry = self.map.entry(extent);
        let slot = entry.slot()?;
        if entry.moving().is_some() {
            return None;
        }
        let in_use = entry.in_flight > 0;
        // A write may be going past the copy of a partitioned drive (`CacheDrive::past_done`), which then has to be given up. A write-back
        // that waits for the end of that write would keep it.
        if in_use && self.controller.is_some() {
            return None;
        }
        let oldest_allowed = max_age(&io.tuning);
        // Asked only where it decides: it is elsewhere in memory.
        let since = || self.map.dirty().since(slot);
        let age = || io.now.saturating_sub(since());
        let chosen = match state {
            CleaningState::Resting => false,
            CleaningState::Filling | CleaningState::Full => self.is_full_enough(slot),
            CleaningState::Idle => self.is_full_enough(slot) && age() >= io.tuning.writeback_delay,
            CleaningState::Aging => age() >= Nanos(oldest_allowed.0 / 2),
            CleaningState::Overdue if age() >= oldest_allowed => return Some(Choice::Held),
            CleaningState::Overdue => age() >= Nanos(oldest_allowed.0 / 2),
            CleaningState::Asked => {
                let asked = self.cleaner.asked.is_none_or(|asked| since() <= asked);
                if asked && (in_use || self.map.is_rewritten(entry)) {
                    return Some(Choice::Held);
                }
                asked
            }
        };
        (chosen && !in_use).then_some(Choice::Sweep)
    }

    /// Whether the extent may be written back with its neighbour: it is dirty, nothing is under way for it, and it was not
    /// written again lately, so that it is not likely to be dirty again soon.
    pub(super) fn joins(&self, extent: u32) -> bool {
        if extent >= self.layout.extents {
            return false;
        }
        let entry = self.map.entry(extent);
        let asked = self.cleaner.state == CleaningState::Asked;
        let is_free = entry.is_dirty() && entry.moving().is_none() && entry.in_flight == 0;
        // Where that makes the slow device write whole units, a neighbour goes along if that costs nothing more.
        let is_full = |slot: SlotIndex| self.fullness(slot) == FULL;
        is_free && (asked || !self.map.is_rewritten(entry) && (!self.units.any() || entry.slot().is_some_and(is_full)))
    }

    /// How full the units of an extent must be for a pass to choose it. While too many extents are dirty, just enough of the fullest are chosen.
    /// In idle time an extent is chosen only if its units have no clean block.
    fn least_full(&self, state: CleaningState) -> u32 {
        match state {
            _ if !self.units.any() => 0,
            CleaningState::Idle => FULL,
            CleaningState::Filling | CleaningState::Full => {
                let share = u64::from(self.dirty_extents_weighted().max(1));
                let too_many = share.saturating_sub(u64::from(self.most_dirty - self.most_dirty / 4)).max(1);
                let to_go = (u64::from(self.map.dirty().count()) * too_many).div_ceil(share);
                fullest(self.map.full(), to_go).min(self.cleaner.full_enough)
            }
            _ => 0,
        }
    }

    fn is_full_enough(&self, slot: SlotIndex) -> bool {
        let least = self.cleaner.pass.map_or(0, |pass| pass.least);
        least == 0 || self.fullness(slot) >= least
    }

    fn fullness(&self, slot: SlotIndex) -> u32 {
        if self.units.any() { self.units.fullness(self.map.masks(slot).dirty()) } else { FULL }
    }
}

/// The fullness of the least full among the `to_go` fullest extents; `full`: the number of extents of each fullness.
fn fullest(full: &[u32; FULL as usize + 1], to_go: u64) -> u32 {
    let mut counted = 0;
    (0..=FULL)
        .rev()
        .find(|fullness| {
            counted += u64::from(full[*fullness as usize]);
            counted >= to_go
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fullest_go_first() {
        let mut full = [0; FULL as usize + 1];
        (full[1], full[8], full[15], full[16]) = (1_000, 30, 5, 10);
        for (to_go, least) in [(1, 16), (10, 16), (11, 15), (15, 15), (16, 8), (45, 8), (46, 1), (1_045, 1), (1_046, 0)]
        {
            assert_eq!(fullest(&full, to_go), least, "{to_go}");
        }
    }
}
