//! Accesses to an extent that is being moved: they wait, are served from the move's buffer, or proceed and cancel it. And allocations that
//! find no free place: they wait for a commit that frees some, or for a move that gives one back.

use peryton_format::mutation::{self, Mutation};
use peryton_units::{Bytes, Op};

use crate::{
    api::command::{Buffer, Command},
    cache::access::Fragment,
    cache::drive::CacheDrive,
    cache::journal::batch::Waiter,
    cache::movers::table::{Kind, Move, Phase},
    cache::ready::Ready,
    cache::step::{CacheCall, CacheIo},
};

impl CacheDrive {
    /// Notes which blocks a write of the host makes unfit to be written back by the move under way for their extent.
    pub(in crate::cache) fn note_rewritten(&mut self, index: u32, touched: u16) {
        let row = &mut self.moves[index];
        let is_read = row.phase == Phase::Reading && mutation::is(Mutation::CompleteFromOldRead);
        row.rewritten_blocks |= if is_read { touched & !row.missing } else { touched };
    }

    pub(in crate::cache) fn count_hit(&mut self, io: &mut CacheIo, fragment: Fragment) {
        if fragment.is_new && fragment.op != Op::Discard {
            io.stats.fast_hits += 1;
        }
        let entry = self.map.entry_mut(fragment.extent);
        entry.access(io.now);
        let moving = entry.moving().map(|index| &self.moves[index]);
        if let Some(Move { kind: Kind::Promotion | Kind::Overwrite | Kind::Fill, to: Some(to), .. }) = moving
            && let Some(slot) = self.layout.fast_slot(*to)
        {
            self.was_accessed(slot);
        }
    }

    /// The fragment is served from the buffer; the caller answers it.
    #[inline(always)]
    pub(in crate::cache) fn copy_from_move(io: &mut CacheCall, buffer: u32, fragment: Fragment) {
        let ram = Buffer::Move { index: buffer, offset: Bytes(u64::from(fragment.within)) };
        let host = Buffer::Request { id: io.id_of(fragment.request), offset: fragment.offset };
        let len = Bytes(u64::from(fragment.len));
        match fragment.op {
            Op::Read => io.out.push(Command::Copy { from: ram, to: host, len }),
            Op::Write => io.out.push(Command::Copy { from: host, to: ram, len }),
            Op::Discard | Op::Flush => unreachable!("only reads and writes are served from RAM"),
        }
        io.stats.served_from_ram += 1;
    }

    pub(in crate::cache) fn answer_at_end(&mut self, io: &mut CacheCall, index: u32, fragment: Fragment) {
        if mutation::is(Mutation::AnswerPastEarly) {
            return io.part_done(fragment.request, Ok(()));
        }
        self.moves[index].answers.push(fragment);
    }

    pub(in crate::cache) fn wait_for_commit(&mut self, fragment: Fragment) {
        let index = self.start(Kind::Allocation, Phase::Committing, fragment.extent, None, None);
        self.moves[index].waiters.push(fragment);
        self.journal.wait(Waiter::Move(index));
        self.ready.commit();
    }

    pub(in crate::cache) fn wait_for_place(&mut self, fragment: Fragment) {
        let index = self.start(Kind::Allocation, Phase::Committing, fragment.extent, None, None);
        self.moves[index].waiters.push(fragment);
        self.allocation_waiters.push(index);
    }

    /// Serves waiting allocations when a place is free; starts a commit if one would free some.
    pub(in crate::cache) fn serve_allocation_waiters(&mut self) {
        for index in std::mem::take(&mut self.allocation_waiters) {
            if self.journal.has_pending_free() {
                self.journal.wait(Waiter::Move(index));
                self.ready.commit();
            } else {
                self.ready.push(Ready::Committed(index));
            }
        }
    }
}
