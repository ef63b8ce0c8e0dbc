//! What a cache has learnt, and what of it lasts: see `docs/caching.md`.

use peryton_units::Bytes;

/// A snapshot of what a cache had learnt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotTaken {
    /// When it was taken, in seconds since 1970; 0 if the driver has not told the time ([`Engine::tell_time`](crate::Engine::tell_time)).
    pub unix_s: u64,
    /// Its length on the fast device.
    pub bytes: Bytes,
    /// Number of extents on the fast device that it describes.
    pub extents: u64,
}

/// What a volume that was opened took from a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WarmStart {
    /// The snapshot.
    pub snapshot: SnapshotTaken,
    /// How many of its extents are still on the fast device.
    pub restored: u64,
    /// Number of extents on the fast device that it does not describe: they count as having come after it.
    pub unknown: u64,
    /// Whether the replacement policy is the one that it was taken of.
    pub has_policy: bool,
}

/// How a cache keeps what it has learnt.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Warmth {
    /// The room for snapshots on the fast device; zero if the volume was made without.
    pub room: Bytes,
    /// What the volume began with; `None` if it began cold.
    pub began: Option<WarmStart>,
    /// The last snapshot since the volume was opened.
    pub last: Option<SnapshotTaken>,
    /// Number of snapshots since then, and of those that a failure of the device has cut short.
    pub taken: u64,
    /// See `taken`.
    pub failed: u64,
}
