//! `mode = "logging"` and `[triggers]`: a log before a primary (Griffin).

use peryton_engine::{LogCaching, Logging, LoggingTuning};
use peryton_units::{Bytes, Nanos};

use super::{
    devices::{Spec, find},
    placement::{id, set, word},
};
use crate::{DesignError, document::Keys};

/// The default block size of the map: the size that file systems write.
const BLOCK: Bytes = Bytes::kib(4);

/// Reads a share, and converts it to the engine's parts per million.
fn ppm(keys: &mut Keys<'_>, key: &'static str) -> Result<Option<u32>, DesignError> {
    match keys.get::<f64>(key)? {
        Some(share) if *share > 1.0 => Err(share.wrong(format!("is {}: use a share from 0 to 1", *share))),
        share => Ok(share.map(|share| (*share * 1e6).round() as u32)),
    }
}

pub(super) fn placement(keys: &mut Keys<'_>, devices: &[Spec<'_>]) -> Result<Logging, DesignError> {
    let primary_name = keys.require::<String>("primary")?;
    let log_name = keys.require::<String>("log")?;
    let (primary, log) = (find(&primary_name, devices)?, find(&log_name, devices)?);
    if primary == log {
        return Err(log_name.wrong(format!("'{}' is the primary already: name another", *log_name)));
    }
    let block = match keys.get::<Bytes>("block")? {
        None => BLOCK,
        Some(block) if block.0.is_power_of_two() && (512..=64 << 10).contains(&block.0) => *block,
        Some(block) => {
            return Err(block.wrong(format!("is {}: use a power of two from 512B to 64KiB", *block)));
        }
    };
    Ok(Logging { primary: id(primary), log: id(log), block })
}

pub(super) fn tuning(keys: &mut Keys<'_>, tuning: &mut LoggingTuning) -> Result<(), DesignError> {
    if let Some(caching) = keys.get::<String>("caching")? {
        let ratio = ppm(keys, "overwrite_ratio")?;
        tuning.caching = match word(&caching, &[("full", false), ("selective", true)], &[])? {
            false => LogCaching::Full,
            // Half of a block's writes: the middle of the range that Griffin examines (section 6.1.1).
            true => LogCaching::Selective { overwrite_ratio_ppm: ratio.unwrap_or(500_000) },
        };
    }
    if let Some(mut gather) = keys.table("gather")? {
        set::<Bytes>(&mut tuning.gather_bytes, &mut gather, "bytes")?;
        set::<Nanos>(&mut tuning.gather_delay, &mut gather, "delay")?;
        gather.finish()?;
    }
    set::<Nanos>(&mut tuning.checkpoint_interval, keys, "checkpoint_interval")?;
    set::<Bytes>(&mut tuning.migration_memory, keys, "migration_memory")
}

/// `[triggers]`: exactly the triggers in the table; without the table, Griffin's own.
pub(super) fn triggers(root: &mut Keys<'_>, logging: bool, tuning: &mut LoggingTuning) -> Result<(), DesignError> {
    let Some(mut keys) = root.table("triggers")? else { return Ok(()) };
    if !logging {
        return Err(keys.wrong_at("", "belongs to placement.mode = \"logging\": remove it"));
    }
    tuning.triggers.timeout = keys.get::<Nanos>("timeout")?.map(|timeout| *timeout);
    tuning.triggers.read_share_ppm = ppm(&mut keys, "read_share")?;
    tuning.triggers.size = keys.get::<Bytes>("size")?.map(|size| *size);
    if let Some(used) = ppm(&mut keys, "log_used")? {
        tuning.triggers.log_used_ppm = used;
    }
    keys.finish()
}
