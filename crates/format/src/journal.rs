//! Commits in the journal's ring. Each commit is a run of blocks with one number, and is valid only if all of them are.
//!
//! Commits are numbered without gaps (except at each opening, closing and fencing), and one is written only when the one before is durable. So the valid commits
//! after a checkpoint are an unbroken chain, and only its last link may be torn. As long as no copy was ever newer than its
//! origin, the slow device's ring may lack commits: they are not flushed there.

use crate::{
    block::{
        BLOCK, BLOCK_LEN, Kind, MOST_NUMBERS, get_u32, get_u64, has_kind, is_mislabelled, is_sealed, put_u32, put_u64,
        seal,
    },
    blocks::Masks,
    entry::MapEntry,
    layout::MetadataLayout,
    mutation::{self, Mutation},
    notice::Notice,
    storage::{DeviceError, DeviceId, Storage, read_blocks},
    superblock::VolumeId,
};

const HEADER: usize = 32;
pub(crate) const RECORD: usize = 8;

pub(crate) const fn records_per_block(record: usize) -> u64 {
    ((BLOCK_LEN - HEADER) / record) as u64
}

/// Set in the count of a commit that is written and flushed on both devices.
const MIRRORED: u32 = 1 << 31;
/// Where the bits of the commit's [`Notice`] begin. With a write intent, the last block has names of regions behind its records
/// ([`name_regions`]).
const NOTICE_SHIFT: u32 = 28;
const COUNT: u32 = (1 << NOTICE_SHIFT) - 1;
/// Bytes of the name of a region. The count of names has the same length.
const NAME: usize = 4;

/// A record of a commit: the new state of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapRecord {
    /// The extent.
    pub extent: u32,
    /// Its map entry.
    pub entry: MapEntry,
    /// The masks of the place that the entry names; empty if the places of the volume have none.
    pub masks: Masks,
}

impl MapRecord {
    /// A record of an extent that is in its place as a whole, or in none.
    pub fn new(extent: u32, entry: MapEntry) -> MapRecord {
        MapRecord { extent, entry, masks: Masks::default() }
    }

    /// Applies the record to a map; `None` if the map has no such extent. The masks of a place that does not exist are ignored: the entry that
    /// names it is refused when the map is used.
    pub fn apply(&self, entries: &mut [MapEntry], masks: &mut [Masks]) -> Option<()> {
        *entries.get_mut(self.extent as usize)? = self.entry;
        if let Some(masks) = self.entry.place().and_then(|place| masks.get_mut(place.0 as usize)) {
            *masks = self.masks;
        }
        Some(())
    }
}

/// The information about a commit in each of its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommitLabel {
    /// The number of the commit. Numbers have no gaps, except one at each opening, closing and fencing.
    pub number: u64,
    /// A failed commit is repeated with the same number; this counts the attempts.
    pub attempt: u32,
    /// Whether the commit is written and flushed on both devices.
    pub mirrored: bool,
    /// What the slow device's copy records about the commits that follow.
    pub notice: Notice,
}

/// Encodes a whole commit; `into` must be [`MetadataLayout::commit_bytes`] long.
pub fn encode(
    mut records: impl ExactSizeIterator<Item = MapRecord>,
    label: &CommitLabel,
    (layout, volume): (&MetadataLayout, VolumeId),
    into: &mut [u8],
) {
    let (size, per_block) = (layout.record_bytes(), layout.records_per_block());
    let CommitLabel { number, attempt, mirrored, notice } = *label;
    let count = records.len();
    let blocks = into.len() / BLOCK_LEN;
    debug_assert_eq!(into.len() as u64, (count as u64).div_ceil(per_block) * BLOCK);
    for (index, block) in into.chunks_exact_mut(BLOCK_LEN).enumerate() {
        block.fill(0);
        let here = per_block.min((count - index * per_block as usize) as u64);
        put_u64(block, 8, number);
        put_u32(block, 16, index as u32);
        put_u32(block, 20, blocks as u32);
        let flags = notice.word() << NOTICE_SHIFT | if mirrored { MIRRORED } else { 0 };
        put_u32(block, 24, here as u32 | flags);
        put_u32(block, 28, attempt);
        for (slot, MapRecord { extent, entry, masks }) in records.by_ref().take(here as usize).enumerate() {
            let at = HEADER + slot * size;
            put_u32(block, at, extent);
            put_u32(block, at + 4, entry.word());
            if size > RECORD {
                put_u32(block, at + RECORD, masks.word());
            }
        }
        seal(block, Kind::Journal, volume);
    }
}

/// Writes names of regions into an encoded commit. The slow device's metadata then says that every extent of these
/// [`regions`](crate::regions) may be newer on the fast device until the next checkpoint. There may be no more of them than
/// [`MetadataLayout::names_behind`] says. They are at the end of the last block: their number in its last word, and the names before it.
pub fn name_regions(names: &[u32], volume: VolumeId, commit: &mut [u8]) {
    let Some(from) = commit.len().checked_sub(BLOCK_LEN).filter(|_| !names.is_empty()) else { return };
    let block = &mut commit[from..];
    let words = std::iter::once(names.len() as u32).chain(names.iter().copied());
    for (at, word) in (0..BLOCK_LEN).rev().skip(NAME - 1).step_by(NAME).zip(words) {
        put_u32(block, at, word);
    }
    seal(block, Kind::Journal, volume);
}

/// The names at the end of the last block of a commit, behind this many bytes of records; `None` if their count exceeds the room.
fn names_in(block: &[u8], records: usize) -> Option<Vec<u32>> {
    if (BLOCK_LEN - HEADER).checked_sub(records)? < NAME {
        return Some(Vec::new());
    }
    let count = get_u32(block, BLOCK_LEN - NAME) as usize;
    if count > room_for_names(records) {
        return None;
    }
    Some((2..count + 2).map(|back| get_u32(block, BLOCK_LEN - back * NAME)).collect())
}

/// The most names for which there is room behind this many bytes of records.
pub(crate) fn room_for_names(records: usize) -> usize {
    ((BLOCK_LEN - HEADER).saturating_sub(records) / NAME).saturating_sub(1)
}

/// The header of a valid block of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BlockHeader {
    label: CommitLabel,
    /// The index of this block in the commit, and the number of blocks.
    index: u32,
    blocks: u32,
    /// Number of records in the block.
    count: u32,
}

fn block_header(block: &[u8], most: u64, volume: VolumeId) -> Option<BlockHeader> {
    if !is_sealed(block, Kind::Journal, volume) {
        return None;
    }
    let word = get_u32(block, 24);
    let label = CommitLabel {
        number: get_u64(block, 8),
        attempt: get_u32(block, 28),
        mirrored: word & MIRRORED != 0,
        notice: Notice::of_word(word >> NOTICE_SHIFT),
    };
    let header = BlockHeader { label, index: get_u32(block, 16), blocks: get_u32(block, 20), count: word & COUNT };
    let possible =
        u64::from(header.count) <= most && header.index < header.blocks && header.label.number < MOST_NUMBERS;
    possible.then_some(header)
}

/// A device's copy of the ring in memory.
///
/// ```
/// use peryton_format::{
///     entry::{MapEntry, Place},
///     journal::{self, CommitLabel, JournalRing, MapRecord},
///     layout::MetadataLayout,
///     notice::Notice,
///     storage::{DeviceError, DeviceId, Storage},
///     superblock::VolumeId,
/// };
/// use peryton_units::Bytes;
///
/// let (volume, layout) = (VolumeId(1), MetadataLayout::new(8, Bytes::mib(1)));
/// let mut devices = vec![vec![0; layout.device_bytes(Bytes::mib(1)).0 as usize]];
/// // Commit 1 says that extent 5 is now in place 2, and is newer there than on the slow device.
/// let change = MapRecord::new(5, MapEntry::new(Some(Place(2)), true, false));
/// let label = CommitLabel { number: 1, attempt: 0, mirrored: false, notice: Notice::default() };
/// let mut blocks = vec![0; layout.commit_bytes(1) as usize];
/// journal::encode([change].into_iter(), &label, (&layout, volume), &mut blocks);
/// devices.write(DeviceId(0), layout.journal_at(0), &blocks)?;
///
/// let ring = JournalRing::read(&mut devices, DeviceId(0), &layout, volume)?;
/// let commit = ring.find(1, 0).expect("it is complete");
/// assert_eq!((commit.records, ring.newest(), ring.damaged_blocks()), (vec![change], 1, 0));
/// assert_eq!(ring.find(2, commit.next), None, "there is no later one");
/// # Ok::<(), DeviceError>(())
/// ```
pub struct JournalRing {
    bytes: Vec<u8>,
    volume: VolumeId,
    /// The length of a record.
    record: usize,
    /// The header of each valid block.
    headers: Vec<Option<BlockHeader>>,
    damaged_blocks: u64,
}

/// A commit found in the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FoundCommit {
    /// The changes of the commit.
    pub records: Vec<MapRecord>,
    /// Regions whose extents may be newer on the fast device from this commit to the next checkpoint.
    pub regions: Vec<u32>,
    attempt: u32,
    /// Place of the next commit, unless the ring wraps.
    pub next: u64,
}

impl JournalRing {
    /// Reads the whole ring. An unreadable block counts as damaged.
    ///
    /// # Errors
    ///
    /// The device could not read any block of the ring.
    pub fn read(
        storage: &mut dyn Storage,
        device: DeviceId,
        layout: &MetadataLayout,
        volume: VolumeId,
    ) -> Result<JournalRing, DeviceError> {
        let mut bytes = Vec::with_capacity(layout.journal_bytes as usize);
        let (mut headers, mut damaged_blocks, mut readable) = (Vec::new(), 0, layout.journal_bytes == 0);
        read_blocks(storage, device, layout.journal_at(0), layout.journal_bytes, |_, block| {
            readable |= block.is_some();
            let header = block.and_then(|block| block_header(block, layout.records_per_block(), volume));
            let damaged = |block: &[u8]| has_kind(block, Kind::Journal) || is_mislabelled(block, Kind::Journal, volume);
            damaged_blocks += u64::from(header.is_none() && block.is_none_or(damaged));
            headers.push(header);
            bytes.extend_from_slice(block.unwrap_or(&[0; BLOCK_LEN]));
        });
        if !readable {
            return Err(DeviceError);
        }
        Ok(JournalRing { bytes, volume, record: layout.record_bytes(), headers, damaged_blocks })
    }

    /// Number of blocks that cannot be read, or are damaged blocks of the journal.
    pub fn damaged_blocks(&self) -> u64 {
        self.damaged_blocks
    }

    /// The last complete attempt of commit `number`, which begins at `at`, or at the start of the ring if it did not
    /// fit there; `None` if no attempt is complete.
    pub fn find(&self, number: u64, at: u64) -> Option<FoundCommit> {
        let here = self.commit_at(number, at);
        let wrapped = if at == 0 { None } else { self.commit_at(number, 0) };
        match (here, wrapped) {
            (Some(here), Some(wrapped)) => Some(if wrapped.attempt > here.attempt { wrapped } else { here }),
            (here, wrapped) => here.or(wrapped),
        }
    }

    fn commit_at(&self, number: u64, at: u64) -> Option<FoundCommit> {
        let first = usize::try_from(at / BLOCK).ok()?;
        let head = (*self.headers.get(first)?)?;
        let headers = self.headers.get(first..first.checked_add(head.blocks as usize)?)?;
        let (mut records, mut regions) = (Vec::new(), Vec::new());
        for (index, header) in headers.iter().enumerate() {
            let header = (*header)?;
            let same = BlockHeader { index: index as u32, count: header.count, ..head };
            if header != same || header.label.number != number {
                return None;
            }
            let block = &self.bytes[(first + index) * BLOCK_LEN..][..BLOCK_LEN];
            debug_assert!(is_sealed(block, Kind::Journal, self.volume));
            for slot in 0..header.count as usize {
                let at = HEADER + slot * self.record;
                let (extent, entry) = (get_u32(block, at), MapEntry::from_word(get_u32(block, at + 4)));
                let masks = if self.record > RECORD { get_u32(block, at + RECORD) } else { 0 };
                records.push(MapRecord { extent, entry, masks: Masks::from_word(masks) });
            }
            if header.label.notice.write_intent && index + 1 == headers.len() {
                regions = names_in(block, header.count as usize * self.record)?;
            }
        }
        let next = at + headers.len() as u64 * BLOCK;
        Some(FoundCommit { records, regions, attempt: head.label.attempt, next })
    }

    /// The last complete attempts of the commits in this ring that are numbered `first` and above, in their order. There may be gaps.
    pub fn complete_since(&self, first: u64) -> Vec<FoundCommit> {
        let begins = self.headers.iter().zip((0..).step_by(BLOCK_LEN));
        let begins = begins.filter_map(|(header, at)| Some(((*header)?, at)));
        let begins = begins.filter(|(header, _)| header.index == 0 && header.label.number >= first);
        let mut found: Vec<_> = begins
            .filter_map(|(header, at)| Some((header.label.number, self.commit_at(header.label.number, at)?)))
            .collect();
        // Of several attempts at one number, the last comes first and the others are removed.
        found.sort_by_key(|(number, commit)| (*number, std::cmp::Reverse(commit.attempt)));
        found.dedup_by_key(|(number, _)| *number);
        found.into_iter().map(|(_, commit)| commit).collect()
    }

    /// The newest commit in this ring that was written to both devices, among those numbered up to `last`.
    pub fn newest_mirrored(&self, last: u64) -> Option<u64> {
        let mirrored =
            self.headers.iter().flatten().filter(|header| header.label.mirrored && header.label.number <= last);
        mirrored.map(|header| header.label.number).max()
    }

    /// The label of the newest commit in this ring, among those numbered `first` and above.
    pub fn newest_since(&self, first: u64) -> Option<CommitLabel> {
        let since = self.headers.iter().flatten().map(|header| header.label).filter(|label| label.number >= first);
        since.max_by_key(|label| (label.number, label.attempt))
    }

    /// The highest number of any valid block.
    pub fn newest(&self) -> u64 {
        self.headers.iter().flatten().map(|header| header.label.number).max().unwrap_or(0)
    }
}

/// The result of reading the journals after a checkpoint.
#[derive(Debug, Default)]
pub struct Replayed {
    /// The records, in the order in which they have to be applied.
    pub records: Vec<MapRecord>,
    /// The number that follows the last commit.
    pub next_commit: u64,
    /// Place in the ring where that commit would begin.
    pub next: u64,
    /// For each ring, the number of the last commit of the chain that it has.
    pub last: Vec<u64>,
    /// Whether a later commit exists although no ring has the one before it.
    pub broken: bool,
}

/// Follows the chain of commits from commit `first`, which begins at `at`. Takes each commit from the ring that has its
/// last attempt.
pub fn replay(rings: &[Option<JournalRing>], first: u64, at: u64) -> Replayed {
    let mut replayed = Replayed {
        next_commit: first,
        next: at,
        last: vec![first.saturating_sub(1); rings.len()],
        ..Replayed::default()
    };
    let mut last_len = 0;
    loop {
        let mut best: Option<FoundCommit> = None;
        for (ring, last) in rings.iter().zip(&mut replayed.last) {
            let Some(found) = ring.as_ref().and_then(|ring| ring.find(replayed.next_commit, replayed.next)) else {
                continue;
            };
            *last = replayed.next_commit;
            if best.as_ref().is_none_or(|best| found.attempt > best.attempt) {
                best = Some(found);
            }
        }
        let Some(found) = best else { break };
        last_len = found.records.len();
        replayed.records.extend(found.records);
        replayed.next = found.next;
        replayed.next_commit += 1;
    }
    if mutation::is(Mutation::ReplayOneLess) {
        replayed.records.truncate(replayed.records.len() - last_len);
    }
    if mutation::is(Mutation::ReplayBackwards) {
        replayed.records.reverse();
    }
    if mutation::is(Mutation::IgnoreJournal) {
        replayed.records.clear();
    }
    // The commit after the newest may be torn; if a still later one exists, a commit between is lost.
    replayed.broken = rings.iter().flatten().any(|ring| ring.newest() > replayed.next_commit);
    replayed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::entry::Place;

    const VOLUME: VolumeId = VolumeId(5);
    const RING: u64 = 64 << 10;

    type Memory = Vec<Vec<u8>>;

    fn layout() -> MetadataLayout {
        MetadataLayout { journal_bytes: RING, ..MetadataLayout::bare() }
    }

    fn put(memory: &mut Memory, at: u64, number: u64, attempt: u32, records: &[MapRecord]) {
        let mut bytes = vec![0; layout().commit_bytes(records.len() as u64) as usize];
        let notice = Notice { write_intent: true, ..Notice::default() };
        let label = CommitLabel { number, attempt, mirrored: true, notice };
        encode(records.iter().copied(), &label, (&layout(), VOLUME), &mut bytes);
        memory.write(DeviceId(0), layout().journal_at(at), &bytes).unwrap();
    }

    fn ring(memory: &mut Memory) -> JournalRing {
        JournalRing::read(memory, DeviceId(0), &layout(), VOLUME).unwrap()
    }

    fn records(count: u32) -> Vec<MapRecord> {
        let entry = |extent| MapEntry::new(Some(Place(extent)), extent % 2 == 0, false);
        (0..count).map(|extent| MapRecord::new(extent, entry(extent))).collect()
    }

    fn memory() -> Memory {
        vec![vec![0; layout().journal_at(RING).0 as usize]]
    }

    #[test]
    fn commits_are_read_in_order_and_a_torn_one_ends_the_chain() {
        let mut memory = memory();
        let (first, second) = (records(3), records(1200));
        put(&mut memory, 0, 7, 0, &first);
        put(&mut memory, BLOCK, 8, 0, &second);
        let read = ring(&mut memory);
        assert_eq!((read.newest(), read.newest_mirrored(8), read.damaged_blocks()), (8, Some(8), 0));
        assert_eq!(
            read.newest_since(8).map(|label| label.notice),
            Some(Notice { write_intent: true, ..Notice::default() })
        );
        let all = replay(&[Some(read)], 7, 0);
        assert_eq!((all.next_commit, all.next, all.broken), (9, 4 * BLOCK, false));
        assert_eq!(all.records, [first.clone(), second].concat());
        // The second of its three blocks is torn.
        memory[0][layout().journal_at(2 * BLOCK).0 as usize + 50] ^= 1;
        let torn = ring(&mut memory);
        assert_eq!(torn.damaged_blocks(), 1);
        let rest = replay(&[Some(torn)], 7, 0);
        assert_eq!((rest.next_commit, rest.next, rest.broken, rest.records), (8, BLOCK, false, first));
    }

    #[test]
    fn names_are_found_behind_the_records_of_the_last_block() {
        for masks in [0, 1000] {
            let layout = MetadataLayout { masks, ..layout() };
            let per_block = layout.records_per_block() as u32;
            let kinds = [1, 2, per_block - 1, per_block, per_block + 1, 3 * per_block - 2];
            for count in kinds {
                let most = layout.names_behind(u64::from(count));
                assert_eq!(most > 900, count == 1 || count == per_block + 1 || count == 2, "{count} {most}");
                for names in [0, most / 2, most] {
                    let names: Vec<u32> = (0..names as u32).map(|name| name * 7 + 1).collect();
                    let label = CommitLabel {
                        number: 1,
                        attempt: 3,
                        mirrored: true,
                        notice: Notice { write_intent: true, ..Notice::default() },
                    };
                    let mut blocks = vec![0; layout.commit_bytes(u64::from(count)) as usize];
                    encode(records(count).into_iter(), &label, (&layout, VOLUME), &mut blocks);
                    name_regions(&names, VOLUME, &mut blocks);
                    let mut memory = memory();
                    memory.write(DeviceId(0), layout.journal_at(0), &blocks).unwrap();
                    let read = JournalRing::read(&mut memory, DeviceId(0), &layout, VOLUME).unwrap();
                    let found = read.find(1, 0).unwrap();
                    assert_eq!((found.records, found.regions, found.attempt), (records(count), names, 3));
                }
            }
        }
    }

    #[test]
    fn a_commit_with_more_names_than_there_is_room_for_is_none() {
        let mut memory = memory();
        put(&mut memory, 0, 1, 0, &records(3));
        let block = &mut memory[0][layout().journal_at(0).0 as usize..][..BLOCK_LEN];
        put_u32(block, BLOCK_LEN - NAME, layout().names_behind(3) as u32 + 1);
        seal(block, Kind::Journal, VOLUME);
        assert_eq!(ring(&mut memory).find(1, 0), None);
    }

    #[test]
    fn records_have_the_masks_of_their_places_where_places_have_masks() {
        let mut memory = memory();
        let layout = MetadataLayout { masks: 1000, ..layout() };
        let mut records = records(700);
        for (record, place) in records.iter_mut().zip(0u32..) {
            record.masks = Masks::new(place as u16, 1 << (place % 16));
        }
        let mut bytes = vec![0; layout.commit_bytes(700) as usize];
        assert_eq!(bytes.len() as u64, 3 * BLOCK, "338 records are in a block");
        let label = CommitLabel { number: 7, attempt: 0, mirrored: true, notice: Notice::default() };
        encode(records.iter().copied(), &label, (&layout, VOLUME), &mut bytes);
        memory.write(DeviceId(0), layout.journal_at(0), &bytes).unwrap();
        let ring = JournalRing::read(&mut memory, DeviceId(0), &layout, VOLUME).unwrap();
        assert_eq!(replay(&[Some(ring)], 7, 0).records, records);
    }

    #[test]
    fn the_last_attempt_counts_in_whichever_ring_it_is() {
        let mut memory = memory();
        put(&mut memory, 3 * BLOCK, 7, 0, &records(1));
        put(&mut memory, 0, 7, 1, &records(2));
        assert_eq!(ring(&mut memory).find(7, 3 * BLOCK).map(|found| found.records), Some(records(2)));
    }

    #[test]
    fn what_a_ring_with_gaps_has_is_found_in_order() {
        let mut memory = memory();
        put(&mut memory, 5 * BLOCK, 7, 0, &records(1));
        put(&mut memory, 8 * BLOCK, 9, 0, &records(2));
        put(&mut memory, 0, 12, 0, &records(600));
        put(&mut memory, 2 * BLOCK, 12, 1, &records(3));
        let found = |memory: &mut Memory, first| -> Vec<usize> {
            ring(memory).complete_since(first).iter().map(|commit| commit.records.len()).collect()
        };
        assert_eq!(found(&mut memory, 7), [1, 2, 3], "of two attempts the last counts");
        assert_eq!(found(&mut memory, 8), [2, 3]);
        memory[0][layout().journal_at(2 * BLOCK).0 as usize + 50] ^= 1;
        assert_eq!(found(&mut memory, 8), [2, 600], "it is torn");
    }

    #[test]
    fn a_forged_number_without_a_next_is_damage() {
        let mut memory = memory();
        put(&mut memory, 0, 7, 0, &records(1));
        put(&mut memory, BLOCK, u64::MAX, 0, &records(1));
        let ring = ring(&mut memory);
        assert_eq!((ring.newest(), ring.damaged_blocks()), (7, 1));
    }

    proptest! {
        #[test]
        fn no_content_of_a_ring_breaks_the_reader(
            seed in proptest::collection::vec((0..16u64, 0..80usize, any::<u64>()), 1..40), at in 0..RING
        ) {
            let mut memory = memory();
            for (block, field, value) in seed {
                let bytes = &mut memory[0][layout().journal_at(block * BLOCK).0 as usize..][..BLOCK_LEN];
                put_u64(bytes, 8 + field / 8 * 8, value >> (value % 64));
                seal(bytes, Kind::Journal, VOLUME);
            }
            let ring = ring(&mut memory);
            let numbers: Vec<u64> = ring.headers.iter().flatten().map(|header| header.label.number).collect();
            let ring = [Some(ring)];
            for number in numbers {
                let _ = replay(&ring, number, at);
            }
        }
    }
}
