//! Caps on the average of a long time: what is written to the fast device, what the devices draw. A single span says little
//! of them, since a burst may break what the day keeps. So an account is kept of what may be spent by now and what was,
//! and a step is judged by what it changes in the spans beside it, put upon what is usual.

use peryton_units::Nanos;

use super::{Climb, DAY_S, MARGIN, Sample};

/// What quiet times leave pays for bursts after them, but no more than so long a time's: a drive that was idle for a year may
/// not be worn out in a day. (`SAVED_FRAMES` of write regulation is the same day.)
const MOST_SAVED_S: f64 = DAY_S;
/// What is usual is the average of so long a time at the most.
const MEMORY_S: f64 = DAY_S;
/// And of so many spans at the least: fewer say nothing.
const LEAST_SPANS: f64 = 8.0;
/// Steps are taken back when nothing would be left after so many more spans like the latest.
const RESERVE_SPANS: f64 = 2.0;
/// When that has been so for so many spans, steps that spend less are kept whatever they cost: an hour, with spans of 30 s.
const BROKEN_SPANS: f64 = 120.0;
/// A trial that spends by so much more than the cap ends when nothing is left to pay for it.
const CLEARLY_BEYOND: f64 = 1.1;

/// What a budget is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Bytes written to the fast device.
    Written,
    /// Bytes programmed into its flash.
    Programmed,
    /// Microjoules that the devices drew.
    Drawn,
}

#[derive(Clone, Debug)]
pub(super) struct Budget {
    pub(super) of: Of,
    /// A second.
    cap: f64,
    span_s: f64,
    /// What may have been spent by now, less what was.
    credit: f64,
    /// What is spent a second with the settings as they are, and how long that has been seen.
    usual: f64,
    seen_s: f64,
    /// The same over the latest spans alone.
    recent: f64,
    recent_s: f64,
    /// For how long there has been nothing left, less the time in which there was.
    exhausted_s: f64,
    /// When it was last looked at, and the count then.
    looked: Option<(Nanos, u64)>,
}

impl Budget {
    fn new(of: Of, cap: f64, span: Nanos) -> Budget {
        let span_s = span.as_s_f64().max(1e-9);
        Budget {
            of,
            cap,
            span_s,
            credit: 0.0,
            usual: 0.0,
            seen_s: 0.0,
            recent: 0.0,
            recent_s: 0.0,
            exhausted_s: 0.0,
            looked: None,
        }
    }

    /// One for each cap of this kind.
    pub(super) fn of(config: &Climb) -> Vec<Budget> {
        let written = config.fast_bytes_per_day.map(|bytes| (Of::Written, bytes.0.max(1) as f64 / DAY_S));
        let drawn = config.power_cap_w.map(|watts| (Of::Drawn, watts * 1e6));
        let programmed = config.fast_programmed_per_day.map(|bytes| (Of::Programmed, bytes.0.max(1) as f64 / DAY_S));
        written.into_iter().chain(programmed).chain(drawn).map(|(of, cap)| Budget::new(of, cap, config.every)).collect()
    }

    /// Another search with the same cap goes on from here: what was spent is spent. What is usual may be another matter.
    pub(super) fn resume(&mut self, before: &Budget) {
        if (self.of, self.cap) == (before.of, before.cap) {
            (self.credit, self.looked) = (before.credit, before.looked);
        }
    }

    /// So much has been spent by now, since a time that is always the same; `usual` if it was with the settings as they
    /// are, and not on trial.
    pub(super) fn look(&mut self, now: Nanos, count: u64, usual: bool) {
        let Some((then, before)) = self.looked.replace((now, count)) else { return };
        let (dt, spent) = (now.saturating_sub(then).as_s_f64(), count.saturating_sub(before) as f64);
        if dt <= 0.0 {
            // At one moment: it is part of what comes.
            self.looked = Some((then, before));
            return;
        }
        self.credit = (self.credit + self.cap * dt - spent).min(self.cap * MOST_SAVED_S);
        if usual {
            let rate = spent / dt;
            self.seen_s = (self.seen_s + dt).min(MEMORY_S.max(LEAST_SPANS * self.span_s));
            self.usual += (rate - self.usual) * (dt / self.seen_s).min(1.0);
            self.recent_s = (self.recent_s + dt).min(LEAST_SPANS * self.span_s);
            self.recent += (rate - self.recent) * (dt / self.recent_s).min(1.0);
        }
        let exhausted_s = self.exhausted_s + if self.is_exhausted() { dt } else { -dt };
        self.exhausted_s = exhausted_s.clamp(0.0, BROKEN_SPANS * self.span_s);
    }

    /// What is to be expected of the usual if a step does to all of it what it did beside `bare`: as much more by share in
    /// bursts, and by amount in quiet times, since neither says more of the other.
    fn with_step(&self, trial: f64, bare: f64) -> f64 {
        let share = if bare > 0.0 { (self.usual / bare).min(1.0) } else { 1.0 };
        (self.usual + (trial - bare) * share).max(0.0)
    }

    /// What is spent beside a trial.
    fn bare(&self, before: &Sample, after: &Sample) -> f64 {
        (before.spent(self.of) + after.spent(self.of)) / 2.0
    }

    /// Whether the step may not be kept: it spends more, and the average would then be beyond the cap, or is already.
    pub(super) fn forbids(&self, trial: &Sample, before: &Sample, after: &Sample) -> bool {
        let (with, bare) = (trial.spent(self.of), self.bare(before, after));
        // Between its neighbours it is as they are.
        let spends_more = with > before.spent(self.of).max(after.spent(self.of));
        spends_more && (self.credit < 0.0 || self.with_step(with, bare) > self.cap)
    }

    /// Whether the step spends clearly less than either span beside it.
    pub(super) fn is_relieved(&self, trial: &Sample, before: &Sample, after: &Sample) -> bool {
        trial.spent(self.of) < before.spent(self.of).min(after.spent(self.of)) * (1.0 - MARGIN)
    }

    /// Nothing is left, or soon will be, and more is spent than comes in: a step that was kept has to go.
    pub(super) fn is_exhausted(&self) -> bool {
        let excess = self.recent - self.cap;
        let known = self.seen_s >= LEAST_SPANS * self.span_s;
        known && excess > 0.0 && self.credit < RESERVE_SPANS * self.span_s * excess
    }

    /// So it has been for long.
    pub(super) fn is_broken(&self) -> bool {
        self.is_exhausted() && self.exhausted_s >= BROKEN_SPANS * self.span_s
    }

    /// Whether there is something left, and would be if so many times as much were spent.
    pub(super) fn affords(&self, factor: f64) -> bool {
        self.credit >= 0.0 && self.recent.max(self.usual) * factor <= self.cap
    }

    /// Whether a trial that spends so much more than the span before it has nothing left to pay with.
    pub(super) fn ends(&self, trial: &Sample, before: &Sample) -> bool {
        self.credit < 0.0 && trial.spent(self.of) > CLEARLY_BEYOND * self.cap.max(before.spent(self.of))
    }

    /// A step is kept: by which factor it changes what is usual.
    pub(super) fn kept(&mut self, trial: &Sample, before: &Sample, after: &Sample) -> f64 {
        let expected = self.with_step(trial.spent(self.of), self.bare(before, after));
        let factor = if self.usual > 0.0 && expected > 0.0 { expected / self.usual } else { 1.0 };
        self.changed(factor);
        factor
    }

    /// What is usual is so many times what it was; less sure of it, since that is an estimate.
    pub(super) fn changed(&mut self, factor: f64) {
        self.usual *= factor;
        self.seen_s = (self.seen_s / 2.0).max(self.seen_s.min(LEAST_SPANS * self.span_s));
        // What came before has no part in the latest spans.
        (self.recent, self.recent_s) = (self.recent * factor, self.recent_s.min(self.span_s));
    }
}
