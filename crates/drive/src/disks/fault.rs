//! Faults on demand, for tests and drills: commands that fail, and commands that take long.

use std::collections::VecDeque;

use peryton_units::Nanos;
use serde::{Deserialize, Serialize};

use crate::backend::{Action, Operation};

/// How many faults can be in force at once.
pub(crate) const MOST_FAULTS: usize = 64;
/// The longest that a command can be held back.
pub(crate) const LONGEST_LAG_US: u64 = 60_000_000;

/// Which commands of a device go wrong, and how.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// The device, by its place in the design.
    pub device: u8,
    /// Only reads, writes, or flushes; all where absent. Discards count as writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub only: Option<Only>,
    /// Only commands that touch bytes from here on.
    #[serde(default)]
    pub from: u64,
    /// Only commands that touch bytes before this.
    #[serde(default = "everywhere")]
    pub to: u64,
    /// How many commands it is in force for; without end where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// What happens.
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

/// What happens to a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "effect")]
pub enum Effect {
    /// It fails, and nothing of it is done.
    Fail,
    /// It fails as if the device had been unplugged.
    Gone,
    /// It begins later.
    Lag {
        /// By so many microseconds.
        lag_us: u64,
    },
}

/// The faults in force, and the commands that they hold back.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    rules: Vec<Fault>,
    /// Devices that are not there, a bit each.
    absent: u32,
    /// Slots by the time at which they go on.
    held: VecDeque<(Nanos, u32)>,
}

impl Faults {
    /// Adds one; `false` if there are too many.
    pub(crate) fn add(&mut self, fault: Fault) -> bool {
        let room = self.rules.len() < MOST_FAULTS;
        if room {
            self.rules.push(fault);
        }
        room
    }

    /// The device is not there, whatever happens.
    pub(crate) fn leave_out(&mut self, device: usize) {
        self.absent |= 1 << device;
    }

    /// Ends all; what they hold back is due.
    pub(super) fn clear(&mut self) {
        self.rules.clear();
        self.release();
    }

    /// Ends those that make commands lag; what they hold back is due.
    pub(super) fn end_lags(&mut self) {
        self.rules.retain(|rule| !matches!(rule.effect, Effect::Lag { .. }));
        self.release();
    }

    fn release(&mut self) {
        self.held.iter_mut().for_each(|(due, _)| *due = Nanos::ZERO);
    }

    pub(crate) fn rules(&self) -> &[Fault] {
        &self.rules
    }

    /// What befalls this operation: the first rule that it meets.
    #[inline]
    pub(super) fn effect(&mut self, operation: &Operation) -> Option<Effect> {
        if self.rules.is_empty() && self.absent == 0 {
            return None;
        }
        if self.absent >> operation.device.index() & 1 == 1 {
            return Some(Effect::Gone);
        }
        let index = self.rules.iter().position(|rule| rule.meets(operation))?;
        let rule = &mut self.rules[index];
        let effect = rule.effect;
        if let Some(times) = &mut rule.times {
            *times = times.saturating_sub(1);
            if *times == 0 {
                self.rules.remove(index);
            }
        }
        Some(effect)
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
    fn meets(&self, operation: &Operation) -> bool {
        let kind = match operation.action {
            Action::Read => Only::Reads,
            Action::Write | Action::Discard | Action::Zero => Only::Writes,
            Action::Flush => Only::Flushes,
        };
        let touches = operation.action == Action::Flush
            || operation.at < self.to && operation.at.saturating_add(operation.len) > self.from;
        usize::from(self.device) == operation.device.index() && self.only.is_none_or(|only| only == kind) && touches
    }
}
