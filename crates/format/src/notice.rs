//! What the metadata on the slow device records about the fast one, so that the slow device can be used without it.

/// What a checkpoint or a commit on the slow device records about later commits. Only needed when the volume is opened
/// without the fast device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// Whether later commits may be on the fast device alone.
    pub alone: bool,
    /// Caching: whether no copy on the fast device is newer than the slow device. Before a copy becomes newer, a later
    /// notice withdraws this.
    pub home: bool,
    /// Caching, with `alone`: whether a later commit goes to the slow device as well before it says that an extent is newer on the
    /// fast device of which the slow device's metadata does not say so yet. So the slow device alone shows which extents may be.
    pub named: bool,
}

impl Notice {
    /// The bits of a checkpoint's header. Versions of Peryton that do not know `named`, or not that commits have further names, do not
    /// look at its bit, and take the slow device for one that shows nothing.
    pub(crate) fn word(self) -> u32 {
        u32::from(self.alone) | u32::from(self.home) << 1 | u32::from(self.named) << 3
    }

    pub(crate) fn of_word(word: u32) -> Notice {
        let has = |bit: u32| word >> bit & 1 != 0;
        Notice { alone: has(0), home: has(1), named: has(2) || has(3) }
    }

    /// Whether the slow device shows which extents the fast one may have newer data of.
    pub fn shows_newer(self) -> bool {
        !self.alone || self.named
    }
}
