//! Miss-ratio curves: the miss ratio of caches of several sizes under replacement policies.

use peryton_trace::{DEFAULT_MAX_BLOCKS, MissRatioCurve, MissRatios};
use peryton_units::{Bytes, Nanos};
use serde::Serialize;

use crate::{CurvePolicy, Miniature, MiniatureError, TraceFactory};

/// Which curves to compute. LRU's is exact, from one pass over the trace; those of other policies come from a second
/// pass over a sample of the blocks ([`Miniature`]), and that of OPT from one pass more, which looks ahead.
///
/// ```
/// use peryton_policy::Replacement;
/// use peryton_sim::Curves;
/// use peryton_trace::{OpenOptions, Source, TraceError, open};
///
/// let policies = vec![Replacement::Lru.into(), Replacement::S3fifo.into()];
/// let curves = Curves { policies, ..Curves::default() };
/// let trace = || -> Result<Box<dyn Source>, TraceError> {
///     Ok(Box::new(open("../../examples/traces/sqlite-ext4.parquet", &OpenOptions::default())?))
/// };
/// for row in curves.of(&trace, &|_requests_so_far| {})? {
///     println!("{} {} bytes: {}", row.replacement.name(), row.ratios.cache_bytes, row.ratios.blocks.all);
/// }
/// # Ok::<(), peryton_sim::MiniatureError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Curves {
    /// The unit of caching.
    pub block: Bytes,
    /// The sizes of the caches.
    pub sizes: CurveSizes,
    /// The policies; the rows come in their order.
    pub policies: Vec<CurvePolicy>,
    /// The share of blocks that is simulated for policies other than LRU; absent = the share that leaves 131,072 blocks.
    pub rate: Option<f64>,
    /// WSClock's working-set window.
    pub window: Nanos,
}

/// The sizes of the caches on a curve.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum CurveSizes {
    /// Each power of two of blocks up to the footprint.
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
    /// The policy.
    pub replacement: CurvePolicy,
    /// The miss ratios, and the size.
    #[serde(flatten)]
    pub ratios: MissRatios,
    /// The share of blocks that was sampled.
    pub rate: f64,
    /// The error of the same sample for LRU at this size, over all accesses; absent if nothing was sampled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sampling_error: Option<f64>,
}

/// The default number of sampled blocks.
const SAMPLED: f64 = 131_072.0;
/// With so many sizes or fewer, and every block in the sample, LRU is simulated like other policies: its curve of all sizes would take longer.
const FEW_SIZES: usize = 4;
/// The most sizes of a curve.
pub const MOST_POINTS: u32 = 10_000;

impl Default for Curves {
    fn default() -> Curves {
        Curves {
            block: Bytes::kib(4),
            sizes: CurveSizes::default(),
            policies: vec![CurvePolicy::LRU],
            rate: None,
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
        if self.block == Bytes::ZERO {
            return wrong("--block 0: give the size of a block, such as 4KiB".to_owned());
        }
        if let Some(rate) = self.rate.filter(|rate| !(*rate > 0.0 && *rate <= 1.0)) {
            return wrong(format!("--rate {rate}: use a share above 0 and up to 1, such as 0.01"));
        }
        if self.policies.is_empty() {
            return wrong("there is no policy to simulate: give one, such as lru".to_owned());
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
        self.policies.iter().any(|policy| *policy != CurvePolicy::LRU)
    }

    /// Reads the trace and computes the rows: for each policy in turn, each size in ascending order. Calls `progress`
    /// with the number of requests read so far.
    ///
    /// # Errors
    /// Those of [`Curves::check`] and of [`Miniature::run`].
    pub fn of(&self, trace: &TraceFactory<'_>, progress: &dyn Fn(u64)) -> Result<Vec<CurveRow>, MiniatureError> {
        self.check()?;
        let mut policies = self.policies.clone();
        policies.dedup();
        if let (CurveSizes::Given(sizes), Some(1.0)) = (&self.sizes, self.rate)
            && sizes.len() <= FEW_SIZES
        {
            return self.simulate(trace, 1.0, &in_order(sizes.clone()), &[], &policies, progress);
        }
        let others: Vec<CurvePolicy> = policies.iter().copied().filter(|policy| *policy != CurvePolicy::LRU).collect();
        let mut source = trace()?;
        let curve = MissRatioCurve::of(&mut *source, self.block, DEFAULT_MAX_BLOCKS)?;
        drop(source);
        let sizes = self.sizes(&curve);
        let exact = curve.at(&sizes);
        let simulated = match others.is_empty() {
            true => Vec::new(),
            false => {
                let rate = self.rate.unwrap_or_else(|| (SAMPLED / curve.blocks().max(1) as f64).min(1.0));
                self.simulate(trace, rate, &sizes, &exact, &others, progress)?
            }
        };
        let mut rows = Vec::new();
        for policy in policies {
            match others.iter().position(|other| *other == policy) {
                Some(index) => rows.extend(simulated[index * sizes.len()..][..sizes.len()].iter().cloned()),
                None => rows.extend(exact.iter().map(|ratios| CurveRow {
                    replacement: policy,
                    ratios: *ratios,
                    rate: curve.sampled_share(),
                    sampling_error: None,
                })),
            }
        }
        Ok(rows)
    }

    fn sizes(&self, curve: &MissRatioCurve) -> Vec<Bytes> {
        let largest = Bytes(curve.blocks().saturating_mul(self.block.0)).max(self.block);
        let sizes = match &self.sizes {
            CurveSizes::Points(points) => {
                let (first, last) = (self.block.0 as f64, largest.0 as f64);
                let size = |n: u32| first * (last / first).powf(f64::from(n) / f64::from((*points).max(2) - 1));
                (0..*points).map(|n| Bytes((size(n) / first).round() as u64 * self.block.0)).collect()
            }
            CurveSizes::Doubling => {
                let doubled = std::iter::successors(Some(self.block), |size| size.0.checked_mul(2).map(Bytes));
                doubled.take_while(|size| *size < largest).chain([largest]).collect()
            }
            CurveSizes::Given(sizes) => sizes.clone(),
        };
        in_order(sizes)
    }

    /// Simulates policies. With a sample of the blocks, it simulates LRU too, because its exact curve shows the sample's error.
    fn simulate(
        &self,
        trace: &TraceFactory<'_>,
        rate: f64,
        sizes: &[Bytes],
        exact: &[MissRatios],
        policies: &[CurvePolicy],
        progress: &dyn Fn(u64),
    ) -> Result<Vec<CurveRow>, MiniatureError> {
        let sampled = rate < 1.0;
        let yardstick = sampled.then_some(CurvePolicy::LRU);
        let policies: Vec<CurvePolicy> = policies.iter().copied().chain(yardstick).collect();
        let caches = policies.iter().flat_map(|policy| sizes.iter().map(|size| (*policy, *size))).collect();
        let miniature = Miniature { block: self.block, rate, window: self.window, caches };
        let ratios = miniature.run(trace, progress)?;
        let lru = sampled.then(|| &ratios[ratios.len() - sizes.len()..]);
        let row = |(index, ratios): (usize, &MissRatios)| CurveRow {
            replacement: policies[index / sizes.len()],
            ratios: *ratios,
            rate,
            sampling_error: lru.map(|lru| {
                let size = index % sizes.len();
                (lru[size].blocks.all - exact[size].blocks.all).abs()
            }),
        };
        Ok(ratios.iter().enumerate().map(row).collect())
    }
}

fn in_order(mut sizes: Vec<Bytes>) -> Vec<Bytes> {
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}
