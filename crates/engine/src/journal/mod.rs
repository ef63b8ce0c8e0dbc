//! Group commit: what several requests wait for is made durable together. What a record says, where it goes, and what has
//! to be flushed before and after it is a parameter; the order of things, what a failure means, how long the next try
//! waits, and the room in the ring are here, once for the map of a cache and for a log.

mod checkpoint;
mod group;
mod ring;

pub(crate) use checkpoint::{Checkpoint, Progress, Target};
pub(crate) use group::{Batch, Commits, Group, Outcome, Setback, Written};
pub(crate) use ring::Ring;
