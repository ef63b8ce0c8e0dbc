//! The routes of accesses: one file a placement, and one for a drive with a device gone.

mod caching;
mod degraded;
mod in_part;
mod partitioned;
mod read_in_part;
pub(in crate::cache) mod read_on;
mod tiering;
pub(in crate::cache) mod waited_for;
