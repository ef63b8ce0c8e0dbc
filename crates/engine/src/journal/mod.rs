//! Group commit: the changes of several requests are made durable together. The placement supplies what a record holds,
//! where it goes, and what must be flushed before and after it. This module holds what the map of a cache and a log
//! share: the order of the steps, what a failure means, how long to wait before another attempt, and the room in the
//! ring.

mod checkpoint;
mod group;
mod ring;

pub(crate) use checkpoint::{Checkpoint, Progress, Target};
pub(crate) use group::{Batch, Commits, Group, Outcome, Setback, Written};
pub(crate) use ring::Ring;
