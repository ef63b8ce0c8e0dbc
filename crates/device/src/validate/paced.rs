//! The load as it was recorded. A recorder has so many places, each for one request at a time: threads, or entries of a queue. It hands the
//! requests out in their order, each to the place that becomes free first.
//!
//! Only the submissions are recorded, not why they were then. A place that was free for a short time only was waited for: the request was
//! due already, and came as soon as it could. Replayed at its recorded time instead, it would come as if the model were the device: a model
//! that is slower by a hundredth then has a full queue, one that is quicker has none.

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_units::Nanos;

use super::Measured;
use crate::{Accepted, Device, Tag};

/// What a request waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// A time, which counts from the first request.
    At(Nanos),
    /// A place, which was then free for so long.
    After(Nanos),
}

/// What each request waited for. A place that was free for at most `waited` was waited for. With the mean latency as this bound, these are
/// the times at which more than half of the places are taken (Little's law).
pub(super) fn starts(requests: &[Measured], waited: Nanos) -> Vec<Start> {
    let origin = requests.first().map_or(Nanos::ZERO, |request| request.at);
    let mut places: BinaryHeap<Reverse<Nanos>> = BinaryHeap::new();
    let most = super::most_in_flight(requests);
    let of = |request: &Measured| {
        let free = if places.len() < most { None } else { places.pop().map(|Reverse(free)| free) };
        places.push(Reverse(request.at + request.latency));
        match free.and_then(|free| request.at.0.checked_sub(free.0)) {
            Some(rest) if rest <= waited.0 => Start::After(Nanos(rest)),
            _ => Start::At(request.at - origin),
        }
    };
    requests.iter().map(of).collect()
}

/// Replays requests on a model from `begin` on, at most `places` at a time. Returns how long each took, and when the last one ended.
pub(super) fn paced(
    device: &mut Device,
    requests: &[Measured],
    starts: &[Start],
    places: usize,
    begin: Nanos,
) -> (Vec<Nanos>, Nanos) {
    let mut replay =
        Replay { starts, begin, handed_out: 0, due: BinaryHeap::new(), ends: BinaryHeap::new(), last: begin };
    (0..places.max(1)).for_each(|_| replay.hand_out(begin));
    let mut took = vec![Nanos::ZERO; requests.len()];
    let mut began = vec![Nanos::ZERO; requests.len()];
    let (mut queued, mut done) = (0usize, Vec::new());
    loop {
        let event = if queued > 0 { device.next_event() } else { None };
        let next = replay.next();
        match (event, next) {
            (Some(event), next) if next.is_none_or(|next| event <= next) => {
                device.advance(event, &mut done);
                for (tag, end) in done.drain(..) {
                    let index = tag.0 as usize;
                    took[index] = end - began[index];
                    queued -= 1;
                    replay.ended(end);
                }
            }
            (_, Some(now)) => {
                replay.settle(now);
                let Some(index) = replay.due_at(now) else { continue };
                began[index] = now;
                match device.submit(now, Tag(index as u32), requests[index].io) {
                    Accepted::At(end) => {
                        took[index] = end - now;
                        replay.ended(end);
                    }
                    Accepted::Queued => queued += 1,
                }
            }
            (_, None) => break,
        }
    }
    (took, replay.last)
}

struct Replay<'a> {
    starts: &'a [Start],
    begin: Nanos,
    /// Requests that have a place.
    handed_out: usize,
    /// When those that have a place and wait come.
    due: BinaryHeap<Reverse<(Nanos, usize)>>,
    /// When places become free.
    ends: BinaryHeap<Reverse<Nanos>>,
    last: Nanos,
}

impl Replay<'_> {
    /// Gives the next request the place that is free from `now` on.
    fn hand_out(&mut self, now: Nanos) {
        let Some(&start) = self.starts.get(self.handed_out) else { return };
        let at = match start {
            Start::At(at) => now.max(self.begin + at),
            Start::After(rest) => now + rest,
        };
        self.due.push(Reverse((at, self.handed_out)));
        self.handed_out += 1;
    }

    fn ended(&mut self, end: Nanos) {
        self.last = self.last.max(end);
        self.ends.push(Reverse(end));
    }

    /// When a request comes or a place becomes free.
    fn next(&self) -> Option<Nanos> {
        let due = self.due.peek().map(|&Reverse((at, _))| at);
        let end = self.ends.peek().map(|&Reverse(end)| end).filter(|_| self.handed_out < self.starts.len());
        [due, end].into_iter().flatten().min()
    }

    fn settle(&mut self, now: Nanos) {
        while let Some(&Reverse(end)) = self.ends.peek().filter(|Reverse(end)| *end <= now) {
            self.ends.pop();
            self.hand_out(end);
        }
    }

    fn due_at(&mut self, now: Nanos) -> Option<usize> {
        self.due.peek().filter(|Reverse((at, _))| *at <= now)?;
        self.due.pop().map(|Reverse((_, index))| index)
    }
}
