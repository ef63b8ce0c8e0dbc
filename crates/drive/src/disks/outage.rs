//! Devices that fail and may come back: a path that fails over, an enclosure that is reset, a file system that is full.
//!
//! What fails is counted by kind (reads, writes, flushes), because a device may be able to do one and not the other. While
//! a kind fails, commands of that kind wait here: one of them, or a read of the first block, is tried now and then, and
//! when one succeeds all go on. How long they wait at most is a setting, the patience; after that they fail, and the engine
//! decides what that means. Until then it is notified that the device is excused: nothing counts against it. A lack of space
//! never does.
//!
//! A flush that failed does not wait: its failure is an answer. One that comes while writes wait is not begun before they
//! have been tried.

use std::{collections::VecDeque, io};

use peryton_engine::{DeviceId, IoId};
use peryton_units::Nanos;

use super::{ATTEMPTS, Ask, Chunk, Disks, Job};
use crate::{
    arena::{Arena, PAGE},
    backend::{Action, Operation},
};

/// How long to wait before a first try, and at most between two of them: the time doubles.
const FIRST_PAUSE: Nanos = Nanos::from_ms(20);
const LONGEST_PAUSE: Nanos = Nanos::from_s(1);
/// A command that has failed in so many outages that others ended is at fault itself: a bad sector.
const MOST_ROUNDS: u8 = 3;
/// What fails without making anything wait is called an outage after this time.
const BRIEF: Nanos = Nanos::from_ms(500);
/// And no longer than this after the last failure, if nothing waits: nobody has asked since.
const QUIET: Nanos = Nanos::from_s(10);
/// The kinds of commands.
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

/// What the kernel's error says about the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    /// It is not there any more.
    Vanished,
    /// These blocks are bad, or the command is.
    Local,
    /// There is no space.
    Full,
    /// It may come back.
    MayPass,
}

/// What the kernel says of a device that was unplugged, or has given up altogether. No use trying again.
const VANISHED: [i32; 4] = [libc::ENXIO, libc::ENODEV, libc::ENOMEDIUM, libc::ESHUTDOWN];
/// What it says of a bad sector, of a failed integrity check, of a disk that refuses, and of a command that makes no sense.
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

/// Whether what failed like this may succeed later.
pub(crate) fn may_pass(errno: i32) -> bool {
    matches!(Class::of(errno), Class::MayPass | Class::Full)
}

/// A kind of commands of a device that fails.
#[derive(Debug, Default)]
struct Row {
    /// When it began to fail; `None`: it does not.
    since: Option<Nanos>,
    /// When it last failed.
    last: Nanos,
    error: String,
    full: bool,
    /// Commands wait.
    holds: bool,
    waiting: VecDeque<u32>,
    trying: Option<u32>,
    /// When to try next.
    due: Nanos,
    pause: Nanos,
    /// The last try was a read of the first block.
    probed: bool,
}

/// An outage, for reports.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Outage {
    pub(crate) since: Nanos,
    /// How long commands go on waiting.
    pub(crate) patience_left: Nanos,
    /// How many wait.
    pub(crate) waiting: usize,
    /// In the system's words.
    pub(crate) error: String,
    /// It lacks space only.
    pub(crate) full: bool,
}

/// All that fails.
#[derive(Debug)]
pub(super) struct Outages {
    patience: Nanos,
    /// Nothing waits longer than until then: the volume is being closed.
    limit: Nanos,
    rows: Vec<[Row; KINDS]>,
    /// Rows that fail, a bit each: a glance says that there are none.
    failing: u64,
    /// Rows that hold commands back.
    holding: u64,
    /// Where the first blocks are read to, a page for each device.
    pages: Arena,
    /// Jobs that read them.
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
            rows: (0..devices).map(|_| Default::default()).collect(),
            failing: 0,
            holding: 0,
            pages: Arena::new(PAGE * devices.max(1))?,
            probes: Vec::new(),
        })
    }

    fn is_over(&self, row: &Row, now: Nanos) -> bool {
        row.since.is_some_and(|since| now >= since.saturating_add(self.patience))
    }

    /// A command of this kind has failed: the clock of patience starts, if it has not.
    fn begin(&mut self, (device, kind): (usize, usize), now: Nanos, error: String, full: bool) {
        self.failing |= bit(device, kind);
        let row = &mut self.rows[device][kind];
        (row.error, row.full, row.last) = (error, full, now);
        if row.since.is_none() {
            row.since = Some(now);
            row.pause = FIRST_PAUSE;
            row.due = now.saturating_add(FIRST_PAUSE);
            row.probed = false;
        }
    }

    /// Whether jobs may wait for this row: neither the patience nor the volume has come to its end.
    fn may_wait(&self, (device, kind): (usize, usize), now: Nanos) -> bool {
        now < self.limit && self.patience > Nanos::ZERO && !self.is_over(&self.rows[device][kind], now)
    }

    pub(super) fn take_probe(&mut self, slot: u32) -> bool {
        let found = self.probes.iter().position(|probe| *probe == slot);
        found.is_some_and(|index| {
            self.probes.swap_remove(index);
            true
        })
    }

    /// The job has ended: it shows nothing any more.
    #[inline]
    pub(super) fn forget(&mut self, slot: u32, device: DeviceId) {
        if self.failing != 0 {
            for row in &mut self.rows[device.index()] {
                row.trying.take_if(|trying| *trying == slot);
            }
        }
    }

    /// Devices against which nothing counts, a bit each.
    fn excused(&self, now: Nanos) -> u32 {
        let excuses = |row: &Row| row.since.is_some() && (row.full || !self.is_over(row, now));
        let excused = (0..).zip(&self.rows).filter(|(_, rows)| rows.iter().any(excuses));
        excused.fold(0, |excused, (device, _): (u32, _)| excused | 1 << device)
    }
}

impl Disks {
    /// How long commands wait for a device that may come back.
    pub(crate) fn set_patience(&mut self, patience: Nanos) {
        self.outages.patience = patience;
    }

    /// The volume is being closed: nothing waits longer than until then.
    pub(crate) fn hurry(&mut self, until: Nanos) {
        self.outages.limit = until;
    }

    /// Devices that fail and may come back, a bit each: what they fail does not count against them.
    #[inline]
    pub(crate) fn excused(&self) -> u32 {
        if self.outages.failing == 0 { 0 } else { self.outages.excused(self.now) }
    }

    /// Devices in an outage that is worth telling, a bit each.
    #[inline]
    pub(crate) fn in_outage(&self) -> u32 {
        if self.outages.failing == 0 {
            return 0;
        }
        let told = |row: &Row| {
            let lasting = row.since.is_some_and(|since| self.now.saturating_sub(since) >= BRIEF);
            row.holds || lasting && self.now.saturating_sub(row.last) < QUIET
        };
        let devices = (0..).zip(&self.outages.rows).filter(|(_, rows)| rows.iter().any(told));
        devices.fold(0, |all, (device, _): (u32, _)| all | 1 << device)
    }

    /// What is known of a device's outage.
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
        })
    }

    /// Whether the job has to wait before it asks the kernel; it does then.
    #[inline]
    pub(super) fn is_held(&mut self, slot: u32) -> bool {
        self.outages.holding != 0 && self.hold(slot)
    }

    #[cold]
    fn hold(&mut self, slot: u32) -> bool {
        let job = self.jobs[slot as usize].as_ref().expect("a job that is issued exists");
        let device = job.operation.device.index();
        // A flush waits for writes that may still succeed: it would only fail.
        let kind = kind(job.chunk.ask()).min(WRITES);
        let holds = self.outages.holding & bit(device, kind) != 0;
        let tried = self.outages.rows[device][kind].trying == Some(slot) || self.outages.probes.contains(&slot);
        if !holds || tried {
            return false;
        }
        self.wait_in(slot, (device, kind));
        true
    }

    /// The job gives back what others may need, and waits.
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

    /// The job goes on: a chunk by way of a bounce buffer from its start.
    fn go_on(&mut self, slot: u32) {
        let Some(job) = self.jobs[slot as usize].as_mut() else { return };
        job.interruptions = 0;
        if job.chunk.bounces() {
            let ability = &self.abilities[job.operation.device.index()];
            let memory = job.memory_at(job.done, &self.zeros);
            job.chunk = Chunk::plan(&job.operation, job.done, ability, memory).expect("it was planned before");
            return self.begin_if_free(slot);
        }
        self.issue(slot);
    }

    /// A command has failed again and again. It waits for the device, if that may come back; otherwise `false`: its
    /// failure is to be reported.
    pub(super) fn waits_out(&mut self, slot: u32, errno: i32) -> bool {
        let class = Class::of(errno);
        let job = self.jobs[slot as usize].as_mut().expect("a job that failed exists");
        let ask = job.chunk.ask();
        let place = (job.operation.device.index(), kind(ask));
        if matches!(class, Class::Local | Class::Vanished) || job.rounds >= MOST_ROUNDS {
            return false;
        }
        let error = io::Error::from_raw_os_error(errno).to_string();
        let tried = self.outages.rows[place.0][place.1].trying == Some(slot);
        self.outages.begin(place, self.now, error, class == Class::Full);
        if ask == Ask::Sync || !self.outages.may_wait(place, self.now) {
            self.outages.rows[place.0][place.1].trying.take_if(|trying| *trying == slot);
            return false;
        }
        if tried {
            self.tried_in_vain(place);
        } else {
            job.rounds += 1;
        }
        self.wait_in(slot, place);
        true
    }

    /// A failure was reported that no command waited out: a drill's.
    pub(super) fn note_failure(&mut self, operation: &Operation, error: &str) {
        let kind = match operation.action {
            Action::Read => READS,
            Action::Write | Action::Zero | Action::Discard => WRITES,
            Action::Flush => FLUSHES,
        };
        self.outages.begin((operation.device.index(), kind), self.now, error.to_owned(), false);
    }

    fn tried_in_vain(&mut self, (device, kind): (usize, usize)) {
        let row = &mut self.outages.rows[device][kind];
        row.trying = None;
        row.pause = Nanos((row.pause.0 * 2).min(LONGEST_PAUSE.0));
        row.due = self.now.saturating_add(row.pause);
    }

    /// A read of the first block has ended.
    pub(super) fn probe_ended(&mut self, device: DeviceId, well: bool) {
        if !well {
            self.tried_in_vain((device.index(), READS));
        }
    }

    /// A command has succeeded: what waited for commands of its kind goes on.
    #[inline]
    pub(super) fn works(&mut self, device: DeviceId, ask: Ask) {
        if self.outages.failing != 0 {
            self.works_again(device.index(), kind(ask));
        }
    }

    #[cold]
    fn works_again(&mut self, device: usize, kind: usize) {
        if self.outages.failing & bit(device, kind) == 0 {
            return;
        }
        let waiting = self.end_row(device, kind);
        for slot in waiting {
            if let Some(job) = self.jobs[slot as usize].as_mut() {
                job.attempts = 0;
            }
            self.go_on(slot);
        }
    }

    fn end_row(&mut self, device: usize, kind: usize) -> VecDeque<u32> {
        self.outages.failing &= !bit(device, kind);
        self.outages.holding &= !bit(device, kind);
        std::mem::take(&mut self.outages.rows[device][kind]).waiting
    }

    /// The device was given up: what waits for it fails.
    pub(crate) fn end_waiting(&mut self, device: DeviceId) {
        for kind in 0..KINDS {
            let error = self.outages.rows[device.index()][kind].error.clone();
            for slot in self.end_row(device.index(), kind) {
                self.fail_waiting(slot, &error);
            }
        }
    }

    /// Tries what is due, and lets go what has waited for long enough.
    pub(super) fn tick_outages(&mut self) {
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

    /// What waited fails; but a flush, and a hint, get an answer of their own.
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
                    // One failure is enough.
                    job.attempts = ATTEMPTS - 1;
                }
                self.go_on(slot);
            }
            // Nothing is left that could show whether it works.
            None => self.works_again(device, kind),
        }
    }

    /// Reads the first block: if that can be read, it was not the device.
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

    /// When something is due.
    pub(super) fn outages_due(&self) -> Option<Nanos> {
        if self.outages.failing == 0 {
            return None;
        }
        let due = |row: &Row| {
            let since = row.since?;
            let end = since.saturating_add(self.outages.patience).min(self.outages.limit);
            let next = (row.holds && row.trying.is_none()).then_some(row.due);
            if row.holds {
                return [Some(end), next].into_iter().flatten().min();
            }
            // It will have lasted long enough to be reported; then its patience ends.
            [since.saturating_add(BRIEF), row.last.saturating_add(QUIET), end]
                .into_iter()
                .filter(|time| *time > self.now && *time < Nanos::MAX)
                .min()
        };
        self.outages.rows.iter().flatten().filter_map(due).min()
    }
}

impl Job {
    /// Whether it has failed so often that it is to be reported, or made to wait.
    pub(super) fn has_failed_enough(&mut self) -> bool {
        self.attempts = self.attempts.saturating_add(1);
        self.attempts >= ATTEMPTS
    }
}
