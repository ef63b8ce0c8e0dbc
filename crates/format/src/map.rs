//! Reads the durable map of a volume: the newest readable checkpoint and the journal after it, from the devices that
//! have them.

use thiserror::Error;

use crate::{
    blocks::Masks,
    checkpoint::{self, CheckpointHeader},
    entry::MapEntry,
    journal::{self, JournalRing},
    layout::MetadataLayout,
    notice::Notice,
    regions::Regions,
    storage::{DeviceId, Storage},
    superblock::VolumeId,
};

/// The map according to the devices: the newest checkpoint with the commits of the journal after it, as [`read`]
/// returns it.
///
/// ```
/// use peryton_format::{
///     checkpoint::{self, CheckpointHeader},
///     entry::{MapEntry, Place},
///     layout::MetadataLayout,
///     map::{self, Named, NoMap, Older},
///     notice::Notice,
///     storage::DeviceId,
///     superblock::VolumeId,
/// };
/// use peryton_units::Bytes;
///
/// let (volume, layout) = (VolumeId(1), MetadataLayout::new(8, Bytes::mib(1)));
/// let mut devices = vec![vec![0; layout.device_bytes(Bytes::mib(1)).0 as usize]; 2];
/// let both = [DeviceId(0), DeviceId(1)];
/// // Of eight extents, the fourth is on the fast device.
/// let mut entries = vec![MapEntry::default(); 8];
/// entries[3] = MapEntry::new(Some(Place(0)), true, false);
/// let header =
///     CheckpointHeader { number: 1, journal_at: 0, first_commit: 1, last_commit: 0, entries: 8, notice: Notice::default(), layout: 0 };
/// checkpoint::store(&mut devices, &both, &layout, &header, (&entries, &[]), volume).expect("memory does not fail");
///
/// let map = map::read(&mut devices, (&both, both[0]), &layout, volume, (Older::Refused, Named::Lost))?;
/// assert_eq!((map.entries, map.replayed, map.next_commit), (entries, 0, 1));
/// # Ok::<(), NoMap>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurableMap {
    /// An entry for each extent.
    pub entries: Vec<MapEntry>,
    /// The masks of each place of the fast device; empty if extents are there as a whole.
    pub masks: Vec<Masks>,
    /// Number of commits after the checkpoint that are included in the entries.
    pub replayed: u64,
    /// The base of the next checkpoint's number: higher numbers are newer than everything on the devices. The next
    /// checkpoint is written to the place that does not hold the one that was read.
    pub next_number_base: u64,
    /// The last commit that is complete in every journal to which it was written. Without the slow device: the last commit that the
    /// slow device must have.
    pub last_commit: u64,
    /// The number after the last commit. A torn commit may have it.
    pub next_commit: u64,
    /// Place in the ring where that commit would begin.
    pub next: u64,
    /// The newest notice.
    pub notice: Notice,
    /// Whether the entries name every extent that may be newer on the fast device. This is false if the fast device is missing and the
    /// newest checkpoint cannot be read.
    pub shows_newer: bool,
    /// No block of a journal is damaged, so that a commit after the last one was never written.
    pub is_whole: bool,
}

/// Why the map cannot be read.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum NoMap {
    /// The metadata does not make up a map.
    #[error("{0}")]
    Damaged(&'static str),
    /// A device has an older journal than the other one, and no damage: it is a copy from earlier, or the newest part of its
    /// journal is gone.
    #[error("device {} has commit {newest} of {expected}", .device.0)]
    Behind {
        /// The device.
        device: DeviceId,
        /// The newest commit that it has.
        newest: u64,
        /// The commit that it must have had.
        expected: u64,
    },
}

/// The treatment of a device that has an older journal than the other one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Older {
    /// The device may be an earlier copy: the map is not read.
    Refused,
    /// The device is known to be no earlier copy: the newer journal of the other device counts.
    Accepted,
}

/// The extents in the regions that the slow device names, if the fast device is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    /// They may be newer on the fast device, and are lost.
    Lost,
    /// The caller knows which extents have changed since the checkpoint, and how.
    Known,
}

/// Whether a block of the extent is newer on the fast device than on the slow one, or lost.
pub fn is_newer(entry: MapEntry, masks: Masks) -> bool {
    entry.is_dirty() || entry.is_lost() || masks.differs_from_origin() != 0
}

/// The masks of an extent's place; empty masks if the extent has none.
pub fn masks_of(entry: MapEntry, masks: &[Masks]) -> Masks {
    entry.place().and_then(|place| masks.get(place.0 as usize)).copied().unwrap_or_default()
}

/// The entry of an extent without the fast device: the slow device has its data, or the extent is lost.
pub fn without_fast(entry: MapEntry, masks: Masks) -> MapEntry {
    MapEntry::new(None, false, is_newer(entry, masks))
}

const NOT_THERE: NoMap = NoMap::Damaged("the journal names an extent that is not there");

/// The entry of an extent that the journal names.
fn named(entries: &mut [MapEntry], extent: u32) -> Result<&mut MapEntry, NoMap> {
    entries.get_mut(extent as usize).ok_or(NOT_THERE)
}

/// Makes a map from the slow device's metadata alone. Extents that may be newer on the fast device are lost. If a commit names a region, all
/// extents of the region are lost, even if a later commit has a record of one, unless they are known. Places on the fast device are not known.
fn show_named<'a>(
    entries: &mut [MapEntry],
    masks: &[Masks],
    rings: impl Iterator<Item = &'a JournalRing>,
    first_commit: u64,
    named_regions: Named,
) -> Result<(), NoMap> {
    for entry in &mut *entries {
        *entry = without_fast(*entry, masks_of(*entry, masks));
    }
    let mut regions = Vec::new();
    for commit in rings.flat_map(|ring| ring.complete_since(first_commit)) {
        for record in commit.records {
            *named(entries, record.extent)? = without_fast(record.entry, record.masks);
        }
        regions.extend(commit.regions);
    }
    let of_volume = Regions::of_extents(entries.len() as u32);
    for region in regions.into_iter().filter(|_| named_regions == Named::Lost) {
        let extents = of_volume.extents(region).ok_or(NOT_THERE)?;
        entries[extents.start as usize..extents.end as usize].fill(MapEntry::new(None, false, true));
    }
    Ok(())
}

/// Reads the map. `devices` are those of the volume's two that exist; `fast` is the fast one of the two, existing or
/// not.
///
/// # Errors
///
/// No checkpoint can be read with the journal after it, or a device is an earlier copy.
pub fn read(
    storage: &mut dyn Storage,
    (devices, fast): (&[DeviceId], DeviceId),
    layout: &MetadataLayout,
    volume: VolumeId,
    (older, named): (Older, Named),
) -> Result<DurableMap, NoMap> {
    let headers: Vec<_> = devices.iter().map(|device| checkpoint::headers(storage, *device, layout, volume)).collect();
    let rings: Vec<_> = devices.iter().map(|device| JournalRing::read(storage, *device, layout, volume).ok()).collect();
    let without_fast = !devices.contains(&fast);
    let mut candidates: Vec<CheckpointHeader> = headers.iter().flatten().flatten().copied().collect();
    candidates.sort_by_key(|header| std::cmp::Reverse(header.number));
    candidates.dedup();
    let newest = candidates.first().map_or(0, |header| header.number);
    // The next checkpoint must be newer than all others, and must not overwrite the one that can be read. A failed
    // attempt may have left a header of the former kind in the latter place.
    let before_next = |header: &CheckpointHeader| newest + u64::from((newest + 1) % 2 == header.number % 2);
    let mut problem = "no checkpoint can be read";
    for header in candidates {
        let Some((mut entries, mut masks)) = checkpoint::load(storage, devices, layout, &header, volume) else {
            problem = "part of the map can be read from neither device";
            continue;
        };
        let number = before_next(&header);
        let is_whole = rings.iter().flatten().all(|ring| ring.damaged_blocks() == 0);
        let newest_commits = rings.iter().flatten().filter_map(|ring| ring.newest_since(header.first_commit));
        let newest_commit = newest_commits.max_by_key(|label| (label.number, label.attempt));
        let notice = newest_commit.map_or(header.notice, |label| label.notice);
        let found = journal::replay(&rings, header.first_commit, header.journal_at);
        // As long as no copy was ever newer than its origin, commits on the slow device are not flushed: it may lack one and have the next.
        // No commit is needed then: the origin has all data of each extent that is not in doubt, and after a crash no copy counts.
        let has_gaps = found.broken && notice.slow_current;
        if has_gaps || without_fast && notice.write_intent {
            // The commits that can be read do not make up the map, since others may be on the fast device alone.
            let newest_commit = rings.iter().flatten().map(JournalRing::newest).max().unwrap_or(0);
            let next_commit = (newest_commit.max(header.last_commit) + 1).max(header.first_commit);
            let (last_commit, next) = (header.last_commit, header.journal_at);
            // The commits before the newest checkpoint, which an older one would need, are overwritten.
            let shows_newer = !notice.write_intent || header.number == newest;
            if notice.write_intent && shows_newer {
                show_named(&mut entries, &masks, rings.iter().flatten(), header.first_commit, named)?;
            }
            let found =
                DurableMap { last_commit, next_commit, next, notice, shows_newer, is_whole, ..DurableMap::default() };
            return Ok(DurableMap { entries, masks, next_number_base: number, ..found });
        }
        if found.broken {
            problem = "part of the journal can be read from neither device";
            continue;
        }
        for record in &found.records {
            record.apply(&mut entries, &mut masks).ok_or(NOT_THERE)?;
        }
        let replayed = found.next_commit - header.first_commit;
        // Without damage, each device has all commits except the one that was in flight; a device that lacks more is an
        // earlier copy. (A commit that was not mirrored is on the fast device only.)
        let last_commit = if replayed >= 2 { found.next_commit - 2 } else { header.last_commit };
        let mirrored = rings.iter().flatten().filter_map(|ring| ring.newest_mirrored(last_commit));
        // A commit before the checkpoint may have gone to a device that was replaced later, so only later commits are expected.
        let mirrored =
            mirrored.filter(|number| *number == last_commit || *number >= header.first_commit).max().unwrap_or(0);
        let needs = |device: DeviceId| if device == fast { last_commit } else { mirrored };
        let lacks = |(device, ring): &(&DeviceId, &JournalRing)| ring.newest() < needs(**device);
        let rings_of = || devices.iter().zip(&rings).filter_map(|(device, ring)| Some((device, ring.as_ref()?)));
        let behind = rings_of().filter(lacks).find(|(_, ring)| ring.damaged_blocks() == 0);
        let last_commit = match behind {
            // Damage has destroyed the newest commit of a ring. The next opening must not expect the commit in this ring: further damage
            // may then hide that the block belonged to the journal.
            None if rings_of().any(|found| lacks(&found)) => 0,
            None => last_commit,
            // From now on no commit is known to be in both journals.
            Some(_) if older == Older::Accepted => 0,
            Some((device, ring)) => {
                return Err(NoMap::Behind { device: *device, newest: ring.newest(), expected: needs(*device) });
            }
        };
        // The last commit that the absent slow device must have. The checkpoint may be of commits that the fast device has alone.
        let last_commit = match devices == [fast] {
            true => rings.iter().flatten().filter_map(|ring| ring.newest_mirrored(last_commit)).max().unwrap_or(0),
            false => last_commit,
        };
        return Ok(DurableMap {
            entries,
            masks,
            replayed,
            next_number_base: number,
            last_commit,
            next_commit: found.next_commit,
            next: found.next,
            notice,
            shows_newer: true,
            is_whole,
        });
    }
    Err(NoMap::Damaged(problem))
}

#[cfg(test)]
mod tests {
    use peryton_units::Bytes;

    use super::*;
    use crate::{
        entry::Place,
        journal::{CommitLabel, MapRecord, encode, name_regions},
    };

    const VOLUME: VolumeId = VolumeId(3);
    const BOTH: [DeviceId; 2] = [DeviceId(0), DeviceId(1)];

    /// Extents and whether the commit makes them dirty, and names of regions.
    type Commit<'a> = (&'a [(u32, bool)], &'a [u32]);

    /// Two devices with an empty map of 100 extents, and these commits.
    fn devices(commits: &[Commit<'_>]) -> (Vec<Vec<u8>>, MetadataLayout) {
        let layout = MetadataLayout::new(100, Bytes::mib(1));
        let mut devices = vec![vec![0; layout.device_bytes(Bytes::mib(1)).0 as usize]; 2];
        let notice = Notice { write_intent: true, ..Notice::default() };
        let header = CheckpointHeader {
            number: 1,
            journal_at: 0,
            first_commit: 1,
            last_commit: 0,
            entries: 100,
            notice,
            layout: 0,
        };
        checkpoint::store(&mut devices, &BOTH, &layout, &header, (&[MapEntry::default(); 100], &[]), VOLUME)
            .expect("memory");
        for (number, (records, names)) in (1..).zip(commits) {
            let label = CommitLabel { number, attempt: 0, mirrored: true, notice };
            let mut block = vec![0; layout.commit_bytes(records.len() as u64) as usize];
            let entry = |extent, dirty| MapEntry::new(Some(Place(extent)), dirty, false);
            let records = records.iter().map(|(extent, dirty)| MapRecord::new(*extent, entry(*extent, *dirty)));
            encode(records, &label, (&layout, VOLUME), &mut block);
            name_regions(names, VOLUME, &mut block);
            for device in BOTH {
                let at = layout.journal_at((number - 1) * layout.commit_bytes(1));
                Storage::write(&mut devices, device, at, &block).expect("memory");
            }
        }
        (devices, layout)
    }

    #[test]
    fn regions_that_are_named_are_lost_without_the_fast_device_and_as_they_were_with_it() {
        let commits: [Commit<'_>; 3] =
            [(&[(4, true), (5, true)], &[2]), (&[(5, false), (40, false)], &[6]), (&[(90, false)], &[])];
        let (mut devices, layout) = devices(&commits);
        let with =
            read(&mut devices, (&BOTH, BOTH[0]), &layout, VOLUME, (Older::Refused, Named::Lost)).expect("it is whole");
        let dirty: Vec<usize> = (0..100).filter(|extent| with.entries[*extent].is_dirty()).collect();
        assert_eq!(dirty, [4]);
        let without = read(&mut devices, (&BOTH[1..], BOTH[0]), &layout, VOLUME, (Older::Refused, Named::Lost))
            .expect("it is named");
        let lost: Vec<usize> = (0..100).filter(|extent| without.entries[*extent].is_lost()).collect();
        let expected: Vec<usize> = [4].into_iter().chain(32..48).chain(96..100).collect();
        assert_eq!(
            lost, expected,
            "a later commit says of 5 that it is at its origin; 40 is in a region that is named"
        );
        let known = read(&mut devices, (&BOTH[1..], BOTH[0]), &layout, VOLUME, (Older::Refused, Named::Known));
        let known = known.expect("it is named").entries;
        let lost: Vec<usize> = (0..100).filter(|extent| known[*extent].is_lost()).collect();
        assert_eq!(lost, [4], "the memory of a killed server says what else is");
    }

    #[test]
    fn a_name_of_a_region_that_is_not_there_is_damage() {
        let commits: [Commit<'_>; 1] = [(&[(4, true)], &[7])];
        let (mut devices, layout) = devices(&commits);
        let found = read(&mut devices, (&BOTH[1..], BOTH[0]), &layout, VOLUME, (Older::Refused, Named::Lost));
        assert_eq!(found, Err(NoMap::Damaged("the journal names an extent that is not there")));
        assert!(read(&mut devices, (&BOTH, BOTH[0]), &layout, VOLUME, (Older::Refused, Named::Lost)).is_ok());
    }

    #[test]
    fn a_checkpoint_that_the_fast_device_has_alone_asks_nothing_of_the_slow_one() {
        let (mut devices, layout) = devices(&[(&[(4, true)], &[0])]);
        let notice = Notice { write_intent: true, ..Notice::default() };
        let label = CommitLabel { number: 2, attempt: 0, mirrored: false, notice };
        let mut block = vec![0; layout.commit_bytes(1) as usize];
        let record = MapRecord::new(7, MapEntry::new(Some(Place(7)), true, false));
        encode(std::iter::once(record), &label, (&layout, VOLUME), &mut block);
        Storage::write(&mut devices, BOTH[0], layout.journal_at(layout.commit_bytes(1)), &block).expect("memory");
        let journal_at = 2 * layout.commit_bytes(1);
        let header = CheckpointHeader {
            number: 2,
            journal_at,
            first_commit: 3,
            last_commit: 2,
            entries: 100,
            notice,
            layout: 0,
        };
        checkpoint::store(&mut devices, &BOTH[..1], &layout, &header, (&[MapEntry::default(); 100], &[]), VOLUME)
            .expect("memory");
        let found = read(&mut devices, (&BOTH[..1], BOTH[0]), &layout, VOLUME, (Older::Refused, Named::Lost))
            .expect("it is whole");
        assert_eq!((found.next_commit, found.last_commit), (3, 1), "commit 1 went to both, and is the last that did");
    }
}
