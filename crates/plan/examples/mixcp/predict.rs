//! The regressions' predictions for a candidate: each of its devices under its part of the workload.
//!
//! A striped device gets every n-th request. In a hybrid, the miss-ratio curve of the trace gives the share of the
//! requests that the fast devices serve; misses are fetched by the extent, and dirty extents are written back in the
//! end.

use peryton_plan::capacity::{Candidate, Catalogue, Like, Member, Mode, Slow, Workload, usable};
use peryton_sim::Redundancy;
use peryton_trace::{MissRatioCurve, Source};
use peryton_units::{Bytes, SECONDS_PER_YEAR};
use serde::Serialize;

use crate::{
    Error,
    models::{DeviceModels, Predictors, Trained},
};

/// The prediction for a candidate.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Prediction {
    /// Mean response time.
    pub mean_ms: f64,
    /// Time until the first device is worn out; absent if none wears.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years: Option<f64>,
    /// The workload of some device is outside the range of its models' training, so this prediction is less reliable.
    pub extrapolated: bool,
}

/// The number of blocks that the miss-ratio curve samples.
const FOLLOWED: usize = 1 << 15;
/// The approximate extent size of hybrids, as in the candidates' designs.
const EXTENT: Bytes = Bytes::kib(64);
/// The stripe size of arrays.
const STRIPE_KIB: f64 = 64.0;

/// Predictions for all candidates, in their order, with requests arriving `speed` times faster; `None` where a device
/// has no models.
pub fn all(
    models: &Trained,
    catalogue: &Catalogue,
    workload: &Workload<'_>,
    speed: f64,
    candidates: &[Candidate],
) -> Result<Vec<Option<Prediction>>, Error> {
    let hybrids = candidates.iter().any(|candidate| candidate.slow.is_some());
    let curve = match hybrids {
        true => {
            let mut source: Box<dyn Source> = workload.source()?;
            Some(MissRatioCurve::of(&mut *source, EXTENT, FOLLOWED)?)
        }
        false => None,
    };
    let like = Like { inter_arrival_ms: workload.like.inter_arrival_ms / speed, ..workload.like };
    let one = |candidate: &Candidate| Predict { models, catalogue, workload, like }.of(candidate, curve.as_ref());
    Ok(candidates.iter().map(one).collect())
}

struct Predict<'a> {
    models: &'a Trained,
    catalogue: &'a Catalogue,
    workload: &'a Workload<'a>,
    /// The trace's characteristics at the speed of the replay.
    like: Like,
}

/// The workload of all devices of one kind.
#[derive(Clone, Copy)]
struct Load {
    of: Predictors,
    /// The amount of data stored on them.
    data: Bytes,
}

impl Predict<'_> {
    fn of(&self, candidate: &Candidate, curve: Option<&MissRatioCurve>) -> Option<Prediction> {
        // The paper's arithmetic knows stripes only.
        if candidate.members().iter().any(|(_, member)| member.redundancy != Redundancy::None) {
            return None;
        }
        let like = &self.like;
        let whole = Predictors::of(like, 0.0);
        let footprint = Bytes(like.footprint_bytes);
        let slow = match candidate.slow {
            Some(Slow::Devices(slow)) => Some(slow),
            // And two tiers.
            Some(Slow::Drive(_)) => return None,
            None => None,
        };
        let Some(slow) = slow else {
            return self.device(candidate.fast, Load { of: whole, data: self.workload.reach });
        };
        let fast = candidate.fast;
        if candidate.mode == Mode::Logging {
            // Writes are appended to the log. The primary serves the reads and gets the written data in the end.
            let write_share = 1.0 - like.read_share;
            let log = Predictors { read_share: 0.0, sequential_share: 1.0, ..whole }.every(1.0 / write_share.max(1e-3));
            let log = self.device(slow, Load { of: log, data: footprint })?;
            let primary = self.device(fast, Load { of: whole, data: self.workload.reach })?;
            let mean_ms = like.read_share * primary.mean_ms + write_share * log.mean_ms;
            let lifetimes = [log.lifetime_years, primary.lifetime_years].into_iter().flatten();
            let extrapolated = log.extrapolated || primary.extrapolated;
            return Some(Prediction { mean_ms, lifetime_years: lifetimes.min_by(f64::total_cmp), extrapolated });
        }
        let room = usable(self.catalogue.kinds[fast.kind].capacity(fast)) * u64::from(fast.count);
        let size = room.min(self.workload.reach);
        let ratios = curve?.at(&[size]).first().copied()?;
        let misses = ratios.blocks.all.clamp(1e-4, 1.0);
        let written_misses = ratios.blocks.write.unwrap_or(0.0);
        let extent_kib = EXTENT.0 as f64 / 1024.0;
        // Every request is served by, or written to, the fast devices; every miss is written to them as well.
        let filled = 1.0 + misses;
        let kib = (like.request_kib + misses * extent_kib.max(like.request_kib)) / filled;
        let of_fast =
            Predictors { read_share: like.read_share / filled, request_kib: kib, ..whole }.every(1.0 / filled);
        let fast = self.device(fast, Load { of: of_fast, data: footprint.min(size) })?;
        // The slow devices are read at each miss. They are written at once or when dirty data leaves the cache.
        let written_back = match candidate.mode {
            Mode::CachingThrough => 1.0 - like.read_share,
            Mode::Partitioned => 0.1 * (1.0 - like.read_share),
            _ => misses.min(1.0 - like.read_share),
        };
        let slow_rate = misses + written_back;
        let of_slow =
            Predictors { read_share: misses / slow_rate, request_kib: extent_kib.max(like.request_kib), ..whole }
                .every(1.0 / slow_rate);
        let slow = self.device(slow, Load { of: of_slow, data: self.workload.reach })?;
        let waits_for_slow = match candidate.mode {
            // A write-through write waits for both devices.
            Mode::CachingThrough => {
                let reads = like.read_share * ratios.blocks.read.unwrap_or(misses);
                reads + (1.0 - like.read_share)
            }
            // Writes go to the fast devices whether the data is there or not.
            Mode::Partitioned => like.read_share * ratios.blocks.read.unwrap_or(misses),
            _ => misses.max(written_misses * (1.0 - like.read_share)),
        };
        let lifetimes = [fast.lifetime_years, slow.lifetime_years].into_iter().flatten();
        Some(Prediction {
            mean_ms: (1.0 - waits_for_slow) * fast.mean_ms + waits_for_slow * slow.mean_ms,
            lifetime_years: lifetimes.min_by(f64::total_cmp),
            extrapolated: fast.extrapolated || slow.extrapolated,
        })
    }

    /// The prediction for striped devices of one kind.
    fn device(&self, member: Member, load: Load) -> Option<Prediction> {
        let kind = &self.catalogue.kinds[member.kind];
        let models: &DeviceModels = self.models.devices.get(&kind.profile.name)?;
        let count = f64::from(member.count);
        // A request longer than a stripe uses several members at once.
        let parts = (load.of.request_kib / STRIPE_KIB).clamp(1.0, count);
        let utilisation = if kind.wears() {
            // Flash is planned as full of data, and the trace touches a part of that.
            self.workload.like.footprint_bytes.min(load.data.0) as f64 / load.data.0.max(1) as f64
        } else {
            load.data.0 as f64 / (usable(kind.capacity(member)).0 as f64 * count)
        };
        let of = Predictors { request_kib: load.of.request_kib / parts, utilisation: utilisation.min(1.0), ..load.of }
            .every(count / parts);
        let mean_ms = models.best_response()?.predict(&of);
        let erases = models.best_erases().filter(|_| of.read_share < 1.0).map(|model| model.predict(&of));
        // A device of less capacity endures so much less.
        let part = kind.capacity(member).0 as f64 / kind.profile.capacity.0 as f64;
        let years = |(erases, rated): (f64, f64)| rated * part / erases / SECONDS_PER_YEAR;
        let physical = erases.zip(models.rated_erases).map(years).filter(|years| years.is_finite());
        // The manufacturer's limit of host writes needs no model.
        let written_per_s = (1.0 - of.read_share) * of.request_kib * 1024.0 / (of.inter_arrival_ms / 1e3);
        let rated = models.rated_written.map(|limit| limit * part / written_per_s / SECONDS_PER_YEAR);
        let rated = rated.filter(|years| years.is_finite());
        let lifetime_years = [physical, rated].into_iter().flatten().min_by(f64::total_cmp);
        Some(Prediction { mean_ms, lifetime_years, extrapolated: models.extrapolates(&of) })
    }
}

impl Predictors {
    /// The same predictors with `times` the time between requests.
    fn every(self, times: f64) -> Predictors {
        Predictors { inter_arrival_ms: self.inter_arrival_ms * times, ..self }
    }
}
