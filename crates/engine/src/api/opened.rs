//! The input of formatting a volume, and the result of opening it.

/// The properties of a new volume.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Formatting {
    /// A random identity.
    pub volume: VolumeId,
    /// The current time, in seconds since 1970.
    pub unix_s: u64,
    /// Whether all devices read as zeros where data goes. If not, places are zeroed before they are first used.
    pub zeroed: bool,
    /// The driver's notes, at most 3,584 bytes.
    pub notes: String,
}

/// Which device is right if another program wrote to one of them after the volume was closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// Unknown: the volume is not opened.
    #[default]
    None,
    /// The slow device: all copies in the cache are dropped, including those that were not written back (caching).
    Slow,
    /// All devices as they are; copies in the cache count as newer, and data of a log whose checksums are gone counts as whole.
    AsItIs,
}

/// The state of a volume when it was opened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Opened {
    /// The volume's identity.
    pub volume: VolumeId,
    /// How often it has been opened, this time included.
    pub generation: u64,
    /// Whether it had been closed in good order; otherwise it was recovered.
    pub clean: bool,
    /// Number of commits that were replayed from the journal.
    pub commits: u64,
    /// What is known of devices that are given up with this opening.
    pub given_up: GivenUp,
    /// Number of extents with a place (tiering) or a copy in the cache, or of blocks whose newest copy is in the log.
    pub mapped: u64,
    /// How many of those in a cache or log have to be written back.
    pub dirty: u64,
    /// How many of them are lost.
    pub lost: u64,
    /// Whether more may be lost, and nothing says what ([`Losses::unknown`](crate::Losses::unknown)).
    pub is_loss_unknown: bool,
    /// Number of damaged metadata blocks that were restored from their copies.
    pub repaired: u64,
    /// Records of a server that was killed, which were in memory and nowhere else; `None` if there were none to take over.
    pub taken_over: Option<u64>,
    /// From where on nothing was ever written since the volume was formatted, if that is known. With tiering the map says it.
    pub written_to: Option<Bytes>,
    /// The devices that the volume was opened without, one bit each.
    pub gone: u32,
    /// Those of them that were evacuated: they held nothing that the others lack.
    pub evacuated: u32,
    /// The driver's notes.
    pub notes: String,
}
use peryton_format::superblock::{GivenUp, VolumeId};
use peryton_units::Bytes;
