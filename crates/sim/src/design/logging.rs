//! `mode = "logging"` and `[triggers]`: a log before a primary (Griffin).

use peryton_engine::{LogCaching, Logging, LoggingTuning, MOST_PRIMARIES, Primaries};
use peryton_units::{Bytes, Nanos};

use super::{
    devices::{OrNever, Spec, find},
    key::{
        Key,
        KeyDefault::{Else, Required, Value},
        keys, names,
    },
    placement::{LOGGING, id, set, word},
};
use crate::{
    DesignError,
    document::{Keys, OneOrMore},
};

keys! {
    /// The device with the other data. A list names several primaries that share the log; each is served as a separate volume.
    PRIMARY: OneOrMore = "placement.primary" { default: Required, placements: LOGGING }
    /// The device that holds the log.
    LOG: String = "placement.log" { default: Required, placements: LOGGING }
    /// The block size of the log's map: a power of two from 512B to 64KiB.
    BLOCK_SIZE: Bytes = "placement.block" { default: Value("'4KiB'"), placements: LOGGING, example: "'8KiB'" }
    /// Which writes go to the log: all (`full`), or those of blocks that are overwritten often (`selective`; Griffin, section 4.2).
    CACHING_WRITES: String = "placement.caching" {
        default: Value("'full'"), words: || names(CACHING_WORDS), placements: LOGGING, live: true, example: "'selective'",
    }
    /// With `caching = "selective"`: the least share of a block's writes that have to be overwrites before its writes go to the
    /// log.
    OVERWRITE_RATIO: f64 = "placement.overwrite_ratio" {
        default: Value("0.5"), unit: "share", placements: LOGGING, live: true, example: "0.7",
        needs: &["placement.caching='selective'"],
    }
    /// Writes of up to this size are gathered into appends of up to this size, at most 128KiB. A larger write is appended
    /// alone.
    GATHER_BYTES: Bytes = "placement.gather.bytes" { default: Value("'128KiB'"), placements: LOGGING, live: true, example: "'64KiB'" }
    /// The time for which the first write of an append waits for further writes. With 0 it waits only while other appends are
    /// in flight.
    GATHER_DELAY: Nanos = "placement.gather.delay" { default: Value("'0s'"), placements: LOGGING, live: true, example: "'1ms'" }
    /// Writes bypass the log while its oldest append in flight is older than this and the primary answers sooner (Griffin,
    /// section 7).
    BYPASS_BEHIND: OrNever = "placement.bypass_behind" { default: Value("'100ms'"), placements: LOGGING, live: true, example: "'never'" }
    /// The interval at which an index of new appends is written to the log. The index shortens the opening after a crash.
    CHECKPOINT_INTERVAL: Nanos = "placement.checkpoint_interval" {
        default: Value("'30s'"), placements: LOGGING, live: true, example: "'60s'",
    }
    /// The bytes of the log that a migration reads, sorts by address and writes together.
    MIGRATION_MEMORY: Bytes = "placement.migration_memory" {
        default: Value("'64MiB'"), placements: LOGGING, live: true, example: "'32MiB'",
    }
    /// The log is migrated to the primary when this time has passed since the last migration. If the design has a table
    /// `[triggers]`, only the triggers of that table and `log_used` hold (Griffin, section 5.2).
    TIMEOUT: Nanos = "triggers.timeout" { default: Else("never; without the table: 900s"), placements: LOGGING, live: true, example: "'60s'" }
    /// The log is migrated when more than this share of the reads since the last migration needed the log. Fewer reads than `1
    /// / read_share` count as that many.
    READ_SHARE: f64 = "triggers.read_share" {
        default: Else("never; without the table: 0.05"), unit: "share", placements: LOGGING, live: true, example: "0.01",
    }
    /// The log is migrated when it has this many bytes that the primary lacks.
    TRIGGER_SIZE: Bytes = "triggers.size" { default: Else("never"), placements: LOGGING, live: true, example: "'32MiB'" }
    /// The log is migrated when this share of it is written.
    LOG_USED: f64 = "triggers.log_used" {
        default: Value("0.9"), unit: "share", placements: LOGGING, live: true, example: "0.5", needs: &["triggers.timeout='60s'"],
    }
}

const CACHING_WORDS: &[(&str, bool)] = &[("full", false), ("selective", true)];

/// The default block size of the map: the size that file systems write.
const BLOCK: Bytes = Bytes::kib(4);

/// Reads a share, and converts it to the engine's parts per million.
fn ppm(keys: &mut Keys<'_>, key: &'static Key<f64>) -> Result<Option<u32>, DesignError> {
    match keys.get(key)? {
        Some(share) if *share > 1.0 => Err(share.wrong(format!("is {}: use a share from 0 to 1", *share))),
        share => Ok(share.map(|share| (*share * 1e6).round() as u32)),
    }
}

pub(super) fn placement(keys: &mut Keys<'_>, devices: &[Spec<'_>]) -> Result<Logging, DesignError> {
    let named = keys.require(&PRIMARY)?;
    let log_name = keys.require(&LOG)?;
    let log = find(&log_name, devices)?;
    let mut primaries = Vec::new();
    for name in &named.0 {
        let primary = id(find(&named.with(name.clone()), devices)?);
        if primaries.contains(&primary) {
            return Err(named.wrong(format!("'{name}' is named twice")));
        }
        primaries.push(primary);
    }
    if primaries.contains(&id(log)) {
        return Err(log_name.wrong(format!("'{}' is the primary already: name another", *log_name)));
    }
    let primaries = Primaries::new(&primaries)
        .ok_or_else(|| named.wrong(format!("names {} devices: name 1 to {MOST_PRIMARIES}", primaries.len())))?;
    let block = match keys.get(&BLOCK_SIZE)? {
        None => BLOCK,
        Some(block) if block.0.is_power_of_two() && (512..=64 << 10).contains(&block.0) => *block,
        Some(block) => {
            return Err(block.wrong(format!("is {}: use a power of two from 512B to 64KiB", *block)));
        }
    };
    Ok(Logging { primaries, log: id(log), block })
}

pub(super) fn tuning(keys: &mut Keys<'_>, tuning: &mut LoggingTuning) -> Result<(), DesignError> {
    let selective = match keys.get(&CACHING_WRITES)? {
        Some(caching) => word(&caching, CACHING_WORDS)?,
        None => false,
    };
    let ratio = ppm(keys, &OVERWRITE_RATIO)?;
    tuning.caching = match (selective, ratio) {
        (false, None) => LogCaching::Full,
        (false, Some(_)) => {
            return Err(
                keys.wrong_at(OVERWRITE_RATIO.name(), "belongs to caching = \"selective\": give it, or remove this")
            );
        }
        // Half of a block's writes: the middle of the range that Griffin examines (section 6.1.1).
        (true, ratio) => LogCaching::Selective { overwrite_ratio_ppm: ratio.unwrap_or(500_000) },
    };
    if let Some(mut gather) = keys.table("gather")? {
        set(&mut tuning.gather_bytes, &mut gather, &GATHER_BYTES)?;
        set(&mut tuning.gather_delay, &mut gather, &GATHER_DELAY)?;
        gather.finish()?;
    }
    if let Some(behind) = keys.get(&BYPASS_BEHIND)? {
        tuning.most_behind = behind.0;
    }
    set(&mut tuning.checkpoint_interval, keys, &CHECKPOINT_INTERVAL)?;
    set(&mut tuning.migration_memory, keys, &MIGRATION_MEMORY)
}

/// `[triggers]`: exactly the triggers in the table; without the table, Griffin's own.
pub(super) fn triggers(root: &mut Keys<'_>, logging: bool, tuning: &mut LoggingTuning) -> Result<(), DesignError> {
    let Some(mut keys) = root.table("triggers")? else { return Ok(()) };
    if !logging {
        return Err(keys.wrong_at("", "belongs to placement.mode = \"logging\": remove it"));
    }
    tuning.triggers.timeout = keys.get(&TIMEOUT)?.map(|timeout| *timeout);
    tuning.triggers.read_share_ppm = ppm(&mut keys, &READ_SHARE)?;
    tuning.triggers.size = keys.get(&TRIGGER_SIZE)?.map(|size| *size);
    if let Some(used) = ppm(&mut keys, &LOG_USED)? {
        tuning.triggers.log_used_ppm = used;
    }
    keys.finish()
}
