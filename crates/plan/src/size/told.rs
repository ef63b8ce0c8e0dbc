//! The answer in sentences: where more stops paying, why that may be wrong, and what is assumed.

use peryton_sim::Design;
use peryton_units::{Bytes, person, person_years};

use super::{
    curve::{SizeCurve, SizePoint},
    fast::Fast,
    knee::Knee,
};
use crate::{constraint::LEAST_LIFETIME_YEARS, metric::Metric};

/// The share of the accesses that is worth a word if the design keeps so many out of the fast device.
const KEPT_OUT: f64 = 0.02;

/// A size in binary units, and in the decimal ones in which devices are sold.
fn told(bytes: u64) -> String {
    let (size, number) = (Bytes(bytes), bytes as f64);
    match number {
        _ if number >= 1e12 => format!("{size} ({} TB)", digits(number / 1e12)),
        _ if number >= 1e9 => format!("{size} ({} GB)", digits(number / 1e9)),
        _ => size.to_string(),
    }
}

fn digits(value: f64) -> String {
    person(value)
}

fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// A metric as the subject of a sentence.
fn name(metric: Metric) -> String {
    let text = match metric {
        Metric::Latency => "mean response time",
        Metric::P99 => "p99",
        Metric::Flush => "mean flush",
        Metric::WriteThenFlush => "write until flushed",
        other => other.name(),
    };
    text.to_owned()
}

pub(super) fn verdict(curve: &SizeCurve) -> Vec<String> {
    let mut text = Vec::new();
    if curve.overloaded {
        let rate = |point: &SizePoint| point.metrics.requests as f64 / point.metrics.simulated_s;
        let most = curve.points.iter().max_by(|a, b| rate(a).total_cmp(&rate(b))).expect("a size was simulated");
        text.push(format!(
            "No size of '{}' is enough: requests come faster than they are answered with each of the {}. {} answers most, {} requests a \
             second",
            curve.device,
            curve.points.len(),
            told(most.size_bytes),
            digits(rate(most))
        ));
        return text;
    }
    if let Some(knee) = curve.knees.first() {
        text.push(by(knee, curve.within, curve.points.len()));
        text.extend(next(curve, knee));
        text.extend(worn(curve, knee));
    }
    let others: Vec<String> = curve
        .knees
        .iter()
        .skip(1)
        .map(|knee| format!("{} from {} on", name(knee.metric), Bytes(knee.size_bytes)))
        .collect();
    if !others.is_empty() {
        text.push(format!("Within {} of their best are also: {}", percent(curve.within), others.join(", ")));
    }
    text.extend(misses(curve));
    if let Some(worth) = &curve.worth {
        text.push(format!(
            "If a millisecond of mean response time is worth {} USD, {} is best: {} USD for '{}', {} ms",
            digits(worth.usd_per_ms),
            told(worth.size_bytes),
            digits(worth.fast_usd_by_size),
            curve.device,
            digits(worth.mean_ms)
        ));
    }
    text
}

/// What a device of the knee's size is worth, if this load wears it out within a month.
fn worn(curve: &SizeCurve, knee: &Knee) -> Option<String> {
    let point = curve.points.iter().find(|point| point.size_bytes == knee.size_bytes)?;
    let years = point.by_size.lifetime_years_by_size.filter(|years| *years < LEAST_LIFETIME_YEARS)?;
    let whole = point
        .metrics
        .lifetime_years
        .map_or_else(String::new, |years| format!(", the whole {} after {}", curve.profile, person_years(years)));
    Some(format!("A device no larger than that wears out after {} of this load{whole}", person_years(years)))
}

/// The knee of a figure.
fn by(knee: &Knee, within: f64, sizes: usize) -> String {
    let show = |value: f64| knee.metric.show(value);
    let subject = name(knee.metric);
    let size = told(knee.size_bytes);
    let best = match knee.best_bytes == knee.size_bytes {
        true => "the best of all".to_owned(),
        false => format!("the best is {} at {}", show(knee.best), Bytes(knee.best_bytes)),
    };
    let smallest =
        format!("By {subject}, {size} is enough, the smallest size simulated ({}; {best})", show(knee.value));
    match (knee.below_bytes.zip(knee.below), knee.worse_above_bytes.zip(knee.worse_above)) {
        (Some((below, value)), _) => format!(
            "By {subject}, {size} is enough: the smallest size simulated within {} of the best ({}; {best}). {} is too small ({})",
            percent(within),
            show(knee.value),
            Bytes(below),
            show(value)
        ),
        (None, _) if sizes == 1 => {
            format!(
                "By {subject}, {size} has {}: no other size was simulated to compare it with (--sizes)",
                show(knee.value)
            )
        }
        (None, Some((larger, value))) => format!("{smallest}: {} is worse ({})", Bytes(larger), show(value)),
        (None, None) => format!("{smallest}: the size hardly matters within the range"),
    }
}

/// What the next larger size than the knee would cost and save.
fn next(curve: &SizeCurve, knee: &Knee) -> Option<String> {
    let at = curve.points.iter().position(|point| point.size_bytes == knee.size_bytes)?;
    let (point, larger) = (&curve.points[at], curve.points.get(at + 1)?);
    let usd = |point: &SizePoint| point.by_size.fast_usd_by_size;
    let more = usd(larger)? - usd(point)?;
    let saved = point.metrics.mean_ms - larger.metrics.mean_ms;
    let size = told(larger.size_bytes);
    Some(match saved > 0.0 && more > 0.0 {
        true => format!(
            "The next larger size, {size}, costs {} USD more and saves {} ms of the mean: {} USD for each ms",
            digits(more),
            digits(saved),
            digits(more / saved)
        ),
        false => format!("The next larger size, {size}, costs {} USD more and saves nothing of the mean", digits(more)),
    })
}

/// The misses that no size avoids.
fn misses(curve: &SizeCurve) -> Option<String> {
    let first = curve.first_touch_ratio;
    match (curve.unavoidable_miss_ratio, curve.holds_all_bytes) {
        (Some(misses), Some(size)) => {
            let why = match first {
                Some(first) if misses - first > KEPT_OUT => format!(
                    ": {} are the first to their extent, and the others are left on the slow device by the design itself (promotion, \
                     admission, bypass, max_moves)",
                    percent(first)
                ),
                Some(first) => format!(" ({} are the first to their extent)", percent(first)),
                None => String::new(),
            };
            let (misses, size) = (percent(misses), told(size));
            Some(format!("{misses} of the accesses miss at any size{why}. From {size} on nothing has to leave '{}'", curve.device))
        }
        _ => first.map(|first| {
            format!("{} of the accesses are the first to their extent, which no size avoids unless it is a write that is taken in", percent(first))
        }),
    }
}

pub(super) fn caveats(curve: &SizeCurve, fast: &Fast) -> Vec<String> {
    let mut text = Vec::new();
    let Some(knee) = curve.knees.first() else { return text };
    let largest = curve.points.last().map_or(0, |point| point.size_bytes);
    if curve.points.first().is_some_and(|point| Some(point.size_bytes) == curve.holds_all_bytes) {
        text.push(format!(
            "Nothing had to leave '{}' at any size: the trace is too short, or touches too little ({}), to say how much is needed. \
             Take a longer trace, or smaller sizes (--sizes)",
            curve.device,
            Bytes(curve.touched_bytes)
        ));
    }
    if curve.holds_all_bytes.is_none() {
        let why = match largest >= fast.most().0 / 16 * 15 {
            true if fast.capacity.0 <= largest / 15 * 16 => format!(
                "that is what '{}' can hold (devices.{}.count, or a larger profile, goes on)",
                curve.device, curve.device
            ),
            true => "that is the whole volume".to_owned(),
            false => "larger sizes were not asked for".to_owned(),
        };
        text.push(format!(
            "The curve ends at {} where extents still have to leave; {why}. The best may lie beyond",
            told(largest)
        ));
    }
    if let (Some(size), Some(value)) = (knee.worse_above_bytes, knee.worse_above) {
        text.push(format!(
            "Larger is not always better here: {} at {} is outside of the {} again. Compare other settings before you rely on one size",
            knee.metric.show(value),
            Bytes(size),
            percent(curve.within)
        ));
    }
    if let Some(below) = knee.below_bytes
        && knee.size_bytes as f64 / below as f64 > 1.5
    {
        text.push(format!(
            "Between {} and {} nothing was simulated: --sizes {}..{} looks closer",
            Bytes(below),
            Bytes(knee.size_bytes),
            Bytes(below).exact(),
            Bytes(knee.size_bytes).exact()
        ));
    }
    let enough = curve.points.iter().find(|point| point.size_bytes == knee.size_bytes);
    if enough.is_some_and(SizePoint::is_overloaded) {
        text.push(format!(
            "Even with {} requests come faster than they are answered: response times, and what is enough by them, depend on the length of \
             this trace. Ask again with --replay qd=N, or --speed below 1",
            Bytes(knee.size_bytes)
        ));
    }
    let like = match curve.simulated_share {
        None => "a load like this trace",
        Some(_) => "a load like this trace on all data in use",
    };
    text.push(format!(
        "Right for {like}, which touches {} in {} requests: a longer time uses more data, and then the same share of \
         hits takes a larger size",
        Bytes(curve.touched_bytes),
        curve.trace_requests
    ));
    text
}

pub(super) fn assumptions(curve: &SizeCurve, fast: &Fast, base: &Design) -> Vec<String> {
    let device = fast.device(base);
    let profile = &curve.profile;
    let mut text = Vec::new();
    let price = device.price_usd.filter(|_| device.bought() > 0);
    match price {
        Some(usd) => {
            let per_gb = usd * f64::from(device.bought()) / (fast.capacity.0 as f64 / 1e9);
            text.push(format!(
                "'{}' costs {} USD per GB at any size: its {} USD ({profile}) divided by its capacity, for what the design occupies of \
                 it; the other devices are bought whole",
                curve.device,
                digits(per_gb),
                digits(usd)
            ));
        }
        None if device.bought() == 0 => text.push(format!("'{}' is owned and costs nothing", curve.device)),
        None => text.push(format!("No cost: {profile} has no price (--set devices.{}.price_usd=USD)", curve.device)),
    }
    text.push(format!(
        "The endurance of '{}' is in proportion to its size too: lifetime_years_by_size is that of a device no larger than what is \
         occupied, and lifetime_years that of the whole {profile}, of which the rest is spare for wear-levelling",
        curve.device
    ));
    text.push(format!(
        "A device of any size is as fast as {profile}: smaller ones have fewer flash chips, and are often slower to write"
    ));
    if let Some(share) = curve.simulated_share {
        text.push(format!(
            "The trace touches {} of the data in use that the design is for, which is simulated smaller by as much (load.share)",
            percent(share)
        ));
    }
    if let Some(share) = curve.sample_share {
        text.push(format!(
            "A sample of {} of the trace was simulated, on devices that are smaller by as much; the ranges are those in which nine of ten \
             such samples have the figure of the whole (--sample 1 simulates all of it)",
            percent(share)
        ));
    }
    if curve.warm_up_requests > 0 {
        text.push(format!("Measured after {} requests of warm-up (--warm-up-requests)", curve.warm_up_requests));
    }
    text
}
