//! The members of an array, and when each next has something to do: of hundreds, few do at a time.

use std::{collections::BTreeSet, ops::Range};

use peryton_device::{Accepted, Device, Io, Tag};
use peryton_units::Nanos;

/// Devices, of which only those with something to do are looked at.
#[derive(Clone, Debug)]
pub(crate) struct Members {
    devices: Vec<Device>,
    events: Events,
}

#[derive(Clone, Debug)]
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
    pub fn new(devices: Vec<Device>) -> Members {
        let events = Events { of: vec![None; devices.len()], due: BTreeSet::new() };
        let mut members = Members { devices, events };
        members.each(|_| {}).for_each(drop);
        members
    }

    /// The only member, where there is one.
    #[inline]
    pub fn only(&self) -> Option<&Device> {
        if let [only] = &self.devices[..] { Some(only) } else { None }
    }

    /// The only member, which is then not looked at through the others' functions.
    #[inline]
    pub fn only_mut(&mut self) -> Option<&mut Device> {
        if let [only] = &mut self.devices[..] { Some(only) } else { None }
    }

    pub fn count(&self) -> usize {
        self.devices.len()
    }

    pub fn numbers(&self) -> Range<usize> {
        0..self.devices.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Device> {
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
    pub fn each<T>(&mut self, mut one: impl FnMut(&mut Device) -> T) -> impl Iterator<Item = T> {
        let Members { devices, events } = self;
        devices.iter_mut().enumerate().map(move |(number, device)| {
            let found = one(device);
            events.note(number, device.next_event());
            found
        })
    }
}
