//! The commits and checkpoints of a map.

pub(crate) mod batch;
pub(in crate::cache) mod checkpoint_blocks;
mod checkpoints;
mod fencing;
pub(crate) mod map_journal;
mod names;
mod preflush;
mod rollback;
