//! The host: it submits requests, checks their answers, and completes commands in random order.

use std::ops::Range;

use peryton_engine::{Command, DeviceId, Request, RequestError};
use peryton_units::{Bytes, Nanos, Op};
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

use crate::{
    design::Kind,
    disk::{SECTOR, Tag},
    drive::Drive,
    driver::Asked,
    world::{World, say},
};

/// One group in this many goes on over many extents.
const GOES_ON_ONE_IN: u32 = 8;
/// How often a group writes parts of its extent before flushes.
const REWRITTEN: usize = 4;
/// A block of an extent of which the fast device may have a part.
const SECTORS_OF_BLOCK: usize = 8;
/// How many extents a group goes on over: if each of their blocks is read, read-ahead is on.
const EXTENTS_OF_GROUP: usize = 16;
/// How many sectors anywhere a group reads before it reads its extent once more.
const READ_BETWEEN: usize = 6;

impl World {
    pub(crate) fn request(&mut self) {
        let total = self.model.sectors();
        let extent = (self.plan.extent / SECTOR) as usize;
        let mut roll = self.rng.random_range(0..self.habits.mix.iter().sum());
        let mut op = Op::Flush;
        for (weight, kind) in self.habits.mix.into_iter().zip([Op::Read, Op::Write, Op::Discard, Op::Flush]) {
            if roll < weight {
                op = kind;
                break;
            }
            roll -= weight;
        }
        let hot = (extent * 4).min(total);
        let is_hot = self.rng.random_range(0..100) < self.habits.hot_percent;
        let mut start = self.rng.random_range(0..if is_hot { hot } else { total });
        let mut len = self.rng.random_range(1..=self.habits.most_sectors);
        if self.chance(3) {
            start -= start % extent;
            len = extent * self.rng.random_range(1..=self.plan.reach);
        } else if self.chance(2) {
            len = 1 + len % 4;
        }
        if op == Op::Discard && self.habits.long_discard_one_in > 0 && self.chance(self.habits.long_discard_one_in) {
            len = self.rng.random_range(1..=total);
        }
        let mut len = len.min(total - start);
        if (self.grouped || self.beside) && self.group.is_empty() && self.chance(2) {
            match self.beside {
                true => self.begin_blocks(extent, total),
                false => self.begin_group(extent, total),
            }
        }
        if let Some((of_group, range)) = self.group.pop_front() {
            (op, start, len) = (of_group, range.start, range.len());
        }
        let request = Request { op, offset: Bytes(start as u64 * SECTOR), len: Bytes(len as u64 * SECTOR) };
        let range = Drive::span(&request);
        let from = self.model.tick();
        let data = match op {
            Op::Write if self.chance(16) => vec![0; range.len()],
            Op::Write => self.model.new_tags(range.clone()),
            Op::Read => vec![Tag::MAX; range.len()],
            Op::Discard | Op::Flush => vec![0; range.len()],
        };
        if matches!(op, Op::Write | Op::Discard) {
            self.model.begin(range.clone(), &data, from, self.drive.oldest_read());
        }
        if op == Op::Flush && self.lost_at.is_some() && self.drive.engine.is_in_doubt() {
            self.flush_from = from;
        }
        say!(self, "{from}: {op:?} {range:?}, tags from {:?}", data.first());
        self.drive.submit(request, from, data);
    }

    /// Begins requests for single blocks of an extent: some are there, and others are written and read before they are.
    fn begin_blocks(&mut self, extent: usize, total: usize) {
        let first = self.rng.random_range(0..total / extent) * extent;
        let blocks = extent.div_ceil(SECTORS_OF_BLOCK);
        let mut block = || {
            let start = first + self.rng.random_range(0..blocks) * SECTORS_OF_BLOCK;
            start..(start + SECTORS_OF_BLOCK).min(first + extent)
        };
        let (there, other) = (block(), block());
        let order =
            [(Op::Read, &there), (Op::Write, &other), (Op::Write, &there), (Op::Read, &other), (Op::Read, &there)];
        self.group.extend(order.map(|(op, range)| (op, range.clone())));
        self.group.extend([(Op::Read, first..first + extent), (Op::Read, first..first + extent)]);
    }

    /// Begins to write a block of many extents, which is flushed. Then another block of each is written, or the rest of each is read block
    /// by block.
    fn begin_to_go_on(&mut self, extent: usize, total: usize) {
        let first = self.rng.random_range(0..total.div_ceil(extent)) * extent;
        let extents = (first..total).step_by(extent).take(EXTENTS_OF_GROUP);
        let blocks = |start: usize| {
            let end = (start + extent).min(total);
            (start..end).step_by(SECTORS_OF_BLOCK).map(move |start| start..(start + SECTORS_OF_BLOCK).min(end))
        };
        self.group.extend(extents.clone().flat_map(|start| blocks(start).take(1)).map(|block| (Op::Write, block)));
        self.group.push_back((Op::Flush, first..first));
        let (op, most) = if self.chance(2) { (Op::Write, 1) } else { (Op::Read, usize::MAX) };
        self.group.extend(extents.flat_map(|start| blocks(start).skip(1).take(most)).map(|block| (op, block)));
    }

    /// Begins requests for one extent: some of it is written and read, then all of it, and then again after other extents took room; or
    /// parts of it are written again and again, each time before a flush.
    fn begin_group(&mut self, extent: usize, total: usize) {
        if extent > SECTORS_OF_BLOCK && self.chance(GOES_ON_ONE_IN) {
            return self.begin_to_go_on(extent, total);
        }
        let first = self.rng.random_range(0..total.div_ceil(extent)) * extent;
        let whole = first..(first + extent).min(total);
        let part = |rng: &mut Pcg64Mcg| {
            let start = rng.random_range(whole.clone());
            start..start + rng.random_range(1..=whole.end - start)
        };
        if self.chance(2) {
            for _ in 0..REWRITTEN {
                let range = part(&mut self.rng);
                self.group.extend([(Op::Write, range.clone()), (Op::Flush, range)]);
            }
            self.group.push_back((Op::Read, whole));
            return;
        }
        for op in [Op::Write, Op::Read, Op::Read] {
            let range = part(&mut self.rng);
            self.group.push_back((op, range));
        }
        self.group.extend([(Op::Write, whole.clone()), (Op::Read, whole.clone())]);
        if self.chance(2) {
            for _ in 0..READ_BETWEEN {
                let other = self.rng.random_range(0..total);
                self.group.push_back((Op::Read, other..other + 1));
            }
            self.group.push_back((Op::Read, whole));
        }
    }

    pub(crate) fn complete_one(&mut self) {
        let mut index = self.rng.random_range(0..self.drive.pending.len());
        for _ in 0..4 {
            let device = self.drive.pending[index].device();
            let speed = self.habits.speed.get(device.index()).copied().unwrap_or(self.succession.speed);
            if self.rng.random_range(0..100) < speed {
                break;
            }
            index = self.rng.random_range(0..self.drive.pending.len());
        }
        let fails = self.faults.fails(&self.drive.pending[index].command, &mut self.rng);
        let (command, failed) = self.drive.complete(index, fails, &mut self.rng);
        self.outcome.commands += 1;
        say!(self, "    done{}: {}", if failed { ", FAILED" } else { "" }, brief(&command));
        // A device that the engine gives up because its flushes keep failing is dead.
        for index in 0..self.drive.disks.len() {
            let dies = failed && self.drive.engine.is_gone(DeviceId(index as u8)) && !self.drive.disks[index].dead;
            self.drive.disks[index].dead |= dies;
            if dies && self.returns.is_drawn() {
                self.model.device_died();
            }
        }
        if std::mem::take(&mut self.drive.flush_failed) {
            let lost = std::mem::take(&mut self.drive.flush_lost);
            self.outcome.flushes_lost += u64::from(lost);
            self.lost_at = Some(self.model.flush_failed());
            self.flush_lost = true;
            say!(self, "    what it should have flushed is lost: {lost}");
            self.doubt();
        }
    }

    /// Notes, after a flush has failed and lost data, whether the data that are not durable are in doubt. They are as long as
    /// the engine has yet to notify the host, and as long as an earlier flush of the host is not answered.
    fn doubt(&mut self) {
        if self.lost_at.is_none() {
            return;
        }
        let flush_from = self.flush_from;
        let notifies = |asked: &Asked<Tag>| asked.request.op == Op::Flush && asked.from <= flush_from;
        if self.drive.engine.is_in_doubt() || self.flush_waits() || self.drive.requests.values().any(notifies) {
            self.model.doubt();
        } else if self.drive.answered.is_empty() {
            self.model.trust();
            self.lost_at = None;
        }
    }

    pub(crate) fn tick(&mut self, span: Nanos) {
        say!(self, "    {} ms pass", span.0 / 1_000_000);
        self.drive.tick(span);
    }

    /// Checks the answers that the engine has given since the last call.
    pub(crate) fn answers(&mut self) -> Result<(), String> {
        let answered = std::mem::take(&mut self.drive.answered);
        let early = |asked: &Asked<Tag>, lost_at: Option<u32>| {
            asked.request.op == Op::Flush && lost_at.is_some_and(|at| asked.from <= at)
        };
        let lost_at = self.lost_at;
        let mut flushes = answered.iter().filter(|(_, asked, _)| early(asked, lost_at)).count();
        for (_, asked, result) in answered {
            flushes -= usize::from(early(&asked, lost_at));
            let now = self.model.tick();
            let range = Drive::span(&asked.request);
            say!(self, "{now}: {:?} {range:?} of {} is answered {result:?}", asked.request.op, asked.from);
            if let Err(error) = result {
                self.expect_error(error, &asked.request)?;
                let Request { op, offset, len } = asked.request;
                if op == Op::Read {
                    self.must_be_named(&self.drive, error, offset.0, (offset + len).0)?;
                }
            }
            match asked.request.op {
                Op::Read if result.is_ok() => {
                    self.outcome.reads += 1;
                    self.model.read(range, &asked.data, asked.from)?;
                }
                Op::Read => {}
                Op::Write => self.model.end(range, &asked.data, asked.from, result.is_ok()),
                Op::Discard => self.model.end(range, &asked.data, asked.from, false),
                Op::Flush if result.is_ok() => {
                    self.model.flushed(asked.from);
                    self.deaths.flushed_since |= self.has_dead();
                }
                // Of the flushes that were submitted before the loss, the last one counts.
                Op::Flush if self.lost_at.is_some() => {
                    let last = flushes == 0 && !self.flush_waits();
                    self.model.forgive(asked.from, last);
                }
                Op::Flush => {}
            }
        }
        self.doubt();
        Ok(())
    }

    /// Whether the log has stopped because a flush has failed: it continues only when it is opened again.
    fn is_stopped_log(&self) -> bool {
        self.deaths.kind == Kind::Logging && self.drive.engine.is_in_doubt()
    }

    /// Whether a flush of the host that was submitted before the loss is still unanswered.
    fn flush_waits(&self) -> bool {
        let lost_at = self.lost_at.unwrap_or(0);
        let waits = |asked: &Asked<Tag>| asked.request.op == Op::Flush && asked.from <= lost_at;
        self.drive.requests.values().any(waits)
    }

    fn expect_error(&self, error: RequestError, request: &Request) -> Result<(), String> {
        // A tiering drive with one device left has less room for writes.
        let little_room = error == RequestError::NoSpace
            && request.op != Op::Read
            && (self.has_dead() || !self.deaths.without.is_empty());
        let may_fail = !self.faults.flushes_only
            || request.op == Op::Flush
            || self.has_dead()
            || self.is_stopped_log()
            || self.deaths.replaced && error == RequestError::Lost;
        if self.faults.active && may_fail && (little_room || matches!(error, RequestError::Device | RequestError::Lost))
        {
            return Ok(());
        }
        Err(format!("{:?} of {:?} failed though nothing else did: {error}", request.op, Drive::span(request)))
    }

    /// Completes everything that is in flight.
    pub(crate) fn settle(&mut self) -> Result<(), String> {
        let calm = std::mem::replace(&mut self.faults.calm, true);
        let settled = self.settle_calmly();
        self.faults.calm = calm;
        settled
    }

    fn settle_calmly(&mut self) -> Result<(), String> {
        for _ in 0..100_000 {
            if !self.drive.pending.is_empty() {
                self.complete_one();
            } else if self.drive.requests.is_empty() && self.drive.engine.is_idle() {
                return self.drive.copies_agree();
            } else {
                self.tick(Nanos::from_ms(500));
            }
            self.answers()?;
        }
        let (requests, idle) = (self.drive.requests.len(), self.drive.engine.is_idle());
        Err(format!("{requests} requests are never answered; the engine is idle: {idle}"))
    }

    /// Reads the whole volume as a host would, with no other request in flight.
    pub(crate) fn read_everything(&mut self) -> Result<(), String> {
        self.deaths.quiet = self.drive.requests.is_empty() && self.drive.engine.is_idle();
        let read = self.read_all();
        self.deaths.quiet = false;
        read
    }

    /// Reads the whole volume, and where a part of it is lost each block on its own.
    fn read_all(&mut self) -> Result<(), String> {
        self.note_lost()?;
        let total = self.model.sectors();
        let in_steps = |range: Range<usize>, step: usize| {
            let end = range.end;
            range.step_by(step).map(move |start| start..(start + step).min(end))
        };
        for range in in_steps(0..total, self.habits.most_sectors) {
            self.read_range(range.clone())?;
            let (from, to) = (range.start as u64 * SECTOR, range.end as u64 * SECTOR);
            let losses = self.drive.engine.losses(usize::MAX);
            if losses.ranges.iter().any(|lost| lost.start.0 < to && from < lost.end.0) {
                for block in in_steps(range, SECTORS_OF_BLOCK) {
                    self.read_range(block)?;
                }
            }
        }
        self.note_lost()
    }

    fn read_range(&mut self, range: Range<usize>) -> Result<(), String> {
        let request = Request {
            op: Op::Read,
            offset: Bytes(range.start as u64 * SECTOR),
            len: Bytes(range.len() as u64 * SECTOR),
        };
        let from = self.model.tick();
        say!(self, "{from}: Read {range:?}");
        self.drive.submit(request, from, vec![Tag::MAX; range.len()]);
        self.answers()?;
        for _ in 0..10_000 {
            if self.drive.requests.is_empty() {
                return Ok(());
            }
            if self.drive.pending.is_empty() {
                self.tick(Nanos::from_ms(500))
            } else {
                self.complete_one()
            }
            self.answers()?;
        }
        Err(format!("a read of sectors {range:?} is never answered"))
    }
}

fn brief(command: &Command) -> String {
    let text = format!("{command:?}");
    text.replace("DeviceId", "dev").replace("IoId", "").replace("Bytes", "").replace("RequestId", "")
}
