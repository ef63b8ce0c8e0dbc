//! The routes of accesses. Each placement has a file with its router, and a drive with a device gone has one. `write_in_part.rs` and
//! `read_in_part.rs` route accesses to extents of which the fast device has a part (caching, partitioned).

mod caching;
mod degraded;
mod partitioned;
mod read_in_part;
pub(in crate::cache) mod readahead;
pub(in crate::cache) mod sync_writer;
mod tiering;
mod write_in_part;
