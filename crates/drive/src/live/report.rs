//! The source of the page of a served volume: the answer to `GET /live.json`. A figure that does not apply is absent.

use serde::Serialize;
use serde_json::{Map, Value};

use crate::{endurance::DeviceEndurance, health::DriveHealth};

/// The state of a served volume, and what has happened since a row and an event that the reader has: the answer to
/// `GET /live.json?since=ROW&events=EVENT`.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveReport {
    /// The version of the server.
    pub version: &'static str,
    /// When the server started, in milliseconds since 1970. Rows and events of another start have other numbers.
    pub started_unix_ms: u64,
    /// The volume and its state.
    pub volume: LiveVolume,
    /// The devices, in the order of the design.
    pub devices: Vec<LiveDevice>,
    /// Dirty data and its cleaning (caching and partitioned).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleaning: Option<LiveCleaning>,
    /// The settings that override the design, as `key=value`.
    pub settings: Vec<String>,
    /// A row for each interval of a second, the oldest first; at most 600 of the last 3,600.
    pub rows: Vec<LiveRow>,
    /// The number of the newest row that there is; 0 if there is none yet. If it is not in `rows`, ask for what follows them.
    pub last_row: u64,
    /// Which parts of the volume were used when: the last five minutes, and the last hour.
    pub maps: Vec<LiveMap>,
    /// Response times: of the last minute, and since the volume was opened.
    pub distributions: Vec<LiveDistribution>,
    /// Events, the oldest first; at most 200, the newest that there are.
    pub events: Vec<LiveEvent>,
    /// The number of the newest event that there is.
    pub last_event: u64,
}

/// The volume and its state.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveVolume {
    /// The name of the design.
    pub name: String,
    /// The volume's identity.
    pub id: String,
    /// The placement, as in the design.
    pub placement: &'static str,
    /// The size of the volume.
    pub size_bytes: u64,
    /// `healthy`, `outage`, `degraded` or `stopped`.
    pub state: &'static str,
    /// Whether a flush has failed and no flush of a client has reported that yet.
    pub in_doubt: bool,
    /// The time since the volume's thread gave figures; more than some seconds means that it is busy, or hangs.
    pub silent_ms: u64,
    /// How long the volume has been served.
    pub uptime_ms: u64,
    /// How often the volume was opened since it was formatted.
    pub openings: u64,
    /// Connected NBD clients.
    pub clients: u64,
    /// Requests that have not been answered.
    pub requests_in_flight: u64,
    /// Commands that devices have not answered.
    pub device_commands_in_flight: u64,
    /// Memory for the data of requests.
    pub pool_bytes: u64,
    /// How much of it is free.
    pub pool_free_bytes: u64,
    /// Clients that wait for memory, or for requests of theirs to end.
    pub clients_waiting: u64,
    /// Extents that cannot be read until they are overwritten or discarded (tiering, caching, partitioned).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lost_extents: Option<u64>,
    /// Faults on demand that are in force.
    pub drills: u64,
    /// Whether the volume as a block device of this machine can be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_device_is_live: Option<bool>,
}

/// A device.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveDevice {
    /// Its name in the design.
    pub name: String,
    /// `ok`, `errors` (commands failed for good), `outage` (it fails and may come back) or `gone` (it was given up, or left out).
    pub state: &'static str,
    /// Its size; absent if it was left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
    /// What the volume occupies of it.
    pub used_bytes: u64,
    /// Commands that failed after all attempts.
    pub errors: u64,
    /// Commands that were repeated.
    pub retries: u64,
    /// Flushes that failed.
    pub failed_flushes: u64,
    /// How often it failed and might come back.
    pub outages: u64,
    /// Its present outage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outage: Option<LiveOutage>,
    /// Linux's state of its runtime power management, if Linux manages it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power_state: Option<&'static str>,
    /// Bytes written to it since the volume was opened.
    pub written_bytes: u64,
    /// What has worn it, and how much of its life that is; absent until that was read from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endurance: Option<DeviceEndurance>,
    /// The rate of writes with which it lasts as long as the design asks for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wear_budget_bytes_per_s: Option<f64>,
    /// The drives beneath it, and what they say of their health.
    pub drives: Vec<LiveDrive>,
}

/// A drive beneath a device.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveDrive {
    /// The name that Linux uses, such as `nvme0n1`.
    pub drive: String,
    /// What it said when it was last read; absent if it has said nothing yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub health: Option<DriveHealth>,
    /// How long ago that was.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ms_ago: Option<u64>,
    /// Why the last reading failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// What it warns of, each the end of a sentence about the drive.
    pub warnings: Vec<&'static str>,
}

/// A device that fails and may come back.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveOutage {
    /// How long it has failed.
    pub lasts_ms: u64,
    /// How much longer commands wait for it; then it is given up, unless it can be read and is needed.
    pub patience_left_ms: u64,
    /// Whether it takes reads only, and stays because no other device has its data.
    pub only_reads: bool,
    /// Commands that wait for it.
    pub commands_waiting: u64,
}

/// Dirty data, which only the fast device has in its newest version, and what becomes of it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveCleaning {
    /// `resting`, `idle`, `aging`, `filling`, `overdue`, `full` or `asked`.
    pub state: &'static str,
    /// Dirty bytes.
    pub dirty_bytes: u64,
    /// The most bytes that may be dirty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// How long the oldest has been dirty; absent if nothing is dirty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_ms: Option<u64>,
    /// How long data may be dirty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_age_ms: Option<u64>,
    /// The rate at which dirty data goes to the origin, as last measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes_per_s: Option<u64>,
    /// The time until nothing is dirty, if nothing else is written; absent if it cannot be estimated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clean_in_ms: Option<u64>,
    /// Whether writes wait because as much is dirty as may be.
    pub throttles_writes: bool,
}

/// What happened in an interval.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveRow {
    /// The number of the row, from 1.
    pub number: u64,
    /// The end of the interval in milliseconds since 1970.
    pub end_unix_ms: u64,
    /// Its length, about a second.
    pub span_ms: u64,
    /// Reads that were answered.
    pub reads: u64,
    /// Writes, also of zeros.
    pub writes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Discards.
    pub discards: u64,
    /// Requests of any kind that were answered with an error.
    pub failed: u64,
    /// Bytes that the reads were for.
    pub read_bytes: u64,
    /// Bytes that the writes were for.
    pub written_bytes: u64,
    /// Response times of reads; absent if there were none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_ns: Option<LiveQuantiles>,
    /// Response times of writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_ns: Option<LiveQuantiles>,
    /// Response times of flushes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flush_ns: Option<LiveQuantiles>,
    /// Requests in flight at its end.
    pub requests_in_flight: u64,
    /// Accesses and moves, where the volume has two kinds of devices.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache: Option<LiveCacheRow>,
    /// What happened in the log (logging).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log: Option<LiveLogRow>,
    /// The traffic of each device, in the order of the design.
    pub devices: Vec<LiveDeviceRow>,
}

/// Response times in nanoseconds, within 1 % or 64 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveQuantiles {
    /// The median.
    pub p50: u64,
    /// The 99th percentile.
    pub p99: u64,
    /// The 99.9th percentile.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

/// Accesses and moves in an interval.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveCacheRow {
    /// Accesses that the fast device or memory served.
    pub fast_hits: u64,
    /// Accesses that needed the slow device.
    pub fast_misses: u64,
    /// Accesses that went past the fast device.
    pub bypassed: u64,
    /// Extents moved or copied to the fast device.
    pub promotions: u64,
    /// Extents removed from it.
    pub demotions: u64,
    /// Dirty extents written back.
    pub writebacks: u64,
    /// Bytes that moves wrote to either device.
    pub moved_bytes: u64,
    /// Dirty bytes at the end of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dirty_bytes: Option<u64>,
    /// How long the oldest has been dirty then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_ms: Option<u64>,
}

/// What happened in the log in an interval.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveLogRow {
    /// Bytes of writes that were appended to the log.
    pub appended_bytes: u64,
    /// Bytes of writes that went past it.
    pub direct_bytes: u64,
    /// Bytes that migrations wrote to the primary.
    pub migrated_bytes: u64,
    /// Reads that needed the log.
    pub reads_from_log: u64,
    /// All reads.
    pub reads: u64,
    /// The age of the oldest write that the primary does not have, at the end of the interval.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_ms: Option<u64>,
}

/// The traffic of a device in an interval, of all causes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveDeviceRow {
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// Which parts of the volume were used when: address × time.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveMap {
    /// Bytes of the volume in a cell; the first begins at 0.
    pub cell_bytes: u64,
    /// Cells in a column, at most 64.
    pub cells: u64,
    /// Rows, of a second each, that a column is for.
    pub rows_per_column: u64,
    /// The most columns that are kept.
    pub most_columns: u64,
    /// The columns that have changed since the row that the reader has, the oldest first.
    pub columns: Vec<LiveColumn>,
}

/// A column of a map: requests that began in each cell.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveColumn {
    /// Its number: that of its last row, divided by `rows_per_column` and rounded up.
    pub number: u64,
    /// The beginning of its first interval in milliseconds since 1970.
    pub begin_unix_ms: u64,
    /// Reads. A negative number stands for this many zeros.
    pub reads: Vec<i64>,
    /// Writes, in the same form.
    pub writes: Vec<i64>,
}

/// Response times of a span: pairs of an upper bound in nanoseconds and the number of requests that took that long, and longer than
/// the bound before. Bounds are up to one part in eight too high.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveDistribution {
    /// The length of the span.
    pub span_ms: u64,
    /// Of reads.
    pub read: Vec<(u64, u64)>,
    /// Of writes.
    pub write: Vec<(u64, u64)>,
    /// Of flushes.
    pub flush: Vec<(u64, u64)>,
}

/// An event, as `peryton events` has it.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LiveEvent {
    /// Its number, from 1.
    pub number: u64,
    /// The time in milliseconds since 1970.
    pub unix_ms: u64,
    /// What happened.
    pub event: String,
    /// More about it, by the names of the control socket's events.
    pub about: Map<String, Value>,
}
