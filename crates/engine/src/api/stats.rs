//! The engine's statistics, which simulator and served drive both report.

use peryton_policy::PartitionStats;
use peryton_units::Bytes;
use serde::Serialize;

use crate::api::command::{Cause, DeviceId};

/// All counts since the engine was made, or since [`Engine::reset_stats`](crate::Engine::reset_stats).
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Stats {
    /// Host requests by operation code (read, write, discard, flush), refused ones included.
    pub requests: [u64; 4],
    /// Host requests that were answered with an error.
    pub failed_requests: u64,
    /// Accesses of one request to one extent that the fast device, or RAM, served. A request that spans three extents
    /// makes three accesses.
    pub fast_hits: u64,
    /// Accesses that needed the slow device.
    pub fast_misses: u64,
    /// Misses that admission kept out of the fast device.
    pub bypassed: u64,
    /// Accesses that went past the fast device for other reasons.
    pub bypasses: Bypasses,
    /// Writes that waited until their extent was written back, because it had been dirty for too long, or was to be clean.
    pub held_writes: u64,
    /// Accesses that waited for a promotion and were served from its buffer, saving a fast-device access each
    /// (GreenDM, section 2.3).
    pub served_from_ram: u64,
    /// Extents allocated on first access (tiering).
    pub allocations: u64,
    /// Moves between the devices.
    pub moves: Moves,
    /// Traffic of each device.
    pub devices: Vec<DeviceTraffic>,
    /// Journal commits that became durable.
    pub commits: u64,
    /// Map updates in these commits.
    pub map_updates: u64,
    /// Checkpoints of the whole map.
    pub checkpoints: u64,
    /// Extents whose only copy was lost to device failures.
    pub lost_extents: u64,
    /// The log (logging); absent for other placements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub logging: Option<LoggingStats>,
    /// The dynamic controller (partitioned); absent for other placements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub partition: Option<PartitionStats>,
}

/// Accesses that went past the fast device (caching, tiering), by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Bypasses {
    /// Misses of sequential streams ([`Bypass::sequential`](crate::Bypass)).
    pub sequential: u64,
    /// Misses while the fast device was slower than the slow one ([`Bypass::congested`](crate::Bypass)).
    pub congested: u64,
    /// Writes: no further extent might become dirty ([`Cleaning::dirty_target_ppm`](crate::Cleaning)).
    pub dirty_target: u64,
}

/// The traffic of the log, and the writes that bypassed it (Griffin).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LoggingStats {
    /// Bytes that the host wrote.
    pub bytes_written_by_host: u64,
    /// Pieces of host writes that the log holds or held; a write longer than an append counts as several.
    pub records: u64,
    /// Bytes of these records.
    pub bytes_appended: u64,
    /// Appends, each of gathered records or of one large record.
    pub appends: u64,
    /// Bytes of headers and padding in them.
    pub overhead_bytes: u64,
    /// Appends that failed; their records went to the primary.
    pub failed_appends: u64,
    /// Writes that bypassed the log; `direct_by` has the reasons.
    pub direct_writes: u64,
    /// Bytes of these writes.
    pub bytes_direct: u64,
    /// These writes by the reason.
    pub direct_by: PastLog,
    /// Migrations started.
    pub migrations: Migrations,
    /// Bytes that migrations wrote to the primary.
    pub bytes_migrated: u64,
    /// Bytes that migrations skipped because they were superseded.
    pub bytes_superseded: u64,
    /// Host reads.
    pub reads: u64,
    /// Bytes of these reads.
    pub bytes_read: u64,
    /// Host reads that needed the log.
    pub reads_from_log: u64,
    /// Bytes that were read from the log.
    pub bytes_read_from_log: u64,
    /// Indexes of the log that became durable.
    pub checkpoints: u64,
    /// Bytes in the log that were read to be verified and are not what was appended there.
    #[serde(skip_serializing_if = "is_zero")]
    pub damaged_bytes: u64,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}

/// Writes that bypassed the log, by the reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PastLog {
    /// Blocks that are not overwritten often enough for selective caching.
    pub selective: u64,
    /// The log was behind ([`most_behind`](crate::LoggingTuning::most_behind)), and the primary answered sooner.
    pub outrun: u64,
    /// The log, or the ring of its commits, was full.
    pub no_room: u64,
    /// Appends failed.
    pub failed: u64,
}

impl PastLog {
    /// The counts, each with its name and what is said of it.
    pub fn told(&self) -> [(&'static str, u64, &'static str); 4] {
        let PastLog { selective, outrun, no_room, failed } = *self;
        [
            ("selective", selective, "not overwritten often enough"),
            ("outrun", outrun, "because the log was behind"),
            ("no_room", no_room, "because the log was full"),
            ("failed", failed, "because appends failed"),
        ]
    }

    /// How many writes bypassed the log and why; `None` if none did.
    pub fn sentence(&self) -> Option<String> {
        let reasons: Vec<String> = self
            .told()
            .iter()
            .filter(|(_, count, _)| *count > 0)
            .map(|(_, count, why)| format!("{count} {why}"))
            .collect();
        (!reasons.is_empty()).then(|| format!("Past the log went writes: {}", reasons.join(", ")))
    }
}

/// Migrations by their trigger (Griffin, section 5.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Migrations {
    /// Started by the timeout.
    pub timeout: u64,
    /// Started by the share of reads from the log.
    pub read_share: u64,
    /// Started by the number of bytes to migrate.
    pub size: u64,
    /// Started because the log was nearly full.
    pub log_used: u64,
    /// Started by a hint of the host, for a range.
    pub hint: u64,
}

impl LoggingStats {
    /// Adds the statistics of another volume to these.
    pub fn add(&mut self, other: &LoggingStats) {
        let LoggingStats {
            bytes_written_by_host,
            records,
            bytes_appended,
            appends,
            overhead_bytes,
            failed_appends,
            direct_writes,
            bytes_direct,
            direct_by: PastLog { selective, outrun, no_room, failed },
            migrations: Migrations { timeout, read_share, size, log_used, hint },
            bytes_migrated,
            bytes_superseded,
            reads,
            bytes_read,
            reads_from_log,
            bytes_read_from_log,
            checkpoints,
            damaged_bytes,
        } = other;
        self.bytes_written_by_host += bytes_written_by_host;
        self.records += records;
        self.bytes_appended += bytes_appended;
        self.appends += appends;
        self.overhead_bytes += overhead_bytes;
        self.failed_appends += failed_appends;
        self.direct_writes += direct_writes;
        self.bytes_direct += bytes_direct;
        self.direct_by.selective += selective;
        self.direct_by.outrun += outrun;
        self.direct_by.no_room += no_room;
        self.direct_by.failed += failed;
        self.migrations.timeout += timeout;
        self.migrations.read_share += read_share;
        self.migrations.size += size;
        self.migrations.log_used += log_used;
        self.migrations.hint += hint;
        self.bytes_migrated += bytes_migrated;
        self.bytes_superseded += bytes_superseded;
        self.reads += reads;
        self.bytes_read += bytes_read;
        self.reads_from_log += reads_from_log;
        self.bytes_read_from_log += bytes_read_from_log;
        self.checkpoints += checkpoints;
        self.damaged_bytes += damaged_bytes;
    }

    /// Share of the host's written bytes that did not reach the primary (Griffin, section 3.3); `None` before the first
    /// write. Data still in the log counts as saved. Negative if failed writes were repeated.
    pub fn write_savings(&self) -> Option<f64> {
        let reached = (self.bytes_migrated + self.bytes_direct) as f64;
        (self.bytes_written_by_host > 0).then(|| 1.0 - reached / self.bytes_written_by_host as f64)
    }

    /// Share of the host's reads that needed the log (Griffin, section 3.3); `None` before the first read.
    pub fn read_penalty(&self) -> Option<f64> {
        (self.reads > 0).then(|| self.reads_from_log as f64 / self.reads as f64)
    }
}

/// Moves that finished, and moves that were cancelled.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Moves {
    /// Extents moved or copied to the fast device.
    pub promotions: u64,
    /// Extents removed from the fast device: demotions (tiering), clean and dirty evictions (caching).
    pub demotions: u64,
    /// Dirty extents copied to the slow device (caching), for an eviction or while they stay cached.
    pub writebacks: u64,
    /// Bytes that moves wrote to either device.
    pub bytes: Bytes,
    /// Cancelled moves, by cause.
    pub cancelled: Cancelled,
}

/// Causes of cancelled moves (GreenDM, sections 2.3 and 2.6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cancelled {
    /// Promotion: no free extent on the fast device.
    pub fast_full: u64,
    /// Demotion: no free extent on the slow device.
    pub slow_full: u64,
    /// Promotion: the engine was writing the whole map.
    pub metadata_flush: u64,
    /// The limit of concurrent moves (MCML) was reached.
    pub move_limit: u64,
    /// Accesses to the extent were in flight.
    pub in_use: u64,
    /// Demotion or write-back: an access to the extent came during the move.
    pub accessed: u64,
    /// A device failed.
    pub device_error: u64,
}

impl Cancelled {
    /// Cancelled moves of all causes.
    pub fn sum(&self) -> u64 {
        let Cancelled { fast_full, slow_full, metadata_flush, move_limit, in_use, accessed, device_error } = self;
        fast_full + slow_full + metadata_flush + move_limit + in_use + accessed + device_error
    }
}

/// Commands sent to one device.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DeviceTraffic {
    /// Reads, by cause (host, promotion, demotion, write-back, metadata).
    pub reads: [u64; 5],
    /// Writes, by cause.
    pub writes: [u64; 5],
    /// Bytes read, by cause.
    pub bytes_read: [u64; 5],
    /// Bytes written, by cause.
    pub bytes_written: [u64; 5],
    /// Flushes.
    pub flushes: u64,
    /// Discards and zeroings.
    pub discards: u64,
    /// How often it was sent to standby.
    pub spin_downs: u64,
    /// Commands that failed.
    pub errors: u64,
}

impl Stats {
    /// Statistics with a row for each of `devices` devices.
    pub fn new(devices: usize) -> Stats {
        Stats { devices: vec![DeviceTraffic::default(); devices], ..Stats::default() }
    }

    /// Share of accesses that the fast device or RAM served; `None` before the first access.
    pub fn fast_hit_ratio(&self) -> Option<f64> {
        let accesses = self.fast_hits + self.fast_misses;
        (accesses > 0).then(|| self.fast_hits as f64 / accesses as f64)
    }

    /// Bytes written to a device.
    pub(crate) fn written_to(&self, device: DeviceId) -> Bytes {
        Bytes(self.devices.get(device.index()).map_or(0, |of| of.bytes_written.iter().sum()))
    }

    /// The statistics of a partitioned drive, which has them from the start.
    #[inline]
    pub(crate) fn partition_mut(&mut self) -> &mut PartitionStats {
        self.partition.get_or_insert_default()
    }

    /// The statistics of a logging drive, which has them from the start.
    #[inline]
    pub(crate) fn logging_mut(&mut self) -> &mut LoggingStats {
        self.logging.get_or_insert_default()
    }

    pub(crate) fn read(&mut self, device: DeviceId, len: Bytes, cause: Cause) {
        let row = &mut self.devices[device.index()];
        row.reads[cause as usize] += 1;
        row.bytes_read[cause as usize] += len.0;
    }

    pub(crate) fn wrote(&mut self, device: DeviceId, len: Bytes, cause: Cause) {
        let row = &mut self.devices[device.index()];
        row.writes[cause as usize] += 1;
        row.bytes_written[cause as usize] += len.0;
    }
}
