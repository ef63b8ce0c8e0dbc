//! Accesses of the host: where they go, the commands for them, and their ends.

use peryton_policy::{ReplacementPolicy, replacement::SlotIndex};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::command::{Buffer, Cause},
    cache::access::{Follow, Fragment, Part, Route, Run},
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::table::Phase,
    cache::ready::Ready,
    cache::step::{CacheCall, CacheCommand, CacheIo, CacheStep},
};

impl CacheDrive {
    pub(in crate::cache) fn covers_extent(&self, fragment: Fragment) -> bool {
        u64::from(fragment.len) == self.layout.extent_bytes
    }

    /// Routes a fragment to the place of its extent.
    #[inline]
    pub(in crate::cache) fn direct(&mut self, now: Nanos, fragment: Fragment, place: Place) -> Route {
        self.direct_then(now, fragment, place, Follow::NOTHING)
    }

    /// The same, and what follows the end of the access.
    #[inline]
    pub(in crate::cache) fn direct_then(
        &mut self,
        now: Nanos,
        fragment: Fragment,
        place: Place,
        follow: Follow,
    ) -> Route {
        let extent = self.map.entry_mut(fragment.extent);
        extent.access(now);
        extent.in_flight += 1;
        if fragment.op != Op::Read && extent.place().is_none() {
            extent.set_outdated(true);
        }
        let (device, at) = self.layout.at(place);
        Route::Direct(device, at + Bytes(u64::from(fragment.within)), follow)
    }

    /// Counts an access that the fast device serves. A fragment that waited was counted when it arrived; one that
    /// waited for its own promotion counted as a miss.
    #[inline]
    pub(in crate::cache) fn count_access(&mut self, io: &mut CacheIo, fragment: Fragment, slot: SlotIndex) {
        if fragment.is_new {
            io.stats.fast_hits += 1;
            self.was_accessed(slot);
        }
    }

    /// Reports an access to the policy, without being compiled into the caller.
    #[inline(never)]
    pub(in crate::cache) fn was_accessed(&mut self, slot: SlotIndex) {
        self.policy.accessed(slot);
    }

    #[inline]
    pub(in crate::cache) fn issue(&mut self, io: &mut CacheCall, run: Run) {
        let Run { fragment, device, at, len, extents, follow } = run;
        if device == self.layout.slow {
            self.cleaner.slow_used = io.now;
        }
        let (request, first, count) = (fragment.request, fragment.extent, extents);
        let purpose = CacheStep::Host { request, first_extent: first, count, follow };
        let buffer = Buffer::Request { id: io.id_of(request), offset: fragment.offset };
        match fragment.op {
            Op::Read => io.read((device, at), len, buffer, purpose, Cause::Host),
            Op::Write => io.write((device, at), len, buffer, purpose, Cause::Host),
            Op::Discard => io.discard((device, at), len, purpose),
            Op::Flush => unreachable!("a flush has no range to cut"),
        }
    }

    /// The parts of its extents that a plain host command reads or writes.
    pub(in crate::cache) fn parts_of(
        &self,
        command: &CacheCommand,
        (first, count): (u32, u32),
    ) -> impl Iterator<Item = Part> + use<> {
        let (_, mut within) = self.layout.split(command.at - self.layout.metadata.data_at);
        let (extent_bytes, whole, buffer) = (self.layout.extent_bytes, command.len.0, command.buffer);
        let mut done = 0;
        (first..first + count).map(move |extent| {
            let len = (extent_bytes - u64::from(within)).min(whole - done);
            let part = Part { extent, within, len: Bytes(len), buffer: buffer.plus(Bytes(done)) };
            (done, within) = (done + len, 0);
            part
        })
    }

    /// Ends an access to the extent; a move may have waited for the last one.
    #[inline]
    pub(in crate::cache) fn access_ended(&mut self, extent: u32) {
        let entry = self.map.entry_mut(extent);
        assert!(entry.in_flight > 0, "an access to extent {extent} ended twice");
        entry.in_flight -= 1;
        if entry.in_flight == 0
            && let Some(index) = entry.moving()
            && self.moves[index].phase == Phase::Draining
        {
            self.ready.push(Ready::Drained(index));
        }
    }

    /// The place of an extent's origin on the slow device.
    #[inline]
    pub(in crate::cache) fn origin_of(&self, extent: u32) -> Place {
        self.layout.slow_place(extent)
    }

    /// The blocks that a fragment has a part of; none if slots have whole extents.
    pub(in crate::cache) fn touched(&self, fragment: Fragment) -> u16 {
        self.layout.blocks.map_or(0, |blocks| blocks.touched(fragment.within, fragment.len))
    }

    /// The blocks that a fragment covers; none if slots have whole extents.
    pub(in crate::cache) fn covered(&self, fragment: Fragment) -> u16 {
        self.layout.blocks.map_or(0, |blocks| blocks.covered(fragment.within, fragment.len))
    }

    /// The part of a fragment in these blocks, which are adjacent.
    pub(in crate::cache) fn piece(&self, fragment: Fragment, run: u16) -> Fragment {
        let (within, len) = self.layout.blocks.expect("only extents in part have pieces").span(run);
        let from = within.max(fragment.within);
        let end = (within + len).min(fragment.within + fragment.len);
        let offset = fragment.offset + Bytes(u64::from(from - fragment.within));
        Fragment { within: from, len: end - from, offset, is_new: false, ..fragment }
    }

    /// The part of a fragment in these adjacent blocks. It becomes one more of the pieces that the fragment's answer
    /// waits for.
    pub(in crate::cache) fn split_off(
        &self,
        io: &mut CacheIo,
        fragment: Fragment,
        run: u16,
        pieces: &mut u32,
    ) -> Fragment {
        *pieces += 1;
        if *pieces > 1 {
            io.add_part(fragment.request);
        }
        self.piece(fragment, run)
    }

    pub(in crate::cache) fn carry_out(&mut self, io: &mut CacheCall, piece: Fragment, route: Route) {
        if let Route::Direct(device, at, follow) = route {
            let len = Bytes(u64::from(piece.len));
            self.issue(io, Run { fragment: piece, device, at, len, extents: 1, follow });
        }
    }

    /// The place of an extent's data: its place in the map, or its origin if it is not cached.
    #[inline(always)]
    pub(in crate::cache) fn current_place(&self, extent: u32) -> Place {
        match self.map.entry(extent).place() {
            Some(place) => place,
            None => self.origin_of(extent),
        }
    }

    pub(in crate::cache) fn wait_behind(&mut self, index: u32, fragment: Fragment) {
        self.moves[index].waiters.push(fragment);
    }

    /// Whether the fast device has newer data of this range than the slow one.
    pub(in crate::cache) fn is_newer(&self, extent: u32, within: u64, len: u64) -> bool {
        match self.layout.blocks {
            None => self.map.entry(extent).is_dirty(),
            Some(blocks) => {
                blocks.touched(within as u32, len as u32) & self.map.masks_of(extent).differs_from_origin() != 0
            }
        }
    }

    /// The blocks of a cached extent that are lost.
    pub(in crate::cache) fn lost_blocks(&self, extent: u32) -> u16 {
        let masks = self.map.masks_of(extent);
        let all = self.layout.blocks.map_or(0, |blocks| blocks.all);
        // A slow device that is gone had all blocks that the fast one lacks.
        if self.gone.slow { all & !masks.valid() } else { masks.lost() }
    }

    pub(in crate::cache) fn zero_copy(&mut self, io: &mut CacheCall, fragment: Fragment, place: Place) {
        let entry = self.map.entry_mut(fragment.extent);
        entry.access(io.now);
        entry.in_flight += 1;
        self.allocating_writes += 1;
        let purpose = CacheStep::Allocating { request: fragment.request, extent: fragment.extent };
        io.zero(self.layout.at(place), Bytes(u64::from(fragment.len)), purpose);
    }
}
