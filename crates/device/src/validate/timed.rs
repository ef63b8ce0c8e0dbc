//! Requests that were measured on a real device with their times, replayed on a model at these times.

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_units::{Bytes, Nanos};

use super::{Sample, Validation, compare};
use crate::{Accepted, Device, Io, Profile, ProfileError, Tag};

/// Models of flash take a part of a device in steps of this.
const PART: u64 = 1 << 20;
/// Seed of what is random in a model.
const SEED: u64 = 1;

/// A request that was measured on a real device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured {
    /// When the device got it.
    pub at: Nanos,
    /// What was asked for.
    pub io: Io,
    /// How long it took.
    pub latency: Nanos,
}

/// The end of the addresses that requests touch.
pub fn footprint(requests: &[Measured]) -> Bytes {
    requests.iter().map(|request| request.io.at + request.io.len).max().unwrap_or_default()
}

/// The most requests in flight at a time in the measurement.
pub fn most_in_flight(requests: &[Measured]) -> usize {
    let mut ends: BinaryHeap<Reverse<u64>> = BinaryHeap::new();
    let mut most = 0;
    for request in requests {
        while ends.peek().is_some_and(|&Reverse(end)| end <= request.at.0) {
            ends.pop();
        }
        ends.push(Reverse((request.at + request.latency).0));
        most = most.max(ends.len());
    }
    most
}

/// Builds the model of a profile for these requests.
pub(crate) fn model(profile: &Profile, requests: &[Measured]) -> Result<Device, ProfileError> {
    let used = Bytes(footprint(requests).0.next_multiple_of(PART)).min(profile.capacity);
    let too_far = footprint(requests) > profile.capacity;
    if too_far {
        let what = format!(
            "the trace reaches to {} bytes, but the device has {}: name the profile of the device that was measured",
            footprint(requests).0,
            profile.capacity.0
        );
        return Err(ProfileError::Parse { place: profile.origin().to_owned(), what });
    }
    profile.build(Some(used.max(Bytes(1))), SEED)
}

/// Replays requests on a model and returns how long each takes. A request is given to the model when the real device got it,
/// or as soon after that as fewer than `in_flight` are under way: the recorder had no more either, so that a model slower
/// than the device does not collect a queue that the device could not have had. Requests are in the order of their times.
pub fn replay_timed(device: &mut Device, requests: &[Measured], in_flight: usize) -> Vec<Nanos> {
    let mut replay = Replay {
        device,
        ends: BinaryHeap::new(),
        queued: 0,
        took: vec![Nanos::ZERO; requests.len()],
        began: vec![Nanos::ZERO; requests.len()],
        done: Vec::new(),
    };
    let mut clock = Nanos::ZERO;
    for (index, request) in requests.iter().enumerate() {
        clock = clock.max(request.at);
        replay.settle(clock);
        while replay.ends.len() + replay.queued >= in_flight.max(1) {
            let Some(next) = replay.next_end() else { break };
            clock = clock.max(next);
            replay.settle(clock);
        }
        replay.submit(index, clock, request.io);
    }
    while replay.queued > 0 {
        let Some(next) = replay.device.next_event() else { break };
        clock = clock.max(next);
        replay.settle(clock);
    }
    replay.took
}

struct Replay<'a> {
    device: &'a mut Device,
    /// Of requests whose end is known.
    ends: BinaryHeap<Reverse<Nanos>>,
    /// Requests whose end the device decides later.
    queued: usize,
    began: Vec<Nanos>,
    took: Vec<Nanos>,
    done: Vec<(Tag, Nanos)>,
}

impl Replay<'_> {
    fn submit(&mut self, index: usize, now: Nanos, io: Io) {
        self.began[index] = now;
        match self.device.submit(now, Tag(index as u32), io) {
            Accepted::At(end) => {
                self.took[index] = end - now;
                self.ends.push(Reverse(end));
            }
            Accepted::Queued => self.queued += 1,
        }
    }

    /// Lets the device do what is due until `now`.
    fn settle(&mut self, now: Nanos) {
        while let Some(next) = self.device.next_event().filter(|&next| next <= now) {
            self.device.advance(next, &mut self.done);
            for (tag, end) in self.done.drain(..) {
                let index = tag.0 as usize;
                self.took[index] = end - self.began[index];
                self.queued -= 1;
                self.ends.push(Reverse(end));
            }
        }
        while self.ends.peek().is_some_and(|&Reverse(end)| end <= now) {
            self.ends.pop();
        }
    }

    fn next_end(&self) -> Option<Nanos> {
        let known = self.ends.peek().map(|&Reverse(end)| end);
        [known, self.device.next_event()].into_iter().flatten().min()
    }
}

/// Compares how long requests took on the device with how long they took on the model.
pub fn score(name: &str, requests: &[Measured], took: &[Nanos]) -> Validation {
    let ms = |time: Nanos| time.0 as f64 / 1e6;
    let samples: Vec<Sample> = requests
        .iter()
        .zip(took)
        .map(|(request, &took)| Sample { op: request.io.op, measured_ms: ms(request.latency), modelled_ms: ms(took) })
        .collect();
    compare(name, &samples)
}

/// Replays requests on the model of a profile and compares.
///
/// # Errors
/// The profile makes no device, or requests reach past its end.
pub fn replay_on(name: &str, profile: &Profile, requests: &[Measured]) -> Result<Validation, ProfileError> {
    let mut device = model(profile, requests)?;
    let took = replay_timed(&mut device, requests, most_in_flight(requests));
    Ok(score(name, requests, &took))
}
