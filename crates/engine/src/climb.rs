//! Hill climbing while the drive runs (GreenDM, section 5, names it as future work): one setting is moved a step, tried
//! between two spans without the step, and kept if the drive did better with it than in both, within the caps. Workloads
//! change by themselves, and what came and stayed, or went, is no merit of the step.

use peryton_units::{Bytes, Nanos};
use serde::Serialize;

use crate::{
    config::{Climb, Placement, Tuning, WritePolicy},
    core::Core,
    responses::Responses,
};

/// A step has to be better by this share to be kept, and by so many standard errors: less is noise.
const MARGIN: f64 = 0.02;
const ERRORS: f64 = 1.0;
/// The share of a span, at its start, that is not measured: what the step changed has to take effect.
const SETTLING: u64 = 4;
/// A trial whose mean response time is so many times that before ends at once.
const INTOLERABLE: f64 = 2.0;
/// A step is not kept that comes nearer to a cap than this: a span is a sample of what is to come.
const HEADROOM: f64 = 0.95;
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

    /// Four times or a quarter as much, within bounds: half a step is lost in the noise; none where there is no further to go. `given` is what the user set: the
    /// drive owns buffers for so many moves and no more.
    fn step(self, value: u64, up: bool, given: u64) -> Option<u64> {
        let second = Nanos::from_s(1).0;
        let (least, most, smallest) = match self {
            Knob::Threshold => (0, 256, 1),
            Knob::Window => (second, 3600 * second, second),
            Knob::Moves => (1, given, 1),
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
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Span {
    Before,
    Trial,
    After,
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
    /// The settings as they are now: a key and its value, times in ns.
    pub settings: Vec<(&'static str, u64)>,
}

#[derive(Debug)]
pub(crate) struct Climber {
    config: Climb,
    /// The user's settings, where the climb began.
    given: Tuning,
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
    written: u64,
    before: Option<Sample>,
    trial: Option<Sample>,
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
        let knobs = match placement {
            Placement::Tiering(_) => vec![Knob::Threshold, Knob::Moves, Knob::Window],
            Placement::Caching(_) if tuning.write == WritePolicy::Back => {
                vec![Knob::Threshold, Knob::Moves, Knob::Window, Knob::Delay]
            }
            Placement::Caching(_) => vec![Knob::Threshold, Knob::Moves, Knob::Window],
            _ => return None,
        };
        Some(Box::new(Climber {
            config,
            given: tuning.clone(),
            rests: vec![[Rest::default(); 2]; knobs.len()],
            knobs,
            at: 0,
            up: false,
            turned: false,
            span: Span::Before,
            settling: true,
            ends: Nanos::ZERO,
            next_look: Nanos::ZERO,
            began: Nanos::ZERO,
            written: 0,
            before: None,
            trial: None,
            undo: None,
            path: Vec::new(),
            view: ClimbView::default(),
        }))
    }

    pub(crate) fn view(&self, tuning: &Tuning) -> ClimbView {
        let settings = self.knobs.iter().map(|knob| (knob.name(), knob.get(tuning))).collect();
        ClimbView { settings, ..self.view.clone() }
    }

    /// Something may be due. `written`: bytes that the fast device has been written so far. Changes the tuning in
    /// `core`, and says whether it did.
    pub(crate) fn tick(&mut self, core: &mut Core, now: Nanos, written: u64) -> bool {
        if self.ends == Nanos::ZERO {
            self.settle(now, Span::Before);
        }
        let mut changed = false;
        if now >= self.ends {
            changed = self.next(core, now, written);
        } else if self.span == Span::Trial && !self.settling && self.intolerable(core, now, written) {
            self.view.given_up += 1;
            self.trial = None;
            changed = self.take_back(core, now);
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
        self.written = 0;
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

    fn next(&mut self, core: &mut Core, now: Nanos, written: u64) -> bool {
        if self.settling {
            self.settling = false;
            (self.began, self.written) = (now, written);
            self.ends = now.saturating_add(self.config.every);
            core.responses_mut().clear();
            return false;
        }
        if core.responses_mut().count() < u64::from(self.config.requests.max(1)) {
            // Too little to judge by: the span goes on.
            self.ends = now.saturating_add(self.config.every);
            return false;
        }
        let sample = self.sample(core, now, written);
        match self.span {
            Span::Before => {
                self.before = Some(sample);
                self.go_back(core, now, &sample) || self.try_next(core, now)
            }
            Span::Trial => {
                self.trial = Some(sample);
                self.take_back(core, now)
            }
            Span::After => self.judge(core, now, sample),
        }
    }

    fn sample(&self, core: &mut Core, now: Nanos, written: u64) -> Sample {
        let span_s = (now - self.began).as_s_f64().max(1e-9);
        let responses: &Responses = core.responses_mut();
        Sample {
            mean_ns: responses.mean_ns(),
            error: responses.relative_error(),
            p99_ns: responses.p99_ns(),
            fast_bytes_per_day: written.saturating_sub(self.written) as f64 / span_s * DAY_S,
        }
    }

    /// Takes the next step, on this knob or another.
    fn try_next(&mut self, core: &mut Core, now: Nanos) -> bool {
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
            if let Some(next) = knob.step(value, self.up, knob.get(&self.given)) {
                knob.set(&mut core.tuning, next);
                self.undo = Some(value);
                self.view.tried += 1;
                self.settle(now, Span::Trial);
                return true;
            }
            self.turn();
        }
        // Nowhere to go now: look again after the next span.
        self.settle(now, Span::Before);
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
        knob.set(&mut core.tuning, value);
        self.view.taken_back += 1;
        self.settle(now, Span::Before);
        true
    }

    fn take_back(&mut self, core: &mut Core, now: Nanos) -> bool {
        if let Some(value) = self.undo {
            let knob = self.knobs[self.at];
            let tried = knob.get(&core.tuning);
            knob.set(&mut core.tuning, value);
            self.undo = Some(tried);
        }
        self.settle(now, Span::After);
        true
    }

    fn judge(&mut self, core: &mut Core, now: Nanos, after: Sample) -> bool {
        let tried = self.undo.take();
        let (Some(before), Some(trial), Some(tried)) = (self.before, self.trial.take(), tried) else {
            self.before = Some(after);
            self.failed();
            return self.try_next(core, now);
        };
        if self.is_better(&trial, &before) && self.is_better(&trial, &after) {
            self.view.kept += 1;
            self.turned = false;
            // Elsewhere other steps may be of use.
            self.rests.fill([Rest::default(); 2]);
            let knob = self.knobs[self.at];
            // A step towards a cap that does not hold is no part of the way that led beyond it.
            if self.strain(&before).max(self.strain(&after)) <= 1.0 {
                self.path.push((knob, knob.get(&core.tuning)));
            }
            if self.path.len() > LONGEST_PATH {
                self.path.remove(0);
            }
            knob.set(&mut core.tuning, tried);
            // What the drive is like with it is measured anew, beside the next step.
            self.settle(now, Span::Before);
            return true;
        }
        self.before = Some(after);
        self.failed();
        self.go_back(core, now, &after) || self.try_next(core, now)
    }

    fn is_better(&self, trial: &Sample, without: &Sample) -> bool {
        let (with, bare) = (self.strain(trial), self.strain(without));
        if with > HEADROOM || bare > 1.0 {
            // Beyond a cap, the way back to it is what counts.
            return bare > 1.0 && with < bare * (1.0 - MARGIN);
        }
        let noise = ERRORS * self.config.latency * trial.error.hypot(without.error);
        self.score(trial) < self.score(without) * (1.0 - MARGIN.max(noise))
    }

    /// Less is better.
    fn score(&self, sample: &Sample) -> f64 {
        sample.mean_ns.max(1.0).powf(self.config.latency) * sample.fast_bytes_per_day.max(1.0).powf(self.config.wear)
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
    fn intolerable(&self, core: &mut Core, now: Nanos, written: u64) -> bool {
        if core.responses_mut().count() < ENOUGH {
            return false;
        }
        let Some(before) = self.before else { return false };
        let trial = self.sample(core, now, written);
        trial.mean_ns > before.mean_ns * INTOLERABLE
            || self.strain(&trial) > CLEARLY_BEYOND * self.strain(&before).max(1.0)
    }
}
