//! Host requests: they are cut at extent borders, routed, merged where parts are neighbours on a device, and answered.

use peryton_format::mutation::{self, Mutation};
use peryton_policy::ReplacementPolicy;
use peryton_policy::admission::Access;
use peryton_policy::replacement::SlotIndex;
use peryton_units::{Bytes, Op, prefetch};

use crate::{
    api::command::{Buffer, Cause, DeviceId, IoId, Request, RequestId},
    api::config::WritePolicy,
    api::error::RequestError,
    cache::access::{Follow, Fragment, Mode, Part, Route, Router, Run, Then},
    cache::blocks::Blocks,
    cache::drive::CacheDrive,
    cache::step::{CacheCall, CacheCommand, CacheStep},
    io::RequestIndex,
};

impl CacheDrive {
    /// Whether the fast device alone can serve a request to an extent that it has in part: it has all blocks of a read, and all blocks
    /// of a write are dirty.
    #[inline]
    fn hits_in_part(&self, blocks: Blocks, slot: SlotIndex, op: Op, within: u32, len: Bytes) -> bool {
        let masks = self.map.masks(slot);
        let has = if op == Op::Write { masks.dirty() } else { masks.valid() };
        blocks.touched(within, len.0 as u32) & !has == 0
    }

    /// Carries out a read, write or discard that lies within the volume and is not empty.
    #[inline]
    pub(in crate::cache) fn split(&mut self, io: &mut CacheCall, request: RequestIndex, asked: Request) {
        if self.controller.is_some() {
            self.partition_arrived(io, request, asked);
        }
        let (mut extent, mut within) = self.layout.split(asked.offset);
        let fragment = |extent, within, offset, len| Fragment {
            request,
            op: asked.op,
            extent,
            within,
            len,
            offset: Bytes(offset),
            request_len: asked.len,
            is_new: true,
        };
        // Most requests lie within one extent.
        if u64::from(within) + asked.len.0 <= self.layout.extent_bytes {
            let fragment = fragment(extent, within, 0, asked.len.0 as u32);
            io.add_part(request);
            let route = self.route(io, fragment);
            return self.carry_out(io, fragment, route);
        }
        let mut offset = 0;
        let mut run: Option<Run> = None;
        while offset < asked.len.0 {
            let len = (self.layout.extent_bytes - u64::from(within)).min(asked.len.0 - offset) as u32;
            let fragment = fragment(extent, within, offset, len);
            io.add_part(request);
            let before = io.out.len();
            let to = match self.route(io, fragment) {
                Route::Direct(device, at, follow) => Some((device, at, follow)),
                Route::Taken => None,
            };
            if !run.as_mut().is_some_and(|run| self.continues(io, run, fragment, to)) {
                if let Some(run) = run {
                    self.issue_before(io, run, before);
                }
                let len = Bytes(u64::from(len));
                run = to.map(|(device, at, follow)| Run { fragment, device, at, len, extents: 1, follow });
            }
            offset += u64::from(len);
            extent += 1;
            within = 0;
        }
        if let Some(run) = run {
            self.issue(io, run);
        }
    }

    /// Issues the commonest request quickly: a read or write within one extent that the fast device has and for which
    /// nothing is under way. All blocks that a write to a cache touches must be dirty already. The effect is that of [`CacheDrive::submit`].
    /// Returns false, having done nothing, for any other request. The request must lie within the volume.
    #[inline(always)]
    pub(crate) fn try_hit_map(&mut self, io: &mut CacheCall, id: RequestId, asked: Request) -> bool {
        let (extent, within) = self.layout.split(asked.offset);
        let in_one = asked.len > Bytes::ZERO && u64::from(within) + asked.len.0 <= self.layout.extent_bytes;
        let plain = match asked.op {
            Op::Read => true,
            // Where a rule may send a write elsewhere, the full path decides.
            Op::Write => {
                self.mode == Mode::Tiering || io.tuning.write == WritePolicy::Back && !self.gate.judges_write_hits()
            }
            Op::Discard | Op::Flush => false,
        };
        if !in_one || !plain || self.controller.is_some() || self.held.is_some() {
            return false;
        }
        let entry = self.map.entry(extent);
        let Some(slot) = entry.place().and_then(|place| self.layout.fast_slot(place)) else { return false };
        if entry.moving().is_some() || entry.is_lost() {
            return false;
        }
        let blocks = self.layout.blocks;
        if let Some(blocks) = blocks
            && !entry.is_whole(asked.op == Op::Write)
            && !self.hits_in_part(blocks, slot, asked.op, within, asked.len)
        {
            return false;
        }
        let rewrites = asked.op == Op::Write && blocks.is_some() && !self.map.is_rewritten(entry);
        let entry = self.map.entry_mut(extent);
        entry.access(io.now);
        entry.in_flight += 1;
        if self.mode == Mode::Caching && !self.gate.is_open() {
            let access = Access { extent, op: asked.op, request_len: asked.len };
            self.show_to_admission(io, access, asked.len);
        }
        if rewrites {
            self.map.rewrite(extent);
        }
        io.stats.fast_hits += 1;
        self.policy.accessed(slot);
        let request = io.begin(id, asked.op);
        let at = self.layout.fast_at(slot) + Bytes(u64::from(within));
        let device = self.layout.fast;
        let buffer = Buffer::Request { id, offset: Bytes::ZERO };
        let purpose = CacheStep::Host { request, first_extent: extent, count: 1, follow: Follow::NOTHING };
        match asked.op {
            Op::Write => io.write((device, at), asked.len, buffer, purpose, Cause::Host),
            _ => io.read((device, at), asked.len, buffer, purpose, Cause::Host),
        }
        true
    }

    /// Completes an access to one extent for which nothing waits, quickly. Does what [`CacheDrive::host_done`] would.
    /// Returns false, having done nothing, for any other command.
    #[inline(always)]
    pub(crate) fn try_end_plain(
        &mut self,
        io: &mut CacheCall,
        id: IoId,
        (request, extent): (RequestIndex, u32),
    ) -> bool {
        let entry = self.map.entry_mut(extent);
        if entry.is_lost() || entry.moving().is_some() || self.controller.is_some() || self.held.is_some() {
            return false;
        }
        assert!(entry.in_flight > 0, "an access to extent {extent} ended twice");
        entry.in_flight -= 1;
        io.finish_plain(id);
        io.part_done(request, Ok(()));
        true
    }

    /// See [`Engine::prefetch`](crate::Engine::prefetch): first the map entry, then what the entry points to.
    #[inline(always)]
    pub(crate) fn prefetch_entry(&self, offset: Bytes, near: bool) {
        let (extent, _) = self.layout.split(offset);
        let Some(entry) = self.map.get(extent) else { return };
        if !near {
            prefetch(entry);
        } else if let Some(slot) = entry.place().and_then(|place| self.layout.fast_slot(place)) {
            self.policy.prefetch(slot);
        } else {
            self.policy.prefetch_extent(extent);
        }
    }

    /// Routes a fragment that has waited.
    pub(in crate::cache) fn resume(&mut self, io: &mut CacheCall, fragment: Fragment) {
        let fragment = Fragment { is_new: false, ..fragment };
        let route = self.route(io, fragment);
        self.carry_out(io, fragment, route);
    }

    #[inline]
    fn route(&mut self, io: &mut CacheCall, fragment: Fragment) -> Route {
        let extent = self.map.entry(fragment.extent);
        if let Some(index) = extent.moving() {
            if self.blocked_by_move(io, index, fragment) {
                return Route::Taken;
            }
        } else if extent.is_lost()
            && let Some(route) = self.route_lost(io, fragment)
        {
            return route;
        }
        match self.router {
            Router::Tiering => self.route_tiering(io, fragment),
            Router::Caching => self.route_caching(io, fragment),
            Router::Partitioned => self.route_partitioned(io, fragment),
            Router::Degraded => self.route_degraded(io, fragment),
        }
    }

    /// Adds a fragment to the run if it continues it.
    #[inline]
    fn continues(
        &mut self,
        io: &mut CacheCall,
        run: &mut Run,
        fragment: Fragment,
        to: Option<(DeviceId, Bytes, Follow)>,
    ) -> bool {
        let Some((device, at, follow)) = to else { return false };
        let continues = (device, at) == (run.device, run.at + run.len)
            && (run.follow == Follow::PAST) == (follow == Follow::PAST)
            && run.fragment.extent + run.extents == fragment.extent;
        if continues {
            run.follow = self.follows.join(run.follow, follow);
            run.len += Bytes(u64::from(fragment.len));
            run.extents += 1;
            // One command answers both fragments, so the later one's part ends here.
            io.part_done(fragment.request, Ok(()));
        }
        continues
    }

    /// Issues a run before the commands from `before` on. These belong to a fragment behind the run; a disk that got
    /// them first would serve the run a turn later.
    #[inline]
    fn issue_before(&mut self, io: &mut CacheCall, run: Run, before: usize) {
        let behind = io.out.len() - before;
        self.issue(io, run);
        if behind > 0 {
            io.out[before..].rotate_left(behind);
        }
    }

    /// Handles a completed plain access.
    #[inline]
    pub(crate) fn host_done(
        &mut self,
        io: &mut CacheCall,
        command: &CacheCommand,
        (request, first, count): (RequestIndex, u32, u32),
        (failed, follow): (bool, Follow),
    ) {
        if failed && command.op == Op::Read && self.mode == Mode::Caching && command.device == self.layout.fast {
            debug_assert_eq!(follow, Follow::NOTHING, "something follows only what was read or written at origin");
            self.read_origin_instead(io, command, (request, first, count));
            return;
        }
        if follow != Follow::NOTHING {
            self.follow(io, command, (request, first, count), (follow, failed));
        }
        let result = if failed { Err(RequestError::Device) } else { Ok(()) };
        io.part_done(request, result);
        for extent in first..first + count {
            if self.map.entry(extent).is_lost() && !failed {
                self.found_again(io, extent, command);
            }
            self.access_ended(extent);
        }
    }

    /// Carries out the work that follows an access, part by part.
    fn follow(
        &mut self,
        io: &mut CacheCall,
        command: &CacheCommand,
        (request, first, count): (RequestIndex, u32, u32),
        (mut follow, failed): (Follow, bool),
    ) {
        for part in self.parts_of(command, (first, count)) {
            while let Some(then) = self.follows.take(&mut follow, part.extent) {
                match then {
                    Then::Feed(index) => self.feed(index, &part, failed, io.out),
                    Then::Overlay(_) if failed => {}
                    Then::Overlay(blocks) => self.read_over(io, part.again(request, Op::Read, command.len), blocks),
                }
            }
        }
        debug_assert_eq!(follow, Follow::NOTHING, "what follows concerns the command's extents, in their order");
    }

    /// Handles a read that the cache failed: clean extents are read from their origins; for a dirty one the request
    /// fails.
    fn read_origin_instead(
        &mut self,
        io: &mut CacheCall,
        command: &CacheCommand,
        (request, first, count): (RequestIndex, u32, u32),
    ) {
        for Part { extent, within, len, buffer } in self.parts_of(command, (first, count)) {
            let within = u64::from(within);
            let entry = self.map.entry(extent);
            if (self.is_newer(extent, within, len.0) || entry.is_lost()) && !mutation::is(Mutation::ReadOldOrigin) {
                io.add_part(request);
                io.part_done(request, Err(RequestError::Device));
                self.access_ended(extent);
            } else {
                io.add_part(request);
                let origin = self.origin_of(extent);
                let (device, at) = self.layout.at(origin);
                let purpose = CacheStep::Host { request, first_extent: extent, count: 1, follow: Follow::NOTHING };
                io.read((device, at + Bytes(within)), len, buffer, purpose, Cause::Host);
            }
        }
        io.part_done(request, Ok(()));
    }
}
