//! A change of the map as a value: it is recorded, or the reason is named why it need not be.

/// The state of an extent has changed. Only [`CacheDrive::record`](crate::cache::drive::CacheDrive::record) and
/// [`Changed::needs_no_record`] take it, so no change is forgotten, and none is recorded twice.
#[must_use = "a change of the map is recorded, or it is said why that is not needed"]
#[derive(Debug)]
pub(in crate::cache) struct Changed(u32);

/// Why a change need not be recorded by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cache) enum NoRecord {
    /// The next step drops the copy, or gives the extent another place, and that change is recorded.
    GivenUpNext,
    /// As long as a device is gone, the durable entry means the same.
    MeansTheSame,
    /// The place has no block of the extent yet. The place is recorded when it has one.
    NothingThereYet,
    /// The whole map is written out before any answer depends on the change.
    WholeMap,
    /// A mistake that is made on purpose.
    Mistake,
}

impl Changed {
    pub(super) fn of(extent: u32) -> Changed {
        Changed(extent)
    }

    /// Joins a further change of the same extent: one record covers both, because it is the state of the extent.
    pub(in crate::cache) fn and(self, further: Changed) -> Changed {
        debug_assert_eq!(self.0, further.0, "one record is of one extent");
        self
    }

    /// The change is not recorded, for this reason.
    pub(in crate::cache) fn needs_no_record(self, _why: NoRecord) {}

    /// The extent, for the record.
    pub(in crate::cache) fn into_record(self) -> u32 {
        self.0
    }
}
