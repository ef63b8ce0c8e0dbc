//! The locking rule of moves: it decides for each access to an extent with a move under way whether the access waits.
//! [`verdict`] is the whole rule; its inputs are the blocks that the move holds and those that the access touches.

use peryton_format::mutation::{self, Mutation};
use peryton_units::Op;

use crate::{
    api::config::WritePolicy,
    cache::access::Fragment,
    cache::drive::CacheDrive,
    cache::movers::table::{Kind, Phase},
    cache::step::{CacheCall, CacheIo},
};

/// The part of its extent that a move holds.
#[derive(Clone, Copy, Debug)]
struct Held {
    kind: Kind,
    phase: Phase,
    /// The blocks that it reads or writes (fills, write-backs and evictions).
    blocks: u16,
    /// The blocks of which the move's buffer has, or will have, the newest data (fills).
    to_bring: u16,
    /// The blocks that a write-back reads from their origin, and writes there again.
    missing: u16,
    /// Writes of the host wait until the move has ended.
    holds_writes: bool,
}

/// Where a write will go, as far as that is known before it is routed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goes {
    /// To the slot alone.
    Slot,
    /// To the origin alone: the slot has nothing of what it touches.
    Origin,
    /// To the origin first. Once the origin has the data, the slot gets them from memory.
    OriginFirst,
    /// To either, or both.
    Anywhere,
}

/// An access, as far as the rule depends on it.
#[derive(Clone, Copy, Debug)]
struct Asked {
    op: Op,
    /// The blocks that it touches; none in tiering.
    touched: u16,
    covers_extent: bool,
    /// Where a write will go.
    goes: Goes,
}

/// State of the drive that the rule also depends on.
#[derive(Clone, Copy, Debug)]
struct Beside {
    /// A device is gone: the extent's old or new place may be lost, so an access can be routed only when the move has ended.
    degraded: bool,
    /// Every write goes to the slow device, and perhaps to the fast one as well.
    writes_go_to_origin: bool,
}

/// The decision about an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Waits,
    /// The move's buffer has all data of the read.
    FromBuffer,
    /// The access is routed as if there were no move. The move leaves out the blocks that the access writes, or is given up.
    Passes,
}

/// Decides about an access while a move is under way. Access and move never write the same block of a place at once, and neither reads a
/// block that the other is writing.
fn verdict(held: Held, asked: Asked, beside: Beside) -> Verdict {
    let Asked { op, touched, .. } = asked;
    let waits_if = |waits: bool| if waits { Verdict::Waits } else { Verdict::Passes };
    let found = match (held.kind, held.phase) {
        // Until the fast device has the extent's newest data, the buffer has them.
        (Kind::Promotion, Phase::Writing) if op == Op::Read => return Verdict::FromBuffer,
        (Kind::Promotion | Kind::Overwrite | Kind::Zero | Kind::Drain(_) | Kind::Allocation, _) => Verdict::Waits,
        (Kind::Fill, Phase::Writing) if op == Op::Read && touched & !held.to_bring == 0 => {
            return Verdict::FromBuffer;
        }
        (Kind::Fill, Phase::Draining) => Verdict::Waits,
        (Kind::Fill, phase) => match op {
            Op::Read => waits_if(touched & held.to_bring != 0),
            // A fill leaves out blocks that are written while it reads them.
            Op::Write => waits_if(match asked.goes {
                Goes::Origin => false,
                Goes::OriginFirst => phase != Phase::Reading,
                Goes::Slot => phase != Phase::Reading && touched & held.blocks != 0,
                Goes::Anywhere => true,
            }),
            Op::Discard | Op::Flush => Verdict::Waits,
        },
        (Kind::Demotion, _) => waits_if(op == Op::Discard && asked.covers_extent),
        (Kind::WriteBack, Phase::Draining) => Verdict::Waits,
        (Kind::Eviction | Kind::WriteBack, phase) => waits_if(match op {
            Op::Write if held.holds_writes => true,
            // Two writes to the origin must not race: of a partly dirty extent, clean blocks may go to the origin as well.
            Op::Write if phase == Phase::Writing => {
                let completes = held.missing & touched != 0 && !mutation::is(Mutation::PassCompletion);
                beside.writes_go_to_origin || completes && asked.goes != Goes::Slot
            }
            op => op == Op::Discard && asked.covers_extent,
        }),
    };
    if beside.degraded { Verdict::Waits } else { found }
}

impl CacheDrive {
    /// Whether a fragment must wait for the move under way for its extent, or was served by it. Otherwise the fragment
    /// proceeds, and a move that it disturbs is cancelled.
    pub(in crate::cache) fn blocked_by_move(&mut self, io: &mut CacheCall, index: u32, fragment: Fragment) -> bool {
        let row = &self.moves[index];
        let held = Held {
            kind: row.kind,
            phase: row.phase,
            blocks: row.blocks,
            to_bring: row.blocks_to_bring(),
            missing: row.missing,
            holds_writes: row.holds_until.is_some(),
        };
        let touched = self.touched(fragment);
        let goes = if fragment.op == Op::Write { self.goes(io, fragment) } else { Goes::Anywhere };
        let asked = Asked { op: fragment.op, touched, covers_extent: self.covers_extent(fragment), goes };
        let beside = Beside {
            degraded: self.gone.any(),
            writes_go_to_origin: io.tuning.write == WritePolicy::Through || self.is_full_of_dirty(),
        };
        let verdict = verdict(held, asked, beside);
        let row = &mut self.moves[index];
        match verdict {
            Verdict::FromBuffer => {
                Self::copy_from_move(io, row.buffer, fragment);
                // Data that are in memory alone do not survive the process, so a read of them is answered when the device has them.
                match row.ram_dirty && self.map.keeps_changed() {
                    true => row.answers.push(fragment),
                    false => io.part_done(fragment.request, Ok(())),
                }
            }
            Verdict::Waits => {
                let is_held = held.kind == Kind::WriteBack && (held.phase == Phase::Draining || held.holds_writes);
                io.stats.held_writes += u64::from(is_held && fragment.is_new && fragment.op == Op::Write);
                row.waiters.push(fragment);
            }
            Verdict::Passes => {
                row.accessed = true;
                if fragment.op == Op::Write {
                    self.note_rewritten(index, touched);
                }
                return false;
            }
        }
        self.count_hit(io, fragment);
        true
    }

    /// Where a write to an extent for which a move is under way will go.
    fn goes(&self, io: &CacheIo, fragment: Fragment) -> Goes {
        if self.stays_at_origin(io, fragment) {
            return Goes::Origin;
        }
        let writes_through = io.tuning.write == WritePolicy::Through && self.controller.is_none();
        if writes_through && self.may_follow_its_origin(fragment) {
            return Goes::OriginFirst;
        }
        if self.stays_in_slot(io, fragment) { Goes::Slot } else { Goes::Anywhere }
    }

    /// Whether a write to an extent that has a slot goes to the origin alone, because the slot has nothing of what it touches.
    fn stays_at_origin(&self, io: &CacheIo, fragment: Fragment) -> bool {
        let masks = self.map.masks_of(fragment.extent);
        let goes_to_origin = match io.tuning.write {
            WritePolicy::Through => true,
            WritePolicy::Around => masks.dirty() == 0,
            WritePolicy::Back => false,
        };
        goes_to_origin && self.controller.is_none() && masks.lost() == 0 && self.touched(fragment) & masks.valid() == 0
    }

    /// Whether a write to an extent that has a slot goes there alone.
    fn stays_in_slot(&self, io: &CacheIo, fragment: Fragment) -> bool {
        let (masks, touched) = (self.map.masks_of(fragment.extent), self.touched(fragment));
        let is_plain =
            self.controller.is_some() || io.tuning.write == WritePolicy::Back && !self.gate.judges_write_hits();
        let may_dirty = touched & !masks.dirty() == 0 || !self.is_full_of_dirty();
        let missing = touched & !masks.valid();
        is_plain && may_dirty && missing & !self.covered(fragment) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::movers::table::Drained;

    const KINDS: [Kind; 9] = [
        Kind::Promotion,
        Kind::Overwrite,
        Kind::Fill,
        Kind::Demotion,
        Kind::Eviction,
        Kind::WriteBack,
        Kind::Zero,
        Kind::Drain(Drained::Invalidate),
        Kind::Allocation,
    ];
    const PHASES: [Phase; 5] =
        [Phase::Reading, Phase::Writing, Phase::WritingOrigin, Phase::Draining, Phase::Committing];
    /// Sets of three blocks.
    const SETS: u16 = 1 << 3;

    /// Every move of an extent of three blocks, every access to it, and everything that decides besides.
    fn every(mut check: impl FnMut(Held, Asked, Beside, Verdict)) {
        let flags = || [false, true].into_iter();
        for (kind, phase) in KINDS.iter().flat_map(|kind| PHASES.iter().map(|phase| (*kind, *phase))) {
            for (blocks, to_bring, missing) in
                (0..SETS).flat_map(|a| (0..SETS).flat_map(move |b| (0..SETS).map(move |c| (a, a & b, a & c))))
            {
                for holds_writes in flags() {
                    let held = Held { kind, phase, blocks, to_bring, missing, holds_writes };
                    for (op, touched) in [Op::Read, Op::Write, Op::Discard]
                        .into_iter()
                        .flat_map(|op| (1..SETS).map(move |all| (op, all)))
                    {
                        for goes in [Goes::Slot, Goes::Origin, Goes::OriginFirst, Goes::Anywhere] {
                            let asked = Asked { op, touched, covers_extent: touched == SETS - 1, goes };
                            for (degraded, writes_go_to_origin) in flags().flat_map(|a| flags().map(move |b| (a, b))) {
                                let beside = Beside { degraded, writes_go_to_origin };
                                check(held, asked, beside, verdict(held, asked, beside));
                            }
                        }
                    }
                }
            }
        }
    }

    /// The blocks that a move is writing to the slot, and to the origin.
    fn writes(held: Held) -> (u16, u16) {
        match (held.kind, held.phase) {
            (Kind::Fill, Phase::Writing) => (held.blocks, 0),
            (Kind::Eviction | Kind::WriteBack, Phase::Writing) => (0, held.blocks),
            _ => (0, 0),
        }
    }

    /// The fear: of two writes in flight to one block of one place, either may come last.
    #[test]
    fn no_block_of_a_place_is_written_twice_at_once() {
        let mut passed = 0;
        every(|held, asked, beside, verdict| {
            if verdict != Verdict::Passes || asked.op != Op::Write {
                return;
            }
            passed += 1;
            let (slot, origin) = writes(held);
            let to_slot = asked.goes != Goes::Origin && asked.goes != Goes::OriginFirst;
            assert!(!to_slot || slot & asked.touched == 0, "{held:?} {asked:?} {beside:?}");
            // Without writes to both devices, a write to the origin only touches blocks that the slot lacks: blocks
            // that complete a unit.
            let to_origin = asked.goes != Goes::Slot;
            assert!(!to_origin || origin & held.missing & asked.touched == 0, "{held:?} {asked:?} {beside:?}");
            assert!(!beside.writes_go_to_origin || origin == 0, "{held:?} {asked:?} {beside:?}");
        });
        assert!(passed > 10_000, "{passed}");
    }

    /// The fear: a read finds half of what is being written, or what it is to replace.
    #[test]
    fn nothing_is_read_where_it_is_being_written() {
        every(|held, asked, _, verdict| {
            if asked.op != Op::Read {
                return;
            }
            let (slot, _) = writes(held);
            let reads_slot = asked.touched & slot & held.to_bring != 0;
            assert!(verdict != Verdict::Passes || !reads_slot, "{held:?} {asked:?}");
            if verdict == Verdict::FromBuffer {
                assert_eq!(held.phase, Phase::Writing, "{held:?}");
                let has_all = held.kind == Kind::Promotion || asked.touched & !held.to_bring == 0;
                assert!(has_all, "{held:?} {asked:?}");
            }
        });
    }

    /// The fear: an access is routed by a map that is about to change, or past what takes the extent out of its place.
    #[test]
    fn while_an_extent_is_detached_or_a_device_is_gone_everything_waits() {
        every(|held, asked, beside, verdict| {
            let detaches = matches!(held.kind, Kind::Drain(_) | Kind::Zero | Kind::Allocation | Kind::Overwrite);
            let drains = held.phase == Phase::Draining && matches!(held.kind, Kind::Fill | Kind::WriteBack);
            if detaches || drains || beside.degraded && verdict != Verdict::FromBuffer {
                assert_eq!(verdict, Verdict::Waits, "{held:?} {asked:?} {beside:?}");
            }
            // A write never disturbs what has to come to an end for it.
            if held.holds_writes && held.kind == Kind::WriteBack && asked.op == Op::Write {
                assert_eq!(verdict, Verdict::Waits, "{held:?} {asked:?} {beside:?}");
            }
        });
    }

    /// An access that may pass never waits: the rule does not make accesses wait for moves of other blocks.
    #[test]
    fn what_does_not_meet_does_not_wait() {
        every(|held, asked, beside, verdict| {
            let apart = asked.touched & held.blocks == 0;
            let reads = asked.op == Op::Read && !beside.degraded;
            let is_fill = held.kind == Kind::Fill && matches!(held.phase, Phase::Reading | Phase::Writing);
            if reads && is_fill && apart {
                assert_eq!(verdict, Verdict::Passes, "{held:?} {asked:?}");
            }
            if reads && held.kind == Kind::WriteBack && held.phase != Phase::Draining {
                assert_eq!(verdict, Verdict::Passes, "{held:?} {asked:?}");
            }
        });
    }
}
