//! Accesses to an extent that is being moved: they wait, are served from the move's buffer, or pass and cancel it. And
//! accesses that wait for a place.

use peryton_format::{
    entry::MapEntry,
    mutation::{self, Mutation},
};
use peryton_policy::ReplacementPolicy;
use peryton_units::{Bytes, Nanos, Op};

use super::{Kind, Move, Phase};
use crate::{
    command::{Buffer, Cause, Command, Commands},
    config::WritePolicy,
    hybrid::journal::Waiter,
    hybrid::step::Core,
    hybrid::{Fragment, Hybrid, Mode},
    io::RequestIndex,
};

impl Hybrid {
    pub(in crate::hybrid) fn wait_behind(&mut self, index: u32, fragment: Fragment) {
        self.moves[index].waiters.push(fragment);
    }

    /// Whether a fragment has to wait for (or was served by) the move under way for its extent. Otherwise it passes,
    /// and a move that it disturbs is cancelled.
    pub(in crate::hybrid) fn waits_for_move(
        &mut self,
        core: &mut Core,
        now: Nanos,
        index: u32,
        fragment: Fragment,
        out: &mut Commands,
    ) -> bool {
        let covers = self.covers_extent(fragment);
        let degraded = self.gone.any();
        let row = &mut self.moves[index];
        let waits = match (row.kind, row.phase) {
            (Kind::Promotion, Phase::Writing) if fragment.op == Op::Read => {
                // The buffer holds the extent's latest data until the fast device does.
                Self::copy_from_move(core, row.buffer, fragment, out);
                self.count_hit(core, now, fragment);
                return true;
            }
            (Kind::Promotion | Kind::Fill | Kind::Zero | Kind::Drain(_) | Kind::Allocation, _) => true,
            (Kind::Demotion, _) => {
                row.accessed = true;
                fragment.op == Op::Discard && covers
            }
            (Kind::Eviction | Kind::WriteBack, phase) => {
                row.accessed = true;
                row.rewritten |= fragment.op == Op::Write;
                // Two writes to the home must not race.
                let through = fragment.op == Op::Write && core.tuning.write == WritePolicy::Through;
                (through && phase == Phase::Writing) || (fragment.op == Op::Discard && covers)
            }
        };
        // Where it leaves from, or goes to, may be gone: where the extent is then is known at the end.
        let waits = waits || degraded;
        if waits {
            self.moves[index].waiters.push(fragment);
            self.count_hit(core, now, fragment);
        }
        waits
    }

    fn count_hit(&mut self, core: &mut Core, now: Nanos, fragment: Fragment) {
        if fragment.first && fragment.op != Op::Discard {
            core.ledger.fast_hits += 1;
        }
        let entry = &mut self.extents[fragment.extent as usize];
        entry.access(now);
        let moving = entry.moving().map(|index| &self.moves[index]);
        if let Some(Move { kind: Kind::Promotion | Kind::Fill, to: Some(to), .. }) = moving
            && let Some(slot) = self.layout.fast_slot(*to)
        {
            self.policy.accessed(slot);
        }
    }

    fn copy_from_move(core: &mut Core, buffer: u32, fragment: Fragment, out: &mut Commands) {
        let ram = Buffer::Move { index: buffer, offset: Bytes(u64::from(fragment.within)) };
        let host = Buffer::Request { id: core.id_of(fragment.request), offset: fragment.offset };
        let len = Bytes(u64::from(fragment.len));
        match fragment.op {
            Op::Read => out.push(Command::Copy { from: ram, to: host, len }),
            Op::Write => out.push(Command::Copy { from: host, to: ram, len }),
            Op::Discard | Op::Flush => unreachable!("only reads and writes are served from RAM"),
        }
        core.ledger.served_from_ram += 1;
        core.part_done(fragment.request, Ok(()), out);
    }

    pub(in crate::hybrid) fn wait_for_commit(
        &mut self,
        core: &mut Core,
        now: Nanos,
        fragment: Fragment,
        out: &mut Commands,
    ) {
        let index = self.start(Kind::Allocation, Phase::Committing, fragment.extent, None, None);
        self.moves[index].waiters.push(fragment);
        self.journal.wait(Waiter::Move(index));
        self.commit(core, now, true, out);
    }

    pub(in crate::hybrid) fn answer_at_end(
        &mut self,
        core: &mut Core,
        index: u32,
        request: RequestIndex,
        out: &mut Commands,
    ) {
        if mutation::is(Mutation::AnswerPastEarly) {
            return core.part_done(request, Ok(()), out);
        }
        self.moves[index].answers.push(request);
    }

    pub(in crate::hybrid) fn wait_for_place(&mut self, fragment: Fragment) {
        let index = self.start(Kind::Allocation, Phase::Committing, fragment.extent, None, None);
        self.moves[index].waiters.push(fragment);
        self.starving.push(index);
    }

    /// A place is free, or will be after the next commit.
    pub(in crate::hybrid) fn feed_starving(&mut self, core: &mut Core, now: Nanos, out: &mut Commands) {
        for index in std::mem::take(&mut self.starving) {
            if self.journal.has_limbo() {
                self.journal.wait(Waiter::Move(index));
                self.commit(core, now, true, out);
            } else {
                self.move_committed(core, now, index, out);
            }
        }
    }

    /// The extent is in the buffer: those who waited are served from it, sparing the fast device an access each
    /// (GreenDM, section 2.3, "Serving directly from RAM").
    pub(super) fn serve_from_ram(&mut self, core: &mut Core, index: u32, out: &mut Commands) {
        // A write-through or write-around write has to reach the slow device as well: it waits for the end.
        let writes_too = self.mode == Mode::Tiering || core.tuning.write == WritePolicy::Back;
        let row = &mut self.moves[index];
        row.phase = Phase::Writing;
        let buffer = row.buffer;
        let mut wrote = false;
        row.waiters.retain(|fragment| {
            let served = fragment.op == Op::Read || fragment.op == Op::Write && writes_too;
            if served {
                Self::copy_from_move(core, buffer, *fragment, out);
                wrote |= fragment.op == Op::Write;
            }
            !served
        });
        let to = row.to.expect("a promotion has a destination");
        if wrote {
            row.ram_dirty = true;
            self.volatile.push(index);
        }
        self.move_write(core, index, to, Cause::Promotion, out);
        if mutation::is(Mutation::CommitBeforeData) {
            let extent = self.moves[index].extent;
            let entry = MapEntry::new(Some(to), false, false);
            self.journal.update(core, core.now, extent, entry, false);
        }
    }
}
