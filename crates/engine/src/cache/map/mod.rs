//! The map: where each extent is, which extent each place holds, and which places are free. Only this module changes
//! any of that, so that its counts stay correct.

mod candidates;
pub(in crate::cache) mod changed;
pub(in crate::cache) mod dirty;
pub(in crate::cache) mod extent;
pub(in crate::cache) mod extent_map;
pub(in crate::cache) mod index_set;
