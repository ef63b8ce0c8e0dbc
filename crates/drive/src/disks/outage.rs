//! Outages: devices that fail and may come back, such as a path that fails over, an enclosure that is reset, or a file system
//! that is full.
//!
//! Outages are kept by device and by kind of command (reads, writes, flushes), because a device may still be able to carry
//! out some kinds. During an outage, commands of its kind wait here. From time to time one of them, or a read of the
//! first block, is tried; when one succeeds, the outage is over and all that waited continue. How long commands wait at most
//! is a setting, the patience. After that they fail, and the engine decides whether the device is dead. Until then the
//! device is excused: the engine does not give it up. A device that lacks space is always excused. So is a device that fails writes,
//! if it has the only copy of some data and a read of its first block succeeds.
//!
//! A flush that failed does not wait, because its failure has to be reported. A flush that arrives while writes wait begins
//! only after the writes have been tried.

use std::{collections::VecDeque, io};

use peryton_engine::{DeviceId, Excuse, Excuses, IoId};
use peryton_units::Nanos;

use super::{ATTEMPTS, Ask, Disks, Job};
use crate::{
    arena::{Arena, PAGE},
    backend::{Action, Operation},
};

/// The time before the first try, and the longest time between two tries. The time doubles after each.
const FIRST_PAUSE: Nanos = Nanos::from_ms(20);
const LONGEST_PAUSE: Nanos = Nanos::from_s(1);
/// A command is at fault (a bad sector, for example) if it has failed in this many outages that ended when another command succeeded.
/// Failures for lack of space are not counted: another write may succeed without free space, because it overwrites data.
const MOST_ROUNDS: u8 = 3;
/// An outage in which no command waits is reported after this time.
const BRIEF: Nanos = Nanos::from_ms(500);
/// An outage in which no command waits is reported as over this long after its last failure. No command has tried the device meanwhile.
const QUIET: Nanos = Nanos::from_s(10);
/// The number of kinds of commands.
const KINDS: usize = 3;

const READS: usize = 0;
const WRITES: usize = 1;
const FLUSHES: usize = 2;

fn kind(ask: Ask) -> usize {
    match ask {
        Ask::Read => READS,
        Ask::Write | Ask::Punch | Ask::ZeroRange => WRITES,
        Ask::Sync => FLUSHES,
    }
}

/// The meaning of a kernel's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// The device is gone.
    Vanished,
    /// The blocks are bad, or the command is invalid: other commands may succeed.
    Local,
    /// There is no space left.
    Full,
    /// The device may come back.
    MayPass,
}

/// The errors for a device that was unplugged or has failed for good. A retry is of no use.
const VANISHED: [i32; 4] = [libc::ENXIO, libc::ENODEV, libc::ENOMEDIUM, libc::ESHUTDOWN];
/// The errors for a bad sector, a failed integrity check, a disk that refuses a command, and an invalid command.
const LOCAL: [i32; 6] = [libc::ENODATA, libc::EILSEQ, libc::EREMOTEIO, libc::EINVAL, libc::EOPNOTSUPP, libc::EFBIG];

impl Class {
    pub(super) fn of(errno: i32) -> Class {
        match errno {
            libc::ENOSPC | libc::EDQUOT => Class::Full,
            _ if VANISHED.contains(&errno) => Class::Vanished,
            _ if LOCAL.contains(&errno) => Class::Local,
            _ => Class::MayPass,
        }
    }
}

/// Whether a command that failed with this error may succeed later.
pub(crate) fn may_pass(errno: i32) -> bool {
    matches!(Class::of(errno), Class::MayPass | Class::Full)
}

/// Whether it failed for lack of space.
pub(crate) fn is_full(errno: i32) -> bool {
    Class::of(errno) == Class::Full
}

/// The outage of one kind of commands of a device.
#[derive(Debug, Default)]
struct Row {
    /// When it began; `None` if there is no outage.
    since: Option<Nanos>,
    /// The last failure.
    last: Nanos,
    error: String,
    full: bool,
    /// Whether commands of this kind wait.
    holds: bool,
    waiting: VecDeque<u32>,
    /// The job that is being tried.
    trying: Option<u32>,
    /// When to try next.
    due: Nanos,
    pause: Nanos,
    /// Whether the last try was a read of the first block.
    probed: bool,
}

/// An outage, for reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outage {
    pub(crate) since: Nanos,
    /// How much longer commands wait.
    pub(crate) patience_left: Nanos,
    /// The number of waiting commands.
    pub(crate) waiting: usize,
    /// The last error, as the system describes it.
    pub(crate) error: String,
    /// Whether the only problem is a lack of space.
    pub(crate) full: bool,
    /// Whether the patience is over and the device takes reads only.
    pub(crate) only_reads: bool,
}

/// Whether a device whose writes or flushes have outlasted the patience can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Readable {
    /// That was not tried yet.
    #[default]
    Unknown,
    /// Its first block is being read.
    Tried,
    /// A read has succeeded in this outage.
    Yes,
    No,
}

/// The outages of all devices.
#[derive(Debug)]
pub(super) struct Outages {
    patience: Nanos,
    /// The time until which commands wait at most, once the volume is being closed.
    limit: Nanos,
    rows: Vec<[Row; KINDS]>,
    readable: Vec<Readable>,
    /// The rows with an outage, one bit each, so that the common case of none is one test.
    failing: u64,
    /// The rows whose commands wait, one bit each.
    holding: u64,
    /// The buffers for reads of the first block, a page for each device.
    pages: Arena,
    /// The jobs that read them.
    probes: Vec<u32>,
}

fn bit(device: usize, kind: usize) -> u64 {
    1 << (device * KINDS + kind)
}

impl Outages {
    pub(super) fn new(devices: usize) -> io::Result<Outages> {
        Ok(Outages {
            patience: Nanos::ZERO,
            limit: Nanos::MAX,
            rows: (0..=devices).map(|_| Default::default()).collect(),
            readable: vec![Readable::Unknown; devices + 1],
            failing: 0,
            holding: 0,
            pages: Arena::new(PAGE * (devices + 1))?,
            probes: Vec::new(),
        })
    }

    /// Ends all outages of a device that no command waits for.
    pub(super) fn end_all_of(&mut self, device: usize) {
        for row in &self.rows[device] {
            let is_probe = |slot: &u32| self.probes.contains(slot);
            debug_assert!(
                row.waiting.is_empty() && row.trying.as_ref().is_none_or(is_probe),
                "a command waits for {device}"
            );
        }
        (0..KINDS).for_each(|kind| drop(self.end(device, kind)));
    }

    /// Ends the outage of a kind of commands; returns the jobs that waited.
    fn end(&mut self, device: usize, kind: usize) -> VecDeque<u32> {
        self.failing &= !bit(device, kind);
        self.holding &= !bit(device, kind);
        self.readable[device] = Readable::Unknown;
        std::mem::take(&mut self.rows[device][kind]).waiting
    }

    fn is_over(&self, row: &Row, now: Nanos) -> bool {
        row.since.is_some_and(|since| now >= since.saturating_add(self.patience))
    }

    /// Records the failure of a command of this kind. The first failure begins the outage; `since` is when the command failed first.
    fn begin(&mut self, (device, kind): (usize, usize), since: Nanos, now: Nanos, error: String, full: bool) {
        self.failing |= bit(device, kind);
        if kind == READS {
            self.readable[device] = Readable::Unknown;
        }
        let row = &mut self.rows[device][kind];
        (row.error, row.full, row.last) = (error, full, now);
        if row.since.is_none() {
            row.pause = FIRST_PAUSE;
            row.due = now.saturating_add(FIRST_PAUSE);
            row.probed = false;
        }
        row.since = Some(row.since.map_or(since, |before| before.min(since)));
    }

    /// Whether jobs may wait for this row: the patience is not over, and the volume is not closed.
    fn may_wait(&self, (device, kind): (usize, usize), now: Nanos) -> bool {
        self.is_part(device)
            && now < self.limit
            && self.patience > Nanos::ZERO
            && !self.is_over(&self.rows[device][kind], now)
    }

    pub(super) fn take_probe(&mut self, slot: u32) -> bool {
        let found = self.probes.iter().position(|probe| *probe == slot);
        found.is_some_and(|index| {
            self.probes.swap_remove(index);
            true
        })
    }

    /// Forgets that the job was being tried, because it has ended.
    #[inline]
    pub(super) fn forget(&mut self, slot: u32, device: DeviceId) {
        if self.failing != 0 {
            for row in &mut self.rows[device.index()] {
                row.trying.take_if(|trying| *trying == slot);
            }
        }
    }

    /// Whether the device is part of the volume. The row behind the last one is that of a device that is not: no command waits for it,
    /// and it has the only copy of no data.
    fn is_part(&self, device: usize) -> bool {
        device + 1 < self.rows.len()
    }

    /// The devices that fail, each with its rows.
    fn failing(&self) -> impl Iterator<Item = (usize, &[Row; KINDS])> {
        self.rows.iter().enumerate().filter(|(_, rows)| rows.iter().any(|row| row.since.is_some()))
    }

    /// Whether the device takes reads, and no writes or no flushes for longer than the patience.
    fn only_reads(&self, device: usize, now: Nanos) -> bool {
        let [reads, writes, flushes] = &self.rows[device];
        self.is_part(device) && reads.since.is_none() && (self.is_over(writes, now) || self.is_over(flushes, now))
    }

    /// Whether it is to be found out if the device can be read.
    fn is_to_be_read(&self, device: usize, now: Nanos) -> bool {
        self.readable[device] == Readable::Unknown && self.only_reads(device, now)
    }

    /// The devices that fail and are not to be given up.
    fn excuses(&self, now: Nanos) -> Excuses {
        let mut excuses = Excuses::default();
        for (device, rows) in self.failing().filter(|(device, _)| self.is_part(*device)) {
            let excuse = if rows.iter().any(|row| row.since.is_some() && !self.is_over(row, now)) {
                Some(Excuse::MayComeBack)
            } else if rows.iter().any(|row| row.full) {
                Some(Excuse::LacksSpace)
            } else {
                let takes_reads = self.readable[device] != Readable::No && self.only_reads(device, now);
                takes_reads.then_some(Excuse::TakesReads)
            };
            excuses.set(DeviceId(device as u8), excuse);
        }
        excuses
    }
}

impl Disks {
    /// How long commands wait for a device that may come back.
    pub(crate) fn set_patience(&mut self, patience: Nanos) {
        self.outages.patience = patience;
    }

    /// Limits waiting to this time, because the volume is being closed.
    pub(crate) fn hurry(&mut self, until: Nanos) {
        self.outages.limit = until;
    }

    /// The devices that the engine is not to give up.
    #[inline]
    pub(crate) fn excuses(&self) -> Excuses {
        if self.outages.failing == 0 { Excuses::default() } else { self.outages.excuses(self.now) }
    }

    /// Devices in an outage that is worth reporting, one bit each.
    #[inline]
    pub(crate) fn in_outage(&self) -> u32 {
        if self.outages.failing == 0 {
            return 0;
        }
        let is_reported = |row: &Row| {
            let lasting = row.since.is_some_and(|since| self.now.saturating_sub(since) >= BRIEF);
            row.holds || lasting && self.now.saturating_sub(row.last) < QUIET
        };
        let is_reported = |device: usize, rows: &[Row; KINDS]| rows.iter().any(is_reported) || self.only_reads(device);
        let devices = self.outages.failing().filter(|(device, rows)| is_reported(*device, rows));
        devices.fold(0, |all, (device, _)| all | 1 << device)
    }

    /// Whether the device is known to take reads only.
    fn only_reads(&self, device: usize) -> bool {
        self.outages.readable[device] == Readable::Yes && self.outages.only_reads(device, self.now)
    }

    /// Whether a device fails for lack of space.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.outages.failing != 0 && self.outages.rows.iter().flatten().any(|row| row.since.is_some() && row.full)
    }

    /// The outage of a device, if there is one.
    pub(crate) fn outage(&self, device: usize) -> Option<Outage> {
        let rows = self.outages.rows[device].iter().filter(|row| row.since.is_some());
        let first = rows.clone().min_by_key(|row| row.since)?;
        let since = first.since?;
        Some(Outage {
            since,
            patience_left: since.saturating_add(self.outages.patience).saturating_sub(self.now),
            waiting: rows.clone().map(|row| row.waiting.len() + usize::from(row.trying.is_some())).sum(),
            error: first.error.clone(),
            full: rows.clone().all(|row| row.full),
            only_reads: self.only_reads(device),
        })
    }

    /// Makes the job wait if commands of its kind have to; returns whether it does.
    #[inline]
    pub(super) fn is_held(&mut self, slot: u32) -> bool {
        self.outages.holding != 0 && self.hold(slot)
    }

    #[cold]
    fn hold(&mut self, slot: u32) -> bool {
        let job = self.jobs[slot as usize].as_ref().expect("a job that is issued exists");
        let device = job.operation.device.index();
        // A flush waits for writes that may still succeed; before that it would fail.
        let kind = kind(job.chunk.ask()).min(WRITES);
        let holds = self.outages.holding & bit(device, kind) != 0;
        let tried = self.outages.rows[device][kind].trying == Some(slot) || self.outages.probes.contains(&slot);
        if !holds || tried {
            return false;
        }
        self.wait_in(slot, (device, kind));
        true
    }

    /// Makes the job wait. It returns its bounce buffer, which other jobs may need.
    fn wait_in(&mut self, slot: u32, (device, kind): (usize, usize)) {
        self.outages.holding |= bit(device, kind);
        let row = &mut self.outages.rows[device][kind];
        row.holds = true;
        row.waiting.push_back(slot);
        let job = self.jobs[slot as usize].as_mut().expect("a job that waits exists");
        if let Some(bounce) = job.bounce.take() {
            job.moved = 0;
            self.free_bounces.push(bounce);
            self.feed_short();
        }
    }

    /// Continues a job that has waited. A chunk that uses a bounce buffer starts again.
    fn go_on(&mut self, slot: u32) {
        let Some(job) = self.jobs[slot as usize].as_mut() else { return };
        job.interruptions = 0;
        if job.chunk.bounces() {
            let chunk = self.plan(slot).expect("it was planned before");
            self.jobs[slot as usize].as_mut().expect("it goes on").chunk = chunk;
            return self.begin_if_free(slot);
        }
        self.issue(slot);
    }

    /// Makes a command that has failed repeatedly wait for its device. Returns `false` if the command does not wait, so that
    /// its failure has to be reported.
    pub(super) fn waits_out(&mut self, slot: u32, errno: i32) -> bool {
        let class = Class::of(errno);
        let job = self.jobs[slot as usize].as_mut().expect("a job that failed exists");
        let ask = job.chunk.ask();
        let place = (job.operation.device.index(), kind(ask));
        if matches!(class, Class::Local | Class::Vanished) || job.rounds >= MOST_ROUNDS {
            return false;
        }
        let since = *job.waits_since.get_or_insert(self.now);
        let error = io::Error::from_raw_os_error(errno).to_string();
        let tried = self.outages.rows[place.0][place.1].trying == Some(slot);
        self.outages.begin(place, since, self.now, error, class == Class::Full);
        if ask == Ask::Sync || !self.outages.may_wait(place, self.now) {
            self.outages.rows[place.0][place.1].trying.take_if(|trying| *trying == slot);
            return false;
        }
        if tried {
            self.tried_in_vain(place);
        } else {
            job.rounds += u8::from(class != Class::Full);
        }
        self.wait_in(slot, place);
        true
    }

    /// Records a failure that was caused by a drill and was reported at once.
    pub(super) fn note_failure(&mut self, operation: &Operation, error: &str) {
        let kind = match operation.action {
            Action::Read => READS,
            Action::Write | Action::Zero | Action::ZeroAllocated | Action::Discard => WRITES,
            Action::Flush => FLUSHES,
        };
        self.outages.begin((operation.device.index(), kind), self.now, self.now, error.to_owned(), false);
    }

    /// Finds out whether a device can be read that takes no writes or no flushes for longer than the patience.
    fn try_reading(&mut self, device: usize) {
        if self.outages.is_to_be_read(device, self.now) {
            self.outages.readable[device] = Readable::Tried;
            self.probe(device);
        }
    }

    fn tried_in_vain(&mut self, (device, kind): (usize, usize)) {
        let row = &mut self.outages.rows[device][kind];
        row.trying = None;
        row.pause = Nanos((row.pause.0 * 2).min(LONGEST_PAUSE.0));
        row.due = self.now.saturating_add(row.pause);
    }

    /// Handles the end of a read of the first block.
    pub(super) fn probe_ended(&mut self, device: DeviceId, well: bool) {
        let readable = &mut self.outages.readable[device.index()];
        if *readable == Readable::Tried {
            *readable = if well { Readable::Yes } else { Readable::No };
        }
        if !well {
            self.tried_in_vain((device.index(), READS));
        }
    }

    /// Ends the outage of a command's kind, because the command has succeeded.
    #[inline]
    pub(super) fn works(&mut self, device: DeviceId, ask: Ask) {
        if self.outages.failing != 0 {
            self.works_again(device.index(), kind(ask));
        }
    }

    #[cold]
    fn works_again(&mut self, device: usize, kind: usize) {
        if kind == READS {
            self.outages.readable[device] = Readable::Yes;
        }
        if self.outages.failing & bit(device, kind) == 0 {
            return;
        }
        let waiting = self.outages.end(device, kind);
        for slot in waiting {
            if let Some(job) = self.jobs[slot as usize].as_mut() {
                job.attempts = 0;
            }
            self.go_on(slot);
        }
    }

    /// Fails all commands that wait for the device, because the engine has given it up.
    pub(crate) fn end_waiting(&mut self, device: DeviceId) {
        for kind in 0..KINDS {
            let error = self.outages.rows[device.index()][kind].error.clone();
            for slot in self.outages.end(device.index(), kind) {
                self.fail_waiting(slot, &error);
            }
        }
    }

    /// Tries the commands that are due, and fails those that have waited as long as they may.
    pub(super) fn tick_outages(&mut self) {
        (0..self.outages.rows.len()).for_each(|device| self.try_reading(device));
        for (device, kind) in (0..self.outages.rows.len()).flat_map(|device| [(device, READS), (device, WRITES)]) {
            let row = &self.outages.rows[device][kind];
            if !row.holds {
                continue;
            }
            if !self.outages.may_wait((device, kind), self.now) {
                self.outages.holding &= !bit(device, kind);
                let row = &mut self.outages.rows[device][kind];
                row.holds = false;
                let (waiting, error) = (std::mem::take(&mut row.waiting), row.error.clone());
                for slot in waiting {
                    self.fail_waiting(slot, &error);
                }
            } else if row.trying.is_none() && row.due <= self.now {
                self.try_one(device, kind);
            }
        }
    }

    /// Fails a command that has waited. A flush or a discard is carried out instead, and its own result is reported.
    fn fail_waiting(&mut self, slot: u32, error: &str) {
        let Some(job) = self.jobs[slot as usize].as_ref() else { return };
        if matches!(job.operation.action, Action::Flush | Action::Discard) {
            return self.go_on(slot);
        }
        self.give_up(slot, job.operation, error.to_owned());
    }

    fn try_one(&mut self, device: usize, kind: usize) {
        let row = &mut self.outages.rows[device][kind];
        if kind == READS && !row.probed {
            row.probed = true;
            return self.probe(device);
        }
        row.probed = false;
        let moves = |slot: &u32| {
            let job = self.jobs[*slot as usize].as_ref();
            job.is_some_and(|job| matches!(job.chunk.ask(), Ask::Read | Ask::Write | Ask::ZeroRange))
        };
        match row.waiting.iter().position(moves).and_then(|index| row.waiting.remove(index)) {
            Some(slot) => {
                row.trying = Some(slot);
                if let Some(job) = self.jobs[slot as usize].as_mut() {
                    // It is not repeated if it fails.
                    job.attempts = ATTEMPTS - 1;
                }
                self.go_on(slot);
            }
            // No command is left that could show whether the device works.
            None => self.works_again(device, kind),
        }
    }

    /// Reads the first block. If that succeeds, the device works, and the command that failed was at fault.
    fn probe(&mut self, device: usize) {
        let memory = self.outages.pages.at(device * PAGE).first(PAGE);
        let device = DeviceId(device as u8);
        let operation =
            Operation { io: IoId::new(0, 0), device, action: Action::Read, at: 0, len: PAGE as u64, memory };
        let slot = self.add(operation);
        self.outages.probes.push(slot);
        self.outages.rows[device.index()][READS].trying = Some(slot);
        self.next_chunk(slot);
    }

    /// When the next try, report or end of patience is due.
    pub(super) fn outages_due(&self) -> Option<Nanos> {
        if self.outages.failing == 0 {
            return None;
        }
        if self.outages.failing().any(|(device, _)| self.outages.is_to_be_read(device, self.now)) {
            return Some(self.now);
        }
        let due = |row: &Row| {
            let since = row.since?;
            let end = since.saturating_add(self.outages.patience).min(self.outages.limit);
            let next = (row.holds && row.trying.is_none()).then_some(row.due);
            if row.holds {
                return [Some(end), next].into_iter().flatten().min();
            }
            // The outage has lasted long enough to be reported; its last failure is long ago; its patience ends.
            [since.saturating_add(BRIEF), row.last.saturating_add(QUIET), end]
                .into_iter()
                .filter(|time| *time > self.now && *time < Nanos::MAX)
                .min()
        };
        self.outages.rows.iter().flatten().filter_map(due).min()
    }
}

impl Job {
    /// Counts a failure. Returns whether the job has failed so often that it has to wait, or its failure be reported.
    pub(super) fn has_failed_enough(&mut self) -> bool {
        self.attempts = self.attempts.saturating_add(1);
        self.attempts >= ATTEMPTS
    }
}
