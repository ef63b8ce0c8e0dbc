//! The state of snapshots of the cache's policies, for the owner.

use peryton_engine::{Engine, SnapshotTaken};
use peryton_units::Nanos;
use serde_json::{Value, json};

use crate::clock::unix_s;

/// The state of snapshots for the status; `null` if the placement has none.
pub(super) fn status(engine: &Engine, uptime: Nanos) -> Value {
    let Some(warmth) = engine.warmth() else { return Value::Null };
    let now = unix_s();
    let opened = now.saturating_sub(uptime.0 / 1_000_000_000);
    let snapshot = |taken: &SnapshotTaken, as_of: u64| {
        // Without a date it is not known how old it is.
        let dated = Some(taken.unix_s).filter(|unix_s| *unix_s > 0);
        json!({
            "unix_s": dated,
            "age_s": dated.map(|unix_s| as_of.saturating_sub(unix_s)),
            "bytes": taken.bytes,
            "extents": taken.extents,
        })
    };
    json!({
        "room_bytes": warmth.room,
        "interval_s": engine.tuning().snapshot_interval.map(|interval| interval.as_s_f64()),
        "began": warmth.began.map(|began| json!({
            "snapshot": snapshot(&began.snapshot, opened),
            "restored_extents": began.restored,
            "unknown_extents": began.unknown,
            "has_policy": began.has_policy,
        })),
        "last": warmth.last.map(|last| snapshot(&last, now)),
        "taken": warmth.taken,
        "failed": warmth.failed,
    })
}
