//! Where more stops paying.

use serde::Serialize;

use super::curve::SizePoint;
use crate::metric::Metric;

/// The smallest size whose figure is nearly the best.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Knee {
    /// The figure.
    pub metric: Metric,
    /// The best value of all sizes; absent if it is unlimited.
    #[serde(skip_serializing_if = "is_unlimited")]
    pub best: f64,
    /// The smallest size that has it.
    pub best_bytes: u64,
    /// The knee: the smallest size that is within the allowed share of the best.
    pub size_bytes: u64,
    /// Its value; absent if it is unlimited.
    #[serde(skip_serializing_if = "is_unlimited")]
    pub value: f64,
    /// The next smaller size, which is not; absent if the smallest size simulated is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below_bytes: Option<u64>,
    /// Its value.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub below: Option<f64>,
    /// The worst value of a larger size, if that is not within the share either: larger is not always better.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worse_above: Option<f64>,
    /// That size.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub worse_above_bytes: Option<u64>,
}

fn is_unlimited(value: &f64) -> bool {
    value.is_infinite()
}

/// A size that is best by money.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Marginal {
    /// What a millisecond of mean response time is worth.
    pub usd_per_ms: f64,
    /// The size with the least sum of purchase and response time.
    pub size_bytes: u64,
    /// Its mean response time.
    pub mean_ms: f64,
    /// Purchase of the fast device in this size.
    pub fast_usd_by_size: f64,
}

/// The figures that have a knee beside the objective.
const OTHERS: &[Metric] = &[Metric::Latency, Metric::P99, Metric::Flush, Metric::WriteThenFlush];

/// The knees of the objective and of the other figures that there are.
pub(super) fn all(points: &[SizePoint], objective: Metric, within: f64) -> Vec<Knee> {
    let others = OTHERS.iter().copied().filter(|metric| *metric != objective);
    std::iter::once(objective).chain(others).filter_map(|metric| of(points, metric, within)).collect()
}

fn of(points: &[SizePoint], metric: Metric, within: f64) -> Option<Knee> {
    let values: Vec<(u64, f64)> =
        points.iter().filter_map(|point| Some((point.size_bytes, value(point, metric)?))).collect();
    let cost = |value: f64| if metric.more_is_better() { -value } else { value };
    // Of equal values that of the smallest size.
    let &(best_bytes, best) = values.iter().reduce(|a, b| if cost(b.1) < cost(a.1) { b } else { a })?;
    let is_enough = |value: f64| match metric.more_is_better() {
        true => value >= best * (1.0 - within),
        false => value <= best * (1.0 + within),
    };
    let at = values.iter().position(|(_, value)| is_enough(*value))?;
    let below = at.checked_sub(1).map(|below| values[below]);
    let worse = values[at..].iter().filter(|(_, value)| !is_enough(*value));
    let worse = worse.max_by(|a, b| cost(a.1).total_cmp(&cost(b.1)));
    Some(Knee {
        metric,
        best,
        best_bytes,
        size_bytes: values[at].0,
        value: values[at].1,
        below_bytes: below.map(|(size, _)| size),
        below: below.map(|(_, value)| value),
        worse_above: worse.map(|(_, value)| *value),
        worse_above_bytes: worse.map(|(size, _)| *size),
    })
}

/// A figure of a size. Lifetime and money are those of a device of that size.
pub(super) fn value(point: &SizePoint, metric: Metric) -> Option<f64> {
    match metric {
        Metric::Lifetime => Some(point.by_size.lifetime_years_by_size.unwrap_or(f64::INFINITY)),
        Metric::Dollars => point.by_size.devices_usd_by_size,
        Metric::Ownership => point.by_size.ownership_usd_by_size,
        other => other.of(&point.metrics),
    }
}

/// The size with the least sum of purchase and what its mean response time costs.
pub(super) fn worth(points: &[SizePoint], usd_per_ms: f64) -> Option<Marginal> {
    let sums = points.iter().filter_map(|point| {
        let usd = point.by_size.fast_usd_by_size?;
        Some((usd + usd_per_ms * point.metrics.mean_ms, usd, point))
    });
    let (_, usd, point) = sums.min_by(|a, b| a.0.total_cmp(&b.0))?;
    Some(Marginal { usd_per_ms, size_bytes: point.size_bytes, mean_ms: point.metrics.mean_ms, fast_usd_by_size: usd })
}
