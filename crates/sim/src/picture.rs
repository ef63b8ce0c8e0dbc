//! What a page draws of a run: its course over time, and which parts of the volume were used and moved.

use crate::{IntervalReport, UseMap};

/// What a page draws of a run ([`Options::picture`](crate::Options::picture)). Its size does not depend on the length of the run.
#[derive(Clone, Debug, PartialEq)]
pub struct Picture {
    /// What was counted in each of at most 256 intervals of equal length (but for the last one). Quantiles are up to one part in sixteen
    /// too high.
    pub course: Vec<IntervalReport>,
    /// The parts of the volume.
    pub map: UseMap,
}
