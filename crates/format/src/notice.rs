//! What the metadata on one device records about the other one, so that the slow device can be used without the fast one.

/// What a checkpoint or a commit records about the devices. Needed when one of them is missing, or returns; and
/// `slow_current` decides after a power loss whether clean copies count, and whether a gap in the journal is harmless.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// Caching: whether no copy on the fast device is newer than the slow device. Before a copy becomes newer, a later
    /// notice withdraws this.
    pub slow_current: bool,
    /// Caching: whether later commits may be on the fast device alone. The slow device still gets each commit that makes an
    /// extent of a further region newer on the fast device. The metadata of the slow device therefore name all data that may be newer
    /// on the fast one.
    pub write_intent: bool,
}

impl Notice {
    /// The bits of a checkpoint's header and of a block of a commit.
    pub(crate) fn word(self) -> u32 {
        u32::from(self.slow_current) | u32::from(self.write_intent) << 1
    }

    pub(crate) fn of_word(word: u32) -> Notice {
        let has = |bit: u32| word >> bit & 1 != 0;
        Notice { slow_current: has(0), write_intent: has(1) }
    }
}
