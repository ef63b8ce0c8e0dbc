//! What the two devices say that they have programmed, so that what they can still be written is known.

use peryton_units::{Bytes, Nanos};

use crate::command::DeviceId;

/// One of the two devices is asked in each such time, in turn.
const EVERY: Nanos = Nanos::from_s(5);

/// Bytes programmed for bytes written, by device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Programs {
    /// One for each device that has said something; there are two at most.
    told: Vec<(DeviceId, Bytes, Bytes)>,
    asked: Option<Nanos>,
    turn: usize,
}

impl Programs {
    /// Which of the two to ask now, if either.
    pub(crate) fn asks(&mut self, now: Nanos, devices: [DeviceId; 2]) -> Option<DeviceId> {
        if self.asked.is_some_and(|asked| now.saturating_sub(asked) < EVERY) {
            return None;
        }
        self.asked = Some(now);
        self.turn = 1 - self.turn;
        Some(devices[self.turn])
    }

    /// A device has programmed so much for so much that was written to it.
    pub(crate) fn told(&mut self, device: DeviceId, programmed: Bytes, written: Bytes) {
        match self.told.iter_mut().find(|told| told.0 == device) {
            Some(told) => (told.1, told.2) = (programmed, written),
            None => self.told.push((device, programmed, written)),
        }
    }

    /// What can still be written to a device into which `limit` can be programmed, after `written`: at the least as much is
    /// programmed as is written, and as much more as it has said.
    pub(crate) fn left(&self, device: DeviceId, limit: Bytes, written: u64) -> Bytes {
        let told = self.told.iter().find(|told| told.0 == device && told.2 > Bytes::ZERO);
        let amplification = told.map_or(1.0, |told| told.1.0 as f64 / told.2.0 as f64).max(1.0);
        Bytes((limit.0 as f64 / amplification) as u64).saturating_sub(Bytes(written))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_a_device_programs_the_less_it_can_be_written() {
        let (fast, slow) = (DeviceId(0), DeviceId(1));
        let mut programs = Programs::default();
        assert_eq!(programs.left(fast, Bytes(1000), 100), Bytes(900));
        programs.told(fast, Bytes(400), Bytes(100));
        assert_eq!(programs.left(fast, Bytes(1000), 100), Bytes(150));
        assert_eq!(programs.left(slow, Bytes(1000), 100), Bytes(900));
        assert_eq!(programs.left(fast, Bytes(300), 100), Bytes::ZERO, "it is worn out");
        let asked: Vec<_> = (0..4).map(|second| programs.asks(Nanos::from_s(3 * second), [fast, slow])).collect();
        assert_eq!(asked, [Some(slow), None, Some(fast), None]);
    }
}
