//! The configuration of a logging drive: its devices, and the settings that may change while it runs.

use std::ops::Range;

pub use peryton_format::geometry::{Logging, MOST_PRIMARIES, Primaries};
use peryton_units::{Bytes, Nanos};
use serde::{Deserialize, Serialize};

use crate::api::{command::DeviceId, error::TuningError};

/// Which writes go to the log (Griffin, section 5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogCaching {
    /// All writes.
    #[default]
    Full,
    /// Writes to blocks with a ratio of overwrites to writes above this, in parts per million. An overwrite is a write
    /// to a block that has not been read since the previous write.
    Selective {
        /// The overwrite threshold.
        overwrite_ratio_ppm: u32,
    },
}

/// The part of a volume that one primary of a log has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogPart {
    /// The primary.
    pub device: DeviceId,
    /// Its part of the volume.
    pub range: Range<Bytes>,
    /// Whether the volume is without it.
    pub gone: bool,
    /// Bytes of the part whose newest copy is on a device that is gone, or damaged.
    pub lost: Bytes,
}

/// The conditions that start a migration to the primary (Griffin, section 5.2). Any combination is possible; the first
/// that is met starts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triggers {
    /// This much time has passed without a migration, and there is something to migrate.
    pub timeout: Option<Nanos>,
    /// The share of read requests since the last migration that needed the log exceeds this, in parts per million. While there were
    /// few, the share is taken of the smallest number of reads of which one is no more than this.
    pub read_share_ppm: Option<u32>,
    /// This many bytes in the log are the newest copy.
    pub size: Option<Bytes>,
    /// This share of the log is written, in parts per million. A full log migrates in any case.
    pub log_used_ppm: u32,
}

impl Triggers {
    /// Whether this many of the reads since the last migration needed the log that it migrates.
    ///
    /// Griffin measures the penalty "since the last migration" and does not say of how many reads. Of very few, a single
    /// one would decide: the first read after a migration is none of one or all of one. So the share is taken of no
    /// fewer reads than the smallest number of which one read is no more than the threshold (20 with 5 %, 100 with 1 %).
    /// The test is then exact from the first read on: before that number of reads it holds as soon as the share of
    /// these reads exceeds the threshold whatever the remaining ones will be. With a threshold of zero the first read
    /// that needs the log decides.
    pub(crate) fn reads_exceed(&self, reads: u64, reads_from_log: u64) -> bool {
        self.read_share_ppm.is_some_and(|share| {
            let of_one_read = WHOLE_PPM.div_ceil(share.max(1));
            let reads = if share == 0 { reads } else { reads.max(u64::from(of_one_read)) };
            reads_from_log.saturating_mul(u64::from(WHOLE_PPM)) > reads.saturating_mul(u64::from(share))
        })
    }
}

/// The settings of a log that can be changed while the drive runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggingTuning {
    /// Which writes go to the log.
    pub caching: LogCaching,
    /// When the log migrates.
    pub triggers: Triggers,
    /// Writes up to this size are gathered into appends of up to this size (Griffin, section 5.4: "a small buffer,
    /// e.g., 128 KB"). Larger ones are appended by themselves, without a copy. At most [`MOST_GATHERED`].
    pub gather_bytes: Bytes,
    /// How long the first write of an append waits for others. With zero it waits only while other appends are in
    /// flight.
    pub gather_delay: Nanos,
    /// Writes go to the primary while the log is behind by more than this, which is the age of its oldest append under way, and the
    /// primary answers sooner (Griffin, section 7); `None`: they wait for the log.
    pub most_behind: Option<Nanos>,
    /// The interval at which an index of new appends is written to the log (Griffin, section 6.4: 30 s).
    pub checkpoint_interval: Nanos,
    /// How many bytes of the log are read, sorted by address and written together. This bounds the memory of a
    /// migration.
    pub migration_memory: Bytes,
}

/// The default of [`LoggingTuning::most_behind`]: several turns of a disk, and more than a disk that keeps up is ever behind.
const MOST_BEHIND: Nanos = Nanos::from_ms(100);

/// The largest `gather_bytes`: such an append fits a buffer with its header.
pub const MOST_GATHERED: Bytes = Bytes::kib(128);

impl Default for LoggingTuning {
    /// Griffin's composite trigger: 900 s, or 5 % of reads from the log (section 6.1.2).
    fn default() -> LoggingTuning {
        LoggingTuning {
            caching: LogCaching::Full,
            triggers: Triggers {
                timeout: Some(Nanos::from_s(900)),
                read_share_ppm: Some(50_000),
                size: None,
                log_used_ppm: 900_000,
            },
            gather_bytes: MOST_GATHERED,
            gather_delay: Nanos::ZERO,
            most_behind: Some(MOST_BEHIND),
            checkpoint_interval: Nanos::from_s(30),
            migration_memory: Bytes::mib(64),
        }
    }
}

const WHOLE_PPM: u32 = 1_000_000;

impl LoggingTuning {
    pub(crate) fn check(&self) -> Result<(), TuningError> {
        let range = |key, value: String, remedy| Err(TuningError::Range { key, value, remedy });
        let Triggers { timeout, read_share_ppm, size, log_used_ppm } = self.triggers;
        if timeout == Some(Nanos::ZERO) {
            return range("triggers.timeout", "0s".into(), "use more than zero, or leave it out");
        }
        if let Some(share) = read_share_ppm.filter(|share| *share > WHOLE_PPM) {
            return range("triggers.read_share", format!("{share} ppm"), "use a share from 0 to 1");
        }
        if size == Some(Bytes::ZERO) {
            return range("triggers.size", "0".into(), "use more than zero, or leave it out");
        }
        if log_used_ppm == 0 || log_used_ppm > WHOLE_PPM {
            return range("triggers.log_used", format!("{log_used_ppm} ppm"), "use a share above 0, up to 1");
        }
        if let LogCaching::Selective { overwrite_ratio_ppm: ratio } = self.caching
            && ratio > WHOLE_PPM
        {
            return range("placement.caching.overwrite_ratio", format!("{ratio} ppm"), "use a ratio from 0 to 1");
        }
        if self.gather_bytes > MOST_GATHERED {
            return range("placement.gather.bytes", self.gather_bytes.to_string(), "use up to 128KiB");
        }
        if self.checkpoint_interval == Nanos::ZERO {
            return range("placement.checkpoint_interval", "0s".into(), "use more than zero");
        }
        if self.migration_memory > Bytes::gib(64) {
            return range("placement.migration_memory", self.migration_memory.to_string(), "use up to 64GiB");
        }
        Ok(())
    }
}
