//! The primaries of a log: the part of the volume that each has, and which of them are gone. The entries of the map, the records of commits
//! and the writes of a migration lie within one part each, so one primary can go while the others stay.

use peryton_format::{layout::MetadataLayout, log::layout::LogLayout};
use peryton_units::Bytes;

use crate::api::command::DeviceId;

/// A primary, and the part of the volume that it has.
#[derive(Clone, Copy, Debug)]
pub(in crate::log) struct Primary {
    pub(in crate::log) device: DeviceId,
    pub(in crate::log) from: u64,
    pub(in crate::log) to: u64,
    pub(in crate::log) gone: bool,
}

#[derive(Debug)]
pub(in crate::log) struct LogPrimaries(Vec<Primary>);

impl LogPrimaries {
    pub(in crate::log) fn new(layout: &LogLayout) -> LogPrimaries {
        let parts = layout.primaries();
        LogPrimaries(
            parts
                .map(|(device, range)| Primary { device, from: range.start.0, to: range.end.0, gone: false })
                .collect(),
        )
    }

    pub(in crate::log) fn iter(&self) -> impl Iterator<Item = &Primary> {
        self.0.iter()
    }

    /// The primary that has this byte of the volume.
    #[inline]
    pub(in crate::log) fn of(&self, offset: u64) -> &Primary {
        &self.0[self.0.partition_point(|primary| primary.to <= offset)]
    }

    /// Where a byte of the volume is on its primary. The first byte of a part is deliberately not byte 0 of its device: the primary alone
    /// must not look like a file system while the log holds newer data.
    #[inline]
    pub(in crate::log) fn place_of(&self, offset: u64) -> (DeviceId, Bytes) {
        let primary = self.of(offset);
        (primary.device, MetadataLayout::bare().data_at + Bytes(offset - primary.from))
    }

    /// Whether a part begins here that is not the first, so that what comes before is on another device.
    #[inline]
    pub(in crate::log) fn begins(&self, offset: u64) -> bool {
        self.0.len() > 1 && offset > 0 && self.of(offset).from == offset
    }

    /// Whether the primary of this byte is gone.
    #[inline]
    pub(in crate::log) fn is_gone(&self, offset: u64) -> bool {
        self.of(offset).gone
    }

    pub(in crate::log) fn has(&self, device: DeviceId) -> bool {
        self.iter().any(|primary| primary.device == device)
    }

    pub(in crate::log) fn mark_gone(&mut self, device: DeviceId) {
        self.0.iter_mut().filter(|primary| primary.device == device).for_each(|primary| primary.gone = true);
    }

    #[inline]
    pub(in crate::log) fn any_gone(&self) -> bool {
        self.iter().any(|primary| primary.gone)
    }

    #[inline]
    pub(in crate::log) fn all_gone(&self) -> bool {
        self.iter().all(|primary| primary.gone)
    }

    /// Whether the range is not empty and lies in the part of one primary.
    pub(in crate::log) fn hold(&self, offset: u64, len: u64) -> bool {
        let end = offset.checked_add(len);
        self.iter()
            .any(|primary| primary.from <= offset && offset < primary.to && end.is_some_and(|end| end <= primary.to))
    }

    /// Whether any of this range belongs to a primary that is gone.
    pub(in crate::log) fn has_gone(&self, from: u64, to: u64) -> bool {
        self.iter().any(|primary| primary.gone && primary.from < to && from < primary.to)
    }
}
