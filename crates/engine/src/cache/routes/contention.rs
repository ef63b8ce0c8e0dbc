//! Whether a write for which the host waits should bring its extent in at its first miss or at its third.
//!
//! At the first, further misses that come within the time for which an extent stays are hits instead; but extents come in as well that are
//! not written a third time, and each displaces another one. What that costs is known from what leaves the fast device. An extent leaves
//! when it has not been used for some time, the lifetime. A miss of an extent that was used last between one and two lifetimes ago is one
//! that a device of twice the size would have served, and the number of these for each extent that leaves is what another lifetime of an
//! extent is worth.
//!
//! What would be spared is counted of a sample of the extents, which come in at their third miss in any case.

use peryton_units::Nanos;

/// Misses of an extent before a write brings it in, where it does not at the first one.
pub(super) const LATE: u32 = 2;
/// The lifetime is an average of about so many extents that have left.
const EXTENTS: u64 = 64;
/// Fewer extents that have left say nothing.
const FEWEST: u32 = 64;
/// All counts are halved when so many have left, so that what is said is of the last one to two times so many.
const SPAN: u32 = 1024;
/// One of 2^4 extents is in the sample.
const SAMPLE_BITS: u32 = 4;
/// Of 2^10 extents of the sample it is remembered when such a write to them missed last.
const REMEMBERED_BITS: u32 = 10;

/// What is counted of misses and of what leaves.
#[derive(Debug)]
pub(in crate::cache) struct Contention {
    lifetime: Nanos,
    /// Extents that have left.
    left: u32,
    /// Misses that twice the room would have spared.
    missed: u32,
    /// Of the sample: misses that would have been hits if extents came in at the first one, and how many would have come in.
    spared: u32,
    early: u32,
    /// How many come in at the third one.
    late: u32,
    /// Extents of the sample, and when a write to them for which the host waits missed last.
    writes: Vec<(u32, Nanos)>,
    at_first: bool,
}

impl Contention {
    /// Nothing is known: extents come in late.
    pub(in crate::cache) fn new() -> Contention {
        Contention {
            lifetime: Nanos::ZERO,
            left: 0,
            missed: 0,
            spared: 0,
            early: 0,
            late: 0,
            writes: Vec::new(),
            at_first: false,
        }
    }

    /// An extent leaves to make room; it was not used for so long.
    #[inline]
    pub(in crate::cache) fn leaves(&mut self, unused: Nanos) {
        let lifetime = self.lifetime.0;
        self.lifetime = if lifetime == 0 { unused } else { Nanos(lifetime - lifetime / EXTENTS + unused.0 / EXTENTS) };
        self.left += 1;
        if self.left >= SPAN {
            let counts = [&mut self.left, &mut self.missed, &mut self.spared, &mut self.early, &mut self.late];
            counts.into_iter().for_each(|count| *count /= 2);
        }
        if self.left >= FEWEST {
            let more = u64::from(self.early.saturating_sub(self.late));
            self.at_first = u64::from(self.spared) * u64::from(self.left) > more * u64::from(self.missed);
        }
    }

    /// An extent that is not on the fast device is asked for; it was not used for so long.
    #[inline]
    pub(in crate::cache) fn is_missed(&mut self, unused: Nanos) {
        if unused >= self.lifetime && unused.saturating_sub(self.lifetime) < self.lifetime {
            self.missed = self.missed.saturating_add(1);
        }
    }

    /// The host waits for a write to such an extent, which is its miss of this number.
    #[inline]
    pub(in crate::cache) fn is_waited_for(&mut self, extent: u32, number: u32, now: Nanos) {
        if !is_in_sample(extent) {
            return;
        }
        if self.writes.is_empty() {
            self.writes = vec![(u32::MAX, Nanos::ZERO); 1 << REMEMBERED_BITS];
        }
        let row = hash(extent) << SAMPLE_BITS >> (32 - REMEMBERED_BITS);
        let (before, at) = std::mem::replace(&mut self.writes[row as usize], (extent, now));
        let would_be_there = before == extent && now.saturating_sub(at) < self.lifetime;
        let count = if would_be_there { &mut self.spared } else { &mut self.early };
        // What comes in late is there from its third miss on, too.
        *count += u32::from(!would_be_there || number <= LATE + 1);
        self.late += u32::from(number == LATE + 1);
    }

    /// How often the extent must have missed to be brought in by such a write.
    pub(in crate::cache) fn threshold(&self, extent: u32) -> u32 {
        if self.at_first && !is_in_sample(extent) { 0 } else { LATE }
    }
}

/// Multiplicative hashing, so that neighbours are apart (Knuth, The Art of Computer Programming, volume 3, section 6.4).
fn hash(extent: u32) -> u32 {
    extent.wrapping_mul(0x9e37_79b1)
}

fn is_in_sample(extent: u32) -> bool {
    hash(extent) >> (32 - SAMPLE_BITS) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled() -> impl Iterator<Item = u32> {
        (0..u32::MAX).filter(|extent| is_in_sample(*extent))
    }

    /// An extent that is not in the sample.
    const OTHER: u32 = 1;

    /// Extents leave each second, after 10 s, and of each hundred so many are missed after 15 s. Of each ten extents of the sample one
    /// misses so often within a second, and the others once.
    fn go_on(contention: &mut Contention, from: u64, missed: u32, misses: u32) -> u64 {
        let to = from + 3_000;
        for (at, extent) in (from..to).zip(sampled().skip(from as usize)) {
            let now = Nanos::from_s(at);
            contention.leaves(Nanos::from_s(10));
            let turn = (at % 100) as u32;
            (0..(turn + 1) * missed / 100 - turn * missed / 100).for_each(|_| contention.is_missed(Nanos::from_s(15)));
            contention.is_missed(Nanos::from_s(5));
            contention.is_missed(Nanos::from_s(50));
            for number in 1..=if at % 10 == 0 { misses } else { 1 } {
                contention.is_waited_for(extent, number, now);
            }
            contention.is_waited_for(OTHER, 1, now);
        }
        to
    }

    #[test]
    fn what_is_spared_is_weighed_against_what_is_displaced() {
        let mut contention = Contention::new();
        assert!(!is_in_sample(OTHER) && contention.threshold(OTHER) == LATE, "as long as nothing is known");
        // Of ten extents, nine come in that would not have, for two misses that are spared.
        let now = go_on(&mut contention, 0, 20, 5);
        assert_eq!(contention.threshold(OTHER), 0, "not one in four of those that are displaced is missed");
        let now = go_on(&mut contention, now, 25, 5);
        assert_eq!(contention.threshold(OTHER), LATE);
        let now = go_on(&mut contention, now, 20, 3);
        assert_eq!(contention.threshold(OTHER), 0);
        // All ten come in, for one miss.
        let now = go_on(&mut contention, now, 12, 2);
        assert_eq!(contention.threshold(OTHER), LATE);
        let now = go_on(&mut contention, now, 8, 2);
        assert_eq!(contention.threshold(OTHER), 0);
        go_on(&mut contention, now, 8, 1);
        assert_eq!(contention.threshold(OTHER), LATE, "nothing is spared");
    }

    #[test]
    fn a_miss_after_the_lifetime_is_not_spared() {
        let misses = |apart: u64| {
            let (mut contention, extent) = (Contention::new(), sampled().next().expect("there are some"));
            for number in 0..1_000 {
                contention.leaves(Nanos::from_s(10));
                contention.is_waited_for(extent, 2, Nanos::from_s(number * apart));
            }
            (contention.spared, contention.early, contention.threshold(OTHER))
        };
        assert_eq!(misses(9), (999, 1, 0));
        assert_eq!(misses(11), (0, 1_000, LATE));
    }

    #[test]
    fn the_sample_comes_in_late() {
        let mut contention = Contention::new();
        go_on(&mut contention, 0, 10, 5);
        assert!(sampled().take(100).all(|extent| contention.threshold(extent) == LATE));
        let share = (0..160_000).filter(|extent| is_in_sample(*extent)).count();
        assert!((9_900..10_100).contains(&share), "{share}");
        let mut rows: Vec<u32> =
            sampled().take(1 << 14).map(|extent| hash(extent) << SAMPLE_BITS >> (32 - REMEMBERED_BITS)).collect();
        rows.sort_unstable();
        rows.dedup();
        assert_eq!(rows.len(), 1 << REMEMBERED_BITS, "every row is used");
    }
}
