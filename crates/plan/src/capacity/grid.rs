//! The capacities of flash that are simulated first: where the miss-ratio curve of the trace falls, and up to the whole device, for
//! larger devices live longer.

use std::collections::BTreeMap;

use peryton_sim::{Design, kept_free};
use peryton_trace::MissRatioCurve;
use peryton_units::Bytes;

use super::{
    candidate::{Candidate, Enumerate, MOST_CANDIDATES},
    catalogue::{Catalogue, rounded},
    error::PlanError,
    narrow::between,
    sample::Scale,
    workload::Workload,
};
use crate::size::choose::{LEAST_EXTENTS, ROOM_SHARE, spread, steps};

/// The number of blocks that a miss-ratio curve samples.
const FOLLOWED: usize = 1 << 17;
/// The capacities of a set of devices at first, between hardly any and all data in use.
const POINTS: usize = 5;
/// Beyond that the next one is larger by this factor, with so many of them at most.
const FACTOR: f64 = 8.0;
const MOST_BEYOND: u32 = 3;
/// A capacity that is refused, since the metadata need more, is raised by so much at a time, so often.
const RAISED: f64 = 1.03;
const MOST_RAISED: usize = 16;

/// The capacities to try of the flash of each set of devices, in ascending order.
pub(super) struct Grid<'a> {
    catalogue: &'a Catalogue,
    ask: Enumerate,
    whole: Scale,
    curves: BTreeMap<Bytes, MissRatioCurve>,
    /// By set of devices: the capacities, and how many of them the miss-ratio curve gave.
    found: BTreeMap<Candidate, (Vec<Bytes>, usize)>,
}

/// The most capacities of a set of devices, with the whole device.
pub(super) const MOST_OF_A_SHAPE: usize = POINTS + MOST_BEYOND as usize + 2;

impl<'a> Grid<'a> {
    pub(super) fn new(catalogue: &'a Catalogue, ask: Enumerate, whole: Scale) -> Grid<'a> {
        Grid { catalogue, ask, whole, curves: BTreeMap::new(), found: BTreeMap::new() }
    }

    /// All candidates with their capacities, the cheapest first. Each has the whole device as well.
    pub(super) fn all(&mut self, shapes: Vec<Candidate>, workload: &Workload<'_>) -> Result<Vec<Candidate>, PlanError> {
        let mut all = Vec::new();
        for shape in shapes {
            let sizes = self.add(&shape, workload)?;
            all.extend(sizes.into_iter().map(|size| shape.with_capacity(Some(size))));
            all.push(shape);
        }
        let price = |candidate: &Candidate| candidate.dollars(self.catalogue);
        all.sort_by(|a, b| price(a).total_cmp(&price(b)).then_with(|| a.cmp(b)));
        all.truncate(MOST_CANDIDATES);
        Ok(all)
    }

    /// The capacities below that of the whole device; none where its devices are no flash.
    pub(super) fn add(&mut self, shape: &Candidate, workload: &Workload<'_>) -> Result<Vec<Bytes>, PlanError> {
        if !shape.has_flash(self.catalogue) {
            return Ok(Vec::new());
        }
        let whole = self.catalogue.kinds[shape.fast.kind].profile.capacity;
        let mut sizes = match shape.is_hybrid() {
            true => self.by_curve(shape, workload)?,
            false => vec![self.ask.room(self.ask.capacity, shape.fast.data_devices())],
        };
        // With fewer devices there would be as much: several small devices are not bought for their speed alone.
        if self.is_more_than_needed(shape) {
            let half = rounded(Bytes(whole.0 / 2));
            sizes.retain(|size| *size > half);
            sizes.insert(0, half);
        }
        let top = sizes.last().copied().unwrap_or(whole);
        let beyond = (whole.0 as f64 / top.0.max(1) as f64).log(FACTOR).ceil() as u32;
        let fitting = |sizes: Vec<Bytes>| {
            let mut fitting: Vec<Bytes> = sizes.into_iter().filter_map(|size| self.fitting(shape, size)).collect();
            fitting.retain(|size| *size < whole);
            fitting.sort_unstable();
            fitting.dedup();
            fitting
        };
        let beyond = between(top, whole, beyond.saturating_sub(1).min(MOST_BEYOND));
        let mut all = fitting(sizes);
        let of_curve = all.len();
        all.extend(
            fitting(beyond).into_iter().filter(|size| all.last().is_none_or(|last| size > last)).collect::<Vec<_>>(),
        );
        self.found.insert(shape.clone(), (all.clone(), of_curve));
        Ok(all)
    }

    /// Those of a set of devices.
    pub(super) fn of(&self, shape: &Candidate) -> &[Bytes] {
        self.found.get(shape).map_or(&[], |(sizes, _)| sizes)
    }

    /// Those up to the one that holds all data in use, beyond which nothing gets faster.
    pub(super) fn of_curve_alone(&self, shape: &Candidate) -> &[Bytes] {
        self.found.get(shape).map_or(&[], |(sizes, of_curve)| &sizes[..*of_curve])
    }

    /// A set of devices with no more flash than it may have: the least that it may cost.
    pub(super) fn least_costly(&self, shape: &Candidate) -> Candidate {
        if self.is_empty() || !shape.has_flash(self.catalogue) {
            return shape.clone();
        }
        let whole = self.catalogue.kinds[shape.fast.kind].profile.capacity;
        let half = Bytes(if self.is_more_than_needed(shape) { whole.0 / 2 } else { 0 });
        shape.with_capacity(Some(half.max(Bytes::mib(1))))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether half of the devices would be enough for what they have to hold.
    fn is_more_than_needed(&self, shape: &Candidate) -> bool {
        let whole = self.catalogue.kinds[shape.fast.kind].profile.capacity;
        let half = shape.fast.data_devices() / 2;
        half > 0 && (shape.is_hybrid() || self.ask.room(self.ask.capacity, half) <= whole)
    }

    /// Capacities that hold what the miss-ratio curve says.
    fn by_curve(&mut self, shape: &Candidate, workload: &Workload<'_>) -> Result<Vec<Bytes>, PlanError> {
        let extent = shape.extent(self.catalogue, self.ask.capacity);
        let curve = match self.curves.entry(extent) {
            std::collections::btree_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::btree_map::Entry::Vacant(new) => {
                new.insert(MissRatioCurve::of(&mut *workload.source()?, extent, FOLLOWED)?)
            }
        };
        let free = kept_free(extent);
        let blocks = curve.blocks() + curve.blocks() / ROOM_SHARE;
        let most = (Bytes(blocks.saturating_mul(extent.0)) + free).min(self.whole.volume() + free);
        let least = (extent * LEAST_EXTENTS).max(Bytes::mib(2)).min(most);
        let sizes = steps(least, most, extent);
        let misses: Vec<f64> = curve.at(&sizes).iter().map(|ratios| ratios.blocks.all).collect();
        // The trace may stand for more data than it touches.
        let real = |size: Bytes| Bytes((size.0 as f64 / self.whole.load.share) as u64);
        let data = spread(&sizes, &misses, POINTS, None).into_iter().map(real);
        Ok(data.map(|data| self.ask.room(data, shape.fast.data_devices())).collect())
    }

    /// The capacity, or a slightly larger one if the drive's metadata do not fit.
    fn fitting(&self, shape: &Candidate, size: Bytes) -> Option<Bytes> {
        let raised = std::iter::successors(Some(size), |size| Some(rounded(Bytes((size.0 as f64 * RAISED) as u64))));
        raised.take(MOST_RAISED).find(|size| self.fits(&shape.with_capacity(Some(*size))))
    }

    /// Whether the design as it is bought has room for the data.
    pub(super) fn fits(&self, candidate: &Candidate) -> bool {
        let text = candidate.text(self.catalogue, self.ask.capacity);
        Design::parse(&text, "candidate", &[]).is_ok()
    }
}
