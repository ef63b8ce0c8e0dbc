//! Runs: dirty extents with adjacent origins are read from the fast device one by one, into one buffer, and written back by one command.
//! Each extent has a move of its own, so accesses to it are handled as during any write-back. An extent that is rewritten meanwhile or
//! cannot be read is left out, and the rest of the run is written.

use peryton_format::mutation::{self, Mutation};
use peryton_units::Bytes;

use crate::{
    api::command::Buffer,
    cache::blocks::runs,
    cache::drive::CacheDrive,
    cache::movers::table::{InRun, Kind, Phase},
    cache::step::{CacheCall, CacheStep},
    cache::writeback::urgency::{LONGEST_RUN, RUN_BUFFERS, Run},
};

impl CacheDrive {
    /// The most extents in a run. Extents that are longer than that are written back one by one, without a buffer for runs.
    fn longest_run(&self) -> u32 {
        (LONGEST_RUN.0 / self.layout.extent_bytes) as u32
    }

    /// See [`Engine::run_buffers`](crate::Engine::run_buffers).
    pub(crate) fn run_buffers(&self) -> (u32, Bytes) {
        match self.longest_run() {
            0 | 1 => (0, Bytes::ZERO),
            extents => (RUN_BUFFERS, Bytes(u64::from(extents) * self.layout.extent_bytes)),
        }
    }

    /// Whether the blocks to write back of an extent and of the next one are adjacent.
    fn adjoins(&self, extent: u32) -> bool {
        let all = self.layout.blocks.map_or(0, |blocks| blocks.all);
        let last = all & !(all >> 1);
        self.blocks_to_write_back(Kind::WriteBack, extent) & last != 0
            && self.blocks_to_write_back(Kind::WriteBack, extent + 1) & 1 != 0
    }

    /// Starts to write a dirty extent back, with those behind it that are dirty, `room` of them at most. Returns false if all
    /// buffers for runs are in use.
    pub(super) fn start_run(&mut self, io: &mut CacheCall, first: u32, room: u32) -> bool {
        let most = self.longest_run().min(room).max(1);
        let joins = |extent| self.joins(extent) && self.adjoins(extent - 1);
        let count = (1..most).take_while(|more| joins(first + more)).count() as u32 + 1;
        if count == 1 {
            self.cleaner.begins(io.now);
            self.start_writeback(io, first, false);
            return true;
        }
        let Some(buffer) = self.cleaner.free_buffers.pop() else {
            self.cleaner.cursor = first;
            return false;
        };
        self.cleaner.begins(io.now);
        self.cleaner.cursor = first + count;
        self.read_run(io, (first, count), None, buffer);
        true
    }

    /// Starts to evict a dirty extent. Its neighbours that are dirty as well are written back with it, and stay.
    pub(in crate::cache) fn start_dirty_eviction(&mut self, io: &mut CacheCall, victim: u32) {
        // The last place among the moves in flight is that of the victim.
        let room = match self.controller {
            // A partitioned drive keeps dirty extents on the fast device until they are cold.
            Some(_) => 1,
            None => self.longest_run().min(io.tuning.max_moves.saturating_sub(self.copying)).max(1),
        };
        let is_before = |extent| self.joins(extent) && self.adjoins(extent);
        let is_after = |extent| self.joins(extent) && self.adjoins(extent - 1);
        let before = (1..room).take_while(|less| victim.checked_sub(*less).is_some_and(is_before)).count() as u32;
        let after = (1..room - before).take_while(|more| is_after(victim + more)).count() as u32;
        let buffer = if before + after > 0 { self.cleaner.free_buffers.pop() } else { None };
        match buffer {
            Some(buffer) => {
                self.cleaner.begins(io.now);
                self.read_run(io, (victim - before, before + 1 + after), Some(victim), buffer);
            }
            None => self.start_writeback(io, victim, true),
        }
    }

    fn read_run(&mut self, io: &mut CacheCall, (first, count): (u32, u32), victim: Option<u32>, buffer: u32) {
        let mut moves = self.cleaner.spare_lists.pop().unwrap_or_default();
        moves.clear();
        let run = self.cleaner.runs.insert(Run { buffer, moves: Vec::new(), reading: count, left: count });
        for place in 0..count {
            let extent = first + place;
            let kind = if victim == Some(extent) { Kind::Eviction } else { Kind::WriteBack };
            let index = self.start_in_run(kind, extent, self.origin_of(extent), InRun { run, place });
            self.take_blocks_to_origin(index);
            moves.push(index);
            self.move_read(io, index, self.current_place(extent), kind.cause());
        }
        self.cleaner.runs[run].moves = moves;
    }

    /// The read of an extent of a run has ended. After the last one, the remaining extents are written.
    pub(in crate::cache) fn run_was_read(&mut self, io: &mut CacheCall, InRun { run, .. }: InRun) {
        let row = &mut self.cleaner.runs[run];
        row.reading -= 1;
        if row.reading > 0 {
            return;
        }
        let moves = std::mem::take(&mut row.moves);
        for index in &moves {
            let row = &mut self.moves[*index];
            row.blocks &= !row.rewritten_blocks;
        }
        let to_write = |drive: &CacheDrive, place: usize| {
            let row = &drive.moves[moves[place]];
            !row.failed && row.blocks != 0
        };
        let mut first = 0;
        while first < moves.len() {
            let count = (first..moves.len()).take_while(|place| to_write(self, *place)).count();
            if count > 0 {
                self.write_blocks(io, (run, first as u32), &moves[first..first + count]);
            }
            first += count.max(1);
        }
        // Only now the moves end that are not written: their ends may start other moves.
        let left_out: Vec<u32> =
            (0..moves.len()).filter(|place| !to_write(self, *place)).map(|place| moves[place]).collect();
        self.cleaner.runs[run].moves = moves;
        for index in left_out {
            let failed = self.moves[index].failed;
            self.written_back(io, index, failed);
        }
    }

    /// Writes the blocks of some of a run back, whose extents are neighbours: one command for blocks without a gap, also from one
    /// extent to the next.
    fn write_blocks(&mut self, io: &mut CacheCall, (run, first): (u32, u32), moves: &[u32]) {
        let blocks = self.layout.blocks.expect("only extents in part have blocks");
        let extent = self.layout.extent_bytes;
        let spans = moves.iter().enumerate().flat_map(|(place, index)| {
            runs(self.moves[*index].blocks).map(move |run| {
                let (within, len) = blocks.span(run);
                let from = place as u64 * extent + u64::from(within);
                (from, from + u64::from(len))
            })
        });
        let mut joined: Vec<(u64, u64)> = Vec::new();
        for (from, to) in spans {
            match joined.last_mut() {
                Some((_, end)) if *end == from => *end = to,
                _ => joined.push((from, to)),
            }
        }
        for index in moves {
            self.moves[*index].phase = Phase::Writing;
        }
        for (from, to) in joined {
            let (begin, end) = ((from / extent) as usize, to.div_ceil(extent) as usize);
            let which = (run, first + begin as u32, (end - begin) as u32);
            let within = Bytes(from - begin as u64 * extent);
            self.write_span(io, which, &moves[begin..end], (within, Bytes(to - from)));
        }
    }

    /// Writes a range of neighbours back: it begins `within` the first of them.
    fn write_span(
        &mut self,
        io: &mut CacheCall,
        (run, first, count): (u32, u32, u32),
        moves: &[u32],
        (within, len): (Bytes, Bytes),
    ) {
        for index in moves {
            self.moves[*index].pending += 1;
        }
        io.stats.moves.bytes += len;
        let mut buffer = self.move_buffer(moves[0]).plus(within);
        if mutation::is(Mutation::SweepFromStart)
            && let Buffer::Run { offset, .. } = &mut buffer
        {
            *offset = Bytes::ZERO;
        }
        let (device, at) = self.layout.at(self.moves[moves[0]].to.expect("a write-back has an origin"));
        let step = CacheStep::Run { run, first, count };
        io.write((device, at + within), len, buffer, step, Kind::WriteBack.cause());
    }

    /// The write of a part of a run has ended. After a failure each extent is tried alone, because one of them may be unwritable.
    pub(in crate::cache) fn run_was_written(
        &mut self,
        io: &mut CacheCall,
        (run, first, count): (u32, u32, u32),
        failed: bool,
    ) {
        let moves = &self.cleaner.runs[run].moves[first as usize..(first + count) as usize];
        let mut moves: Vec<u32> = moves.to_vec();
        io.stats.moves.cancelled.device_error += u64::from(failed);
        // An extent of which only a part is written may have several commands.
        moves.retain(|index| {
            let row = &mut self.moves[*index];
            row.pending -= 1;
            row.failed |= failed;
            row.pending == 0
        });
        for index in moves {
            let row = &mut self.moves[index];
            let failed = std::mem::take(&mut row.failed);
            row.blocks &= !row.rewritten_blocks;
            if failed && row.blocks != 0 {
                let (to, cause) = (row.to.expect("a write-back has an origin"), row.kind.cause());
                self.move_write(io, index, to, cause);
            } else {
                self.written_back(io, index, failed);
            }
        }
    }
}
