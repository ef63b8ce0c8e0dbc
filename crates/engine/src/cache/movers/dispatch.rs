//! The table of moves: the next step after a command of a move, after the accesses that it waited for, and after its commit. Only the loop
//! of the drive ([`ready`](crate::cache::ready)) and completed commands come here.

use crate::{
    api::command::Cause,
    api::error::RequestError,
    cache::access::Release,
    cache::drive::CacheDrive,
    cache::map::extent::Loss,
    cache::movers::table::{Drained, Kind, Phase},
    cache::step::CacheCall,
};

impl CacheDrive {
    /// Continues a move after the accesses that were in flight have ended.
    pub(in crate::cache) fn drained(&mut self, io: &mut CacheCall, index: u32) {
        let row = &self.moves[index];
        debug_assert_eq!((row.phase, self.map.entry(row.extent).in_flight), (Phase::Draining, 0), "{:?}", row.kind);
        match row.kind {
            Kind::Drain(then) => self.detach(io, index, then),
            Kind::Promotion => self.promotion_drained(io, index),
            Kind::Fill => self.fill_drained(io, index),
            Kind::WriteBack => self.writeback_drained(io, index),
            kind => unreachable!("a {kind:?} waits for no accesses"),
        }
    }

    /// Handles a completed command of the move.
    pub(in crate::cache) fn move_step(&mut self, io: &mut CacheCall, index: u32, failed: bool) {
        let row = &mut self.moves[index];
        row.failed |= failed;
        row.pending -= 1;
        if failed {
            io.stats.moves.cancelled.device_error += 1;
        }
        if row.pending > 0 {
            // A step has several commands if blocks are moved that are not neighbours.
            return;
        }
        match (row.kind, row.phase, row.failed) {
            (Kind::Promotion, Phase::Reading, false) if self.gone.fast => self.abort_promotion(io, index),
            (Kind::Promotion, Phase::Reading, false) => self.serve_from_ram(io, index),
            (Kind::Promotion, Phase::Reading, true) => self.abort_promotion(io, index),
            (Kind::Promotion, Phase::Writing, false) => self.promoted(io, index),
            (Kind::Promotion, Phase::Writing, true) if row.ram_dirty => {
                // The buffer holds acknowledged writes, so they must reach the origin.
                row.phase = Phase::WritingOrigin;
                row.failed = false;
                let from = self.current_place(self.moves[index].extent);
                self.move_write(io, index, from, Cause::Promotion);
            }
            (Kind::Promotion, Phase::Writing, true) => self.abort_promotion(io, index),
            (Kind::Promotion, Phase::WritingOrigin, failed) => {
                if failed {
                    io.stats.lost_extents += 1;
                    let extent = row.extent;
                    let changed = self.map.set_loss(extent, Loss::Newest);
                    self.record(io, changed, false);
                    for fragment in std::mem::take(&mut self.moves[index].answers) {
                        io.part_done(fragment.request, Err(RequestError::Device));
                    }
                }
                self.abort_promotion(io, index);
            }
            (Kind::Fill, Phase::Reading, false) if !self.gone.any() => self.part_was_read(io, index),
            (Kind::Fill, Phase::Reading, _) => self.end(io, index),
            (Kind::Fill, Phase::Writing, failed) => self.filled(io, index, failed),
            (Kind::Overwrite, Phase::Writing, failed) => self.overwritten(io, index, failed),
            (Kind::Demotion, Phase::Reading, false) if !row.accessed => {
                row.phase = Phase::Writing;
                let to = row.to.expect("a demotion has a destination");
                self.move_write(io, index, to, Cause::Demotion);
            }
            (Kind::Demotion, Phase::Writing, false) if !row.accessed => self.demoted(io, index),
            (Kind::Demotion, _, failed) => {
                io.stats.moves.cancelled.accessed += u64::from(!failed);
                let (extent, to) = (row.extent, row.to.expect("a demotion has a destination"));
                if failed {
                    self.cleaner.failures.ended(true);
                    self.cannot_leave(io, extent);
                }
                self.release_place(to, Release::NeverUsed);
                self.end(io, index);
            }
            (Kind::Eviction | Kind::WriteBack, Phase::Reading, _) if let Some(place) = row.run => {
                self.run_was_read(io, place);
            }
            (Kind::Eviction | Kind::WriteBack, Phase::Reading, false) => {
                row.phase = Phase::Writing;
                row.blocks &= !row.rewritten_blocks;
                if row.blocks == 0 {
                    return self.written_back(io, index, false);
                }
                let (to, cause) = (row.to.expect("a write-back has an origin"), row.kind.cause());
                self.move_write(io, index, to, cause);
            }
            (Kind::Eviction | Kind::WriteBack, Phase::Writing, true) if row.missing != 0 && !self.gone.any() => {
                self.write_without_missing(io, index);
            }
            (Kind::Eviction | Kind::WriteBack, _, failed) => self.written_back(io, index, failed),
            (Kind::Zero, Phase::Writing, failed) => self.zeroed(io, index, failed),
            (Kind::Drain(Drained::Discard), Phase::Writing, failed) => self.discarded(io, index, failed),
            (Kind::Drain(Drained::Supersede), Phase::Writing, failed) => {
                self.superseded(io, index, failed);
            }
            (kind, phase, _) => unreachable!("a {kind:?} has no step in {phase:?}"),
        }
    }

    /// Continues a move whose commit is durable.
    pub(in crate::cache) fn move_committed(&mut self, io: &mut CacheCall, index: u32) {
        let row = &mut self.moves[index];
        assert_eq!(row.phase, Phase::Committing, "a {:?} did not wait for a commit", row.kind);
        if let Some(fragment) = row.trigger.take() {
            row.waiters.insert(0, fragment);
        }
        self.end(io, index);
    }
}
