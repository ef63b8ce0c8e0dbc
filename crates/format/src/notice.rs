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
}
