//! Hill climbing while the drive runs (GreenDM, section 5, names it as future work): one setting is moved a step and
//! tried in spans between spans without it (A B A B A). It is kept if the drive did better with it each time, by more than spans
//! without it differ among themselves, within the caps.
//!
//! Four things make that harder than it sounds. *Workloads change by themselves*: what came and stayed, or went, is no
//! merit of the step, so each trial is compared with the spans on both sides. *Trials cost*: so much of all response
//! time may be lost by them, and no more, and one without hope ends early (`search`). *Some effects come late*: to move
//! less data in is faster at once and slower afterwards, when the data is missed, so a step that does so has to bring
//! more hits to be kept, and one that was kept is on probation until the drive has been with it for as long as it is remembered without (`memory`). *Some caps
//! are averages of years* and no span shows them (`budget`).
//!
//! [`Search`] knows settings as numbers between bounds ([`Knob`]). Its owner says which settings these are, measures the
//! drive, and calls [`Search::tick`] when [`Search::is_due`].

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

/// A step has to be better by this share to be kept: less is noise.
const MARGIN: f64 = 0.02;
/// Trials of a step before it is kept, of one that moves less data in, and before any is given up for want of proof.
const TRIALS: usize = 2;
const TRIALS_OF_LESS: usize = 3;
const MOST_TRIALS: usize = 6;
/// The share of a span, at its start, that is not measured: what the step changed has to take effect.
const SETTLING: u64 = 4;
const DAY_S: f64 = 86_400.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    Without,
    Trial,
}

/// What has been counted since the caller's statistics began; within a [`Search`], since it began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Bytes written to the fast device.
    pub written: u64,
    /// Accesses that the fast device served.
    pub hits: u64,
    /// The other accesses.
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

/// What the devices drew, in microjoules, or programmed, in bytes, as far as the caller says.
#[derive(Clone, Copy, Debug, Default)]
struct Reported {
    /// Since the search began.
    total: u64,
    /// The latest figure that was reported; `total` has what it added.
    reported: Option<u64>,
    /// It has been asked for since something was last due.
    asked: bool,
}

impl Reported {
    /// Less than before means that it is counted from another moment.
    fn report(&mut self, count: u64) {
        if let Some(before) = self.reported.replace(count) {
            self.total += count.checked_sub(before).unwrap_or(count);
        }
    }
}

/// A step that was kept, and the way back.
#[derive(Clone, Debug)]
struct Kept {
    knob: usize,
    up: bool,
    undo: u64,
    /// What it made of the usual spending, for each budget.
    factors: Vec<f64>,
}

/// Where the search stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClimbView {
    /// Steps tried.
    pub tried: u64,
    /// Those that were kept.
    pub kept: u64,
    /// Those of them that were taken back because a cap did not hold.
    pub taken_back: u64,
    /// Those that were given up before their time, because the drive did so much worse.
    pub given_up: u64,
    /// Steps that were kept and taken back in the end, because the drive did worse for all that.
    pub regretted: u64,
    /// Steps that were kept to spend less, and taken back when there was enough again.
    pub restored: u64,
    /// The settings as they are now: a key and its value, times in ns.
    pub settings: Vec<(&'static str, u64)>,
}

/// What the search measures and moves.
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
    /// For each knob and way (down, up): how many turns it still rests, and how many it rests after the next failure.
    rests: Vec<[Rest; 2]>,
    /// The knob whose turn it is, which way, and whether the other way has been tried since something was kept.
    at: usize,
    up: bool,
    turned: bool,
    span: Span,
    settling: bool,
    /// A trial has just ended, and what it did to the drive goes on.
    aftermath: bool,
    ends: Nanos,
    /// Nothing is done before.
    next_look: Nanos,
    began: Nanos,
    /// When the span under way began: the counts, what was drawn and what was programmed.
    counted: Counted,
    drawn_before: u64,
    programmed_before: u64,
    /// What was counted before the caller's statistics last started from zero.
    base: Counted,
    drawn: Reported,
    programmed: Reported,
    budgets: Vec<Budget>,
    /// The last span without a trial.
    bare: Option<Sample>,
    trial: Option<Sample>,
    /// What the trials of this step gained, as differences of logarithms; less is better.
    gains: Vec<f64>,
    /// And how much smaller the share of hits was in them, added up.
    hits_lost: f64,
    memory: Memory,
    probation: Option<Probation>,
    /// Response time so far, and how much more of it there was for the trials.
    total_ns: f64,
    regret_ns: f64,
    /// What the knob was before the trial.
    undo: Option<u64>,
    /// The steps that were kept: the way back.
    path: Vec<Kept>,
    /// The steps that were kept because a budget was broken, whatever they cost.
    concessions: Vec<Kept>,
    view: ClimbView,
}

impl Search {
    /// A search that moves these knobs, in this order at first; there is at least one.
    ///
    /// # Panics
    /// Without a knob.
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

    /// Takes the place of another search on the same drive: what has been spent of budgets that stay is spent.
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

    /// Where the search stands, with these values of its knobs.
    pub fn view(&self, values: &[u64]) -> ClimbView {
        let settings = self.knobs.iter().zip(values).map(|(knob, value)| (knob.name, *value)).collect();
        ClimbView { settings, ..self.view.clone() }
    }

    /// Does what is due: changes the values in `system`, and says whether it did.
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
        // A trial is looked at more often.
        self.next_look = self.ends.min(now.saturating_add(Nanos((self.config.every.0 / SETTLING).max(1))));
        changed
    }

    /// When [`Search::is_due`] is to be asked next.
    pub fn next_look(&self) -> Nanos {
        self.next_look
    }

    /// Whether [`Search::tick`] has something to do.
    pub fn is_due(&mut self, now: Nanos) -> bool {
        now >= self.next_look && !self.waits_for_reports()
    }

    /// What the devices drew and programmed is part of what is judged: the caller has a chance to say it, once, before the
    /// next tick.
    fn waits_for_reports(&mut self) -> bool {
        let wants = |of: Of| self.budgets.iter().any(|budget| budget.of == of);
        let (drawn, programmed) = (wants(Of::Drawn), wants(Of::Programmed));
        let waits = drawn && !std::mem::replace(&mut self.drawn.asked, true);
        programmed && !std::mem::replace(&mut self.programmed.asked, true) || waits
    }

    /// Whether it would help to know what the fast device has programmed.
    pub fn asks_what_was_programmed(&self) -> bool {
        self.programmed.asked
    }

    /// Reports what it has programmed since some moment. Less than before means that it is another moment.
    pub fn programmed(&mut self, bytes: u64) {
        self.programmed.report(bytes);
    }

    /// Whether it would help to know what the devices have drawn.
    pub fn asks_what_was_drawn(&self) -> bool {
        self.drawn.asked
    }

    /// Reports what the devices have drawn since some moment. Less than before means that it is another moment.
    pub fn drew(&mut self, microjoules: u64) {
        self.drawn.report(microjoules);
    }

    /// The caller's statistics start from zero after `counted`, and so does the span under way. What has been spent
    /// stays spent.
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

    /// What was changed takes effect.
    fn settle(&mut self, system: &mut System<'_>, now: Nanos, span: Span) {
        (self.span, self.settling) = (span, true);
        (self.began, self.ends) = (now, now.saturating_add(Nanos((self.config.every.0 / SETTLING).max(1))));
        system.responses.clear();
    }

    /// What is measured begins.
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
