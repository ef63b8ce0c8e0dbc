//! From the figures of a volume to the text that a scraper reads.

use std::{
    borrow::Cow,
    fmt::{self, Write as _},
    sync::Arc,
    time::UNIX_EPOCH,
};

use peryton_engine::{CleaningState, DeviceTraffic, PlacementKind, Stats, endurance::Endurance};
use peryton_units::{Bytes, Nanos};
use prometheus_client::{
    collector::Collector,
    encoding::{
        CounterValueEncoder, DescriptorEncoder, EncodeCounterValue, EncodeLabel, EncodeLabelSet, LabelSetEncoder,
        MetricEncoder, NoLabelSet, text,
    },
    metrics::MetricType,
    registry::{self, Registry},
};

use super::{
    described::Described,
    families::{self as all, Family, Type, Unit},
    machine::{Machine, POWER_STATES},
};
use crate::{
    endurance::{DeviceEndurance, DeviceWear},
    figures::{DeviceSnapshot, DeviceState, Snapshot, VolumeState, cleaning_name},
    status::{Asked, BOUNDS_NS},
};

/// Longer values of labels are cut: the name of a volume, which is in each line, may have up to 4 KiB.
const LONGEST_LABEL: usize = 128;
/// The causes of commands, in the order of the engine's counts.
const CAUSES: [&str; 5] = ["host", "promotion", "demotion", "writeback", "metadata"];
const CLEANING: [CleaningState; 7] = [
    CleaningState::Resting,
    CleaningState::Idle,
    CleaningState::Aging,
    CleaningState::Filling,
    CleaningState::Overdue,
    CleaningState::Full,
    CleaningState::Asked,
];

/// What one scrape shows.
#[derive(Clone, Debug)]
pub(super) struct Figures {
    pub(super) described: Arc<Described>,
    pub(super) snapshot: Snapshot,
    pub(super) machine: Machine,
    /// Refused scrapes by their reason.
    pub(super) refused: Vec<(&'static str, u64)>,
}

impl Figures {
    /// The text of a scrape in OpenMetrics.
    pub(super) fn text(self) -> String {
        let volume = (Cow::Borrowed("volume"), Cow::Owned(shortened(&self.described.name).to_owned()));
        let mut registry = Registry::with_labels([volume].into_iter());
        registry.register_collector(Box::new(self));
        let mut page = String::with_capacity(32 << 10);
        text::encode(&mut page, &registry).expect("a text in memory can be written");
        page
    }
}

/// As much of a text as the value of a label shows.
fn shortened(value: &str) -> &str {
    value.char_indices().nth(LONGEST_LABEL).map_or(value, |(end, _)| &value[..end])
}

/// The labels of a sample: the family's, with these values.
pub(super) struct Labels<'a>(pub(super) &'a Family, pub(super) &'a [&'a str]);

impl EncodeLabelSet for Labels<'_> {
    fn encode(&self, encoder: &mut LabelSetEncoder<'_>) -> fmt::Result {
        debug_assert_eq!(self.0.labels.len(), self.1.len(), "{}", self.0.base);
        for (label, value) in self.0.labels.iter().zip(self.1) {
            EncodeLabel::encode(&(*label, shortened(value)), encoder.encode_label())?;
        }
        Ok(())
    }
}

/// A count, or a sum of times or energies.
pub(super) enum Count {
    Whole(u64),
    Real(f64),
}

impl EncodeCounterValue for Count {
    fn encode(&self, encoder: &mut CounterValueEncoder<'_>) -> fmt::Result {
        match self {
            Count::Whole(count) => EncodeCounterValue::encode(count, encoder),
            Count::Real(sum) => EncodeCounterValue::encode(sum, encoder),
        }
    }
}

impl From<u64> for Count {
    fn from(count: u64) -> Count {
        Count::Whole(count)
    }
}

impl From<Bytes> for Count {
    fn from(bytes: Bytes) -> Count {
        Count::Whole(bytes.0)
    }
}

/// The values of a gauge: 53 bits are exact.
fn gauge_of(bytes: Bytes) -> f64 {
    bytes.0 as f64
}

pub(super) fn one_if(holds: bool) -> f64 {
    if holds { 1.0 } else { 0.0 }
}

/// Writes families. One of which no sample applies is left out as a whole.
pub(super) struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    /// Writes the lines that describe a family.
    pub(super) fn begin(&mut self, family: &'static Family) -> Result<MetricEncoder<'_>, fmt::Error> {
        const SECONDS: registry::Unit = registry::Unit::Seconds;
        const BYTES: registry::Unit = registry::Unit::Bytes;
        static RATE: std::sync::LazyLock<registry::Unit> =
            std::sync::LazyLock::new(|| registry::Unit::Other(Unit::BytesPerSecond.name().to_owned()));
        // The library's own name is a plural, against the conventions.
        static RATIO: std::sync::LazyLock<registry::Unit> =
            std::sync::LazyLock::new(|| registry::Unit::Other(Unit::Ratio.name().to_owned()));
        let unit: Option<&'static registry::Unit> = match family.unit {
            Unit::None => None,
            Unit::Seconds => Some(&SECONDS),
            Unit::Bytes => Some(&BYTES),
            Unit::BytesPerSecond => Some(&*RATE),
            Unit::Ratio => Some(&*RATIO),
            Unit::Celsius => Some(&registry::Unit::Celsius),
            Unit::Joules => Some(&registry::Unit::Joules),
        };
        let kind = match family.kind {
            Type::Counter => MetricType::Counter,
            Type::Gauge => MetricType::Gauge,
            Type::Histogram => MetricType::Histogram,
            Type::Info => MetricType::Info,
        };
        self.0.encode_descriptor(family.base, family.help, unit, kind)
    }

    pub(super) fn gauges<'v>(
        &mut self,
        family: &'static Family,
        samples: impl IntoIterator<Item = (Vec<&'v str>, f64)>,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.begin(family)?;
        samples.try_for_each(|(labels, value)| metric.encode_family(&Labels(family, &labels))?.encode_gauge(&value))
    }

    fn gauge(&mut self, family: &'static Family, value: impl Into<Option<f64>>) -> fmt::Result {
        self.gauges(family, value.into().map(|value| (vec![], value)))
    }

    pub(super) fn counters<'v, C: Into<Count>>(
        &mut self,
        family: &'static Family,
        samples: impl IntoIterator<Item = (Vec<&'v str>, C)>,
    ) -> fmt::Result {
        let mut samples = samples.into_iter().peekable();
        if samples.peek().is_none() {
            return Ok(());
        }
        let mut metric = self.begin(family)?;
        samples.try_for_each(|(labels, value)| {
            let labels = Labels(family, &labels);
            metric.encode_family(&labels)?.encode_counter::<NoLabelSet, Count, u64>(&value.into(), None)
        })
    }

    fn counter(&mut self, family: &'static Family, value: impl Into<Count>) -> fmt::Result {
        self.counters(family, [(vec![], value)])
    }
}

impl Collector for Figures {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        self.volume(&mut page)?;
        self.requests(&mut page)?;
        self.cache(&mut page)?;
        self.logging(&mut page)?;
        self.devices(&mut page)?;
        self.endurance(&mut page)?;
        self.outages(&mut page)?;
        self.traffic_of_devices(&mut page)?;
        self.rests(&mut page)?;
        super::drives::encode(&mut page, &self.described)?;
        self.server(&mut page)
    }
}

impl Figures {
    fn volume(&self, page: &mut Page<'_>) -> fmt::Result {
        let (about, now) = (&*self.described, &self.snapshot);
        let id = format!("{:032x}", about.id);
        let values = [id.as_str(), about.placement.name(), about.version];
        page.begin(&all::VOLUME)?.encode_info(&Labels(&all::VOLUME, &values))?;
        page.gauges(&all::STATE, VolumeState::ALL.map(|state| (vec![state.name()], one_if(state == now.state))))?;
        page.gauge(&all::IN_DOUBT, one_if(now.is_in_doubt))?;
        page.gauge(&all::UNPROTECTED, one_if(now.is_unprotected))?;
        page.gauge(&all::SIZE, gauge_of(now.size))?;
        page.counter(&all::OPENINGS, now.openings)?;
        page.gauge(&all::LOST_EXTENTS, about.has_extents().then_some(f64::from(now.lost_extents)))
    }

    fn requests(&self, page: &mut Page<'_>) -> fmt::Result {
        let now = &self.snapshot;
        let kinds = || Asked::ALL.into_iter().zip(&now.requests);
        let mut metric = page.begin(&all::REQUEST_DURATION)?;
        for (kind, counts) in kinds() {
            let bounds = BOUNDS_NS.iter().map(|bound| *bound as f64 / 1e9).chain([f64::INFINITY]);
            let buckets: Vec<(f64, u64)> = bounds.zip(counts.buckets).collect();
            let labels = [kind.name()];
            let labels = Labels(&all::REQUEST_DURATION, &labels);
            let sum = counts.took_ns as f64 / 1e9;
            metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, counts.requests(), &buckets, None)?;
        }
        page.counters(&all::REQUEST_FAILURES, kinds().map(|(kind, counts)| (vec![kind.name()], counts.failed)))?;
        let with_data = kinds().filter(|(kind, _)| matches!(kind, Asked::Read | Asked::Write | Asked::Discard));
        page.counters(&all::REQUEST_BYTES, with_data.map(|(kind, counts)| (vec![kind.name()], counts.bytes)))?;
        page.gauge(&all::REQUESTS_IN_FLIGHT, now.requests_in_flight as f64)?;
        page.gauge(&all::DEVICE_COMMANDS, f64::from(now.device_commands_in_flight))?;
        page.gauge(&all::CLIENTS, now.clients as f64)?;
        page.counter(&all::CONNECTIONS, now.clients_served)?;
        page.gauge(&all::POOL_SIZE, gauge_of(now.pool))?;
        page.gauge(&all::POOL_FREE, gauge_of(now.pool_free))?;
        page.gauge(&all::POOL_WAITING, now.clients_waiting as f64)?;
        page.gauge(&all::BLOCK_DEVICE, now.block_device_is_live.map(one_if))
    }

    fn cache(&self, page: &mut Page<'_>) -> fmt::Result {
        let (about, stats) = (&*self.described, &self.snapshot.stats);
        if about.has_fast_and_slow() {
            page.counter(&all::HITS, stats.fast_hits)?;
            page.counter(&all::MISSES, stats.fast_misses)?;
        }
        let past = &stats.bypasses;
        let reasons = [
            ("sequential", past.sequential),
            ("congested", past.congested),
            ("not_admitted", stats.bypassed),
            ("dirty_target", past.dirty_target),
        ];
        let reasons = match about.placement {
            PlacementKind::Caching => &reasons[..],
            // It admits everything, and has nothing that is newer than an origin.
            PlacementKind::Tiering => &reasons[..2],
            _ => &[],
        };
        page.counters(&all::BYPASSED, reasons.iter().map(|(reason, count)| (vec![*reason], *count)))?;
        if let Some(adaptive) = &self.snapshot.adaptive {
            let seconds = |us: Option<f64>| us.map(|us| us / 1e6);
            page.gauge(&all::ADMISSION_THRESHOLD, adaptive.threshold)?;
            page.gauge(&all::ADMISSION_SCORE, adaptive.score)?;
            page.gauge(&all::ADMISSION_LATENCY, seconds(adaptive.measured_latency_us))?;
            page.gauge(&all::ADMISSION_TARGET, seconds(adaptive.target_latency_us))?;
            page.gauge(&all::ADMISSION_HOLDS, adaptive.target_holds.map(one_if))?;
        }
        if about.placement == PlacementKind::Caching {
            page.counter(&all::HELD_WRITES, stats.held_writes)?;
        }
        self.cleaning(page)?;
        if about.has_extents() {
            moves(page, stats)?;
        }
        if about.has_extents() || stats.logging.is_some() {
            page.counter(&all::COMMITS, stats.commits)?;
            page.counter(&all::MAP_UPDATES, stats.map_updates)?;
            let indexes = stats.logging.as_ref().map_or(0, |log| log.checkpoints);
            page.counter(&all::CHECKPOINTS, stats.checkpoints + indexes)?;
        }
        Ok(())
    }

    fn cleaning(&self, page: &mut Page<'_>) -> fmt::Result {
        let Some(cleaning) = &self.snapshot.cleaning else { return Ok(()) };
        let ages = self.described.placement == PlacementKind::Caching;
        page.gauge(&all::DIRTY, gauge_of(cleaning.dirty))?;
        page.gauge(&all::DIRTY_LIMIT, cleaning.most_dirty.map(gauge_of))?;
        page.gauge(&all::DIRTY_AGE, cleaning.oldest.map(Nanos::as_s_f64))?;
        page.gauge(&all::DIRTY_MAX_AGE, self.snapshot.dirty_max_age.filter(|_| ages).map(Nanos::as_s_f64))?;
        page.gauge(&all::CLEANING_RATE, cleaning.bytes_per_s.map(|rate| rate as f64))?;
        page.gauge(&all::CLEAN_IN, cleaning.clean_in.map(Nanos::as_s_f64))?;
        let states = CLEANING.map(|state| (vec![cleaning_name(state)], one_if(state == cleaning.state)));
        page.gauges(&all::CLEANING_STATE, states)?;
        page.gauge(&all::THROTTLED, one_if(cleaning.throttles))
    }

    fn logging(&self, page: &mut Page<'_>) -> fmt::Result {
        let Some(log) = &self.snapshot.stats.logging else { return Ok(()) };
        page.counter(&all::LOG_APPENDED, log.bytes_appended)?;
        page.counter(&all::LOG_DIRECT, log.bytes_direct)?;
        let past = log.direct_by.told().map(|(reason, count, _)| (vec![reason], count));
        page.counters(&all::LOG_PAST, past)?;
        page.counter(&all::LOG_MIGRATED, log.bytes_migrated)?;
        let triggers = &log.migrations;
        let triggers = [
            ("timeout", triggers.timeout),
            ("read_share", triggers.read_share),
            ("size", triggers.size),
            ("log_used", triggers.log_used),
            ("hint", triggers.hint),
        ];
        page.counters(&all::LOG_MIGRATIONS, triggers.map(|(trigger, count)| (vec![trigger], count)))?;
        let from = [("log", log.reads_from_log), ("primary", log.reads.saturating_sub(log.reads_from_log))];
        page.counters(&all::LOG_READS, from.map(|(from, count)| (vec![from], count)))?;
        page.counter(&all::LOG_DAMAGED, log.damaged_bytes)?;
        page.gauge(&all::LOG_AGE, self.snapshot.log_age.map(Nanos::as_s_f64))
    }

    /// A row for each device: its name, and an index.
    fn each(&self) -> impl Iterator<Item = (&str, usize)> {
        self.described.devices.iter().enumerate().map(|(index, name)| (name.as_str(), index))
    }

    /// A sample for each device that has this figure.
    fn of_devices<'a, T>(
        &'a self,
        of: impl Fn(&'a DeviceSnapshot) -> Option<T>,
    ) -> impl Iterator<Item = (Vec<&'a str>, T)> {
        self.each().filter_map(move |(name, index)| Some((vec![name], of(&self.snapshot.devices[index])?)))
    }

    fn devices(&self, page: &mut Page<'_>) -> fmt::Result {
        let now = &self.snapshot.devices;
        let states = self.each().flat_map(|(name, index)| {
            DeviceState::ALL.map(|state| (vec![name, state.name()], one_if(state == now[index].state)))
        });
        page.gauges(&all::DEVICE_STATE, states)?;
        page.gauges(&all::DEVICE_SIZE, self.of_devices(|now| now.size.map(gauge_of)))?;
        page.gauges(&all::DEVICE_USED, self.of_devices(|now| Some(gauge_of(now.used))))?;
        let rated = self.of_devices(|now| match now.bears? {
            Endurance::Flash { written, .. } => Some(gauge_of(written)),
            Endurance::Disk { .. } => None,
        });
        page.gauges(&all::DEVICE_RATED, rated)?;
        let fast = self.each().filter(|(_, index)| self.described.fast == Some(*index));
        let budget = fast.filter_map(|(name, _)| Some((vec![name], self.snapshot.wear_budget_bytes_per_s?)));
        page.gauges(&all::DEVICE_BUDGET, budget)?;
        let power = self.each().flat_map(|(name, index)| {
            let is = self.machine.power.get(index).copied().flatten();
            let all = is.map(|is| POWER_STATES.map(|state| (vec![name, state], one_if(state == is))));
            all.into_iter().flatten()
        });
        page.gauges(&all::DEVICE_POWER, power)?;
        page.counters(&all::DEVICE_ERRORS, self.of_devices(|now| Some(now.errors)))?;
        page.counters(&all::DEVICE_RETRIES, self.of_devices(|now| Some(now.retries)))?;
        page.counters(&all::DEVICE_FAILED_FLUSHES, self.of_devices(|now| Some(now.failed_flushes)))
    }

    fn endurance(&self, page: &mut Page<'_>) -> fmt::Result {
        let all: Vec<(&str, DeviceEndurance)> =
            self.each().filter_map(|(name, index)| Some((name, self.snapshot.devices[index].endurance()?))).collect();
        let gauge = |of: fn(&DeviceEndurance) -> Option<f64>| {
            all.iter().filter_map(move |(name, endurance)| Some((vec![*name], of(endurance)?)))
        };
        page.gauges(&all::DEVICE_EU_LEFT, gauge(|of| of.left_eu))?;
        page.gauges(&all::DEVICE_EU_MARK, gauge(|of| of.since_mark.used_eu))?;
        page.gauges(&all::DEVICE_START_STOPS, gauge(|of| Some(of.counted.start_stops as f64)))?;
        let pages = all.iter().flat_map(|(name, of)| {
            let DeviceWear { pages_read, pages_written, .. } = of.counted;
            [(vec![*name, "read"], pages_read as f64), (vec![*name, "write"], pages_written as f64)]
        });
        page.gauges(&all::DEVICE_PAGES, pages)
    }

    fn outages(&self, page: &mut Page<'_>) -> fmt::Result {
        page.counters(&all::DEVICE_OUTAGES, self.of_devices(|now| Some(now.outages)))?;
        page.gauges(&all::DEVICE_OUTAGE, self.of_devices(|now| Some(now.outage?.lasts.as_s_f64())))?;
        page.gauges(&all::DEVICE_PATIENCE, self.of_devices(|now| Some(now.outage?.patience_left.as_s_f64())))?;
        page.gauges(&all::DEVICE_WAITING, self.of_devices(|now| Some(now.outage?.commands_waiting as f64)))
    }

    fn traffic_of_devices(&self, page: &mut Page<'_>) -> fmt::Result {
        let rows = &self.snapshot.stats.devices;
        let by_cause = |count: fn(&DeviceTraffic) -> &[u64; 5]| {
            self.each().flat_map(move |(name, index)| {
                CAUSES.into_iter().zip(count(&rows[index])).map(move |(cause, count)| (vec![name, cause], *count))
            })
        };
        page.counters(&all::DEVICE_READS, by_cause(|row| &row.reads))?;
        page.counters(&all::DEVICE_WRITES, by_cause(|row| &row.writes))?;
        page.counters(&all::DEVICE_READ_BYTES, by_cause(|row| &row.bytes_read))?;
        page.counters(&all::DEVICE_WRITTEN_BYTES, by_cause(|row| &row.bytes_written))?;
        page.counters(&all::DEVICE_FLUSHES, self.each().map(|(name, index)| (vec![name], rows[index].flushes)))?;
        page.counters(&all::DEVICE_DISCARDS, self.each().map(|(name, index)| (vec![name], rows[index].discards)))
    }

    fn rests(&self, page: &mut Page<'_>) -> fmt::Result {
        page.counters(&all::DEVICE_STANDBYS, self.of_devices(|now| Some(now.rest_cycles)))?;
        page.counters(&all::DEVICE_STANDBY_TIME, self.of_devices(|now| Some(Count::Real(now.rest.as_s_f64()))))?;
        page.gauges(&all::DEVICE_STANDS_BY, self.of_devices(|now| Some(one_if(now.is_resting))))
    }

    fn server(&self, page: &mut Page<'_>) -> fmt::Result {
        let about = &*self.described;
        let dropped = about.log.as_ref().map(|log| (vec![], log.dropped()));
        page.counters(&all::LOG_LINES_DROPPED, dropped)?;
        page.counter(&all::LOG_LINES_HELD, self.snapshot.log_lines_held_back)?;
        page.counters(&all::SCRAPES_REFUSED, self.refused.iter().map(|(reason, count)| (vec![*reason], *count)))?;
        let since_1970 = about.started.duration_since(UNIX_EPOCH).ok();
        page.gauge(&all::PROCESS_START, since_1970.map(|time| time.as_secs_f64()))?;
        page.counters(&all::PROCESS_CPU, self.machine.cpu_s.map(|used| (vec![], Count::Real(used))))?;
        page.gauge(&all::PROCESS_MEMORY, self.machine.resident_bytes.map(|bytes| bytes as f64))
    }
}

fn moves(page: &mut Page<'_>, stats: &Stats) -> fmt::Result {
    let moves = &stats.moves;
    let kinds = [("promotion", moves.promotions), ("demotion", moves.demotions), ("writeback", moves.writebacks)];
    page.counters(&all::MOVES, kinds.map(|(kind, count)| (vec![kind], count)))?;
    let why = &moves.cancelled;
    let reasons = [
        ("fast_full", why.fast_full),
        ("slow_full", why.slow_full),
        ("metadata_flush", why.metadata_flush),
        ("move_limit", why.move_limit),
        ("in_use", why.in_use),
        ("accessed", why.accessed),
        ("device_error", why.device_error),
    ];
    page.counters(&all::MOVES_CANCELLED, reasons.map(|(reason, count)| (vec![reason], count)))?;
    page.counter(&all::MOVE_BYTES, moves.bytes)
}

/// The same page in the older text format, in which the description of a counter has the name of its samples.
pub(super) fn plain(openmetrics: &str) -> String {
    let mut page = String::with_capacity(openmetrics.len());
    let mut family = None;
    for line in openmetrics.lines() {
        let mut words = line.splitn(4, ' ');
        let (hash, word, name, rest) = (words.next(), words.next(), words.next(), words.next());
        match (hash, word, name, rest) {
            (Some("#"), Some("HELP"), Some(name), Some(help)) => family = Some((name, help)),
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    _ => ("", kind),
                };
                let help = family.filter(|(helped, _)| *helped == name).map_or("", |(_, help)| help);
                let described = writeln!(page, "# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}");
                described.expect("a text in memory can be written");
            }
            // The unit, which that format does not have, and the end.
            (Some("#"), ..) => {}
            _ => {
                page.push_str(line);
                page.push('\n');
            }
        }
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fear: the library ends a name otherwise than the list of metrics, by which dashboards and alerts are checked.
    #[test]
    fn names_end_with_the_units_of_the_list() {
        #[derive(Debug)]
        struct All;
        impl Collector for All {
            fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
                let mut page = Page(encoder);
                all::FAMILIES.iter().filter(|family| family.kind == Type::Gauge).try_for_each(|family| {
                    let labels = vec!["x"; family.labels.len()];
                    page.gauges(family, [(labels, 1.0)])
                })
            }
        }
        let mut registry = Registry::default();
        registry.register_collector(Box::new(All));
        let mut text = String::new();
        text::encode(&mut text, &registry).unwrap();
        for family in all::FAMILIES.iter().filter(|family| family.kind == Type::Gauge) {
            let (name, known) =
                (family.name(), text.lines().any(|line| line.starts_with(&format!("# TYPE {} ", family.name()))));
            assert!(known, "{name} is not in {text}");
        }
    }
}
