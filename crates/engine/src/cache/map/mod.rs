//! The map: where each extent is, which place holds what, and which places are free. It alone changes any of that, so that
//! its counts are right; the rest of the drive asks.

mod candidates;
pub(in crate::cache) mod extent;
pub(in crate::cache) mod extent_map;
mod free;
