//! Measurements of spans, and what is remembered of them.

use super::{DAY_S, MARGIN, budget::Of};

/// Weight of the latest span in the memory of spans without a trial; roughly the last eight count.
const MEMORY: f64 = 0.25;
/// Number of spans without a trial after which a kept step is judged again.
const PROBATION: u32 = 6;
/// A step on probation must not have lowered the hit ratio by more than this.
const FEWER_HITS: f64 = 0.02;

/// The measurements of a span.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) mean_ns: f64,
    /// Standard error of the mean, relative to the mean.
    pub(super) error: f64,
    pub(super) p99_ns: f64,
    pub(super) written_per_s: f64,
    pub(super) programmed_per_s: f64,
    pub(super) drawn_uw: f64,
    pub(super) hit_ratio: f64,
    /// Sum of all response times.
    pub(super) total_ns: f64,
}

impl Sample {
    pub(super) fn fast_bytes_per_day(&self) -> f64 {
        self.written_per_s * DAY_S
    }

    /// Spending per second.
    pub(super) fn spent(&self, of: Of) -> f64 {
        match of {
            Of::Written => self.written_per_s,
            Of::Programmed => self.programmed_per_s,
            Of::Drawn => self.drawn_uw,
        }
    }
}

/// The remembered logarithm of the score of spans without a trial, and their hit ratio.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    spans: u32,
    mean: f64,
    hit_ratio: f64,
    /// Half the mean square of the difference of two successive spans: their variance, independent of a trend.
    pub(super) variance: f64,
    last: f64,
}

impl Memory {
    pub(super) fn add(&mut self, score: f64, hit_ratio: f64) {
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

/// A kept step that is judged once more when its late effects have appeared.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probation {
    pub(super) knob: usize,
    pub(super) up: bool,
    /// The memory without the step.
    before: Memory,
    spans: u32,
    sum: f64,
    hits: f64,
}

impl Probation {
    pub(super) fn new(knob: usize, up: bool, before: Memory) -> Probation {
        Probation { knob, up, before, spans: 0, sum: 0.0, hits: 0.0 }
    }

    /// Adds a span with the step. Once there are enough, returns whether the step was an improvement.
    pub(super) fn add(&mut self, score: f64, hit_ratio: f64) -> Option<bool> {
        self.spans += 1;
        self.sum += score;
        self.hits += hit_ratio;
        if self.spans < PROBATION {
            return None;
        }
        let spans = f64::from(self.spans);
        let slower = self.sum / spans > self.before.mean + MARGIN;
        Some(!slower && self.hits / spans >= self.before.hit_ratio - FEWER_HITS)
    }
}
