//! Opens and closes a log: makes a running drive of what is on the device, and writes its state back.
//!
//! Recovery proceeds in three steps. First, the ring of commits says which segments are in use and what the headers
//! cannot say. Second, the newest readable index leads to the indexes before it. Their entries need no check, because
//! they were durable when the index was written. Third, recovery follows the headers after the last index, append by
//! append, up to the first that is absent or lacks part of its data. A crash cut the log there: no flush covered
//! anything beyond the cut. If a later append says that one did, the log is damaged rather than cut: `damage.rs`
//! says what happens then. Nothing beyond the cut is ever used.

use peryton_format::{
    block::{BLOCK, BLOCK_LEN},
    handoff::{Contents as Kinds, Found},
    log::MOST_SEQUENCE,
    log::header::{self, AppendBody, AppendHeader, IndexEntry},
    log::recorded::{ListedSegment, NoCommits, Recorded, Void},
    log::ring::{self, CommitHead, CommitRecord, SegmentUse},
    log::scan::{FoundIndex, LogScan, SegmentsInUse},
    log::{FIRST_SEQUENCE, HEADER, NOWHERE, SECTOR},
    storage::Storage,
    superblock::VolumeId,
};
use peryton_units::{Bytes, Nanos};

use crate::{
    api::error::{DeviceError, OpenError},
    api::opened::Opened,
    log::damage::OnDamage,
    log::drive::LogDrive,
    log::found::{Contents, Event, Replay},
    log::index::Pending,
    log::step::LogIo,
};

const UNREADABLE: &str = "the device cannot read part of the log, which may have been flushed";

const FLUSHED_PART: &str = "part of what was flushed to the log cannot be read";

const COMPLETE_PART: &str = "part of what was written to the log cannot be read";

const IMPOSSIBLE_INDEX: &str = "an index lists what no append can hold";

const IMPOSSIBLE_LIST: &str = "a commit lists pieces that cannot be in their segment";

impl LogDrive {
    /// Whether no place in the log belongs to two ranges of the volume.
    pub(in crate::log) fn has_one_tenant_a_place(&self) -> bool {
        let mut places: Vec<(u64, u64)> = Vec::new();
        self.map.walk_all(self.size, |from, to, place| {
            if let Some(at) = place {
                places.push((at, at + (to - from)));
            }
        });
        places.sort_unstable();
        places.windows(2).all(|pair| pair[0].1 <= pair[1].0)
    }

    fn damaged(&self, what: &'static str) -> OpenError {
        OpenError::Damaged { device: self.log_device.index(), what }
    }

    fn scan<'a>(&self, storage: &'a mut dyn Storage, volume: VolumeId) -> LogScan<'a> {
        LogScan::new(storage, self.layout, volume)
    }

    /// Makes the log on the devices the state of this drive and records that in a commit. A crash meanwhile changes
    /// nothing.
    pub(in crate::log) fn recover_log(
        &mut self,
        io: &mut LogIo,
        storage: &mut dyn Storage,
        volume: VolumeId,
        left: Option<&Found>,
        opened: &mut Opened,
    ) -> Result<(), OpenError> {
        if self.gone.log {
            // The primary has an older image of its own, as of the last migration.
            return Ok(());
        }
        let left = left.filter(|left| matches!(left.label.contents, Kinds::Log { .. }));
        opened.given_up.returnable = self.returnable_at_opening(left);
        opened.taken_over = left.map(|left| left.records.len() as u64);
        let recorded = self.read_ring(storage, volume, left)?;
        let contents = self.find(storage, (&recorded, volume), opened.clean, &mut |_| {})?;
        let sequence_after = self.sequence_after(&recorded, &contents);
        let Contents { lives, chain, start, cut, mut tail } = contents;
        let mut scan = self.scan(storage, volume);

        // An index beyond the cut was correct, but it may not be durable.
        let (kept, beyond): (Vec<_>, Vec<_>) = chain.into_iter().partition(|index| index.sequence < cut);
        let mut pending = Vec::new();
        for index in &beyond {
            let entries = scan.header(index.at).and_then(|header| scan.entries(&header)).unwrap_or_default();
            for entry in entries {
                if self.counts(&lives, &recorded, start, &entry) {
                    let IndexEntry { offset, at, len, sequence } = entry;
                    let append_at = scan.append_of(at, sequence);
                    pending.push(Pending { offset, at, len: len as u32, sequence, append_at });
                }
            }
        }
        pending.append(&mut tail);
        let (index, upto) = kept.last().map_or((NOWHERE, start), |index| (index.at, index.covered.upto));

        let clean = opened.clean && cut == recorded.newest.head.next_sequence;
        let next_sequence = if clean { cut } else { sequence_after };
        let mut in_use: Vec<(u32, u64)> = lives.iter().filter(|(_, opened)| *opened < cut).collect();
        // The primary has the data of the segments before the oldest one that is needed.
        let needed = in_use.iter().position(|(segment, _)| self.log.segments[*segment as usize].live > 0);
        for (segment, _) in in_use.drain(..needed.unwrap_or(in_use.len())) {
            self.log.segments[segment as usize].records = Vec::new();
        }
        self.log.restore(&in_use, next_sequence);
        // An index would vouch for what is damaged: none is written before all else is on the primary, and this is listed.
        let pending = if self.on_damage == OnDamage::Name && self.has_damage() { Vec::new() } else { pending };
        self.index.resume(next_sequence, index, upto, pending);

        let records = self.still_needed(&recorded, &in_use, cut, next_sequence);
        let (head, next) = self.record_anew(storage, volume, &recorded, (next_sequence, index), &records)?;
        self.commit.resume(head, (next + head.bytes()) % self.commit.ring.bytes(), records);
        self.volume = Some(volume);
        opened.commits = recorded.commits;
        opened.repaired += recorded.damaged_blocks;
        opened.mapped = self.log.live.div_ceil(self.block);
        opened.dirty = opened.mapped;
        self.each_lost(|from, to| opened.lost += (to - from).div_ceil(self.block));
        for (segment, _) in &in_use {
            let listed = recorded.listed.contains_key(segment);
            self.log.segments[*segment as usize].left_over = listed;
        }
        for segment in 0..self.log.segments.len() as u32 {
            if self.log.is_free(segment) {
                self.log.forget_unverified(segment);
            }
        }
        io.due(Nanos::ZERO);
        Ok(())
    }

    /// Writes a commit that says what the log has from now on. Returns its head and its place in the ring.
    pub(in crate::log) fn record_anew(
        &self,
        storage: &mut dyn Storage,
        volume: VolumeId,
        recorded: &Recorded,
        (next_sequence, index): (u64, u64),
        records: &[CommitRecord],
    ) -> Result<(CommitHead, u64), OpenError> {
        let (before, ring) = (&recorded.newest, self.commit.ring.bytes());
        let head = CommitHead {
            number: recorded.next_number,
            attempt: 0,
            previous: before.head.number,
            first_needed: recorded.next_number,
            next_sequence,
            flushed: next_sequence,
            index,
            segments: self.log.segments.len() as u32,
            records: records.len() as u32,
        };
        if recorded.used + head.bytes() > ring {
            return Err(self.damaged("its ring of commits has no room for what it records"));
        }
        let next = (before.at + before.head.bytes()) % ring;
        self.store_commit(storage, volume, &head, records, next)
            .map_err(|_| OpenError::Device { device: self.log_device.index() })?;
        Ok((head, next))
    }

    /// A sequence after those of all appends that may be in the log. Appends beyond the cut have lower ones and lie in segments of
    /// their own, so they are never mistaken for new ones.
    pub(in crate::log) fn sequence_after(&self, recorded: &Recorded, Contents { lives, cut, .. }: &Contents) -> u64 {
        let blocks = self.log.segments.len() as u64 * self.log.segment_bytes() / BLOCK;
        let highest = lives.iter().map(|(_, opened)| opened).fold(*cut, u64::max);
        highest.max(recorded.newest.head.next_sequence) + blocks + 1
    }

    /// Reads the records of the ring of commits, and those of the next commits that a killed process has left in memory.
    pub(in crate::log) fn read_ring(
        &self,
        storage: &mut dyn Storage,
        volume: VolumeId,
        left: Option<&Found>,
    ) -> Result<Recorded, OpenError> {
        let mut recorded =
            Recorded::read(storage, &self.layout, volume).map_err(|NoCommits(what)| self.damaged(what))?;
        if let Some(left) = left {
            recorded.take_over(left);
        }
        Ok(recorded)
    }

    /// Reads the content of a log into the map without writing. Calls `seen` for each append that no index covers.
    pub(in crate::log) fn find(
        &mut self,
        storage: &mut dyn Storage,
        (recorded, volume): (&Recorded, VolumeId),
        clean: bool,
        seen: &mut dyn FnMut(&AppendHeader),
    ) -> Result<Contents, OpenError> {
        if !recorded.listed.iter().all(|(segment, listed)| self.is_in(*segment, listed)) {
            return Err(self.damaged(IMPOSSIBLE_LIST));
        }
        let mut scan = self.scan(storage, volume);
        let (lives, mut flushed) = find_lives(&mut scan, recorded, clean);
        let in_use = lives.iter().filter(|(segment, _)| !recorded.listed.contains_key(segment));
        let held = |segment: u32| recorded.newest.segments[segment as usize];
        let start = in_use
            .filter(|(segment, _)| matches!(held(*segment), SegmentUse::InUse { .. }))
            .map(|(_, opened)| opened)
            .min()
            .unwrap_or(recorded.newest.head.next_sequence);
        let mut replay = Replay::new(recorded);
        let chain = find_indexes(&mut scan, recorded, &lives, start, &mut flushed);
        let (cut, tail) = self.replay(&mut scan, recorded, (&lives, &chain), (start, flushed), (&mut replay, seen))?;
        self.verify_listed(&mut scan, recorded);
        self.install(&mut replay, None);
        if !self.has_one_tenant_a_place() {
            return Err(self.damaged("two ranges of the volume are in one place of the log"));
        }
        Ok(Contents { lives, chain, start, cut, tail })
    }

    /// Puts the entries of the indexes and the appends after them into the map. Returns where the log is cut, and the
    /// records that the last index does not list.
    fn replay(
        &mut self,
        scan: &mut LogScan<'_>,
        recorded: &Recorded,
        (lives, chain): (&SegmentsInUse, &[FoundIndex]),
        (start, mut flushed): (u64, u64),
        (replay, seen): (&mut Replay, &mut dyn FnMut(&AppendHeader)),
    ) -> Result<(u64, Vec<Pending>), OpenError> {
        let (mut next, mut at) = (start, NOWHERE);
        for index in chain {
            let entries = scan.header(index.at).and_then(|header| scan.entries(&header));
            // The scan read this index successfully before.
            let entries = entries.ok_or(OpenError::Device { device: scan.device().index() })?;
            let needed = |entry: &&IndexEntry| entry.sequence >= start && recorded.absent(entry.sequence).is_none();
            for entry in entries.iter().filter(needed) {
                // Every entry from `start` on that is not absent must lie in a segment that is in use.
                if !self.counts(lives, recorded, start, entry) {
                    return Err(self.damaged(FLUSHED_PART));
                }
                if !self.log.not_verified(entry.offset, entry.at, entry.len, entry.sequence) {
                    return Err(self.damaged(IMPOSSIBLE_INDEX));
                }
                self.install(replay, Some(entry));
            }
            (next, at) = (index.covered.upto.max(start), index.covered.upto_at);
            flushed = flushed.max(index.covered.upto);
        }
        let mut tail = Vec::new();
        loop {
            if let Some((to, next_at)) = recorded.absent(next) {
                (next, at) = (to, next_at);
                continue;
            }
            if let Some(segment) = lives.opened_by(next).filter(|segment| !recorded.listed.contains_key(segment)) {
                at = scan.start_of(segment);
            } else if at % scan.segment_bytes() == 0 {
                // The end of a full segment, perhaps of the last one: the next append opens another segment.
                at = NOWHERE;
            }
            let life = lives.opened(scan.segment_of(at));
            let here = |header: &AppendHeader| header.sequence == next && Some(header.opened) == life;
            let header = scan.header(at).filter(here);
            // A crash leaves old data or torn data, but no sector that the device cannot read. Such a sector may have
            // been durable.
            let end = at.saturating_add(header.as_ref().map_or(HEADER, |header| header.len));
            let unreadable = at != NOWHERE && next >= flushed && !scan.is_readable(at, end);
            let Some(header) = header else {
                if unreadable {
                    return Err(self.damaged(UNREADABLE));
                }
                break;
            };
            if unreadable || !scan.is_whole(&header) {
                flushed = flushed.max(scan.flushed_behind(at + HEADER, header.opened));
                // Only appends that were never durable may be absent; none may if the devices have kept everything.
                if !unreadable && next >= recorded.complete.max(flushed) {
                    break;
                }
                self.note_damage(scan, &header)?;
            }
            seen(&header);
            flushed = flushed.max(header.flushed);
            if let AppendBody::Data(members) = &header.body {
                for member in members {
                    let place = at + u64::from(member.within);
                    let (offset, len) = (member.offset, u64::from(member.len));
                    let entry = IndexEntry { offset, at: place, len, sequence: next };
                    if self.counts(lives, recorded, start, &entry) {
                        self.install(replay, Some(&entry));
                        tail.push(Pending { offset, at: place, len: member.len, sequence: next, append_at: at });
                    }
                }
            }
            (next, at) = (next + 1, at + header.len);
        }
        if at != NOWHERE
            && let Some(opened) = lives.opened(scan.segment_of(at))
        {
            flushed = flushed.max(scan.flushed_behind(at, opened));
        }
        if recorded.complete > next {
            return Err(self.damaged(COMPLETE_PART));
        }
        if flushed > next {
            return Err(self.damaged(FLUSHED_PART));
        }
        Ok((next, tail))
    }

    /// Handles an append with a header that can be read, of which something else cannot.
    #[cold]
    fn note_damage(&mut self, scan: &mut LogScan<'_>, header: &AppendHeader) -> Result<(), OpenError> {
        if self.on_damage == OnDamage::Refuse {
            return Err(OpenError::DamagedData { device: self.log_device.index() });
        }
        // What a damaged index lists is in the headers, which are being read.
        let AppendBody::Data(members) = &header.body else { return Ok(()) };
        for member in members {
            if !scan.is_member_whole(header.at, member) {
                self.log.damage(header.at + u64::from(member.within), u64::from(member.len));
            }
        }
        Ok(())
    }

    /// Verifies the data that a migration left in the log: it may have left them because they are damaged.
    fn verify_listed(&mut self, scan: &mut LogScan<'_>, recorded: &Recorded) {
        for ListedSegment { opened, left, .. } in recorded.listed.values() {
            for (_, at, len) in left {
                if !scan.is_piece_whole(*at, *len, *opened) {
                    self.log.damage(*at, *len);
                }
            }
        }
    }

    /// Whether an entry belongs to a segment's present use and can be true.
    fn counts(&self, lives: &SegmentsInUse, recorded: &Recorded, start: u64, entry: &IndexEntry) -> bool {
        let IndexEntry { offset, at, len, sequence } = *entry;
        let segment = self.log.segment_of(at);
        sequence >= start
            && lives.opened(segment).is_some_and(|opened| opened <= sequence)
            && !recorded.listed.contains_key(&segment)
            && self.is_place(offset, at, len)
    }

    /// Whether all pieces that a commit lists of a segment can be in it.
    fn is_in(&self, segment: u32, listed: &ListedSegment) -> bool {
        listed.left.iter().all(|(offset, at, len)| {
            at / self.log.segment_bytes() == u64::from(segment) && self.is_place(*offset, *at, *len)
        })
    }

    /// Whether data from `offset` on the volume, which are those of one primary, can be at this place.
    fn is_place(&self, offset: u64, at: u64, len: u64) -> bool {
        let segment = self.log.segment_bytes();
        self.primaries.hold(offset, len)
            && at % SECTOR == offset % SECTOR
            && len > 0
            && at % segment >= HEADER
            && at % segment + len <= segment
    }

    /// Puts an entry into the map after all recorded events that precede it; with `None`, all remaining events.
    fn install(&mut self, replay: &mut Replay, entry: Option<&IndexEntry>) {
        let until = entry.map_or(u64::MAX, |entry| entry.sequence);
        while let Some((_, event)) = replay.events.pop_if(|(key, _)| *key <= until) {
            match event {
                Event::Void { offset, len } => {
                    let (from, to) = (offset.min(self.size), offset.saturating_add(len).min(self.size));
                    let LogDrive { map, log, .. } = self;
                    map.remove(from, to, |at, len| log.superseded(at, len));
                }
                Event::Left(left) => left.iter().for_each(|(offset, at, len)| self.add(*offset, *at, *len)),
            }
        }
        if let Some(entry) = entry {
            self.add(entry.offset, entry.at, entry.len);
        }
    }

    fn add(&mut self, offset: u64, at: u64, len: u64) {
        let LogDrive { map, log, .. } = self;
        log.add(offset, at, len as u32);
        map.install(offset, offset + len, at, |at, len| log.superseded(at, len));
    }

    /// The records that concern segments still in use, and a record of what is beyond the cut.
    fn still_needed(
        &self,
        recorded: &Recorded,
        in_use: &[(u32, u64)],
        cut: u64,
        next_sequence: u64,
    ) -> Vec<CommitRecord> {
        let Some((_, oldest)) = in_use.first().copied() else { return Vec::new() };
        let mut records: Vec<CommitRecord> = Vec::new();
        for (segment, ListedSegment { opened, as_of, left }) in &recorded.listed {
            if in_use.iter().any(|(other, _)| other == segment) {
                let (segment, opened, as_of, count) = (*segment, *opened, *as_of, left.len() as u32);
                records.push(CommitRecord::Listed { segment, count, opened, as_of });
                records.extend(left.iter().map(|(offset, at, len)| CommitRecord::Left {
                    offset: *offset,
                    at: *at,
                    len: *len,
                }));
            }
        }
        for Void { before, offset, len } in &recorded.voids {
            if *before > oldest {
                records.push(CommitRecord::Void { offset: *offset, len: *len, before: *before });
            }
        }
        let behind = (cut < next_sequence).then_some((cut, (next_sequence, NOWHERE)));
        for (from, (to, next_at)) in recorded.absents.iter().map(|(from, to)| (*from, *to)).chain(behind) {
            match records.last_mut() {
                Some(CommitRecord::Absent { to: last, next_at: at, .. }) if *last == from => {
                    (*last, *at) = (to, next_at)
                }
                _ if to > oldest => records.push(CommitRecord::Absent { from, to, next_at }),
                _ => {}
            }
        }
        records
    }

    /// Writes a commit while the devices are idle.
    pub(in crate::log) fn store_commit(
        &self,
        storage: &mut dyn Storage,
        volume: VolumeId,
        head: &CommitHead,
        records: &[CommitRecord],
        next: u64,
    ) -> Result<(), DeviceError> {
        let mut bytes = vec![0; head.bytes() as usize];
        ring::encode(head, self.held(), records.iter().copied(), 0, volume, &mut bytes);
        let (first, rest) = bytes.split_at((self.commit.ring.bytes() - next).min(head.bytes()) as usize);
        for (part, at) in [(first, next), (rest, 0)] {
            if !part.is_empty() {
                storage.write(self.log_device, self.commit.at + Bytes(at), part)?;
            }
        }
        storage.flush(self.log_device)
    }

    /// Makes an empty log where another may have been.
    pub(in crate::log) fn format_log(&self, storage: &mut dyn Storage, volume: VolumeId) -> Result<(), DeviceError> {
        let blank = vec![0; 1 << 20];
        for at in (0..self.commit.ring.bytes()).step_by(blank.len()) {
            let len = (self.commit.ring.bytes() - at).min(blank.len() as u64) as usize;
            storage.write(self.log_device, self.commit.at + Bytes(at), &blank[..len])?;
        }
        storage.flush(self.log_device)?;
        let head = CommitHead {
            number: 1,
            first_needed: 1,
            next_sequence: FIRST_SEQUENCE,
            flushed: FIRST_SEQUENCE,
            index: NOWHERE,
            segments: self.log.segments.len() as u32,
            ..CommitHead::default()
        };
        self.store_commit(storage, volume, &head, &[], 0)
    }

    /// Writes indexes and a commit that make the next opening quick. The devices are flushed, and nothing is in flight.
    pub(in crate::log) fn close_log(&mut self, storage: &mut dyn Storage, volume: VolumeId) -> Result<(), DeviceError> {
        if self.gone.log {
            return Ok(());
        }
        loop {
            self.commit.covers = self.unretired();
            self.log_flushed();
            let Some((covered, entries)) = self.next_index(self.index_room()) else { break };
            let len = header::index_bytes(entries.len());
            // If there is no room, the next opening reads the headers instead.
            let Some(space) = self.log.allocate(len) else { break };
            let segment = self.log.segment_of(space.at);
            let row = &mut self.log.segments[segment as usize];
            row.appends -= 1;
            let header = AppendHeader {
                sequence: space.sequence,
                opened: row.opened,
                at: space.at,
                len,
                flushed: self.index.flushed,
                index: self.index.newest,
                body: AppendBody::Index(covered),
            };
            let mut bytes = vec![0; len as usize];
            let (first, rest) = bytes.split_at_mut(BLOCK_LEN);
            header.encode(volume, first);
            let entries = entries.iter().map(Pending::entry);
            header::encode_entries(entries, space.sequence, volume, rest);
            let (device, at) = self.log_place(space.at);
            storage.write(device, at, &bytes)?;
            storage.flush(device)?;
            self.index_is_written(space.at, covered);
        }
        let (head, records, next) = self.closing_commit()?;
        self.store_commit(storage, volume, &head, &records, next)
    }
}

/// Finds which segments are in use, and the highest sequence below which everything was durable, according to the
/// headers read.
fn find_lives(scan: &mut LogScan<'_>, recorded: &Recorded, clean: bool) -> (SegmentsInUse, u64) {
    let mut flushed = recorded.newest.head.flushed;
    let lives = (0..).zip(&recorded.newest.segments).map(|(segment, held)| {
        let first = scan.first_header(segment).filter(|header| header.sequence == header.opened);
        match *held {
            SegmentUse::InUse { opened } => {
                if let Some(first) = first.filter(|first| first.opened == opened) {
                    flushed = flushed.max(first.flushed);
                }
                Some(opened)
            }
            SegmentUse::Free { before } => {
                let first = first.filter(|first| (before..MOST_SEQUENCE).contains(&first.opened));
                // If the first header is absent, another header of the segment shows whether a crash lost the first.
                let any = first.or_else(|| if clean { None } else { scan.any_header(segment, before) })?;
                flushed = flushed.max(any.flushed);
                Some(any.opened)
            }
        }
    });
    (SegmentsInUse::new(lives.collect()), flushed)
}

/// Finds the indexes from `start` on, oldest first. Returns none if one is missing from the chain; recovery then reads
/// the headers.
fn find_indexes(
    scan: &mut LogScan<'_>,
    recorded: &Recorded,
    lives: &SegmentsInUse,
    start: u64,
    flushed: &mut u64,
) -> Vec<FoundIndex> {
    let mut places = vec![recorded.newest.head.index];
    let mut newest_segment = None;
    for (segment, opened) in lives.iter() {
        places.extend(scan.first_header(segment).map(|header| header.index));
        newest_segment = Some((segment, opened));
    }
    if let Some((segment, opened)) = newest_segment
        && let Some(last) = scan.last_header(segment, opened)
    {
        *flushed = (*flushed).max(last.flushed);
        places.push(last.index);
        if let AppendBody::Index(_) = last.body {
            places.push(last.at);
        }
    }
    places.sort_unstable();
    places.dedup();
    let newest = places.iter().filter_map(|at| scan.index(*at, lives)).max_by_key(|index| index.sequence);
    let mut chain: Vec<FoundIndex> = newest.into_iter().filter(|index| index.covered.upto > start).collect();
    while let Some(last) = chain.last()
        && last.covered.first > start
    {
        let before = scan.index(last.covered.previous, lives);
        match before.filter(|before| before.covered.upto == last.covered.first && before.sequence < last.sequence) {
            Some(before) => chain.push(before),
            None => return Vec::new(),
        }
    }
    chain.reverse();
    chain
}
