//! The adaptive threshold ("Mixed SSD arrays", section V-B, equations (11) to (14)). Extents are sampled by hash into
//! small shadow caches, each with its own threshold. After every frame of accesses, the shadow cache with the best score sets
//! the threshold of the real cache, which is held against the target latency itself. Memory and time per request do not depend on the size of the volume.

use std::fmt;

use peryton_units::{Bytes, Nanos, person, person_ms};
use serde::{Deserialize, Serialize};

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
    /// How many reads and writes of the cache, and reads and writes of the storage, were for the host so far.
    pub served: [u64; 4],
}

/// The remaining life of a device.
#[derive(Clone, Copy, Debug)]
pub struct Wear {
    /// Bytes that can still be written to it; `None` if writing does not wear it.
    pub left: Option<Bytes>,
}

/// The state of the adaptive threshold, for reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdaptiveView {
    /// The threshold in force: bytes, references, or a probability.
    pub threshold: f64,
    /// The latest score of the sampled cache whose threshold is nearest to the threshold in force (lower is
    /// better); absent while it is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub score: Option<f64>,
    /// Number of frames evaluated.
    pub frames: u64,
    /// Number of frames in which no sampled cache met the target latency, so that everything was admitted.
    pub frames_over_target: u64,
    /// The mean response time of the whole cache in µs, over recent frames; absent before the first frame.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_latency_us: Option<f64>,
    /// The target latency in µs, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_latency_us: Option<f64>,
    /// Whether the mean response time meets the target latency; absent without a target.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_holds: Option<bool>,
    /// The number of thresholds that are withdrawn at present, because the whole cache exceeded the target with
    /// them.
    pub withdrawn: u32,
    /// The thresholds of the sampled caches, each with its latest score if that is known (lower is better).
    pub sampled: Vec<(f64, Option<f64>)>,
}

/// The threshold in force, its score, and whether the target holds.
impl fmt::Display for AdaptiveView {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: f64| person_ms(us / 1e3);
        let score = self.score.map_or_else(|| "unknown".to_owned(), |score| format!("{score:.2e}"));
        write!(formatter, "threshold {}, score {score}", person(self.threshold))?;
        if let Some(measured) = self.measured_latency_us {
            write!(formatter, "; mean {}", ms(measured))?;
        }
        if let Some((holds, target)) = self.target_holds.zip(self.target_latency_us) {
            write!(formatter, ", {} the target of {}", if holds { "within" } else { "over" }, ms(target))?;
        }
        Ok(())
    }
}

/// The numbers of lists where the state is saved.
const FRAMES: u8 = 0;
const SMOOTHED: u8 = 1;
const LATENCY: u8 = 2;
const WHOLE: u8 = 3;
const MOST_FRAMES: u64 = (1 << 62) - 1;
/// The fewest accesses that a latency rests on: with fewer, a sampled cache has no score.
const LEAST_ACCESSES: f64 = 32.0;
/// Standard errors by which a latency must be below a target to meet it, and above it to break it: 95 % on one side.
const SURE: f64 = 1.645;
/// Frames within the target after which a threshold that was withdrawn is tried again. They double with each trial that fails, up to the
/// second.
const FIRST_TRIAL: u32 = 8;
const LAST_TRIAL: u32 = 512;

/// The mean of values that are forgotten: those of a frame weigh as much as those of the next one times α.
#[derive(Clone, Copy, Debug, Default)]
struct Fading {
    weight: f64,
    squared_weight: f64,
    sum: f64,
    squares: f64,
}

impl Fading {
    fn fade(&mut self, alpha: f64) {
        *self = Fading {
            weight: self.weight * alpha,
            squared_weight: self.squared_weight * alpha * alpha,
            sum: self.sum * alpha,
            squares: self.squares * alpha,
        };
    }

    fn add(&mut self, count: f64, value: f64) {
        self.weight += count;
        self.squared_weight += count;
        self.sum += count * value;
        self.squares += count * value * value;
    }

    /// The mean and its standard error (the number of values by Kish 1965); `None` if it rests on too few.
    fn estimate(&self) -> Option<(f64, f64)> {
        let count = self.weight * self.weight / self.squared_weight.max(f64::MIN_POSITIVE);
        if count < LEAST_ACCESSES {
            return None;
        }
        let mean = self.sum / self.weight;
        Some((mean, ((self.squares / self.weight - mean * mean).max(0.0) / count).sqrt()))
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Smoothed {
    /// Bytes written per second to cache and storage, equation (12), and joules for each access.
    written_per_s: [f64; 2],
    energy_j: f64,
    latency_s: Fading,
    seen: bool,
}

/// What is known of a sampled cache after a frame.
#[derive(Clone, Copy, Debug)]
struct Judged {
    score: f64,
    meets_target: bool,
}

/// What the whole cache shows of the rule in force.
#[derive(Clone, Copy, Debug, Default)]
struct Whole {
    /// Commands for the host at the last frame.
    served: Option<[u64; 4]>,
    latency_s: Fading,
    /// Thresholds with lower numbers than this, which are stricter, have broken the target.
    withdrawn: usize,
    /// Frames within the target since, and how many it takes until a threshold is tried again.
    within: u32,
    trial: u32,
    /// Whether a threshold is tried again.
    tried: bool,
}

#[derive(Debug)]
pub(super) struct Adapting {
    config: Adaptive,
    /// From the strictest threshold to the one that admits everything.
    thresholds: Vec<f64>,
    shadows: Vec<Shadow>,
    smoothed: Vec<Smoothed>,
    scores: Vec<Option<f64>>,
    /// Extents with hashes below this are sampled; each shadow cache takes `per_shadow` of the hashes.
    sampled_below: u64,
    per_shadow: u64,
    seed: u64,
    frame_began: Option<Nanos>,
    sampled: u32,
    /// The threshold in force as a number of a sampled one; between two of them, it is between their thresholds.
    position: f64,
    whole: Whole,
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
            smoothed: vec![Smoothed::default(); shadows.len()],
            scores: vec![None; shadows.len()],
            sampled_below: per_shadow.saturating_mul(u64::from(caches)),
            per_shadow: per_shadow.max(1),
            position: (thresholds.len() - 1) as f64,
            thresholds,
            shadows,
            seed: mix(seed ^ 0xA5A5),
            frame_began: None,
            sampled: 0,
            whole: Whole { trial: FIRST_TRIAL, ..Whole::default() },
            frames: 0,
            frames_over_target: 0,
            programs: Programs::default(),
        }
    }

    /// The number of the threshold at which every miss is admitted.
    fn open(&self) -> usize {
        self.thresholds.len() - 1
    }

    /// The threshold in force.
    pub(super) fn threshold(&self) -> f64 {
        let lower = (self.position as usize).min(self.open());
        let (strict, share) = (self.thresholds[lower], self.position - lower as f64);
        let Some(open) = self.thresholds.get(lower + 1).filter(|_| share > 0.0) else { return strict };
        // Sizes and probabilities are spaced by factors, counts by steps, of which the last is 0.
        if strict > 0.0 && *open > strict {
            strict * (open / strict).powf(share)
        } else {
            strict + (open - strict) * share
        }
    }

    /// Passes an access to the shadow cache that samples its extent. Returns the time that the frame took when one ends: it has as
    /// many sampled accesses, so that what it says is as certain on a slow volume as on a fast one.
    #[inline]
    pub(super) fn observe(&mut self, now: Nanos, access: Access, len: Bytes) -> Option<Nanos> {
        let hash = mix(u64::from(access.extent) ^ self.seed);
        if hash >= self.sampled_below {
            return None;
        }
        let index = ((hash / self.per_shadow) as usize).min(self.shadows.len() - 1);
        self.shadows[index].access(access, len);
        let began = *self.frame_began.get_or_insert(now);
        self.sampled += 1;
        if self.sampled < self.config.frame {
            return None;
        }
        (self.frame_began, self.sampled) = (Some(now), 0);
        Some(now.saturating_sub(began))
    }

    /// Returns the new threshold, if anything was sampled in the frame.
    pub(super) fn end_frame(&mut self, span: Nanos, costs: Costs) -> Option<f64> {
        self.frames += 1;
        self.measure(&costs);
        let judged = self.judge(span, &costs)?;
        let allowed = judged.iter().enumerate().skip(self.whole.withdrawn);
        let met =
            allowed.filter_map(|(index, judged)| Some((index, (*judged)?))).filter(|(_, judged)| judged.meets_target);
        // Of equal scores the later one wins, because it admits more.
        let best = met.min_by(|(a, one), (b, other)| one.score.total_cmp(&other.score).then(b.cmp(a)));
        self.frames_over_target += u64::from(best.is_none());
        match best {
            Some((index, _)) => self.approach(index, &judged),
            None => self.position = self.open() as f64,
        }
        Some(self.threshold())
    }

    /// Goes towards a threshold by equation (14), unless one on the way is worse than both ends or is not known to be good: then at
    /// once.
    fn approach(&mut self, chosen: usize, judged: &[Option<Judged>]) {
        let (from, to) = (self.position, chosen as f64);
        let alpha = self.config.smoothing;
        let near = (from.round() as usize).min(self.open());
        let ends = [near, chosen].map(|index| judged[index].map_or(f64::INFINITY, |judged| judged.score));
        let worst_end = ends[0].max(ends[1]);
        let between = near.min(chosen) + 1..near.max(chosen);
        let leads_up =
            |judged: &Option<Judged>| judged.is_none_or(|judged| judged.score > worst_end || !judged.meets_target);
        let detour = judged.get(between).is_some_and(|between| between.iter().any(leads_up));
        self.position = if detour { to } else { alpha * from + (1.0 - alpha) * to };
        // What is within a hundredth of a step is there.
        if (self.position - to).abs() < 0.01 {
            self.position = to;
        }
    }

    /// Updates what is known of each sampled cache. `None` if nothing was sampled.
    fn judge(&mut self, span: Nanos, costs: &Costs) -> Option<Vec<Option<Judged>>> {
        let alpha = self.config.smoothing;
        let scale = 1.0 / self.config.rate;
        let target_s = self.config.target_latency.map(Nanos::as_s_f64);
        // If a few extents take much of the traffic, chance decides which cache samples them, and the cache with the
        // least traffic would seem to wear least. So wear is counted per access, at the rate of all accesses together.
        let accesses: u64 = self.shadows.iter().map(|shadow| shadow.traffic.accesses).sum();
        if accesses == 0 {
            return None;
        }
        let mut judged = Vec::with_capacity(self.shadows.len());
        for (index, shadow) in self.shadows.iter_mut().enumerate() {
            let traffic = std::mem::take(&mut shadow.traffic);
            let smoothed = &mut self.smoothed[index];
            smoothed.latency_s.fade(alpha);
            if traffic.accesses > 0 {
                let seconds = span.as_s_f64().max(1e-9);
                let share = accesses as f64 / traffic.accesses as f64;
                let rate = |kind: usize| traffic.bytes[kind] as f64 * share * scale / seconds;
                let smooth = |before: &mut f64, now: f64| {
                    *before = if smoothed.seen { alpha * *before + (1.0 - alpha) * now } else { now };
                };
                smooth(&mut smoothed.written_per_s[0], rate(CACHE_WRITE));
                smooth(&mut smoothed.written_per_s[1], rate(STORAGE_WRITE));
                smooth(&mut smoothed.energy_j, mean_energy_j(&traffic, costs));
                smoothed.seen = true;
                for (count, latency) in traffic.served.into_iter().zip(costs.latency) {
                    smoothed.latency_s.add(count, latency.as_s_f64());
                }
            }
            let known = smoothed.latency_s.estimate().filter(|_| smoothed.seen).map(|(latency_s, error_s)| {
                let score = self.config.objective.score(latency_s, lifetime_s(smoothed, costs), smoothed.energy_j);
                let meets_target = target_s.is_none_or(|target| latency_s + SURE * error_s <= target);
                Judged { score, meets_target }
            });
            let known = known.filter(|judged| judged.score.is_finite());
            self.scores[index] = known.map(|judged| judged.score);
            judged.push(known);
        }
        Some(judged)
    }

    /// Holds what the whole cache does against the target latency: a threshold with which it is above that is withdrawn, with all that
    /// are stricter.
    fn measure(&mut self, costs: &Costs) {
        let whole = &mut self.whole;
        whole.latency_s.fade(self.config.smoothing);
        if let Some(before) = whole.served.replace(costs.served) {
            for ((now, before), latency) in costs.served.iter().zip(before).zip(costs.latency) {
                whole.latency_s.add(now.saturating_sub(before) as f64, latency.as_s_f64());
            }
        }
        let (Some(target), Some((latency_s, error_s))) = (self.config.target_latency, whole.latency_s.estimate())
        else {
            return;
        };
        let target_s = target.as_s_f64();
        let open = self.thresholds.len() - 1;
        if latency_s - SURE * error_s > target_s {
            let broken = (self.position.floor() as usize + 1).min(open);
            if broken > whole.withdrawn {
                whole.withdrawn = broken;
                if std::mem::take(&mut whole.tried) {
                    whole.trial = (whole.trial * 2).min(LAST_TRIAL);
                }
                self.position = self.position.max(broken as f64);
                // What was measured was of another threshold.
                whole.latency_s = Fading::default();
            }
            whole.within = 0;
        } else if whole.withdrawn > 0 && latency_s <= target_s {
            whole.within += 1;
            if whole.within >= whole.trial {
                (whole.withdrawn, whole.within, whole.tried) = (whole.withdrawn - 1, 0, true);
            }
        }
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
        let ([position, position_high], frames, over) =
            (halves(self.position.to_bits()), halves(self.frames), halves(self.frames_over_target));
        to.put(FRAMES, &[position, position_high, frames[0], frames[1], over[0], over[1]]);
        for (index, (smoothed, score)) in (0..).zip(self.smoothed.iter().zip(&self.scores)) {
            let [cache, storage] = smoothed.written_per_s.map(|rate| halves(rate.to_bits()));
            let flags = u32::from(smoothed.seen) | u32::from(score.is_some()) << 1;
            let score = halves(score.unwrap_or(0.0).to_bits());
            to.put(SMOOTHED, &[index, flags, cache[0], cache[1], storage[0], storage[1], score[0], score[1]]);
            let Fading { weight, squared_weight, sum, squares } = smoothed.latency_s;
            let numbers = [weight, squared_weight, sum, squares, smoothed.energy_j];
            let mut item = vec![index];
            item.extend(numbers.into_iter().flat_map(|number| halves(number.to_bits())));
            to.put(LATENCY, &item);
        }
        let Whole { withdrawn, within, trial, .. } = self.whole;
        to.put(WHOLE, &[withdrawn as u32, within, trial]);
        true
    }

    /// Takes an item back that was saved. Returns the threshold, if it has that.
    pub(super) fn load(&mut self, list: u8, item: &[u32]) -> Option<f64> {
        let number = |halves: [u32; 2]| Some(f64::from_bits(whole(halves))).filter(|number| number.is_finite());
        match (list, item) {
            (FRAMES, [low, high, frames, frames_high, over, over_high]) => {
                let within = |position: &f64| (0.0..=self.open() as f64).contains(position);
                self.position = number([*low, *high]).filter(within)?;
                (self.frames, self.frames_over_target) =
                    (whole([*frames, *frames_high]) & MOST_FRAMES, whole([*over, *over_high]) & MOST_FRAMES);
                return Some(self.threshold());
            }
            (SMOOTHED, [index, flags, cache, cache_high, storage, storage_high, score, score_high]) => {
                let index = *index as usize;
                let (Some(smoothed), Some(of)) = (self.smoothed.get_mut(index), self.scores.get_mut(index)) else {
                    return None;
                };
                let rates = [number([*cache, *cache_high])?, number([*storage, *storage_high])?];
                (smoothed.written_per_s, smoothed.seen) = (rates, flags & 1 == 1);
                *of = number([*score, *score_high]).filter(|_| flags & 2 == 2);
            }
            (LATENCY, [index, numbers @ ..]) => {
                let smoothed = self.smoothed.get_mut(*index as usize)?;
                let (pairs, _) = numbers.as_chunks::<2>();
                let numbers: Option<Vec<f64>> =
                    pairs.iter().map(|pair| number(*pair).filter(|number| *number >= 0.0)).collect();
                if let Some([weight, squared_weight, sum, squares, energy_j]) = numbers.as_deref() {
                    smoothed.latency_s =
                        Fading { weight: *weight, squared_weight: *squared_weight, sum: *sum, squares: *squares };
                    smoothed.energy_j = *energy_j;
                }
            }
            (WHOLE, [withdrawn, within, trial]) => {
                self.whole.withdrawn = (*withdrawn as usize).min(self.open());
                (self.whole.within, self.whole.trial) = (*within, (*trial).clamp(FIRST_TRIAL, LAST_TRIAL));
            }
            _ => {}
        }
        None
    }

    pub(super) fn view(&self) -> AdaptiveView {
        let measured_s = self.whole.latency_s.estimate().map(|(latency_s, _)| latency_s);
        let target = self.config.target_latency;
        AdaptiveView {
            threshold: self.threshold(),
            score: self.scores[(self.position.round() as usize).min(self.open())],
            frames: self.frames,
            frames_over_target: self.frames_over_target,
            measured_latency_us: measured_s.map(|latency_s| latency_s * 1e6),
            target_latency_us: target.map(|target| target.as_s_f64() * 1e6),
            target_holds: target.zip(measured_s).map(|(target, latency_s)| latency_s <= target.as_s_f64()),
            withdrawn: self.whole.withdrawn as u32,
            sampled: self.thresholds.iter().copied().zip(self.scores.iter().copied()).collect(),
        }
    }
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
            frame: 1_000,
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
            served: [0; 4],
        }
    }

    fn run(adapting: &mut Adapting, extents: impl Iterator<Item = u32>, op: Op) -> f64 {
        let mut threshold = adapting.threshold();
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
        assert!(threshold < 0.2, "{threshold}: {:?}", scan.view());
    }

    /// When no sampled cache meets the target latency, everything is admitted (section V-B).
    #[test]
    fn an_unreachable_target_admits_all() {
        let mut scan = adapting(AdmitBy::Probability, Some(Nanos::from_us(10)));
        let threshold = run(&mut scan, (0..1_000_000).map(|step| step % 500_000), Op::Read);
        assert_eq!(threshold, 1.0);
        assert!(scan.view().frames_over_target > 10);
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

    /// The sampled caches may promise what the whole one does not keep: with other traffic, or with a device that is busy with moves.
    #[test]
    fn a_rule_with_which_the_whole_cache_breaks_the_target_is_withdrawn() {
        let mut scan = adapting(AdmitBy::Probability, Some(Nanos::from_us(1_100)));
        let mut costs = costs();
        let feed = |scan: &mut Adapting, steps: std::ops::Range<u64>, slow: u64, costs: &mut Costs| {
            for step in steps {
                let miss = Access { extent: (step % 1_500_000) as u32, op: Op::Read, request_len: Bytes::kib(4) };
                costs.served[STORAGE_WRITE] += slow;
                costs.served[0] += 1 - slow;
                if let Some(frame) = scan.observe(Nanos(step * 50_000), miss, Bytes::kib(4)) {
                    scan.end_frame(frame, *costs);
                }
            }
        };
        feed(&mut scan, 0..500_000, 0, &mut costs);
        let strict = scan.view();
        assert!(strict.threshold < 0.05 && strict.target_holds == Some(true) && strict.withdrawn == 0, "{strict:?}");
        // Every access takes longer than the target now, whatever the sampled caches say.
        costs.latency[STORAGE_WRITE] = Nanos::from_ms(5);
        feed(&mut scan, 500_000..900_000, 1, &mut costs);
        let open = scan.view();
        assert!(open.threshold == 1.0 && open.target_holds == Some(false) && open.withdrawn == 9, "{open:?}");
        // When the target holds again, thresholds are tried again one by one.
        costs.latency[STORAGE_WRITE] = Nanos::from_ms(1);
        feed(&mut scan, 900_000..4_000_000, 0, &mut costs);
        let tried = scan.view();
        assert!(tried.withdrawn < 9 && tried.target_holds == Some(true), "{tried:?}");
    }

    /// Equation (14) would pass through thresholds that are worse than both ends, and over the target.
    #[test]
    fn a_threshold_is_not_approached_through_worse_ones() {
        let mut adapting = adapting(AdmitBy::Probability, None);
        let judged = |score: f64| Some(Judged { score, meets_target: true });
        let hump: Vec<_> = (0..10).map(|index| judged(if (3..7).contains(&index) { 5.0 } else { 1.0 })).collect();
        adapting.approach(0, &hump);
        assert_eq!(adapting.position, 0.0);
        let slope: Vec<_> = (0..10).map(|index| judged(f64::from(index))).collect();
        adapting.position = 9.0;
        adapting.approach(0, &slope);
        assert!((adapting.position - 0.8 * 9.0).abs() < 1e-9);
        let mut unknown = slope;
        unknown[4] = None;
        adapting.approach(0, &unknown);
        assert_eq!(adapting.position, 0.0);
    }

    /// The mean of a few accesses scatters: a cache of which little was seen has no score, and a latency is judged with its error.
    #[test]
    fn few_accesses_make_no_score_and_errors_count() {
        let mut fading = Fading::default();
        fading.add(20.0, 40e-6);
        assert!(fading.estimate().is_none());
        fading.add(30.0, 1000e-6);
        let (mean, error) = fading.estimate().unwrap();
        let (exact, deviation) = (616e-6, (960e-6_f64) * (0.4f64 * 0.6).sqrt());
        assert!((mean - exact).abs() < 1e-9 && (error - deviation / 50f64.sqrt()).abs() < 1e-9, "{mean} {error}");
        // Frames that are forgotten leave fewer values.
        for _ in 0..10 {
            fading.fade(0.5);
            fading.add(20.0, 40e-6);
        }
        assert!(fading.estimate().is_some_and(|(mean, _)| mean < 50e-6));
    }

    #[test]
    fn lifetime_ends_with_the_first_device_that_wears_out() {
        let smoothed = Smoothed { written_per_s: [10.0, 1.0], seen: true, ..Smoothed::default() };
        let wear = |bytes| Wear { left: Some(Bytes(bytes)) };
        let costs = Costs { wear: [wear(1000), wear(200)], ..costs() };
        assert_eq!(lifetime_s(&smoothed, &costs), 100.0);
        let costs = Costs { wear: [wear(1000), Wear { left: None }], ..costs };
        assert_eq!(lifetime_s(&smoothed, &costs), 100.0);
    }
}
