//! The last hour of a volume: a row for each second, made of two copies of its counts.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use peryton_engine::{DeviceTraffic, Stats};
use peryton_units::Nanos;

use super::{
    distribution::{Minute, ever, quantiles},
    heat_map::HeatMaps,
    report::{LiveCacheRow, LiveDeviceRow, LiveDistribution, LiveLogRow, LiveMap, LiveRow},
};
use crate::{
    figures::{Sample, Snapshot},
    heat::Heat,
    metrics::Described,
    status::Asked,
};

/// The most rows that are kept: an hour, in about 2 MiB.
pub(super) const MOST_ROWS: usize = 3600;
/// The most rows of an answer, which has some 200 KiB then.
pub(super) const MOST_ROWS_AT_ONCE: usize = 600;

/// The growth of a count. If the count has begun again, because the volume was opened again, this is its present value.
fn more(before: u64, after: u64) -> u64 {
    after.checked_sub(before).unwrap_or(after)
}

pub(super) fn ms(time: Nanos) -> u64 {
    time.0 / 1_000_000
}

/// A sample, and when it was taken.
#[derive(Debug)]
pub(super) struct Taken {
    pub(super) at: Instant,
    pub(super) sample: Sample,
}

/// The rows of the last hour, and what is drawn besides.
#[derive(Debug, Default)]
pub(super) struct Ring {
    rows: VecDeque<LiveRow>,
    last: Option<Taken>,
    minute: Minute,
    maps: Option<HeatMaps>,
}

impl Ring {
    /// Adds a sample. A row is between two.
    pub(super) fn push(&mut self, described: &Described, at: Instant, unix_ms: u64, sample: Sample) {
        let counts = Arc::clone(&sample.activity.latencies);
        let maps = self.maps.get_or_insert_with(|| HeatMaps::new(&sample.activity.heat));
        if let Some(before) = &self.last {
            let number = self.rows.back().map_or(1, |row| row.number + 1);
            let span_ms = (at - before.at).as_millis() as u64;
            let mut row = row(described, &before.sample, &sample);
            (row.number, row.end_unix_ms, row.span_ms) = (number, unix_ms, span_ms);
            row.read_ns = quantiles(&before.sample.activity.latencies, &counts, Asked::Read);
            row.write_ns = quantiles(&before.sample.activity.latencies, &counts, Asked::Write);
            row.flush_ns = quantiles(&before.sample.activity.latencies, &counts, Asked::Flush);
            let (old, new): (&Heat, &Heat) = (&before.sample.activity.heat, &sample.activity.heat);
            maps.add(number, unix_ms.saturating_sub(span_ms), old, new);
            if self.rows.len() == MOST_ROWS {
                self.rows.pop_front();
            }
            self.rows.push_back(row);
        }
        self.minute.push(at, &counts);
        self.last = Some(Taken { at, sample });
    }

    /// The last sample.
    pub(super) fn last(&self) -> Option<&Taken> {
        self.last.as_ref()
    }

    /// The number of the newest row; 0 without one.
    pub(super) fn last_row(&self) -> u64 {
        self.rows.back().map_or(0, |row| row.number)
    }

    /// The rows after this one, as many as an answer may have.
    pub(super) fn since(&self, row: u64) -> Vec<LiveRow> {
        // Numbers grow by one.
        let first = self.rows.front().map_or(1, |first| first.number);
        let skip = row.saturating_add(1).saturating_sub(first) as usize;
        self.rows.iter().skip(skip).take(MOST_ROWS_AT_ONCE).cloned().collect()
    }

    pub(super) fn maps_since(&self, row: u64) -> Vec<LiveMap> {
        self.maps.as_ref().map_or_else(Vec::new, |maps| maps.since(row))
    }

    /// The distributions of the last minute, and since the volume was opened.
    pub(super) fn distributions(&self) -> Vec<LiveDistribution> {
        let Some(last) = &self.last else { return Vec::new() };
        let (up, counts) = (Duration::from_nanos(last.sample.uptime.0), &last.sample.activity.latencies);
        vec![self.minute.last(last.at, counts), ever(up, counts)]
    }
}

fn row(described: &Described, before: &Sample, after: &Sample) -> LiveRow {
    let (old, new) = (&before.snapshot, &after.snapshot);
    let requests = |asked: Asked| {
        let index = asked as usize;
        more(old.requests[index].requests(), new.requests[index].requests())
    };
    let bytes = |asked: Asked| more(old.requests[asked as usize].bytes, new.requests[asked as usize].bytes);
    let failed = |sample: &Sample| sample.snapshot.requests.iter().map(|counts| counts.failed).sum();
    let device = |(old, new): (&DeviceTraffic, &DeviceTraffic)| {
        let sum = |of: fn(&DeviceTraffic) -> &[u64; 5]| more(of(old).iter().sum(), of(new).iter().sum());
        LiveDeviceRow {
            reads: sum(|row| &row.reads),
            writes: sum(|row| &row.writes),
            read_bytes: sum(|row| &row.bytes_read),
            written_bytes: sum(|row| &row.bytes_written),
        }
    };
    LiveRow {
        number: 0,
        end_unix_ms: 0,
        span_ms: 0,
        reads: requests(Asked::Read),
        writes: requests(Asked::Write),
        flushes: requests(Asked::Flush),
        discards: requests(Asked::Discard),
        failed: more(failed(before), failed(after)),
        read_bytes: bytes(Asked::Read),
        written_bytes: bytes(Asked::Write),
        read_ns: None,
        write_ns: None,
        flush_ns: None,
        requests_in_flight: new.requests_in_flight as u64,
        cache: described.has_fast_and_slow().then(|| cache_row(old, new)),
        log: log_row(&old.stats, &new.stats, new.log_age),
        devices: old.stats.devices.iter().zip(&new.stats.devices).map(device).collect(),
    }
}

fn cache_row(old: &Snapshot, new: &Snapshot) -> LiveCacheRow {
    let count = |of: fn(&Stats) -> u64| more(of(&old.stats), of(&new.stats));
    let past = |stats: &Stats| {
        stats.bypassed + stats.bypasses.sequential + stats.bypasses.congested + stats.bypasses.dirty_target
    };
    LiveCacheRow {
        fast_hits: count(|stats| stats.fast_hits),
        fast_misses: count(|stats| stats.fast_misses),
        bypassed: count(past),
        promotions: count(|stats| stats.moves.promotions),
        demotions: count(|stats| stats.moves.demotions),
        writebacks: count(|stats| stats.moves.writebacks),
        moved_bytes: count(|stats| stats.moves.bytes.0),
        dirty_bytes: new.cleaning.map(|cleaning| cleaning.dirty.0),
        oldest_ms: new.cleaning.and_then(|cleaning| cleaning.oldest).map(ms),
    }
}

fn log_row(old: &Stats, new: &Stats, age: Option<Nanos>) -> Option<LiveLogRow> {
    let (old, new) = old.logging.as_ref().zip(new.logging.as_ref())?;
    Some(LiveLogRow {
        appended_bytes: more(old.bytes_appended, new.bytes_appended),
        direct_bytes: more(old.bytes_direct, new.bytes_direct),
        migrated_bytes: more(old.bytes_migrated, new.bytes_migrated),
        reads_from_log: more(old.reads_from_log, new.reads_from_log),
        reads: more(old.reads, new.reads),
        oldest_ms: age.map(ms),
    })
}
