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
    VOLUME: Info "peryton_volume" None ["id", "placement", "version"] "The volume and the version of its server";
    STATE: Gauge "peryton_volume_state" None ["state"] "1 for the state that the volume is in, 0 for the others";
    IN_DOUBT: Gauge "peryton_volume_in_doubt" None []
        "1 while a flush has failed and no flush of a client has reported that yet";
    UNPROTECTED: Gauge "peryton_process_death_unprotected" None []
        "1 if a kill of the server may lose writes that were answered and not flushed, although the design protects them";
    SIZE: Gauge "peryton_volume_size" Bytes [] "Size of the volume";
    OPENINGS: Counter "peryton_volume_openings" None [] "How often the volume was opened since it was formatted";
    LOST_EXTENTS: Gauge "peryton_lost_extents" None []
        "Extents that cannot be read until they are overwritten or discarded";
    REQUEST_DURATION: Histogram "peryton_request_duration" Seconds ["kind"]
        "Response times of requests, from arrival to answer";
    REQUEST_FAILURES: Counter "peryton_request_failures" None ["kind"] "Requests that were answered with an error";
    REQUEST_BYTES: Counter "peryton_request" Bytes ["kind"] "Bytes that requests asked for";
    REQUESTS_IN_FLIGHT: Gauge "peryton_requests_in_flight" None [] "Requests that have not been answered";
    DEVICE_COMMANDS: Gauge "peryton_device_commands_in_flight" None [] "Commands that devices have not answered";
    CLIENTS: Gauge "peryton_clients" None [] "Connected NBD clients";
    CONNECTIONS: Counter "peryton_client_connections" None [] "NBD clients that have used the volume";
    POOL_SIZE: Gauge "peryton_pool_size" Bytes [] "Memory for the data of requests";
    POOL_FREE: Gauge "peryton_pool_free" Bytes [] "Memory for the data of requests that is free";
    POOL_WAITING: Gauge "peryton_pool_waiting_clients" None [] "Clients that wait for memory, or for requests of theirs";
    BLOCK_DEVICE: Gauge "peryton_block_device_live" None [] "1 if the block device of this machine can be used";
    HITS: Counter "peryton_fast_hits" None [] "Accesses to an extent that the fast device or memory served";
    MISSES: Counter "peryton_fast_misses" None [] "Accesses to an extent that needed the slow device";
    BYPASSED: Counter "peryton_bypassed" None ["reason"] "Accesses that bypassed the fast device";
    ADMISSION_THRESHOLD: Gauge "peryton_admission_threshold" None []
        "The adaptive admission threshold in force: bytes, references, or a probability";
    ADMISSION_SCORE: Gauge "peryton_admission_score" None []
        "The latest score of the sampled threshold that is nearest to it; lower is better";
    ADMISSION_LATENCY: Gauge "peryton_admission_latency" Seconds []
        "Mean response time of the cache, by recent frames of the adaptive admission";
    ADMISSION_TARGET: Gauge "peryton_admission_target_latency" Seconds [] "The target of that mean response time";
    ADMISSION_HOLDS: Gauge "peryton_admission_target_holds" None [] "1 if the mean response time meets its target";
    HELD_WRITES: Counter "peryton_held_writes" None [] "Writes that waited for the write-back of their extent";
    DIRTY: Gauge "peryton_dirty" Bytes [] "Data that only the fast device has in its newest version";
    DIRTY_LIMIT: Gauge "peryton_dirty_limit" Bytes [] "The most data that may be dirty";
    DIRTY_AGE: Gauge "peryton_dirty_oldest_age" Seconds [] "Time for which the oldest dirty data have been dirty";
    DIRTY_MAX_AGE: Gauge "peryton_dirty_max_age" Seconds [] "How long data may be dirty";
    CLEANING_RATE: Gauge "peryton_cleaning_rate" BytesPerSecond [] "Rate of write-back, as last measured";
    CLEAN_IN: Gauge "peryton_cleaning_remaining" Seconds [] "Time until all data are clean, without further writes";
    CLEANING_STATE: Gauge "peryton_cleaning_state" None ["state"] "1 for the state of cleaning, 0 for the others";
    THROTTLED: Gauge "peryton_writes_throttled" None [] "1 while writes go to the slow device, at the limit of dirty data";
    MOVES: Counter "peryton_moves" None ["kind"] "Extents moved or copied between the devices";
    MOVES_CANCELLED: Counter "peryton_moves_cancelled" None ["reason"] "Moves that were cancelled";
    MOVE_BYTES: Counter "peryton_move_written" Bytes [] "Bytes that moves wrote to either device";
    COMMITS: Counter "peryton_journal_commits" None [] "Commits of the journal that became durable";
    MAP_UPDATES: Counter "peryton_journal_map_updates" None [] "Updates of the map in these commits";
    CHECKPOINTS: Counter "peryton_journal_checkpoints" None [] "Checkpoints of the whole map, or indexes of the log";
    LOG_APPENDED: Counter "peryton_logging_appended" Bytes [] "Bytes of writes that were appended to the log";
    LOG_DIRECT: Counter "peryton_logging_direct" Bytes [] "Bytes of writes that bypassed the log";
    LOG_PAST: Counter "peryton_logging_direct_writes" None ["reason"] "Writes that bypassed the log";
    LOG_MIGRATED: Counter "peryton_logging_migrated" Bytes [] "Bytes that migrations wrote from the log to the primary";
    LOG_MIGRATIONS: Counter "peryton_logging_migrations" None ["trigger"] "Migrations that were started";
    LOG_READS: Counter "peryton_logging_reads" None ["from"] "Reads by whether they needed the log";
    LOG_DAMAGED: Counter "peryton_logging_damaged" Bytes [] "Bytes in the log that are not what was written there";
    LOG_AGE: Gauge "peryton_logging_oldest_age" Seconds [] "Age of the oldest write that the primary does not have";
    DEVICE_STATE: Gauge "peryton_device_state" None ["device", "state"] "1 for the state of the device, 0 for the others";
    DEVICE_SIZE: Gauge "peryton_device_size" Bytes ["device"] "Size of the device";
    DEVICE_USED: Gauge "peryton_device_used" Bytes ["device"] "Bytes of the device that the volume occupies";
    DEVICE_ERRORS: Counter "peryton_device_errors" None ["device"] "Commands that failed after all attempts";
    DEVICE_RETRIES: Counter "peryton_device_retries" None ["device"] "Commands that were repeated";
    DEVICE_FAILED_FLUSHES: Counter "peryton_device_failed_flushes" None ["device"] "Flushes that failed";
    DEVICE_OUTAGES: Counter "peryton_device_outages" None ["device"] "Times that the device failed and might come back";
    DEVICE_OUTAGE: Gauge "peryton_device_outage" Seconds ["device"] "How long the present outage has lasted";
    DEVICE_PATIENCE: Gauge "peryton_device_outage_patience" Seconds ["device"]
        "How much longer commands wait for the device";
    DEVICE_WAITING: Gauge "peryton_device_outage_commands" None ["device"] "Commands that wait for the device";
    DEVICE_READS: Counter "peryton_device_reads" None ["device", "cause"] "Read commands to the device";
    DEVICE_WRITES: Counter "peryton_device_writes" None ["device", "cause"] "Write commands to the device";
    DEVICE_READ_BYTES: Counter "peryton_device_read" Bytes ["device", "cause"] "Bytes read from the device";
    DEVICE_WRITTEN_BYTES: Counter "peryton_device_written" Bytes ["device", "cause"] "Bytes written to the device";
    DEVICE_FLUSHES: Counter "peryton_device_flushes" None ["device"] "Flushes of the device";
    DEVICE_DISCARDS: Counter "peryton_device_discards" None ["device"] "Discards and zeroings of the device";
    DEVICE_RATED: Gauge "peryton_device_rated_writes" Bytes ["device"]
        "What may be written to the device in its life, as the design or its profile says";
    DEVICE_EU_LEFT: Gauge "peryton_device_endurance_left_eu" None ["device"]
        "Endurance that the device has left, of 1000000 eu of a new one (GreenDM)";
    DEVICE_EU_MARK: Gauge "peryton_device_endurance_used_since_mark_eu" None ["device"]
        "Endurance that was used up since the mark, in eu";
    DEVICE_PAGES: Gauge "peryton_device_lifetime_pages" None ["device", "access"]
        "Pages of 4 KiB that were read or written since its wear is counted";
    DEVICE_START_STOPS: Gauge "peryton_device_lifetime_start_stops" None ["device"]
        "How often it was put into standby since its wear is counted";
    DEVICE_BUDGET: Gauge "peryton_device_wear_budget" BytesPerSecond ["device"]
        "The rate of writes with which the device lasts as long as the design asks for";
    DEVICE_POWER: Gauge "peryton_device_power_state" None ["device", "state"]
        "1 for the device's state of runtime power management in Linux, 0 for the others";
    DEVICE_STANDBYS: Counter "peryton_device_standbys" None ["device"] "How often the device was put into standby";
    DEVICE_STANDBY_TIME: Counter "peryton_device_standby" Seconds ["device"] "How long the device was in standby";
    DEVICE_STANDS_BY: Gauge "peryton_device_in_standby" None ["device"] "1 while the device is in standby";
    DRIVE_INFO: Info "peryton_drive" None ["device", "drive", "model", "serial"] "A drive beneath a device";
    DRIVE_READ_AGE: Gauge "peryton_drive_health_age" Seconds ["device", "drive"]
        "How long ago the drive has last answered with its health";
    DRIVE_PASSED: Gauge "peryton_drive_healthy" None ["device", "drive"] "1 if the drive is well by its own judgement";
    DRIVE_WARNING: Gauge "peryton_drive_warning" None ["device", "drive", "warning"] "1 for each warning of the drive";
    DRIVE_USED: Gauge "peryton_drive_life_used" Ratio ["device", "drive"]
        "Share of its life that the drive has used up by its own estimate; it may exceed 1";
    DRIVE_LIFE_LEFT: Gauge "peryton_drive_life_left_estimated" Seconds ["device", "drive"]
        "Remaining life of the drive, estimated from the life that it has used up while it had power";
    DRIVE_SPARE: Gauge "peryton_drive_spare" Ratio ["device", "drive"] "Spare that is left, as a share of a new drive's";
    DRIVE_SPARE_LEAST: Gauge "peryton_drive_spare_threshold" Ratio ["device", "drive"]
        "Spare below which the drive warns";
    DRIVE_TEMPERATURE: Gauge "peryton_drive_temperature" Celsius ["device", "drive"] "Temperature of the drive";
    DRIVE_MEDIA_ERRORS: Counter "peryton_drive_media_errors" None ["device", "drive"]
        "Errors of the drive's medium in its life";
    DRIVE_READ: Counter "peryton_drive_read" Bytes ["device", "drive"] "Bytes that hosts have read in the drive's life";
    DRIVE_WRITTEN: Counter "peryton_drive_written" Bytes ["device", "drive"]
        "Bytes that hosts have written in the drive's life";
    DRIVE_FLASH_WRITTEN: Counter "peryton_drive_flash_written" Bytes ["device", "drive"]
        "Bytes that were written to the drive's flash in its life, as it counts them itself";
    DRIVE_POWER_ON: Counter "peryton_drive_power_on" Seconds ["device", "drive"] "Time for which the drive had power";
    DRIVE_POWER: Gauge "peryton_drive_power_state" None ["device", "drive", "state"]
        "1 for the power state that the drive was in when it was last asked, 0 for the others";
    DRIVE_ENERGY: Counter "peryton_drive_energy_estimated" Joules ["device", "drive"]
        "The most energy that the drive has drawn since the server started, by the descriptors of its power states";
    LOG_LINES_DROPPED: Counter "peryton_log_lines_dropped" None [] "Lines of the server's messages that could not be written";
    LOG_LINES_HELD: Counter "peryton_log_lines_held_back" None [] "Lines and events of sources that repeat themselves";
    SCRAPES_REFUSED: Counter "peryton_scrapes_refused" None ["reason"] "Connections for metrics or the page that got nothing";
    PROCESS_START: Gauge "process_start_time" Seconds [] "When the server started, in seconds since 1970";
    PROCESS_CPU: Counter "process_cpu" Seconds [] "Processor time that the server has used";
    PROCESS_MEMORY: Gauge "process_resident_memory" Bytes [] "Memory of the server that is in RAM";
}
