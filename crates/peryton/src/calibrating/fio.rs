//! What fio has measured: its output as JSON, each job of which is a run with percentiles of its latencies.

use std::collections::BTreeMap;

use peryton_device::{
    fit::Kind,
    measure::{About, Distribution, MOST_DEPTH, MOST_SIZE, Measurement, Order, Step, Summary},
};
use peryton_units::{Bytes, Nanos};
use serde::Deserialize;

use super::NO_VALUE_FOR_FLUSHES;
use crate::table;

/// Engines that have one request in flight, whatever `iodepth` says.
const ONE_AT_A_TIME: [&str; 6] = ["psync", "sync", "vsync", "pvsync", "pvsync2", "mmap"];
/// fio's default engine and transfer size.
const DEFAULT_ENGINE: &str = "psync";
const DEFAULT_SIZE: &str = "4k";
/// Fewer requests than this say nothing about percentiles.
const LEAST: u64 = 100;

/// The part of fio's output that is used.
#[derive(Debug, Deserialize)]
pub struct Output {
    #[serde(rename = "fio version")]
    version: String,
    #[serde(rename = "global options", default)]
    global: Options,
    jobs: Vec<Job>,
}

type Options = BTreeMap<String, String>;

#[derive(Debug, Deserialize)]
struct Job {
    jobname: String,
    #[serde(default)]
    groupid: u64,
    #[serde(default)]
    error: i64,
    #[serde(rename = "job options", default)]
    options: Options,
    read: Side,
    write: Side,
    #[serde(default)]
    trim: Side,
    #[serde(default)]
    sync: Synced,
}

#[derive(Debug, Default, Deserialize)]
struct Side {
    #[serde(default)]
    total_ios: u64,
    #[serde(default)]
    iops: f64,
    #[serde(default)]
    slat_ns: Latencies,
    #[serde(default)]
    clat_ns: Latencies,
    #[serde(default)]
    lat_ns: Latencies,
}

#[derive(Debug, Default, Deserialize)]
struct Synced {
    #[serde(default)]
    total_ios: u64,
    #[serde(default)]
    lat_ns: Latencies,
}

#[derive(Debug, Default, Deserialize)]
struct Latencies {
    #[serde(default)]
    min: f64,
    #[serde(default)]
    max: f64,
    #[serde(default)]
    mean: f64,
    #[serde(default)]
    percentile: BTreeMap<String, f64>,
}

/// What the flushes of jobs took.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Flushes {
    /// Number of them.
    pub count: u64,
    /// Their mean latency, in microseconds.
    pub mean_us: f64,
    /// Whether all of them were those of jobs with one request in flight, so that nothing else was waited for.
    pub alone: bool,
}

impl Flushes {
    /// The time of a flush itself.
    pub fn own(&self) -> Option<Nanos> {
        (self.count >= LEAST && self.alone).then_some(Nanos((self.mean_us * 1e3) as u64))
    }

    /// What is said of them, if there were any.
    pub fn told(&self, kind: Kind) -> Option<String> {
        let mean = table::number(self.mean_us);
        let said = match (self.own(), kind) {
            (_, _) if self.count == 0 => return None,
            (Some(_), Kind::Fixed) => "the model's 'flush' is that mean: it was fitted to all of them and none was left to score".to_owned(),
            (Some(_), _) => format!("not fitted: {NO_VALUE_FOR_FLUSHES}"),
            (None, _) if self.count < LEAST => format!("not fitted, because fewer than {LEAST} say little"),
            (None, _) => "not fitted, because others were in flight, which a flush waits for: give them a job with fsync=1 and iodepth=1".to_owned(),
        };
        Some(format!("flushes: {} took {mean} us on average; {said}", self.count))
    }
}

impl Latencies {
    /// The distribution of `count` requests, each of which took `more` besides.
    fn distribution(&self, count: u64, more: f64) -> Option<Distribution> {
        let ns = |value: f64| Nanos((value + more).max(1.0) as u64);
        let mut points = vec![(0.0, ns(self.min))];
        let inner =
            self.percentile.iter().filter_map(|(share, value)| Some((share.parse::<f64>().ok()? / 100.0, ns(*value))));
        points.extend(inner.filter(|(share, _)| *share > 0.0 && *share < 1.0));
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        points.push((1.0, ns(self.max)));
        // fio rounds percentiles up to the borders of its buckets, which may lie above the largest latency.
        let most = ns(self.max);
        let mut latest = Nanos::ZERO;
        for (_, value) in &mut points {
            *value = (*value).max(latest).min(most);
            latest = *value;
        }
        (!self.percentile.is_empty()).then_some(Distribution { count, points })
    }
}

impl Side {
    fn distribution(&self) -> Option<Distribution> {
        // With `lat_percentiles` the percentiles are those of the whole latency.
        let whole = self.lat_ns.distribution(self.total_ios, 0.0);
        whole.or_else(|| self.clat_ns.distribution(self.total_ios, self.slat_ns.mean))
    }
}

impl Job {
    fn option<'a>(&'a self, global: &'a Options, names: &[&str]) -> Option<&'a str> {
        let of = |options: &'a Options| names.iter().find_map(|name| options.get(*name)).map(String::as_str);
        of(&self.options).or_else(|| of(global))
    }

    /// The run of this job by itself.
    fn run(&self, global: &Options) -> Result<Summary, String> {
        let bad = |what: String| format!("job '{:.40}': {what}", self.jobname);
        if self.error != 0 {
            return Err(bad(format!("it failed (error {}): leave it out", self.error)));
        }
        if self.trim.total_ios > 0 {
            return Err(bad("it trims, which is not fitted: leave it out".to_owned()));
        }
        for key in ["bsrange", "bssplit", "rate", "rate_iops", "thinktime"] {
            if self.option(global, &[key]).is_some() {
                return Err(bad(format!("{key} is set: give each size a job of its own, without a bound on its rate")));
            }
        }
        let rw = self.option(global, &["rw", "readwrite"]).unwrap_or("read");
        let rw = rw.split(':').next().unwrap_or(rw);
        let order = if rw.starts_with("rand") { Order::Random } else { Order::Sequential };
        let text = self.option(global, &["bs", "blocksize"]).unwrap_or(DEFAULT_SIZE);
        let mut sizes = text.split(',').filter(|size| !size.is_empty());
        let size = sizes.next().and_then(size).ok_or_else(|| bad(format!("bs is '{text:.40}': expected a size")))?;
        if sizes.any(|other| self::size(other) != Some(size)) {
            return Err(bad(format!("bs is '{text:.40}': give each size a job of its own")));
        }
        if size > MOST_SIZE {
            return Err(bad(format!("bs is {size}: at most {MOST_SIZE} is fitted")));
        }
        let engine = self.option(global, &["ioengine"]).unwrap_or(DEFAULT_ENGINE);
        let depth = match self.option(global, &["iodepth"]) {
            Some(depth) if !ONE_AT_A_TIME.contains(&engine) => depth.parse().unwrap_or(0),
            _ => 1,
        };
        let (reads, writes) = (self.read.total_ios, self.write.total_ios);
        if reads + writes < LEAST {
            return Err(bad(format!("{} requests are too few: let it run longer", reads + writes)));
        }
        let share = ((reads * 200 + reads + writes) / (2 * (reads + writes))) as u32;
        // A mix has both, however few of one of them there are.
        let share = if reads == 0 || writes == 0 { share } else { share.clamp(1, 99) };
        let of = |side: &Side| (side.total_ios > 0).then(|| side.distribution());
        let missing = || bad("it has no percentiles: do not switch off clat_percentiles".to_owned());
        Ok(Summary {
            name: format!("job '{:.40}'", self.jobname),
            step: Step { order, reads: share, size, depth, rest: 0, most: 1 },
            reads: of(&self.read).map(|found| found.ok_or_else(missing)).transpose()?,
            writes: of(&self.write).map(|found| found.ok_or_else(missing)).transpose()?,
            rate: self.read.iops + self.write.iops,
        })
    }
}

/// A size as fio writes it: of 1,024 bytes, whether the letter is `k`, `kb` or `KiB`.
fn size(text: &str) -> Option<Bytes> {
    let lower = text.trim().to_ascii_lowercase();
    let digits = lower.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let factor = match lower[digits.len()..].trim_end_matches('b').trim_end_matches('i') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(factor).filter(|&bytes| bytes > 0).map(Bytes)
}

/// Jobs that ran at the same time are one run, if they are alike: their requests are in flight together.
fn together(mut runs: Vec<Summary>) -> Result<Summary, String> {
    let mut whole = runs.remove(0);
    for other in runs {
        let (a, b) = (&whole.step, &other.step);
        if (a.order, a.size) != (b.order, b.size) || a.reads.abs_diff(b.reads) > 2 {
            return Err(format!(
                "{} and {} ran at the same time and differ: put 'stonewall' between them, so that each is measured by itself",
                whole.name, other.name
            ));
        }
        whole.step.depth = a.depth.saturating_add(b.depth);
        whole.rate += other.rate;
        // Of clones the distributions are alike; that of the largest stands for all.
        for (mine, theirs) in [(&mut whole.reads, other.reads), (&mut whole.writes, other.writes)] {
            let count = |of: &Option<Distribution>| of.as_ref().map_or(0, |of| of.count);
            let sum = count(mine) + count(&theirs);
            if count(&theirs) > count(mine) {
                *mine = theirs;
            }
            if let Some(mine) = mine {
                mine.count = sum;
            }
        }
    }
    Ok(whole)
}

impl Output {
    /// The runs of its jobs, and what their flushes took.
    ///
    /// # Errors
    /// The first job that cannot be used, in one line.
    pub fn runs(&self) -> Result<(Vec<Summary>, Flushes), String> {
        if !self.version.starts_with("fio-") {
            return Err(format!("'fio version' is '{:.40}': expected the output of fio", self.version));
        }
        let mut groups: BTreeMap<u64, Vec<Summary>> = BTreeMap::new();
        let (mut count, mut sum, mut alone) = (0u64, 0.0, true);
        for job in &self.jobs {
            let run = job.run(&self.global)?;
            if job.sync.total_ios > 0 {
                count += job.sync.total_ios;
                sum += job.sync.lat_ns.mean * job.sync.total_ios as f64;
                alone &= run.step.depth == 1;
            }
            groups.entry(job.groupid).or_default().push(run);
        }
        if groups.is_empty() {
            return Err("it has no jobs".to_owned());
        }
        let clones = |(run, job): (&mut Summary, u64)| {
            run.step.depth = u64::from(run.step.depth).saturating_mul(job).min(u64::from(MOST_DEPTH) + 1) as u32;
        };
        let mut runs = Vec::new();
        for (group, of) in groups {
            let alike = of.len();
            let mut run = together(of)?;
            // With group_reporting, clones are reported as one job.
            let first = self.jobs.iter().find(|job| job.groupid == group).expect("the group has a job");
            let asked = first.option(&self.global, &["numjobs"]).and_then(|count| count.parse().ok()).unwrap_or(1u64);
            if alike == 1 {
                clones((&mut run, asked.max(1)));
            }
            runs.push(run);
        }
        let mean_us = if count > 0 { sum / count as f64 / 1e3 } else { 0.0 };
        Ok((runs, Flushes { count, mean_us, alone }))
    }

    /// How far its jobs go into the device, and what they name as such.
    fn extent(&self) -> (Bytes, Option<&str>) {
        let of =
            |names: &[&str]| self.jobs.iter().filter_map(|job| job.option(&self.global, names)).collect::<Vec<_>>();
        let largest = of(&["size", "filesize"]).into_iter().filter_map(size).max();
        (largest.unwrap_or(Bytes::gib(1)), of(&["filename", "directory"]).first().copied())
    }
}

/// Makes a measurement of several outputs of one device.
///
/// # Errors
/// What is wrong first, with the name of its file.
pub fn measurement(
    outputs: &[(String, Output)],
    kind: Option<Kind>,
    seed: u64,
) -> Result<(Measurement, Flushes), String> {
    let (mut runs, mut flushes) = (Vec::new(), Flushes { alone: true, ..Flushes::default() });
    let (mut size, mut device) = (Bytes::ZERO, None);
    for (name, output) in outputs {
        let (more, flushed) = output.runs().map_err(|what| format!("{name}: {what}"))?;
        runs.extend(more);
        let sum = flushes.mean_us * flushes.count as f64 + flushed.mean_us * flushed.count as f64;
        flushes.count += flushed.count;
        flushes.mean_us = if flushes.count > 0 { sum / flushes.count as f64 } else { 0.0 };
        flushes.alone &= flushed.alone;
        let (reach, named) = output.extent();
        size = size.max(reach);
        device = device.or(named);
    }
    let written = runs.iter().any(|run| run.writes.is_some());
    let files: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
    let about = About {
        path: format!("{} as fio measured it ({})", device.unwrap_or("a device"), files.join(", ")),
        model: None,
        kind: Kind::Fixed,
        rotational: None,
        size,
        capacity: None,
        block: Bytes(512),
        scratch: false,
        written,
        direct: true,
    };
    let mut found = Measurement::of_summaries(about, seed, &runs).map_err(|error| error.to_string())?;
    let alone = |step: &Step| step.depth == 1 && step.order == Order::Random && step.reads == 100;
    let reads = found.blocks.iter().find(|block| alone(&found.steps[block.step as usize]));
    let by_reads = reads.map_or(Kind::Flash, |block| Kind::of(&block.requests.0));
    found.device.kind = kind.unwrap_or(by_reads);
    Ok((found, flushes))
}
