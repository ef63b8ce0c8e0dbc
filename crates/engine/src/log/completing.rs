//! Whole units (logging): if the primary maps its data in large units, a migration writes whole ones. The missing part
//! of a unit is read once: from the log if that has the newest copy (which is migrated with it), otherwise from the
//! primary.
//!
//! Data read from the primary must not replace data that the host writes there meanwhile. A run therefore counts as
//! being written before the rest of its units is read ([`Migration::writes`](crate::log::migration::Migration)). A
//! write that bypasses the log waits for the end of a run that has its unit, and no run begins during such a write. A
//! write to the log does not matter, because the log then has the newest copy.
//!
//! If a read for the run fails, or the write of the run, the parts from the log are written alone.

use peryton_units::Bytes;

use crate::{
    api::command::{Buffer, Cause, Command},
    log::append::BUFFERS,
    log::drive::LogDrive,
    log::layout::BUFFER,
    log::migrating::window_buffer,
    log::migration::{NO_CHUNK, Next, Part, Rest, Run},
    log::step::{LogCall, LogIo, LogStep},
};

impl LogDrive {
    /// The unit that the next window of a migration writes, if the primary has a large one.
    pub(in crate::log) fn write_unit(&self, io: &LogIo) -> Option<u64> {
        io.tuning.write_unit.map(|unit| unit.0).filter(|unit| *unit > self.block && *unit <= BUFFER)
    }

    /// The next run of whole units, from the first part of the window that is still the newest copy.
    pub(in crate::log) fn next_units(&mut self, io: &mut LogIo, unit: u64) -> Next {
        let LogDrive { migration, map, directs, log, primaries, .. } = self;
        let stats = io.stats.logging_mut();
        let live_in = |part: &Part| {
            let (mut first, mut bytes) = (None, 0);
            map.live(part.offset, part.offset + part.len, part.at, |low, high, _| {
                first = first.or(Some(low));
                bytes += high - low;
            });
            (first, bytes)
        };
        let first = loop {
            let Some(part) = migration.parts.get(migration.next_part) else { return Next::None };
            match live_in(part) {
                (Some(first), _) => break first,
                (None, _) => stats.bytes_superseded += part.len,
            }
            migration.next_part += 1;
        };
        let from = first / unit * unit;
        // No unit lies on two primaries, and no run does.
        let last = primaries.of(first).to;
        let mut to = (from + unit).min(last);
        // As far as the units have something in the window, and a buffer holds.
        let mut end = migration.next_part;
        while let Some(part) = migration.parts.get(end)
            && part.offset < (to + unit).min(from + BUFFER).min(last)
        {
            if let (Some(low), _) = live_in(part) {
                let reaches = (part.offset + part.len).next_multiple_of(unit).min(from + BUFFER).min(last);
                if low < to + unit && reaches > to {
                    to = reaches;
                }
            }
            end += 1;
        }
        if directs.overlaps(from, to) {
            return Next::None;
        }
        let in_window = &migration.parts[migration.next_part..end];
        let mut run = Run { offset: from, len: to - from, ..Run::default() };
        let mut readable = true;
        map.walk(from, to, |low, high, at| {
            let len = high - low;
            let has = |part: &&Part| {
                at.is_some_and(|at| {
                    part.offset <= low && high <= part.offset + part.len && part.at + (low - part.offset) == at
                })
            };
            let chunk = in_window.iter().find(has).map(|part| part.chunk);
            if let Some(at) = at {
                readable &= !(log.is_damaged(at, len) || log.is_unreadable(at, len) || log.is_unverified(at, len));
                let chunk = chunk.unwrap_or(NO_CHUNK);
                match run.parts.last_mut() {
                    Some(last) if last.chunk == chunk && last.offset + last.len == low && last.at + last.len == at => {
                        last.len += len;
                    }
                    _ => run.parts.push(Part { offset: low, len, at, chunk }),
                }
            }
            if chunk.is_none() {
                match run.rest.last_mut() {
                    Some(last)
                        if last.offset + last.len == low
                            && last.at.map(|begin| begin + last.len) == at
                            && at.is_none_or(|at| log.segment_of(at) == log.segment_of(at - last.len)) =>
                    {
                        last.len += len;
                    }
                    _ => run.rest.push(Rest { offset: low, len, at, failed: false }),
                }
            }
        });
        if !readable {
            return Next::AsItIs;
        }
        // The parts of the window in these units are under way now.
        while let Some(part) = migration.parts.get_mut(migration.next_part)
            && part.offset < to
        {
            let within = part.len.min(to - part.offset);
            stats.bytes_superseded += within - live_in(&Part { len: within, ..*part }).1;
            if within < part.len {
                (part.offset, part.at, part.len) = (to, part.at + within, part.len - within);
                break;
            }
            migration.next_part += 1;
        }
        Next::Units(run)
    }

    /// Starts a run of whole units: what the window has is copied, the rest is read, and then it is written.
    pub(in crate::log) fn start_units(&mut self, io: &mut LogCall, mut run: Run) {
        let assembly = self.migration.assemblies.pop().expect("as many as writes in flight");
        run.assembly = Some(assembly);
        run.pending = run.rest.len() as u32;
        let to = |offset: u64| Buffer::Move { index: BUFFERS + assembly, offset: Bytes(offset - run.offset) };
        for part in run.parts.iter().filter(|part| part.chunk != NO_CHUNK) {
            let within = Bytes(part.at - self.migration.chunks[part.chunk as usize].at);
            let from = Buffer::Move { index: window_buffer(part.chunk), offset: within };
            io.out.push(Command::Copy { from, to: to(part.offset), len: Bytes(part.len) });
        }
        let reads: Vec<_> = run.rest.iter().map(|rest| (*rest, to(rest.offset))).collect();
        let index = self.migration.runs.insert(run);
        self.migration.writing.push(index);
        for ((rest, buffer), place) in reads.into_iter().zip(0..) {
            let at = rest.at.map_or_else(|| self.primaries.place_of(rest.offset), |at| self.log_place(at));
            let step = LogStep::MigrationRest { run: index, rest: place };
            io.read(at, Bytes(rest.len), buffer, step, Cause::WriteBack);
        }
        if self.migration.runs[index].pending == 0 {
            self.write_units(io, index);
        }
    }

    /// A read for a run is done. After the last one, the run is written.
    pub(in crate::log) fn rest_was_read(&mut self, io: &mut LogCall, (index, rest): (u32, u32), failed: bool) {
        let run = &mut self.migration.runs[index];
        run.rest[rest as usize].failed = failed;
        run.pending -= 1;
        if run.pending > 0 {
            return;
        }
        if self.stopped.any() {
            // Nothing may be written any more; the log keeps its copies.
            run.parts.clear();
            return self.run_is_over(index);
        }
        match run.rest.iter().any(|rest| rest.failed) {
            false => self.write_units(io, index),
            true => self.write_parts(io, index),
        }
    }

    fn write_units(&mut self, io: &mut LogCall, index: u32) {
        let run = &mut self.migration.runs[index];
        (run.pending, run.completed) = (1, true);
        let (offset, len) = (run.offset, run.len);
        let buffer = Buffer::Move { index: BUFFERS + run.assembly.expect("it has a buffer"), offset: Bytes::ZERO };
        let step = LogStep::MigrationWrite { run: index };
        io.write(self.primaries.place_of(offset), Bytes(len), buffer, step, Cause::WriteBack);
        io.stats.logging_mut().bytes_migrated += len;
    }

    /// Writes the parts of a run that are from the log and could be read, without what completes its units.
    pub(in crate::log) fn write_parts(&mut self, io: &mut LogCall, index: u32) {
        let run = &mut self.migration.runs[index];
        run.completed = false;
        let failed: Vec<_> = run.rest.iter().filter(|rest| rest.failed).map(|rest| (rest.offset, rest.len)).collect();
        run.parts.retain(|part| {
            !failed.iter().any(|(offset, len)| *offset < part.offset + part.len && part.offset < offset + len)
        });
        let mut spans: Vec<(u64, u64)> = Vec::new();
        for part in &run.parts {
            match spans.last_mut() {
                Some((_, end)) if *end == part.offset => *end += part.len,
                _ => spans.push((part.offset, part.offset + part.len)),
            }
        }
        run.pending = spans.len() as u32;
        let (begins, assembly) = (run.offset, BUFFERS + run.assembly.expect("it has a buffer"));
        for (from, to) in &spans {
            let buffer = Buffer::Move { index: assembly, offset: Bytes(from - begins) };
            let (at, len) = (self.primaries.place_of(*from), Bytes(to - from));
            io.write(at, len, buffer, LogStep::MigrationWrite { run: index }, Cause::WriteBack);
            io.stats.logging_mut().bytes_migrated += len.0;
        }
        if spans.is_empty() {
            self.run_is_over(index);
        }
    }
}
