//! The curve: the figures of each size, and what they rest on.

use peryton_sim::{Design, DeviceDesign, Report, Warning, warned};
use peryton_trace::RequestHash;
use peryton_units::Bytes;
use serde::Serialize;

use super::{
    Ask,
    fast::Fast,
    knee::{self, Knee, Marginal},
    misses::Misses,
    told,
};
use crate::{
    evaluate::{Metrics, OVERLOAD, costs},
    metric::Metric,
};

/// The figures of a design against the size of its fast device.
#[derive(Clone, Debug, Serialize)]
pub struct SizeCurve {
    /// The version of Peryton.
    pub peryton_version: String,
    /// The command that made the curve, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// The design's name.
    pub design: String,
    /// The fast device.
    pub device: String,
    /// Its profile.
    pub profile: String,
    /// The size that the design gives it.
    pub design_bytes: u64,
    /// The trace's name.
    pub trace: String,
    /// A hash of its requests.
    pub trace_hash: RequestHash,
    /// Their number.
    pub trace_requests: u64,
    /// Number of measured requests.
    pub requests: u64,
    /// Number of requests before the measured ones.
    pub warm_up_requests: u64,
    /// Whether the volume was new, so that a tier began empty.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub new_volume: bool,
    /// The replay mode.
    pub replay: String,
    /// The size of the volume.
    pub volume_bytes: u64,
    /// The unit in which data are moved.
    pub extent_bytes: u64,
    /// The data that the trace touches, in whole extents; all in use, where the trace touches a share of them.
    pub touched_bytes: u64,
    /// Share of the measured accesses that were the first to their extent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub first_touch_ratio: Option<f64>,
    /// Share of the accesses that miss even where nothing has to leave the fast device: no size avoids them. Absent if no
    /// size was simulated that is as large.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavoidable_miss_ratio: Option<f64>,
    /// The smallest size simulated from which on nothing has to leave.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub holds_all_bytes: Option<u64>,
    /// The figure by which a size is large enough.
    pub objective: Metric,
    /// By how much it may be worse than the best, as a share.
    pub within: f64,
    /// The share that the trace touches of the data in use that the design is for; absent if that is all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub simulated_share: Option<f64>,
    /// The share of the trace that was simulated, if not all of it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sample_share: Option<f64>,
    /// Whether requests come faster than they are answered at every size: then none is enough, and response times say nothing.
    pub overloaded: bool,
    /// The sizes, in ascending order.
    pub points: Vec<SizePoint>,
    /// Where more stops paying, by several figures; the first is the objective. Empty if no size keeps up.
    pub knees: Vec<Knee>,
    /// The best size if a millisecond of mean response time is worth so much.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worth: Option<Marginal>,
    /// The answer in sentences.
    pub verdict: Vec<String>,
    /// Why the answer may be wrong.
    pub caveats: Vec<String>,
    /// What is assumed.
    pub assumptions: Vec<String>,
    /// The warnings of the simulations.
    pub warnings: Vec<SizeWarning>,
    /// The full design as TOML.
    pub design_toml: String,
}

/// The figures of one size.
#[derive(Clone, Debug, Serialize)]
pub struct SizePoint {
    /// The size: data that the fast device holds.
    pub size_bytes: u64,
    /// What that takes on the device, with metadata and spare extents.
    pub occupied_bytes: u64,
    /// Share of the accesses that missed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub miss_ratio: Option<f64>,
    /// Share of the accesses that missed and would not have with a fast device that holds everything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub avoidable_miss_ratio: Option<f64>,
    /// The miss ratio of an LRU cache of this size that takes in every miss, over all requests that were replayed.
    pub lru_miss_ratio: f64,
    /// Bytes written to the fast device in a day at the rate of the measured span.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_bytes_written_per_day: Option<f64>,
    /// Cost and lifetime if the fast device could be bought in this size.
    #[serde(flatten)]
    pub by_size: BySize,
    /// What a millisecond of mean response time costs that this size saves beside the next smaller one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub usd_per_ms_saved: Option<f64>,
    /// The interval of the mean response time, if a sample was simulated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ms_low: Option<f64>,
    /// Its upper end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mean_ms_high: Option<f64>,
    /// Codes of the warnings about this simulation.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warning_codes: Vec<&'static str>,
    /// The other figures: those of the whole device, as `peryton sim` reports them.
    #[serde(flatten)]
    pub metrics: Metrics,
}

impl SizePoint {
    /// Whether requests come faster than this size answers them.
    pub fn is_overloaded(&self) -> bool {
        self.warning_codes.contains(&OVERLOAD)
    }
}

/// Cost and lifetime if price and endurance of the fast device are in proportion to its size.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct BySize {
    /// Purchase of the fast device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_usd_by_size: Option<f64>,
    /// Purchase of all devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub devices_usd_by_size: Option<f64>,
    /// Purchase, replacements of what wears out, and electricity, over some years.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ownership_usd_by_size: Option<f64>,
    /// Years until the fast device is worn out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fast_lifetime_years_by_size: Option<f64>,
    /// Years until the first device is worn out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lifetime_years_by_size: Option<f64>,
}

/// A warning about the simulations of some sizes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SizeWarning {
    /// A stable code for scripts.
    pub code: &'static str,
    /// The warning in a sentence, with the sizes and the remedy.
    pub text: String,
}

const SECONDS_PER_DAY: f64 = 86_400.0;
/// The warning that nothing had to leave the fast device: at the end of the curve this is no fault.
const NEVER_FULL: &str = "never_full";
/// Equal figures of two sizes are no fault either.
const EQUAL: &str = "equal_results";

pub(super) fn make(
    ask: &Ask,
    fast: &Fast,
    (base, designs): (&Design, &[Design]),
    mut reports: Vec<Report>,
    metrics: Vec<Metrics>,
    misses: &Misses,
) -> SizeCurve {
    let holds_all = |report: &Report| report.warnings.iter().any(|warning| warning.code == NEVER_FULL);
    let first_holding = reports.iter().position(holds_all);
    let largest_holds = reports.last().is_some_and(holds_all);
    let unavoidable = reports.last().filter(|_| largest_holds).and_then(|report| Some(1.0 - report.fast_hit_ratio?));
    // If the smallest size holds everything already, that is a fault of the question.
    let is_fault =
        |warning: &Warning| warning.code != EQUAL && (warning.code != NEVER_FULL || first_holding == Some(0));
    reports.iter_mut().for_each(|report| report.warnings.retain(is_fault));
    let mut points: Vec<SizePoint> = Vec::with_capacity(reports.len());
    let sizes: Vec<Bytes> = designs.iter().map(|design| fast.device(design).data).collect();
    for (((design, report), metrics), lru) in designs.iter().zip(&reports).zip(metrics).zip(misses.at(&sizes)) {
        let miss_ratio = report.fast_hit_ratio.map(|hits| 1.0 - hits);
        let written: u64 = fast.members(report).map(|device| device.bytes_written).sum();
        let a_day = SECONDS_PER_DAY * design.duty;
        let per_day = (report.simulated_s > 0.0).then(|| written as f64 / report.simulated_s * a_day);
        let by_size = by_size(ask, fast, design, report);
        let mean = report.sample.as_ref().and_then(|sample| sample.figures.get("latency_us.all.mean"));
        let usd_per_ms_saved = points.last().and_then(|before| {
            let usd = by_size.fast_usd_by_size? - before.by_size.fast_usd_by_size?;
            let saved = before.metrics.mean_ms - metrics.mean_ms;
            (saved > 0.0 && usd > 0.0).then(|| usd / saved)
        });
        points.push(SizePoint {
            size_bytes: fast.device(design).data.0,
            occupied_bytes: fast.device(design).used.0,
            miss_ratio,
            avoidable_miss_ratio: miss_ratio.zip(unavoidable).map(|(misses, least)| (misses - least).max(0.0)),
            lru_miss_ratio: lru,
            fast_bytes_written_per_day: per_day,
            by_size,
            usd_per_ms_saved,
            mean_ms_low: mean.map(|mean| mean.low / 1e3),
            mean_ms_high: mean.map(|mean| mean.high / 1e3),
            warning_codes: report.warnings.iter().map(|warning| warning.code).collect(),
            // They are those of the whole curve.
            metrics: Metrics { warnings: Vec::new(), ..metrics },
        });
    }
    let first = reports.first().expect("a size at least was simulated");
    let overloaded = points.iter().all(SizePoint::is_overloaded);
    let mut curve = SizeCurve {
        peryton_version: first.peryton_version.clone(),
        command: None,
        design: base.name.clone(),
        device: fast.name.clone(),
        profile: fast.device(base).profile.name.clone(),
        design_bytes: fast.now.0,
        trace: first.trace.clone(),
        trace_hash: first.trace_hash,
        trace_requests: first.trace_requests,
        requests: first.requests,
        warm_up_requests: first.warm_up_requests,
        new_volume: first.new_volume,
        replay: first.replay.clone(),
        volume_bytes: first.volume_bytes,
        extent_bytes: fast.extent.0,
        touched_bytes: misses.extents().saturating_mul(fast.extent.0),
        first_touch_ratio: first.first_touch_ratio,
        unavoidable_miss_ratio: unavoidable,
        holds_all_bytes: first_holding.filter(|_| largest_holds).map(|index| points[index].size_bytes),
        objective: ask.objective,
        within: ask.within,
        overloaded,
        knees: if overloaded { Vec::new() } else { knee::all(&points, ask.objective, ask.within) },
        worth: ask.usd_per_ms.filter(|_| !overloaded).and_then(|usd_per_ms| knee::worth(&points, usd_per_ms)),
        simulated_share: first.simulated_share,
        sample_share: first.sample.as_ref().map(|sample| sample.share),
        points,
        verdict: Vec::new(),
        caveats: Vec::new(),
        assumptions: Vec::new(),
        warnings: warnings(&reports),
        design_toml: base.toml.clone(),
    };
    curve.verdict = told::verdict(&curve);
    curve.caveats = told::caveats(&curve, fast);
    curve.assumptions = told::assumptions(&curve, fast, base);
    curve
}

/// Price and endurance in proportion to what is used of the device.
fn by_size(ask: &Ask, fast: &Fast, design: &Design, report: &Report) -> BySize {
    let share = fast.share(design);
    let mine = fast.device(design);
    let price = |device: &DeviceDesign| device.price_usd.map(|price| price * f64::from(device.bought()));
    let fast_usd = price(mine).map(|usd| usd * share);
    let others = design.bought().into_iter().filter(|device| !std::ptr::eq(*device, mine));
    let others_usd = others.map(price).sum::<Option<f64>>();
    let least = |years: &mut dyn Iterator<Item = f64>| years.min_by(f64::total_cmp);
    let fast_years =
        least(&mut fast.members(report).filter_map(|device| device.lifetime_years)).map(|years| years * share);
    let other_years = report.devices.iter().filter(|(name, _)| !fast.is_member(name));
    let other_years = least(&mut other_years.filter_map(|(_, device)| device.lifetime_years));
    BySize {
        fast_usd_by_size: fast_usd,
        devices_usd_by_size: fast_usd.zip(others_usd).map(|(fast, others)| fast + others),
        ownership_usd_by_size: costs(design, report, &ask.account, &|name| if name == fast.name { share } else { 1.0 })
            .map(|costs| costs.total_usd()),
        fast_lifetime_years_by_size: fast_years,
        lifetime_years_by_size: least(&mut [fast_years, other_years].into_iter().flatten()),
    }
}

/// The warnings of all simulations, each kind once.
fn warnings(reports: &[Report]) -> Vec<SizeWarning> {
    let one = |warned: peryton_sim::Warned<'_>| {
        let Warning { message, remedy, .. } = warned.warning;
        let text = match warned.designs.len() == reports.len() {
            true if warned.differs => {
                format!("all sizes (figures of {}): {message}. Remedy: {remedy}", warned.designs[0])
            }
            true => format!("all sizes: {message}. Remedy: {remedy}"),
            false => warned.to_string(),
        };
        SizeWarning { code: warned.warning.code, text }
    };
    warned(reports).into_iter().map(one).collect()
}

impl SizePoint {
    /// The size.
    pub fn size(&self) -> Bytes {
        Bytes(self.size_bytes)
    }
}
