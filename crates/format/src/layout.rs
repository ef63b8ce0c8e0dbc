//! The place of the metadata on each device.

use peryton_units::Bytes;

use crate::{
    block::BLOCK,
    checkpoint::Shape,
    holder::RESERVED,
    journal::{RECORD, records_per_block, room_for_names},
    places::Places,
};

/// The ring is as large as a checkpoint, within these bounds: then writing the map costs about as much as the updates
/// that led to it.
const SMALLEST_JOURNAL: u64 = 8 << 20;
const LARGEST_JOURNAL: u64 = 64 << 20;
/// On a small device the journal takes at most this share of the data, but always enough for a few commits.
const SHARE_OF_DATA: u64 = 64;
const LEAST_JOURNAL: u64 = 4 * BLOCK;
/// A volume that was resized has at least this share of the journal that it would have been formatted with.
const SHORTEST_JOURNAL: u64 = 8;
/// Data begins at a multiple of this many bytes, so that extents are aligned with flash blocks and stripes.
const DATA_ALIGNMENT: u64 = 1 << 20;

/// The place of the metadata. The order on a device is: superblock, holder, journal, checkpoint A, checkpoint B, data, a copy
/// of the superblock; on a volume that was resized the journal may be the last of the three. The sizes are the same on each device of
/// a volume with a map.
///
/// ```
/// use peryton_format::layout::MetadataLayout;
/// use peryton_units::Bytes;
///
/// // 100,000 extents, on devices with at least 8 GiB of data.
/// let layout = MetadataLayout::new(100_000, Bytes::gib(8));
/// assert_eq!(layout.journal_at(0), Bytes::kib(8), "after the superblock, and the block that says who has the volume");
/// assert_eq!(layout.checkpoint_at(0), Bytes::kib(8) + Bytes(layout.journal_bytes));
/// assert!(layout.data_at >= layout.checkpoint_at(1) + Bytes(layout.checkpoint_bytes));
/// assert_eq!(layout.device_bytes(Bytes::gib(8)), layout.data_at + Bytes::gib(8) + Bytes::kib(4));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetadataLayout {
    /// Length of the journal's ring in bytes; 0 without a map.
    pub journal_bytes: u64,
    /// Length of a checkpoint in bytes, its header included; 0 without a map.
    pub checkpoint_bytes: u64,
    /// Offset of the data.
    pub data_at: Bytes,
    /// Number of places of the fast device that have masks ([`blocks`](crate::blocks)); 0 if extents are there as a whole.
    pub masks: u32,
    /// How often the volume was resized, which is when its metadata were divided so ([`Places`]); 0 if it is as formatted.
    pub number: u32,
    /// Offset of the journal.
    pub(crate) journal_from: Bytes,
    /// Offsets of checkpoints A and B.
    pub(crate) checkpoints_from: [Bytes; 2],
}

impl MetadataLayout {
    /// The layout for a map of `entries` entries on devices with at least `data` bytes of data each.
    pub fn new(entries: u32, data: Bytes) -> MetadataLayout {
        MetadataLayout::with_masks(entries, 0, data)
    }

    /// The layout with a map of `entries` entries, and masks of `masks` places.
    pub fn with_masks(entries: u32, masks: u32, data: Bytes) -> MetadataLayout {
        let checkpoint_bytes = Self::length_of_checkpoint(entries, masks);
        let small = (data.0 / SHARE_OF_DATA).next_multiple_of(BLOCK).max(LEAST_JOURNAL);
        let journal_bytes = checkpoint_bytes.clamp(SMALLEST_JOURNAL, LARGEST_JOURNAL).min(small);
        let end = RESERVED + journal_bytes + 2 * checkpoint_bytes;
        let data_at = Bytes(end.next_multiple_of(DATA_ALIGNMENT));
        let checkpoints_from = [0, 1].map(|which| Bytes(RESERVED + journal_bytes + which * checkpoint_bytes));
        let journal_from = Bytes(RESERVED);
        MetadataLayout { journal_bytes, checkpoint_bytes, data_at, masks, number: 0, journal_from, checkpoints_from }
    }

    /// The layout of a volume that was resized, with masks of `masks` places.
    pub fn at(places: &Places, masks: u32) -> MetadataLayout {
        let Places { number, data_at, journal_at, journal_bytes, checkpoints_at, checkpoint_bytes } = *places;
        let (journal_from, checkpoints_from) = (journal_at, checkpoints_at);
        MetadataLayout { journal_bytes, checkpoint_bytes, data_at, masks, number, journal_from, checkpoints_from }
    }

    /// Divides the room before the data anew, for checkpoints as long as those of `wanted`. One of the new checkpoints must not overlap
    /// checkpoint `valid` (0: A, 1: B) of the division in force. Returns the new division and the number of that checkpoint, or `None` if
    /// there is no such division. The journal is as long as that of `wanted`, or takes the room that is left, if that suffices.
    pub fn divided(&self, valid: u64, wanted: &MetadataLayout) -> Option<(Places, u64)> {
        let (length, data_at) = (wanted.checkpoint_bytes, self.data_at);
        let journal_bytes = self.journal_beside(wanted)?;
        let number = self.number.checked_add(1)?;
        let valid = self.checkpoint_at(valid);
        let valid_to = valid + Bytes(self.checkpoint_bytes);
        // Checkpoints at the start of the room, or at its end.
        let (first, last) = (Bytes(RESERVED), data_at - Bytes(length));
        let (checkpoints_at, journal_at, which) = match () {
            () if first + Bytes(length) <= valid => ([first, first + Bytes(length)], first + Bytes(2 * length), 0),
            () if last >= valid_to => ([last - Bytes(length), last], first, 1),
            () => return None,
        };
        let places = Places { number, data_at, journal_at, journal_bytes, checkpoints_at, checkpoint_bytes: length };
        Some((places, which))
    }

    /// The length of the journal if the checkpoints become as long as those of `wanted`; `None` if too little is left.
    pub fn journal_beside(&self, wanted: &MetadataLayout) -> Option<u64> {
        let room = self.data_at.0.checked_sub(RESERVED)?;
        let left = room.checked_sub(wanted.checkpoint_bytes.checked_mul(2)?)?;
        (left >= wanted.least_journal()).then_some(left.min(wanted.journal_bytes))
    }

    /// Whether a checkpoint has room for this many entries, and the masks.
    pub fn has_room(&self, entries: u32) -> bool {
        self.checkpoint_bytes >= Self::length_of_checkpoint(entries, self.masks)
    }

    fn length_of_checkpoint(entries: u32, masks: u32) -> u64 {
        Shape { entries, masks }.bytes()
    }

    /// The shortest journal that does for this one: a shorter ring is full sooner, and the map is written out more often.
    fn least_journal(&self) -> u64 {
        (self.journal_bytes / SHORTEST_JOURNAL).next_multiple_of(BLOCK).max(LEAST_JOURNAL)
    }

    /// The layout without a map: only superblocks.
    pub fn bare() -> MetadataLayout {
        MetadataLayout {
            journal_bytes: 0,
            checkpoint_bytes: 0,
            data_at: Bytes(DATA_ALIGNMENT),
            masks: 0,
            number: 0,
            journal_from: Bytes(RESERVED),
            checkpoints_from: [Bytes(RESERVED); 2],
        }
    }

    /// Bytes of a record in the journal.
    pub(crate) fn record_bytes(&self) -> usize {
        if self.masks > 0 { RECORD + 4 } else { RECORD }
    }

    /// Number of records in a block of a commit.
    pub fn records_per_block(&self) -> u64 {
        records_per_block(self.record_bytes())
    }

    /// Bytes of the ring that a commit with this many records takes.
    pub fn commit_bytes(&self, records: u64) -> u64 {
        records.div_ceil(self.records_per_block()) * BLOCK
    }

    /// For how many names there is room behind the records of such a commit ([`name_regions`](crate::journal::name_regions)).
    pub fn names_behind(&self, records: u64) -> usize {
        let last = records - records.saturating_sub(1) / self.records_per_block() * self.records_per_block();
        if records == 0 { 0 } else { room_for_names(last as usize * self.record_bytes()) }
    }

    /// The size that a device needs for `data` bytes of data.
    pub fn device_bytes(&self, data: Bytes) -> Bytes {
        self.data_at + data + Bytes(BLOCK)
    }

    /// The offset on the device of byte `used` of the journal's ring.
    pub fn journal_at(&self, used: u64) -> Bytes {
        self.journal_from + Bytes(used)
    }

    /// The offset of checkpoint A (0) or B (1).
    pub fn checkpoint_at(&self, which: u64) -> Bytes {
        self.checkpoints_from[usize::from(which > 0)]
    }
}
