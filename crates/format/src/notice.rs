//! What the metadata on the slow device records about the fast one, so that the slow device can be used without it.

/// What a checkpoint or a commit on the slow device records about later commits. Only needed when the volume is opened
/// without the fast device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// Caching: whether no copy on the fast device is newer than the slow device. Before a copy becomes newer, a later
    /// notice withdraws this.
    pub slow_current: bool,
    /// Caching: whether later commits may be on the fast device alone. The slow device still gets each commit that makes a further extent
    /// newer on the fast device. Its own metadata therefore names every extent that may be newer there.
    pub write_intent: bool,
}

impl Notice {
    /// The bits of a checkpoint's header.
    pub(crate) fn word(self) -> u32 {
        u32::from(self.slow_current) | u32::from(self.write_intent) << 1
    }

    pub(crate) fn of_word(word: u32) -> Notice {
        let has = |bit: u32| word >> bit & 1 != 0;
        Notice { slow_current: has(0), write_intent: has(1) }
    }
}
