//! The time of day.

use std::time::SystemTime;

/// The time in seconds since 1970.
pub(crate) fn unix_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
