//! A flush has failed: everything that was written to the device since its last good flush may be lost, and no later flush says
//! so again.
//!
//! What the durable map points to is still there: its places are not free before the commit that gives them up is
//! durable. So each extent that the map has moved since, or calls clean because of a write since, goes back to what is sure:
//!
//! ```text
//! tiering   the place is on the device        to its durable place (or none, where it is new)
//! caching   the slow device, dirty durably    to the copy that is durable: it is written home again
//!           the slow device, not dirty        stays, as newer than its home; where nothing is written back, the copy goes
//!           the fast device, a new copy       the copy goes: the home has what is durable
//!           the fast device, written home     the copy goes: the home has all of it
//!           both, not dirty durably           the copy goes: it may differ from its home
//! ```
//! What the host wrote in place since its last flush lies nowhere else. A flush of the host that fails names it: one that
//! waits, or the next.
//!
//! What has to be remembered for this is the journal's updates, which are there anyway, and the copies that were written through
//! to both devices, at most [`MOST_REMEMBERED`] of them.

use peryton_format::{
    entry::MapEntry,
    mutation::{self, Mutation},
};
use peryton_policy::ReplacementPolicy;
use peryton_units::Nanos;
use rustc_hash::FxHashMap;

use crate::{
    api::command::{Commands, DeviceId},
    api::config::WritePolicy,
    api::error::RequestError,
    cache::access::{Mode, Release},
    cache::drive::CacheDrive,
    cache::map::extent::Place,
    cache::movers::table::{Drained, Kind, Phase},
    cache::step::CacheIo,
};

/// So many writes to both devices are remembered by extent. Beyond that every clean copy counts as one of them.
const MOST_REMEMBERED: usize = 4096;

/// Which devices may have lost something of an extent.
#[derive(Clone, Copy, Debug, Default)]
struct Doubt {
    fast: bool,
    slow: bool,
    /// A move was under way, which may have carried what was lost elsewhere.
    moved: bool,
}

/// A write to both devices, with the stamps of either.
#[derive(Clone, Copy, Debug)]
struct WrittenThrough {
    extent: u32,
    stamps: [u64; 2],
}

#[derive(Debug, Default)]
pub(in crate::cache) struct Doubts {
    /// Extents that are looked at once nothing is under way for them.
    extents: FxHashMap<u32, Doubt>,
    /// The host has to be notified.
    tells: bool,
    /// Clean copies that were written and may not be durable.
    written: Vec<WrittenThrough>,
    /// There are more than are remembered; the stamps are those of the latest.
    more: Option<[u64; 2]>,
}

impl Doubts {
    #[inline]
    pub(in crate::cache) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }
}

impl CacheDrive {
    /// A write has reached the copy and the home of an extent.
    pub(in crate::cache) fn wrote_through(&mut self, io: &CacheIo, extent: u32) {
        let devices = [self.layout.fast, self.layout.slow];
        let stamps = devices.map(|device| io.stamp(device));
        let is_durable =
            |stamps: [u64; 2]| devices.iter().zip(stamps).all(|(device, stamp)| io.is_flushed(*device, stamp));
        let Doubts { written, more, .. } = &mut self.doubts;
        if more.is_some_and(is_durable) {
            *more = None;
        }
        if more.is_some() {
            *more = Some(stamps);
            return;
        }
        if written.len() >= MOST_REMEMBERED {
            written.retain(|write| !is_durable(write.stamps));
            // Those that stay are looked at again only after as many more.
            if written.len() > MOST_REMEMBERED / 2 {
                written.clear();
                *more = Some(stamps);
                return;
            }
        }
        written.push(WrittenThrough { extent, stamps });
    }

    /// A flush of the device has failed.
    #[cold]
    pub(in crate::cache) fn doubt(&mut self, io: &mut CacheIo, now: Nanos, device: DeviceId, out: &mut Commands) {
        if mutation::is(Mutation::TrustFailedFlush) {
            return;
        }
        let slow = device == self.layout.slow;
        let mut extents = self.journal.flush_failed(slow);
        io.in_doubt = true;
        self.doubts.tells |= io.take_host_doubt(device);
        if self.mode == Mode::Caching {
            self.copies_in_doubt(io, device, &mut extents);
        }
        if self.journal.durable.is_none() {
            // There is nothing on the devices to go back to.
            extents.clear();
        }
        for extent in &extents {
            let doubt = self.doubts.extents.entry(*extent).or_default();
            doubt.slow |= slow;
            doubt.fast |= !slow;
        }
        for extent in extents {
            self.look_at_doubt(io, now, extent);
        }
        self.go_on_after_doubts(io, now, out);
    }

    /// Copies that were written together with their homes, and of which one or the other may be lost.
    fn copies_in_doubt(&self, io: &CacheIo, device: DeviceId, extents: &mut Vec<u32>) {
        let which = usize::from(device == self.layout.slow);
        let Doubts { written, more, .. } = &self.doubts;
        let all = more.is_some_and(|stamps| !io.is_flushed(device, stamps[which]));
        let unsure = written.iter().filter(|write| !io.is_flushed(device, write.stamps[which]));
        extents.extend(unsure.map(|write| write.extent));
        extents.extend(self.through_in_flight.iter().map(|write| self.through[*write].fragment.extent));
        // What a move has read before is not what is there now: copy and home would differ.
        let reads = |kind| match kind {
            // A write past the copy is home, and the copy is about to go.
            Kind::Promotion | Kind::Drain(Drained::Stale) => device == self.layout.slow,
            Kind::WriteBack | Kind::Eviction => device == self.layout.fast,
            _ => false,
        };
        let under_way = self
            .moves
            .all()
            .filter(|(index, row)| reads(row.kind) && self.map.entry(row.extent).moving() == Some(*index));
        extents.extend(under_way.map(|(_, row)| row.extent));
        if all {
            extents.extend(self.map.entries().filter(|(_, entry)| entry.place().is_some()).map(|(extent, _)| extent));
        }
    }

    /// Settles an extent that may be in doubt, now or when what is under way for it has ended.
    #[cold]
    pub(in crate::cache) fn look_at_doubt(&mut self, io: &mut CacheIo, now: Nanos, extent: u32) {
        let Some(doubt) = self.doubts.extents.get(&extent).copied() else { return };
        let entry = self.map.entry(extent);
        let Some(index) = entry.moving() else {
            if self.sure(io, extent, doubt) == entry.entry() {
                self.doubts.extents.remove(&extent);
            } else if entry.in_flight > 0 {
                self.start(Kind::Drain(Drained::Revert), Phase::Draining, extent, None, None);
            } else {
                self.settle_doubt(io, now, extent);
            }
            return;
        };
        let row = &mut self.moves[index];
        match row.kind {
            // It waits for a commit, which waits for this; no access is under way.
            _ if row.phase == Phase::Committing => return self.settle_doubt(io, now, extent),
            // What is read now may be what was there before, and is not to reach the home.
            Kind::Eviction | Kind::WriteBack if doubt.fast => row.rewritten = true,
            // Nobody is served what it reads now.
            Kind::Promotion if matches!(row.phase, Phase::Reading | Phase::Draining) => row.failed = true,
            Kind::Drain(Drained::Revert) => return,
            _ => {}
        }
        // The rest at the end of the move.
        self.doubts.extents.entry(extent).or_default().moved = true;
    }

    /// Whether one of these extents is in doubt.
    #[cold]
    pub(in crate::cache) fn may_be_lost(&self, first: u32, count: u32) -> bool {
        !mutation::is(Mutation::ReadInDoubt)
            && (first..first + count).any(|extent| self.doubts.extents.contains_key(&extent))
    }

    /// What is sure of an extent.
    fn sure(&self, io: &CacheIo, extent: u32, doubt: Doubt) -> MapEntry {
        let now = self.map.entry(extent).entry();
        let durable = self.journal.durable.as_ref().map_or(now, |durable| durable.image[extent as usize]);
        let durable = self.without_gone(durable);
        if self.mode == Mode::Tiering {
            let is_fast = |place: Place| self.layout.fast_slot(place).is_some();
            let here = now.place().is_some_and(|place| if is_fast(place) { doubt.fast } else { doubt.slow });
            return if here || doubt.moved { durable } else { now };
        }
        let home = |lost| self.without_gone(MapEntry::new(None, false, lost));
        let writes_back = io.tuning.write == WritePolicy::Back || self.controller.is_some();
        match (doubt.fast, now.place()) {
            (true, _) if doubt.slow && durable.is_dirty() => durable,
            // The copy may have lost what the home has: only one of them may be read from now on.
            (true, _) if doubt.slow => home(durable.is_lost()),
            (false, _) if durable.is_dirty() || durable.is_lost() => durable,
            (_, None) => now,
            // The copy is whole, and goes home again.
            (false, place) if !now.is_dirty() && writes_back && !doubt.moved => {
                MapEntry::new(place, true, now.is_lost())
            }
            (_, Some(_)) if !now.is_dirty() => home(now.is_lost()),
            (true, place) if place != durable.place() && !mutation::is(Mutation::RevertNewCopies) => {
                home(durable.is_lost())
            }
            _ => now,
        }
    }

    /// The map says what is sure of the extent, for which nothing is under way.
    #[cold]
    pub(in crate::cache) fn settle_doubt(&mut self, io: &mut CacheIo, now: Nanos, extent: u32) {
        let Some(doubt) = self.doubts.extents.remove(&extent) else { return };
        let (before, sure) = (*self.map.entry(extent), self.sure(io, extent, doubt));
        if sure == before.entry() {
            return;
        }
        if sure.place() != before.place() {
            if let Some(place) = before.place() {
                self.map.set_dirty(extent, false);
                self.map.unmap(extent);
                match self.layout.fast_slot(place) {
                    Some(slot) => self.release_slot(slot, Release::Detached),
                    None => self.release_place(place, Release::Detached),
                }
            }
            if let Some(place) = sure.place() {
                self.journal.reclaim(place);
                self.map.set_place(extent, Some(place));
                if let Some(slot) = self.layout.fast_slot(place) {
                    self.map.occupy(slot, extent);
                    self.policy.inserted(slot, extent);
                }
            }
            // What the host wrote to the place that is given up may be nowhere else.
            self.doubts.tells |=
                before.is_dirty() || doubt.slow || self.mode == Mode::Tiering || sure.place().is_some();
        }
        self.map.set_dirty(extent, sure.is_dirty());
        self.map.set_lost(extent, sure.is_lost());
        self.note(io, now, extent, self.mode == Mode::Caching && sure.place().is_none());
        if sure.is_dirty() && self.controller.is_none() {
            self.queue_writeback(io, now, extent, true);
        }
    }

    /// A write past the copy covers the extent: what was in doubt before it does not matter any more.
    #[inline]
    pub(in crate::cache) fn past_is_sure(&mut self, index: u32, extent: u32) {
        let row = &mut self.moves[index];
        if row.kind == Kind::Drain(Drained::Revert) {
            row.kind = Kind::Drain(Drained::Stale);
            self.doubts.extents.remove(&extent);
        }
    }

    /// When all is settled, the host is notified if it has to be, and commits go on.
    #[cold]
    pub(in crate::cache) fn go_on_after_doubts(&mut self, io: &mut CacheIo, now: Nanos, out: &mut Commands) {
        if !self.journal.in_doubt || !self.doubts.is_empty() {
            return;
        }
        let tells = std::mem::take(&mut self.doubts.tells) && !mutation::is(Mutation::KeepFailedFlush);
        let mut flushes = self.journal.doubts_are_settled(io, tells);
        io.in_doubt = io.owes_error;
        if tells {
            // A write that came since may have had a part in a place that was given up only now.
            io.doubt_writes();
            flushes.extend(std::mem::take(&mut self.flushes).into_iter().map(|(request, _)| request));
            if flushes.is_empty() { io.owe_error() } else { io.told() }
        }
        for request in flushes {
            io.part_done(request, Err(RequestError::Device), out);
        }
        if self.journal.commit_again(io) {
            self.commit(io, now, true, out);
        }
    }
}
