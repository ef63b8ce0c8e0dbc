//! Caps on long-term averages: the bytes written to the fast device, and the energy that the devices draw. A single
//! span shows little about them, because a burst may exceed what the day stays below. So each cap has an account of
//! what may have been spent so far and what was. A step is judged by how it changes spending relative to the spans
//! beside it, applied to the usual spending.

use peryton_units::Nanos;

use super::{Climb, DAY_S, MARGIN, Sample};

/// Savings of quiet times pay for later bursts, but at most those of this long: a drive that was idle for a year must
/// not be worn out in a day. (`SAVED_FRAMES` of write regulation is the same day.)
const MOST_SAVED_S: f64 = DAY_S;
/// The usual spending is the average over at most this long.
const MEMORY_S: f64 = DAY_S;
/// And over at least this many spans; fewer are not representative.
const LEAST_SPANS: f64 = 8.0;
/// Steps are undone when the account would be empty after this many more spans like the latest.
const RESERVE_SPANS: f64 = 2.0;
/// After this many such spans, a step that spends less is kept whatever it costs: an hour, with spans of 30 s.
const BROKEN_SPANS: f64 = 120.0;
/// A trial whose spending exceeds the cap by this factor ends when the account is empty.
const CLEARLY_BEYOND: f64 = 1.1;

/// The quantity that a budget limits.
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
    /// The cap per second.
    cap: f64,
    span_s: f64,
    /// What may have been spent so far, less what was.
    credit: f64,
    /// The usual spending per second with the present settings, and how long it has been observed.
    usual: f64,
    seen_s: f64,
    /// The same over the latest spans alone.
    recent: f64,
    recent_s: f64,
    /// For how long the account has been empty, less the time in which it was not.
    exhausted_s: f64,
    /// The time and the count of the last update.
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

    /// The budgets for the caps in this configuration.
    pub(super) fn of(config: &Climb) -> Vec<Budget> {
        let written = config.fast_bytes_per_day.map(|bytes| (Of::Written, bytes.0.max(1) as f64 / DAY_S));
        let drawn = config.power_cap_w.map(|watts| (Of::Drawn, watts * 1e6));
        let programmed = config.fast_programmed_per_day.map(|bytes| (Of::Programmed, bytes.0.max(1) as f64 / DAY_S));
        written.into_iter().chain(programmed).chain(drawn).map(|(of, cap)| Budget::new(of, cap, config.every)).collect()
    }

    /// Replaces a budget of another search with the same cap: what was spent stays spent. The usual spending may
    /// differ.
    pub(super) fn resume(&mut self, before: &Budget) {
        if (self.of, self.cap) == (before.of, before.cap) {
            (self.credit, self.looked) = (before.credit, before.looked);
        }
    }

    /// Updates the account: `count` has been spent so far, since a fixed time. `usual`: the drive ran with the present
    /// settings, without a trial.
    pub(super) fn look(&mut self, now: Nanos, count: u64, usual: bool) {
        let Some((then, before)) = self.looked.replace((now, count)) else { return };
        let (dt, spent) = (now.saturating_sub(then).as_s_f64(), count.saturating_sub(before) as f64);
        if dt <= 0.0 {
            // The time has not advanced, so this is counted with the next update.
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

    /// The expected usual spending if a step had the effect on all of it that it had relative to `bare`: the same
    /// factor in bursts, and the same amount in quiet times, because neither predicts the other.
    fn with_step(&self, trial: f64, bare: f64) -> f64 {
        let share = if bare > 0.0 { (self.usual / bare).min(1.0) } else { 1.0 };
        (self.usual + (trial - bare) * share).max(0.0)
    }

    /// The spending beside a trial.
    fn bare(&self, before: &Sample, after: &Sample) -> f64 {
        (before.spent(self.of) + after.spent(self.of)) / 2.0
    }

    /// Whether the step may not be kept: it spends more, and the average would then exceed the cap, or does already.
    pub(super) fn forbids(&self, trial: &Sample, before: &Sample, after: &Sample) -> bool {
        let (with, bare) = (trial.spent(self.of), self.bare(before, after));
        // Spending between that of its neighbours counts as equal.
        let spends_more = with > before.spent(self.of).max(after.spent(self.of));
        spends_more && (self.credit < 0.0 || self.with_step(with, bare) > self.cap)
    }

    /// Whether the step spends clearly less than either span beside it.
    pub(super) fn is_relieved(&self, trial: &Sample, before: &Sample, after: &Sample) -> bool {
        trial.spent(self.of) < before.spent(self.of).min(after.spent(self.of)) * (1.0 - MARGIN)
    }

    /// Whether the account is or soon will be empty while more is spent than comes in: a kept step must then be undone.
    pub(super) fn is_exhausted(&self) -> bool {
        let excess = self.recent - self.cap;
        let known = self.seen_s >= LEAST_SPANS * self.span_s;
        known && excess > 0.0 && self.credit < RESERVE_SPANS * self.span_s * excess
    }

    /// Whether this has been so for long.
    pub(super) fn is_broken(&self) -> bool {
        self.is_exhausted() && self.exhausted_s >= BROKEN_SPANS * self.span_s
    }

    /// Whether the account is not empty, and would not be if spending rose by this factor.
    pub(super) fn affords(&self, factor: f64) -> bool {
        self.credit >= 0.0 && self.recent.max(self.usual) * factor <= self.cap
    }

    /// Whether a trial spends so much more than the span before it that the account cannot pay for it.
    pub(super) fn ends(&self, trial: &Sample, before: &Sample) -> bool {
        self.credit < 0.0 && trial.spent(self.of) > CLEARLY_BEYOND * self.cap.max(before.spent(self.of))
    }

    /// Records that a step is kept; returns the factor by which it changes the usual spending.
    pub(super) fn kept(&mut self, trial: &Sample, before: &Sample, after: &Sample) -> f64 {
        let expected = self.with_step(trial.spent(self.of), self.bare(before, after));
        let factor = if self.usual > 0.0 && expected > 0.0 { expected / self.usual } else { 1.0 };
        self.changed(factor);
        factor
    }

    /// Multiplies the usual spending; the result is less certain, because the factor is an estimate.
    pub(super) fn changed(&mut self, factor: f64) {
        self.usual *= factor;
        self.seen_s = (self.seen_s / 2.0).max(self.seen_s.min(LEAST_SPANS * self.span_s));
        // Earlier spending is not part of the latest spans any more.
        (self.recent, self.recent_s) = (self.recent * factor, self.recent_s.min(self.span_s));
    }
}
