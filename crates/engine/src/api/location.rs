//! Where data is, and what of it is lost.

use std::ops::Range;

use peryton_units::Bytes;
use serde::Serialize;

use crate::api::command::DeviceId;

/// Where part of a volume is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// For so many bytes.
    pub len: Bytes,
    /// The device that has the newest copy; `None` where nothing was ever written, or where parts are on either device.
    pub device: Option<DeviceId>,
    /// Something was written here, or may have been.
    pub mapped: bool,
    /// Newer than its home on the slow device.
    pub dirty: bool,
    /// Its only copy was lost.
    pub lost: bool,
}

/// What the map says of one extent, or of a range that is newest in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MapRow {
    /// Where it begins on the volume.
    pub offset: u64,
    /// How long it is.
    pub len: u64,
    /// The device that has it; absent where nothing is mapped, or the copy is gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<usize>,
    /// Where on that device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Newer than its home on the slow device.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dirty: bool,
    /// Its only copy was lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
}

/// What cannot be read any more, because the device that had it is dead, until it is written or discarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// How much it is.
    pub bytes: Bytes,
    /// Where on the volume, in order; no more than were asked for.
    pub ranges: Vec<Range<Bytes>>,
    /// There are more ranges.
    pub more: bool,
}

impl Losses {
    /// Adds a range that does not come before those that are there; at most `most` are kept.
    pub(crate) fn add(&mut self, from: u64, to: u64, most: usize) {
        self.bytes += Bytes(to - from);
        let room = self.ranges.len() < most;
        match self.ranges.last_mut() {
            Some(last) if last.end.0 == from && !self.more => last.end = Bytes(to),
            _ if room => self.ranges.push(Bytes(from)..Bytes(to)),
            _ => self.more = true,
        }
    }
}
