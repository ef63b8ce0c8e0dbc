//! `[page_cache]`: the host's memory between its programs and the drive. Simulations only.

use peryton_units::{Bytes, Nanos};

use super::key::{
    KeyDefault::{Else, Value},
    keys,
};
use crate::{
    DesignError,
    document::{At, Keys},
};

/// What a page cache needs at least: a few requests.
const LEAST: Bytes = Bytes::mib(1);
/// The largest one: the simulator keeps some 100 bytes for each page of 4 KiB.
const MOST: Bytes = Bytes::gib(256);

keys! {
    /// The size of the host's page cache, which keeps pages of the volume and delays writes, as Linux does for files without
    /// O_DIRECT. The table `[page_cache]` turns it on: the trace then has the requests of programs, and the drive gets the
    /// misses and write-backs of the page cache. Simulations only; a served volume has the page cache of its host.
    SIZE: Bytes = "page_cache.size" { default: Else("no page cache: the drive gets the requests of the trace"), example: "'64MiB'" }
    /// The age at which a dirty page is written back (Linux: `vm.dirty_expire_centisecs`).
    EXPIRE: Nanos = "page_cache.dirty_expire" { default: Value("'30s'"), example: "'5s'", needs: &["page_cache.size='64MiB'"] }
    /// The interval at which the host looks for pages of this age (Linux: `vm.dirty_writeback_centisecs`).
    INTERVAL: Nanos = "page_cache.writeback_interval" {
        default: Value("'5s'"), example: "'1s'", needs: &["page_cache.size='64MiB'"],
    }
    /// The dirty share of the page cache at which the host begins to write back pages of any age (Linux:
    /// `vm.dirty_background_ratio`).
    BACKGROUND: f64 = "page_cache.dirty_background" {
        default: Value("0.1"), unit: "share", example: "0.05", needs: &["page_cache.size='64MiB'"],
    }
    /// The share of the page cache, dirty or being written, at which writes wait (Linux: `vm.dirty_ratio`).
    LIMIT: f64 = "page_cache.dirty_limit" { default: Value("0.2"), unit: "share", example: "0.4", needs: &["page_cache.size='64MiB'"] }
    /// The rate at which the host copies between the page cache and all programs together.
    COPY_RATE: f64 = "page_cache.mb_per_s" {
        default: Value("4000"), unit: "MB/s", example: "2000", needs: &["page_cache.size='64MiB'"],
    }
    /// The time of a request without the copy: the system call, and the search for its pages.
    LATENCY: Nanos = "page_cache.latency" { default: Value("'2us'"), example: "'5us'", needs: &["page_cache.size='64MiB'"] }
}

/// The settings of a host's page cache.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PageCacheDesign {
    /// Its size.
    pub size: Bytes,
    /// The age at which a dirty page is written back.
    pub dirty_expire: Nanos,
    /// How often the host looks for such pages.
    pub writeback_interval: Nanos,
    /// The share that may be dirty before write-back begins.
    pub dirty_background: f64,
    /// The share that may be dirty or being written before writes wait.
    pub dirty_limit: f64,
    /// The rate of copies, in bytes per second.
    pub bytes_per_s: u64,
    /// The time of a request besides copying.
    pub latency: Nanos,
}

/// Reads the table, if there is one. `hints`: the design has a table `[host]`.
pub(super) fn read(root: &mut Keys<'_>, hints: bool) -> Result<Option<PageCacheDesign>, DesignError> {
    let Some(mut keys) = root.table("page_cache")? else { return Ok(None) };
    if hints {
        return Err(keys.wrong_at(
            "",
            "is for traces above the host's cache, and host.cache for traces below it: remove one of them",
        ));
    }
    let size = keys.require(&SIZE)?;
    if !(LEAST..=MOST).contains(&*size) {
        return Err(size.wrong(format!("is {}: use {LEAST} to {MOST}", *size)));
    }
    let share = |given: Option<At<'_, f64>>, otherwise: f64| match given {
        Some(share) if *share > 0.0 && *share < 1.0 => Ok(*share),
        Some(share) => Err(share.wrong(format!("is {}: give a share above 0 and below 1, such as 0.1", *share))),
        None => Ok(otherwise),
    };
    let time = |given: Option<At<'_, Nanos>>, otherwise: Nanos| match given {
        Some(time) if *time == Nanos::ZERO => Err(time.wrong("is 0: give it a time, such as \"5s\"")),
        time => Ok(time.map_or(otherwise, |time| *time)),
    };
    let dirty_expire = keys.get(&EXPIRE)?.map_or(Nanos::from_s(30), |time| *time);
    let writeback_interval = time(keys.get(&INTERVAL)?, Nanos::from_s(5))?;
    let dirty_background = share(keys.get(&BACKGROUND)?, 0.1)?;
    let limit = keys.get(&LIMIT)?;
    let dirty_limit = share(limit.clone(), 0.2)?;
    if dirty_limit < dirty_background {
        let text = format!(
            "is {dirty_limit}, below page_cache.dirty_background ({dirty_background}): raise it, or lower that"
        );
        return Err(match limit {
            Some(limit) => limit.wrong(text),
            None => keys.wrong_at("dirty_limit", text),
        });
    }
    let rate = keys.get(&COPY_RATE)?;
    let mb_per_s = rate.as_ref().map_or(4000.0, |rate| **rate);
    if let Some(rate) = rate.filter(|rate| !(1.0..=1e6).contains(&**rate)) {
        return Err(rate.wrong(format!("is {}: use 1 to 1000000", *rate)));
    }
    let latency = keys.get(&LATENCY)?.map_or(Nanos::from_us(2), |time| *time);
    keys.finish()?;
    let bytes_per_s = (mb_per_s * 1e6) as u64;
    let size = size.into_inner();
    Ok(Some(PageCacheDesign {
        size,
        dirty_expire,
        writeback_interval,
        dirty_background,
        dirty_limit,
        bytes_per_s,
        latency,
    }))
}
