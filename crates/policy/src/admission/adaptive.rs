//! The adaptive threshold ("Mixed SSD arrays", section V-B, equations (11) to (14)). Extents are sampled by hash into
//! small shadow caches, each with its own threshold. After every time frame, the shadow cache with the best score sets
//! the threshold of the real cache. Memory and time per request do not depend on the size of the volume.

use peryton_units::{Bytes, Nanos};
use serde::Serialize;

use crate::saving::{Saving, halves, whole};

use super::{
    Access, AccessEnergy, Adaptive, AdmitBy, Evaluator, mix,
    programs::Programs,
    shadow::{CACHE_WRITE, STORAGE_WRITE, Shadow, Traffic},
};

/// The costs of an access, as the caller has measured them, and how much the devices can still be written.
#[derive(Clone, Copy, Debug)]
pub struct Costs {
    /// Mean time of a read and a write of the cache, and of a read and a write of the storage.
    pub latency: [Nanos; 4],
    /// The remaining life of the cache and of the storage.
    pub wear: [Wear; 2],
    /// The energy of accesses to the cache and to the storage; zeros if it is not known.
    pub energy: [AccessEnergy; 2],
}

/// The remaining life of a device.
#[derive(Clone, Copy, Debug)]
pub struct Wear {
    /// Bytes that can still be written to it; `None` if writing does not wear it.
    pub left: Option<Bytes>,
}

/// The state of the adaptive threshold, for reports.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdaptiveView {
    /// The threshold in force: bytes, references, or a probability.
    pub threshold: f64,
    /// Number of time frames evaluated.
    pub frames: u64,
    /// Number of frames in which no sampled cache met the target latency, so that everything was admitted.
    pub frames_over_target: u64,
    /// The thresholds of the sampled caches, each with its latest score if it has one (lower is better).
    pub sampled: Vec<(f64, Option<f64>)>,
}

/// The numbers of lists where the state is saved.
const FRAMES: u8 = 0;
const SMOOTHED: u8 = 1;
const MOST_FRAMES: u64 = (1 << 62) - 1;

#[derive(Clone, Copy, Debug, Default)]
struct Smoothed {
    /// Bytes written per second to cache and storage, equation (12).
    written_per_s: [f64; 2],
    seen: bool,
}

#[derive(Debug)]
pub(super) struct Adapting {
    config: Adaptive,
    by: AdmitBy,
    shadows: Vec<Shadow>,
    smoothed: Vec<Smoothed>,
    scores: Vec<Option<f64>>,
    /// Extents with hashes below this are sampled; each shadow cache takes `per_shadow` of the hashes.
    sampled_below: u64,
    per_shadow: u64,
    seed: u64,
    frame_began: Option<Nanos>,
    threshold: f64,
    frames: u64,
    frames_over_target: u64,
    pub(super) programs: Programs,
}

impl Adapting {
    pub(super) fn new(
        by: AdmitBy,
        config: &Adaptive,
        seed: u64,
        slots: u32,
        extent: Bytes,
        judges_write_hits: bool,
    ) -> Adapting {
        let caches = config.caches.max(1);
        let share = config.rate / f64::from(caches);
        let size = ((f64::from(slots) * share) as u32).max(1);
        let thresholds = by.sampled_thresholds(caches);
        let shadows: Vec<Shadow> = (0u64..)
            .zip(&thresholds)
            .map(|(index, threshold)| {
                let evaluator = Evaluator::new(by, *threshold, size as usize, seed.wrapping_add(index + 1));
                Shadow::new(evaluator, size, extent, judges_write_hits)
            })
            .collect();
        let per_shadow = (share * 2f64.powi(64)) as u64;
        Adapting {
            config: config.clone(),
            by,
            smoothed: vec![Smoothed::default(); shadows.len()],
            scores: vec![None; shadows.len()],
            sampled_below: per_shadow.saturating_mul(u64::from(caches)),
            per_shadow: per_shadow.max(1),
            shadows,
            seed: mix(seed ^ 0xA5A5),
            frame_began: None,
            threshold: thresholds.last().copied().unwrap_or(1.0),
            frames: 0,
            frames_over_target: 0,
            programs: Programs::default(),
        }
    }

    /// The threshold at which every miss is admitted.
    pub(super) fn admit_all(&self) -> f64 {
        self.by.sampled_thresholds(self.config.caches.max(1)).last().copied().unwrap_or(1.0)
    }

    /// Passes an access to the shadow cache that samples its extent. Returns the length of the time frame when one
    /// ends.
    #[inline]
    pub(super) fn observe(&mut self, now: Nanos, access: Access, len: Bytes) -> Option<Nanos> {
        let hash = mix(u64::from(access.extent) ^ self.seed);
        if hash >= self.sampled_below {
            return None;
        }
        let index = ((hash / self.per_shadow) as usize).min(self.shadows.len() - 1);
        self.shadows[index].access(access, len);
        let began = *self.frame_began.get_or_insert(now);
        let span = now.saturating_sub(began);
        if span < self.config.frame {
            return None;
        }
        self.frame_began = Some(now);
        Some(span)
    }

    /// Returns the new threshold, if anything was sampled in the frame.
    pub(super) fn end_frame(&mut self, span: Nanos, costs: Costs) -> Option<f64> {
        self.frames += 1;
        let alpha = self.config.smoothing;
        let scale = 1.0 / self.config.rate;
        // If a few extents take much of the traffic, chance decides which cache samples them, and the cache with the
        // least traffic would seem to wear least. So wear is counted per access, at the rate of all accesses together.
        let accesses: u64 = self.shadows.iter().map(|shadow| shadow.traffic.accesses).sum();
        let mut best: Option<(f64, f64)> = None;
        let mut any = false;
        for (index, shadow) in self.shadows.iter_mut().enumerate() {
            let traffic = std::mem::take(&mut shadow.traffic);
            if traffic.accesses == 0 {
                continue;
            }
            any = true;
            let smoothed = &mut self.smoothed[index];
            let seconds = span.as_s_f64().max(1e-9);
            let written = [CACHE_WRITE, STORAGE_WRITE].map(|kind| traffic.bytes[kind]);
            let share = accesses as f64 / traffic.accesses as f64;
            let rates = written.map(|bytes| bytes as f64 * share * scale / seconds);
            for (rate, before) in rates.into_iter().zip(&mut smoothed.written_per_s) {
                *before = if smoothed.seen { alpha * *before + (1.0 - alpha) * rate } else { rate };
            }
            smoothed.seen = true;
            let latency_s = mean_latency_s(&traffic, &costs);
            let energy_j = mean_energy_j(&traffic, &costs);
            let score = self.config.objective.score(latency_s, lifetime_s(smoothed, &costs), energy_j);
            self.scores[index] = Some(score);
            let within = self.config.target_latency.is_none_or(|target| latency_s <= target.as_s_f64());
            // Of equal scores the later one wins, because it admits more.
            if within && score.is_finite() && best.is_none_or(|(least, _)| score <= least) {
                best = Some((score, shadow.evaluator.threshold));
            }
        }
        if !any {
            return None;
        }
        self.frames_over_target += u64::from(best.is_none());
        let chosen = match best {
            Some((_, threshold)) => threshold,
            None => self.admit_all(),
        };
        // Equation (14).
        self.threshold = alpha * self.threshold + (1.0 - alpha) * chosen;
        Some(self.threshold)
    }

    /// Number of sampled caches.
    pub(super) fn sampled(&self) -> usize {
        self.shadows.len()
    }

    /// A sampled cache.
    pub(super) fn shadow_mut(&mut self, index: usize) -> Option<&mut Shadow> {
        self.shadows.get_mut(index)
    }

    /// Saves what the frames so far have shown. What was seen in the present frame is not saved.
    pub(super) fn save(&self, to: &mut Saving<'_>) -> bool {
        let ([threshold, threshold_high], frames, over) =
            (halves(self.threshold.to_bits()), halves(self.frames), halves(self.frames_over_target));
        to.put(FRAMES, &[threshold, threshold_high, frames[0], frames[1], over[0], over[1]]);
        for (index, (smoothed, score)) in (0..).zip(self.smoothed.iter().zip(&self.scores)) {
            let [cache, storage] = smoothed.written_per_s.map(|rate| halves(rate.to_bits()));
            let flags = u32::from(smoothed.seen) | u32::from(score.is_some()) << 1;
            let score = halves(score.unwrap_or(0.0).to_bits());
            to.put(SMOOTHED, &[index, flags, cache[0], cache[1], storage[0], storage[1], score[0], score[1]]);
        }
        true
    }

    /// Takes an item back that was saved. Returns the threshold, if it has that.
    pub(super) fn load(&mut self, list: u8, item: &[u32]) -> Option<f64> {
        let number = |halves: [u32; 2]| Some(f64::from_bits(whole(halves))).filter(|number| number.is_finite());
        match (list, item) {
            (FRAMES, [low, high, frames, frames_high, over, over_high]) => {
                self.threshold = number([*low, *high]).filter(|threshold| *threshold >= 0.0)?;
                (self.frames, self.frames_over_target) =
                    (whole([*frames, *frames_high]) & MOST_FRAMES, whole([*over, *over_high]) & MOST_FRAMES);
                return Some(self.threshold);
            }
            (SMOOTHED, [index, flags, cache, cache_high, storage, storage_high, score, score_high]) => {
                let index = *index as usize;
                let (Some(smoothed), Some(of)) = (self.smoothed.get_mut(index), self.scores.get_mut(index)) else {
                    return None;
                };
                let rates = [number([*cache, *cache_high])?, number([*storage, *storage_high])?];
                *smoothed = Smoothed { written_per_s: rates, seen: flags & 1 == 1 };
                *of = number([*score, *score_high]).filter(|_| flags & 2 == 2);
            }
            _ => {}
        }
        None
    }

    pub(super) fn view(&self, threshold: f64) -> AdaptiveView {
        let sampled = self.shadows.iter().zip(&self.scores).map(|(shadow, score)| (shadow.evaluator.threshold, *score));
        AdaptiveView {
            threshold,
            frames: self.frames,
            frames_over_target: self.frames_over_target,
            sampled: sampled.collect(),
        }
    }
}

fn mean_latency_s(traffic: &Traffic, costs: &Costs) -> f64 {
    let total: f64 = traffic.served.iter().zip(costs.latency).map(|(count, latency)| count * latency.as_s_f64()).sum();
    total / traffic.served.iter().sum::<f64>().max(f64::MIN_POSITIVE)
}

/// The mean energy of an access with the moves that it causes, beyond what idle devices draw.
fn mean_energy_j(traffic: &Traffic, costs: &Costs) -> f64 {
    let joules = |kind: usize| {
        let (device, op) = (costs.energy[kind / 2], kind % 2);
        traffic.commands[kind] as f64 * costs.latency[kind].as_s_f64() * device.active_w[op]
            + traffic.bytes[kind] as f64 * device.per_byte_j[op]
    };
    (0..4).map(joules).sum::<f64>() / traffic.accesses as f64
}

/// Equation (11): the time until the first of the two devices is worn out.
fn lifetime_s(smoothed: &Smoothed, costs: &Costs) -> f64 {
    smoothed
        .written_per_s
        .iter()
        .zip(costs.wear)
        .filter_map(|(rate, wear)| Some(wear.left?.0 as f64 / rate.max(1e-9)))
        .fold(f64::INFINITY, f64::min)
}

#[cfg(test)]
mod tests {
    use peryton_units::Op;

    use super::*;
    use crate::admission::Objective;

    fn paper(rate: f64) -> Adaptive {
        Adaptive {
            rate,
            caches: 10,
            target_latency: None,
            frame: Nanos::from_s(1),
            smoothing: 0.8,
            objective: Objective::default(),
        }
    }

    fn adapting(by: AdmitBy, target_latency: Option<Nanos>) -> Adapting {
        let config = Adaptive { target_latency, ..paper(0.1) };
        Adapting::new(by, &config, 1, 10_000, Bytes::kib(4), true)
    }

    fn costs() -> Costs {
        Costs {
            latency: [Nanos::from_us(40), Nanos::from_us(200), Nanos::from_us(200), Nanos::from_us(1000)],
            wear: [Wear { left: Some(Bytes(1 << 50)) }, Wear { left: Some(Bytes(6 << 49)) }],
            energy: [AccessEnergy::default(); 2],
        }
    }

    fn run(adapting: &mut Adapting, extents: impl Iterator<Item = u32>, op: Op) -> f64 {
        let mut threshold = adapting.admit_all();
        for (step, extent) in (0u64..).zip(extents) {
            let miss = Access { extent, op, request_len: Bytes::kib(4) };
            if let Some(frame) = adapting.observe(Nanos(step * 50_000), miss, Bytes::kib(4)) {
                threshold = adapting.end_frame(frame, costs()).unwrap_or(threshold);
            }
        }
        threshold
    }

    /// Section VI-C: reads without locality wear the cache without benefit, so they bypass it.
    #[test]
    fn a_scan_is_kept_out_of_the_cache() {
        let mut scan = adapting(AdmitBy::Probability, None);
        let threshold = run(&mut scan, (0..2_000_000).map(|step| step % 1_500_000), Op::Read);
        assert!(threshold < 0.2, "{threshold}: {:?}", scan.view(threshold));
    }

    /// When no sampled cache meets the target latency, everything is admitted (section V-B).
    #[test]
    fn an_unreachable_target_admits_all() {
        let mut scan = adapting(AdmitBy::Probability, Some(Nanos::from_us(10)));
        let threshold = run(&mut scan, (0..1_000_000).map(|step| step % 500_000), Op::Read);
        assert_eq!(threshold, 1.0);
        assert!(scan.view(threshold).frames_over_target > 10);
    }

    /// Caching a hot set that fits is worth its wear if latency decides, and not if wear decides. If the storage draws
    /// more power than the cache, energy gives the same answer as latency.
    #[test]
    fn the_weights_decide() {
        let objective = |latency, wear, energy| Objective { latency, wear, energy };
        let threshold = |objective, storage_w| {
            let mut hot = adapting(AdmitBy::Probability, None);
            hot.config.objective = objective;
            let energy = [0.1, storage_w].map(|watts| AccessEnergy { active_w: [watts; 2], per_byte_j: [0.0; 2] });
            let wear = [Wear { left: Some(Bytes(1 << 40)) }, Wear { left: None }];
            let costs = Costs { energy, wear, ..costs() };
            let mut threshold = 0.5;
            for step in 0..600_000u64 {
                let miss = Access { extent: (mix(step) % 8_000) as u32, op: Op::Read, request_len: Bytes::kib(4) };
                if let Some(frame) = hot.observe(Nanos(step * 50_000), miss, Bytes::kib(4)) {
                    threshold = hot.end_frame(frame, costs).unwrap_or(threshold);
                }
            }
            threshold
        };
        assert!(threshold(objective(1.0, 0.0, 0.0), 1.0) > 0.5);
        assert!(threshold(objective(0.0, 1.0, 0.0), 1.0) < 0.5);
        assert!(threshold(objective(0.0, 0.0, 1.0), 10.0) > 0.5);
    }

    /// One extent of a hundred takes half of the writes: the cache that samples it must not get a worse score for that.
    #[test]
    fn the_cache_that_samples_a_hot_extent_is_not_disfavoured() {
        for seed in 0..20 {
            let config = Adaptive { objective: Objective { latency: 0.0, ..Objective::default() }, ..paper(0.5) };
            let mut skewed = Adapting::new(AdmitBy::Probability, &config, seed, 200, Bytes::kib(4), false);
            for step in 0..40_000u64 {
                let extent = if step % 2 == 0 { 7 } else { (mix(step) % 100) as u32 };
                let miss = Access { extent, op: Op::Write, request_len: Bytes::kib(4) };
                if let Some(frame) = skewed.observe(Nanos(step * 50_000), miss, Bytes::kib(4)) {
                    skewed.end_frame(frame, Costs { wear: [Wear { left: Some(Bytes(1 << 40)) }; 2], ..costs() });
                }
            }
            // Everything fits, so each cache writes each byte once, to one device or the other.
            let scores: Vec<f64> = skewed.scores.iter().flatten().copied().collect();
            let (least, most) = scores.iter().fold((f64::MAX, 0.0f64), |(a, b), score| (a.min(*score), b.max(*score)));
            assert!(most < 2.1 * least, "seed {seed}: {scores:?}");
        }
    }

    /// The report's mean is over requests: a long request that misses counts once, however many extents it has.
    #[test]
    fn a_long_request_counts_once() {
        let mut adapting = adapting(AdmitBy::Probability, None);
        let shadow = &mut adapting.shadows[9];
        shadow.access(Access { extent: 1, op: Op::Write, request_len: Bytes::kib(4) }, Bytes::kib(4));
        for extent in 2..10 {
            shadow.access(Access { extent, op: Op::Read, request_len: Bytes::kib(32) }, Bytes::kib(4));
        }
        // The request made a write of the cache and a read of the storage, 200 us each.
        assert_eq!(shadow.traffic.served, [0.0, 1.0, 1.0, 0.0]);
        assert!((mean_latency_s(&shadow.traffic, &costs()) - 200e-6).abs() < 1e-12);
    }

    #[test]
    fn energy_counts_commands_by_their_time_and_bytes() {
        let traffic = Traffic { accesses: 2, served: [0.0; 4], commands: [1, 2, 3, 4], bytes: [10, 20, 30, 40] };
        let cache = AccessEnergy { active_w: [1.0, 2.0], per_byte_j: [0.0, 1.0] };
        let storage = AccessEnergy { active_w: [3.0, 4.0], per_byte_j: [2.0, 0.0] };
        let costs = Costs { energy: [cache, storage], ..costs() };
        let expected = (40e-6 * 1.0) + (2.0 * 200e-6 * 2.0 + 20.0) + (3.0 * 200e-6 * 3.0 + 60.0) + 4.0 * 1e-3 * 4.0;
        assert!((mean_energy_j(&traffic, &costs) - expected / 2.0).abs() < 1e-12);
    }

    /// Memory must be bounded on the live path: the sampled caches hold as many extents as they are sized for.
    #[test]
    fn no_number_of_extents_makes_the_sampled_caches_grow() {
        for by in [AdmitBy::Probability, AdmitBy::Size, AdmitBy::Hotness] {
            let mut adapting = adapting(by, None);
            let held = |adapting: &Adapting| adapting.shadows.iter().map(Shadow::held).sum::<usize>();
            let feed = |adapting: &mut Adapting, steps: std::ops::Range<u64>| {
                for step in steps {
                    let op = if step % 3 == 0 { Op::Read } else { Op::Write };
                    let miss = Access { extent: mix(step) as u32, op, request_len: Bytes::kib(4) };
                    adapting.observe(Nanos(step), miss, Bytes::kib(4));
                }
            };
            feed(&mut adapting, 0..200_000);
            let before = held(&adapting);
            feed(&mut adapting, 200_000..2_000_000);
            // Two tables of each cached extent, and a rule's history as long as the cache.
            assert!(before > 0 && held(&adapting) <= 3 * 1_000, "{by:?}: {before}, then {}", held(&adapting));
        }
    }

    #[test]
    fn lifetime_ends_with_the_first_device_that_wears_out() {
        let smoothed = Smoothed { written_per_s: [10.0, 1.0], seen: true };
        let wear = |bytes| Wear { left: Some(Bytes(bytes)) };
        let costs = Costs { wear: [wear(1000), wear(200)], ..costs() };
        assert_eq!(lifetime_s(&smoothed, &costs), 100.0);
        let costs = Costs { wear: [wear(1000), Wear { left: None }], ..costs };
        assert_eq!(lifetime_s(&smoothed, &costs), 100.0);
    }
}
