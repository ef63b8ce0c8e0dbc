//! How sure a lifetime is: the measured span in equal parts, and the lifetimes of many spans made of parts drawn from it.
//!
//! A lifetime is the rate of wear of a short span, continued for years. If the span were recorded again, its parts would
//! come in another mixture. The bootstrap (Efron 1979) draws as many parts as there are, with repetition, and computes
//! the lifetime of that mixture; the middle 90 % of the results are the interval. It shows how uneven the trace is
//! within itself. It cannot show how other days differ from the one that was recorded, nor that a device's wear has not
//! reached its steady state; neighbouring parts that are alike make it too narrow.

use peryton_device::WearCounts;
use peryton_units::Bytes;
use schemars::JsonSchema;
use serde::Serialize;

use crate::{Design, design::NamedMember, lifetime::Lifetime, outcome::Outcome, wear_parts::WearParts};

/// The fewest parts in which a device wears that make an interval.
pub const LEAST_PARTS: usize = 8;
const DRAWS: usize = 1_000;
/// Of the drawn lifetimes, the share below and the share above the interval.
const BEYOND: f64 = 0.05;

/// An interval of a lifetime in years.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Interval {
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Interval {
    /// The interval, and the figure that it belongs to. That one also rests on the last part, which was not whole.
    pub(crate) fn around(self, years: Option<f64>) -> Interval {
        let years = years.unwrap_or(self.low);
        Interval { low: self.low.min(years), high: self.high.max(years) }
    }
}

/// How sure the lifetime of a design is, and what it rests on. Absent if nothing wears.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct LifetimeInterval {
    /// The lower end of the 90 % interval of `lifetime_years`; absent if the trace is too short to split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years_low: Option<f64>,
    /// The upper end of the 90 % interval of `lifetime_years`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years_high: Option<f64>,
    /// The number of equal parts of the measured span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_parts: Option<usize>,
    /// The number of parts in which a device wore; an interval needs eight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_worn_parts: Option<usize>,
    /// The length of a part.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_part_s: Option<f64>,
    /// The limit that comes first: `rated` or `physical`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_limited_by: Option<&'static str>,
}

impl LifetimeInterval {
    pub(crate) fn of(outcome: &Outcome, intervals: &Intervals, lifetime: Lifetime) -> LifetimeInterval {
        let Some(years) = lifetime.years() else { return LifetimeInterval::default() };
        let interval = intervals.all.map(|interval| interval.around(Some(years)));
        LifetimeInterval {
            lifetime_years_low: interval.map(|interval| interval.low),
            lifetime_years_high: interval.map(|interval| interval.high),
            lifetime_parts: Some(outcome.wear.len()),
            lifetime_worn_parts: Some(intervals.worn_parts),
            lifetime_part_s: Some(outcome.wear.length().as_s_f64()),
            lifetime_limited_by: Some(if lifetime.rated == Some(years) { "rated" } else { "physical" }),
        }
    }
}

/// The intervals of a design.
#[derive(Debug, Default)]
pub(crate) struct Intervals {
    /// Of the first device to be worn out.
    pub(crate) all: Option<Interval>,
    /// Of each member of each device.
    pub(crate) members: Vec<Vec<Option<Interval>>>,
    /// The most parts in which a device wore.
    pub(crate) worn_parts: usize,
}

/// The years of a member with this much wear in this many seconds.
type Years<'a> = dyn Fn(&WearCounts, f64) -> Option<f64> + 'a;

/// A member of a device, and its wear in each part.
struct Member<'a> {
    lifetime: Box<Years<'a>>,
    parts: Vec<WearCounts>,
    drawn: Vec<f64>,
}

/// The intervals of a design's lifetimes, whose load goes on for a share of the time.
pub(crate) fn of(design: &Design, outcome: &Outcome, duty: f64) -> Intervals {
    let parts: &WearParts = &outcome.wear;
    let (count, length_s) = (parts.len(), parts.length().as_s_f64() / duty);
    let mut members = Vec::new();
    for (index, (device, stats)) in design.devices.iter().zip(&outcome.devices).enumerate() {
        for (member, (NamedMember { device, .. }, stats)) in device.members(false).into_iter().zip(stats).enumerate() {
            let flash = stats.programmable.zip(stats.modelled);
            let lifetime = move |worn: &WearCounts, span_s: f64| Lifetime::of_wear(device, worn, flash, span_s).years();
            members.push(Member { lifetime: Box::new(lifetime), parts: parts.of(index, member), drawn: Vec::new() });
        }
    }
    let wears =
        |member: &Member<'_>| member.parts.iter().filter(|worn| (member.lifetime)(worn, length_s).is_some()).count();
    let worn_parts = members.iter().map(wears).max().unwrap_or(0);
    // A device that hardly wears has no interval of its own, and none lives shorter for it.
    let enough: Vec<bool> = members.iter().map(|member| wears(member) >= LEAST_PARTS).collect();
    let mut all = Vec::with_capacity(DRAWS);
    if enough.contains(&true) {
        let mut random = design.seed ^ 0x6c69_6665_7469_6d65;
        let mut times = vec![0u64; count];
        for _ in 0..DRAWS {
            times.fill(0);
            for _ in 0..count {
                times[((u128::from(split_mix(&mut random)) * count as u128) >> 64) as usize] += 1;
            }
            let mut first = f64::INFINITY;
            for (member, _) in members.iter_mut().zip(&enough).filter(|(_, enough)| **enough) {
                let years = (member.lifetime)(&mixture(&member.parts, &times), length_s * count as f64);
                let years = years.unwrap_or(f64::INFINITY);
                member.drawn.push(years);
                first = first.min(years);
            }
            all.push(first);
        }
    }
    let mut found = members.into_iter().map(|member| interval(member.drawn));
    let members = outcome.devices.iter().map(|stats| found.by_ref().take(stats.len()).collect()).collect();
    Intervals { all: interval(all), members, worn_parts }
}

/// The middle of the drawn lifetimes.
fn interval(mut drawn: Vec<f64>) -> Option<Interval> {
    drawn.sort_by(f64::total_cmp);
    let at = |share: f64| drawn.get((drawn.len() as f64 * share) as usize).copied().filter(|years| years.is_finite());
    Some(Interval { low: at(BEYOND)?, high: at(1.0 - BEYOND)? })
}

/// The sum of the parts, each this many times.
fn mixture(parts: &[WearCounts], times: &[u64]) -> WearCounts {
    let sum = |of: fn(&WearCounts) -> Bytes| {
        Bytes(parts.iter().zip(times).map(|(part, times)| of(part).0.saturating_mul(*times)).sum())
    };
    let count = |of: fn(&WearCounts) -> u64| {
        parts.iter().zip(times).map(|(part, times)| of(part).saturating_mul(*times)).sum::<u64>()
    };
    let known = |of: fn(&WearCounts) -> Option<Bytes>| parts.iter().any(|part| of(part).is_some());
    WearCounts {
        bytes_read: sum(|part| part.bytes_read),
        bytes_written: sum(|part| part.bytes_written),
        pages_read: count(|part| part.pages_read),
        pages_written: count(|part| part.pages_written),
        start_stops: count(|part| part.start_stops),
        flash_worn: known(|part| part.flash_worn).then(|| sum(|part| part.flash_worn.unwrap_or_default())),
    }
}

/// SplitMix64 (Steele, Lea and Flood 2014).
fn split_mix(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
