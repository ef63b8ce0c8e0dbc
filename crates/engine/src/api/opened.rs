//! What a volume is given when it is formatted, and what is found when it is opened.

/// What a new volume is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Formatting {
    /// A random name.
    pub volume: VolumeId,
    /// Now, in seconds since 1970.
    pub unix_s: u64,
    /// All devices read as zeros where data goes. Otherwise places are zeroed before they are first used.
    pub zeroed: bool,
    /// A text kept for the driver, at most 3,584 bytes.
    pub notes: String,
}

/// Which device is right where another program wrote to one after the volume was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// It is not known: the volume is not opened.
    #[default]
    Nobody,
    /// The slow device: copies in the cache are given up, those that had not been written back as well (caching).
    Slow,
    /// The volume as it is on its devices, copies in the cache first.
    AsItIs,
}

/// What was found when a volume was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The volume's name.
    pub volume: VolumeId,
    /// How often it was opened, this time included.
    pub generation: u64,
    /// It was closed in good order; otherwise it was recovered.
    pub clean: bool,
    /// Commits that were replayed from the journal.
    pub commits: u64,
    /// Extents with a place (tiering) or a copy in the cache; blocks whose newest copy is in the log.
    pub mapped: u64,
    /// Those of the cache, or the log, that have to be written back.
    pub dirty: u64,
    /// Those whose only copy was lost.
    pub lost: u64,
    /// Metadata that was found damaged and was made good from its copy.
    pub repaired: u64,
    /// Devices that the volume was opened without, a bit each.
    pub gone: u32,
    /// The driver's text.
    pub notes: String,
}
use peryton_format::superblock::VolumeId;
