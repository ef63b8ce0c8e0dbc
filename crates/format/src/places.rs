//! Offsets of the metadata of a volume that was resized. Its map has another length than at formatting, and the data stays in place, so
//! the room before the data is divided anew.

use peryton_units::Bytes;

use crate::holder::RESERVED;

/// Number of words in a superblock.
pub(crate) const WORDS: usize = 7;
/// The unit of all metadata.
const BLOCK: u64 = 4096;

/// The division of the room before the data, on each device of a volume with a map.
///
/// ```
/// use peryton_format::layout::MetadataLayout;
/// use peryton_units::Bytes;
///
/// // The map is to have 150,000 entries in place of 100,000.
/// let before = MetadataLayout::new(100_000, Bytes::gib(8));
/// let larger = MetadataLayout::new(150_000, Bytes::gib(8));
/// // Checkpoint B is valid: the new one must not overwrite it.
/// let (places, which) = before.divided(1, &larger).expect("the journal is shorter then");
/// assert_eq!(places.data_at, before.data_at, "the data stay where they are");
/// let after = MetadataLayout::at(&places, 0);
/// assert!(after.checkpoint_at(which) + Bytes(after.checkpoint_bytes) <= before.checkpoint_at(1));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// How often the volume was resized. Checkpoints of another number do not count.
    pub number: u32,
    /// Offset of the data.
    pub data_at: Bytes,
    /// Offset and length of the journal's ring.
    pub journal_at: Bytes,
    /// The length of the ring.
    pub journal_bytes: u64,
    /// Offsets of checkpoints A and B.
    pub checkpoints_at: [Bytes; 2],
    /// The length of each.
    pub checkpoint_bytes: u64,
}

impl Places {
    /// The division in words, in units of blocks.
    pub(crate) fn words(&self) -> [u32; WORDS] {
        let Places { number, data_at, journal_at, journal_bytes, checkpoints_at: [a, b], checkpoint_bytes } = *self;
        let blocks = |bytes: u64| u32::try_from(bytes / BLOCK).expect("metadata lie in the first 16 TiB");
        let [data_at, journal_at, a, b] = [data_at, journal_at, a, b].map(|at| blocks(at.0));
        [number, data_at, journal_at, blocks(journal_bytes), a, b, blocks(checkpoint_bytes)]
    }

    /// The division that words describe; `None` if it is impossible.
    pub(crate) fn of_words(words: [u32; WORDS]) -> Option<Places> {
        let bytes = |index: usize| u64::from(words[index]) * BLOCK;
        let places = Places {
            number: words[0],
            data_at: Bytes(bytes(1)),
            journal_at: Bytes(bytes(2)),
            journal_bytes: bytes(3),
            checkpoints_at: [Bytes(bytes(4)), Bytes(bytes(5))],
            checkpoint_bytes: bytes(6),
        };
        places.is_possible().then_some(places)
    }

    /// Whether the parts lie before the data, and not one over the other.
    fn is_possible(&self) -> bool {
        let Places { number, data_at, journal_at, journal_bytes, checkpoints_at: [a, b], checkpoint_bytes } = *self;
        let mut parts = [(journal_at.0, journal_bytes), (a.0, checkpoint_bytes), (b.0, checkpoint_bytes)];
        parts.sort_unstable();
        let mut from = RESERVED;
        let follows = parts.into_iter().all(|(at, len)| {
            let is_free = at >= from && len >= BLOCK;
            from = at + len;
            is_free
        });
        number > 0 && follows && from <= data_at.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::{
        block::{Kind, put_u32, seal},
        geometry::{Geometry, Hybrid, Placement},
        layout::MetadataLayout,
        storage::DeviceId,
        superblock::{Superblock, Unreadable, VolumeId},
    };

    /// A superblock of a volume that was resized, as it is and with these words in place of its own.
    fn superblock(words: Option<[u32; WORDS]>) -> Result<Superblock, Unreadable> {
        let layout = MetadataLayout::new(1_000, Bytes::gib(1));
        let (places, _) = layout.divided(1, &MetadataLayout::new(2_000, Bytes::gib(1))).expect("there is room");
        let pair = Hybrid { fast: DeviceId(0), slow: DeviceId(1), extent: Bytes::mib(1) };
        let volume = VolumeId(7);
        let (devices, placement) = (vec![Bytes::gib(1), Bytes::gib(2)], Placement::Caching(pair));
        let geometry = Geometry { devices, placement, spare: 128, displaced: None, places: Some(places) };
        let written = Superblock::new(volume, geometry);
        let mut block = written.encode();
        for (index, word) in words.into_iter().flatten().enumerate() {
            put_u32(&mut block, 480 + index * 4, word);
        }
        seal(&mut block, Kind::Superblock, volume);
        let read = Superblock::decode(&block);
        assert!(words.is_some() || read.as_ref() == Ok(&written), "{read:?}");
        read
    }

    #[test]
    fn a_volume_that_was_resized_says_where_its_metadata_lie() {
        let read = superblock(None).expect("it is as it was written");
        assert!(read.to_string().contains("resized while the volume was served: 1 times"), "{read}");
    }

    #[test]
    fn parts_that_lie_over_one_another_or_over_the_data_are_damage() {
        for words in [
            [0, 256, 2, 8, 10, 13, 3],
            [1, 256, 1, 8, 10, 13, 3],
            [1, 256, 2, 8, 9, 13, 3],
            [1, 256, 2, 8, 10, 12, 3],
            [1, 15, 2, 8, 10, 13, 3],
            [1, 256, 2, 0, 10, 13, 3],
            [1, 256, 2, 8, 10, 13, 0],
            [u32::MAX; WORDS],
        ] {
            assert_eq!(superblock(Some(words)), Err(Unreadable::Damaged), "{words:?}");
        }
        assert!(superblock(Some([1, 256, 2, 8, 10, 13, 3])).is_ok());
    }

    proptest! {
        /// The fear: of many resizes one overwrites the checkpoint that is in force, or divides the room so that the next one cannot.
        #[test]
        fn no_division_overwrites_the_valid_checkpoint(
            extents in 1_u32..200_000,
            steps in prop::collection::vec((1_u32..300_000, 0_u64..2), 1..20),
        ) {
            let mut now = MetadataLayout::new(extents, Bytes::gib(64));
            for (wanted, valid) in steps {
                let wanted = MetadataLayout::new(wanted, Bytes::gib(64));
                let found = [valid, 1 - valid].into_iter().find_map(|valid| Some((valid, now.divided(valid, &wanted)?)));
                prop_assert_eq!(found.is_some(), now.journal_beside(&wanted).is_some());
                let Some((valid, (places, which))) = found else { continue };
                prop_assert!(places.is_possible());
                prop_assert_eq!(Places::of_words(places.words()), Some(places));
                let after = MetadataLayout::at(&places, 0);
                let (old, new) = (now.checkpoint_at(valid), after.checkpoint_at(which));
                prop_assert!(new + Bytes(after.checkpoint_bytes) <= old || old + Bytes(now.checkpoint_bytes) <= new);
                now = after;
            }
        }
    }
}
