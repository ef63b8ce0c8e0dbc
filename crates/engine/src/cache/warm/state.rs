//! The state of snapshots: where they go, and how far the one under way is.

use peryton_format::{
    snapshot::{Header, Packer, Room, Whole},
    superblock::VolumeId,
};
use peryton_policy::{admission::GateCursor, saving::Cursor};
use peryton_units::Nanos;

use crate::{api::warmth::Warmth, cache::map::extent::Extent};

/// The lists of a snapshot: those of the policy, those of admission, what the map knows of extents, and the account of wear.
pub(super) const POLICY: u16 = 0;
pub(super) const GATE: u16 = 256;
pub(in crate::cache) const RESIDENT: u16 = 512;
pub(in crate::cache) const MISSED: u16 = 513;
pub(super) const READ_ON: u16 = 514;
pub(super) const WEAR_ACCOUNT: u16 = 515;

/// Times of extents are saved in milliseconds before the snapshot, in this many bits: up to four and a half hours.
const AGE_BITS: u32 = 24;
const MOST_AGE: u32 = (1 << AGE_BITS) - 1;
/// Misses are saved in this many bits.
const MISS_BITS: u32 = 7;
const MOST_MISSES: u32 = (1 << MISS_BITS) - 1;
const REFERENCED: u32 = 1 << (AGE_BITS + MISS_BITS);
const MS: u64 = 1_000_000;

/// The use of an extent at time `clock`, as a word.
pub(super) fn usage(extent: &Extent, clock: Nanos) -> u32 {
    let age = (clock.saturating_sub(extent.last_access).0 / MS).min(u64::from(MOST_AGE)) as u32;
    let referenced = if extent.referenced { REFERENCED } else { 0 };
    age | extent.misses.min(MOST_MISSES) << AGE_BITS | referenced
}

/// The time since the last use, of such a word.
pub(in crate::cache) fn age(usage: u32) -> Nanos {
    Nanos(u64::from(usage & MOST_AGE) * MS)
}

/// Restores the use of an extent from its word, with the number of accesses.
pub(super) fn set_usage(extent: &mut Extent, usage: u32, uses: u32, clock: Nanos) {
    extent.last_access = clock.saturating_sub(age(usage));
    extent.misses = usage >> AGE_BITS & MOST_MISSES;
    extent.referenced = usage & REFERENCED != 0;
    extent.uses = extent.uses.max(uses).max(1);
}

/// A snapshot is taken early if more than this part of the cache has changed since the last one, but not more often than this many times
/// in an interval.
const CHANGED_PART: u32 = 8;
const LOOKS: u64 = 10;

/// The next part to save.
#[derive(Debug)]
pub(super) enum Stage {
    Policy(Cursor),
    /// Extents on the fast device, from this slot on.
    Residents(u32),
    Gate(GateCursor),
    /// Extents that have missed lately, from this one on.
    Missed(u32),
    /// Everything is saved, and this is the header.
    Header,
}

/// A snapshot under way.
#[derive(Debug)]
pub(super) struct Writing {
    pub(super) header: Header,
    pub(super) packer: Packer,
    pub(super) stage: Stage,
    /// When the snapshot goes on.
    pub(super) goes_on_at: Nanos,
}

/// The state of snapshots.
#[derive(Debug, Default)]
pub(in crate::cache) struct Warm {
    /// Where snapshots go; `None`: nowhere.
    pub(super) room: Option<Room>,
    pub(super) volume: VolumeId,
    pub(super) generation: u64,
    /// The number of the newest whole snapshot, and the highest number that was used.
    pub(super) kept: u64,
    pub(super) tried: u64,
    /// When the last snapshot began, or the first timer ran, and how many extents have entered the fast device since.
    pub(super) began_at: Option<Nanos>,
    pub(in crate::cache) changed: u32,
    pub(super) writing: Option<Writing>,
    /// The blocks of the command in flight, if one is.
    pub(super) piece: Vec<u8>,
    pub(super) in_flight: bool,
    /// A time in seconds since 1970, and the engine's clock at that time.
    pub(super) wall: Option<(u64, Nanos)>,
    /// The snapshot that was found when the volume was opened, until it is restored.
    pub(super) found: Option<Whole>,
    pub(in crate::cache) report: Warmth,
}

impl Warm {
    /// Whether it is too early for the next snapshot. Returns when to look again.
    pub(super) fn waits(&mut self, now: Nanos, interval: Nanos, usable: u32) -> Option<Nanos> {
        let since = *self.began_at.get_or_insert(now);
        let passed = now.saturating_sub(since);
        let early = Nanos((interval.0 / LOOKS).max(1));
        let has_changed = self.changed > usable / CHANGED_PART;
        if passed >= interval || has_changed && passed >= early {
            return None;
        }
        let looks_again = since.saturating_add(Nanos((passed.0 / early.0 + 1) * early.0));
        Some(looks_again.min(since.saturating_add(interval)))
    }

    /// The number of the next snapshot: never in the half of the last whole one, and never a number that was used.
    pub(super) fn next_number(&mut self) -> u64 {
        let mut number = self.kept + 1;
        if number <= self.tried {
            number += (self.tried - number) / 2 * 2 + 2;
        }
        self.tried = number;
        number
    }

    /// The time in seconds since 1970; 0 if it is not known.
    pub(in crate::cache) fn unix_s(&self, now: Nanos) -> u64 {
        self.wall.map_or(0, |(unix_s, at)| unix_s + now.saturating_sub(at).0 / (1000 * MS))
    }

    /// Sets the time in seconds since 1970.
    pub(in crate::cache) fn tell_time(&mut self, now: Nanos, unix_s: u64) {
        self.wall = Some((unix_s, now));
    }

    /// Ends the snapshot under way, because the state that it saves is replaced.
    pub(in crate::cache) fn abandon(&mut self) {
        self.writing = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_use_of_an_extent_is_kept_to_the_millisecond() {
        let clock = Nanos::from_s(1000);
        let mut before = Extent::default();
        (before.last_access, before.misses, before.referenced) = (Nanos::from_s(940), 3, true);
        let mut after = Extent::default();
        set_usage(&mut after, usage(&before, clock), 17, clock);
        assert_eq!((after.last_access, after.misses, after.referenced), (before.last_access, 3, true));
        assert_eq!((after.uses, age(usage(&before, clock))), (17, Nanos::from_s(60)));
        (before.misses, before.last_access) = (1_000, Nanos::from_s(2000));
        set_usage(&mut after, usage(&before, clock), 3, clock);
        assert_eq!((after.misses, after.last_access), (MOST_MISSES, clock));
    }

    #[test]
    fn a_snapshot_is_early_where_much_has_changed() {
        let (mut warm, interval) = (Warm::default(), Nanos::from_s(100));
        let mut waits = |at, changed| {
            warm.changed = changed;
            warm.waits(Nanos::from_s(at), interval, 800).map(|again| again.0 / 1_000_000_000)
        };
        assert_eq!(
            [waits(5, 0), waits(5, 700), waits(14, 700), waits(15, 100)],
            [Some(15), Some(15), Some(15), Some(25)]
        );
        assert_eq!([waits(15, 101), waits(99, 0), waits(104, 0), waits(105, 0)], [None, Some(105), Some(105), None]);
    }

    #[test]
    fn a_number_is_used_once_and_never_in_the_half_of_the_last_whole_one() {
        let mut warm = Warm::default();
        assert_eq!([warm.next_number(), warm.next_number()], [1, 3], "the first has failed");
        warm.kept = 3;
        assert_eq!(warm.next_number(), 4);
        (warm.kept, warm.tried) = (4, 9);
        assert_eq!([warm.next_number(), warm.next_number()], [11, 13]);
    }
}
