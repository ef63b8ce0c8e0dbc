//! The work of the drive at a timer, or after a change of settings.

use peryton_policy::{ReplacementPolicy, replacement::SlotIndex};
use peryton_units::Nanos;

use crate::{
    api::config::Tuning,
    cache::drive::{CacheDrive, new_gate, new_policy},
    cache::step::CacheCall,
};

impl CacheDrive {
    pub(in crate::cache) fn timers(&mut self, io: &mut CacheCall) {
        if self.held.is_some() {
            return;
        }
        // Asked in any case: during the pause after a failure, the call requests a timer for the end of the pause.
        let is_due = self.journal.commit_is_due(io);
        if is_due || self.journal.commit_is_full() {
            self.commit(io, true);
        }
        if self.making_room {
            self.make_room(io);
        }
        self.go_on_emptying(io);
        self.clean(io);
        self.tick_partition(io);
        self.tick_warm(io);
    }

    /// Adapts the drive after the tuning in `io` has changed.
    pub(in crate::cache) fn settings_changed(&mut self, io: &mut CacheCall, before: &Tuning) {
        if io.tuning.replacement != before.replacement {
            self.warm.abandon();
            self.policy = new_policy(&self.layout, &io.tuning);
            // The new policy is given the residents in the order of use, least recent first.
            let mut residents: Vec<(Nanos, u32)> = (0..self.layout.fast_slots)
                .filter_map(|slot| {
                    let extent = self.map.tenant(SlotIndex(slot))?;
                    Some((self.map.entry(extent).last_access, slot))
                })
                .collect();
            residents.sort_unstable();
            for (_, slot) in residents {
                let slot = SlotIndex(slot);
                self.policy.inserted(slot, self.map.tenant(slot).expect("it was looked up above"), 1);
            }
        }
        if self.gate.differs(&io.tuning.admission) {
            self.warm.abandon();
            let gate = new_gate(&self.layout, &io.tuning);
            let before = std::mem::replace(&mut self.gate, gate);
            self.gate.resume(before);
        }
        if io.tuning.partition != before.partition {
            self.retune_partition(io);
        }
        self.bound_dirty(io);
        self.apply_units(io);
        io.due_in(Nanos::ZERO);
        self.make_room(io);
        self.clean(io);
    }
}
