//! A measurement that is known by the distributions of its runs alone: how long their requests took, and how many there were.
//!
//! Requests are drawn from these distributions, with as many in flight and at the measured rate. The code that fits and scores whole
//! measurements then takes them too. The order of latencies within a run is lost: whether slow requests came together is not known.

use std::collections::BTreeMap;

use peryton_units::{Bytes, Nanos, Op};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{About, BadMeasurement, Block, FORMAT, MOST_ROUNDS, MOST_STEPS, Measurement, Order, Requests, Step};
use crate::{Io, validate::Measured};

/// Requests that are drawn for a run.
const DRAWN: u32 = 1_000;
/// From the end of a run to the beginning of the next.
const BETWEEN: Nanos = Nanos::from_ms(50);

/// How long requests took.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Number of requests.
    pub count: u64,
    /// Shares of them, from 0 to 1, and the latency that so many did not exceed, rising in both.
    pub points: Vec<(f64, Nanos)>,
}

impl Distribution {
    /// The latency at this share of the requests, by a straight line between points.
    fn at(&self, share: f64) -> Nanos {
        let after = self.points.partition_point(|point| point.0 <= share).clamp(1, self.points.len() - 1);
        let ((from, low), (to, high)) = (self.points[after - 1], self.points[after]);
        if to <= from {
            return high;
        }
        let part = ((share - from) / (to - from)).clamp(0.0, 1.0);
        Nanos(low.0 + ((high.0.saturating_sub(low.0)) as f64 * part) as u64)
    }

    fn is_sound(&self) -> bool {
        self.points.len() >= 2 && self.points.windows(2).all(|two| two[0].0 <= two[1].0 && two[0].1 <= two[1].1)
    }
}

/// A run: requests of one kind, with a number in flight.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// What it is called, for messages.
    pub name: String,
    /// The kind of its requests. [`Step::most`] says nothing here.
    pub step: Step,
    /// Its reads, if it had any.
    pub reads: Option<Distribution>,
    /// Its writes.
    pub writes: Option<Distribution>,
    /// Requests per second.
    pub rate: f64,
}

impl Measurement {
    /// A measurement of these runs. Runs of a kind that was measured several times are its rounds, of which every second one is fitted. Of the
    /// kinds with a single run, among those with the same order and share of reads, the corners are fitted (the smallest and the largest requests,
    /// with the least and the greatest depth), and of the others every second one by size and depth. The rest are scored: sizes and depths between
    /// those that the fit has seen.
    ///
    /// # Errors
    /// There are too many runs, or one of them is not sound.
    pub fn of_summaries(device: About, seed: u64, runs: &[Summary]) -> Result<Measurement, BadMeasurement> {
        let bad = |what: String| BadMeasurement(what);
        let mut kinds: BTreeMap<Kind, Vec<&Summary>> = BTreeMap::new();
        for run in runs {
            let step = &run.step;
            step.check().map_err(|what| bad(format!("{}: {what}", run.name)))?;
            let sound = [&run.reads, &run.writes].into_iter().flatten().all(Distribution::is_sound);
            if !sound || (run.reads.is_none() && run.writes.is_none()) || run.rate.is_nan() || run.rate <= 0.0 {
                return Err(bad(format!("{}: expected percentiles of latencies that rise, and a rate", run.name)));
            }
            kinds
                .entry((100 - step.reads, step.order != Order::Random, step.size.0, step.depth))
                .or_default()
                .push(run);
        }
        if kinds.len() > MOST_STEPS || kinds.values().any(|runs| runs.len() > MOST_ROUNDS as usize) {
            return Err(bad(format!("expected at most {MOST_STEPS} kinds of runs and {MOST_ROUNDS} of each")));
        }
        let rounds = kinds.values().map(Vec::len).max().unwrap_or(0).clamp(2, MOST_ROUNDS as usize) as u32;
        let mut measurement = Measurement {
            format: FORMAT.to_owned(),
            device,
            seed,
            rounds,
            steps: Vec::with_capacity(kinds.len()),
            blocks: Vec::with_capacity(runs.len()),
            courses: Vec::new(),
            flushes: Vec::new(),
        };
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut clock = Nanos::ZERO;
        let single: Vec<Kind> = kinds.iter().filter(|(_, runs)| runs.len() == 1).map(|(kind, _)| *kind).collect();
        for (kind, runs) in kinds {
            let step = measurement.steps.len() as u32;
            measurement.steps.push(Step { most: DRAWN, ..runs[0].step.clone() });
            for (number, run) in (0..).zip(&runs) {
                let round = if runs.len() > 1 { number } else { u32::from(!is_fitted(kind, &single)) };
                let requests = drawn(run, measurement.device.size, clock, &mut random);
                let ends = requests.iter().map(|request| request.at + request.latency).max();
                clock = ends.unwrap_or(clock) + BETWEEN;
                measurement.blocks.push(Block { step, round, requests: Requests(requests) });
            }
        }
        Ok(measurement)
    }
}

/// Writes in a hundred requests, whether it is sequential, bytes and depth.
type Kind = (u32, bool, u64, u32);

/// Whether the only run of this kind is fitted, by the other kinds that have one.
fn is_fitted(kind: Kind, single: &[Kind]) -> bool {
    let alike: Vec<Kind> = single.iter().copied().filter(|other| (other.0, other.1) == (kind.0, kind.1)).collect();
    let is_corner = |kind: &Kind| {
        let ends =
            alike.first().is_some_and(|least| least.2 == kind.2) || alike.last().is_some_and(|most| most.2 == kind.2);
        let mut of_size = alike.iter().filter(|other| other.2 == kind.2);
        ends && (of_size.next() == Some(kind) || of_size.next_back().is_none_or(|last| last == kind))
    };
    let mut others = alike.iter().filter(|other| !is_corner(other));
    is_corner(&kind) || others.position(|other| *other == kind).is_some_and(|place| place % 2 == 1)
}

/// Requests of a run from a time on.
fn drawn(run: &Summary, device: Bytes, from: Nanos, random: &mut Pcg64Mcg) -> Vec<Measured> {
    let mut below = |n: u64| ((u128::from(random.random::<u64>()) * u128::from(n.max(1))) >> 64) as u64;
    let count = |of: &Option<Distribution>| of.as_ref().map_or(0, |of| of.count);
    let (reads, writes) = (count(&run.reads), count(&run.writes));
    let n_reads = (u64::from(DRAWN) * reads).div_ceil((reads + writes).max(1)).min(u64::from(DRAWN));
    let mut asked: Vec<(Op, Nanos)> = Vec::with_capacity(DRAWN as usize);
    for (op, of, n) in [(Op::Read, &run.reads, n_reads), (Op::Write, &run.writes, u64::from(DRAWN) - n_reads)] {
        let Some(of) = of else { continue };
        asked.extend((0..n).map(|i| (op, of.at((i as f64 + 0.5) / n as f64))));
    }
    for last in (1..asked.len()).rev() {
        asked.swap(last, below(last as u64 + 1) as usize);
    }
    let depth = run.step.depth as usize;
    let mean = asked.iter().map(|(_, took)| took.0 as f64).sum::<f64>() / asked.len().max(1) as f64;
    // What the host did between the end of a request and the beginning of the next one in its slot.
    let gap = Nanos((depth as f64 / run.rate * 1e9 - mean).max(0.0) as u64);
    let places = (device.0 / run.step.size.0).max(1);
    let first = below(places);
    let mut slots = vec![from; depth];
    let mut requests = Vec::with_capacity(asked.len());
    for (number, (op, latency)) in (0..).zip(asked) {
        let slot = (0..depth).min_by_key(|&slot| slots[slot]).expect("a run has a slot");
        let at = slots[slot];
        slots[slot] = at + latency + gap;
        let place = if run.step.order == Order::Sequential { (first + number) % places } else { below(places) };
        let io = Io { op, at: run.step.size * place, len: run.step.size };
        requests.push(Measured { at, io, latency });
    }
    requests
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn about() -> About {
        About {
            path: "fio".to_owned(),
            model: None,
            kind: crate::kind::Kind::Fixed,
            rotational: None,
            size: Bytes::gib(1),
            capacity: None,
            block: Bytes(512),
            scratch: false,
            written: true,
            direct: true,
        }
    }

    fn run(reads: u32, kib: u64, depth: u32) -> Summary {
        let us = |us: u64| Nanos::from_us(us);
        let of =
            Distribution { count: 5_000, points: vec![(0.0, us(50)), (0.5, us(100)), (0.99, us(200)), (1.0, us(900))] };
        Summary {
            name: "a".to_owned(),
            step: Step { order: Order::Random, reads, size: Bytes::kib(kib), depth, rest: 0, most: 1 },
            reads: (reads > 0).then(|| of.clone()),
            writes: (reads < 100).then_some(of),
            rate: f64::from(depth) * 8_000.0,
        }
    }

    #[test]
    fn requests_take_as_long_as_the_run_says_and_come_at_its_rate() {
        let found = Measurement::of_summaries(about(), 1, &[run(100, 4, 4)]).unwrap();
        found.check().unwrap();
        let requests = &found.blocks[0].requests.0;
        let mut took: Vec<u64> = requests.iter().map(|request| request.latency.0 / 1_000).collect();
        took.sort_unstable();
        assert_eq!((took[499], took[989]), (99, 199));
        let end = requests.iter().map(|request| request.at + request.latency).max().unwrap();
        let rate = requests.len() as f64 / end.as_s_f64();
        assert!((rate / 32_000.0 - 1.0).abs() < 0.05, "{rate}");
        let most =
            requests.iter().map(|one| requests.iter().filter(|r| r.at <= one.at && one.at < r.at + r.latency).count());
        assert_eq!(most.max(), Some(4));
    }

    #[test]
    fn runs_of_one_kind_are_rounds_and_single_ones_take_turns() {
        let reads = [run(100, 4, 1), run(100, 64, 1), run(100, 64, 8), run(100, 4, 8), run(100, 16, 1), run(100, 4, 4)];
        let runs = [&reads[..], &[run(0, 4, 1), run(0, 4, 8), run(0, 4, 8)]].concat();
        let found = Measurement::of_summaries(about(), 1, &runs).unwrap();
        let place = |block: &Block| {
            let step = &found.steps[block.step as usize];
            (step.reads, step.size.0 >> 10, step.depth, block.round)
        };
        let places: Vec<_> = found.blocks.iter().map(place).collect();
        let reads = [(100, 4, 1, 0), (100, 4, 4, 1), (100, 4, 8, 0), (100, 16, 1, 0), (100, 64, 1, 0), (100, 64, 8, 0)];
        assert_eq!(places, [&reads[..], &[(0, 4, 1, 0), (0, 4, 8, 0), (0, 4, 8, 1)]].concat());
        let falls = Summary { rate: 0.0, ..run(100, 4, 1) };
        assert!(Measurement::of_summaries(about(), 1, &[falls]).is_err());
    }
}
