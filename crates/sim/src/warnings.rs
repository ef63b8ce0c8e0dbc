//! Warnings about runs whose figures mislead: overloaded, cold, too short or not comparable ones, each with a remedy.

use std::fmt;

use peryton_device::{Class, DeviceStats, Model, flash::Precondition};
use peryton_engine::{Placement, WritePolicy};
use peryton_units::{Bytes, Nanos, SECONDS_PER_YEAR};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::{
    Design, LatencySummary, Options, Replay, Report, design::NamedDevice, outcome::Outcome, simulator::MOST_IN_FLIGHT,
};

/// A circumstance that makes figures misleading, with a remedy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Warning {
    /// A stable code for scripts.
    pub code: &'static str,
    /// The circumstance, in a sentence without a full stop.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.message, self.remedy)
    }
}

pub(crate) fn warning(code: &'static str, message: String, remedy: impl Into<String>) -> Warning {
    Warning { code, message, remedy: remedy.into() }
}

/// The code of the warning that a sample was simulated.
pub(crate) const SAMPLED: &str = "sample";
/// The limit of overload: a timed replay with more requests in flight on average than this for each device does not
/// keep up. SATA disks queue fewer.
const OVERLOAD_PER_DEVICE: f64 = 32.0;
/// The longest accepted time from the last arrival to the last answer, as a share of the span, and the least such time.
const BEHIND_SHARE: f64 = 0.1;
const BEHIND_LEAST: Nanos = Nanos::from_ms(100);
/// Cancelled promotions cause a warning if they are at least this share of all attempts, and at least this many.
const GIVEN_UP: f64 = 0.2;
const GIVEN_UP_LEAST: u64 = 100;
/// The share of first accesses among misses that counts as most of them, and the least share of misses for a warning.
const MOSTLY: f64 = 0.5;
const SOME: f64 = 0.1;
/// The least ratio of the span to the intervals in it.
const TIMES: f64 = 10.0;
/// The least number of requests beyond a percentile.
const BEYOND: f64 = 10.0;
/// The share of the written bytes that may still be dirty in the host's page cache at the end.
const LEFT_DIRTY: f64 = 0.1;
/// Streams that go past the fast device decide the result if they are this share of the accesses.
const STREAMED: f64 = 0.3;
/// The least used share of a disk.
const FULL_DISK: f64 = 0.1;

/// The warnings about one run.
pub(crate) fn of(design: &Design, options: &Options, outcome: &Outcome, report: &Report) -> Vec<Warning> {
    let mut all = Vec::new();
    let run = Run { design, options, outcome, report };
    let remarks = outcome.account.remarks();
    all.extend(remarks.into_iter().map(|remark| warning(remark.code, remark.message, remark.remedy)));
    run.requests_left_out(&mut all);
    all.extend(run.overload());
    all.extend(run.given_up());
    run.cold(&mut all);
    run.short(&mut all);
    run.devices(&mut all);
    all.extend(run.pace());
    all.extend(run.durability());
    all.extend(run.held_back());
    all.extend(run.tails());
    all.extend(run.streams());
    all
}

struct Run<'a> {
    design: &'a Design,
    options: &'a Options,
    outcome: &'a Outcome,
    report: &'a Report,
}

impl Run<'_> {
    fn requests_left_out(&self, all: &mut Vec<Warning>) {
        let report = self.report;
        let size = Bytes(report.volume_bytes);
        let larger = format!(
            "make the volume at least as large as the span of the trace's addresses (peryton trace info); it has {size}"
        );
        for (code, count, what, remedy) in [
            (
                "wrapped",
                report.wrapped_requests,
                "lay past the end of the volume and were wrapped: they hit data of other requests",
                larger.as_str(),
            ),
            (
                "skipped",
                report.skipped_requests,
                "lay past the end of the volume and were skipped: the load is lighter than the trace",
                larger.as_str(),
            ),
            (
                "empty",
                report.empty_requests,
                "have no length and were left out: they are no work for a drive, so they count in no average",
                "look at what recorded the trace if they should have one",
            ),
            (
                "failed",
                report.failed_requests,
                "were answered with an error",
                "give the devices more room, or look at peryton events of a drive",
            ),
        ] {
            if count > 0 {
                let share = count as f64 / report.trace_requests.max(1) as f64;
                all.push(warning(code, format!("{count} requests ({}) {what}", percent(share)), remedy));
            }
        }
    }

    fn timed(&self) -> bool {
        matches!(self.options.replay, Replay::Timed { .. })
    }

    /// Whether the requests come at a pace of their own, and not as fast as the drive answers.
    fn paced(&self) -> bool {
        self.timed() || matches!(self.options.replay, Replay::Thinking { .. })
    }

    fn overload(&self) -> Option<Warning> {
        let outcome = self.outcome;
        let members: u32 = self.design.leaves().iter().map(|leaf| leaf.device.count * leaf.device.copies).sum();
        let mean = self.report.latency_us.all.as_ref()?;
        let waited_s = mean.mean / 1e6 * mean.count as f64;
        let in_flight = waited_s / outcome.span.as_s_f64();
        let allowed = (outcome.span.saturating_sub(outcome.behind).0 as f64 * BEHIND_SHARE) as u64;
        let behind = outcome.behind > BEHIND_LEAST.max(Nanos(allowed));
        let overloaded =
            in_flight > OVERLOAD_PER_DEVICE * f64::from(members) || outcome.deepest >= MOST_IN_FLIGHT || behind;
        (self.timed() && overloaded).then(|| {
            let message = format!(
                "requests come faster than they are answered ({} in flight on average{}; the last answer comes {} s \
                 after the last request), so response times depend on the length of the trace and not on the speed of the drive",
                figure(in_flight),
                // From there on they wait in the simulator, which does not count them.
                match outcome.deepest {
                    ..MOST_IN_FLIGHT => format!(", {} at most", outcome.deepest),
                    _ => String::new(),
                },
                figure(outcome.behind.as_s_f64()),
            );
            let remedy = "replay with --replay sync or qd=N to see what the drive can do, with --speed below 1 for a load \
                          that it can carry, or give it more or faster devices";
            warning("overload", message, remedy)
        })
    }

    /// Promotions that failed for a reason other than the value of the extent.
    fn given_up(&self) -> Option<Warning> {
        let moves = self.report.moves.as_ref()?;
        let by = &moves.cancelled_by;
        let given_up = by.move_limit + by.fast_full + by.metadata_flush;
        let share = given_up as f64 / (given_up + moves.promotions).max(1) as f64;
        if given_up < GIVEN_UP_LEAST || share < GIVEN_UP {
            return None;
        }
        let tuning = &self.design.tuning;
        let why = "that limit, and not the policies, decides which extents are on the fast device";
        let (code, message, remedy) = if by.move_limit >= by.fast_full.max(by.metadata_flush) {
            (
                "move_limit",
                format!(
                    "{} promotions were given up because max_moves ({}) were under way",
                    by.move_limit, tuning.max_moves
                ),
                format!("raise placement.max_moves (up to {})", peryton_engine::MOST_MOVES),
            )
        } else if by.fast_full >= by.metadata_flush {
            (
                "fast_full",
                format!(
                    "{} promotions were given up because no extent of the fast device was free at that moment",
                    by.fast_full
                ),
                format!(
                    "raise placement.demotion (low = {}, high = {}), which keeps extents free",
                    tuning.demotion_low, tuning.demotion_high
                ),
            )
        } else {
            (
                "metadata_flush",
                format!("{} promotions were given up because the map was being written out", by.metadata_flush),
                "use larger extents, or admit less (admission, promotion.threshold)".to_owned(),
            )
        };
        let message = format!("{message}, {} of those that were due: {why}", percent(share));
        Some(warning(code, message, remedy))
    }

    /// Warns about fast devices that were empty at the start, and fast devices that were never full.
    fn cold(&self, all: &mut Vec<Warning>) {
        let (Some(touched), Some(moves)) = (&self.outcome.touched, &self.report.moves) else { return };
        let Some(pair) = self.design.placement.hybrid() else { return };
        let fast = self.design.devices[pair.fast.index()].data;
        let caching = matches!(self.design.placement, Placement::Caching(_));
        let tiering = matches!(self.design.placement, Placement::Tiering(_));
        let warmed = self.options.warm_up_requests > 0 || (!self.options.new_volume && tiering);
        if moves.demotions == 0 && moves.cancelled_by.fast_full == 0 && touched.bytes() <= fast {
            let message = format!(
                "the trace touches {}, and the fast device has room for {fast}: no extent had to leave it, so the \
                 replacement policy had no effect and the hit ratio is that of a device that holds everything",
                touched.bytes()
            );
            let remedy = "give the fast device the share of the data that it will have in use, or take a longer trace";
            all.push(warning("never_full", message, remedy));
        }
        let misses = self.outcome.stats.fast_misses;
        let of_misses = (touched.first as f64 / misses.max(1) as f64).min(1.0);
        let longer =
            "measure after a warm-up (--warm-up-requests N, for instance half of the trace), or take a longer trace";
        if caching && misses > 0 && of_misses >= MOSTLY {
            let message = format!(
                "{} of the misses are the first access to their extent, which no policy can avoid: only the other misses differ between designs",
                percent(of_misses)
            );
            all.push(warning("first_touches", message, longer));
        }
        if !warmed && (of_misses >= SOME || !caching) && touched.first > 0 {
            let message = "the fast device began empty, and the figures include filling it: a design without a fast device has no \
                           such phase";
            let remedy = if tiering { "leave --new out, or measure after --warm-up-requests N" } else { longer };
            all.push(warning("cold_start", message.to_owned(), remedy));
        }
    }

    /// Warns about times in the design, and lifetimes, for which the trace is too short.
    fn short(&self, all: &mut Vec<Warning>) {
        let tuning = &self.design.tuning;
        let span = self.report.simulated_s;
        let mut times: Vec<(String, Nanos)> = Vec::new();
        let caching = matches!(self.design.placement, Placement::Caching(_));
        match &self.design.placement {
            Placement::Tiering(_) | Placement::Caching(_) if tuning.promotion_threshold > 0 => {
                times.push(("placement.promotion.window".into(), tuning.promotion_window));
            }
            Placement::Partitioned(_) => {
                times.extend(tuning.partition.bust_after.map(|after| ("partition.bust_after".to_owned(), after)));
            }
            Placement::Logging(_) => {
                times.extend(tuning.logging.triggers.timeout.map(|after| ("triggers.timeout".to_owned(), after)));
            }
            _ => {}
        }
        if caching && tuning.write == WritePolicy::Back {
            times.push(("placement.writeback.delay".into(), tuning.writeback_delay));
        }
        let rests = self.design.devices.iter().zip(&tuning.spin_down_after);
        times.extend(
            rests.filter_map(|(device, after)| Some((format!("power.{}.spin_down_after", device.name), (*after)?))),
        );
        times.retain(|(_, time)| span < TIMES * time.as_s_f64());
        if !times.is_empty() && self.paced() {
            let named: Vec<String> = times.iter().map(|(key, time)| format!("{key} ({time})")).collect();
            let message = format!(
                "the measured span is {} s, less than ten times {}: actions of the design after such a time hardly occur in it",
                figure(span),
                named.join(", ")
            );
            all.push(warning("short_trace", message, "take a longer trace, or make these times shorter in proportion"));
        }
        if let Some(years) = self.report.lifetime_years
            && span * TIMES < years * SECONDS_PER_YEAR
        {
            let goes_on = match self.design.duty {
                duty if duty < 1.0 => format!("for {} % of the time (load.duty)", figure(duty * 100.0)),
                _ => "day and night".to_owned(),
            };
            let message = format!(
                "a lifetime of {} years is computed from {} s of writing: it is right only if the load of this span goes on {goes_on}",
                figure(years),
                figure(span)
            );
            all.push(warning(
                "short_for_lifetime",
                message,
                "take a trace of days, or give --speed the ratio of mean to traced load",
            ));
        }
    }

    /// Warns about devices in a state with better figures than usual.
    fn devices(&self, all: &mut Vec<Warning>) {
        let mut rest = self.outcome.devices.iter().flatten();
        for NamedDevice { name, path, device } in self.design.leaves() {
            let members: Vec<&DeviceStats> = rest.by_ref().take((device.count * device.copies) as usize).collect();
            if device.is_too_large_to_be_in_use() {
                let message = format!(
                    "'{name}' has {} of flash, whose map in use would take too much memory: it began empty, so its writes are as fast as a new \
                     drive's, and its lifetime is an upper bound",
                    device.used
                );
                all.push(warning(
                    "large_flash",
                    message,
                    "simulate a sample (--sample 0.1), whose devices are smaller by as much",
                ));
            }
            if let Model::Flash(flash) = &device.profile.model
                && flash.precondition == Precondition::Fresh
                && (self.options.new_volume || !matches!(self.design.placement, Placement::Tiering(_)))
            {
                let programmed: u64 =
                    members.iter().filter_map(|stats| stats.nand_bytes_written).map(|bytes| bytes.0).sum();
                if programmed > 0 && programmed < device.used.0 {
                    let message = format!(
                        "'{name}' began empty and {} were programmed of the {} in use, too little for garbage collection: its \
                         write response times, wear and lifetime are those of a new drive",
                        Bytes(programmed),
                        device.used
                    );
                    let remedy = format!("begin with used flash: {path}.model.precondition = \"random\"");
                    all.push(warning("fresh_flash", message, remedy));
                }
            }
            if device.profile.class == Class::Hdd {
                let used = device.used.0 as f64 * f64::from(device.regions);
                // A disk may be modelled smaller than it is, so that few data lie on all of it.
                let (each, begin) = match &device.profile.model {
                    Model::Disk(disk) => (disk.tracks.as_ref().map(|tracks| tracks.capacity), disk.begin),
                    _ => (None, Bytes::ZERO),
                };
                let each = each.unwrap_or(device.profile.capacity).min(device.profile.capacity);
                let has = each.0 as f64 * f64::from(device.data_devices());
                if used < has * FULL_DISK {
                    let message = format!(
                        "the volume uses {} of the {} of '{name}', {} than on a full disk",
                        Bytes(used as u64),
                        Bytes(has as u64),
                        match begin {
                            Bytes::ZERO => "its outer tracks: seeks are shorter and transfers faster".to_owned(),
                            begin => format!("from {begin} on: seeks are shorter"),
                        }
                    );
                    let remedy = "make the volume as large as the data that the disk will hold";
                    all.push(warning("outer_tracks", message, remedy));
                }
            }
        }
    }

    /// Warns that a closed loop runs at the speed of the drive.
    fn pace(&self) -> Option<Warning> {
        let rates = self.report.lifetime_years.is_some() || self.report.mean_power_w.is_some();
        (!self.paced() && rates).then(|| {
            let message = format!(
                "--replay {} sends requests as fast as they are answered: power, energy and lifetimes are those at that rate, at \
                 which a faster design wears sooner",
                self.options.replay
            );
            warning("unpaced", message, "compare power, energy and lifetimes with --replay timed")
        })
    }

    /// Warns about reduced guarantees of a flush with this design.
    fn durability(&self) -> Option<Warning> {
        let latency = &self.report.latency_us;
        let writes = latency.write.as_ref().map_or(0, |writes| writes.count);
        (writes > 0 && latency.flush.is_none()).then(|| {
            let message =
                "the trace has no flushes: writes are answered from volatile caches, and the report does not show when \
                           they become durable"
                    .to_owned();
            warning(
                "no_flushes",
                message,
                "record flushes as well (blktrace, ftrace), and do not rely on write response times without them",
            )
        })
    }

    /// Warns about writes that the host's page cache still holds back.
    fn held_back(&self) -> Option<Warning> {
        let cache = self.report.page_cache.as_ref()?;
        let share = cache.left_dirty_bytes as f64 / cache.write_bytes.max(1) as f64;
        (share >= LEFT_DIRTY).then(|| {
            let message = format!(
                "{} ({} of what was written) are still dirty in the page cache: the drive was not sent them, and its work, wear and \
                 energy are too small by as much",
                Bytes(cache.left_dirty_bytes),
                percent(share)
            );
            warning("left_dirty", message, "take a longer trace, or one that ends with a flush")
        })
    }

    /// Warns about bulk reads and writes that go past the fast device, where they decide the result.
    fn streams(&self) -> Option<Warning> {
        let stats = &self.outcome.stats;
        let length = self.design.tuning.bypass.sequential.filter(|_| self.design.placement.promotes())?;
        let share = stats.bypasses.sequential as f64 / (stats.fast_hits + stats.fast_misses).max(1) as f64;
        (share >= STREAMED).then(|| {
            let message = format!(
                "{} of the accesses are sequential streams of more than {length}, which go past the fast device and wait for the slow one",
                percent(share)
            );
            let remedy = "if bulk copies are to land on flash, placement.bypass.sequential = \"never\" (--set), and look at its wear";
            warning("streams_bypass", message, remedy)
        })
    }

    /// Warns about percentiles of few requests.
    fn tails(&self) -> Option<Warning> {
        let latency = &self.report.latency_us;
        let kinds = [("reads", &latency.read), ("writes", &latency.write), ("flushes", &latency.flush)];
        let few = |summary: &LatencySummary| (summary.count as f64) < BEYOND / 0.01;
        let few: Vec<String> = kinds
            .iter()
            .filter_map(|(name, summary)| Some((name, summary.as_ref().filter(|summary| few(summary))?)))
            .map(|(name, summary)| format!("{} {name}", summary.count))
            .collect();
        (!few.is_empty()).then(|| {
            let message = format!("there were {}: fewer than {BEYOND} of them determine the p99", few.join(" and "));
            warning("few_requests", message, "compare means and medians, or take a longer trace")
        })
    }
}

/// Warnings from the comparison of several runs of one trace.
pub(crate) fn compare(reports: &mut [Report]) {
    let figures: Vec<Value> = reports.iter().map(figures).collect();
    for index in 1..reports.len() {
        let (before, rest) = reports.split_at_mut(index);
        let report = &mut rest[0];
        let equal = before.iter().zip(&figures).find(|(_, other)| alike(other, &figures[index]));
        let Some((equal, _)) = equal else { continue };
        let has = |code: &str| report.warnings.iter().any(|warning| warning.code == code);
        let idle = report.moves.as_ref().is_some_and(|moves| moves.promotions + moves.demotions == 0);
        let remedy = if equal.design_toml == report.design_toml {
            "the files have the same settings: compare others".to_owned()
        } else if has("move_limit") || has("fast_full") {
            "the limit on promotions decides (see above): remove that first".to_owned()
        } else if has("never_full") {
            "make the fast device smaller, so that extents have to leave it".to_owned()
        } else if idle {
            "nothing was moved: lower placement.promotion.threshold, or take a longer trace".to_owned()
        } else {
            "check whether the differences between the files can matter for this trace".to_owned()
        };
        let message = format!(
            "every figure is the same as for '{}': the differences between the two had no effect",
            equal.design
        );
        report.warnings.push(warning("equal_results", message, remedy));
    }
}

/// What is compared of a report.
fn figures(report: &Report) -> Value {
    serde_json::to_value((&report.latency_us, &report.moves, &report.devices, report.fast_hit_ratio))
        .unwrap_or_default()
}

/// Figures that agree in this share of them print the same digits.
const ALIKE: f64 = 1e-6;

/// Whether two results have the same figures, but for digits that no table prints: energies are sums in another order.
fn alike(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| alike(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().zip(b).all(|((key, a), (other, b))| key == other && alike(a, b))
        }
        (Value::Number(one), Value::Number(other)) if one.is_f64() || other.is_f64() => {
            match (one.as_f64(), other.as_f64()) {
                (Some(one), Some(other)) => (one - other).abs() <= ALIKE * one.abs().max(other.abs()),
                _ => one == other,
            }
        }
        _ => a == b,
    }
}

/// A warning, and the designs to which it applies.
#[derive(Clone, Debug, PartialEq)]
pub struct Warned<'a> {
    /// Their names, in the order of the reports.
    pub designs: Vec<&'a str>,
    /// The warning of the first of these designs; the warnings of the others differ at most in their figures.
    pub warning: &'a Warning,
    /// Whether the others have different figures.
    pub differs: bool,
}

/// The warnings of reports that are shown together, each kind once.
///
/// ```
/// use peryton_sim::{Design, Options, run_one, warned};
/// use peryton_trace::{OpenOptions, open};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let design = "[devices.only]\nprofile = 'fixed'\nsize = '8GiB'\n[placement]\nmode = 'single'\n";
/// let design = Design::parse(design, "my design", &[])?;
/// let trace = open("../../examples/traces/sqlite-ext4.parquet", &OpenOptions::default())?;
/// let report = run_one(&design, "sqlite", Box::new(trace), &Options::default(), &|_requests| {})?;
/// for warned in warned(&[report]) {
///     println!("{} {warned}", warned.warning.code);
/// }
/// # Ok(())
/// # }
/// ```
pub fn warned(reports: &[Report]) -> Vec<Warned<'_>> {
    let mut all: Vec<Warned<'_>> = Vec::new();
    for report in reports {
        for warning in &report.warnings {
            // Every design has its own figures in it.
            let apart = |known: &Warned<'_>| warning.code == SAMPLED && known.warning != warning;
            match all.iter_mut().find(|known| known.warning.code == warning.code && !apart(known)) {
                Some(known) => {
                    known.differs |= known.warning != warning;
                    if known.designs.last() != Some(&report.design.as_str()) {
                        known.designs.push(&report.design);
                    }
                }
                None => all.push(Warned { designs: vec![&report.design], warning, differs: false }),
            }
        }
    }
    all
}

impl fmt::Display for Warned<'_> {
    /// The warning in one line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Warning { message, remedy, .. } = self.warning;
        match &self.designs[..] {
            [first, others @ ..] if self.differs && !others.is_empty() => {
                write!(f, "{first}: {message} (similarly for {}). Remedy: {remedy}", named(others))
            }
            designs => write!(f, "{}: {message}. Remedy: {remedy}", named(designs)),
        }
    }
}

/// The most designs that a warning names; the reports have it for each.
const MAX_NAMED: usize = 8;

fn named(designs: &[&str]) -> String {
    match designs.split_at_checked(MAX_NAMED) {
        Some((first, others @ [_, ..])) => format!("{} and {} others", first.join(", "), others.len()),
        _ => designs.join(", "),
    }
}

pub(crate) fn percent(share: f64) -> String {
    format!("{} %", figure(share * 100.0))
}

/// Three significant digits.
fn figure(value: f64) -> String {
    let size = value.abs();
    if size == 0.0 || size >= 99.95 {
        format!("{value:.0}")
    } else {
        let digits = (2 - size.log10().floor() as i32).clamp(0, 6) as usize;
        let text = format!("{value:.digits$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }
}
