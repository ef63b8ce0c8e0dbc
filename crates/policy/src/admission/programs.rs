//! The programmed bytes that the two devices report, from which their remaining life is computed.

use peryton_units::{Bytes, Nanos};

/// One of the two devices is asked in each such interval, in turn.
const EVERY: Nanos = Nanos::from_s(5);

/// The report of a device.
#[derive(Clone, Copy, Debug)]
struct Report {
    device: usize,
    programmed: Bytes,
    written: Bytes,
}

/// Bytes programmed for bytes written, for each device.
#[derive(Clone, Debug, Default)]
pub(super) struct Programs {
    /// The latest report of each device that has reported; there are at most two.
    reports: Vec<Report>,
    asked: Option<Nanos>,
    turn: usize,
}

impl Programs {
    /// Which of the two devices to ask now, if either.
    pub(super) fn asks(&mut self, now: Nanos) -> Option<usize> {
        if self.asked.is_some_and(|asked| now.saturating_sub(asked) < EVERY) {
            return None;
        }
        self.asked = Some(now);
        self.turn = 1 - self.turn;
        Some(self.turn)
    }

    /// Records a report: `programmed` bytes for `written` bytes.
    pub(super) fn report(&mut self, device: usize, programmed: Bytes, written: Bytes) {
        let report = Report { device, programmed, written };
        match self.reports.iter_mut().find(|report| report.device == device) {
            Some(known) => *known = report,
            None => self.reports.push(report),
        }
    }

    /// How much can still be written to a device, after `written`, if `limit` can be programmed into it. At least as
    /// much is programmed as is written, and more if the device has reported that.
    pub(super) fn left(&self, device: usize, limit: Bytes, written: Bytes) -> Bytes {
        let report = self.reports.iter().find(|report| report.device == device && report.written > Bytes::ZERO);
        let amplification = report.map_or(1.0, |report| report.programmed.0 as f64 / report.written.0 as f64).max(1.0);
        Bytes((limit.0 as f64 / amplification) as u64).saturating_sub(written)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Adaptive, Admission, AdmitBy, Gate, Objective, Threshold};

    /// A gate before a cache (device 0) that is rated for 1,000 bytes, and into which `programmable` can be programmed.
    fn gate(programmable: Option<Bytes>) -> Gate {
        let adaptive = Adaptive {
            rate: 0.1,
            caches: 2,
            target_latency: None,
            frame: 1_000,
            smoothing: 0.8,
            objective: Objective::default(),
        };
        let settings = Admission {
            by: AdmitBy::Probability,
            threshold: Threshold::Adaptive(adaptive),
            endurance: vec![Some(Bytes(1000)), None],
            programmable: vec![programmable, None],
            ..Admission::default()
        };
        Gate::new(&settings, 1000, Bytes::kib(4))
    }

    #[test]
    fn a_gate_goes_by_the_smaller_of_both_lives() {
        let mut known = gate(Some(Bytes(3000)));
        // The storage does not wear, so it is not asked.
        let asked: Vec<_> = (0..4).map(|nth| known.asks_what_was_programmed(Nanos::from_s(5 * nth), [0, 1])).collect();
        assert_eq!(asked, [None, Some(0), None, Some(0)]);
        assert_eq!(known.wear(0, Bytes(100)).left, Some(Bytes(900)), "as rated");
        known.programmed(0, Bytes(600), Bytes(100));
        assert_eq!(known.wear(0, Bytes(100)).left, Some(Bytes(400)), "it programs six times what is written");
        assert_eq!(known.wear(1, Bytes(100)).left, None);
        let mut next = gate(Some(Bytes(1200)));
        next.resume(known);
        assert_eq!(next.wear(0, Bytes(100)).left, Some(Bytes(100)), "what was reported stays true");
        let mut unknown = gate(None);
        assert_eq!(unknown.asks_what_was_programmed(Nanos::ZERO, [0, 1]), None, "nothing depends on it");
        assert_eq!(unknown.wear(0, Bytes(100)).left, Some(Bytes(900)));
    }

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

    #[test]
    fn a_device_that_says_how_worn_it_is_has_the_rest_of_its_rating() {
        let mut known = gate(None);
        known.worn(0, 250_000, Bytes(40));
        assert_eq!(known.wear(0, Bytes(40)).left, Some(Bytes(750)));
        assert_eq!(known.wear(0, Bytes(100)).left, Some(Bytes(690)));
        assert_eq!(known.wear(1, Bytes(100)).left, None);
        let mut next = gate(None);
        next.resume(known);
        assert_eq!(next.wear(0, Bytes(40)).left, Some(Bytes(750)));
        next.worn(0, 1_200_000, Bytes(40));
        assert_eq!(next.wear(0, Bytes(40)).left, Some(Bytes(0)));
    }
}
