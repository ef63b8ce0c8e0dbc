//! What a correct disk could return.
//!
//! Each sector has versions: writes and discards with the time at which they were submitted and the time at which they
//! were over. A version is *superseded at a time* if some write was over by then that was submitted after the version
//! was over. A read may return what was not superseded when it was submitted; after a crash, a sector holds what was not
//! superseded when the last successful flush was submitted.
//!
//! A flush that failed puts everything in doubt that is not durable: a version in doubt supersedes nothing. The next flush of
//! the host settles that. If it succeeds, what was written before it is durable after all; if it fails, the host has been
//! notified, and may find what was there before.

use std::{hash::Hash, hash::Hasher, ops::Range};

use peryton_engine::Losses;

use crate::{disk::Tag, lost::Lost};

/// The model's clock: it counts submissions and answers.
pub(crate) type Time = u32;
const NEVER: Time = Time::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    tag: Tag,
    from: Time,
    over: Time,
    /// Whether this version supersedes older ones: it was a write, and it succeeded. A discard or a failed write may
    /// have had no effect.
    counts: bool,
    /// It may have been lost with a flush that failed, at this time at the earliest.
    in_doubt: Option<Time>,
    /// What was found after a crash: one of several values, but always the same one, and durable.
    base: bool,
}

fn superseded(versions: &[Version], version: &Version, at: Time) -> bool {
    versions
        .iter()
        .any(|other| other.counts && other.in_doubt.is_none() && other.over < at && version.over < other.from)
}

#[derive(Clone, Debug)]
pub(crate) struct Model {
    sectors: Vec<Vec<Version>>,
    now: Time,
    /// Writes that were over by this time are durable.
    durable: Time,
    next_tag: Tag,
    /// When a flush of a device last failed.
    failed_at: Time,
    /// When a device last died that may come back without what was not flushed then.
    died_at: Time,
    /// Some version may be in doubt.
    doubts: bool,
    /// What the engine has said to be lost.
    lost: Lost,
    /// First tag and first sector of each write.
    written: Vec<(Tag, u64)>,
}

impl Model {
    pub(crate) fn new(content: impl Iterator<Item = Tag>, first_tag: Tag) -> Model {
        let base = |tag| vec![Version { tag, from: 0, over: 0, counts: false, in_doubt: None, base: true }];
        let sectors: Vec<_> = content.map(base).collect();
        Model {
            sectors,
            now: 1,
            durable: 0,
            next_tag: first_tag,
            failed_at: 0,
            died_at: 0,
            doubts: false,
            lost: Lost::default(),
            written: Vec::new(),
        }
    }

    pub(crate) fn sectors(&self) -> usize {
        self.sectors.len()
    }

    /// The volume has grown by this many sectors, each of which holds one of two values.
    pub(crate) fn grow(&mut self, added: Vec<[Tag; 2]>) {
        let base = |tag| Version { tag, from: 0, over: 0, counts: false, in_doubt: None, base: true };
        self.sectors.extend(added.into_iter().map(|[one, other]| match one == other {
            true => vec![base(one)],
            false => vec![base(one), base(other)],
        }));
    }

    /// Advances the clock, once for every submission and every answer.
    pub(crate) fn tick(&mut self) -> Time {
        self.now += 1;
        self.now
    }

    /// Returns tags that were never used, for a write of this range.
    pub(crate) fn new_tags(&mut self, range: Range<usize>) -> Vec<Tag> {
        let first = self.next_tag;
        self.next_tag += range.len() as Tag;
        self.written.push((first, range.start as u64));
        (first..self.next_tag).collect()
    }

    /// Records that a write, or a discard as a write of zeros, has been submitted. `oldest` is the time at which the
    /// oldest read in flight was submitted.
    pub(crate) fn begin(&mut self, range: Range<usize>, tags: &[Tag], from: Time, oldest: Time) {
        let horizon = self.durable.min(oldest);
        self.lost.written(range.clone());
        for (versions, tag) in self.sectors[range].iter_mut().zip(tags) {
            if versions.len() > 1 {
                let all = versions.clone();
                versions.retain(|version| !superseded(&all, version, horizon));
            }
            versions.push(Version { tag: *tag, from, over: NEVER, counts: false, in_doubt: None, base: false });
        }
    }

    /// Records that the write or discard has been answered. `counts` is true for a write that succeeded.
    pub(crate) fn end(&mut self, range: Range<usize>, tags: &[Tag], from: Time, counts: bool) {
        let (now, counts) = (self.now, counts && from > self.died_at);
        for (versions, tag) in self.sectors[range].iter_mut().zip(tags) {
            if let Some(version) = versions.iter_mut().find(|version| version.tag == *tag && version.from == from) {
                (version.over, version.counts) = (now, counts);
            }
        }
    }

    /// Notes what the engine says is lost now.
    ///
    /// # Errors
    /// As [`Lost::note`].
    pub(crate) fn note_lost(&mut self, losses: &Losses) -> Result<(), String> {
        let under_way = |sector: usize| self.sectors[sector].iter().any(|version| version.over == NEVER);
        self.lost.note(losses, self.now, under_way)
    }

    /// A device has come back, and may hold what was lost.
    pub(crate) fn lost_may_be_back(&mut self) {
        self.lost.forget();
    }

    /// Checks the result of a read that was submitted at `from`.
    pub(crate) fn read(&mut self, range: Range<usize>, data: &[Tag], from: Time) -> Result<(), String> {
        self.lost.read(range.clone(), data, from)?;
        for (sector, tag) in range.zip(data) {
            let versions = &mut self.sectors[sector];
            if let [only] = versions[..]
                && only.tag == *tag
            {
                continue;
            }
            let allowed = versions.iter().any(|version| version.tag == *tag && !superseded(versions, version, from));
            if !allowed {
                return Err(self.complain(sector, *tag, from));
            }
            // It may have been read before a flush lost it.
            if from <= self.failed_at {
                continue;
            }
            // What was found after a crash is found from now on.
            let mut same = versions.iter().filter(|version| version.tag == *tag);
            if same.next().is_some_and(|version| version.base) && same.next().is_none() {
                versions.retain(|version| !version.base || version.tag == *tag);
            }
            // If no write overlaps the read, the value read is the sector's content; it is durable only once it is
            // flushed.
            let contended = versions.iter().any(|version| version.over >= from);
            let settled = versions.iter().all(|version| version.tag == *tag || superseded(versions, version, self.now));
            if !contended && !settled {
                let counts = from > self.died_at;
                versions.push(Version { tag: *tag, from, over: self.now, counts, in_doubt: None, base: false });
            }
        }
        Ok(())
    }

    /// Records that a flush submitted at `from` has succeeded.
    pub(crate) fn flushed(&mut self, from: Time) {
        self.durable = self.durable.max(from);
        self.settle_doubts(|version| {
            version.in_doubt = version.in_doubt.filter(|_| version.over >= from);
        });
    }

    /// A device dies that may come back: what was not durable by now may be as it was before, if it is not lost. A flush of the host fails
    /// for that.
    pub(crate) fn device_died(&mut self) {
        self.died_at = self.tick();
        let durable = self.durable;
        for version in self.sectors.iter_mut().flatten().filter(|version| version.over >= durable) {
            version.counts = false;
        }
    }

    /// A flush of a device fails now.
    pub(crate) fn flush_failed(&mut self) -> Time {
        self.failed_at = self.tick();
        self.failed_at
    }

    /// Since a flush of a device has failed, what is not durable may be lost.
    pub(crate) fn doubt(&mut self) {
        let (durable, now) = (self.durable, self.now);
        self.doubts = true;
        self.settle_doubts(|version| {
            if version.counts && version.over >= durable {
                version.in_doubt.get_or_insert(now);
            }
        });
    }

    /// The engine has made good what was in doubt.
    pub(crate) fn trust(&mut self) {
        self.settle_doubts(|version| version.in_doubt = None);
        self.doubts = false;
    }

    /// A flush of the host that was submitted at `from` has failed: what was in doubt before that may be lost for good; `all`:
    /// so may everything else that is not durable.
    pub(crate) fn forgive(&mut self, from: Time, all: bool) {
        self.doubt();
        self.settle_doubts(|version| {
            if version.in_doubt.is_some_and(|since| all || since < from) {
                (version.counts, version.in_doubt) = (false, None);
            }
        });
    }

    fn settle_doubts(&mut self, settle: impl Fn(&mut Version)) {
        if self.doubts {
            self.sectors.iter_mut().flatten().for_each(settle);
        }
    }

    /// Records that the volume was closed, which makes everything answered durable.
    pub(crate) fn closed(&mut self) {
        self.durable = self.tick();
    }

    /// Checks whether a sector may hold this tag after a crash now.
    pub(crate) fn survives(&self, sector: usize, tag: Tag, answered: bool) -> Result<(), String> {
        let versions = &self.sectors[sector];
        let at = if answered { self.now + 1 } else { self.durable };
        let allowed = versions.iter().any(|version| version.tag == tag && !superseded(versions, version, at));
        if allowed { Ok(()) } else { Err(self.complain(sector, tag, at)) }
    }

    /// Forgets what a crash cannot have kept; the rest become candidates.
    pub(crate) fn crashed(&mut self, answered: bool) {
        if answered {
            self.closed();
        }
        let durable = self.durable;
        for versions in &mut self.sectors {
            if let [only] = &mut versions[..] {
                *only = Version { tag: only.tag, from: 0, over: 0, counts: false, in_doubt: None, base: true };
                continue;
            }
            let all = std::mem::take(versions);
            for version in &all {
                if !superseded(&all, version, durable) && versions.iter().all(|other| other.tag != version.tag) {
                    versions.push(Version {
                        tag: version.tag,
                        from: 0,
                        over: 0,
                        counts: false,
                        in_doubt: None,
                        base: true,
                    });
                }
            }
        }
    }

    /// Hashes all on which a later answer depends. Of times only the order counts. `asked`: when what is under way was submitted; `oldest`:
    /// the oldest read of that.
    pub(crate) fn identify(&self, asked: &[Time], oldest: Time, hasher: &mut impl Hasher) {
        let horizon = self.durable.min(oldest);
        let left = |versions: &[Version]| -> Vec<Version> {
            versions.iter().filter(|version| !superseded(versions, version, horizon)).copied().collect()
        };
        let sectors: Vec<Vec<Version>> = self.sectors.iter().map(|versions| left(versions)).collect();
        let of = |version: &Version| [version.from, version.over, version.in_doubt.unwrap_or(0)];
        let mut times: Vec<Time> = sectors.iter().flatten().flat_map(of).collect();
        times.extend(asked);
        times.extend([0, self.durable, self.failed_at, self.died_at]);
        times.sort_unstable();
        times.dedup();
        let rank = |time: Time| times.binary_search(&time).unwrap_or(usize::MAX);
        for version in sectors.iter().flatten() {
            (version.tag, of(version).map(rank), version.counts, version.base).hash(hasher);
        }
        let lengths: Vec<usize> = sectors.iter().map(Vec::len).collect();
        let asked: Vec<usize> = asked.iter().map(|time| rank(*time)).collect();
        (lengths, asked, [self.durable, self.failed_at, self.died_at].map(rank), self.doubts).hash(hasher);
    }

    /// Describes a tag for an error message.
    fn name(&self, tag: Tag) -> String {
        let index = self.written.partition_point(|(first, _)| *first <= tag);
        match index.checked_sub(1).map(|index| self.written[index]) {
            _ if tag == 0 => "zeros".to_string(),
            Some((first, sector)) => format!("{tag} (written to sector {})", sector + u64::from(tag - first)),
            None => format!("{tag} (on the device before it was formatted)"),
        }
    }

    fn complain(&self, sector: usize, found: Tag, at: Time) -> String {
        let versions = &self.sectors[sector];
        let mut text = format!("sector {sector} holds {}, but at time {at} could hold only:", self.name(found));
        for version in versions {
            let fate = if superseded(versions, version, at) { "superseded" } else { "possible" };
            let over = if version.over == NEVER { "not over".to_string() } else { format!("over {}", version.over) };
            let kind = match (version.base, version.counts) {
                _ if version.in_doubt.is_some() => "in doubt since a flush failed",
                (true, _) => "found after a crash",
                (false, true) => "written",
                (false, false) => "discarded, failed or under way",
            };
            text += &format!("\n    {} {kind}, from {}, {over}: {fate}", self.name(version.tag), version.from);
        }
        text + &format!("\n    (the last flush that succeeded was submitted at {}; now is {})", self.durable, self.now)
    }
}
