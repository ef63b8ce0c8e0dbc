//! Hill climbing while the drive runs (GreenDM, section 5, names it as future work). One setting is changed by a step,
//! which is tried in spans between spans without it (A B A B A). The step is kept if the drive did better with it each
//! time, by more than spans without it differ among themselves, and within the caps.
//!
//! Four difficulties shape the search. *Workloads change by themselves*: a change that stays, or goes away, is not the
//! effect of the step, so each trial is compared with the spans on both sides. *Trials cost*: they may lose only a
//! bounded share of all response time, and a hopeless one ends early (`search`). *Some effects come late*: moving less
//! data to the fast device is faster at first and slower later, when the data is missed. So such a step must raise the
//! hit ratio to be kept. A kept step is on probation until it was observed for as long as the remembered time without it
//! (`memory`). *Some caps are averages of years*, which no span shows (`budget`).
//!
//! [`Search`] treats settings as numbers between bounds ([`Knob`]). Its owner decides which settings these are,
//! measures the drive, and calls [`Search::tick`] when [`Search::is_due`].

mod budget;
mod knob;
mod memory;
mod search;
mod settings;
#[cfg(test)]
mod tests;

use peryton_units::Nanos;
use serde::Serialize;

use self::{
    budget::{Budget, Of},
    knob::Rest,
    memory::{Memory, Probation, Sample},
};
pub use self::{
    knob::{Direction, Knob},
    settings::Climb,
};
use crate::ResponseTimes;

/// A step must be better by this share to be kept; a smaller difference counts as noise.
const MARGIN: f64 = 0.02;
/// Number of trials of a step before it is kept; the same for one that moves less data in; and before a step is
/// abandoned for lack of proof.
const TRIALS: usize = 2;
const TRIALS_OF_LESS: usize = 3;
const MOST_TRIALS: usize = 6;
/// The reciprocal share of a span, at its start, that is not measured, so that the change can take effect.
const SETTLING: u64 = 4;
const DAY_S: f64 = 86_400.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    Without,
    Trial,
}

/// The caller's counts since its statistics began; within a [`Search`], since the search began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Bytes written to the fast device.
    pub written: u64,
    /// Accesses that the fast device served.
    pub hits: u64,
    /// Accesses that the fast device did not serve.
    pub misses: u64,
}

impl Counted {
    fn plus(self, other: Counted) -> Counted {
        Counted {
            written: self.written + other.written,
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
        }
    }
}

/// A reported count: microjoules drawn, or bytes programmed.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    /// Since the search began.
    total: u64,
    /// The latest reported count; `total` includes what it added.
    reported: Option<u64>,
    /// Whether a report has been asked for since the last due time.
    asked: bool,
}

impl Reported {
    /// Records a report. A lower count than before means that counting has started again.
    fn report(&mut self, count: u64) {
        if let Some(before) = self.reported.replace(count) {
            self.total += count.checked_sub(before).unwrap_or(count);
        }
    }
}

/// A kept step, and how to undo it.
#[derive(Clone, Debug)]
struct Kept {
    knob: usize,
    up: bool,
    undo: u64,
    /// The factor by which it changed the usual spending, for each budget.
    factors: Vec<f64>,
}

/// The state of the search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClimbView {
    /// Number of steps tried.
    pub tried: u64,
    /// Number of steps kept.
    pub kept: u64,
    /// Number of kept steps that were undone because a cap was exceeded.
    pub taken_back: u64,
    /// Number of trials that ended early because the drive did much worse.
    pub given_up: u64,
    /// Number of kept steps that were undone on probation, because the drive did worse later.
    pub regretted: u64,
    /// Number of steps that were kept for a cap, and undone when the cap had room again.
    pub restored: u64,
    /// The present settings: a key and its value, times in ns.
    pub settings: Vec<(&'static str, u64)>,
}

/// The measurements and the settings of the drive.
#[derive(Debug)]
pub struct System<'a> {
    /// The response times of requests; the search clears them when it begins to measure.
    pub responses: &'a mut ResponseTimes,
    /// The present value of each knob.
    pub values: &'a mut [u64],
}

/// The search for better settings of a drive that is in use.
///
/// # Examples
///
/// A drive that is the faster the larger its only setting is:
///
/// ```
/// use peryton_policy::{Climb, ResponseTimes, hill_climbing::{Counted, Knob, Search, System}};
/// use peryton_units::Nanos;
///
/// let knob = Knob { name: "depth", least: 1, most: 1024, smallest_step: 1, less_data: None };
/// let mut search = Search::new(&Climb { every: Nanos::from_s(1), ..Climb::default() }, vec![knob]);
/// let (mut responses, mut values) = (ResponseTimes::new(), [4]);
/// for ms in 0..100_000 {
///     let now = Nanos::from_ms(ms);
///     responses.record(10_000_000 / values[0] + ms % 7);
///     if search.is_due(now) {
///         search.tick(&mut System { responses: &mut responses, values: &mut values }, now, Counted::default());
///     }
/// }
/// assert!(values[0] >= 256, "{:?}", search.view(&values));
/// ```
#[derive(Debug)]
pub struct Search {
    config: Climb,
    knobs: Vec<Knob>,
    /// For each knob and direction (down, up): for how many turns it still rests, and for how many after the next
    /// failure.
    rests: Vec<[Rest; 2]>,
    /// The knob whose turn it is, the direction, and whether the other direction has been tried since a step was kept.
    at: usize,
    up: bool,
    turned: bool,
    span: Span,
    settling: bool,
    /// Whether a trial has just ended, so that its effect still lasts.
    aftermath: bool,
    ends: Nanos,
    /// The search does nothing before this time.
    next_look: Nanos,
    began: Nanos,
    /// The counts when the present span began: the caller's, and what was drawn and programmed.
    counted: Counted,
    drawn_before: u64,
    programmed_before: u64,
    /// The counts when the caller's statistics were last reset.
    base: Counted,
    drawn: Reported,
    programmed: Reported,
    budgets: Vec<Budget>,
    /// The last span without a trial.
    bare: Option<Sample>,
    trial: Option<Sample>,
    /// The gains of the trials of this step, as differences of logarithms; lower is better.
    gains: Vec<f64>,
    /// The sum by which the hit ratio was lower in the trials.
    hits_lost: f64,
    memory: Memory,
    probation: Option<Probation>,
    /// Sum of the response times so far, and how much of it is due to trials.
    total_ns: f64,
    regret_ns: f64,
    /// The value of the knob before the trial.
    undo: Option<u64>,
    /// The kept steps, for undoing them.
    path: Vec<Kept>,
    /// The steps that were kept only because a budget was exceeded.
    concessions: Vec<Kept>,
    view: ClimbView,
}

impl Search {
    /// Makes a search that changes these knobs, at first in this order.
    ///
    /// # Panics
    /// If there is no knob.
    pub fn new(config: &Climb, knobs: Vec<Knob>) -> Search {
        assert!(!knobs.is_empty(), "a search has something to move");
        Search {
            budgets: Budget::of(config),
            config: config.clone(),
            rests: vec![[Rest::default(); 2]; knobs.len()],
            knobs,
            at: 0,
            up: false,
            turned: false,
            span: Span::Without,
            settling: true,
            aftermath: false,
            ends: Nanos::ZERO,
            next_look: Nanos::ZERO,
            began: Nanos::ZERO,
            counted: Counted::default(),
            drawn_before: 0,
            programmed_before: 0,
            base: Counted::default(),
            drawn: Reported::default(),
            programmed: Reported::default(),
            bare: None,
            trial: None,
            gains: Vec::with_capacity(MOST_TRIALS),
            hits_lost: 0.0,
            memory: Memory::default(),
            probation: None,
            total_ns: 0.0,
            regret_ns: 0.0,
            undo: None,
            path: Vec::new(),
            concessions: Vec::new(),
            view: ClimbView::default(),
        }
    }

    /// Replaces another search on the same drive: what was spent of unchanged budgets stays spent.
    pub fn resume(&mut self, before: &Search) {
        (self.base, self.drawn, self.programmed) = (before.base, before.drawn, before.programmed);
        for budget in &mut self.budgets {
            for before in &before.budgets {
                budget.resume(before);
            }
        }
    }

    /// The knobs, in the order of the values that [`Search::tick`] takes.
    pub fn knobs(&self) -> &[Knob] {
        &self.knobs
    }

    /// The state of the search, with these values of its knobs.
    pub fn view(&self, values: &[u64]) -> ClimbView {
        let settings = self.knobs.iter().zip(values).map(|(knob, value)| (knob.name, *value)).collect();
        ClimbView { settings, ..self.view.clone() }
    }

    /// Does what is due; returns whether it changed the values in `system`.
    pub fn tick(&mut self, system: &mut System<'_>, now: Nanos, counted: Counted) -> bool {
        let counted = self.base.plus(counted);
        if self.ends == Nanos::ZERO {
            self.settle(system, now, Span::Without);
        }
        self.look_at_budgets(now, counted);
        let mut changed = false;
        if now >= self.ends {
            changed = self.next(system, now, counted);
        } else if self.span == Span::Trial && !self.settling && self.is_hopeless(system.responses, now, counted) {
            self.view.given_up += 1;
            let sample = self.sample(system.responses, now, counted);
            self.account(&sample);
            self.give_up(system, now);
            changed = true;
        }
        (self.drawn.asked, self.programmed.asked) = (false, false);
        // A trial is examined more often.
        self.next_look = self.ends.min(now.saturating_add(Nanos((self.config.every.0 / SETTLING).max(1))));
        changed
    }

    /// The time at which [`Search::is_due`] must be called next.
    pub fn next_look(&self) -> Nanos {
        self.next_look
    }

    /// Whether [`Search::tick`] has something to do.
    pub fn is_due(&mut self, now: Nanos) -> bool {
        now >= self.next_look && !self.waits_for_reports()
    }

    /// Whether to wait for reports of energy and programmed bytes, which the decision uses. The caller gets one chance
    /// to report before the next tick.
    fn waits_for_reports(&mut self) -> bool {
        let wants = |of: Of| self.budgets.iter().any(|budget| budget.of == of);
        let (drawn, programmed) = (wants(Of::Drawn), wants(Of::Programmed));
        let waits = drawn && !std::mem::replace(&mut self.drawn.asked, true);
        programmed && !std::mem::replace(&mut self.programmed.asked, true) || waits
    }

    /// Whether the search uses the number of bytes that the fast device has programmed.
    pub fn asks_what_was_programmed(&self) -> bool {
        self.programmed.asked
    }

    /// Reports how many bytes it has programmed since any fixed time. A lower value than before means that the time has
    /// changed.
    pub fn programmed(&mut self, bytes: u64) {
        self.programmed.report(bytes);
    }

    /// Whether the search uses the energy that the devices have drawn.
    pub fn asks_what_was_drawn(&self) -> bool {
        self.drawn.asked
    }

    /// Reports the energy that the devices have drawn since any fixed time. A lower value than before means that the
    /// time has changed.
    pub fn drew(&mut self, microjoules: u64) {
        self.drawn.report(microjoules);
    }

    /// Notes that the caller's statistics start from zero after `counted`; the present span starts again. What was
    /// spent stays spent.
    pub fn statistics_reset(&mut self, responses: &mut ResponseTimes, now: Nanos, counted: Counted) {
        self.base = self.base.plus(counted);
        if !self.settling {
            self.begin(responses, now, self.base);
        }
    }

    fn look_at_budgets(&mut self, now: Nanos, counted: Counted) {
        let usual = self.span == Span::Without;
        for budget in &mut self.budgets {
            match budget.of {
                Of::Written => budget.look(now, counted.written, usual),
                Of::Programmed if self.programmed.reported.is_some() => budget.look(now, self.programmed.total, usual),
                Of::Drawn if self.drawn.reported.is_some() => budget.look(now, self.drawn.total, usual),
                Of::Programmed | Of::Drawn => {}
            }
        }
    }

    /// Starts the part of a span in which a change takes effect.
    fn settle(&mut self, system: &mut System<'_>, now: Nanos, span: Span) {
        (self.span, self.settling) = (span, true);
        (self.began, self.ends) = (now, now.saturating_add(Nanos((self.config.every.0 / SETTLING).max(1))));
        system.responses.clear();
    }

    /// Starts the measured part of a span.
    fn begin(&mut self, responses: &mut ResponseTimes, now: Nanos, counted: Counted) {
        self.settling = false;
        (self.began, self.counted, self.drawn_before) = (now, counted, self.drawn.total);
        self.programmed_before = self.programmed.total;
        self.ends = now.saturating_add(self.config.every);
        responses.clear();
    }

    fn sample(&self, responses: &ResponseTimes, now: Nanos, counted: Counted) -> Sample {
        let span_s = now.saturating_sub(self.began).as_s_f64().max(1e-9);
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let (hits, misses) = (since(counted.hits, self.counted.hits), since(counted.misses, self.counted.misses));
        Sample {
            mean_ns: responses.mean_ns(),
            error: responses.relative_error(),
            p99_ns: responses.p99_ns(),
            written_per_s: since(counted.written, self.counted.written) / span_s,
            programmed_per_s: since(self.programmed.total, self.programmed_before) / span_s,
            drawn_uw: since(self.drawn.total, self.drawn_before) / span_s,
            hit_ratio: hits / (hits + misses).max(1.0),
            total_ns: responses.mean_ns() * responses.count() as f64,
        }
    }
}
