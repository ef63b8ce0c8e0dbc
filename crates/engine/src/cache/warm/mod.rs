//! Snapshots: what the policies of the cache have learnt outlives the process, beside the map ([`peryton_format::snapshot`]).
//!
//! `state` has the figures and bounds, `saving` writes a snapshot, a bounded piece at a time, and `restoring` takes one back when
//! the volume is opened. No data depend on any of it.

pub(in crate::cache) mod restoring;
pub(in crate::cache) mod saving;
pub(in crate::cache) mod state;
