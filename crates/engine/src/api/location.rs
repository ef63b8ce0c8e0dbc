//! Where data is, and which data is lost.

use std::{
    fmt::{self, Write as _},
    ops::Range,
};

use peryton_format::blocks::Masks;
use peryton_units::Bytes;
use serde::{Serialize, Serializer};

use crate::api::command::DeviceId;

/// The place of a part of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Location {
    /// Length of the part that this describes.
    pub len: Bytes,
    /// The device that has the newest copy; `None` if nothing was ever written, or if parts are on different devices.
    pub device: Option<DeviceId>,
    /// Whether something was, or may have been, written here.
    pub mapped: bool,
    /// Whether the copy is newer than its origin on the slow device.
    pub dirty: bool,
    /// Whether the only copy was lost.
    pub lost: bool,
}

/// From where a part of a volume can be read, as long as nothing changes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Source {
    /// Length of the part that this describes.
    pub len: Bytes,
    /// From where.
    pub origin: Origin,
}

/// From where data can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Nothing was ever written: it reads as zeros.
    Zeros,
    /// The only copy is lost, or cannot be told from what a crash has left.
    Lost,
    /// It is there.
    At {
        /// The device, and the offset on it.
        first: (DeviceId, Bytes),
        /// Where another copy of the same is.
        second: Option<(DeviceId, Bytes)>,
    },
}

/// The map's entry for an extent, or for a range that is newest in a log. Offsets and lengths are in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MapRow {
    /// Offset on the volume.
    pub offset: u64,
    /// Length.
    pub len: u64,
    /// The device that has the data; absent if nothing is mapped, or the copy is lost.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<usize>,
    /// Offset on that device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at: Option<u64>,
    /// Whether the copy, or a part of it, is newer than its origin on the slow device.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub dirty: bool,
    /// Which blocks of the extent the device has, if it may have a part of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub blocks: Option<BlocksRow>,
    /// Whether the only copy was lost.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lost: bool,
    /// What is under way for an extent of an open volume: `idle`, `accessed`, or the name of its move.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<&'static str>,
    /// How often hosts have accessed the extent; absent if that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub accesses: Option<u32>,
    /// When the latest of these accesses was, in seconds since 1970.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_access_unix_s: Option<u64>,
}

/// What a map is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MapOf {
    /// Extents of one length, but for the last.
    #[default]
    Extents,
    /// Ranges of a log, of any length.
    LogRanges,
}

/// A part of the map.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapPart {
    /// What its entries are.
    pub of: MapOf,
    /// The entries, in the order of their offsets.
    pub rows: Vec<MapRow>,
    /// The offset on the volume at which the rest begins; `None`: this is all.
    pub next: Option<Bytes>,
}

/// Which blocks of an extent the fast device has: a character for each, in order. `#` is a block that is newer there, `+` one
/// that is the same on both devices, `.` one that only the slow device has, and `!` one that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlocksRow {
    /// The masks of the extent's place.
    pub masks: Masks,
    /// Number of blocks of an extent.
    pub count: u32,
}

impl fmt::Display for BlocksRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (0..self.count).try_for_each(|block| {
            let has = |mask: u16| mask >> block & 1 == 1;
            f.write_char(match (has(self.masks.valid()), has(self.masks.differs_from_origin())) {
                (true, true) => '#',
                (true, false) => '+',
                (false, false) => '.',
                (false, true) => '!',
            })
        })
    }
}

impl Serialize for BlocksRow {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The data that cannot be read because its device is dead, until it is written or discarded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Number of lost bytes.
    pub bytes: Bytes,
    /// The lost ranges of the volume, in order; at most as many as were requested.
    pub ranges: Vec<Range<Bytes>>,
    /// Whether there are more ranges.
    pub more: bool,
    /// Whether further data may be older than what was written and flushed, and nothing says which: the log that had it was gone
    /// before the volume was opened, and with it the map of what was newer there. Reads of it return what the primary has.
    pub unknown: bool,
}

impl Losses {
    /// Adds a range that does not precede the existing ones; at most `most` ranges are kept.
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
