//! What requests that were recorded at their times say directly of a flash drive: the search begins there, and stays near.

use peryton_units::{Nanos, Op};

use super::knobs::Knob;
use crate::validate::{Measured, waited_for};

/// A stretch in which every request waited has so many requests.
const STRETCH: usize = 64;
/// Fewer stretches than this say nothing of rates.
const LEAST_STRETCHES: usize = 20;
/// Fewer rests than this say nothing of naps.
const LEAST_RESTS: usize = 3;
/// The rest after which the model takes a nap, as in its template.
const NAP_AFTER: Nanos = Nanos::from_ms(100);
/// How far off an estimate may be.
const NAP_WITHIN: f64 = 1.2;
const RATE_WITHIN: f64 = 1.15;
/// The controller may be this much quicker than the rate that was seen, which something else may bound.
const QUICKER: f64 = 8.0;

/// The values to search for, those near that the requests say directly.
pub(super) fn flash(knobs: &[Knob], requests: &[Measured]) -> Vec<Knob> {
    let mut knobs = knobs.to_vec();
    let mut narrow = |key: &str, value: Option<f64>, below: f64, above: f64| {
        let knob = knobs.iter_mut().find(|knob| knob.keys == [key]);
        if let (Some(knob), Some(value)) = (knob, value) {
            *knob = knob.between(value / below, value, value * above);
        }
    };
    let [read, write] = intervals(requests);
    narrow("read_interval", read, QUICKER, RATE_WITHIN);
    narrow("write_interval", write, QUICKER, RATE_WITHIN);
    narrow("nap_exit", nap_exit(requests), NAP_WITHIN, NAP_WITHIN);
    knobs
}

/// How far reads, and writes, move on the drive, ns: the least squares of the durations of stretches in which there was always more to do.
fn intervals(requests: &[Measured]) -> [Option<f64>; 2] {
    let waited = waited_for(requests);
    // Sums of the normal equations.
    let (mut rr, mut rw, mut ww, mut rt, mut wt, mut count) = (0.0, 0.0, 0.0, 0.0, 0.0, 0);
    let mut at = 0;
    while at + STRETCH < requests.len() {
        if let Some(free) = (at..=at + STRETCH).rev().find(|&index| !waited[index]) {
            at = free + 1;
            continue;
        }
        let stretch = &requests[at..at + STRETCH];
        let took = (requests[at + STRETCH].at - stretch[0].at).0 as f64;
        let reads = stretch.iter().filter(|request| request.io.op == Op::Read).count() as f64;
        let writes = STRETCH as f64 - reads;
        rr += reads * reads;
        rw += reads * writes;
        ww += writes * writes;
        rt += reads * took;
        wt += writes * took;
        count += 1;
        at += STRETCH;
    }
    if count < LEAST_STRETCHES {
        return [None, None];
    }
    let determinant = rr * ww - rw * rw;
    // Where all stretches have nearly the same share of writes, both cannot be told apart.
    let apart = determinant > 1e-3 * rr * ww;
    let found = [(rt * ww - wt * rw) / determinant, (wt * rr - rt * rw) / determinant];
    match (apart, rw == 0.0) {
        (true, _) => found.map(|interval| (interval > 0.0).then_some(interval)),
        (false, true) => [(rr > 0.0).then(|| rt / rr), (ww > 0.0).then(|| wt / ww)],
        (false, false) => [None, None],
    }
}

/// What the first request after a long rest takes longer than the quickest, ns: the median of all such rests.
fn nap_exit(requests: &[Measured]) -> Option<f64> {
    let mut after: Vec<u64> = Vec::new();
    let (mut busy_until, mut first_end) = (requests.first()?.at, None::<Nanos>);
    for request in requests {
        if request.at.saturating_sub(busy_until) >= NAP_AFTER {
            first_end = Some(Nanos::MAX);
            after.push(u64::MAX);
        }
        // Of those that came before anything was answered, the quickest did not wait for others.
        if let (Some(end), Some(least)) = (first_end, after.last_mut()) {
            if request.at >= end {
                first_end = None;
            } else {
                *least = (*least).min(request.latency.0);
                first_end = Some(end.min(request.at + request.latency));
            }
        }
        busy_until = busy_until.max(request.at + request.latency);
    }
    let mut all: Vec<u64> = requests.iter().map(|request| request.latency.0).collect();
    let (_, &mut usual, _) = {
        let place = all.len() / 100;
        all.select_nth_unstable(place)
    };
    after.sort_unstable();
    let median = *after.get(after.len() / 2).filter(|_| after.len() >= LEAST_RESTS)?;
    Some(median.saturating_sub(usual) as f64).filter(|longer| *longer > 0.0)
}

#[cfg(test)]
mod tests {
    use peryton_units::Bytes;

    use super::*;
    use crate::Io;

    /// Four at a time on a drive that moves on by 20 us for a read and 10 for a write, in bursts; the first of each takes 500 us longer.
    fn measured() -> Vec<Measured> {
        let (mut all, mut clock) = (Vec::new(), 0);
        let mut ends = std::collections::VecDeque::from([0; 4]);
        for number in 0..20_000u64 {
            let rest = number.is_multiple_of(2_000);
            if rest {
                clock += 1_000_000_000;
                ends = std::collections::VecDeque::from([clock; 4]);
            }
            let op = if number * 7_919 % 1_000 < 300 + number / 50 { Op::Write } else { Op::Read };
            let at = ends.pop_front().unwrap_or_default();
            clock = clock.max(at) + if op == Op::Read { 20_000 } else { 10_000 } + if rest { 500_000 } else { 0 };
            ends.push_back(clock);
            let io = Io { op, at: Bytes::ZERO, len: Bytes::kib(4) };
            all.push(Measured { at: Nanos(at), io, latency: Nanos(clock - at) });
        }
        all
    }

    #[test]
    fn intervals_and_naps_are_found_directly() {
        let requests = measured();
        let [read, write] = intervals(&requests).map(Option::unwrap_or_default);
        assert!((19_000.0..21_000.0).contains(&read) && (9_000.0..11_000.0).contains(&write), "{read} {write}");
        let nap = nap_exit(&requests).unwrap_or_default();
        assert!((450_000.0..550_000.0).contains(&nap), "{nap}");
    }

    #[test]
    fn too_little_says_nothing() {
        let requests = measured();
        assert_eq!(intervals(&requests[..1_000]), [None, None]);
        assert_eq!(nap_exit(&requests[..1_000]), None);
        let reads: Vec<Measured> = requests.iter().filter(|request| request.io.op == Op::Read).copied().collect();
        assert_eq!(intervals(&reads)[1], None);
    }
}
