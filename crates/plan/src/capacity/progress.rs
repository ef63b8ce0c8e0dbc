//! Reports of a plan's progress.

/// Called with a plan's progress: the present step, how much of it is done, and its whole amount.
pub type Progress<'a> = dyn Fn(&str, u64, u64) + Sync + 'a;
