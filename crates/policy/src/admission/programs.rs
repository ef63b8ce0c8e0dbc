//! What the two devices report that they have programmed, so that what they can still be written is known.

use peryton_units::{Bytes, Nanos};

/// One of the two devices is asked in each such time, in turn.
const EVERY: Nanos = Nanos::from_s(5);

/// What one device has reported.
#[derive(Clone, Copy, Debug)]
struct Report {
    device: usize,
    programmed: Bytes,
    written: Bytes,
}

/// Bytes programmed for bytes written, by device.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    /// The latest of each device that has reported something; there are two at most.
    reports: Vec<Report>,
    asked: Option<Nanos>,
    turn: usize,
}

impl Programs {
    /// Which of the two to ask now, if either.
    pub(super) fn asks(&mut self, now: Nanos) -> Option<usize> {
        if self.asked.is_some_and(|asked| now.saturating_sub(asked) < EVERY) {
            return None;
        }
        self.asked = Some(now);
        self.turn = 1 - self.turn;
        Some(self.turn)
    }

    /// A device has programmed so much for so much that was written to it.
    pub(super) fn report(&mut self, device: usize, programmed: Bytes, written: Bytes) {
        let report = Report { device, programmed, written };
        match self.reports.iter_mut().find(|report| report.device == device) {
            Some(known) => *known = report,
            None => self.reports.push(report),
        }
    }

    /// What can still be written to a device into which `limit` can be programmed, after `written`: at the least as much is
    /// programmed as is written, and as much more as it has reported.
    pub(super) fn left(&self, device: usize, limit: Bytes, written: Bytes) -> Bytes {
        let report = self.reports.iter().find(|report| report.device == device && report.written > Bytes::ZERO);
        let amplification = report.map_or(1.0, |report| report.programmed.0 as f64 / report.written.0 as f64).max(1.0);
        Bytes((limit.0 as f64 / amplification) as u64).saturating_sub(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_a_device_programs_the_less_it_can_be_written() {
        let (fast, slow) = (0, 1);
        let mut programs = Programs::default();
        assert_eq!(programs.left(fast, Bytes(1000), Bytes(100)), Bytes(900));
        programs.report(fast, Bytes(400), Bytes(100));
        assert_eq!(programs.left(fast, Bytes(1000), Bytes(100)), Bytes(150));
        assert_eq!(programs.left(slow, Bytes(1000), Bytes(100)), Bytes(900));
        assert_eq!(programs.left(fast, Bytes(300), Bytes(100)), Bytes::ZERO, "it is worn out");
        let asked: Vec<_> = (0..4).map(|second| programs.asks(Nanos::from_s(3 * second))).collect();
        assert_eq!(asked, [Some(slow), None, Some(fast), None]);
    }
}
