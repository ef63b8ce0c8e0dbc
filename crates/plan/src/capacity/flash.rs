//! The capacity of the flash as a quantity: what can be bought, and what a plan says of it.

use std::str::FromStr;

use peryton_units::{Bytes, person, person_ms, person_years};
use serde::{Serialize, Serializer};

use super::{
    candidate::{Candidate, decimal},
    catalogue::Catalogue,
    narrow::{enough, grows_with_flash},
};
use crate::{
    constraint::{Constraint, strain},
    evaluate::Metrics,
};

/// In which capacities flash can be bought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Flash {
    /// In the capacities of the catalogue.
    #[default]
    Whole,
    /// In any capacity up to that of the catalogue's device, at a price and with an endurance in proportion.
    Any,
}

impl Flash {
    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Flash::Whole => "whole",
            Flash::Any => "any",
        }
    }
}

impl FromStr for Flash {
    type Err = String;
    fn from_str(text: &str) -> Result<Flash, String> {
        match text.trim() {
            "whole" => Ok(Flash::Whole),
            "any" => Ok(Flash::Any),
            other => Err(format!(
                "'{other}' is no way to buy flash: use whole (devices of the catalogue) or any (a capacity up to theirs)"
            )),
        }
    }
}

impl Serialize for Flash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// The capacity of a design's flash, and what other capacities would give. Every figure comes from the whole trace.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlashCapacity {
    /// The role of the flash devices in the design.
    pub role: String,
    /// Their profile.
    pub profile: String,
    /// Their number, those for redundancy included.
    pub devices: u32,
    /// The capacity of each.
    pub each_bytes: u64,
    /// The capacity of all.
    pub capacity_bytes: u64,
    /// Price of all, without spares.
    pub usd: f64,
    /// The next smaller capacity that was simulated, and does not do.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub smaller: Option<FlashPoint>,
    /// The budget that it misses by most.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<Constraint>,
    /// The whole devices of the catalogue, where smaller ones are bought.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub whole: Option<FlashPoint>,
    /// The smallest capacity that was simulated that is not too small for a budget, and whose mean response time is within 5 % of that of the
    /// capacity that is bought: what the workload needs of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub enough: Option<FlashPoint>,
    /// All capacities that were simulated, in ascending order.
    pub points: Vec<FlashPoint>,
}

/// The figures of a capacity.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct FlashPoint {
    /// The capacity of each device.
    pub each_bytes: u64,
    /// The capacity of all.
    pub capacity_bytes: u64,
    /// Purchase of all devices of the design.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dollars: Option<f64>,
    /// Whether it meets every budget.
    pub meets: bool,
    /// The largest ratio of a figure to its budget.
    pub strain: f64,
    /// Mean response time.
    pub mean_ms: f64,
    /// 99th percentile of the response time.
    pub p99_ms: f64,
    /// Years until the first device is worn out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
    /// Share of accesses that the fast devices served (hybrids).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_hit_ratio: Option<f64>,
}

impl FlashPoint {
    fn of(candidate: &Candidate, metrics: &Metrics, catalogue: &Catalogue, constraints: &[Constraint]) -> FlashPoint {
        let each = candidate.flash_capacity(catalogue);
        let strain = strain(constraints, metrics);
        FlashPoint {
            each_bytes: each.0,
            capacity_bytes: (each * u64::from(candidate.fast.count)).0,
            dollars: metrics.dollars,
            meets: strain <= 1.0,
            strain,
            mean_ms: metrics.mean_ms,
            p99_ms: metrics.p99_ms,
            lifetime_years: metrics.lifetime_years,
            fast_hit_ratio: metrics.fast_hit_ratio,
        }
    }

    /// The capacity of all devices.
    pub fn capacity(&self) -> Bytes {
        Bytes(self.capacity_bytes)
    }
}

impl FlashCapacity {
    /// What is known of a candidate's flash from simulations of it with several capacities. `None` without flash, or with no
    /// other capacity.
    pub(super) fn of(
        candidate: &Candidate,
        catalogue: &Catalogue,
        constraints: &[Constraint],
        known: &[(Candidate, Metrics)],
    ) -> Option<FlashCapacity> {
        if !candidate.has_flash(catalogue) {
            return None;
        }
        let shape = candidate.with_capacity(None);
        let mut known: Vec<&(Candidate, Metrics)> =
            known.iter().filter(|(one, _)| one.with_capacity(None) == shape).collect();
        known.sort_by_key(|(one, _)| one.flash_capacity(catalogue));
        known.dedup_by_key(|(one, _)| one.flash_capacity(catalogue));
        let own = known.iter().position(|(one, _)| one == candidate)?;
        if known.len() < 2 {
            return None;
        }
        let point = |(one, metrics): &(Candidate, Metrics)| FlashPoint::of(one, metrics, catalogue, constraints);
        let smaller =
            own.checked_sub(1).map(|index| known[index]).filter(|(_, metrics)| strain(constraints, metrics) > 1.0);
        let limited_by = smaller.and_then(|(_, metrics)| {
            let missed = constraints.iter().filter(|one| grows_with_flash(one.metric) && !one.met(metrics));
            missed.max_by(|a, b| a.strain(metrics).total_cmp(&b.strain(metrics))).copied()
        });
        let bought = known[own].1.mean_ms;
        let enough = known[..=own].iter().find(|(_, metrics)| enough(metrics, bought, constraints));
        let kind = &catalogue.kinds[candidate.fast.kind];
        let each = candidate.flash_capacity(catalogue);
        Some(FlashCapacity {
            role: candidate.own().next()?.0.to_owned(),
            profile: kind.profile.name.clone(),
            devices: candidate.fast.count,
            each_bytes: each.0,
            capacity_bytes: (each * u64::from(candidate.fast.count)).0,
            usd: kind.price_of_each(candidate.fast) * f64::from(candidate.fast.count),
            smaller: smaller.map(point),
            limited_by,
            whole: known
                .last()
                .filter(|(one, _)| one.fast.capacity.is_none() && one != candidate)
                .map(|one| point(one)),
            enough: enough.filter(|_| candidate.is_hybrid()).map(|one| point(one)),
            points: known.into_iter().map(point).collect(),
        })
    }

    /// What it says, in sentences.
    pub fn sentences(&self) -> Vec<String> {
        let size = |bytes: u64| decimal(Bytes(bytes), " ");
        let mut all = Vec::new();
        if let Some(whole) = &self.whole {
            let devices = if self.devices == 1 {
                String::new()
            } else {
                format!(" ({} devices of {})", self.devices, size(self.each_bytes))
            };
            let limit = match (&self.smaller, &self.limited_by) {
                (Some(smaller), Some(limit)) => {
                    format!("; {} were simulated as well and miss {limit}", size(smaller.capacity_bytes))
                }
                _ if self.points.first().is_some_and(|point| point.capacity_bytes < self.capacity_bytes) => {
                    "; smaller ones were simulated and are worse by the objective".to_owned()
                }
                _ if self.enough.is_some() => "; no smaller capacity was tried".to_owned(),
                _ => "; the data need as much".to_owned(),
            };
            all.push(format!(
                "Flash: {} of {}{devices}, {} USD of the price{limit}",
                size(self.capacity_bytes),
                self.profile,
                digits(self.usd)
            ));
            let life = |years: Option<f64>| {
                years.map_or_else(String::new, |years| format!(", lifetime {}", person_years(years)))
            };
            all.push(format!(
                "The whole devices of the catalogue, {}, make {} USD in all, mean {}, p99 {}{}",
                size(whole.capacity_bytes),
                whole.dollars.map_or_else(|| "an unknown number of".to_owned(), digits),
                person_ms(whole.mean_ms),
                person_ms(whole.p99_ms),
                life(whole.lifetime_years)
            ));
        } else if let Some(enough) = &self.enough {
            let shorter = match (enough.lifetime_years, self.points.last().and_then(|point| point.lifetime_years)) {
                (Some(years), Some(whole)) if years < whole => {
                    format!(
                        "; a device of that size would last {} in place of {}",
                        person_years(years),
                        person_years(whole)
                    )
                }
                _ => String::new(),
            };
            all.push(format!(
                "Of the {} of flash ({}) the workload needs {}: the smallest capacity simulated that meets the budgets and whose mean \
                 response time, {} ms, is within 5 % of that of all of it{shorter} (--flash any buys it so)",
                size(self.capacity_bytes),
                self.profile,
                size(enough.capacity_bytes),
                digits(enough.mean_ms),
            ));
        }
        all
    }
}

fn digits(value: f64) -> String {
    person(value)
}

/// What is assumed of flash in any capacity.
pub(super) const ASSUMPTION: &str = "flash is bought in any capacity up to that of the catalogue's device (--flash any): its price, rated \
     writes and cycles are in proportion, speed, power and failure rate are those of the whole device; real devices come in steps, and \
     small ones cost more per GB and are often slower to write";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_is_bought_whole_or_in_any_capacity() {
        assert_eq!(("any".parse(), "whole".parse()), (Ok(Flash::Any), Ok(Flash::Whole)));
        let error = "half".parse::<Flash>().err().unwrap_or_default();
        assert!(error.contains("whole") && error.contains("any") && !error.contains('\n'), "{error}");
    }
}
