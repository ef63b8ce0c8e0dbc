//! Faults on demand, for tests and drills: commands that fail, and commands that are delayed.

use std::collections::VecDeque;

use peryton_engine::DeviceId;
use peryton_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::backend::{Action, Operation};

/// The most faults in force at once.
pub(crate) const MOST_FAULTS: usize = 64;
/// The longest delay of a command, in microseconds.
pub(crate) const LONGEST_LAG_US: u64 = 60_000_000;

/// A rule: which commands of a device it affects, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The index of the device in the design.
    pub device: u8,
    /// Affects only reads, only writes, or only flushes; all if absent. Discards count as writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Only>,
    /// Affects only commands that touch bytes from here on.
    #[serde(default)]
    pub from: u64,
    /// Affects only commands that touch bytes before this.
    #[serde(default = "everywhere")]
    pub to: u64,
    /// How many commands it affects; no limit if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// The effect on a command.
    #[serde(flatten)]
    pub effect: Effect,
}

fn everywhere() -> u64 {
    u64::MAX
}

/// Kinds of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Only {
    /// Reads.
    Reads,
    /// Writes, discards and zeroing.
    Writes,
    /// Flushes.
    Flushes,
}

/// The effects of a fault on a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "effect")]
pub enum Effect {
    /// The command fails, and no part of it is carried out.
    Fail,
    /// The command fails as if the device had been unplugged.
    Gone,
    /// The command fails with an error that may pass, like that of a path that fails over or an enclosure that is reset.
    /// Commands wait for the device to come back, for as long as the volume's patience lasts.
    Outage,
    /// The command fails for lack of space, as on a file system that is full. Commands wait as well.
    Full,
    /// The command starts later.
    Lag {
        /// The delay in microseconds.
        lag_us: u64,
    },
}

/// The faults in force, and the commands that they delay.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<Fault>,
    /// Devices that are absent, one bit each.
    absent: u32,
    /// Delayed commands: the time at which each continues, and its slot.
    held: VecDeque<(Nanos, u32)>,
}

impl Faults {
    /// Adds a fault; returns `false` if there are too many.
    pub(crate) fn add(&mut self, fault: Fault) -> bool {
        let room = self.rules.len() < MOST_FAULTS;
        if room {
            self.rules.push(fault);
        }
        room
    }

    /// Marks a device as absent, whatever the faults say.
    pub(crate) fn leave_out(&mut self, device: usize) {
        self.absent |= 1 << device;
    }

    /// Whether a device is absent from now on.
    pub(super) fn set_absent(&mut self, device: usize, is: bool) {
        self.absent = self.absent & !(1 << device) | u32::from(is) << device;
    }

    /// Ends all faults; the commands that they delay are due.
    pub(super) fn clear(&mut self) {
        self.rules.clear();
        self.release();
    }

    /// Ends all delays; the delayed commands are due.
    pub(super) fn end_lags(&mut self) {
        self.rules.retain(|rule| !matches!(rule.effect, Effect::Lag { .. }));
        self.release();
    }

    fn release(&mut self) {
        self.held.iter_mut().for_each(|(due, _)| *due = Nanos::ZERO);
    }

    /// Ends the faults of a device that is not part of the volume any more.
    pub(super) fn forget(&mut self, device: DeviceId) {
        self.rules.retain(|rule| usize::from(rule.device) != device.index());
    }

    pub(crate) fn rules(&self) -> &[Fault] {
        &self.rules
    }

    /// The effect on this operation: that of the first fault that matches it.
    #[inline]
    pub(super) fn effect(&mut self, operation: &Operation) -> Option<Effect> {
        if self.rules.is_empty() && self.absent == 0 {
            return None;
        }
        if self.absent >> operation.device.index() & 1 == 1 {
            return Some(Effect::Gone);
        }
        self.first(|rule| rule.errno().is_none() && rule.meets(operation)).map(|rule| rule.effect)
    }

    /// The first of these rules, which has its effect once less from now on.
    fn first(&mut self, is_one: impl Fn(&Fault) -> bool) -> Option<Fault> {
        let index = self.rules.iter().position(is_one)?;
        let rule = self.rules[index].clone();
        if let Some(times) = &mut self.rules[index].times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.rules.remove(index);
            }
        }
        Some(rule)
    }

    /// Whether a fault is in force that answers in place of the kernel.
    #[inline]
    pub(super) fn refuses(&self) -> bool {
        !self.rules.is_empty() && self.rules.iter().any(|rule| rule.errno().is_some())
    }

    /// The error that the kernel would return for this operation in the situation that the rules describe.
    #[cold]
    pub(super) fn refusal(&mut self, operation: &Operation) -> Option<i32> {
        self.first(|rule| rule.errno().is_some() && rule.meets(operation))?.errno()
    }

    pub(super) fn hold(&mut self, slot: u32, until: Nanos) {
        let index = self.held.partition_point(|(due, _)| *due <= until);
        self.held.insert(index, (until, slot));
    }

    pub(super) fn due(&mut self, now: Nanos) -> Option<u32> {
        (self.next_due()? <= now).then(|| self.held.pop_front().expect("it was just seen").1)
    }

    pub(super) fn next_due(&self) -> Option<Nanos> {
        self.held.front().map(|(due, _)| *due)
    }
}

impl Fault {
    /// The error of an effect that answers in place of the kernel.
    fn errno(&self) -> Option<i32> {
        match self.effect {
            Effect::Outage => Some(libc::EIO),
            Effect::Full => Some(libc::ENOSPC),
            Effect::Fail | Effect::Gone | Effect::Lag { .. } => None,
        }
    }

    fn meets(&self, operation: &Operation) -> bool {
        let kind = match operation.action {
            Action::Read => Only::Reads,
            Action::Write | Action::Discard | Action::Zero | Action::ZeroAllocated => Only::Writes,
            Action::Flush => Only::Flushes,
        };
        let touches = operation.action == Action::Flush
            || operation.at < self.to && operation.at.saturating_add(operation.len) > self.from;
        // Only writes need space.
        let takes_space = matches!(operation.action, Action::Write | Action::ZeroAllocated);
        if self.effect == Effect::Full && !takes_space {
            return false;
        }
        usize::from(self.device) == operation.device.index() && self.only.is_none_or(|only| only == kind) && touches
    }
}
