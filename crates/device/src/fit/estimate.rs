//! What the steps of a measurement say directly: the search begins there.

use peryton_units::{Nanos, Op};

use super::knobs::{self, Knob};
use crate::{
    kind::Kind,
    measure::{Order, Step},
    validate::Measured,
};

/// The requests of one step, block by block.
pub(super) type OfStep<'a> = (&'a Step, Vec<&'a [Measured]>);

/// Where the search begins.
pub(super) struct Start {
    pub knobs: Vec<Knob>,
    /// Values that are not searched for, and were found directly.
    pub values: toml::Table,
}

/// What bounds the rate of small requests of the model `fixed`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bounded {
    /// So many are served at a time.
    AtATime,
    /// They begin so far apart.
    Apart,
    /// Those that wait are done together, one after the other.
    Together,
}

/// The time that a rest adds counts if it is at least this share of a small read.
const LEAST_REST: f64 = 0.1;

/// The points of a spread: shares of the requests, closer where few of them decide the mean.
const SHARES: [f64; 21] = [
    0.0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995,
    1.0,
];
/// The fewest requests that say something about a distribution.
const LEAST: usize = 20;

/// Estimates for a device of this kind from these steps. If several fit, the search begins from each.
pub(super) fn starts(kind: Kind, steps: &[OfStep<'_>]) -> Vec<Start> {
    match kind {
        // What bounds the rate of small requests is how many are served at a time, or how long each keeps the others from beginning, which
        // wait until those before them are done or not.
        Kind::Fixed => {
            [Bounded::Together, Bounded::AtATime, Bounded::Apart].map(|bounded| fixed(steps, bounded)).into()
        }
        Kind::Flash => vec![flash(steps)],
        Kind::Disk => vec![disk(steps)],
    }
}

fn set(knobs: &mut [Knob], key: &str, value: Option<f64>, factor: f64) {
    let knob = knobs.iter_mut().find(|knob| knob.keys == [key]);
    if let (Some(knob), Some(value)) = (knob, value) {
        *knob = knob.near(value, factor);
    }
}

/// Latencies in ns, rising, of the steps for which this holds.
fn latencies(steps: &[OfStep<'_>], holds: impl Fn(&Step) -> bool, op: Op) -> Vec<u64> {
    let of = steps.iter().filter(|(step, _)| holds(step)).flat_map(|(_, blocks)| blocks.iter().copied().flatten());
    let mut all: Vec<u64> = of.filter(|request| request.io.op == op).map(|request| request.latency.0).collect();
    all.sort_unstable();
    all
}

fn quantile(rising: &[u64], share: f64) -> Option<f64> {
    let last = rising.len().checked_sub(1)?;
    let place = share * last as f64;
    let (low, high) = (rising[place.floor() as usize] as f64, rising[place.ceil() as usize] as f64);
    Some(low + (high - low) * place.fract())
}

/// Bytes per second and requests per second of a step while it went on.
fn throughput(steps: &[OfStep<'_>], holds: impl Fn(&Step) -> bool) -> Option<(f64, f64)> {
    let rates = steps.iter().filter(|(step, _)| holds(step)).filter_map(|(step, blocks)| {
        let (mut ns, mut count) = (0u64, 0u64);
        for block in blocks {
            let first = block.first()?.at;
            let end = block.iter().map(|request| request.at + request.latency).max()?;
            ns += (end - first).0;
            count += block.len() as u64;
        }
        (ns > 0).then(|| (count as f64 * step.size.0 as f64 / ns as f64 * 1e9, count as f64 / ns as f64 * 1e9))
    });
    rates.reduce(|a, b| if b.1 > a.1 { b } else { a })
}

/// Time of a request of no bytes in ns and MB/s, from requests of several sizes that were alone.
struct Line {
    base: f64,
    mb_per_s: f64,
    smallest: u64,
}

fn line(steps: &[OfStep<'_>], op: Op) -> Option<Line> {
    let reads = if op == Op::Read { 100 } else { 0 };
    let alone = |step: &Step| step.order == Order::Random && step.depth == 1 && step.rest == 0 && step.reads == reads;
    let mut sizes: Vec<u64> = steps.iter().filter(|(step, _)| alone(step)).map(|(step, _)| step.size.0).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let median = |size: u64| {
        let all = latencies(steps, |step| alone(step) && step.size.0 == size, op);
        if all.len() < LEAST { None } else { quantile(&all, 0.5) }
    };
    let smallest = *sizes.first()?;
    let low = median(smallest)?;
    let mut slopes = sizes.iter().skip(1).filter_map(|&size| {
        let more = median(size)? - low;
        (more > 0.0).then(|| (size - smallest) as f64 / more * 1e3)
    });
    // The largest is the least disturbed.
    let mb_per_s = slopes.next_back().unwrap_or(100_000.0).clamp(1.0, 150_000.0);
    Some(Line { base: (low - smallest as f64 * 1e3 / mb_per_s).max(low * 0.2).max(1.0), mb_per_s, smallest })
}

/// The distribution of small requests that were alone, as factors of the base.
fn spread(steps: &[OfStep<'_>], op: Op, line: &Line) -> Option<toml::Value> {
    let reads = if op == Op::Read { 100 } else { 0 };
    let small = |step: &Step| {
        step.depth == 1
            && step.rest == 0
            && step.reads == reads
            && step.size.0 == line.smallest
            && step.order == Order::Random
    };
    let all = latencies(steps, small, op);
    if all.len() < LEAST {
        return None;
    }
    let transfer = line.smallest as f64 * 1e3 / line.mb_per_s;
    let points = SHARES.iter().filter_map(|&share| {
        // Between the last two points nothing is known.
        let known = share == 1.0 || (1.0 - share) * all.len() as f64 >= 1.0;
        let factor = (quantile(&all, share)? - transfer).max(0.0) / line.base;
        let rounded = (factor * 1e4).round() / 1e4;
        known.then(|| toml::Value::Array(vec![toml::Value::Float(share), toml::Value::Float(rounded)]))
    });
    Some(toml::Value::Array(points.collect()))
}

/// The time that a rest adds to the small read after it, from the steps with a rest: (rest, added time) in ns.
fn rests(steps: &[OfStep<'_>], line: &Line) -> Vec<(u64, u64)> {
    let small = |step: &Step| {
        step.depth == 1 && step.reads == 100 && step.size.0 == line.smallest && step.order == Order::Random
    };
    let median = |rest: u64| {
        let all = latencies(steps, |step| small(step) && step.rest == rest, Op::Read);
        if all.len() < LEAST { None } else { quantile(&all, 0.5) }
    };
    let mut rests: Vec<u64> = steps.iter().filter(|(step, _)| small(step)).map(|(step, _)| step.rest).collect();
    rests.sort_unstable();
    rests.dedup();
    let Some(without) = median(0) else { return Vec::new() };
    let adds = |rest: u64| Some((rest, (median(rest)? - without).max(0.0).round() as u64));
    let found: Vec<(u64, u64)> = rests.into_iter().filter(|&rest| rest > 0).filter_map(adds).collect();
    // Medians of a few requests differ by chance.
    if found.iter().any(|&(_, adds)| adds as f64 > LEAST_REST * without) { found } else { Vec::new() }
}

fn fixed(steps: &[OfStep<'_>], bounded: Bounded) -> Start {
    let mut knobs = knobs::FIXED.to_vec();
    let mut values = toml::Table::new();
    let (read, write) = (line(steps, Op::Read), line(steps, Op::Write));
    for (op, line, name) in [(Op::Read, &read, "read"), (Op::Write, &write, "write")] {
        let Some(line) = line.as_ref().or(read.as_ref()) else { continue };
        set(&mut knobs, name, Some(line.base), 1.08);
        set(&mut knobs, &format!("{name}_mb_per_s"), Some(line.mb_per_s), 8.0);
        if let Some(spread) = spread(steps, op, line).or_else(|| spread(steps, Op::Read, line)) {
            values.insert(format!("{name}_spread"), spread);
        }
    }
    let rests = read.as_ref().map(|line| rests(steps, line)).unwrap_or_default();
    if !rests.is_empty() {
        let time = |ns: u64| toml::Value::String(format!("{ns}ns"));
        let points = rests.iter().map(|&(rest, adds)| toml::Value::Array(vec![time(rest), time(adds)]));
        values.insert("rests".to_owned(), toml::Value::Array(points.collect()));
    }
    let small = |reads: u32| {
        throughput(steps, move |step| step.size.0 <= 8192 && step.reads == reads && step.order == Order::Random)
    };
    if bounded != Bounded::AtATime {
        set(&mut knobs, "parallelism", Some(64.0), 4.0);
        set(&mut knobs, "read_interval", small(100).map(|(_, rate)| 0.9e9 / rate), 3.0);
        set(&mut knobs, "write_interval", small(0).or_else(|| small(100)).map(|(_, rate)| 0.9e9 / rate), 3.0);
    } else if let (Some((_, rate)), Some(line)) = (small(100), &read) {
        // As many served at a time as explain the highest rate.
        set(&mut knobs, "parallelism", Some((rate * line.base / 1e9).clamp(1.0, 200.0)), 16.0);
    }
    if bounded == Bounded::Together {
        knobs.retain(|knob| knob.keys != ["parallelism"]);
        values.insert("gathers".to_owned(), toml::Value::Boolean(true));
    }
    let fastest = |writes: bool| {
        let found = throughput(steps, move |step| step.size.0 >= 65_536 && (step.reads == 0) == writes);
        found.map(|(bytes, _)| (bytes / 1e6 * 1.5).min(150_000.0))
    };
    set(&mut knobs, "shared_mb_per_s", fastest(false), 16.0);
    match fastest(true) {
        None => knobs.retain(|knob| knob.keys != ["shared_write_mb_per_s"]),
        writes => set(&mut knobs, "shared_write_mb_per_s", writes, 16.0),
    }
    Start { knobs, values }
}

fn flash(steps: &[OfStep<'_>]) -> Start {
    let mut knobs = knobs::FLASH.to_vec();
    if let Some(line) = line(steps, Op::Read) {
        set(&mut knobs, "read", Some(line.base * 0.6), 8.0);
        set(&mut knobs, "read_overhead", Some(line.base * 0.25), 12.0);
    }
    if let Some(line) = line(steps, Op::Write) {
        set(&mut knobs, "write_overhead", Some(line.base * 0.8), 8.0);
    }
    let small = |reads| move |step: &Step| step.size.0 <= 8192 && step.reads == reads;
    let interval = |reads| throughput(steps, small(reads)).map(|(_, rate)| 1e9 / rate * 0.8);
    set(&mut knobs, "read_interval", interval(100), 12.0);
    set(&mut knobs, "write_interval", interval(0), 12.0);
    let fastest = throughput(steps, |step| step.size.0 >= 65_536 && step.reads == 100);
    set(&mut knobs, "interface_mb_per_s", fastest.map(|(bytes, _)| bytes / 1e6 * 1.2), 8.0);
    Start { knobs, values: toml::Table::new() }
}

fn disk(steps: &[OfStep<'_>]) -> Start {
    let mut knobs = knobs::DISK.to_vec();
    let mut values = toml::Table::new();
    let zones = zones(steps);
    if let Some((outer, inner)) = zones {
        knobs.retain(|knob| knob.keys != ["tracks.outer_mb_per_s"]);
        let rate = |rate: f64| toml::Value::Float((rate * 100.0).round() / 100.0);
        let tracks = [("outer_mb_per_s".to_owned(), rate(outer)), ("inner_mb_per_s".to_owned(), rate(inner))];
        values.insert("tracks".to_owned(), toml::Value::Table(toml::Table::from_iter(tracks)));
    }
    let rotation = rotation(steps, zones.map_or(150.0, |(outer, inner)| (outer + inner) / 2.0));
    if let Some(rotation) = rotation {
        knobs.retain(|knob| knob.keys != ["rpm"]);
        values.insert("rpm".to_owned(), toml::Value::Float((60e9 / rotation * 10.0).round() / 10.0));
    }
    let half_turn = rotation.unwrap_or(8.33e6) / 2.0;
    let alone =
        |step: &Step| step.order == Order::Random && step.depth == 1 && step.reads == 100 && step.size.0 <= 8192;
    let random = latencies(steps, alone, Op::Read);
    if random.len() >= LEAST {
        let mean = random.iter().sum::<u64>() as f64 / random.len() as f64;
        let average = (mean - half_turn - 0.3e6).max(0.5e6);
        set(&mut knobs, "seek.average", Some(average), 1.15);
        set(&mut knobs, "seek.full", Some(average * 2.0), 1.5);
        set(&mut knobs, "seek.single", Some(average * 0.12), 6.0);
    }
    let written = latencies(
        steps,
        |step| step.order == Order::Random && step.depth == 1 && step.reads == 0 && step.size.0 <= 8192,
        Op::Write,
    );
    if let (Some(write), Some(read)) = (quantile(&written, 0.5), quantile(&random, 0.5)) {
        // A write that takes as long as a read has reached the surface.
        if write > 0.6 * read {
            knobs.retain(|knob| knob.keys != ["buffer.write_cache"] && knob.keys != ["controller.write_hit"]);
        }
    }
    let next =
        latencies(steps, |step| step.order == Order::Sequential && step.depth == 1 && step.size.0 <= 8192, Op::Read);
    set(&mut knobs, "controller.read_hit", quantile(&next, 0.5), 4.0);
    Start { knobs, values }
}

/// The rates of the outermost and of the innermost tracks in MB/s: a straight line through the rates of the zones.
fn zones(steps: &[OfStep<'_>]) -> Option<(f64, f64)> {
    let (step, blocks) = steps.iter().find(|(step, _)| step.order == Order::Zones)?;
    let run = (u64::from(step.most) / crate::measure::ZONES) as usize;
    let mut rates: Vec<Vec<f64>> = vec![Vec::new(); crate::measure::ZONES as usize];
    for block in blocks {
        for (zone, requests) in block.chunks(run.max(1)).enumerate().take(rates.len()) {
            // The first requests of a run seek, and of the read-ahead they find nothing yet.
            let ends: Vec<Nanos> = requests.iter().skip(2).map(|request| request.at + request.latency).collect();
            let (Some(first), Some(last)) = (ends.iter().min(), ends.iter().max()) else { continue };
            if requests.len() == run && ends.len() > 4 && last > first {
                rates[zone].push((ends.len() - 1) as f64 * step.size.0 as f64 * 1e3 / (*last - *first).0 as f64);
            }
        }
    }
    let mut points = Vec::new();
    for (zone, rates) in rates.iter_mut().enumerate() {
        rates.sort_unstable_by(f64::total_cmp);
        if let Some(&median) = rates.get(rates.len() / 2) {
            points.push((zone as f64 / (crate::measure::ZONES - 1) as f64, median));
        }
    }
    if points.len() < 4 {
        return None;
    }
    let n = points.len() as f64;
    let (x, y) = (points.iter().map(|p| p.0).sum::<f64>() / n, points.iter().map(|p| p.1).sum::<f64>() / n);
    let slope = points.iter().map(|p| (p.0 - x) * (p.1 - y)).sum::<f64>()
        / points.iter().map(|p| (p.0 - x).powi(2)).sum::<f64>();
    let (outer, inner) = (y - slope * x, y + slope * (1.0 - x));
    (outer > 1.0 && inner > 1.0).then_some((outer, inner))
}

/// The time of a turn in ns: of reads that each lie just before the one before, ends are a turn apart, less what both take to pass.
fn rotation(steps: &[OfStep<'_>], mb_per_s: f64) -> Option<f64> {
    /// From 16,000 to 3,500 turns a minute.
    const TURNS: std::ops::Range<f64> = 3.75e6..17.2e6;
    /// Shorter reads come from the drive's memory.
    const FROM_MEMORY: Nanos = Nanos(1_500_000);
    let (step, blocks) = steps.iter().find(|(step, _)| step.order == Order::Backward)?;
    let passes = step.size.0 as f64 * 1e3 / mb_per_s;
    let mut turns = Vec::new();
    for block in blocks {
        for two in block.windows(2) {
            let next = two[1].io.at + two[1].io.len == two[0].io.at;
            if next && two.iter().all(|request| request.latency > FROM_MEMORY) {
                let apart = (two[1].at + two[1].latency).0 as f64 - (two[0].at + two[0].latency).0 as f64;
                turns.push(apart + passes);
            }
        }
    }
    turns.retain(|turn| TURNS.contains(turn));
    turns.sort_unstable_by(f64::total_cmp);
    if turns.len() < LEAST {
        return None;
    }
    // Some wait for a turn more, or change tracks: most are alike.
    let low = turns[turns.len() / 4];
    let alike: Vec<f64> = turns.into_iter().filter(|turn| (turn / low - 1.0).abs() < 0.03).collect();
    (alike.len() >= LEAST / 2).then(|| alike[alike.len() / 2])
}
