//! Requests that were measured on a real device with their times, replayed on a model at these times.

use std::{cmp::Reverse, collections::BinaryHeap};

use peryton_units::{Bytes, Nanos};

use super::{
    Sample, Validation, compare,
    paced::{Start, paced, starts},
};
use crate::{Device, Io, Profile, ProfileError};

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

/// Replays requests on a model as they were recorded, and returns how long each takes. At most `in_flight` are under way. A request that
/// came at a time of its own comes at that time; one that came because another had ended comes when one has ended on the
/// model. A model that is a little slower than the device so takes a little longer for each request, and collects no queue that the device
/// could not have had. Requests are in the order of their times.
pub fn replay_timed(device: &mut Device, requests: &[Measured], in_flight: usize) -> Vec<Nanos> {
    paced(device, requests, &starts(requests, mean(requests)), in_flight, Nanos::ZERO).0
}

fn mean(requests: &[Measured]) -> Nanos {
    let total: u64 = requests.iter().map(|request| request.latency.0).sum();
    Nanos(total / (requests.len() as u64).max(1))
}

/// Which requests came because another had ended.
pub(crate) fn waited_for(requests: &[Measured]) -> Vec<bool> {
    starts(requests, mean(requests)).iter().map(|start| matches!(start, Start::After(_))).collect()
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
