//! Chooses the next data of a migration: as much of its source as fits into the window, as reads of the log. It takes
//! no damaged and no unverified data.

use crate::{log::drive::LogDrive, log::layout::BUFFER, log::migration::Part, log::segments::Record, log::step::LogIo};

impl LogDrive {
    /// Returns the place of the data that have to be verified first.
    pub(in crate::log) fn plan_segments(&mut self, io: &mut LogIo, looks: &mut u64) -> Option<u64> {
        let LogDrive { migration, log, map, primaries, .. } = self;
        let stats = io.stats.logging_mut();
        while let Some(index) = migration.segments.front().copied() {
            let segment = &log.segments[index as usize];
            if segment.appends > 0 {
                return None;
            }
            let start = log.start_of(index);
            while let Some(Record { offset, within, len }) = segment.records.get(migration.record).copied() {
                if *looks == 0 {
                    return None;
                }
                *looks -= 1;
                let (at, len) = (start + u64::from(within), u64::from(len));
                let first = migration.parts.len();
                let mut live = 0;
                if segment.live > 0 {
                    map.live(offset, offset + len, at, |low, high, at| {
                        live += high - low;
                        match migration.parts[first..].last_mut() {
                            Some(last) if last.offset + last.len == low => last.len += high - low,
                            _ => migration.parts.push(Part { offset: low, len: high - low, at, chunk: 0 }),
                        }
                    });
                }
                if live > 0 {
                    let from = migration.parts[first].at;
                    let last = migration.parts[migration.parts.len() - 1];
                    let bytes = last.at + last.len - from;
                    if primaries.is_gone(offset) || log.is_damaged(from, bytes) || log.is_unreadable(from, bytes) {
                        migration.parts.truncate(first);
                        migration.left_over = true;
                    } else if log.is_unverified(from, bytes) {
                        migration.parts.truncate(first);
                        return Some(from);
                    } else {
                        let same = |chunk| log.segment_of(chunk) == index;
                        let Some(chunk) = migration.fit(from, bytes, segment.left_over, same) else {
                            migration.parts.truncate(first);
                            return None;
                        };
                        migration.parts[first..].iter_mut().for_each(|part| part.chunk = chunk);
                    }
                }
                if !segment.left_over {
                    stats.bytes_superseded += len - live;
                }
                migration.record += 1;
            }
            migration.segments.pop_front();
            migration.record = 0;
            migration.passed.push(index);
        }
        None
    }

    /// Examines the hinted range in the order of addresses; the parts found are read in the order of the log.
    /// Returns as [`LogDrive::plan_segments`] does.
    pub(in crate::log) fn plan_range(&mut self, looks: &mut u64) -> Option<u64> {
        let LogDrive { migration, log, map, block, primaries, .. } = self;
        let (mut next, end) = migration.range;
        let mut found: Vec<Part> = Vec::new();
        let mut unverified = None;
        'blocks: while next < end {
            if *looks == 0 {
                break;
            }
            *looks -= 1;
            let to = ((next / *block + 1) * *block).min(end);
            let mut reached = to;
            map.walk(next, to, |from, to, place| {
                let Some(at) = place.filter(|_| reached > from) else { return };
                if primaries.is_gone(from) || log.is_damaged(at, to - from) || log.is_unreadable(at, to - from) {
                    migration.left_over = true;
                    return;
                }
                if log.is_unverified(at, to - from) {
                    unverified = Some(at);
                    reached = from;
                    return;
                }
                let full = found.len() >= migration.window as usize;
                match found.last_mut() {
                    Some(last)
                        if last.at + last.len == at
                            && last.offset + last.len == from
                            && log.segment_of(last.at) == log.segment_of(at)
                            && last.len + (to - from) <= BUFFER =>
                    {
                        last.len += to - from;
                    }
                    // The window is full, because each part might need a read of its own.
                    _ if full => reached = from,
                    _ => found.push(Part { offset: from, len: to - from, at, chunk: 0 }),
                }
            });
            next = reached;
            if reached < to {
                break 'blocks;
            }
        }
        migration.range.0 = next;
        found.sort_unstable_by_key(|part| part.at);
        for mut part in found {
            let segment = log.segment_of(part.at);
            let alone = log.segments[segment as usize].left_over;
            part.chunk = migration
                .fit(part.at, part.len, alone, |chunk| log.segment_of(chunk) == segment)
                .expect("no more parts than chunks");
            migration.parts.push(part);
        }
        unverified
    }

    /// The records of the segment that are still the newest copies.
    pub(in crate::log) fn left_in(&self, index: u32) -> Vec<Record> {
        let start = self.log.start_of(index);
        let mut left: Vec<Record> = Vec::new();
        for Record { offset, within, len } in &self.log.segments[index as usize].records {
            let to = offset + u64::from(*len);
            self.map.live(*offset, to, start + u64::from(*within), |low, high, at| {
                left.push(Record { offset: low, within: (at - start) as u32, len: (high - low) as u32 });
            });
        }
        left
    }
}
