//! The parameters of shingled tracks, apart from their model, so that [`DiskParameters`](super::DiskParameters) can contain
//! them without an import of the model.

use peryton_units::{Bytes, Nanos};
use serde::Deserialize;

/// The `[disk.shingled]` table of a profile.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ShingledParameters {
    /// Size of a zone, which is written front to back.
    #[serde(default = "zone")]
    pub zone: Bytes,
    /// Bytes of conventional tracks that take writes which do not continue a zone. They lie before the addressable tracks.
    pub cache: Bytes,
    /// The most separate ranges in the cache, limited by the size of its map.
    #[serde(default = "extents")]
    pub extents: u32,
    /// Idle time after which zones are cleaned.
    #[serde(default = "clean_after")]
    pub clean_after: Nanos,
}

fn zone() -> Bytes {
    Bytes::mib(256)
}
fn extents() -> u32 {
    1 << 18
}
fn clean_after() -> Nanos {
    Nanos::from_s(1)
}
