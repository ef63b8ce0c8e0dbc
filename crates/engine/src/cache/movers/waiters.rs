//! Accesses to an extent that is being moved: they wait, are served from the move's buffer, or proceed and cancel it.

use peryton_format::mutation::{self, Mutation};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    api::command::{Buffer, Command, Commands},
    api::config::WritePolicy,
    cache::access::Fragment,
    cache::drive::CacheDrive,
    cache::movers::table::{Kind, Move, Phase},
    cache::step::CacheIo,
    io::RequestIndex,
};

impl CacheDrive {
    pub(in crate::cache) fn wait_behind(&mut self, index: u32, fragment: Fragment) {
        self.moves[index].waiters.push(fragment);
    }

    /// Whether a fragment must wait for the move under way for its extent, or was served by it. Otherwise the fragment
    /// proceeds, and a move that it disturbs is cancelled.
    pub(in crate::cache) fn blocked_by_move(
        &mut self,
        io: &mut CacheIo,
        now: Nanos,
        index: u32,
        fragment: Fragment,
        out: &mut Commands,
    ) -> bool {
        let covers = self.covers_extent(fragment);
        let degraded = self.gone.any();
        let in_doubt = !self.doubts.is_empty() && self.may_be_lost(fragment.extent, 1);
        let touched = self.touched(fragment);
        let passes_fill = self.moves[index].kind == Kind::PartFill && self.passes_fill(io, index, fragment);
        let full = self.is_full_of_dirty();
        let races = self.races_with_missing(io, index, fragment);
        let row = &mut self.moves[index];
        let waits = match (row.kind, row.phase) {
            // What the buffer has may be gone when the promotion ends, if a flush has failed meanwhile.
            (Kind::Promotion, Phase::Writing) if fragment.op == Op::Read && !in_doubt => {
                // Until the fast device has the extent's latest data, the buffer has it.
                Self::copy_from_move(io, row.buffer, fragment, out);
                match row.ram_dirty && self.map.keeps_changed() {
                    true => row.answers.push(fragment.request),
                    false => io.part_done(fragment.request, Ok(()), out),
                }
                self.count_hit(io, now, fragment);
                return true;
            }
            (Kind::PartFill, Phase::Writing)
                if fragment.op == Op::Read && touched & !row.blocks_to_bring() == 0 && !in_doubt =>
            {
                Self::copy_from_move(io, row.buffer, fragment, out);
                io.part_done(fragment.request, Ok(()), out);
                self.count_hit(io, now, fragment);
                return true;
            }
            (Kind::PartFill, _) => {
                if passes_fill && fragment.op == Op::Write {
                    row.rewritten_blocks |= touched;
                }
                !passes_fill
            }
            (Kind::Promotion | Kind::Fill | Kind::Zero | Kind::Drain(_) | Kind::Allocation, _) => true,
            (Kind::Demotion, _) => {
                row.accessed = true;
                fragment.op == Op::Discard && covers
            }
            (Kind::WriteBack, phase)
                if phase == Phase::Draining || row.holds_until.is_some() && fragment.op == Op::Write =>
            {
                io.stats.held_writes += u64::from(fragment.first && fragment.op == Op::Write);
                true
            }
            (Kind::Eviction | Kind::WriteBack, phase) => {
                row.accessed = true;
                match touched {
                    0 => row.rewritten |= fragment.op == Op::Write,
                    touched if fragment.op == Op::Write => self.note_rewritten(index, touched),
                    _ => {}
                }
                // Two writes to the home must not race. (What is clean of an extent of which a part is dirty may go home too.)
                let through =
                    fragment.op == Op::Write && (io.tuning.write == WritePolicy::Through || touched != 0 && full);
                races || (through && phase == Phase::Writing) || (fragment.op == Op::Discard && covers)
            }
        };
        // With a device gone, the extent's old or new place may be lost; the access can be routed only when the move
        // has ended.
        let waits = waits || degraded;
        if waits {
            self.moves[index].waiters.push(fragment);
            self.count_hit(io, now, fragment);
        }
        waits
    }

    pub(in crate::cache) fn count_hit(&mut self, io: &mut CacheIo, now: Nanos, fragment: Fragment) {
        if fragment.first && fragment.op != Op::Discard {
            io.stats.fast_hits += 1;
        }
        let entry = self.map.entry_mut(fragment.extent);
        entry.access(now);
        let moving = entry.moving().map(|index| &self.moves[index]);
        if let Some(Move { kind: Kind::Promotion | Kind::Fill | Kind::PartFill, to: Some(to), .. }) = moving
            && let Some(slot) = self.layout.fast_slot(*to)
        {
            self.was_accessed(slot);
        }
    }

    /// The fragment is served from the buffer; the caller answers it.
    #[inline(always)]
    pub(in crate::cache) fn copy_from_move(io: &mut CacheIo, buffer: u32, fragment: Fragment, out: &mut Commands) {
        let ram = Buffer::Move { index: buffer, offset: Bytes(u64::from(fragment.within)) };
        let host = Buffer::Request { id: io.id_of(fragment.request), offset: fragment.offset };
        let len = Bytes(u64::from(fragment.len));
        match fragment.op {
            Op::Read => out.push(Command::Copy { from: ram, to: host, len }),
            Op::Write => out.push(Command::Copy { from: host, to: ram, len }),
            Op::Discard | Op::Flush => unreachable!("only reads and writes are served from RAM"),
        }
        io.stats.served_from_ram += 1;
    }

    pub(in crate::cache) fn answer_at_end(
        &mut self,
        io: &mut CacheIo,
        index: u32,
        request: RequestIndex,
        out: &mut Commands,
    ) {
        if mutation::is(Mutation::AnswerPastEarly) {
            return io.part_done(request, Ok(()), out);
        }
        self.moves[index].answers.push(request);
    }
}
