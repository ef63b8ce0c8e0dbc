//! What the commits and checkpoints of a map record.

mod checkpoints;
mod fencing;
pub(crate) mod map_journal;
