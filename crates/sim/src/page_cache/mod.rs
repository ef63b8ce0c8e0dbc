//! The host's page cache between its programs and the drive, as in Linux. Reads of pages that are there take the time of a copy, and
//! writes make pages dirty. Dirty pages are written back when they are old, when there are many, at a flush, or when memory is
//! needed.
//!
//! It is a state machine like the engine: requests, answers of the drive and the time go in, and [`Effect`]s come out. It holds no
//! data. Three things differ from Linux. Pages are those of the volume, not of files: a flush writes back all dirty pages of its volume,
//! by age, and by address among pages that are written together. Nothing is read ahead. A write of a part of a page reads nothing,
//! because it dirties sectors, as with buffer heads.

mod pages;
mod stats;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};

use peryton_engine::Request;
use peryton_units::{Bytes, Nanos, Op};

use self::pages::Pages;
pub use self::stats::{PageCacheReport, WrittenBackBy};
use crate::design::PageCacheDesign;

const PAGE: u64 = 4096;
const SECTOR: u64 = 512;
/// Number of low bits of a page's key that have its number; the others have its volume.
const NUMBER_BITS: u32 = 52;
/// The most commands that write back at once: the requests that Linux keeps for a queue (`nr_requests`).
const MOST_WRITES: usize = 128;
/// The most dirty pages that are chosen at a time, to be written in the order of their addresses (Linux: `MIN_WRITEBACK_PAGES`).
const BATCH: usize = 1024;
/// The longest run of pages that is written by one command.
const MOST_RUN: usize = 256;
/// The reciprocal share of the cache that a request may have; longer ones go past the cache.
const SHARE: u64 = 4;

/// What the cache asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The drive is to carry out a request, and to say so by [`PageCache::answered`].
    Submit { volume: usize, id: u32, request: Request },
    /// A request of the host is answered.
    Reply { volume: usize, id: u32, failed: bool },
}

/// Why pages are written back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    Expired,
    Background,
    Flush,
    Memory,
}

/// A request of the host that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Asked {
    volume: usize,
    /// The host's number of it.
    id: u32,
    request: Request,
    /// Commands that it waits for.
    waits_for: u32,
    failed: bool,
}

/// A command of the cache that the drive carries out.
#[derive(Debug)]
enum Command {
    /// Reads these sectors of pages, for requests that wait.
    Read { pages: Vec<(u32, u8)>, waiting: Vec<u32> },
    /// Writes sectors of pages back; `oldest` is the number of the page among them that became dirty first.
    Write { volume: usize, pages: Vec<u32>, oldest: u64 },
    /// Carries out a request of the host as it is.
    Past { asked: u32 },
    /// None: the number may be used again.
    Unused,
}

/// A flush that waits until what was dirty when it came is written.
#[derive(Clone, Copy, Debug)]
struct Flush {
    asked: u32,
    volume: usize,
    up_to: u64,
}

/// Rows with numbers that are used again.
#[derive(Debug)]
struct Rows<T> {
    rows: Vec<T>,
    unused: Vec<u32>,
}

impl<T> Rows<T> {
    fn new() -> Rows<T> {
        Rows { rows: Vec::new(), unused: Vec::new() }
    }

    fn add(&mut self, row: T) -> u32 {
        match self.unused.pop() {
            Some(number) => {
                self.rows[number as usize] = row;
                number
            }
            None => {
                self.rows.push(row);
                self.rows.len() as u32 - 1
            }
        }
    }
}

/// The host's page cache, before all volumes of a drive.
#[derive(Debug)]
pub(crate) struct PageCache {
    design: PageCacheDesign,
    /// Bytes of each volume: its last sector may be cut off.
    volume: u64,
    pages: Pages,
    /// The most dirty pages before write-back begins, and the most dirty or being written before writes wait.
    background: usize,
    limit: usize,
    /// A longer request goes past the cache.
    longest: u64,
    asked: Rows<Asked>,
    commands: Rows<Command>,
    effects: VecDeque<Effect>,
    /// When the memory has made the copies so far, and the requests whose copies are under way.
    copied_at: Nanos,
    copying: VecDeque<(Nanos, u32)>,
    /// Requests that wait for pages, in their order.
    waiting_for_room: VecDeque<u32>,
    /// Writes that wait until less is dirty.
    throttled: VecDeque<u32>,
    flushes: VecDeque<Flush>,
    /// Pages that are to be written back, in the order of their addresses, and why.
    batch: VecDeque<u64>,
    why: Why,
    /// The commands that write back: volume, number of the page that became dirty first, command.
    writing: BTreeSet<(usize, u64, u32)>,
    /// When the host looks for old pages next, and which it found old: those that were dirty by then.
    next_look: Nanos,
    old_since: Option<Nanos>,
    ended: bool,
    stats: PageCacheReport,
}

fn key_of(volume: usize, number: u64) -> u64 {
    (volume as u64) << NUMBER_BITS | number
}

fn volume_of(key: u64) -> usize {
    (key >> NUMBER_BITS) as usize
}

fn at_of(key: u64) -> u64 {
    (key & ((1 << NUMBER_BITS) - 1)) * PAGE
}

/// The pages of a request and the sectors of each that it touches.
fn parts(volume: usize, request: &Request) -> impl Iterator<Item = (u64, u8)> + use<> {
    let (start, end) = (request.offset.0, request.offset.0 + request.len.0);
    (start / PAGE..end.div_ceil(PAGE)).map(move |number| {
        let from = start.saturating_sub(number * PAGE) / SECTOR;
        let to = (end - number * PAGE).min(PAGE).div_ceil(SECTOR);
        (key_of(volume, number), sectors(from, to))
    })
}

/// The sectors of a page from `from` to before `to`, of which there is at least one.
fn sectors(from: u64, to: u64) -> u8 {
    (0xff_u8 << from) & (0xff_u8 >> (8 - to))
}

/// The stretches of neighbouring sectors among these: offset in the page and length in bytes, and the sectors.
fn stretches(mut left: u8) -> impl Iterator<Item = (u64, u64, u8)> {
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        let from = left.trailing_zeros();
        let count = (left >> from).trailing_ones();
        let stretch = sectors(from.into(), (from + count).into());
        left &= !stretch;
        Some((u64::from(from) * SECTOR, u64::from(count) * SECTOR, stretch))
    })
}

fn bytes(sectors: u8) -> u64 {
    u64::from(sectors.count_ones()) * SECTOR
}

impl PageCache {
    pub(crate) fn new(design: &PageCacheDesign, volumes: usize, volume: Bytes) -> PageCache {
        let count = (design.size.0 / PAGE).max(1);
        let share = |share: f64| ((count as f64 * share) as usize).max(1);
        PageCache {
            design: *design,
            volume: volume.0,
            pages: Pages::new(count as usize, volumes),
            background: share(design.dirty_background),
            limit: share(design.dirty_limit),
            longest: count / SHARE * PAGE,
            asked: Rows::new(),
            commands: Rows::new(),
            effects: VecDeque::new(),
            copied_at: Nanos::ZERO,
            copying: VecDeque::new(),
            waiting_for_room: VecDeque::new(),
            throttled: VecDeque::new(),
            flushes: VecDeque::new(),
            batch: VecDeque::new(),
            why: Why::Background,
            writing: BTreeSet::new(),
            next_look: Nanos::MAX,
            old_since: None,
            ended: false,
            stats: PageCacheReport { size_bytes: count * PAGE, ..PageCacheReport::default() },
        }
    }

    /// The next thing to do for the caller.
    pub(crate) fn next_effect(&mut self) -> Option<Effect> {
        self.effects.pop_front()
    }

    /// When [`PageCache::tick`] is to be called next.
    pub(crate) fn deadline(&self) -> Nanos {
        self.copying.front().map_or(Nanos::MAX, |(at, _)| *at).min(self.next_look)
    }

    /// The statistics, with what is dirty now.
    pub(crate) fn report(&self) -> PageCacheReport {
        let dirty = (0..self.pages.volumes()).flat_map(|volume| self.pages.dirty_of(volume));
        PageCacheReport { left_dirty_bytes: dirty.map(|page| bytes(page.dirty)).sum(), ..self.stats.clone() }
    }

    pub(crate) fn reset_stats(&mut self) {
        self.stats = PageCacheReport { size_bytes: self.stats.size_bytes, ..PageCacheReport::default() };
    }

    /// Nothing is written back from now on: the run has ended.
    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    /// A request of the host, which has this number of it.
    pub(crate) fn ask(&mut self, now: Nanos, volume: usize, id: u32, request: Request) {
        let asked = self.asked.add(Asked { volume, id, request, waits_for: 0, failed: false });
        match request.op {
            Op::Flush => {
                self.flushes.push_back(Flush { asked, volume, up_to: self.pages.last_number() });
                self.flush_what_is_written();
            }
            Op::Discard => {
                self.forget(volume, &request);
                self.go_past(asked);
            }
            Op::Read | Op::Write if request.len == Bytes::ZERO => self.go_past(asked),
            Op::Read | Op::Write => {
                let is_read = request.op == Op::Read;
                let len = request.len.0;
                let (count, all) = match is_read {
                    true => (&mut self.stats.read_requests, &mut self.stats.read_bytes),
                    false => (&mut self.stats.write_requests, &mut self.stats.write_bytes),
                };
                *count += 1;
                *all += len;
                if len > self.longest {
                    self.stats.past_bytes += len;
                    // What is dirty of it would be read from memory; a read this long is not held up for that.
                    if !is_read {
                        self.forget(volume, &request);
                    }
                    self.go_past(asked);
                } else {
                    self.waiting_for_room.push_back(asked);
                    self.begin_what_has_room(now);
                }
            }
        }
        self.write_back();
    }

    /// The drive has carried out a command.
    pub(crate) fn answered(&mut self, now: Nanos, command: u32, failed: bool) {
        let done = std::mem::replace(&mut self.commands.rows[command as usize], Command::Unused);
        self.commands.unused.push(command);
        match done {
            Command::Read { pages, waiting } => {
                for (slot, sectors) in pages {
                    self.pages.end_read(slot, sectors);
                }
                for asked in waiting {
                    let row = &mut self.asked.rows[asked as usize];
                    row.waits_for -= 1;
                    row.failed |= failed;
                    if row.waits_for == 0 {
                        self.copy(now, asked);
                    }
                }
            }
            Command::Write { volume, pages, oldest } => {
                self.writing.remove(&(volume, oldest, command));
                self.stats.failed_writes += u64::from(failed);
                pages.into_iter().for_each(|slot| self.pages.end_write(slot));
                self.flush_what_is_written();
                self.answer_throttled();
            }
            Command::Past { asked } => {
                self.asked.rows[asked as usize].failed |= failed;
                self.reply(asked);
            }
            Command::Unused => unreachable!("a command is answered once"),
        }
        self.begin_what_has_room(now);
        self.write_back();
    }

    /// Does what is due.
    pub(crate) fn tick(&mut self, now: Nanos) {
        while let Some((_, asked)) = self.copying.front().copied().filter(|(at, _)| *at <= now) {
            self.copying.pop_front();
            self.copied(asked);
        }
        if self.next_look <= now {
            self.old_since = now.0.checked_sub(self.design.dirty_expire.0).map(Nanos);
            self.next_look = match self.pages.dirty_count() {
                0 => Nanos::MAX,
                _ => now.saturating_add(self.design.writeback_interval),
            };
            self.write_back();
        }
    }

    fn submit(&mut self, volume: usize, command: Command, request: Request) -> u32 {
        let id = self.commands.add(command);
        self.effects.push_back(Effect::Submit { volume, id, request });
        id
    }

    fn reply(&mut self, asked: u32) {
        let Asked { volume, id, failed, .. } = self.asked.rows[asked as usize];
        self.asked.unused.push(asked);
        self.effects.push_back(Effect::Reply { volume, id, failed });
    }

    fn go_past(&mut self, asked: u32) {
        let Asked { volume, request, .. } = self.asked.rows[asked as usize];
        self.submit(volume, Command::Past { asked }, request);
    }

    /// Begins requests for as long as there are pages for the next one.
    fn begin_what_has_room(&mut self, now: Nanos) {
        while let Some(&asked) = self.waiting_for_room.front() {
            let Asked { volume, request, .. } = self.asked.rows[asked as usize];
            if self.pages.room() < parts(volume, &request).count() {
                return;
            }
            self.waiting_for_room.pop_front();
            if request.op == Op::Read {
                self.begin_read(now, asked);
            } else {
                self.begin_write(now, asked);
            }
        }
    }

    /// Finds the pages of a request, or makes room for them; all are held then.
    fn hold_pages(&mut self, volume: usize, request: &Request) -> Vec<(u32, u8)> {
        let mut held: Vec<(u32, u8)> = Vec::with_capacity(parts(volume, request).count());
        // First those that are there, so that they do not leave for the others.
        for (key, sectors) in parts(volume, request) {
            let slot = self.pages.find(key);
            if let Some(slot) = slot {
                self.pages.used(slot);
                self.pages.hold(slot);
            }
            held.push((slot.unwrap_or(u32::MAX), sectors));
        }
        for ((key, _), (slot, _)) in parts(volume, request).zip(&mut held) {
            if *slot == u32::MAX {
                *slot = self.pages.add(key);
            }
        }
        held
    }

    fn begin_read(&mut self, now: Nanos, asked: u32) {
        let Asked { volume, request, .. } = self.asked.rows[asked as usize];
        let held = self.hold_pages(volume, &request);
        let mut run: Option<(u64, u64)> = None;
        let mut of_run: Vec<(u32, u8)> = Vec::new();
        let mut waits_for: Vec<u32> = Vec::new();
        let mut is_hit = true;
        for (slot, sectors) in held.iter().copied() {
            let page = *self.pages.page(slot);
            let absent = sectors & !page.present;
            self.stats.read_hit_bytes += bytes(sectors & page.present);
            is_hit &= absent == 0;
            if absent & page.reading != 0 && !waits_for.contains(&page.command) {
                waits_for.push(page.command);
            }
            for (within, len, stretch) in stretches(absent & !page.reading) {
                let at = at_of(page.key) + within;
                if run.is_some_and(|(_, end)| end != at) {
                    self.read_run(asked, run.take(), std::mem::take(&mut of_run));
                }
                run = Some((run.map_or(at, |(start, _)| start), at + len));
                of_run.push((slot, stretch));
            }
        }
        self.read_run(asked, run, of_run);
        for command in waits_for {
            if let Command::Read { waiting, .. } = &mut self.commands.rows[command as usize] {
                waiting.push(asked);
                self.asked.rows[asked as usize].waits_for += 1;
            }
        }
        held.into_iter().for_each(|(slot, _)| self.pages.release(slot));
        self.stats.read_hits += u64::from(is_hit);
        if self.asked.rows[asked as usize].waits_for == 0 {
            self.copy(now, asked);
        }
    }

    /// Reads a range that is absent, for a request.
    fn read_run(&mut self, asked: u32, run: Option<(u64, u64)>, pages: Vec<(u32, u8)>) {
        let Some((start, end)) = run else { return };
        let end = end.min(self.volume);
        let row = &mut self.asked.rows[asked as usize];
        row.waits_for += 1;
        let volume = row.volume;
        let request = Request { op: Op::Read, offset: Bytes(start), len: Bytes(end - start) };
        self.stats.drive_reads += 1;
        self.stats.drive_read_bytes += end - start;
        let command = self.submit(volume, Command::Read { pages: pages.clone(), waiting: vec![asked] }, request);
        pages.into_iter().for_each(|(slot, sectors)| self.pages.begin_read(slot, sectors, command));
    }

    fn begin_write(&mut self, now: Nanos, asked: u32) {
        let Asked { volume, request, .. } = self.asked.rows[asked as usize];
        for (slot, sectors) in self.hold_pages(volume, &request) {
            let again = self.pages.write(slot, sectors, volume, now);
            self.stats.rewritten_bytes += bytes(again);
            self.pages.release(slot);
        }
        if self.next_look == Nanos::MAX {
            self.next_look = now.saturating_add(self.design.writeback_interval);
        }
        self.copy(now, asked);
    }

    /// Copies between the cache and a program; the memory makes one copy after the other.
    fn copy(&mut self, now: Nanos, asked: u32) {
        let len = self.asked.rows[asked as usize].request.len.0;
        let copy = u128::from(len) * 1_000_000_000 / u128::from(self.design.bytes_per_s);
        self.copied_at = self.copied_at.max(now).saturating_add(Nanos(copy as u64));
        self.copying.push_back((self.copied_at.saturating_add(self.design.latency), asked));
    }

    fn copied(&mut self, asked: u32) {
        let is_write = self.asked.rows[asked as usize].request.op == Op::Write;
        if is_write && (!self.throttled.is_empty() || self.pages.dirty_or_writing() > self.limit) {
            self.stats.throttled_writes += 1;
            self.throttled.push_back(asked);
            self.write_back();
            self.answer_throttled();
        } else {
            self.reply(asked);
        }
    }

    fn answer_throttled(&mut self) {
        while self.pages.dirty_or_writing() <= self.limit {
            let Some(asked) = self.throttled.pop_front() else { return };
            self.reply(asked);
        }
    }

    /// What a discard, or a write past the cache, makes needless.
    fn forget(&mut self, volume: usize, request: &Request) {
        if request.len == Bytes::ZERO {
            return;
        }
        let (start, end) = (request.offset.0, request.offset.0 + request.len.0);
        let numbers = start / PAGE..end.div_ceil(PAGE);
        // A request may be much longer than the cache.
        let found: Vec<(u64, u32)> = if request.len.0 / PAGE > self.pages.len() as u64 {
            let keys = key_of(volume, numbers.start)..key_of(volume, numbers.end);
            self.pages.all_sorted().into_iter().filter(|(key, _)| keys.contains(key)).collect()
        } else {
            let keys = numbers.map(|number| key_of(volume, number));
            keys.filter_map(|key| Some((key, self.pages.find(key)?))).collect()
        };
        for (key, slot) in found {
            // Whole sectors only.
            let from = start.saturating_sub(at_of(key)).div_ceil(SECTOR);
            let to = (end - at_of(key)).min(PAGE) / SECTOR;
            if from < to {
                let sectors = sectors(from, to);
                self.stats.dropped_dirty_bytes += bytes(self.pages.page(slot).dirty & sectors);
                self.pages.forget(slot, sectors, volume);
            }
        }
    }

    /// Hands flushes to the drive whose data are written, in their order.
    fn flush_what_is_written(&mut self) {
        let mut index = 0;
        while let Some(&Flush { asked, volume, up_to }) = self.flushes.get(index) {
            let is_dirty = self.pages.oldest(volume).is_some_and(|page| page.number <= up_to);
            let is_being_written = self.writing.range((volume, 0, 0)..=(volume, up_to, u32::MAX)).next().is_some();
            if is_dirty || is_being_written {
                index += 1;
            } else {
                self.flushes.remove(index);
                self.go_past(asked);
            }
        }
    }

    /// Writes back as long as there is a reason and the drive may have more commands.
    fn write_back(&mut self) {
        if self.ended {
            return;
        }
        while self.writing.len() < MOST_WRITES {
            match self.batch.pop_front() {
                Some(key) => self.write_around(key),
                None if self.choose() => {}
                None => break,
            }
        }
        // Pages may have been chosen that a discard has dropped since.
        self.flush_what_is_written();
    }

    /// Chooses the pages that are written next, by age; returns whether there are any.
    fn choose(&mut self) -> bool {
        let mut chosen: Vec<u64> = Vec::new();
        for Flush { volume, up_to, .. } in &self.flushes {
            let due = self.pages.dirty_of(*volume).take_while(|page| page.number <= *up_to);
            chosen.extend(due.filter(|page| page.writes == 0).take(BATCH).map(|page| page.key));
            self.why = Why::Flush;
            if !chosen.is_empty() {
                break;
            }
        }
        if chosen.is_empty()
            && let Some(old) = self.old_since
        {
            for volume in 0..self.pages.volumes() {
                let due = self.pages.dirty_of(volume).take_while(|page| page.since <= old);
                let due = due.filter(|page| page.writes == 0);
                chosen.extend(due.take(BATCH - chosen.len()).map(|page| page.key));
            }
            self.why = Why::Expired;
        }
        let over = self.pages.dirty_count().saturating_sub(self.background);
        let needed = if self.waiting_for_room.is_empty() { over } else { BATCH };
        if chosen.is_empty() && needed > 0 {
            self.why = if over > 0 { Why::Background } else { Why::Memory };
            if let Some(volume) = self.pages.oldest_volume() {
                let due = self.pages.dirty_of(volume).filter(|page| page.writes == 0);
                chosen.extend(due.take(BATCH.min(needed)).map(|page| page.key));
            }
        }
        chosen.sort_unstable();
        self.batch.extend(chosen);
        !self.batch.is_empty()
    }

    /// Writes a dirty page back, together with its dirty neighbours.
    fn write_around(&mut self, key: u64) {
        let is_due = |pages: &Pages, key: u64| {
            let slot = pages.find(key)?;
            let page = pages.page(slot);
            (page.dirty != 0 && page.writes == 0).then_some((slot, page.dirty))
        };
        let Some((_, mut mask)) = is_due(&self.pages, key) else { return };
        let (mut first, mut count) = (key, 1);
        while count < MOST_RUN
            && mask & 1 != 0
            && at_of(first) > 0
            && let Some((_, before)) = is_due(&self.pages, first - 1).filter(|(_, before)| before & 0x80 != 0)
        {
            (first, mask, count) = (first - 1, before, count + 1);
        }
        let mut run: Option<(u64, u64, u64)> = None;
        let mut of_run: Vec<u32> = Vec::new();
        let volume = volume_of(key);
        for key in first..first + MOST_RUN as u64 {
            let Some((slot, dirty)) = is_due(&self.pages, key) else { break };
            if run.is_some_and(|(_, end, _)| end != at_of(key) || dirty & 1 == 0) {
                break;
            }
            let number = self.pages.page(slot).number;
            for (within, len, _) in stretches(dirty) {
                let at = at_of(key) + within;
                if run.is_some_and(|(_, end, _)| end != at) {
                    self.write_run(volume, run.take(), std::mem::take(&mut of_run));
                }
                let (start, _, oldest) = run.unwrap_or((at, at, number));
                run = Some((start, at + len, oldest.min(number)));
                of_run.push(slot);
            }
            self.pages.clean(slot, dirty, volume);
        }
        self.write_run(volume, run, of_run);
    }

    fn write_run(&mut self, volume: usize, run: Option<(u64, u64, u64)>, pages: Vec<u32>) {
        let Some((start, end, oldest)) = run else { return };
        let end = end.min(self.volume);
        let len = end - start;
        let by = &mut self.stats.written_back_by;
        let by = match self.why {
            Why::Expired => &mut by.expired_bytes,
            Why::Background => &mut by.background_bytes,
            Why::Flush => &mut by.flush_bytes,
            Why::Memory => &mut by.memory_bytes,
        };
        *by += len;
        self.stats.drive_writes += 1;
        self.stats.written_back_bytes += len;
        pages.iter().for_each(|slot| self.pages.begin_write(*slot));
        let request = Request { op: Op::Write, offset: Bytes(start), len: Bytes(len) };
        let command = self.submit(volume, Command::Write { volume, pages, oldest }, request);
        self.writing.insert((volume, oldest, command));
    }
}
