//! Hill climbing while the drive runs (GreenDM, section 5, names it as future work): one setting is moved a step and tried in
//! spans between spans without it (A B A B A). It is kept if the drive did better with it each time, by more than spans
//! without it differ among themselves, within the caps.
//!
//! Three things make that harder than it sounds. *Workloads change by themselves*: what came and stayed, or went, is no
//! merit of the step, so each trial is compared with the spans on both sides. *Trials cost*: so much of all response
//! time may be lost by them, and no more ([`REGRET`]). *Some effects come late*: who moves less data in is faster at once and
//! misses it afterwards, so a step that does so has to bring more hits to be kept, and one that was kept is on probation until the
//! drive has been with it for as long as it is remembered without.

use peryton_units::{Bytes, Nanos};
use serde::Serialize;

use crate::{
    config::{Climb, Placement, Tuning, WritePolicy},
    core::Core,
    responses::Responses,
};

/// A step has to be better by this share to be kept, and by so many standard errors: less is noise.
const MARGIN: f64 = 0.02;
const ERRORS: f64 = 1.3;
/// Trials of a step before it is kept.
const TRIALS: usize = 2;
/// No trial begins while those before have cost more than this share of all response time, gains set against losses.
const REGRET: f64 = 0.02;
/// A trial is with the drive for so many times as long as it is measured: it settles before, and the drive after it.
const UNSEEN: f64 = 1.0 + 2.0 / SETTLING as f64;
/// A step on probation may not have lowered the share of hits by more than this.
const FEWER_HITS: f64 = 0.02;
/// Weight of the latest span in what is remembered of spans without a trial: about the last eight.
const MEMORY: f64 = 0.25;
/// Spans without a trial after which a step that was kept is judged again.
const PROBATION: u32 = 6;
/// The share of a span, at its start, that is not measured: what the step changed has to take effect.
const SETTLING: u64 = 4;
/// A trial whose mean response time is so many times that before ends at once.
const INTOLERABLE: f64 = 1.5;
/// A step is not kept that comes nearer to a cap than this: a span is a sample of what is to come.
const HEADROOM: f64 = 0.95;
/// A trial that is so far beyond a cap that held ends at once; nearer to it, it may be a few slow requests.
const CLEARLY_BEYOND: f64 = 1.1;
/// Responses that say as much.
const ENOUGH: u64 = 64;
/// Steps that can be taken back.
const LONGEST_PATH: usize = 64;
const STEP: u64 = 4;
/// Turns that a way may rest.
const LONGEST_REST: u32 = 63;
const DAY_S: f64 = 86_400.0;

/// What may be moved: settings whose every value is safe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Knob {
    Threshold,
    Window,
    Moves,
    Delay,
}

impl Knob {
    fn name(self) -> &'static str {
        match self {
            Knob::Threshold => "placement.promotion.threshold",
            Knob::Window => "placement.promotion.window",
            Knob::Moves => "placement.max_moves",
            Knob::Delay => "placement.writeback.delay",
        }
    }

    fn get(self, tuning: &Tuning) -> u64 {
        match self {
            Knob::Threshold => u64::from(tuning.promotion_threshold),
            Knob::Window => tuning.promotion_window.0,
            Knob::Moves => u64::from(tuning.max_moves),
            Knob::Delay => tuning.writeback_delay.0,
        }
    }

    fn set(self, tuning: &mut Tuning, value: u64) {
        match self {
            Knob::Threshold => tuning.promotion_threshold = value as u32,
            Knob::Window => tuning.promotion_window = Nanos(value),
            Knob::Moves => tuning.max_moves = value as u32,
            Knob::Delay => tuning.writeback_delay = Nanos(value),
        }
    }

    /// Whether such a step moves less data in, which is faster at once, whatever it costs afterwards.
    fn moves_less(self, up: bool) -> bool {
        match self {
            Knob::Threshold => up,
            Knob::Window | Knob::Moves => !up,
            Knob::Delay => false,
        }
    }

    /// Four times or a quarter as much (half a step is lost in the noise), within bounds; none where there is no further
    /// to go.
    fn step(self, value: u64, up: bool, most_moves: u64) -> Option<u64> {
        let second = Nanos::from_s(1).0;
        let (least, most, smallest) = match self {
            Knob::Threshold => (0, 256, 1),
            Knob::Window => (second, 3600 * second, second),
            Knob::Moves => (1, most_moves, 1),
            Knob::Delay => (0, 600 * second, second),
        };
        let next = match up {
            true => (value * STEP).max(smallest),
            // Below the smallest step there is nothing but the end.
            false if value <= smallest => least,
            false => (value / STEP).max(smallest.min(value / 2)),
        };
        let next = next.clamp(least, most.max(least));
        (next != value).then_some(next)
    }
}

/// What failed is not tried again soon, and the more often it failed the later.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    left: u32,
    next: u32,
}

/// What a span was like.
#[derive(Clone, Copy, Debug)]
struct Sample {
    mean_ns: f64,
    /// Standard error of the mean, as a share of it.
    error: f64,
    p99_ns: f64,
    fast_bytes_per_day: f64,
    hit_ratio: f64,
    /// All response times together.
    total_ns: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    Without,
    Trial,
}

/// What has been counted since the ledger began.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    /// Bytes written to the fast device.
    pub(crate) written: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

/// The logarithm of the score of spans without a trial, as remembered, and their share of hits.
#[derive(Clone, Copy, Debug, Default)]
struct Memory {
    spans: u32,
    mean: f64,
    hit_ratio: f64,
    /// Half the mean square of what two spans in a row differ by: their variance, whatever the trend.
    variance: f64,
    last: f64,
}

impl Memory {
    fn add(&mut self, score: f64, hit_ratio: f64) {
        let weight = MEMORY.max(1.0 / f64::from(self.spans + 1));
        self.mean += weight * (score - self.mean);
        self.hit_ratio += weight * (hit_ratio - self.hit_ratio);
        if self.spans > 0 {
            let weight = MEMORY.max(1.0 / f64::from(self.spans));
            self.variance += weight * ((score - self.last).powi(2) / 2.0 - self.variance);
        }
        self.last = score;
        self.spans = self.spans.saturating_add(1);
    }
}

/// A step that was kept, and is judged once more when its late effects have come.
#[derive(Clone, Copy, Debug)]
struct Probation {
    knob: usize,
    up: bool,
    undo: u64,
    /// Without it.
    before: Memory,
    spans: u32,
    sum: f64,
    hits: f64,
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
    /// The settings as they are now: a key and its value, times in ns.
    pub settings: Vec<(&'static str, u64)>,
}

#[derive(Debug)]
pub(crate) struct Climber {
    config: Climb,
    /// As the user has it: the drive owns buffers for so many moves and no more.
    most_moves: u64,
    knobs: Vec<Knob>,
    /// For each knob and way (down, up): how many turns it still rests, and how many it rests after the next failure.
    rests: Vec<[Rest; 2]>,
    /// The knob whose turn it is, which way, and whether the other way has been tried since something was kept.
    at: usize,
    up: bool,
    turned: bool,
    span: Span,
    settling: bool,
    ends: Nanos,
    /// Nothing is done before.
    next_look: Nanos,
    began: Nanos,
    counted: Counted,
    /// The last span without a trial.
    bare: Option<Sample>,
    trial: Option<Sample>,
    /// What the trials of this step gained, as differences of logarithms; less is better.
    gains: Vec<f64>,
    memory: Memory,
    probation: Option<Probation>,
    /// Response time so far, and how much more of it there was for the trials.
    total_ns: f64,
    regret_ns: f64,
    /// What the knob was before the trial.
    undo: Option<u64>,
    /// The steps that were kept, and what their knobs were before: the way back.
    path: Vec<(Knob, u64)>,
    view: ClimbView,
}

impl Climber {
    /// A climber for placements that have something to climb on, if the tuning asks for one.
    pub(crate) fn new(placement: &Placement, tuning: &Tuning) -> Option<Box<Climber>> {
        let config = tuning.climb.clone()?;
        let mut knobs = vec![Knob::Threshold, Knob::Moves, Knob::Window];
        match placement {
            Placement::Tiering(_) => {}
            Placement::Caching(_) if tuning.write == WritePolicy::Back => knobs.push(Knob::Delay),
            Placement::Caching(_) => {}
            _ => return None,
        }
        Some(Box::new(Climber {
            config,
            most_moves: u64::from(tuning.max_moves),
            rests: vec![[Rest::default(); 2]; knobs.len()],
            knobs,
            at: 0,
            up: false,
            turned: false,
            span: Span::Without,
            settling: true,
            ends: Nanos::ZERO,
            next_look: Nanos::ZERO,
            began: Nanos::ZERO,
            counted: Counted::default(),
            bare: None,
            trial: None,
            gains: Vec::with_capacity(TRIALS),
            memory: Memory::default(),
            probation: None,
            total_ns: 0.0,
            regret_ns: 0.0,
            undo: None,
            path: Vec::new(),
            view: ClimbView::default(),
        }))
    }

    pub(crate) fn view(&self, tuning: &Tuning) -> ClimbView {
        let settings = self.knobs.iter().map(|knob| (knob.name(), knob.get(tuning))).collect();
        ClimbView { settings, ..self.view.clone() }
    }

    /// Something may be due. Changes the tuning in `core`, and says whether it did.
    pub(crate) fn tick(&mut self, core: &mut Core, now: Nanos, counted: Counted) -> bool {
        if self.ends == Nanos::ZERO {
            self.settle(now, Span::Without);
        }
        let mut changed = false;
        if now >= self.ends {
            changed = self.next(core, now, counted);
        } else if self.span == Span::Trial && !self.settling && self.intolerable(core, now, counted) {
            self.view.given_up += 1;
            let sample = self.sample(core, now, counted);
            self.account(&sample);
            self.give_up(core, now);
            changed = true;
        }
        // A trial is looked at more often.
        self.next_look = self.ends.min(now.saturating_add(Nanos((self.config.every.0 / SETTLING).max(1))));
        core.due(self.next_look);
        changed
    }

    /// Whether [`Climber::tick`] has something to do; if not yet, the clock is told when.
    pub(crate) fn is_due(&self, core: &mut Core, now: Nanos) -> bool {
        core.due(self.next_look);
        now >= self.next_look
    }

    /// The ledger starts anew, and with it the span under way.
    pub(crate) fn books_reset(&mut self, core: &mut Core) {
        self.counted = Counted::default();
        if !self.settling {
            self.began = core.now;
            self.ends = core.now.saturating_add(self.config.every);
            core.responses_mut().clear();
        }
    }

    fn settle(&mut self, now: Nanos, span: Span) {
        (self.span, self.settling) = (span, true);
        self.ends = now.saturating_add(Nanos((self.config.every.0 / SETTLING).max(1)));
    }

    fn next(&mut self, core: &mut Core, now: Nanos, counted: Counted) -> bool {
        if self.settling {
            self.settling = false;
            (self.began, self.counted) = (now, counted);
            self.ends = now.saturating_add(self.config.every);
            core.responses_mut().clear();
            return false;
        }
        if core.responses_mut().count() < u64::from(self.config.requests.max(1)) {
            // Too little to judge by: the span goes on.
            self.ends = now.saturating_add(self.config.every);
            return false;
        }
        let sample = self.sample(core, now, counted);
        self.account(&sample);
        match self.span {
            Span::Trial => {
                self.trial = Some(sample);
                self.swap(core);
                self.settle(now, Span::Without);
                true
            }
            Span::Without => {
                self.memory.add(self.score(&sample), sample.hit_ratio);
                let before = self.bare.replace(sample);
                if let (Some(before), Some(trial)) = (before, self.trial.take()) {
                    return self.judge(core, now, &before, &trial, &sample);
                }
                self.go_back(core, now, &sample) || self.regret(core, now, &sample) || self.try_next(core, now)
            }
        }
    }

    fn sample(&self, core: &mut Core, now: Nanos, counted: Counted) -> Sample {
        let span_s = (now - self.began).as_s_f64().max(1e-9);
        let since = |now: u64, then: u64| now.saturating_sub(then) as f64;
        let (hits, misses) = (since(counted.hits, self.counted.hits), since(counted.misses, self.counted.misses));
        let responses: &Responses = core.responses_mut();
        Sample {
            mean_ns: responses.mean_ns(),
            error: responses.relative_error(),
            p99_ns: responses.p99_ns(),
            fast_bytes_per_day: since(counted.written, self.counted.written) / span_s * DAY_S,
            hit_ratio: hits / (hits + misses).max(1.0),
            total_ns: responses.mean_ns() * responses.count() as f64,
        }
    }

    /// Adds a span to what all cost, and a trial to what it cost more than the span before it.
    fn account(&mut self, sample: &Sample) {
        self.total_ns += sample.total_ns;
        if let (Span::Trial, Some(bare)) = (self.span, &self.bare) {
            self.regret_ns += UNSEEN * sample.total_ns * (1.0 - bare.mean_ns / sample.mean_ns.max(1.0));
        }
    }

    /// Takes the next step, on this knob or another.
    fn try_next(&mut self, core: &mut Core, now: Nanos) -> bool {
        // What it costs to keep to a cap is not asked.
        let beyond = self.bare.is_some_and(|bare| self.strain(&bare) > 1.0);
        if self.regret_ns > REGRET * self.total_ns && !beyond {
            self.settle(now, Span::Without);
            return false;
        }
        for _ in 0..self.knobs.len() * 2 {
            let knob = self.knobs[self.at];
            let value = knob.get(&core.tuning);
            let rest = &mut self.rests[self.at][usize::from(self.up)];
            if rest.left > 0 {
                // A turn of rest is a span in which nothing is tried.
                rest.left -= 1;
                self.turn();
                break;
            }
            if let Some(next) = knob.step(value, self.up, self.most_moves) {
                knob.set(&mut core.tuning, next);
                self.undo = Some(value);
                self.gains.clear();
                self.view.tried += 1;
                self.settle(now, Span::Trial);
                return true;
            }
            self.turn();
        }
        // Nowhere to go now: look again after the next span.
        self.settle(now, Span::Without);
        false
    }

    fn failed(&mut self) {
        let rest = &mut self.rests[self.at][usize::from(self.up)];
        rest.next = (rest.next * 2 + 1).min(LONGEST_REST);
        rest.left = rest.next;
        self.turn();
    }

    /// The other way, or the next knob if both have been tried.
    fn turn(&mut self) {
        if self.turned {
            self.at = (self.at + 1) % self.knobs.len();
        }
        self.turned = !self.turned;
        self.up = !self.up;
    }

    /// Beyond a cap the latest step is taken back, whatever it was good for: the workload may have changed since.
    fn go_back(&mut self, core: &mut Core, now: Nanos, sample: &Sample) -> bool {
        if self.strain(sample) <= 1.0 {
            return false;
        }
        let Some((knob, value)) = self.path.pop() else { return false };
        self.probation = None;
        knob.set(&mut core.tuning, value);
        self.view.taken_back += 1;
        self.settle(now, Span::Without);
        true
    }

    /// A step that was kept and did the drive no good in the end is taken back: what it did at once was not all.
    fn regret(&mut self, core: &mut Core, now: Nanos, sample: &Sample) -> bool {
        let score = self.score(sample);
        let Some(probation) = &mut self.probation else { return false };
        probation.spans += 1;
        probation.sum += score;
        probation.hits += sample.hit_ratio;
        if probation.spans < PROBATION {
            return false;
        }
        let Some(probation) = self.probation.take() else { return false };
        let spans = f64::from(probation.spans);
        let slower = probation.sum / spans > probation.before.mean + MARGIN;
        if !slower && probation.hits / spans >= probation.before.hit_ratio - FEWER_HITS {
            return false;
        }
        self.view.regretted += 1;
        self.knobs[probation.knob].set(&mut core.tuning, probation.undo);
        self.path.pop();
        let rest = &mut self.rests[probation.knob][usize::from(probation.up)];
        *rest = Rest { left: LONGEST_REST, next: LONGEST_REST };
        self.settle(now, Span::Without);
        true
    }

    /// With the step if it was off, without it if it was on.
    fn swap(&mut self, core: &mut Core) {
        if let Some(value) = &mut self.undo {
            let knob = self.knobs[self.at];
            let now = knob.get(&core.tuning);
            knob.set(&mut core.tuning, *value);
            *value = now;
        }
    }

    fn give_up(&mut self, core: &mut Core, now: Nanos) {
        self.swap(core);
        (self.undo, self.trial) = (None, None);
        self.failed();
        self.settle(now, Span::Without);
    }

    /// After a trial, between two spans without it.
    fn judge(&mut self, core: &mut Core, now: Nanos, before: &Sample, trial: &Sample, after: &Sample) -> bool {
        let Some(tried) = self.undo else { return self.try_next(core, now) };
        let caps = self.judge_caps(trial, before, after);
        self.gains.push(self.score(trial) - (self.score(before) + self.score(after)) / 2.0);
        // While the fast device fills, every span has more hits than the one before: less data has to make more of them than
        // even the next one has.
        let keeps_hits = if self.knobs[self.at].moves_less(self.up) {
            trial.hit_ratio > before.hit_ratio.max(after.hit_ratio)
        } else {
            trial.hit_ratio >= before.hit_ratio.min(after.hit_ratio)
        };
        let better = caps
            .unwrap_or_else(|| keeps_hits && self.score(trial) < self.score(before).min(self.score(after)) - MARGIN);
        if better && caps.is_none() && self.gains.len() < TRIALS {
            // Once more.
            self.swap(core);
            self.settle(now, Span::Trial);
            return true;
        }
        if !better || (caps.is_none() && !self.is_significant(trial)) {
            self.undo = None;
            self.failed();
            return self.go_back(core, now, after) || self.try_next(core, now);
        }
        self.view.kept += 1;
        let (knob, up) = (self.at, self.up);
        let undo = self.knobs[knob].get(&core.tuning);
        self.turned = false;
        // Elsewhere other steps may be of use.
        self.rests.fill([Rest::default(); 2]);
        // A step towards a cap that does not hold is no part of the way that led beyond it.
        if self.strain(before).max(self.strain(after)) <= 1.0 {
            self.path.push((self.knobs[knob], undo));
            self.probation = Some(Probation { knob, up, undo, before: self.memory, spans: 0, sum: 0.0, hits: 0.0 });
        }
        if self.path.len() > LONGEST_PATH {
            self.path.remove(0);
        }
        self.knobs[knob].set(&mut core.tuning, tried);
        self.undo = None;
        // What the drive is like with it is measured anew, beside the next step.
        self.memory = Memory::default();
        self.settle(now, Span::Without);
        true
    }

    /// Beyond a cap, the way back to it is what counts: whether the step leads there. `None` where all caps hold.
    fn judge_caps(&self, trial: &Sample, before: &Sample, after: &Sample) -> Option<bool> {
        let (with, bare) = (self.strain(trial), self.strain(before).min(self.strain(after)));
        (with > HEADROOM || bare > 1.0).then_some(bare > 1.0 && with < bare * (1.0 - MARGIN))
    }

    /// Whether the trials gained more than spans differ by themselves.
    fn is_significant(&self, trial: &Sample) -> bool {
        let trials = self.gains.len().max(1) as f64;
        let gain = self.gains.iter().sum::<f64>() / trials;
        // A span, less the mean of its two neighbours.
        let spread = (self.memory.variance * 1.5 / trials).sqrt();
        let counting = self.config.latency * trial.error * (1.5 / trials).sqrt();
        gain < -MARGIN.max(ERRORS * spread.max(counting))
    }

    /// The logarithm of what is to be least.
    fn score(&self, sample: &Sample) -> f64 {
        self.config.latency * sample.mean_ns.max(1.0).ln() + self.config.wear * sample.fast_bytes_per_day.max(1.0).ln()
    }

    /// How far beyond its caps a span was: at most 1 within all of them.
    fn strain(&self, sample: &Sample) -> f64 {
        let time = |cap: Option<Nanos>, value: f64| cap.map_or(0.0, |cap| value / cap.0.max(1) as f64);
        let bytes = |cap: Option<Bytes>, value: f64| cap.map_or(0.0, |cap| value / cap.0.max(1) as f64);
        time(self.config.mean_cap, sample.mean_ns)
            .max(time(self.config.p99_cap, sample.p99_ns))
            .max(bytes(self.config.fast_bytes_per_day, sample.fast_bytes_per_day))
    }

    /// Whether a trial is so bad that its end need not be waited for: much slower, or clearly beyond a cap that held.
    fn intolerable(&self, core: &mut Core, now: Nanos, counted: Counted) -> bool {
        if core.responses_mut().count() < ENOUGH {
            return false;
        }
        let Some(before) = self.bare else { return false };
        let trial = self.sample(core, now, counted);
        let beyond = self.strain(&before) > 1.0;
        let slow = trial.mean_ns * (1.0 - trial.error) > before.mean_ns * INTOLERABLE;
        (slow && !beyond) || self.strain(&trial) > CLEARLY_BEYOND * self.strain(&before).max(1.0)
    }
}
