//! The measured requests in equal parts, in the order in which they arrived: what the intervals of figures are computed from.
//!
//! The number of requests is not known before the end. Parts begin with one request and double in length whenever there are too
//! many of them, so a run ends with between half of [`MOST_PARTS`] and all of them. Two designs that replay the same trace have
//! the same requests in the same parts, so their differences are differences of pairs.

use peryton_units::{Nanos, Op};

use crate::{
    course::{CoarseTimes, kind_of},
    intervals::State,
};

/// The most parts. When there are as many, two become one.
pub(crate) const MOST_PARTS: usize = 64;

/// What the drive had counted at the beginning of a part.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mark {
    pub(crate) at: Nanos,
    pub(crate) fast_hits: u64,
    pub(crate) fast_misses: u64,
    pub(crate) energy_j: f64,
}

impl Mark {
    pub(crate) fn of(at: Nanos, state: &State) -> Mark {
        Mark {
            at,
            fast_hits: state.engine.fast_hits,
            fast_misses: state.engine.fast_misses,
            energy_j: state.devices.iter().map(|device| device.energy_j).sum(),
        }
    }
}

/// The parts of a run so far.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    /// Requests in each part.
    length: u64,
    /// The number of the first measured request.
    first: u64,
    /// The drive at the beginning of each part, the present one included.
    marks: Vec<Mark>,
    /// The response times of each part.
    times: Vec<CoarseTimes>,
}

impl Parts {
    /// Begins the measured span with the request of this number.
    pub(crate) fn begin(&mut self, number: u64) {
        *self = Parts { length: 1, first: number, ..Parts::default() };
    }

    /// Whether the request of this number, which arrives now, begins a part.
    pub(crate) fn begins_with(&self, number: u64) -> bool {
        number - self.first == self.marks.len() as u64 * self.length
    }

    /// Begins a part.
    pub(crate) fn mark(&mut self, mark: Mark) {
        if self.marks.len() == MOST_PARTS {
            let mut index = 0;
            self.marks.retain(|_| {
                index += 1;
                index % 2 == 1
            });
            let pairs = std::mem::take(&mut self.times);
            self.times = pairs
                .chunks(2)
                .map(|two| {
                    let mut sum = two[0].clone();
                    two[1..].iter().for_each(|next| sum.add(next));
                    sum
                })
                .collect();
            self.length *= 2;
        }
        self.marks.push(mark);
    }

    /// Counts the answer to the request of this number. One that arrived before the measured span belongs to the first part.
    pub(crate) fn answered(&mut self, number: u64, op: Op, span: Nanos) {
        let part = (number.saturating_sub(self.first) / self.length) as usize;
        if self.times.len() <= part {
            self.times.resize_with(part + 1, CoarseTimes::default);
        }
        self.times[part].record(kind_of(op), span);
    }

    /// Requests in each part.
    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The whole parts, with the drive at the beginning and at the end of each. The last part, which may be shorter, is left out.
    pub(crate) fn whole(&self) -> impl Iterator<Item = (&CoarseTimes, Mark, Mark)> {
        self.marks.windows(2).zip(&self.times).map(|(ends, times)| (times, ends[0], ends[1]))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn parts_are_equal_and_few_and_keep_every_request_in_its_own() {
        let mut parts = Parts::default();
        parts.begin(100);
        // The response time of a request says which one it is; each is answered after the next has arrived.
        for number in 100..10_100u64 {
            if parts.begins_with(number) {
                let at = Nanos(number);
                parts.mark(Mark { at, fast_hits: number - 100, ..Mark::default() });
            }
            if number > 100 {
                parts.answered(number - 1, Op::Read, Nanos(number - 101));
            }
        }
        let length = parts.length();
        let whole: Vec<_> = parts.whole().collect();
        assert!((MOST_PARTS / 2 - 1..MOST_PARTS).contains(&whole.len()), "{}", whole.len());
        for (index, (times, from, to)) in whole.iter().enumerate() {
            let read = times.latency().read.unwrap();
            let first = index as u64 * length;
            assert_eq!((read.count, to.fast_hits - from.fast_hits, from.at.0), (length, length, first + 100));
            let mean = (first as f64 + (length - 1) as f64 / 2.0) / 1e3;
            assert!((read.mean - mean).abs() < 1e-9, "part {index}: {} for {mean}", read.mean);
        }
    }
}
