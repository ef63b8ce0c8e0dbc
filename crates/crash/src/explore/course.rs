//! One course of events on the drive, and what a correct disk may answer.

use peryton_engine::{Command, DeviceId, OpenError, Request, RequestError};
use peryton_units::{Bytes, Nanos, Op};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;

use crate::{
    disk::{SECTOR, Tag},
    drive::Drive,
    driver::Asked,
    explore::{
        cases::{Case, New},
        state,
    },
    model::Model,
};

/// The tags of writes begin here, above those of what was on the devices before they were formatted.
const FIRST_TAG: Tag = 1 << 24;
/// How long a device takes before the search begins, so that the drive knows which one is slow.
const TAKES: [Nanos; 2] = [Nanos::from_ms(1), Nanos::from_ms(8)];
/// What is read at once where the whole volume is looked at: a block.
const READ: usize = 8;
/// More turns than these no start takes.
const MOST_TURNS: usize = 1_000;

/// Something that happens at some time, in the order of the case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Happening {
    /// A request of the host: sectors from this one on, and how many.
    Asks(Op, u32, u32),
    /// Everything dirty is to be written back.
    Cleans,
    /// The host says that it does not need these sectors soon: from this one on, and how many.
    Evicts(u32, u32),
    /// From now on every command of the device fails.
    Dies(u8),
    /// The driver says so.
    IsReportedDead(u8),
}

/// A step from one state to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The case's next event.
    Happens,
    /// The command under way at this place completes, or fails.
    Completes(usize),
    Fails(usize),
    /// Nothing is under way, and the time comes for which the drive waits.
    Waits,
}

pub(super) struct Course<'a> {
    case: &'a Case,
    pub(super) drive: Drive,
    pub(super) model: Model,
    rng: Pcg64Mcg,
    /// Events that have happened.
    happened: usize,
    /// Failures that may still happen.
    failures: u32,
    /// Whether a device has died, or a command has failed.
    faulty: bool,
    /// The time of a failed flush that lost data of which the host has not been notified.
    lost_at: Option<u32>,
    flush_from: u32,
    /// Whether it was looked at in a way that changes it.
    pub(super) is_over: bool,
}

impl<'a> Course<'a> {
    /// A drive as the case finds it.
    pub(super) fn start(case: &'a Case, new: &New) -> Result<Course<'a>, String> {
        let opened = Drive::open(&case.config, new.disks.clone(), &[], None);
        let (mut drive, _) = opened.map_err(|(error, _)| format!("a new volume: {error}"))?;
        drive.most_latency = Nanos::ZERO;
        drive.keep_in_memory();
        let mut course = Course {
            case,
            drive,
            model: Model::new(new.content.iter().copied(), FIRST_TAG),
            rng: Pcg64Mcg::seed_from_u64(0),
            happened: 0,
            failures: case.failures,
            faulty: false,
            lost_at: None,
            flush_from: 0,
            is_over: false,
        };
        for happening in &case.before {
            course.happen(*happening);
            course.settle()?;
        }
        Ok(course)
    }

    /// Completes everything, the oldest command first, and lets time pass as devices take it.
    fn settle(&mut self) -> Result<(), String> {
        for _ in 0..MOST_TURNS {
            match self.drive.pending.first() {
                Some(pending) => {
                    self.drive.now += TAKES[pending.device().index().min(1)];
                    self.drive.complete_at(0, false, &mut self.rng);
                }
                None if self.drive.requests.is_empty() && self.drive.engine.is_idle() => return Ok(()),
                None => self.wait(),
            }
            self.answers()?;
        }
        Err(format!(
            "{} requests are never answered; the engine is idle: {}",
            self.drive.requests.len(),
            self.drive.engine.is_idle()
        ))
    }

    /// Lets time pass until the drive has something to do.
    fn wait(&mut self) {
        let until = self.drive.engine.deadline().unwrap_or(self.drive.now + Nanos::from_ms(500));
        self.drive.tick(until.saturating_sub(self.drive.now));
    }

    /// What may happen next. Of commands that are alike each is tried.
    pub(super) fn steps(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        let is_done = self.drive.requests.is_empty() && self.drive.engine.is_idle();
        let all_happened = self.happened == self.case.events.len();
        if all_happened && self.case.ends_early && self.drive.requests.is_empty() {
            return steps;
        }
        if all_happened && self.drive.pending.is_empty() && !is_done {
            steps.push(Step::Waits);
        }
        for index in 0..self.drive.pending.len() {
            if self.failures > 0 {
                steps.push(Step::Fails(index));
            }
            // The success of a flush is reported after those that were issued before it.
            if !self.has_older_flush(index) {
                steps.push(Step::Completes(index));
            }
        }
        if !all_happened {
            steps.push(Step::Happens);
        }
        steps
    }

    fn has_older_flush(&self, index: usize) -> bool {
        let Command::Flush { device, .. } = self.drive.pending[index].command else { return false };
        self.drive.pending[..index]
            .iter()
            .any(|other| matches!(other.command, Command::Flush { device: of, .. } if of == device))
    }

    pub(super) fn tell(&self, step: Step) -> String {
        let command = |index: usize| {
            let text = format!("{:?}", self.drive.pending[index].command);
            text.replace("DeviceId", "dev").replace("IoId", "").replace("Bytes", "").replace("RequestId", "")
        };
        match step {
            Step::Happens => format!("{:?}", self.case.events[self.happened]),
            Step::Completes(index) => format!("    done: {}", command(index)),
            Step::Fails(index) => format!("    FAILS: {}", command(index)),
            Step::Waits => "    time passes".to_owned(),
        }
    }

    pub(super) fn take(&mut self, step: Step) -> Result<(), String> {
        self.rng = Pcg64Mcg::seed_from_u64(0);
        match step {
            Step::Happens => {
                let happening = self.case.events[self.happened];
                self.happened += 1;
                self.happen(happening);
            }
            Step::Completes(index) => {
                self.drive.complete_at(index, false, &mut self.rng);
            }
            Step::Fails(index) => {
                self.failures -= 1;
                self.faulty = true;
                self.drive.complete_at(index, true, &mut self.rng);
            }
            Step::Waits => self.wait(),
        }
        self.answers()
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Asks(op, first, count) => self.ask(op, first as usize, count as usize),
            Happening::Cleans => self.drive.call(|engine, now, out| engine.write_all_back(now, out)),
            Happening::Evicts(first, count) => {
                let at = |sector: u32| Bytes(u64::from(sector) * SECTOR);
                self.drive.call(|engine, now, out| engine.host_dropped(now, at(first)..at(first + count), out));
            }
            Happening::Dies(device) => {
                self.faulty = true;
                self.drive.disks[usize::from(device)].dead = true;
            }
            Happening::IsReportedDead(device) => {
                self.faulty = true;
                self.drive.disks[usize::from(device)].dead = true;
                self.drive.device_failed(DeviceId(device));
            }
        }
    }

    fn ask(&mut self, op: Op, first: usize, count: usize) {
        let range = first..first + count;
        let from = self.model.tick();
        let data = match op {
            Op::Write => self.model.new_tags(range.clone()),
            Op::Read => vec![Tag::MAX; count],
            Op::Discard | Op::Flush => vec![0; count],
        };
        if matches!(op, Op::Write | Op::Discard) {
            self.model.begin(range, &data, from, self.drive.oldest_read());
        }
        if op == Op::Flush && self.lost_at.is_some() && self.drive.engine.is_in_doubt() {
            self.flush_from = from;
        }
        let request = Request { op, offset: Bytes(first as u64 * SECTOR), len: Bytes(count as u64 * SECTOR) };
        self.drive.submit(request, from, data);
    }

    fn answers(&mut self) -> Result<(), String> {
        if std::mem::take(&mut self.drive.flush_failed) {
            self.drive.flush_lost = false;
            self.lost_at = Some(self.model.flush_failed());
            self.doubt();
        }
        let answered = std::mem::take(&mut self.drive.answered);
        let lost_at = self.lost_at;
        let early = |asked: &Asked<Tag>| asked.request.op == Op::Flush && lost_at.is_some_and(|at| asked.from <= at);
        let mut flushes = answered.iter().filter(|(_, asked, _)| early(asked)).count();
        for (_, asked, result) in answered {
            flushes -= usize::from(early(&asked));
            self.model.tick();
            let range = Drive::span(&asked.request);
            if let Err(error) = result
                && !self.may_be(error)
            {
                return Err(format!("{:?} of {range:?} failed though nothing else did: {error}", asked.request.op));
            }
            match asked.request.op {
                Op::Read if result.is_ok() => self.model.read(range, &asked.data, asked.from)?,
                Op::Read => {}
                Op::Write => self.model.end(range, &asked.data, asked.from, result.is_ok()),
                Op::Discard => self.model.end(range, &asked.data, asked.from, false),
                Op::Flush if result.is_ok() => self.model.flushed(asked.from),
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

    fn may_be(&self, error: RequestError) -> bool {
        self.faulty && matches!(error, RequestError::Device | RequestError::Lost | RequestError::NoSpace)
    }

    /// As [`World::doubt`](crate::world::World).
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

    fn flush_waits(&self) -> bool {
        let lost_at = self.lost_at.unwrap_or(0);
        self.drive.requests.values().any(|asked| asked.request.op == Op::Flush && asked.from <= lost_at)
    }

    /// What tells this state from others.
    pub(super) fn state(&self) -> u64 {
        let counts = (self.happened, self.failures, self.faulty, self.lost_at.is_some());
        state::of(&self.drive, &self.model, &counts)
    }

    pub(super) fn check(&self) -> Result<(), String> {
        self.drive.engine.check_invariants();
        self.drive.copies_agree()
    }

    /// Checks what a power loss or the death of the process would leave; `seed` decides which, and what is lost.
    pub(super) fn crash(&self, seed: u64) -> Result<(), String> {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let dead: Vec<DeviceId> = (0..self.drive.disks.len() as u8)
            .map(DeviceId)
            .filter(|device| self.drive.disks[device.index()].dead || self.drive.engine.is_gone(*device))
            .collect();
        let process_dies = seed & 1 == 1 && dead.is_empty() && !self.faulty;
        let (mut disks, memory) = match process_dies {
            true => (self.drive.disks_after_process_death(&mut rng), self.drive.memory.as_ref()),
            false => (self.drive.disks_after_crash(&mut rng), None),
        };
        dead.iter().for_each(|device| disks[device.index()].dead = true);
        let opened = Drive::open(&self.case.config, disks, &dead, memory);
        let mut drive = match opened {
            Ok((drive, _)) => drive,
            // Two devices may have died, or one that has everything.
            Err((OpenError::NothingLeft { .. }, _)) if !dead.is_empty() => return Ok(()),
            Err((error, _)) => return Err(format!("after a crash the volume cannot be opened: {error}")),
        };
        drive.most_latency = Nanos::ZERO;
        drive.copies_agree()?;
        let kind = if process_dies { "the death of the process" } else { "a power loss" };
        for first in (0..self.model.sectors()).step_by(READ) {
            match drive.read_now(first..first + READ, &mut rng) {
                Ok(data) => {
                    for (sector, tag) in (first..).zip(data) {
                        let survives = self.model.survives(sector, tag, process_dies);
                        survives.map_err(|error| format!("after {kind} {error}"))?;
                    }
                }
                Err(error) if self.faulty && matches!(error, RequestError::Lost | RequestError::Device) => {}
                Err(error) => return Err(format!("after {kind} sector {first} cannot be read: {error}")),
            }
        }
        Ok(())
    }

    /// Nothing more happens: everything was answered, and the volume holds what it should.
    pub(super) fn end(&mut self) -> Result<(), String> {
        self.is_over = true;
        for first in (0..self.model.sectors()).step_by(READ) {
            self.ask(Op::Read, first, READ);
            self.settle()?;
        }
        Ok(())
    }
}
