//! Predicts the fast device's response time from recent requests and from its recent service times (MixedStore, section
//! 5.1): `R = c0 + c1 W + c2 S`, by recursive least squares.

use std::collections::VecDeque;

use peryton_units::{Bytes, Nanos, Op};

use super::{PartitionStats, Predict};

/// The features: constant, read share, sequentiality, inter-arrival time, request size, mean service time.
const FEATURES: usize = 6;
type Row = [f64; FEATURES];
/// The weight of a sample relative to the next one: roughly the last thousand count.
const FORGETTING: f64 = 0.999;
/// The initial uncertainty of the coefficients, and the largest that is allowed.
const UNCERTAIN: f64 = 1e3;
const MOST_UNCERTAIN: f64 = 1e9;
/// Predictions of the model are used after this many samples; before, the mean service time is used instead.
const LEAST_SAMPLES: u32 = 32;
/// The errors of the model and of its substitute are compared over about this many samples (reciprocal).
const ERROR_MEMORY: f64 = 1.0 / 64.0;
/// The model is not used if its error is more than this many times that of the substitute.
const MOST_ERROR: f64 = 2.0;
/// The longest response time that is considered possible.
const ABSURD_S: f64 = 60.0;

/// A prediction, and what it was based on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Prediction {
    /// The response time.
    pub(super) expected: Nanos,
    row: Row,
    /// The prediction of the model in ms, whether it is used or not.
    modelled_ms: f64,
    /// The prediction of the baseline.
    last_value: Nanos,
    /// Whether the model made the prediction, and not its substitute.
    modelled: bool,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    read: bool,
    sequential: bool,
    gap: Nanos,
}

#[derive(Debug)]
pub(super) struct Predictor {
    kind: Predict,
    window: usize,
    seen: VecDeque<Seen>,
    reads: u32,
    sequential: u32,
    gaps: u64,
    service: VecDeque<Nanos>,
    service_sum: u64,
    last: Option<Nanos>,
    coefficients: Row,
    covariance: [Row; FEATURES],
    samples: u32,
    /// Number of host writes so far.
    writes: u32,
    /// Mean recent errors of the model and of its substitute, in ms.
    model_error: f64,
    stand_in_error: f64,
}

fn identity() -> [Row; FEATURES] {
    std::array::from_fn(|row| std::array::from_fn(|column| if row == column { UNCERTAIN } else { 0.0 }))
}

fn dot(a: &Row, b: &Row) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

impl Predictor {
    pub(super) fn new(kind: Predict) -> Predictor {
        let window = match kind {
            Predict::Linear { window, .. } => window as usize,
            _ => 1,
        };
        Predictor {
            kind,
            window,
            seen: VecDeque::new(),
            reads: 0,
            sequential: 0,
            gaps: 0,
            service: VecDeque::new(),
            service_sum: 0,
            last: None,
            coefficients: [0.0; FEATURES],
            covariance: identity(),
            samples: 0,
            writes: 0,
            model_error: 0.0,
            stand_in_error: 0.0,
        }
    }

    pub(super) fn arrived(&mut self, op: Op, sequential: bool, gap: Nanos) {
        self.writes = self.writes.saturating_add(u32::from(op == Op::Write));
        if !matches!(self.kind, Predict::Linear { .. }) {
            return;
        }
        // A pause says nothing about the rate before it.
        let seen = Seen { read: op == Op::Read, sequential, gap: gap.min(Nanos::from_s(1)) };
        self.seen.push_back(seen);
        self.reads += u32::from(seen.read);
        self.sequential += u32::from(seen.sequential);
        self.gaps += seen.gap.0;
        if self.seen.len() > self.window {
            let old = self.seen.pop_front().expect("longer than the window");
            self.reads -= u32::from(old.read);
            self.sequential -= u32::from(old.sequential);
            self.gaps -= old.gap.0;
        }
    }

    /// Records that the device has served a request.
    pub(super) fn served(&mut self, took: Nanos) {
        self.last = Some(took);
        self.service.push_back(took);
        self.service_sum = self.service_sum.saturating_add(took.0);
        if self.service.len() > self.window {
            let old = self.service.pop_front().expect("longer than the window");
            self.service_sum = self.service_sum.saturating_sub(old.0);
        }
    }

    fn row(&self, len: Bytes) -> Row {
        let count = self.seen.len().max(1) as f64;
        let service_ms = self.service_sum as f64 / 1e6 / self.service.len().max(1) as f64;
        [
            1.0,
            f64::from(self.reads) / count,
            f64::from(self.sequential) / count,
            self.gaps as f64 / 1e6 / count,
            len.0 as f64 / 65536.0,
            service_ms,
        ]
    }

    /// The predicted response time of a write of this length; `None` before the first measurement.
    pub(super) fn predict(&self, len: Bytes) -> Option<Prediction> {
        let last_value = self.last?;
        let (row, modelled_ms, expected, modelled) = match self.kind {
            Predict::Off => return None,
            Predict::LastValue => ([0.0; FEATURES], 0.0, last_value, true),
            Predict::Linear { .. } => {
                let row = self.row(len);
                let modelled_ms = dot(&self.coefficients, &row);
                let sound = self.samples >= LEAST_SAMPLES
                    && modelled_ms.is_finite()
                    && self.model_error <= MOST_ERROR * self.stand_in_error;
                // A model that says less than nothing still says "soon".
                let ms = if sound { modelled_ms.clamp(0.0, ABSURD_S * 1e3) } else { row[FEATURES - 1] };
                (row, modelled_ms, Nanos((ms * 1e6) as u64), sound)
            }
        };
        Some(Prediction { expected, row, modelled_ms, last_value, modelled })
    }

    /// Updates the mean errors of the model and of its substitute.
    fn compare(&mut self, prediction: &Prediction, took: Nanos) {
        let took_ms = (took.0 as f64 / 1e6).min(ABSURD_S * 1e3);
        if self.samples >= LEAST_SAMPLES && prediction.modelled_ms.is_finite() {
            let modelled_ms = prediction.modelled_ms.clamp(0.0, ABSURD_S * 1e3);
            self.model_error += ((modelled_ms - took_ms).abs() - self.model_error) * ERROR_MEMORY;
            self.stand_in_error +=
                ((prediction.row[FEATURES - 1] - took_ms).abs() - self.stand_in_error) * ERROR_MEMORY;
        }
    }

    /// Records the response time of a predicted write.
    pub(super) fn learn(&mut self, prediction: &Prediction, took: Nanos, stats: &mut PartitionStats) {
        if prediction.modelled {
            stats.predicted += 1;
            stats.error_ns += prediction.expected.0.abs_diff(took.0);
            stats.last_value_error_ns += prediction.last_value.0.abs_diff(took.0);
            stats.response_ns += took.0;
            let (took, expected) = (took.0 as f64 / 1e6, prediction.expected.0 as f64 / 1e6);
            stats.response_squares += took * took;
            stats.residual_squares += (took - expected) * (took - expected);
        }
        let Predict::Linear { training, .. } = self.kind else { return };
        stats.stand_ins += u64::from(!prediction.modelled);
        self.compare(prediction, took);
        if training > 0 && self.writes > training {
            return;
        }
        self.samples = self.samples.saturating_add(1);
        let forgetting = if training > 0 { 1.0 } else { FORGETTING };
        let (row, target) = (&prediction.row, took.0 as f64 / 1e6);
        let spread: Row = std::array::from_fn(|index| dot(&self.covariance[index], row));
        let scale = forgetting + dot(&spread, row);
        let error = target - dot(&self.coefficients, row);
        for (coefficient, spread) in self.coefficients.iter_mut().zip(&spread) {
            *coefficient += spread / scale * error;
        }
        for (index, covariance) in self.covariance.iter_mut().enumerate() {
            for (column, value) in covariance.iter_mut().enumerate() {
                *value = (*value - spread[index] * spread[column] / scale) / forgetting;
            }
        }
        // A coefficient that is not excited any more would grow without bound, and with it the predictions.
        let sound = self.coefficients.iter().all(|value| value.is_finite())
            && (0..FEATURES).all(|index| (0.0..MOST_UNCERTAIN).contains(&self.covariance[index][index]));
        if !sound {
            stats.resets += 1;
            self.covariance = identity();
            if self.coefficients.iter().any(|value| !value.is_finite()) {
                self.coefficients = [0.0; FEATURES];
                self.samples = 0;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn online() -> Predictor {
        Predictor::new(Predict::Linear { window: 16, training: 0 })
    }

    /// The response time grows with the size and with the recent service times.
    fn teach(predictor: &mut Predictor, rounds: u64, stats: &mut PartitionStats) {
        for round in 0..rounds {
            let len = Bytes::kib(4 << (round % 6));
            let service = Nanos::from_us(100 + (round % 50) * 10);
            predictor.arrived(if round % 3 == 0 { Op::Read } else { Op::Write }, round % 2 == 0, Nanos::from_us(500));
            let prediction = predictor.predict(len);
            let mean = predictor.row(len)[FEATURES - 1];
            let took = Nanos(((0.2 + 0.5 * len.0 as f64 / 65536.0 + 2.0 * mean) * 1e6) as u64);
            if let Some(prediction) = prediction {
                predictor.learn(&prediction, took, stats);
            }
            predictor.served(service);
        }
    }

    #[test]
    fn it_learns_what_is_linear_and_beats_the_last_value() {
        let (mut predictor, mut stats) = (online(), PartitionStats::default());
        teach(&mut predictor, 2000, &mut stats);
        let (error, last) = (stats.error_ns as f64, stats.last_value_error_ns as f64);
        assert!(stats.predicted > 1900 && error < last / 20.0, "{error} against {last}");
        assert!(stats.r_squared().unwrap() > 0.98, "{:?}", stats.r_squared());
    }

    #[test]
    fn after_training_the_model_does_not_change() {
        let mut predictor = Predictor::new(Predict::Linear { window: 16, training: 100 });
        let mut stats = PartitionStats::default();
        teach(&mut predictor, 200, &mut stats);
        let before = predictor.coefficients;
        teach(&mut predictor, 200, &mut stats);
        assert_eq!(predictor.coefficients, before);
    }

    #[test]
    fn a_model_that_is_worse_than_the_mean_is_not_used() {
        let mut predictor = Predictor::new(Predict::Linear { window: 16, training: 100 });
        teach(&mut predictor, 200, &mut PartitionStats::default());
        // The device has changed: it is ten times as fast, and size does not matter.
        let mut stats = PartitionStats::default();
        for _ in 0..500 {
            predictor.arrived(Op::Write, false, Nanos::from_us(500));
            let prediction = predictor.predict(Bytes::kib(128)).unwrap();
            predictor.learn(&prediction, Nanos::from_us(30), &mut stats);
            predictor.served(Nanos::from_us(30));
        }
        assert!(stats.stand_ins > 400, "{stats:?}");
        let prediction = predictor.predict(Bytes::kib(128)).unwrap();
        assert_eq!(prediction.expected, Nanos::from_us(30));
    }

    #[test]
    fn impossible_times_do_not_spoil_later_predictions() {
        let (mut predictor, mut stats) = (online(), PartitionStats::default());
        teach(&mut predictor, 500, &mut stats);
        for took in [u64::MAX, 0, u64::MAX / 2, 1] {
            predictor.served(Nanos(took));
            let prediction = predictor.predict(Bytes(u64::MAX)).unwrap();
            predictor.learn(&prediction, Nanos(took), &mut PartitionStats::default());
        }
        for _ in 0..16 {
            predictor.served(Nanos::from_us(100));
        }
        teach(&mut predictor, 20_000, &mut PartitionStats::default());
        let mut stats = PartitionStats::default();
        teach(&mut predictor, 1000, &mut stats);
        let mean_us = stats.error_ns as f64 / 1e3 / stats.predicted as f64;
        assert!(mean_us < 200.0, "still off by {mean_us} us");
    }
}
