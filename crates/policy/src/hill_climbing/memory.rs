//! What spans were like, and what is remembered of them.

use super::{DAY_S, MARGIN, budget::Of};

/// Weight of the latest span in what is remembered of spans without a trial: about the last eight.
const MEMORY: f64 = 0.25;
/// Spans without a trial after which a step that was kept is judged again.
const PROBATION: u32 = 6;
/// A step on probation may not have lowered the share of hits by more than this.
const FEWER_HITS: f64 = 0.02;

/// What a span was like.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) mean_ns: f64,
    /// Standard error of the mean, as a share of it.
    pub(super) error: f64,
    pub(super) p99_ns: f64,
    pub(super) written_per_s: f64,
    pub(super) programmed_per_s: f64,
    pub(super) drawn_uw: f64,
    pub(super) hit_ratio: f64,
    /// All response times together.
    pub(super) total_ns: f64,
}

impl Sample {
    pub(super) fn fast_bytes_per_day(&self) -> f64 {
        self.written_per_s * DAY_S
    }

    /// What was spent a second.
    pub(super) fn spent(&self, of: Of) -> f64 {
        match of {
            Of::Written => self.written_per_s,
            Of::Programmed => self.programmed_per_s,
            Of::Drawn => self.drawn_uw,
        }
    }
}

/// The logarithm of the score of spans without a trial, as remembered, and their share of hits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Memory {
    spans: u32,
    mean: f64,
    hit_ratio: f64,
    /// Half the mean square of what two spans in a row differ by: their variance, whatever the trend.
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

/// A step that was kept, and is judged once more when its late effects have come.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probation {
    pub(super) knob: usize,
    pub(super) up: bool,
    /// Without it.
    before: Memory,
    spans: u32,
    sum: f64,
    hits: f64,
}

impl Probation {
    pub(super) fn new(knob: usize, up: bool, before: Memory) -> Probation {
        Probation { knob, up, before, spans: 0, sum: 0.0, hits: 0.0 }
    }

    /// Another span with it; once there have been enough, whether the step did any good.
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
