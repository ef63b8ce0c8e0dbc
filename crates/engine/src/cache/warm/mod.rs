//! Snapshots: the state of the cache's policies outlives the process, beside the map ([`peryton_format::snapshot`]).
//!
//! `state` has the figures and bounds, `saving` writes a snapshot, a bounded piece at a time, and `restoring` reads one
//! when the volume is opened. No data depend on a snapshot.

pub(in crate::cache) mod restoring;
pub(in crate::cache) mod saving;
pub(in crate::cache) mod state;
