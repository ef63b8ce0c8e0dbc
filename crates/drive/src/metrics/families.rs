//! Every metric: its name, type, unit and what it counts. The documentation, the dashboard and the alert rules are checked
//! against this list.

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    /// It only grows, and begins at zero when the server starts. Its samples' names end with `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts of values by bounds.
    Histogram,
    /// Labels that describe the volume; the value is 1.
    Info,
}

/// The unit of a metric, which its name ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number of things.
    None,
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// A rate.
    BytesPerSecond,
    /// A share: 1 is the whole.
    Ratio,
    /// Degrees.
    Celsius,
    /// Energy.
    Joules,
}

impl Unit {
    /// The unit as names end with it; empty for a number of things.
    pub const fn name(self) -> &'static str {
        match self {
            Unit::None => "",
            Unit::Seconds => "seconds",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes_per_second",
            Unit::Ratio => "ratio",
            Unit::Celsius => "celsius",
            Unit::Joules => "joules",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Family {
    /// The name without the unit.
    pub base: &'static str,
    /// The type.
    pub kind: Type,
    /// The unit.
    pub unit: Unit,
    /// What it counts.
    pub help: &'static str,
    /// Its labels besides `volume`.
    pub labels: &'static [&'static str],
}

impl Family {
    /// The name with the unit, without the suffixes of samples.
    pub fn name(&self) -> String {
        match self.unit {
            Unit::None => self.base.to_owned(),
            unit => format!("{}_{}", self.base, unit.name()),
        }
    }
}

macro_rules! families {
    ($($constant:ident: $kind:ident $base:literal $unit:ident [$($label:literal),*] $help:literal;)*) => {
        $(pub(super) const $constant: Family = Family {
            base: $base,
            kind: Type::$kind,
            unit: Unit::$unit,
            help: $help,
            labels: &[$($label),*],
        };)*
        /// All metrics, in the order in which they are given.
        pub const FAMILIES: &[Family] = &[$($constant),*];
    };
}

families! {
    VOLUME: Info "peryton_volume" None ["id", "placement", "version"]
        "The volume's identity, its placement, and the version of its server";
    STATE: Gauge "peryton_volume_state" None ["state"] "1 for the present state of the volume, 0 for the other states";
    IN_DOUBT: Gauge "peryton_volume_in_doubt" None []
        "1 after a failed flush, until a flush of a client has returned the error";
    UNPROTECTED: Gauge "peryton_process_death_unprotected" None []
        "1 if a kill of the server may lose acknowledged writes that are not flushed, although the design asks for their protection";
    SIZE: Gauge "peryton_volume_size" Bytes [] "Size of the volume";
    OPENINGS: Counter "peryton_volume_openings" None [] "Openings of the volume since it was formatted";
    LOST_EXTENTS: Gauge "peryton_lost_extents" None []
        "Extents that cannot be read until they are overwritten or discarded";
    REQUEST_DURATION: Histogram "peryton_request_duration" Seconds ["kind"]
        "Response times of requests, from arrival to answer";
    REQUEST_FAILURES: Counter "peryton_request_failures" None ["kind"] "Requests that were answered with an error";
    REQUEST_BYTES: Counter "peryton_request" Bytes ["kind"] "Bytes of reads, writes and discards";
    REQUESTS_IN_FLIGHT: Gauge "peryton_requests_in_flight" None [] "Requests without an answer so far";
    DEVICE_COMMANDS: Gauge "peryton_device_commands_in_flight" None []
        "Commands without an answer from their device so far";
    CLIENTS: Gauge "peryton_clients" None [] "Connected NBD clients";
    CONNECTIONS: Counter "peryton_client_connections" None [] "NBD clients that have used the volume";
    POOL_SIZE: Gauge "peryton_pool_size" Bytes [] "Memory for the data of requests";
    POOL_FREE: Gauge "peryton_pool_free" Bytes [] "The free part of the memory for the data of requests";
    POOL_WAITING: Gauge "peryton_pool_waiting_clients" None []
        "Clients that wait for memory, or for their own earlier requests";
    BLOCK_DEVICE: Gauge "peryton_block_device_live" None [] "1 if the block device of this machine can be used";
    HITS: Counter "peryton_fast_hits" None [] "Accesses to an extent that the fast device or memory served";
    MISSES: Counter "peryton_fast_misses" None [] "Accesses to an extent that needed the slow device";
    BYPASSED: Counter "peryton_bypassed" None ["reason"] "Accesses that bypassed the fast device";
    ADMISSION_THRESHOLD: Gauge "peryton_admission_threshold" None []
        "The adaptive admission threshold in force: bytes, references, or a probability";
    ADMISSION_SCORE: Gauge "peryton_admission_score" None []
        "The latest score of the sampled cache whose threshold is nearest to the threshold in force; a lower score is better";
    ADMISSION_LATENCY: Gauge "peryton_admission_latency" Seconds []
        "Mean response time of the cache over recent evaluation intervals of the adaptive admission";
    ADMISSION_TARGET: Gauge "peryton_admission_target_latency" Seconds []
        "The limit of the mean response time of the cache";
    ADMISSION_HOLDS: Gauge "peryton_admission_target_holds" None []
        "1 if the mean response time of the cache is within its limit";
    HELD_WRITES: Counter "peryton_held_writes" None [] "Writes that waited for the write-back of their extent";
    DIRTY: Gauge "peryton_dirty" Bytes [] "Data whose newest version is only on the fast device";
    DIRTY_LIMIT: Gauge "peryton_dirty_limit" Bytes [] "The most data that may be dirty";
    DIRTY_AGE: Gauge "peryton_dirty_oldest_age" Seconds [] "Age of the oldest dirty data";
    DIRTY_MAX_AGE: Gauge "peryton_dirty_max_age" Seconds [] "Age from which dirty data are overdue";
    CLEANING_RATE: Gauge "peryton_cleaning_rate" BytesPerSecond [] "The last measured rate of write-back";
    CLEAN_IN: Gauge "peryton_cleaning_remaining" Seconds [] "Time until all data are clean, if no writes arrive";
    CLEANING_STATE: Gauge "peryton_cleaning_state" None ["state"]
        "1 for the state of write-back, 0 for the other states";
    THROTTLED: Gauge "peryton_writes_throttled" None []
        "1 while dirty data are at their limit, so that writes go to the slow device";
    MOVES: Counter "peryton_moves" None ["kind"] "Extents moved or copied between the devices";
    MOVES_CANCELLED: Counter "peryton_moves_cancelled" None ["reason"] "Moves that were cancelled";
    MOVE_BYTES: Counter "peryton_move_written" Bytes [] "Bytes that moves wrote to either device";
    COMMITS: Counter "peryton_journal_commits" None [] "Commits of the journal that became durable";
    MAP_UPDATES: Counter "peryton_journal_map_updates" None []
        "Updates of the map in commits of the journal that became durable";
    CHECKPOINTS: Counter "peryton_journal_checkpoints" None [] "Checkpoints of the whole map, or indexes of the log";
    LOG_APPENDED: Counter "peryton_logging_appended" Bytes [] "Bytes of writes that were appended to the log";
    LOG_DIRECT: Counter "peryton_logging_direct" Bytes [] "Bytes of writes that bypassed the log";
    LOG_PAST: Counter "peryton_logging_direct_writes" None ["reason"] "Writes that bypassed the log";
    LOG_MIGRATED: Counter "peryton_logging_migrated" Bytes [] "Bytes that migrations wrote from the log to the primary";
    LOG_MIGRATIONS: Counter "peryton_logging_migrations" None ["trigger"] "Migrations that were started";
    LOG_READS: Counter "peryton_logging_reads" None ["from"]
        "Reads that needed the log, and reads that needed only the primary";
    LOG_DAMAGED: Counter "peryton_logging_damaged" Bytes [] "Bytes in the log with a wrong checksum";
    LOG_AGE: Gauge "peryton_logging_oldest_age" Seconds [] "Age of the oldest write that the primary lacks";
    DEVICE_STATE: Gauge "peryton_device_state" None ["device", "state"]
        "1 for the present state of the device, 0 for the other states";
    DEVICE_SIZE: Gauge "peryton_device_size" Bytes ["device"] "Size of the device";
    DEVICE_USED: Gauge "peryton_device_used" Bytes ["device"] "Bytes of the device that the volume occupies";
    DEVICE_ERRORS: Counter "peryton_device_errors" None ["device"] "Commands that failed after all attempts";
    DEVICE_RETRIES: Counter "peryton_device_retries" None ["device"] "Commands that were repeated";
    DEVICE_FAILED_FLUSHES: Counter "peryton_device_failed_flushes" None ["device"] "Flushes that failed";
    DEVICE_OUTAGES: Counter "peryton_device_outages" None ["device"]
        "Outages of the device: it failed and might come back";
    DEVICE_OUTAGE: Gauge "peryton_device_outage" Seconds ["device"] "Duration of the present outage";
    DEVICE_PATIENCE: Gauge "peryton_device_outage_patience" Seconds ["device"]
        "Remaining time for which commands wait for the device";
    DEVICE_WAITING: Gauge "peryton_device_outage_commands" None ["device"] "Commands that wait for the device";
    DEVICE_READS: Counter "peryton_device_reads" None ["device", "cause"] "Read commands to the device";
    DEVICE_WRITES: Counter "peryton_device_writes" None ["device", "cause"] "Write commands to the device";
    DEVICE_READ_BYTES: Counter "peryton_device_read" Bytes ["device", "cause"] "Bytes read from the device";
    DEVICE_WRITTEN_BYTES: Counter "peryton_device_written" Bytes ["device", "cause"] "Bytes written to the device";
    DEVICE_FLUSHES: Counter "peryton_device_flushes" None ["device"] "Flushes of the device";
    DEVICE_DISCARDS: Counter "peryton_device_discards" None ["device"] "Discards and zeroings of the device";
    DEVICE_RATED: Gauge "peryton_device_rated_writes" Bytes ["device"]
        "Bytes that may be written to the device in its life, by the design or the profile";
    DEVICE_EU_LEFT: Gauge "peryton_device_endurance_left_eu" None ["device"]
        "Remaining life of the device, of 1000000 eu (GreenDM's endurance units)";
    DEVICE_EU_MARK: Gauge "peryton_device_endurance_used_since_mark_eu" None ["device"]
        "Life used since the mark, in eu";
    DEVICE_PAGES: Gauge "peryton_device_lifetime_pages" None ["device", "access"]
        "Pages of 4 KiB read or written since counting began";
    DEVICE_START_STOPS: Gauge "peryton_device_lifetime_start_stops" None ["device"]
        "Stops for standby since counting began";
    DEVICE_BUDGET: Gauge "peryton_device_wear_budget" BytesPerSecond ["device"]
        "The rate of writes at which the fast device reaches the lifetime of the design";
    DEVICE_POWER: Gauge "peryton_device_power_state" None ["device", "state"]
        "1 for the state of Linux's runtime power management of the device, 0 for the other states";
    DEVICE_STANDBYS: Counter "peryton_device_standbys" None ["device"] "Times that the device was put into standby";
    DEVICE_STANDBY_TIME: Counter "peryton_device_standby" Seconds ["device"] "Time of the device in standby";
    DEVICE_STANDS_BY: Gauge "peryton_device_in_standby" None ["device"] "1 while the device is in standby";
    DRIVE_INFO: Info "peryton_drive" None ["device", "drive", "model", "serial"] "A drive beneath a device";
    DRIVE_READ_AGE: Gauge "peryton_drive_health_age" Seconds ["device", "drive"]
        "Time since the drive last reported its health";
    DRIVE_PASSED: Gauge "peryton_drive_healthy" None ["device", "drive"]
        "1 if the drive itself reports that it is healthy";
    DRIVE_WARNING: Gauge "peryton_drive_warning" None ["device", "drive", "warning"] "1 for each warning of the drive";
    DRIVE_USED: Gauge "peryton_drive_life_used" Ratio ["device", "drive"]
        "The used share of the drive's life, as the maker estimates it; it may exceed 1";
    DRIVE_LIFE_LEFT: Gauge "peryton_drive_life_left_estimated" Seconds ["device", "drive"]
        "Remaining life of the drive, if wear goes on at the mean rate so far";
    DRIVE_SPARE: Gauge "peryton_drive_spare" Ratio ["device", "drive"] "Remaining spare, as a share of a new drive's";
    DRIVE_SPARE_LEAST: Gauge "peryton_drive_spare_threshold" Ratio ["device", "drive"]
        "Spare below which the drive warns";
    DRIVE_TEMPERATURE: Gauge "peryton_drive_temperature" Celsius ["device", "drive"] "Temperature of the drive";
    DRIVE_MEDIA_ERRORS: Counter "peryton_drive_media_errors" None ["device", "drive"]
        "Errors of the drive's medium in its life";
    DRIVE_READ: Counter "peryton_drive_read" Bytes ["device", "drive"] "Bytes that hosts have read in the drive's life";
    DRIVE_WRITTEN: Counter "peryton_drive_written" Bytes ["device", "drive"]
        "Bytes that hosts have written in the drive's life";
    DRIVE_FLASH_WRITTEN: Counter "peryton_drive_flash_written" Bytes ["device", "drive"]
        "Bytes written to the drive's flash in its life, as the drive counts them";
    DRIVE_POWER_ON: Counter "peryton_drive_power_on" Seconds ["device", "drive"] "Time for which the drive had power";
    DRIVE_POWER: Gauge "peryton_drive_power_state" None ["device", "drive", "state"]
        "1 for the power state of the drive at the last reading, 0 for the other states";
    DRIVE_ENERGY: Counter "peryton_drive_energy_estimated" Joules ["device", "drive"]
        "An upper bound of the drive's energy since the server started, by the maximum power of its power states";
    LOG_LINES_DROPPED: Counter "peryton_log_lines_dropped" None []
        "Lines of the server's messages that could not be written";
    LOG_LINES_HELD: Counter "peryton_log_lines_held_back" None []
        "Lines and events omitted because their source repeats itself";
    SCRAPES_REFUSED: Counter "peryton_scrapes_refused" None ["reason"]
        "Connections to the metrics or the web page that the server refused";
    PROCESS_START: Gauge "process_start_time" Seconds [] "Start time of the server, in seconds since 1970";
    PROCESS_CPU: Counter "process_cpu" Seconds [] "Processor time that the server has used";
    PROCESS_MEMORY: Gauge "process_resident_memory" Bytes [] "Memory of the server that is in RAM";
}
