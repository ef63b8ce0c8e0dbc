//! The map.

pub(in crate::cache) mod extent;
pub(in crate::cache) mod free;
