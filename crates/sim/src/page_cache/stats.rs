//! What a report says of the host's page cache.

use schemars::JsonSchema;
use serde::Serialize;

/// The work of the host's page cache in the measured span. With a page cache, response times, requests per second and MiB per
/// second are those of the host's programs; hits, moves, first touches and all figures of devices are of what went on to the
/// drive.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PageCacheReport {
    /// Size of the page cache.
    pub size_bytes: u64,
    /// Reads of the host's programs.
    pub read_requests: u64,
    /// Reads of programs that memory alone answered.
    pub read_hits: u64,
    /// Bytes that programs read.
    pub read_bytes: u64,
    /// Bytes of programs' reads that were in memory, in whole sectors of 512 bytes.
    pub read_hit_bytes: u64,
    /// Reads of the page cache from the drive.
    pub drive_reads: u64,
    /// Bytes of the reads from the drive.
    pub drive_read_bytes: u64,
    /// Writes of the host's programs.
    pub write_requests: u64,
    /// Bytes that programs wrote.
    pub write_bytes: u64,
    /// Bytes of programs' writes that were dirty already, in whole sectors: the drive gets one write less.
    pub rewritten_bytes: u64,
    /// Dirty bytes that were never written back, because a discard or a write past the page cache replaced them.
    pub dropped_dirty_bytes: u64,
    /// Writes to the drive that wrote dirty pages back.
    pub drive_writes: u64,
    /// Bytes that these writes wrote back.
    pub written_back_bytes: u64,
    /// Bytes written back, by the cause.
    pub written_back_by: WrittenBackBy,
    /// Bytes that were still dirty at the end, so the drive never got them.
    pub left_dirty_bytes: u64,
    /// Writes that waited because too many pages were dirty.
    pub throttled_writes: u64,
    /// Bytes of reads and writes that bypassed the page cache, because they are larger than a quarter of it.
    pub past_bytes: u64,
    /// Writes to the drive that failed.
    #[serde(skip_serializing_if = "crate::report::is_zero")]
    pub failed_writes: u64,
}

/// Bytes written back, by the cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct WrittenBackBy {
    /// The pages reached the age `page_cache.dirty_expire`.
    pub expired_bytes: u64,
    /// The dirty share exceeded `page_cache.dirty_background`.
    pub background_bytes: u64,
    /// A flush needed the data.
    pub flush_bytes: u64,
    /// Another page needed the memory.
    pub memory_bytes: u64,
}
