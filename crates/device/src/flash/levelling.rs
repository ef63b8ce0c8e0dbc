use peryton_units::{Bytes, Nanos};

use super::{
    counts::Levelling,
    parameters::{FlashParameters, Geometry, LevelWear},
};

/// The least time over which the write rate is measured.
const WINDOW: u64 = 100_000_000;
/// The time over which the mean rate is averaged: much longer than a burst.
const MEMORY: u64 = 3_600_000_000_000;

/// Decides when static wear-levelling works, and counts its cost. Adaptive wear-levelling (MixedStore, section 5.5)
/// watches the rate of the host's writes: while it is above the usual rate, cold data is not moved.
#[derive(Clone, Debug)]
pub(super) struct Leveller {
    /// A write rate above the mean by this factor is a burst; `None` if levelling is not adaptive.
    burst: Option<f64>,
    /// Time, and the host's stripes, at the last measurement of the rate.
    taken: Option<(u64, u32)>,
    /// The mean rate in stripes per nanosecond.
    mean: f64,
    /// The time covered by the mean rate.
    known: u64,
    in_burst: bool,
    /// Whether a move was delayed, for each die.
    owed: Vec<bool>,
    counts: Levelling,
}

impl Leveller {
    pub fn new(p: &FlashParameters, g: &Geometry) -> Leveller {
        Leveller {
            burst: (p.level_wear == LevelWear::Adaptive && p.wear_gap.is_some()).then_some(p.burst),
            taken: None,
            mean: 0.0,
            known: 0,
            in_burst: false,
            owed: vec![false; g.dies as usize],
            counts: Levelling::default(),
        }
    }

    /// Notes how many stripes the host has written by now, before a block is chosen, to detect a burst.
    #[inline]
    pub fn observe(&mut self, now: u64, stripes: u32) {
        // No time passes while a device is preconditioned.
        if self.burst.is_some() && now > 0 {
            self.take_rate(now, stripes);
        }
    }

    fn take_rate(&mut self, now: u64, stripes: u32) {
        let (begin, from) = *self.taken.get_or_insert((now, stripes));
        let (since, written) = (now.saturating_sub(begin), stripes.wrapping_sub(from));
        if since < WINDOW {
            return;
        }
        let rate = f64::from(written) / since as f64;
        self.in_burst = self.known > 0 && self.burst.is_some_and(|times| rate > times * self.mean);
        self.known = self.known.saturating_add(since).min(MEMORY);
        self.mean += (rate - self.mean) * (since as f64 / self.known as f64).min(1.0);
        self.taken = Some((now, stripes));
    }

    /// Whether a block of this die that should be moved may be moved now; if not, the move is noted as delayed.
    pub fn may(&mut self, die: u32) -> bool {
        if self.in_burst {
            self.counts.put_off += 1;
            self.owed[die as usize] = true;
        }
        !self.in_burst
    }

    /// Whether a move was delayed on this die.
    #[inline]
    pub fn owes(&self, die: u32) -> bool {
        self.owed[die as usize]
    }

    /// No delayed move is left on this die.
    pub fn settled(&mut self, die: u32) {
        self.owed[die as usize] = false;
    }

    /// Counts units of cold data that were moved, and whether their block was erased.
    pub fn moved(&mut self, units: u32, time: u64, erased: bool) {
        // The caller, which knows the size of a unit, converts units to bytes.
        self.counts.bytes_moved = Bytes(self.counts.bytes_moved.0 + u64::from(units));
        self.counts.time = Nanos(self.counts.time.0 + time);
        self.counts.erases += u64::from(erased);
    }

    /// The statistics, with units in the place of bytes.
    pub fn counts(&self) -> Levelling {
        self.counts
    }

    /// Resets the statistics.
    pub fn reset_counts(&mut self) {
        self.counts = Levelling::default();
    }
}
