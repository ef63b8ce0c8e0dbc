//! Caching (GreenDM, section 2.3): every extent has its origin on the slow device; the fast device holds copies.
//!
//! A miss that is admitted, and has missed often enough, gets a slot at once, with nothing in it. Its write then goes to the slot
//! (`write_in_part.rs`), and its read brings blocks there (`read_in_part.rs`).

use peryton_policy::{admission::Access, replacement::SlotIndex};
use peryton_units::{Bytes, Op};

use crate::{
    api::config::WritePolicy,
    cache::access::{Fragment, Route},
    cache::drive::CacheDrive,
    cache::map::changed::NoRecord,
    cache::map::extent::Place,
    cache::step::{CacheCall, CacheIo},
};

impl CacheDrive {
    pub(in crate::cache) fn route_caching(&mut self, io: &mut CacheCall, fragment: Fragment) -> Route {
        if fragment.is_new && !self.gate.is_open() && fragment.op != Op::Discard {
            self.show_to_admission(io, fragment.miss(), Bytes(u64::from(fragment.len)));
        }
        if let Some(slot) = self.map.entry(fragment.extent).slot() {
            return self.route_part(io, fragment, slot);
        }
        let origin = self.origin_of(fragment.extent);
        if self.admit_miss(io, fragment) && fragment.is_new {
            io.stats.fast_misses += 1;
            let misses = self.map.entry_mut(fragment.extent).miss(io.now, io.tuning.promotion_window);
            let is_due = misses > self.threshold(io, fragment);
            let may_bring = self.may_bring(io, fragment);
            io.stats.moves.cancelled.move_limit += u64::from(is_due && !may_bring);
            if is_due
                && may_bring
                && let Some(slot) = self.take_slot_for(io, fragment.extent)
            {
                let route = match fragment.op {
                    Op::Write => self.write_to_part(io, fragment, slot),
                    _ => self.read_in_part(io, fragment, slot, true),
                };
                // The access now protects the extent from eviction.
                self.make_room(io);
                return route;
            }
        }
        self.direct(io.now, fragment, origin)
    }

    /// How often an extent that has no slot must have missed to be given one.
    fn threshold(&self, io: &CacheIo, fragment: Fragment) -> u32 {
        if self.is_part_of_unit(fragment) {
            return 0;
        }
        let usual = io.tuning.promotion_threshold;
        // A write that would first have to read goes to the slow device, unless the threshold is 0.
        if fragment.op == Op::Write && usual > 0 && self.covered(fragment) != self.touched(fragment) {
            return u32::MAX;
        }
        let displaces = self.map.room() <= io.tuning.demotion_high;
        if io.tuning.comes_in_early && (!displaces || self.is_synchronous(io, fragment)) { 0 } else { usual }
    }

    /// Whether the blocks of a fragment can enter the cache now. A read needs a free move: without a fill its extent has no use for a slot.
    fn may_bring(&self, io: &CacheIo, fragment: Fragment) -> bool {
        fragment.op == Op::Write || self.copying < io.tuning.max_moves
    }

    /// Whether this is a write of whole blocks that the host waits for. If every write goes to the slow device, the answer is no: the host
    /// waits for that device in any case.
    fn is_synchronous(&self, io: &CacheIo, fragment: Fragment) -> bool {
        fragment.op == Op::Write
            && io.tuning.write == WritePolicy::Back
            && self.sync_writer.is_likely(io)
            && self.covered(fragment) == self.touched(fragment)
    }

    /// Gives an extent an empty slot. Returns `None` if a condition forbids it; each refusal is counted.
    pub(in crate::cache) fn take_slot_for(&mut self, io: &mut CacheCall, extent: u32) -> Option<SlotIndex> {
        let cancelled = &mut io.stats.moves.cancelled;
        if self.journal.is_checkpointing() {
            cancelled.metadata_flush += 1;
            return None;
        }
        if self.map.entry(extent).is_lost() || self.gone.any() {
            cancelled.device_error += 1;
            return None;
        }
        let Some(slot) = self.slot_for_promotion(io, extent) else {
            io.stats.moves.cancelled.fast_full += 1;
            return None;
        };
        io.stats.moves.promotions += 1;
        self.map.set_place(extent, Some(Place(slot.0))).needs_no_record(NoRecord::NothingThereYet);
        self.map.entry_mut(extent).misses = 0;
        Some(slot)
    }

    /// Judges a miss, and returns whether its extent may come in. A refused one goes to the origin: it is counted, may begin
    /// write-back, and with write-through still counts towards the promotion threshold.
    #[inline(always)]
    pub(in crate::cache) fn admit_miss(&mut self, io: &mut CacheIo, fragment: Fragment) -> bool {
        if fragment.op == Op::Discard {
            return false;
        }
        if fragment.is_new && self.bypass_miss(io, fragment) {
            io.stats.fast_misses += 1;
            return false;
        }
        // Without write-back a write that misses goes to the origin alone: a promotion would make it wait for a read.
        // With write-through it counts as a miss, so that a later read brings the extent in. A write that must not make
        // its extent dirty does not promote it either.
        let around = fragment.op == Op::Write && io.tuning.write != WritePolicy::Back;
        if around && fragment.is_new && io.tuning.write == WritePolicy::Through {
            self.map.entry_mut(fragment.extent).miss(io.now, io.tuning.promotion_window);
        }
        let throttled = fragment.op == Op::Write && self.is_full_of_dirty();
        if throttled {
            self.throttle(io, fragment);
        }
        if !around && !throttled && self.admit(io, fragment) {
            return true;
        }
        io.stats.fast_misses += u64::from(fragment.is_new);
        false
    }

    /// Whether a write to a cached extent may bypass the cache: the admission rule judges such writes, and dropping the
    /// copy loses no data. A dirty copy that the write does not cover stays, and so does a copy that is being written
    /// back.
    #[inline]
    pub(in crate::cache) fn may_bypass(&self, fragment: Fragment) -> bool {
        let entry = self.map.entry(fragment.extent);
        fragment.is_new
            && self.gate.judges_write_hits()
            && entry.moving().is_none()
            && (!entry.is_dirty() || self.covers_extent(fragment))
    }

    /// Asks the admission rule whether a miss, or a write that is judged like one, may use the cache; a refusal is counted.
    #[inline(always)]
    pub(in crate::cache) fn admit(&mut self, io: &mut CacheIo, fragment: Fragment) -> bool {
        if self.gate.is_open() || !fragment.is_new {
            return true;
        }
        let admitted = self.gate.admits(fragment.miss());
        io.stats.bypassed += u64::from(!admitted);
        admitted
    }

    #[inline]
    pub(in crate::cache) fn show_to_admission(&mut self, io: &CacheIo, access: Access, len: Bytes) {
        if let Some(frame) = self.gate.observe(io.now, access, len) {
            let costs = self.admission_costs(io);
            self.gate.end_frame(frame, costs);
        }
    }
}
