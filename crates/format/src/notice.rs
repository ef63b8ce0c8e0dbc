//! What the metadata on the slow device says about the fast one, so that the slow device can be used without it.

/// What a checkpoint or a commit on the slow device says about what follows it. Only who opens the volume without the
/// fast device needs it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Notice {
    /// Later commits may be on the fast device alone.
    pub alone: bool,
    /// Caching: no copy on the fast device is newer than the slow device. Before one becomes newer, a later notice takes
    /// this back.
    pub home: bool,
}
