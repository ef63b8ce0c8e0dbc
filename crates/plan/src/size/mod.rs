//! How large the fast device of a design should be: the whole curve of response times, hits, lifetime and cost against its
//! size, by simulation, and where more of it stops paying.
//!
//! The trace's miss-ratio curve ([`extent_curve`]) says between which sizes something happens; the sizes to simulate are put
//! there. All of them are simulated on one reading of the trace. The misses at a size from which on nothing has to leave the
//! fast device are those that no size avoids.

pub(crate) mod choose;
mod curve;
mod fast;
mod knee;
mod misses;
mod told;

use peryton_sim::{Design, DesignError, DesignText, Options, Report, Sampling, SimError, extent_curve, run};
use peryton_trace::{Source, TraceError};
use peryton_units::Bytes;
use thiserror::Error;

pub use choose::{MOST_POINTS, Sizes};
pub use curve::{BySize, SizeCurve, SizePoint, SizeWarning};
pub use knee::{Knee, Marginal};

use crate::{
    capacity::{PlanError, Progress, Workload},
    evaluate::{Account, Metrics},
    metric::Metric,
};
use fast::Fast;
use misses::Misses;

/// The share by which the figure of a size may be worse than the best one: a size is large enough within that.
pub const WITHIN: f64 = 0.05;
/// The number of sizes that are simulated unless another is asked for.
pub const POINTS: u32 = 12;

/// Reads by how much a figure may be worse than the best one: `5%` or `0.05`.
///
/// # Errors
/// The text is no share above 0 and below 100 %.
pub fn within(text: &str) -> Result<f64, String> {
    let (number, of) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share =
        number.trim().parse::<f64>().ok().map(|number| number / of).filter(|share| *share > 0.0 && *share < 1.0);
    share.ok_or_else(|| "use a share above 0 and below 100 %, such as 5%".to_owned())
}

/// What is asked.
#[derive(Clone, Debug)]
pub struct Ask {
    /// The design.
    pub design: DesignText,
    /// Overrides of its keys.
    pub overrides: Vec<String>,
    /// The sizes.
    pub sizes: Sizes,
    /// How many sizes to simulate, where they are chosen.
    pub points: u32,
    /// The figure by which a size is large enough.
    pub objective: Metric,
    /// By how much it may be worse than the best, as a share.
    pub within: f64,
    /// What a millisecond of mean response time is worth, in US dollars.
    pub usd_per_ms: Option<f64>,
    /// The basis of the cost of ownership.
    pub account: Account,
    /// How the trace is replayed.
    pub options: Options,
}

/// The reason why no curve was made. Every message is one line.
#[derive(Debug, Error)]
pub enum SizeError {
    /// A simulation failed, or the trace cannot be read.
    #[error(transparent)]
    Sim(#[from] SimError),
    /// The design has no fast device of which there could be more or less.
    #[error(
        "{design}: placement.mode = \"{mode}\" has no fast device whose size could differ: use a design with tiering, caching or \
         partitioned, or compare sizes with peryton sim --sweep devices.NAME.size=SIZE,SIZE"
    )]
    NoFastDevice {
        /// The design's name.
        design: String,
        /// Its placement.
        mode: &'static str,
    },
    /// The trace does not say how fast requests come.
    #[error(transparent)]
    Workload(#[from] PlanError),
    /// A number is out of range.
    #[error("{problem}")]
    Setting {
        /// The option, and the remedy.
        problem: String,
    },
    /// The design refuses every size that was chosen.
    #[error("{design}: no size of '{device}' from {least} to {most} is possible; the last was refused: {source}")]
    NoSize {
        /// The design's name.
        design: String,
        /// The fast device.
        device: String,
        /// The smallest size.
        least: Bytes,
        /// The largest size.
        most: Bytes,
        /// Why.
        source: Box<DesignError>,
    },
    /// The report has no such figure.
    #[error("{design}: its report has no {metric}: {remedy}")]
    Unknown {
        /// The design's name.
        design: String,
        /// The figure.
        metric: Metric,
        /// What to do.
        remedy: &'static str,
    },
}

impl From<DesignError> for SizeError {
    fn from(error: DesignError) -> SizeError {
        SizeError::Sim(error.into())
    }
}

impl From<TraceError> for SizeError {
    fn from(error: TraceError) -> SizeError {
        SizeError::Sim(error.into())
    }
}

impl Ask {
    /// Checks the settings, before a trace is opened.
    ///
    /// # Errors
    /// A number out of range, a design that cannot be read, or one without a fast device.
    pub fn check(&self) -> Result<(), SizeError> {
        let wrong = |problem: String| Err(SizeError::Setting { problem });
        if !(2..=MOST_POINTS).contains(&self.points) {
            return wrong(format!("--points {}: use 2 to {MOST_POINTS}", self.points));
        }
        if !(self.within > 0.0 && self.within < 1.0) {
            return wrong(format!("--within {}: use a share such as 5%", self.within * 100.0));
        }
        if self.usd_per_ms.is_some_and(|usd| !(usd > 0.0 && usd.is_finite())) {
            return wrong("--usd-per-ms: give US dollars above 0, such as 100".to_owned());
        }
        self.sizes.check()?;
        Fast::of(&self.base()?).map(drop)
    }

    /// The number of requests that warm up unless the user gives another: half of those that are replayed.
    pub fn warm_up_requests(&self, workload: &Workload<'_>) -> u64 {
        workload.warm_up_requests().min(self.options.limit.unwrap_or(u64::MAX) / 2)
    }

    /// The share of so many requests to simulate, where the whole would take too long.
    fn sample(&self, requests: u64) -> Option<f64> {
        let sizes = if let Sizes::Given(sizes) = &self.sizes { sizes.len() as u64 } else { u64::from(self.points) };
        let share = MOST_SIMULATED as f64 / (requests as f64 * sizes as f64);
        (self.options.sample.is_none() && share < WHOLE).then_some(share)
    }

    /// The design as it is.
    fn base(&self) -> Result<Design, SizeError> {
        let design = self.design.design(&self.overrides)?;
        match design.ignored_overrides.first() {
            Some(index) => Err(SizeError::Setting {
                problem: format!("--set {}: does not apply to the design: remove it", self.overrides[*index]),
            }),
            None => Ok(design),
        }
    }

    /// The design with another size of its fast device.
    fn at(&self, fast: &Fast, size: Bytes) -> Result<Design, DesignError> {
        let overrides: Vec<String> = self.overrides.iter().cloned().chain(fast.overrides(size)).collect();
        let mut design = self.design.design(&overrides)?;
        design.name = size.to_string();
        Ok(design)
    }
}

/// Simulates the design with several sizes of its fast device under the workload.
///
/// # Errors
/// The design has no fast device, refuses the sizes, or does not fit the trace; a figure that is asked for is unknown.
pub fn size(ask: &Ask, workload: &Workload<'_>, progress: &Progress<'_>) -> Result<SizeCurve, SizeError> {
    ask.check()?;
    workload.check_pace(ask.options.replay)?;
    let base = ask.base()?;
    let fast = Fast::of(&base)?;
    progress("computing the miss-ratio curve", 0, 0);
    let curve = extent_curve(&base, workload.source()?, &ask.options)?.expect("a hybrid has extents");
    let misses = Misses { curve, load: base.load.map_or(1.0, |load| load.share) };
    let requests = workload.hash.requests().min(ask.options.limit.unwrap_or(u64::MAX));
    let sample = ask.sample(requests);
    let share = ask.options.sample.map(|sample| sample.share()).or(sample);
    let sizes = choose::sizes(ask, &fast, &base, &misses, share)?;
    let designs = sizes.iter().map(|size| ask.at(&fast, *size)).collect::<Result<Vec<_>, _>>()?;
    let all = requests.saturating_mul(designs.len() as u64);
    let told = |requests: u64| progress("requests simulated", requests, all);
    let trace = || -> Result<Box<dyn Source>, TraceError> { workload.source() };
    let reports = sampled(sample, &ask.options, &|options| run(&designs, &workload.name, &trace, options, &told))?;
    progress("requests simulated", all, all);
    let metrics = designs.iter().zip(&reports).map(|(design, report)| Metrics::of(design, report, &ask.account));
    let metrics: Vec<Metrics> = metrics.collect();
    if metrics.iter().all(|metrics| ask.objective.of(metrics).is_none()) {
        let remedy = ask.objective.remedy();
        return Err(SizeError::Unknown { design: base.name.clone(), metric: ask.objective, remedy });
    }
    Ok(curve::make(ask, &fast, (&base, &designs), reports, metrics, &misses))
}

/// The most requests that are simulated in all, unless the user says which share of the trace: half a minute or so on two cores.
const MOST_SIMULATED: u64 = 20_000_000;
/// A larger share of a trace is not worth its error.
const WHOLE: f64 = 0.5;

/// Runs with a sample of the trace, if there is to be one. If it is too small, a larger one is taken.
fn sampled(
    mut sample: Option<f64>,
    options: &Options,
    run: &dyn Fn(&Options) -> Result<Vec<Report>, SimError>,
) -> Result<Vec<Report>, SimError> {
    while let Some(share) = sample.filter(|share| *share < WHOLE) {
        match run(&Options { sample: Sampling::new(share, 0).ok(), ..options.clone() }) {
            Err(SimError::Sample { .. }) => sample = Some(share * 2.0),
            reports => return reports,
        }
    }
    run(options)
}

#[cfg(test)]
mod tests;
