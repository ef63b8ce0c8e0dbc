//! Commits in the journal's ring: each is a run of blocks with the same number, and counts only if all are whole.
//!
//! Commits are numbered without gaps, and one is written only when the one before is durable. So the valid commits
//! after a checkpoint are an unbroken chain, and only its last link may be torn.

use super::{
    block::{BLOCK, BLOCK_LEN, Kind, get_u32, get_u64, has_kind, is_mislabelled, is_sealed, put_u32, put_u64, seal},
    image::Entry,
    layout::MetadataLayout,
    superblock::VolumeId,
};
use crate::{
    command::DeviceId,
    error::DeviceError,
    hybrid::journal::Told,
    mutation::{self, Mutation},
    storage::Storage,
};

const HEADER: usize = 32;
const RECORD: usize = 8;
/// Map updates in a block.
pub(crate) const UPDATES_PER_BLOCK: u64 = ((BLOCK_LEN - HEADER) / RECORD) as u64;
/// Set in the count of a commit that goes to both devices.
const MIRRORED: u32 = 1 << 31;
/// What a commit tells a device that may not see those after it ([`Told`]).
const ALONE: u32 = 1 << 30;
const HOME: u32 = 1 << 29;
const FLAGS: u32 = MIRRORED | ALONE | HOME;
/// The ring is read in pieces of this size.
const PIECE: u64 = 1 << 20;

/// Extent and what the map says of it.
pub(crate) type Record = (u32, Entry);

/// How many bytes of the ring so many records take.
pub(crate) fn commit_bytes(records: u64) -> u64 {
    records.div_ceil(UPDATES_PER_BLOCK) * BLOCK
}

/// Encodes a whole commit; `into` is [`commit_bytes`] long.
pub(crate) fn encode(
    records: impl ExactSizeIterator<Item = Record>,
    (number, attempt, mirrored, told): (u64, u32, bool, Told),
    volume: VolumeId,
    into: &mut [u8],
) {
    let count = records.len();
    let blocks = into.len() / BLOCK_LEN;
    debug_assert_eq!(into.len() as u64, commit_bytes(count as u64));
    let mut records = records;
    for (index, block) in into.chunks_exact_mut(BLOCK_LEN).enumerate() {
        block.fill(0);
        let here = UPDATES_PER_BLOCK.min((count - index * UPDATES_PER_BLOCK as usize) as u64);
        put_u64(block, 8, number);
        put_u32(block, 16, index as u32);
        put_u32(block, 20, blocks as u32);
        let flags = [(mirrored, MIRRORED), (told.alone, ALONE), (told.home, HOME)];
        let flags: u32 = flags.into_iter().map(|(is, flag)| if is { flag } else { 0 }).sum();
        put_u32(block, 24, here as u32 | flags);
        put_u32(block, 28, attempt);
        for (slot, (extent, entry)) in records.by_ref().take(here as usize).enumerate() {
            let at = HEADER + slot * RECORD;
            put_u32(block, at, extent);
            put_u32(block, at + 4, entry.0);
        }
        seal(block, Kind::Journal, volume);
    }
}

/// The header of a valid block of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    number: u64,
    index: u32,
    blocks: u32,
    count: u32,
    attempt: u32,
    /// It was written to both devices.
    mirrored: bool,
    told: Told,
}

fn header(block: &[u8], volume: VolumeId) -> Option<Header> {
    if !is_sealed(block, Kind::Journal, volume) {
        return None;
    }
    let header = Header {
        number: get_u64(block, 8),
        index: get_u32(block, 16),
        blocks: get_u32(block, 20),
        count: get_u32(block, 24) & !FLAGS,
        attempt: get_u32(block, 28),
        mirrored: get_u32(block, 24) & MIRRORED != 0,
        told: Told { alone: get_u32(block, 24) & ALONE != 0, home: get_u32(block, 24) & HOME != 0 },
    };
    (u64::from(header.count) <= UPDATES_PER_BLOCK && header.index < header.blocks).then_some(header)
}

/// A device's copy of the ring, in memory.
pub(crate) struct Ring {
    bytes: Vec<u8>,
    volume: VolumeId,
    /// For each block what it says, if it is valid.
    headers: Vec<Option<Header>>,
    /// Blocks that hold something, but not what was written, or cannot be read.
    pub(crate) damaged: u64,
}

/// A commit found in the ring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) records: Vec<Record>,
    attempt: u32,
    /// Where the next commit begins, unless the ring wraps.
    pub(crate) next: u64,
}

impl Ring {
    /// Reads the whole ring. Pieces that the device cannot read count as invalid.
    pub(crate) fn read(
        storage: &mut dyn Storage,
        device: DeviceId,
        layout: &MetadataLayout,
        volume: VolumeId,
    ) -> Result<Ring, DeviceError> {
        let mut bytes = vec![0; layout.journal_bytes as usize];
        let (mut readable, mut unreadable) = (false, 0);
        for (piece, at) in bytes.chunks_mut(PIECE as usize).zip((0..).step_by(PIECE as usize)) {
            let ok = storage.read(device, layout.journal_at(at), piece).is_ok();
            readable |= ok;
            if !ok {
                // One bad sector must not hide its neighbours.
                for (block, within) in piece.chunks_mut(BLOCK_LEN).zip((0..).step_by(BLOCK_LEN)) {
                    if storage.read(device, layout.journal_at(at + within), block).is_err() {
                        block.fill(0);
                        unreadable += 1;
                    } else {
                        readable = true;
                    }
                }
            }
        }
        if !readable && !bytes.is_empty() {
            return Err(DeviceError);
        }
        let headers: Vec<_> = bytes.chunks_exact(BLOCK_LEN).map(|block| header(block, volume)).collect();
        let blocks = bytes.chunks_exact(BLOCK_LEN).zip(&headers);
        let damaged = |block: &[u8]| has_kind(block, Kind::Journal) || is_mislabelled(block, Kind::Journal, volume);
        let damaged = blocks.filter(|(block, header)| header.is_none() && damaged(block)).count() as u64 + unreadable;
        Ok(Ring { bytes, volume, headers, damaged })
    }

    /// The newest attempt of commit `number`, which begins at `at`, or at the start of the ring if it did not fit.
    pub(crate) fn find(&self, number: u64, at: u64) -> Option<Found> {
        let here = self.commit_at(number, at);
        let wrapped = if at == 0 { None } else { self.commit_at(number, 0) };
        match (here, wrapped) {
            (Some(here), Some(wrapped)) => Some(if wrapped.attempt > here.attempt { wrapped } else { here }),
            (here, wrapped) => here.or(wrapped),
        }
    }

    fn commit_at(&self, number: u64, at: u64) -> Option<Found> {
        let first = usize::try_from(at / BLOCK).ok()?;
        let head = (*self.headers.get(first)?)?;
        let headers = self.headers.get(first..first.checked_add(head.blocks as usize)?)?;
        let mut records = Vec::new();
        for (index, header) in headers.iter().enumerate() {
            let header = (*header)?;
            let same = Header { index: index as u32, count: header.count, ..head };
            if header != same || header.number != number {
                return None;
            }
            let block = &self.bytes[(first + index) * BLOCK_LEN..][..BLOCK_LEN];
            debug_assert!(is_sealed(block, Kind::Journal, self.volume));
            for slot in 0..header.count as usize {
                let at = HEADER + slot * RECORD;
                records.push((get_u32(block, at), Entry(get_u32(block, at + 4))));
            }
        }
        Some(Found { records, attempt: head.attempt, next: at + headers.len() as u64 * BLOCK })
    }

    /// Whether the commit was written to both devices, if it is here at all.
    pub(crate) fn was_mirrored(&self, number: u64) -> bool {
        self.headers.iter().flatten().any(|header| header.number == number && header.mirrored)
    }

    /// What the newest commit from `first` on that is in here says of those that follow it.
    pub(crate) fn told_since(&self, first: u64) -> Option<Told> {
        let since = self.headers.iter().flatten().filter(|header| header.number >= first);
        since.max_by_key(|header| (header.number, header.attempt)).map(|header| header.told)
    }

    /// The highest number of any block that is whole.
    pub(crate) fn newest(&self) -> u64 {
        self.headers.iter().flatten().map(|header| header.number).max().unwrap_or(0)
    }
}

/// What the journals say after a checkpoint.
#[derive(Debug, Default)]
pub(crate) struct Replayed {
    /// Records in the order in which they have to be applied.
    pub(crate) records: Vec<Record>,
    /// The number of the next commit, and where it would go.
    pub(crate) next_commit: u64,
    pub(crate) next: u64,
    /// For each ring the number of the last commit that it has of the chain.
    pub(crate) last: Vec<u64>,
    /// A later commit exists, but one before it is in no ring.
    pub(crate) broken: bool,
}

/// Follows the chain of commits from `first`, which begins at `at`; each link from whichever ring has it.
pub(crate) fn replay(rings: &[Option<Ring>], first: u64, at: u64) -> Replayed {
    let mut replayed = Replayed {
        next_commit: first,
        next: at,
        last: vec![first.saturating_sub(1); rings.len()],
        ..Replayed::default()
    };
    let mut last_len = 0;
    loop {
        let mut best: Option<Found> = None;
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
    // The commit after the last may be torn; one after that means that a link is gone.
    replayed.broken = rings.iter().flatten().any(|ring| ring.newest() > replayed.next_commit);
    replayed
}
