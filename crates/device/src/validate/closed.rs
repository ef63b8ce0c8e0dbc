//! Requests that were measured with a fixed number in flight, replayed with as many. Each begins after the request before it in its slot
//! has ended, and after the same pause as on the device. The device's own latencies decide nothing, in contrast to
//! [`super::replay_timed`].

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_units::Nanos;

use super::Measured;
use crate::{Accepted, Device, Tag};

/// Replays requests on a model from `start` on. Returns how long each took, and when the last one ended.
pub fn replay_closed(device: &mut Device, requests: &[Measured], start: Nanos) -> (Vec<Nanos>, Nanos) {
    let chains = Chains::of(requests);
    let mut took = vec![Nanos::ZERO; requests.len()];
    let mut began = vec![Nanos::ZERO; requests.len()];
    let mut due: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
    for &(first, after) in &chains.first {
        due.push(Reverse((start + after, first)));
    }
    let (mut last, mut queued, mut done) = (start, 0usize, Vec::new());
    loop {
        let event = if queued > 0 { device.next_event() } else { None };
        let next = due.peek().map(|&Reverse((at, _))| at);
        let ended = |index: usize, end: Nanos, due: &mut BinaryHeap<Reverse<(Nanos, usize)>>| {
            if let Some((next, gap)) = chains.next[index] {
                due.push(Reverse((end + gap, next)));
            }
        };
        match (event, next) {
            (Some(event), next) if next.is_none_or(|next| event <= next) => {
                device.advance(event, &mut done);
                for (tag, end) in done.drain(..) {
                    let index = tag.0 as usize;
                    took[index] = end - began[index];
                    last = last.max(end);
                    queued -= 1;
                    ended(index, end, &mut due);
                }
            }
            (_, Some(_)) => {
                let Some(Reverse((at, index))) = due.pop() else { break };
                began[index] = at;
                match device.submit(at, Tag(index as u32), requests[index].io) {
                    Accepted::At(end) => {
                        took[index] = end - at;
                        last = last.max(end);
                        ended(index, end, &mut due);
                    }
                    Accepted::Queued => queued += 1,
                }
            }
            (_, None) => break,
        }
    }
    (took, last)
}

/// Which request followed which, and how long after its end.
struct Chains {
    /// The first request of each slot, and how long after the first of all it began.
    first: Vec<(usize, Nanos)>,
    next: Vec<Option<(usize, Nanos)>>,
}

impl Chains {
    fn of(requests: &[Measured]) -> Chains {
        let mut chains = Chains { first: Vec::new(), next: vec![None; requests.len()] };
        // Of the slots that are free, the one that became free first: ends and requests.
        let mut slots: BinaryHeap<Reverse<(Nanos, usize)>> = BinaryHeap::new();
        let origin = requests.first().map_or(Nanos::ZERO, |request| request.at);
        for (index, request) in requests.iter().enumerate() {
            match slots.peek() {
                Some(&Reverse((end, before))) if end <= request.at => {
                    slots.pop();
                    chains.next[before] = Some((index, request.at - end));
                }
                _ => chains.first.push((index, request.at - origin)),
            }
            slots.push(Reverse((request.at + request.latency, index)));
        }
        chains
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::{Bytes, Op};

    use super::*;
    use crate::{Io, Profile};

    #[test]
    fn a_slower_model_gets_its_requests_later_and_keeps_their_gaps() {
        let io = Io { op: Op::Read, at: Bytes::ZERO, len: Bytes(4096) };
        // Two slots; in each a request of 100 us, and 10 us later the next.
        let requests: Vec<Measured> =
            (0..6).map(|n| Measured { at: Nanos::from_us(n / 2 * 110), io, latency: Nanos::from_us(100) }).collect();
        let text = "name = 'x'\ndescription = 'x'\nclass = 'fixed'\n[fixed]\nread = '1ms'\nwrite = '1ms'\ncapacity = '1MiB'\nparallelism = 2";
        let mut device = Profile::parse(text, "x").unwrap().build(None, 1).unwrap();
        let (took, end) = replay_closed(&mut device, &requests, Nanos::from_ms(5));
        assert_eq!(took, vec![Nanos::from_ms(1); 6]);
        assert_eq!(end, Nanos::from_us(5_000 + 3 * 1_000 + 2 * 10));
    }
}
