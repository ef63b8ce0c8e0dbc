//! Replacement policies of other crates, which are called through a table: for experiments, and for policies that are
//! written in another language.

use std::fmt;

use crate::saving::Saving;

use super::{Candidates, Capacity, Replacement, ReplacementPolicy, SlotIndex};

/// A [`ReplacementPolicy`] of any type, called through a table.
trait DynamicPolicy: Send {
    fn admitting(&mut self, extent: u32, size: u32);
    fn inserted(&mut self, slot: SlotIndex, extent: u32, size: u32);
    fn takes(&self, size: u32) -> bool;
    fn accessed(&mut self, slot: SlotIndex);
    fn prefetch(&self, slot: SlotIndex);
    fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex>;
    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool);
    fn victim(&mut self, candidates: &mut dyn Candidates) -> Option<SlotIndex>;
    fn saved_version(&self) -> u32;
    fn save(&mut self, to: &mut Saving<'_>) -> bool;
    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>);
    fn loaded(&mut self);
    fn knows(&self, slot: SlotIndex) -> bool;
}

impl<P: ReplacementPolicy + Send> DynamicPolicy for P {
    fn admitting(&mut self, extent: u32, size: u32) {
        ReplacementPolicy::admitting(self, extent, size);
    }
    fn inserted(&mut self, slot: SlotIndex, extent: u32, size: u32) {
        ReplacementPolicy::inserted(self, slot, extent, size);
    }
    fn takes(&self, size: u32) -> bool {
        ReplacementPolicy::takes(self, size)
    }
    fn accessed(&mut self, slot: SlotIndex) {
        ReplacementPolicy::accessed(self, slot);
    }
    fn prefetch(&self, slot: SlotIndex) {
        ReplacementPolicy::prefetch(self, slot);
    }
    fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex> {
        ReplacementPolicy::likely_next(self, victim)
    }
    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        ReplacementPolicy::removed(self, slot, extent, evicted);
    }
    fn victim(&mut self, mut candidates: &mut dyn Candidates) -> Option<SlotIndex> {
        ReplacementPolicy::victim(self, &mut candidates)
    }
    fn saved_version(&self) -> u32 {
        ReplacementPolicy::saved_version(self)
    }
    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        ReplacementPolicy::save(self, to)
    }
    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        ReplacementPolicy::load(self, list, item, slot_of);
    }
    fn loaded(&mut self) {
        ReplacementPolicy::loaded(self);
    }
    fn knows(&self, slot: SlotIndex) -> bool {
        ReplacementPolicy::knows(self, slot)
    }
}

/// A policy of another crate: its name, and a function that makes it for a cache.
#[derive(Clone, Copy)]
pub struct CustomReplacement(&'static Maker);

struct Maker {
    name: String,
    make: Box<dyn Fn(Capacity) -> Box<dyn DynamicPolicy> + Send + Sync>,
}

impl CustomReplacement {
    pub(super) fn name(self) -> &'static str {
        &self.0.name
    }

    pub(super) fn make(self, capacity: Capacity) -> CustomPolicy {
        CustomPolicy { name: self.name(), policy: (self.0.make)(capacity) }
    }
}

impl PartialEq for CustomReplacement {
    fn eq(&self, other: &CustomReplacement) -> bool {
        std::ptr::eq(self.0, other.0)
    }
}

impl Eq for CustomReplacement {}

impl fmt::Debug for CustomReplacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomReplacement").field(&self.name()).finish()
    }
}

impl Replacement {
    /// A policy of another crate, with its name in reports. The setting is a value that is copied, so what it refers to
    /// is kept until the process ends: make it once for each policy, not once for each run.
    ///
    /// # Examples
    ///
    /// ```
    /// use peryton_policy::{BareCache, Queues, Replacement, replacement::{Candidates, ReplacementPolicy, SlotIndex}};
    /// use peryton_units::Nanos;
    ///
    /// struct Fifo(Queues<1>);
    ///
    /// impl ReplacementPolicy for Fifo {
    ///     fn inserted(&mut self, slot: SlotIndex, _extent: u32, size: u32) {
    ///         self.0.push_sized(0, slot, size);
    ///     }
    ///     fn removed(&mut self, slot: SlotIndex, _extent: u32, _evicted: bool) {
    ///         self.0.unlink(slot);
    ///     }
    ///     fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
    ///         self.0.oldest(0, |slot| candidates.may_leave(slot))
    ///     }
    /// }
    ///
    /// let fifo = Replacement::custom("fifo", |capacity| Fifo(Queues::new(capacity.slots)));
    /// assert_eq!(fifo.name(), "fifo");
    /// let mut cache = BareCache::new(fifo, 2, Nanos::from_s(60));
    /// let hits = [1, 2, 1, 3, 1].map(|extent| cache.access(Nanos::ZERO, extent));
    /// assert_eq!(hits, [false, false, true, false, false]); // The hit on 1 did not save it.
    /// ```
    pub fn custom<P: ReplacementPolicy + Send + 'static>(
        name: &str,
        make: impl Fn(Capacity) -> P + Send + Sync + 'static,
    ) -> Replacement {
        let make = move |capacity| -> Box<dyn DynamicPolicy> { Box::new(make(capacity)) };
        let maker = Maker { name: name.to_owned(), make: Box::new(make) };
        Replacement::Custom(CustomReplacement(Box::leak(Box::new(maker))))
    }
}

/// The state of a policy of another crate.
pub struct CustomPolicy {
    name: &'static str,
    policy: Box<dyn DynamicPolicy>,
}

impl fmt::Debug for CustomPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CustomPolicy").field(&self.name).finish()
    }
}

impl ReplacementPolicy for CustomPolicy {
    fn admitting(&mut self, extent: u32, size: u32) {
        self.policy.admitting(extent, size);
    }
    fn inserted(&mut self, slot: SlotIndex, extent: u32, size: u32) {
        self.policy.inserted(slot, extent, size);
    }
    fn takes(&self, size: u32) -> bool {
        self.policy.takes(size)
    }
    fn accessed(&mut self, slot: SlotIndex) {
        self.policy.accessed(slot);
    }
    fn prefetch(&self, slot: SlotIndex) {
        self.policy.prefetch(slot);
    }
    fn likely_next(&self, victim: SlotIndex) -> Option<SlotIndex> {
        self.policy.likely_next(victim)
    }
    fn removed(&mut self, slot: SlotIndex, extent: u32, evicted: bool) {
        self.policy.removed(slot, extent, evicted);
    }
    fn saved_version(&self) -> u32 {
        self.policy.saved_version()
    }
    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        self.policy.save(to)
    }
    fn load(&mut self, list: u8, item: &[u32], slot_of: &dyn Fn(u32) -> Option<SlotIndex>) {
        self.policy.load(list, item, slot_of);
    }
    fn loaded(&mut self) {
        self.policy.loaded();
    }
    fn knows(&self, slot: SlotIndex) -> bool {
        self.policy.knows(slot)
    }
    fn victim<C: Candidates>(&mut self, candidates: &mut C) -> Option<SlotIndex> {
        self.policy.victim(candidates)
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::Nanos;

    use super::*;
    use crate::{BareCache, replacement::sieve::Sieve};

    #[test]
    fn a_policy_decides_the_same_when_it_is_called_through_a_table() {
        let custom = Replacement::custom("my sieve", Sieve::new);
        assert_ne!(custom, Replacement::custom("my sieve", Sieve::new), "another policy may have the same name");
        assert_eq!((custom, custom.name()), (custom, "my sieve"));
        assert_eq!(serde_json::to_string(&custom).unwrap(), "\"my sieve\"");
        let caches = [custom, Replacement::Sieve].map(|policy| BareCache::new(policy, 50, Nanos::from_s(1)));
        let [mut ours, mut theirs] = caches;
        let mut draw = 1u64;
        let mut hits = 0;
        for step in 0..20_000 {
            draw = draw.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let uniform = (draw >> 11) as f64 / (1u64 << 53) as f64;
            let extent = 400f64.powf(uniform) as u32;
            let hit = ours.access(Nanos(step), extent);
            assert_eq!(hit, theirs.access(Nanos(step), extent), "step {step}");
            hits += u32::from(hit);
        }
        assert!((5_000..19_000).contains(&hits), "{hits} hits tell little");
    }
}
