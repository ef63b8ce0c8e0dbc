//! A drive as a device model: an engine with device models of its own, whose volume another engine has as a device.
//!
//! What it does between the commands of its host is computed at the next one, as the models of devices do it. So it has events only while a
//! command is in flight, and a simulation ends though its timers never do.

use peryton_device::{Accepted, DeviceStats, Io, PowerState, Tag, WearCounts};
use peryton_engine::{Command, Commands, IoId, Power, Request, RequestId, Stats};
use peryton_units::{Bytes, Nanos, Op};

use crate::{
    machine::{Machine, Volume},
    queue::Completions,
    redundancy::ArrayWrites,
};

/// The most timers in a row that may be due at one moment; more mean that the engine makes no progress.
const MOST_TICKS: u32 = 1_000_000;

/// A drive of one volume in the place of a device.
#[derive(Debug)]
pub(crate) struct NestedDrive {
    machine: Machine,
    commands: Commands,
    completions: Completions,
    /// The engine's id of each command in flight, by its tag on the devices.
    ids: Vec<IoId>,
    /// Number of the host's commands in flight.
    in_flight: u32,
    /// When the first device with a later event has something to do.
    device_event: Nanos,
    /// The host's commands that have ended since it was last told.
    ended: Vec<(Tag, Nanos)>,
    /// Reused.
    finished: Vec<(Tag, Nanos)>,
}

impl NestedDrive {
    /// # Panics
    /// The machine has not exactly one volume.
    pub(crate) fn new(machine: Machine) -> NestedDrive {
        assert_eq!(machine.volumes.len(), 1, "a device is one volume");
        NestedDrive {
            machine,
            commands: Commands::new(),
            completions: Completions::default(),
            ids: Vec::new(),
            in_flight: 0,
            device_event: Nanos::MAX,
            ended: Vec::new(),
            finished: Vec::new(),
        }
    }

    fn volume(&mut self) -> &mut Volume {
        &mut self.machine.volumes[0]
    }

    /// Gives it a command of its host.
    pub(crate) fn submit(&mut self, now: Nanos, tag: Tag, io: Io) -> Accepted {
        self.run(now);
        let request = Request { op: io.op, offset: io.at, len: io.len };
        self.in_flight += 1;
        let NestedDrive { machine, commands, .. } = self;
        machine.volumes[0].engine.submit(now, RequestId(u64::from(tag.0)), request, commands);
        self.carry_out(now);
        Accepted::Queued
    }

    /// When [`NestedDrive::advance`] next has something to do.
    pub(crate) fn next_event(&self) -> Option<Nanos> {
        match self.ended.first() {
            Some((_, at)) => Some(*at),
            None => (self.in_flight > 0).then(|| self.next()),
        }
    }

    /// Does what is due at `now`, and reports the host's commands that have ended.
    pub(crate) fn advance(&mut self, now: Nanos, completed: &mut Vec<(Tag, Nanos)>) {
        self.run(now);
        completed.append(&mut self.ended);
    }

    /// When its next event is, whether the host waits for it or not.
    fn next(&self) -> Nanos {
        self.completions.next().min(self.device_event).min(self.machine.deadline())
    }

    /// Goes through all events up to `now`, those of equal time in the order of the simulator.
    fn run(&mut self, now: Nanos) {
        let (mut last, mut ticks) = (Nanos::ZERO, 0u32);
        loop {
            let next = self.next();
            if next > now {
                return;
            }
            // A timer may be overdue, because timers run only between events.
            let at = next.max(last);
            ticks = if at == last { ticks + 1 } else { 0 };
            assert!(ticks < MOST_TICKS, "an engine inside another makes no progress at {at}");
            last = at;
            self.look_at_devices(at);
            while self.completions.next() <= at {
                let tag = self.completions.pop();
                let io = self.ids[tag.0 as usize];
                let NestedDrive { machine, commands, .. } = self;
                machine.volumes[0].engine.complete(at, io, Ok(()), commands).expect("it is in flight");
                self.carry_out(at);
            }
            if self.machine.deadline() <= at {
                self.tick(at);
            }
        }
    }

    fn look_at_devices(&mut self, now: Nanos) {
        if self.device_event > now {
            return;
        }
        for device in &mut self.machine.devices {
            if device.model.next_event().is_some_and(|at| at <= now) {
                device.model.advance(now, &mut self.finished);
            }
        }
        self.device_event = self.machine.next_device_event();
        for (tag, at) in self.finished.drain(..) {
            self.completions.push(at.max(now), tag);
        }
    }

    fn tick(&mut self, now: Nanos) {
        let NestedDrive { machine, commands, .. } = self;
        machine.volumes[0].engine.tick(now, commands);
        self.carry_out(now);
        if let Some(device) = self.volume().engine.asks_what_was_programmed(now)
            && let Some(bytes) = self.machine.programmed(now, 0, device)
        {
            self.volume().engine.programmed(device, bytes);
        }
        if self.volume().engine.asks_what_was_drawn() {
            let microjoules = self.machine.drawn(now, 0);
            self.volume().engine.drew(microjoules);
        }
    }

    /// Gives the commands of the engine to the devices.
    fn carry_out(&mut self, now: Nanos) {
        for index in 0..self.commands.len() {
            let (io, device, op, at, len) = match self.commands[index] {
                Command::Read { io, device, at, len, .. } => (io, device, Op::Read, at, len),
                Command::Write { io, device, at, len, .. } => (io, device, Op::Write, at, len),
                Command::Reply { id, result } => {
                    result.expect("no device fails in a simulation");
                    self.in_flight -= 1;
                    self.ended.push((Tag(id.0 as u32), now));
                    continue;
                }
                Command::Succeed { .. } => unreachable!("no device is replaced in a simulation"),
                Command::Copy { .. } | Command::Clear { .. } | Command::Encode { .. } => continue,
                Command::Flush { io, device } => (io, device, Op::Flush, Bytes::ZERO, Bytes::ZERO),
                Command::Discard { io, device, at, len } => (io, device, Op::Discard, at, len),
                Command::Zero { io, device, at, len } => {
                    let write = self.machine.zeroes_by_writing(0, device);
                    (io, device, if write { Op::Write } else { Op::Discard }, at, len)
                }
                Command::Power { device, state: Power::Standby } => {
                    self.machine.devices[device.index()].model.set_power(now, PowerState::Standby);
                    self.device_event = self.machine.next_device_event();
                    continue;
                }
            };
            let tag = Tag(io.index() as u32);
            if self.ids.len() <= tag.0 as usize {
                self.ids.resize(tag.0 as usize + 1, io);
            }
            self.ids[tag.0 as usize] = io;
            match self.machine.devices[device.index()].model.submit(now, tag, Io { op, at, len }) {
                Accepted::At(end) => self.completions.push(end, tag),
                Accepted::Queued => self.device_event = self.machine.next_device_event(),
            }
        }
        self.commands.clear();
    }

    /// The statistics of each member of its devices.
    pub(crate) fn stats(&mut self, now: Nanos) -> Vec<DeviceStats> {
        self.run(now);
        self.machine.devices.iter_mut().flat_map(|device| device.model.stats(now)).collect()
    }

    /// The same, for many moments of a run.
    pub(crate) fn counts(&mut self, now: Nanos) -> Vec<DeviceStats> {
        self.run(now);
        self.machine.devices.iter_mut().flat_map(|device| device.model.counts(now)).collect()
    }

    /// What has worn each member, up to the last event.
    pub(crate) fn wear(&self) -> Vec<WearCounts> {
        self.machine.devices.iter().flat_map(|device| device.model.wear()).collect()
    }

    pub(crate) fn settle(&mut self, now: Nanos) {
        self.run(now);
        self.machine.devices.iter_mut().for_each(|device| device.model.settle(now));
    }

    pub(crate) fn reset_stats(&mut self, now: Nanos) {
        self.run(now);
        self.volume().engine.reset_stats();
        self.machine.devices.iter_mut().for_each(|device| device.model.reset_stats(now));
    }

    /// What redundancy made of the writes to each of its devices.
    pub(crate) fn array_writes(&self) -> Vec<Option<ArrayWrites>> {
        self.machine.array_writes()
    }

    /// The statistics of its engine, and of the drives inside it.
    pub(crate) fn drives(&self) -> Vec<Stats> {
        let mine = self.machine.volumes[0].engine.stats().clone();
        std::iter::once(mine).chain(self.machine.drives()).collect()
    }

    /// Number of members of its devices.
    pub(crate) fn members(&self) -> usize {
        self.machine.members()
    }
}
