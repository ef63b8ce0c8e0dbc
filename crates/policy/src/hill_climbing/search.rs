//! The search: which step is tried when, and whether it is kept.

use peryton_units::Nanos;

use super::{
    Counted, Kept, MARGIN, MOST_TRIALS, Search, Span, System, TRIALS, TRIALS_OF_LESS,
    knob::Rest,
    memory::{Memory, Probation, Sample},
};
use crate::ResponseTimes;

/// A step must be better by this many standard errors to be kept.
const ERRORS: f64 = 1.3;
/// No trial begins while earlier ones have cost more than this share of all response time, gains set off against
/// losses.
const REGRET: f64 = 0.02;
/// A trial whose mean response time is this many times that before it ends immediately.
const INTOLERABLE: f64 = 1.5;
/// A trial that is worse than the span before it by this many standard errors ends too: it will not be kept.
const HOPELESS: f64 = 1.0;
/// A step that brings response times closer to a cap than this factor is not kept, because a span is only a sample.
const HEADROOM: f64 = 0.95;
/// A step that does not move less data in must not lower the hit ratio by more than this.
const FEWER_HITS: f64 = 0.01;
/// A trial that exceeds a cap by this factor ends immediately, if the cap held before. A smaller excess may be due to a
/// few slow requests.
const CLEARLY_BEYOND: f64 = 1.1;
/// Number of responses that such a decision needs.
const ENOUGH: u64 = 64;
/// The most steps that can be undone.
const LONGEST_PATH: usize = 64;

impl Search {
    /// Handles the end of a part of a span, or of a whole one.
    pub(super) fn next(&mut self, system: &mut System<'_>, now: Nanos, counted: Counted) -> bool {
        if self.settling {
            let sample = self.sample(system.responses, now, counted);
            self.account(&sample);
            self.aftermath = false;
            self.begin(system.responses, now, counted);
            return false;
        }
        if system.responses.count() < u64::from(self.config.requests.max(1)) {
            // There are too few requests to judge by, so the span continues.
            self.ends = now.saturating_add(self.config.every);
            return false;
        }
        let sample = self.sample(system.responses, now, counted);
        self.account(&sample);
        match self.span {
            Span::Trial => {
                self.trial = Some(sample);
                self.swap(system);
                self.aftermath = true;
                self.settle(system, now, Span::Without);
                true
            }
            Span::Without => {
                self.memory.add(self.score(&sample), sample.hit_ratio);
                let before = self.bare.replace(sample);
                if let (Some(before), Some(trial)) = (before, self.trial.take()) {
                    return self.evaluate(system, now, &before, &trial, &sample);
                }
                self.go_back(system, now, &sample)
                    || self.restore(system, now)
                    || self.regret(system, now, &sample)
                    || self.try_next(system, now)
            }
        }
    }

    /// Adds the measured response times to the total. For a trial and the span after it, adds the excess over the span
    /// before to the cost of trials.
    pub(super) fn account(&mut self, sample: &Sample) {
        self.total_ns += sample.total_ns;
        if let Some(bare) = &self.bare
            && (self.span == Span::Trial || self.aftermath)
        {
            self.regret_ns += sample.total_ns * (1.0 - bare.mean_ns / sample.mean_ns.max(1.0));
        }
    }

    /// Starts the next step, on this knob or another.
    fn try_next(&mut self, system: &mut System<'_>, now: Nanos) -> bool {
        // A step towards a cap may cost response time.
        let beyond = self.bare.is_some_and(|bare| self.strain(&bare) > 1.0) || self.is_overspent();
        if self.regret_ns > REGRET * self.total_ns && !beyond {
            self.settle(system, now, Span::Without);
            return false;
        }
        for _ in 0..self.knobs.len() * 2 {
            let value = system.values[self.at];
            let rest = &mut self.rests[self.at][usize::from(self.up)];
            if rest.left > 0 {
                // A turn of rest is a span in which nothing is tried.
                rest.left -= 1;
                self.turn();
                break;
            }
            if let Some(next) = self.knobs[self.at].step(value, self.up) {
                system.values[self.at] = next;
                self.undo = Some(value);
                self.gains.clear();
                self.hits_lost = 0.0;
                self.view.tried += 1;
                self.settle(system, now, Span::Trial);
                return true;
            }
            self.turn();
        }
        // No step is possible now: look again after the next span.
        self.settle(system, now, Span::Without);
        false
    }

    fn failed(&mut self) {
        self.rests[self.at][usize::from(self.up)].failed();
        self.turn();
    }

    /// Changes to the other direction, or to the next knob if both have been tried.
    fn turn(&mut self) {
        if self.turned {
            self.at = (self.at + 1) % self.knobs.len();
        }
        self.turned = !self.turned;
        self.up = !self.up;
    }

    /// Undoes the latest step if a cap is exceeded, whatever its benefit: the workload may have changed since.
    fn go_back(&mut self, system: &mut System<'_>, now: Nanos, sample: &Sample) -> bool {
        if self.strain(sample) <= 1.0 && !self.budgets.iter().any(|budget| budget.is_exhausted()) {
            return false;
        }
        let Some(kept) = self.undo_latest(system) else { return false };
        self.probation = None;
        self.rests[kept.knob][usize::from(kept.up)].failed();
        self.view.taken_back += 1;
        self.settle(system, now, Span::Without);
        true
    }

    /// Restores a setting that was changed for a budget, if the account allows it again and would allow its spending.
    fn restore(&mut self, system: &mut System<'_>, now: Nanos) -> bool {
        let Some(kept) = self.concessions.last() else { return false };
        if !self.budgets.iter().zip(&kept.factors).all(|(budget, factor)| budget.affords(1.0 / factor)) {
            return false;
        }
        let Some(kept) = self.concessions.pop() else { return false };
        self.undo(system, &kept);
        self.probation = None;
        self.view.restored += 1;
        self.settle(system, now, Span::Without);
        true
    }

    fn undo_latest(&mut self, system: &mut System<'_>) -> Option<Kept> {
        let kept = self.path.pop()?;
        self.undo(system, &kept);
        Some(kept)
    }

    fn undo(&mut self, system: &mut System<'_>, kept: &Kept) {
        system.values[kept.knob] = kept.undo;
        for (budget, factor) in self.budgets.iter_mut().zip(&kept.factors) {
            budget.changed(1.0 / factor);
        }
        // The drive is then measured again from the start.
        self.memory = Memory::default();
    }

    /// Undoes a kept step that turned out not to be an improvement, because of effects that appeared later.
    fn regret(&mut self, system: &mut System<'_>, now: Nanos, sample: &Sample) -> bool {
        let score = self.score(sample);
        let Some(probation) = &mut self.probation else { return false };
        let Some(good) = probation.add(score, sample.hit_ratio) else { return false };
        let Some(probation) = self.probation.take() else { return false };
        if good {
            return false;
        }
        self.view.regretted += 1;
        self.undo_latest(system);
        self.rests[probation.knob][usize::from(probation.up)] = Rest::LONGEST;
        self.settle(system, now, Span::Without);
        true
    }

    /// Applies the step if it is not applied, and removes it otherwise.
    fn swap(&mut self, system: &mut System<'_>) {
        if let Some(value) = &mut self.undo {
            std::mem::swap(&mut system.values[self.at], value);
        }
    }

    pub(super) fn give_up(&mut self, system: &mut System<'_>, now: Nanos) {
        self.swap(system);
        (self.undo, self.trial) = (None, None);
        self.failed();
        self.aftermath = true;
        self.settle(system, now, Span::Without);
    }

    /// Evaluates a trial between two spans without it.
    fn evaluate(
        &mut self,
        system: &mut System<'_>,
        now: Nanos,
        before: &Sample,
        trial: &Sample,
        after: &Sample,
    ) -> bool {
        let Some(tried) = self.undo else { return self.try_next(system, now) };
        let caps = self.evaluate_caps(trial, before, after);
        self.gains.push(self.score(trial) - (self.score(before) + self.score(after)) / 2.0);
        self.hits_lost += (before.hit_ratio + after.hit_ratio) / 2.0 - trial.hit_ratio;
        // While the fast device fills, each span has more hits than the one before. So a step that moves less data in
        // must have more hits even than the span after it.
        let moves_less = self.knobs[self.at].moves_less(self.up);
        let keeps_hits = if moves_less {
            trial.hit_ratio > before.hit_ratio.max(after.hit_ratio)
        } else {
            self.hits_lost <= FEWER_HITS * self.gains.len() as f64
        };
        let better = caps.unwrap_or_else(|| keeps_hits && self.gain() < -MARGIN);
        let enough = if moves_less { TRIALS_OF_LESS } else { TRIALS };
        let proven = caps.is_some() || self.gains.len() >= enough && self.is_significant(trial);
        if better && !proven && self.gains.len() < MOST_TRIALS {
            // Try it once more.
            self.swap(system);
            self.settle(system, now, Span::Trial);
            return true;
        }
        if !(better && proven) {
            self.undo = None;
            self.failed();
            return self.go_back(system, now, after) || self.try_next(system, now);
        }
        self.view.kept += 1;
        let (knob, up) = (self.at, self.up);
        let undo = system.values[knob];
        let factors = self.budgets.iter_mut().map(|budget| budget.kept(trial, before, after)).collect();
        self.turned = false;
        // After a step is kept, other steps may be of use.
        self.rests.fill([Rest::default(); 2]);
        let kept = Kept { knob, up, undo, factors };
        // A step towards a cap that is exceeded is not part of the way that led beyond it.
        let path = if caps.is_none() {
            self.probation = Some(Probation::new(knob, up, self.memory));
            // Earlier concessions are final now.
            self.concessions.clear();
            Some(&mut self.path)
        } else {
            self.probation = None;
            self.is_overspent().then_some(&mut self.concessions)
        };
        if let Some(path) = path {
            path.push(kept);
            if path.len() > LONGEST_PATH {
                path.remove(0);
            }
        }
        system.values[knob] = tried;
        self.undo = None;
        // The drive with the step is measured again from the start, beside the next step.
        self.memory = Memory::default();
        self.settle(system, now, Span::Without);
        true
    }

    /// If a cap is exceeded, only the way back to it counts: returns whether the step leads there. `None` if all caps
    /// hold, with the step and without it.
    fn evaluate_caps(&self, trial: &Sample, before: &Sample, after: &Sample) -> Option<bool> {
        let (with, bare) = (self.strain(trial), self.strain(before).min(self.strain(after)));
        let forbidden = self.budgets.iter().any(|budget| budget.forbids(trial, before, after));
        if bare <= 1.0 && !self.is_overspent() {
            return (with > HEADROOM || forbidden).then_some(false);
        }
        let mut broken = self.budgets.iter().filter(|budget| budget.is_broken());
        let slow = bare > 1.0;
        let relieved =
            (!slow || with < bare * (1.0 - MARGIN)) && broken.all(|budget| budget.is_relieved(trial, before, after));
        // A step that helps with one cap must not violate another.
        Some(relieved && !forbidden && (slow || with <= HEADROOM))
    }

    /// The mean gain of the trials so far.
    fn gain(&self) -> f64 {
        self.gains.iter().sum::<f64>() / self.gains.len().max(1) as f64
    }

    /// Whether the trials gained more than spans differ by themselves.
    fn is_significant(&self, trial: &Sample) -> bool {
        let trials = self.gains.len().max(1) as f64;
        // The variance of a span less the mean of its two neighbours.
        let spread = (self.memory.variance * 1.5 / trials).sqrt();
        let counting = self.config.latency * trial.error * (1.5 / trials).sqrt();
        self.gain() < -MARGIN.max(ERRORS * spread.max(counting))
    }

    /// The logarithm of the objective.
    pub(super) fn score(&self, sample: &Sample) -> f64 {
        self.config.latency * sample.mean_ns.max(1.0).ln()
            + self.config.wear * sample.fast_bytes_per_day().max(1.0).ln()
    }

    /// How far a span exceeded the caps on response times: at most 1 if all held.
    fn strain(&self, sample: &Sample) -> f64 {
        let time = |cap: Option<Nanos>, value: f64| cap.map_or(0.0, |cap| value / cap.0.max(1) as f64);
        time(self.config.mean_cap, sample.mean_ns).max(time(self.config.p99_cap, sample.p99_ns))
    }

    fn is_overspent(&self) -> bool {
        self.budgets.iter().any(|budget| budget.is_broken())
    }

    /// Whether a trial is so bad that it ends early: much slower, certainly worse, or clearly beyond a cap that held
    /// before.
    pub(super) fn is_hopeless(&self, responses: &ResponseTimes, now: Nanos, counted: Counted) -> bool {
        if responses.count() < ENOUGH {
            return false;
        }
        let Some(before) = self.bare else { return false };
        let trial = self.sample(responses, now, counted);
        if self.budgets.iter().any(|budget| budget.ends(&trial, &before)) {
            return true;
        }
        if self.strain(&trial) > CLEARLY_BEYOND * self.strain(&before).max(1.0) {
            return true;
        }
        if self.strain(&before) > 1.0 || self.is_overspent() {
            return false;
        }
        let slow = trial.mean_ns * (1.0 - trial.error) > before.mean_ns * INTOLERABLE;
        slow || self.is_worse(&trial, &before, now)
    }

    /// Whether a trial that has not ended is worse by more than spans differ by themselves.
    fn is_worse(&self, trial: &Sample, before: &Sample, now: Nanos) -> bool {
        // The less of it has been observed, the more of the difference is chance.
        let seen = now.saturating_sub(self.began).as_s_f64() / self.config.every.as_s_f64();
        let spread = self.memory.variance * (1.0 + 1.0 / seen.clamp(0.1, 1.0));
        let counting = self.config.latency.powi(2) * (trial.error.powi(2) + before.error.powi(2));
        let worse = self.score(trial) - self.score(before);
        // Earlier trials may have been better by more than this one is worse.
        let all = (self.gains.iter().sum::<f64>() + worse) / (self.gains.len() + 1) as f64;
        worse > MARGIN.max(HOPELESS * spread.max(counting).sqrt()) && all > -MARGIN
    }
}
