//! The members of an array, and when each next has something to do: of hundreds, few do at a time.

use std::{collections::BTreeSet, ops::Range};

use peryton_device::{Accepted, Device, DeviceStats, Io, PowerState, Tag, WearCounts};
use peryton_units::Nanos;

use crate::nested::NestedDrive;

/// A member of an array.
#[derive(Debug)]
pub(crate) enum Member {
    /// The model of a device.
    Model(Device),
    /// A drive in the place of a device.
    Drive(Box<NestedDrive>),
}

macro_rules! each {
    ($member:expr, $model:ident => $body:expr) => {
        match $member {
            Member::Model($model) => $body,
            Member::Drive($model) => $body,
        }
    };
}

impl Member {
    #[inline(always)]
    pub fn submit(&mut self, now: Nanos, tag: Tag, io: Io) -> Accepted {
        each!(self, model => model.submit(now, tag, io))
    }

    #[inline]
    pub fn next_event(&self) -> Option<Nanos> {
        each!(self, model => model.next_event())
    }

    #[inline]
    pub fn advance(&mut self, now: Nanos, completed: &mut Vec<(Tag, Nanos)>) {
        each!(self, model => model.advance(now, completed))
    }

    /// Asks for a power state. A drive puts its devices to standby by its own design.
    pub fn set_power(&mut self, now: Nanos, state: PowerState) {
        if let Member::Model(model) = self {
            model.set_power(now, state);
        }
    }

    /// The statistics of the device, or of each of a drive's.
    pub fn stats(&mut self, now: Nanos) -> Vec<DeviceStats> {
        match self {
            Member::Model(model) => vec![model.stats(now)],
            Member::Drive(drive) => drive.stats(now),
        }
    }

    pub fn counts(&mut self, now: Nanos) -> Vec<DeviceStats> {
        match self {
            Member::Model(model) => vec![model.counts(now)],
            Member::Drive(drive) => drive.counts(now),
        }
    }

    pub fn wear(&self) -> Vec<WearCounts> {
        match self {
            Member::Model(model) => vec![model.wear()],
            Member::Drive(drive) => drive.wear(),
        }
    }

    pub fn settle(&mut self, now: Nanos) {
        each!(self, model => model.settle(now));
    }

    pub fn reset_stats(&mut self, now: Nanos) {
        each!(self, model => model.reset_stats(now));
    }

    /// The drive, if it is one.
    pub fn drive(&self) -> Option<&NestedDrive> {
        if let Member::Drive(drive) = self { Some(drive) } else { None }
    }
}

/// Devices, of which only those with something to do are looked at.
#[derive(Debug)]
pub(crate) struct Members {
    devices: Vec<Member>,
    events: Events,
}

#[derive(Debug)]
struct Events {
    /// The next event of each member.
    of: Vec<Option<Nanos>>,
    /// The same by time, with the member's number.
    due: BTreeSet<(Nanos, usize)>,
}

impl Events {
    #[inline]
    fn note(&mut self, member: usize, next: Option<Nanos>) {
        let before = std::mem::replace(&mut self.of[member], next);
        if before == next {
            return;
        }
        if let Some(at) = before {
            self.due.remove(&(at, member));
        }
        if let Some(at) = next {
            self.due.insert((at, member));
        }
    }
}

impl Members {
    pub fn new(devices: Vec<Member>) -> Members {
        let events = Events { of: vec![None; devices.len()], due: BTreeSet::new() };
        let mut members = Members { devices, events };
        members.each(|_| {}).for_each(drop);
        members
    }

    /// The only member, where there is one.
    #[inline]
    pub fn only(&self) -> Option<&Member> {
        if let [only] = &self.devices[..] { Some(only) } else { None }
    }

    /// The only member, which is then not looked at through the others' functions.
    #[inline]
    pub fn only_mut(&mut self) -> Option<&mut Member> {
        if let [only] = &mut self.devices[..] { Some(only) } else { None }
    }

    pub fn count(&self) -> usize {
        self.devices.len()
    }

    pub fn numbers(&self) -> Range<usize> {
        0..self.devices.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Member> {
        self.devices.iter()
    }

    pub fn submit(&mut self, member: usize, now: Nanos, tag: Tag, io: Io) -> Accepted {
        let device = &mut self.devices[member];
        let accepted = device.submit(now, tag, io);
        self.events.note(member, device.next_event());
        accepted
    }

    /// When a member next has something to do.
    pub fn next_event(&self) -> Option<Nanos> {
        self.events.due.first().map(|(at, _)| *at)
    }

    /// Does what is due at `now`, by member.
    pub fn advance(&mut self, now: Nanos, completed: &mut Vec<(Tag, Nanos)>) {
        let mut due: Vec<usize> = self.events.due.range(..=(now, usize::MAX)).map(|(_, member)| *member).collect();
        due.sort_unstable();
        for member in due {
            let device = &mut self.devices[member];
            device.advance(now, completed);
            self.events.note(member, device.next_event());
        }
    }

    /// Does something with each member.
    pub fn each<T>(&mut self, mut one: impl FnMut(&mut Member) -> T) -> impl Iterator<Item = T> {
        let Members { devices, events } = self;
        devices.iter_mut().enumerate().map(move |(number, device)| {
            let found = one(device);
            events.note(number, device.next_event());
            found
        })
    }
}
