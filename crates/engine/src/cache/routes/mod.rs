//! Where an access goes: one file a placement, and one for a drive with a device fenced.

mod caching;
mod degraded;
mod partitioned;
mod tiering;
