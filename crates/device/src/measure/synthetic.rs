//! A model as a device to be measured: its clock is the model's, so that a measurement of it takes no time.

use peryton_units::Nanos;

use super::Subject;
use crate::{Accepted, Device, Io, Tag};

/// A model that is measured like a drive.
#[derive(Debug)]
pub struct Synthetic {
    device: Device,
    now: Nanos,
    /// Ends that the model has said already, with their slots.
    known: Vec<(Nanos, u32)>,
    queued: usize,
    ended: Vec<(Tag, Nanos)>,
}

impl Synthetic {
    /// Measures this model.
    pub fn new(device: Device) -> Synthetic {
        Synthetic { device, now: Nanos::ZERO, known: Vec::new(), queued: 0, ended: Vec::new() }
    }
}

impl Subject for Synthetic {
    fn now(&mut self) -> Nanos {
        self.now
    }

    fn begin(&mut self, slot: u32, io: Io) -> Result<(), String> {
        match self.device.submit(self.now, Tag(slot), io) {
            Accepted::At(end) => self.known.push((end, slot)),
            Accepted::Queued => self.queued += 1,
        }
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<(u32, Nanos)>) -> Result<(), String> {
        loop {
            let known = self.known.iter().map(|&(end, _)| end).min();
            let event = if self.queued > 0 { self.device.next_event() } else { None };
            let next = [known, event].into_iter().flatten().min();
            let Some(next) = next else { return Err("the model ends nothing".to_owned()) };
            self.now = self.now.max(next);
            if event == Some(next) {
                self.device.advance(next, &mut self.ended);
                self.queued -= self.ended.len();
                self.known.extend(self.ended.drain(..).map(|(tag, end)| (end, tag.0)));
            }
            let now = self.now;
            self.known.retain(|&(end, slot)| {
                if end <= now {
                    done.push((slot, now));
                }
                end > now
            });
            if !done.is_empty() {
                return Ok(());
            }
        }
    }

    fn rest(&mut self, time: Nanos) {
        self.now += time;
    }
}
