//! Miss-ratio curves: the miss ratio of caches of several sizes under replacement policies.

use peryton_trace::{DEFAULT_MAX_BLOCKS, Hashed, MissRatioCurve, MissRatios, Request, RequestHash, Source, Tally};
use peryton_units::{Bytes, Nanos};
use serde::Serialize;

use crate::{
    CacheUnit, CurvePolicy, Miniature, MiniatureError, TraceFactory,
    blocks::{BlockColumns, Blocks},
    build,
    miniature::{GROUPS, MOST_SLOTS, Missed},
};

/// Which curves to compute. LRU's is exact, from one pass over the trace. Those of other policies come from one more pass over a sample
/// of the blocks ([`Miniature`]), in which LRU is simulated too: its error, which is known from its exact curve, is taken from all others.
/// That of OPT needs a further pass, which looks ahead. If the sample has every block, LRU is only computed if it is asked for.
///
/// With objects of different sizes, LRU is simulated as the others are, and nothing is corrected; by default the sample is the whole.
///
/// ```
/// use peryton_policy::Replacement;
/// use peryton_sim::Curves;
/// use peryton_trace::{OpenOptions, Source, TraceError, open};
///
/// let policies = vec![Replacement::Lru.into(), "s3fifo".parse().expect("it is known")];
/// let curves = Curves { policies, ..Curves::default() };
/// let trace = || -> Result<Box<dyn Source>, TraceError> {
///     Ok(Box::new(open("../../examples/traces/sqlite-ext4.parquet", &OpenOptions::default())?))
/// };
/// for row in curves.of(&trace, &|_requests_so_far| {})? {
///     println!("{} {} bytes: {}", row.replacement, row.ratios.cache_bytes, row.ratios.blocks.all);
/// }
/// # Ok::<(), peryton_sim::MiniatureError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Curves {
    /// The unit of caching.
    pub unit: CacheUnit,
    /// The sizes of the caches.
    pub sizes: CurveSizes,
    /// The policies; the rows come in their order.
    pub policies: Vec<CurvePolicy>,
    /// The share of blocks that is simulated for policies other than LRU; absent = all of up to 524,288 blocks, or else
    /// the share that leaves 131,072; all objects.
    pub rate: Option<f64>,
    /// Which sample of this size is taken: another seed takes other blocks.
    pub seed: u64,
    /// WSClock's working-set window.
    pub window: Nanos,
}

/// The sizes of the caches on a curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum CurveSizes {
    /// Each power of two of blocks up to the footprint. With objects: of their mean size, rounded up to a power of two.
    #[default]
    Doubling,
    /// This many sizes up to the footprint, each larger than the previous one by the same factor.
    Points(u32),
    /// These.
    Given(Vec<Bytes>),
}

/// The miss ratio of one policy at one size.
#[derive(Clone, Debug, Serialize)]
pub struct CurveRow {
    /// The volume of the trace, if each was taken alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub volume: Option<String>,
    /// The policy.
    pub replacement: CurvePolicy,
    /// The miss ratios, and the size. In a sample they are corrected by LRU's error.
    #[serde(flatten)]
    pub ratios: MissRatios,
    /// The interval of the miss ratio of all accesses; absent if it is exact, and if the simulated cache had fewer than 100 blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval: Option<CurveInterval>,
    /// The share of blocks that was sampled.
    pub rate: f64,
    /// Whether the simulated cache had fewer than 100 blocks, so that nothing is known of how accurate the figure is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub few_blocks: bool,
    /// The error of the same sample for LRU at this size, over all accesses, which was corrected; absent if nothing was sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling_error: Option<f64>,
    /// What the row is of.
    #[serde(flatten)]
    pub of: CurveOrigin,
}

/// What the row of a curve is of, so that it can be cited and computed again.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CurveOrigin {
    /// The version that computed it.
    pub peryton_version: &'static str,
    /// A hash of the requests of the trace.
    pub trace_hash: RequestHash,
    /// Number of requests of the trace.
    pub trace_requests: u64,
    /// Number of accesses to blocks.
    pub accesses: u64,
    /// The size of a block; absent for objects.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_bytes: Option<u64>,
    /// Which sample it is, if the rate is below 1.
    pub seed: u64,
}

/// Where a miss ratio lies, with a confidence of some 95 %: as far as the choice of blocks goes, and by how much a quarter of the sample
/// says otherwise, because a small cache may do otherwise than a large one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CurveInterval {
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

/// Half-widths of intervals in standard deviations, for 95 %.
const DEVIATIONS: f64 = 1.96;
/// The part of LRU's error that another policy may not share.
const NOT_SHARED: f64 = 0.5;
/// Miniatures with fewer blocks are marked.
const FEW_BLOCKS: u64 = 100;
/// The default number of sampled blocks.
const SAMPLED: u64 = 131_072;
/// With this many blocks or fewer the sample is the whole by default: a larger share than a quarter takes as long, since LRU and a part of
/// the sample are simulated beside it.
const WHOLE_UP_TO: u64 = 4 * SAMPLED;
/// With this many sizes or fewer, and every block in the sample, LRU is simulated like other policies: its curve of all sizes would take longer.
const FEW_SIZES: usize = 4;
/// The most sizes of a curve.
pub const MOST_POINTS: u32 = 10_000;

impl Default for Curves {
    fn default() -> Curves {
        Curves {
            unit: CacheUnit::Block(Bytes::kib(4)),
            sizes: CurveSizes::default(),
            policies: vec![CurvePolicy::LRU],
            rate: None,
            seed: 0,
            window: Nanos::from_s(60),
        }
    }
}

impl Curves {
    /// Checks the settings, before a trace is opened.
    ///
    /// # Errors
    /// A block of no size, a rate that is not a share, no policy, or a number of points or sizes that is out of range.
    pub fn check(&self) -> Result<(), MiniatureError> {
        let wrong = |problem: String| Err(MiniatureError::Setting { problem });
        if self.unit == CacheUnit::Block(Bytes::ZERO) {
            return wrong("--block 0: give the size of a block, such as 4KiB".to_owned());
        }
        if let Some(rate) = self.rate.filter(|rate| !(*rate > 0.0 && *rate <= 1.0)) {
            return wrong(format!("--rate {rate}: use a share above 0 and up to 1, such as 0.01"));
        }
        if self.policies.is_empty() {
            return wrong("there is no policy to simulate: give one, such as lru".to_owned());
        }
        if self.unit == CacheUnit::Object && self.policies.contains(&CurvePolicy::Optimal) {
            return wrong(
                "opt is a bound for blocks, not for objects of different sizes: give a block, such as 4KiB".to_owned(),
            );
        }
        match &self.sizes {
            CurveSizes::Given(sizes) if sizes.is_empty() => {
                wrong("--sizes: there is none: give at least one, such as 1GiB".to_owned())
            }
            CurveSizes::Points(points) if !(1..=MOST_POINTS).contains(points) => {
                wrong(format!("--points {points}: use 1 to {MOST_POINTS}"))
            }
            _ => Ok(()),
        }
    }

    /// Whether the trace is read more than once.
    pub fn reads_twice(&self) -> bool {
        let given =
            matches!(self.sizes, CurveSizes::Given(_)) && (self.rate == Some(1.0) || self.unit == CacheUnit::Object);
        let looks_ahead = self.policies.contains(&CurvePolicy::Optimal);
        let others = self.unit == CacheUnit::Object || self.policies.iter().any(|policy| *policy != CurvePolicy::LRU);
        others && (looks_ahead || !given || self.follows_stack())
    }

    /// Whether LRU's curve is computed for all sizes at once.
    fn follows_stack(&self) -> bool {
        let few = matches!(&self.sizes, CurveSizes::Given(sizes) if sizes.len() <= FEW_SIZES);
        let whole = self.rate == Some(1.0);
        self.unit != CacheUnit::Object && self.policies.contains(&CurvePolicy::LRU) && !(few && whole)
    }

    /// Reads the trace and computes the rows: for each policy in turn, each size in ascending order. Calls `progress`
    /// with the number of requests read so far.
    ///
    /// # Errors
    /// Those of [`Curves::check`] and of [`Miniature::run`]; the trace reads and writes nothing.
    pub fn of(&self, trace: &TraceFactory<'_>, progress: &dyn Fn(u64)) -> Result<Vec<CurveRow>, MiniatureError> {
        self.check()?;
        let mut policies: Vec<CurvePolicy> = Vec::new();
        for policy in &self.policies {
            if !policies.contains(policy) {
                policies.push(*policy);
            }
        }
        // Where LRU's curve is neither asked for nor needed to correct a sample, only the footprint is found.
        let footprint = match (self.unit, self.follows_stack(), self.rate, &self.sizes) {
            (CacheUnit::Object, _, _, CurveSizes::Given(_)) | (_, false, Some(1.0), CurveSizes::Given(_)) => {
                Some(Footprint::default())
            }
            (CacheUnit::Object, ..) | (_, false, Some(1.0), _) => self.footprint(&mut *trace()?, u64::MAX)?,
            (_, false, None, _) => self.footprint(&mut *trace()?, WHOLE_UP_TO)?,
            (_, true, ..) | (_, false, Some(_), _) => None,
        };
        let (curve, footprint) = match (footprint, self.unit) {
            (None, CacheUnit::Block(block)) => {
                let mut source = Hashed::new(trace()?);
                let curve = MissRatioCurve::of(&mut source, block, DEFAULT_MAX_BLOCKS)?;
                let blocks = curve.blocks();
                let footprint = Footprint { units: blocks, bytes: blocks.saturating_mul(block.0) };
                (Some((curve, source.hash())), footprint)
            }
            (footprint, _) => (None, footprint.unwrap_or_default()),
        };
        let sizes = self.sizes(footprint);
        let rate = self.rate.unwrap_or_else(|| match self.unit {
            CacheUnit::Block(_) if footprint.units > WHOLE_UP_TO => SAMPLED as f64 / footprint.units as f64,
            CacheUnit::Block(_) | CacheUnit::Object => 1.0,
        });
        let exact = curve.as_ref().map(|(curve, _)| curve.at(&sizes));
        let by_stack = |policy: &CurvePolicy| *policy == CurvePolicy::LRU && exact.is_some();
        let others: Vec<CurvePolicy> = policies.iter().copied().filter(|policy| !by_stack(policy)).collect();
        let yardstick = exact.as_deref().filter(|_| rate < 1.0);
        let mut simulated = Vec::new();
        for few in others.chunks(self.at_a_time(rate, &sizes)) {
            let rows = self.simulate(trace, rate, &sizes, yardstick, few, progress)?;
            simulated.extend(rows.into_iter().take(few.len() * sizes.len()));
        }
        let mut rows: Vec<CurveRow> = Vec::new();
        for policy in policies {
            match (others.iter().position(|other| *other == policy), &exact, &curve) {
                (Some(index), ..) => rows.extend(simulated[index * sizes.len()..][..sizes.len()].iter().cloned()),
                (None, Some(exact), Some((curve, hash))) => rows.extend(exact.iter().map(|ratios| CurveRow {
                    volume: None,
                    replacement: policy,
                    ratios: *ratios,
                    interval: None,
                    rate: curve.sampled_share(),
                    few_blocks: false,
                    sampling_error: None,
                    of: self.origin(*hash, curve.accesses()),
                })),
                (None, ..) => unreachable!("what is not simulated is LRU's exact curve"),
            }
        }
        if rows.iter().all(|row| row.of.accesses == 0) {
            return Err(MiniatureError::NoAccesses);
        }
        Ok(rows)
    }

    /// The number of policies whose caches fit in memory together, beside those of LRU. The trace is read for as many at a time.
    fn at_a_time(&self, rate: f64, sizes: &[Bytes]) -> usize {
        let CacheUnit::Block(block) = self.unit else { return self.policies.len() };
        let slots: f64 = sizes.iter().map(|size| size.0 as f64 / block.0 as f64 * rate).sum();
        ((MOST_SLOTS as f64 / slots.max(1.0)) as usize).saturating_sub(usize::from(rate < 1.0)).max(1)
    }

    fn origin(&self, hash: RequestHash, accesses: u64) -> CurveOrigin {
        CurveOrigin {
            peryton_version: build().version,
            trace_hash: hash,
            trace_requests: hash.requests(),
            accesses,
            block_bytes: match self.unit {
                CacheUnit::Block(block) => Some(block.0),
                CacheUnit::Object => None,
            },
            seed: self.seed,
        }
    }

    /// What a trace accesses; `None` if that are more than `most` blocks.
    fn footprint(&self, source: &mut dyn Source, most: u64) -> Result<Option<Footprint>, MiniatureError> {
        let (mut blocks, mut batch) = (Blocks::new(self.unit, 1.0, 0), Vec::<Request>::new());
        let (mut columns, mut largest) = (BlockColumns::default(), Vec::<u32>::new());
        loop {
            source.next_batch(&mut batch)?;
            let units = u64::from(blocks.len());
            if batch.is_empty() || units > most {
                let bytes = match self.unit {
                    CacheUnit::Block(block) => units.saturating_mul(block.0),
                    CacheUnit::Object => largest.iter().map(|size| u64::from(*size)).sum(),
                };
                return Ok((units <= most).then_some(Footprint { units, bytes }));
            }
            columns.clear();
            blocks.add(&batch, &mut columns);
            blocks.number(&mut columns)?;
            if self.unit == CacheUnit::Object {
                largest.resize(blocks.len() as usize, 0);
                for (number, bytes) in columns.numbers.iter().zip(&columns.bytes) {
                    let largest = &mut largest[*number as usize];
                    *largest = (*largest).max(*bytes);
                }
            }
        }
    }

    fn sizes(&self, footprint: Footprint) -> Vec<Bytes> {
        let unit = match self.unit {
            CacheUnit::Block(block) => block,
            CacheUnit::Object => Bytes((footprint.bytes / footprint.units.max(1)).max(1).next_power_of_two()),
        };
        let largest = Bytes(footprint.bytes).max(unit);
        let sizes = match &self.sizes {
            CurveSizes::Points(points) => {
                let (first, last) = (unit.0 as f64, largest.0 as f64);
                let size = |n: u32| first * (last / first).powf(f64::from(n) / f64::from((*points).max(2) - 1));
                (0..*points).map(|n| Bytes((size(n) / first).round() as u64 * unit.0)).collect()
            }
            CurveSizes::Doubling => {
                let doubled = std::iter::successors(Some(unit), |size| size.0.checked_mul(2).map(Bytes));
                doubled.take_while(|size| *size < largest).chain([largest]).collect()
            }
            CurveSizes::Given(sizes) => sizes.clone(),
        };
        in_order(sizes)
    }

    /// Simulates policies. With a sample of the blocks, it simulates LRU too, because its `exact` curve shows the sample's error.
    fn simulate(
        &self,
        trace: &TraceFactory<'_>,
        rate: f64,
        sizes: &[Bytes],
        exact: Option<&[MissRatios]>,
        policies: &[CurvePolicy],
        progress: &dyn Fn(u64),
    ) -> Result<Vec<CurveRow>, MiniatureError> {
        let yardstick = exact.map(|_| CurvePolicy::LRU);
        let policies: Vec<CurvePolicy> = policies.iter().copied().chain(yardstick).collect();
        let caches = policies.iter().flat_map(|policy| sizes.iter().map(|size| (*policy, *size))).collect();
        let miniature = Miniature { unit: self.unit, rate, seed: self.seed, window: self.window, caches };
        let found = miniature.simulate(trace, progress)?;
        let of = self.origin(found.hash, found.all.blocks.iter().sum());
        let lru = exact.map(|exact| (exact, &found.caches[found.caches.len() - sizes.len()..]));
        let row = |(index, missed): (usize, &Missed)| {
            let place = index % sizes.len();
            let (size, few_blocks) =
                (sizes[place], rate < 1.0 && miniature.slots(sizes[place]).is_some_and(|slots| slots < FEW_BLOCKS));
            let replacement = policies[index / sizes.len()];
            let Some((exact, lru)) = lru.map(|(exact, lru)| (&exact[place], &lru[place])) else {
                let misses = |of: fn(&Tally) -> [u64; 2]| of(&missed.misses).map(|misses| misses as f64 / rate);
                let ratios =
                    MissRatios::new(size, misses(|tally| tally.blocks), misses(|tally| tally.bytes), &found.all);
                return CurveRow {
                    volume: None,
                    replacement,
                    ratios,
                    interval: None,
                    rate,
                    few_blocks,
                    sampling_error: None,
                    of: of.clone(),
                };
            };
            let sample = Sample { rate, blocks: found.sampled_blocks, all: &found.all };
            let (ratios, error) = sample.corrected(size, &missed.misses, &lru.misses, exact);
            let interval = || {
                let part = Sample { rate: miniature.part_rate(), ..sample };
                let of_lru = found.in_part.len() - sizes.len() + place;
                let (missed_there, lru_there) = (&found.in_part[index], &found.in_part[of_lru]);
                let (there, _) = part.corrected(size, &missed_there.misses, &lru_there.misses, exact);
                let miss_ratio = ratios.blocks.all;
                let half = DEVIATIONS * sample.deviation(missed, lru)
                    + NOT_SHARED * error.abs()
                    + (miss_ratio - there.blocks.all).abs();
                CurveInterval { low: (miss_ratio - half).max(0.0), high: (miss_ratio + half).min(1.0) }
            };
            CurveRow {
                volume: None,
                replacement,
                ratios,
                interval: (!few_blocks).then(interval),
                rate,
                few_blocks,
                sampling_error: Some(error.abs()),
                of: of.clone(),
            }
        };
        Ok(found.caches.iter().enumerate().map(row).collect())
    }
}

/// How many different blocks or objects a trace accesses, and their bytes.
#[derive(Clone, Copy, Debug, Default)]
struct Footprint {
    units: u64,
    bytes: u64,
}

/// A sample of blocks, in which LRU was simulated beside others.
#[derive(Clone, Copy)]
struct Sample<'a> {
    rate: f64,
    blocks: u32,
    all: &'a Tally,
}

impl Sample<'_> {
    /// The miss ratios of a policy, less LRU's error in the same sample, and this error. Whether hot blocks are in the sample, and how
    /// many blocks are, matters to all policies alike.
    fn corrected(&self, size: Bytes, missed: &Tally, lru: &Tally, exact: &MissRatios) -> (MissRatios, f64) {
        let scaled = |missed: u64| missed as f64 / self.rate;
        let misses = |missed: [u64; 2], lru: [u64; 2], all: [u64; 2], exact: [Option<f64>; 2]| {
            [0, 1].map(|op| {
                let truth = exact[op].unwrap_or(0.0) * all[op] as f64;
                (scaled(missed[op]) + truth - scaled(lru[op])).max(0.0)
            })
        };
        let of = |ratios: &peryton_trace::Ratios| [ratios.read, ratios.write];
        let blocks = misses(missed.blocks, lru.blocks, self.all.blocks, of(&exact.blocks));
        let bytes = misses(missed.bytes, lru.bytes, self.all.bytes, of(&exact.bytes));
        let error = scaled(lru.blocks.iter().sum()) / self.accesses() - exact.blocks.all;
        (MissRatios::new(size, blocks, bytes, self.all), error)
    }

    fn accesses(&self) -> f64 {
        self.all.blocks.iter().sum::<u64>().max(1) as f64
    }

    /// The standard deviation of the difference between a policy and LRU. Each block was sampled or not independently of the others,
    /// so the variance of a total is the sum of the squares of what each block contributes (Horvitz and Thompson, 1952); groups of
    /// blocks stand for the blocks.
    fn deviation(&self, missed: &Missed, lru: &Missed) -> f64 {
        let differences = missed.by_group.iter().zip(lru.by_group.iter()).map(|(a, b)| f64::from(*a) - f64::from(*b));
        let total: f64 = differences.clone().sum();
        let mean = total / GROUPS as f64;
        let squares: f64 = differences.map(|difference| (difference - mean).powi(2)).sum();
        let squares = squares + total * total / f64::from(self.blocks.max(1));
        ((1.0 - self.rate) * squares).sqrt() / self.rate / self.accesses()
    }
}

fn in_order(mut sizes: Vec<Bytes>) -> Vec<Bytes> {
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
