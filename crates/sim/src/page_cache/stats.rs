//! What a report says of the host's page cache.

use schemars::JsonSchema;
use serde::Serialize;

/// What the host's page cache did within the measured span. With it, response times, requests per second and MiB per second are those
/// of the host's programs; hits, moves, first touches and all figures of devices are of what went on to the drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PageCacheReport {
    /// Its size.
    pub size_bytes: u64,
    /// Reads of the host's programs.
    pub read_requests: u64,
    /// Those of them that were answered from memory alone.
    pub read_hits: u64,
    /// Bytes that programs read.
    pub read_bytes: u64,
    /// Bytes of these that were in memory, in whole sectors of 512 bytes.
    pub read_hit_bytes: u64,
    /// Reads that went on to the drive.
    pub drive_reads: u64,
    /// Their bytes.
    pub drive_read_bytes: u64,
    /// Writes of the host's programs.
    pub write_requests: u64,
    /// Bytes that programs wrote.
    pub write_bytes: u64,
    /// Bytes of these that were dirty already, in whole sectors: one write to the drive less.
    pub rewritten_bytes: u64,
    /// Dirty bytes that a discard, or a write past the cache, made needless.
    pub dropped_dirty_bytes: u64,
    /// Writes that wrote dirty pages back.
    pub drive_writes: u64,
    /// Their bytes.
    pub written_back_bytes: u64,
    /// The same by what caused them.
    pub written_back_by: WrittenBackBy,
    /// Bytes that were still dirty at the end: the drive was never sent them.
    pub left_dirty_bytes: u64,
    /// Writes that waited because too much was dirty.
    pub throttled_writes: u64,
    /// Bytes of reads and writes of more than a quarter of the cache, which went past it.
    pub past_bytes: u64,
    /// Writes to the drive that failed.
    #[serde(skip_serializing_if = "crate::report::is_zero")]
    pub failed_writes: u64,
}

/// Bytes written back, by the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WrittenBackBy {
    /// They had been dirty for long enough (`page_cache.dirty_expire`).
    pub expired_bytes: u64,
    /// More was dirty than `page_cache.dirty_background`.
    pub background_bytes: u64,
    /// A flush asked for it.
    pub flush_bytes: u64,
    /// Memory was needed.
    pub memory_bytes: u64,
}
