//! The commits and checkpoints of a map.

mod checkpoints;
mod doubts;
mod fencing;
pub(crate) mod map_journal;
mod names;
