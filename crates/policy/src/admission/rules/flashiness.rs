//! Admits extents that are expected to be read often before they are written again (Flashield: Eisenman et al., NSDI 2019). Each
//! copy costs the flash a write, which pays only if reads follow, and a write of the extent wastes it.
//!
//! As in Flashield, everything first passes through a stage in memory (here without data) where its reads and writes are observed,
//! and a linear classifier decides by five features: those of the authors' simulator. It learns from the stage itself whether an
//! extent with such features was read often enough.

use super::{Access, AdmissionRule, Unit, WriteHits};
use crate::{
    ExtentTable, Queues,
    replacement::SlotIndex,
    saving::{Saving, halves, whole},
};

use peryton_units::Op;

/// The numbers of lists where the state is saved: the stage, and what the classifier has learnt.
const STAGE: u8 = 0;
const LEARNT: u8 = 1;
const FIGURES: u8 = 2;

/// The features of an extent, scaled to about 1, and a constant.
type Features = [f64; 6];

/// Before this many labels of either kind the classifier knows too little, and reads so far decide.
const LEAST_LABELS: u32 = 64;
/// The regularisation of the support-vector machine, and the least rate at which it learns, so that it goes on to adapt.
const REGULARISATION: f64 = 1e-3;
const LEAST_RATE: f64 = 1e-2;

/// What was observed of an extent since it was last written, or since it came. Times are counted in accesses to the stage.
#[derive(Clone, Copy, Debug, Default)]
struct Observed {
    extent: u32,
    /// Reads after the access that brought it.
    reads: u32,
    latest: u64,
    first_gap: u64,
    last_gap: u64,
    longest_gap: u64,
    sum_of_gaps: u64,
    /// Features whose label is not known yet, and the reads since.
    sample: Option<(Features, u32)>,
}

impl Observed {
    fn read(&mut self, now: u64) {
        let gap = now - self.latest;
        if self.reads == 0 {
            self.first_gap = gap;
        }
        self.reads = self.reads.saturating_add(1);
        self.last_gap = gap;
        self.longest_gap = self.longest_gap.max(gap);
        self.sum_of_gaps += gap;
        self.latest = now;
    }

    /// The features of the authors' simulator: the time to the first read, the mean, latest and longest time between reads, and
    /// the number of reads.
    fn features(&self) -> Features {
        // Not the logarithm of the C library, which is another one on another system.
        let scaled = |value: f64| libm::log1p(value) / 16.0;
        let mean = self.sum_of_gaps as f64 / f64::from(self.reads.max(1));
        let gaps = [self.first_gap as f64, mean, self.last_gap as f64, self.longest_gap as f64].map(scaled);
        let [first, mean, last, longest] = gaps;
        [first, mean, last, longest, scaled(f64::from(self.reads)) * 4.0, 1.0]
    }
}

/// A linear support-vector machine that learns from one label at a time (Pegasos: Shalev-Shwartz et al., ICML 2007).
#[derive(Clone, Debug, Default)]
struct Classifier {
    weights: Features,
    labels: [u32; 2],
}

impl Classifier {
    fn margin(&self, features: &Features) -> f64 {
        self.weights.iter().zip(features).map(|(weight, feature)| weight * feature).sum()
    }

    fn learn(&mut self, features: &Features, often: bool) {
        let count = &mut self.labels[usize::from(often)];
        *count = count.saturating_add(1);
        let steps = f64::from(self.labels[0]) + f64::from(self.labels[1]);
        let rate = (1.0 / (REGULARISATION * steps)).clamp(LEAST_RATE, 1.0);
        let sign = if often { 1.0 } else { -1.0 };
        let wrong = sign * self.margin(features) < 1.0;
        for (weight, feature) in self.weights.iter_mut().zip(features) {
            *weight *= 1.0 - rate * REGULARISATION;
            if wrong {
                *weight += rate * sign * feature;
            }
        }
    }

    /// Whether extents with these features are read often enough; `None` as long as too little is known.
    fn judges(&self, features: &Features) -> Option<bool> {
        let [rarely, often] = self.labels;
        (rarely.min(often) >= LEAST_LABELS).then(|| self.margin(features) > 0.0)
    }
}

#[derive(Clone, Debug)]
pub struct Flashiness {
    /// The extents accessed last, as many as the cache has slots.
    stage: Vec<Observed>,
    order: Queues<1>,
    places: ExtentTable,
    classifier: Classifier,
    now: u64,
    /// The reads that make a copy worth its write.
    threshold: u32,
}

impl Flashiness {
    fn label(&mut self, place: u32, often: bool) {
        if let Some((features, _)) = self.stage[place as usize].sample.take() {
            self.classifier.learn(&features, often);
        }
    }

    /// The place of an extent that comes into the stage: a new one, or that of the extent that was not accessed for longest.
    fn place(&mut self) -> u32 {
        let room = self.order.len(0);
        if (room as usize) < self.stage.capacity() {
            self.stage.push(Observed::default());
            return room;
        }
        let oldest = self.order.first(0).expect("a full stage has an oldest extent");
        self.label(oldest.0, false);
        self.order.unlink(oldest);
        self.places.remove(self.stage[oldest.index()].extent);
        oldest.0
    }
}

impl AdmissionRule for Flashiness {
    const UNIT: Unit = Unit::Count;
    const DEFAULT_THRESHOLD: Option<f64> = Some(1.0);
    const OBSERVES: bool = true;
    // In Flashield an update goes to memory and makes the copy on flash invalid. Here it would have to go to the storage, which
    // costs hits and saves few writes, so that a design has to ask for it.
    const WRITE_HITS: Option<WriteHits> = Some(WriteHits::Cache);

    fn new(extents: usize, _seed: u64) -> Flashiness {
        let extents = extents.max(1);
        Flashiness {
            stage: Vec::with_capacity(extents),
            order: Queues::new(extents as u32),
            places: ExtentTable::default(),
            classifier: Classifier::default(),
            now: 0,
            threshold: 1,
        }
    }

    fn set_threshold(&mut self, threshold: f64) {
        self.threshold = threshold.ceil().max(1.0) as u32;
    }

    fn observe(&mut self, Access { extent, op, .. }: Access) {
        self.now += 1;
        let now = self.now;
        let Some(place) = self.places.get(extent) else {
            let place = self.place();
            self.stage[place as usize] = Observed { extent, latest: now, ..Observed::default() };
            self.order.push(0, SlotIndex(place));
            self.places.insert(extent, place);
            return;
        };
        self.order.renew(0, SlotIndex(place));
        if op != Op::Read {
            // It was written: a copy on flash would have been wasted, and what was observed is about other data.
            self.label(place, false);
            self.stage[place as usize] = Observed { extent, latest: now, ..Observed::default() };
            return;
        }
        let threshold = self.threshold;
        let observed = &mut self.stage[place as usize];
        observed.read(now);
        match &mut observed.sample {
            Some((_, reads)) => {
                *reads += 1;
                if *reads >= threshold {
                    self.label(place, true);
                }
            }
            None => observed.sample = Some((observed.features(), 0)),
        }
    }

    fn admits(&mut self, miss: Access) -> bool {
        // What is written, or read for the first time, is to be observed first.
        let observed = self.places.get(miss.extent).map(|place| &self.stage[place as usize]);
        let Some(observed) = observed.filter(|observed| miss.op == Op::Read && observed.reads > 0) else {
            return false;
        };
        self.classifier.judges(&observed.features()).unwrap_or(observed.reads >= self.threshold)
    }

    /// Of an extent in the stage everything but the features whose label is not known yet: they are too long.
    fn save(&mut self, to: &mut Saving<'_>) -> bool {
        let short = |gap: u64| gap.min(u64::from(u32::MAX)) as u32;
        loop {
            let complete = match to.part() {
                0 => {
                    let [low, high] = halves(self.now);
                    let [rarely, often] = self.classifier.labels;
                    to.put(FIGURES, &[low, high, rarely, often]);
                    let weights: Vec<u32> =
                        self.classifier.weights.iter().flat_map(|weight| halves(weight.to_bits())).collect();
                    to.put(LEARNT, &weights);
                    true
                }
                1 => to.queue(STAGE, &mut self.order, 0, |place| {
                    let of = &self.stage[place.index()];
                    let ([latest, latest_high], [sum, sum_high]) = (halves(of.latest), halves(of.sum_of_gaps));
                    let gaps = [of.first_gap, of.last_gap, of.longest_gap].map(short);
                    Some([of.extent, of.reads, latest, latest_high, gaps[0], gaps[1], gaps[2], sum, sum_high])
                }),
                _ => return true,
            };
            if !to.next_if(complete) {
                return false;
            }
        }
    }

    fn load(&mut self, list: u8, item: &[u32]) {
        match (list, item) {
            (FIGURES, [low, high, rarely, often]) => {
                self.now = whole([*low, *high]);
                self.classifier.labels = [*rarely, *often];
            }
            (LEARNT, halves) => {
                for (weight, halves) in self.classifier.weights.iter_mut().zip(halves.chunks_exact(2)) {
                    let saved = f64::from_bits(whole([halves[0], halves[1]]));
                    *weight = if saved.is_finite() { saved } else { 0.0 };
                }
            }
            (STAGE, [extent, reads, latest, latest_high, first, last, longest, sum, sum_high]) => {
                let latest = whole([*latest, *latest_high]).min(self.now);
                let place = self.places.get(*extent).unwrap_or_else(|| self.place());
                let [first_gap, last_gap, longest_gap] = [first, last, longest].map(|gap| u64::from(*gap));
                let sum_of_gaps = whole([*sum, *sum_high]);
                let (extent, reads) = (*extent, *reads);
                self.stage[place as usize] =
                    Observed { extent, reads, latest, first_gap, last_gap, longest_gap, sum_of_gaps, sample: None };
                self.order.put(0, SlotIndex(place));
                self.places.insert(extent, place);
            }
            _ => {}
        }
    }

    #[cfg(test)]
    fn remembered(&self) -> usize {
        self.places.len()
    }
}

#[cfg(test)]
mod tests {
    use peryton_units::Bytes;
    use rand::{RngExt, SeedableRng, rngs::StdRng};

    use super::*;

    fn access(extent: u32, op: Op) -> Access {
        Access { extent, op, request_len: Bytes::kib(4) }
    }

    fn sees(rule: &mut Flashiness, extent: u32, op: Op) -> bool {
        rule.observe(access(extent, op));
        rule.admits(access(extent, op))
    }

    #[test]
    fn what_comes_or_is_written_is_observed_first() {
        let mut rule = Flashiness::new(10, 1);
        rule.set_threshold(1.0);
        assert!(!sees(&mut rule, 1, Op::Read), "it has just come");
        assert!(sees(&mut rule, 1, Op::Read));
        assert!(!sees(&mut rule, 1, Op::Write));
        assert!(sees(&mut rule, 1, Op::Read), "a read after the write that brought it");
        rule.set_threshold(3.0);
        assert!(!sees(&mut rule, 1, Op::Read) && sees(&mut rule, 1, Op::Read));
        for extent in 2..12 {
            sees(&mut rule, extent, Op::Read);
        }
        assert!(!sees(&mut rule, 1, Op::Read), "it has left the stage");
    }

    /// Extents that are read several times between writes, extents that are written after each read, and a scan: the rule finds
    /// out by itself which are which.
    #[test]
    fn it_learns_what_is_read_before_it_is_written() {
        let mut random = StdRng::seed_from_u64(7);
        let mut rule = Flashiness::new(1_000, 1);
        rule.set_threshold(3.0);
        let (mut admitted, mut seen) = ([0u32; 2], [0u32; 2]);
        for step in 0..200_000u32 {
            let drawn = random.random_range(0..100u32);
            // 100 extents that are only read, and 100 that are read twice for each write.
            let (kind, extent) = if step % 2 == 0 { (0, drawn) } else { (1, 1_000 + drawn) };
            let op = if kind == 1 && random.random_range(0..3) == 0 { Op::Write } else { Op::Read };
            rule.observe(access(extent, op));
            sees(&mut rule, 10_000 + step, Op::Read);
            if op == Op::Read && step > 100_000 {
                seen[kind] += 1;
                admitted[kind] += u32::from(rule.admits(access(extent, op)));
            }
        }
        let share = [0, 1].map(|kind| f64::from(admitted[kind]) / f64::from(seen[kind]));
        assert!(share[0] > 0.85 && share[1] < 0.3, "{share:?} with {:?}", rule.classifier);
    }

    #[test]
    fn memory_does_not_grow() {
        let mut rule = Flashiness::new(100, 1);
        for step in 0..100_000u32 {
            sees(&mut rule, step.wrapping_mul(2_654_435_761) >> 8, [Op::Read, Op::Write][step as usize % 2]);
        }
        assert_eq!((rule.remembered(), rule.stage.len()), (100, 100));
    }
}
