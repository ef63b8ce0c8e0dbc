//! A closed loop with think time: the host has a number of lanes, each of which has one request in flight at most, and thinks after
//! each reply.

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_units::Nanos;

use crate::Think;

/// The lanes of the host for one volume.
pub(super) struct Lanes {
    think: Think,
    /// For each lane without a request when it may have the next one: with a fixed think time, the time of that; with that of the
    /// trace, by how much the lane is later than the trace.
    idle: BinaryHeap<Reverse<Nanos>>,
    /// For each request in flight, by its id, the time in the trace when it was answered, or when it arrived if that is not known.
    replied: Vec<Nanos>,
}

impl Lanes {
    pub(super) fn new(depth: u32, think: Think) -> Lanes {
        Lanes { think, idle: (0..depth).map(|_| Reverse(Nanos::ZERO)).collect(), replied: Vec::new() }
    }

    /// The time when the first lane may have the request with this time in the trace; `None` if all have one.
    pub(super) fn arrival(&self, recorded: Nanos) -> Option<Nanos> {
        let Reverse(first) = *self.idle.peek()?;
        Some(match self.think {
            Think::Fixed(_) => first,
            Think::Recorded => Nanos(first.0.saturating_add(recorded.0)),
        })
    }

    /// A lane has a request with this id.
    pub(super) fn submitted(&mut self, id: u32, replied: Nanos) {
        self.idle.pop().expect("a request arrives on a lane without one");
        if self.replied.len() <= id as usize {
            self.replied.resize(id as usize + 1, Nanos::ZERO);
        }
        self.replied[id as usize] = replied;
    }

    /// A lane has the reply to its request.
    pub(super) fn answered(&mut self, id: u32, now: Nanos) {
        self.idle.push(Reverse(match self.think {
            Think::Fixed(time) => Nanos(now.0.saturating_add(time.0)),
            // A lane that is ahead of the trace waits for it.
            Think::Recorded => Nanos(now.0.saturating_sub(self.replied[id as usize].0)),
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_thinks_after_its_reply() {
        let mut lanes = Lanes::new(2, Think::Fixed(Nanos(50)));
        assert_eq!(lanes.arrival(Nanos(900)), Some(Nanos(0)));
        lanes.submitted(0, Nanos(900));
        lanes.submitted(1, Nanos(901));
        assert_eq!(lanes.arrival(Nanos(902)), None);
        lanes.answered(1, Nanos(10));
        lanes.answered(0, Nanos(30));
        assert_eq!(lanes.arrival(Nanos(902)), Some(Nanos(60)));
    }

    #[test]
    fn without_a_delay_requests_arrive_when_they_do_in_the_trace() {
        let mut lanes = Lanes::new(1, Think::Recorded);
        for recorded in [3, 10, 400].map(Nanos) {
            assert_eq!(lanes.arrival(recorded), Some(recorded));
            lanes.submitted(0, recorded);
            lanes.answered(0, recorded);
        }
        // A reply that takes 7 delays all that follow on the lane by 7.
        lanes.submitted(0, Nanos(500));
        lanes.answered(0, Nanos(507));
        assert_eq!(lanes.arrival(Nanos(600)), Some(Nanos(607)));
        // Where the trace knows that its reply came at 640, the host thought from then on: it is 3 late, and at the next 0.
        lanes.submitted(0, Nanos(640));
        lanes.answered(0, Nanos(643));
        assert_eq!(lanes.arrival(Nanos(700)), Some(Nanos(703)));
        lanes.submitted(0, Nanos(720));
        lanes.answered(0, Nanos(719));
        assert_eq!(lanes.arrival(Nanos(800)), Some(Nanos(800)));
    }
}
