use peryton_units::{Bytes, Nanos};

use super::{
    counts::Levelling,
    parameters::{FlashParameters, Geometry, LevelWear},
};

/// A rate is taken over no less than this.
const WINDOW: u64 = 100_000_000;
/// How far back the mean rate reaches: much longer than a burst.
const MEMORY: u64 = 3_600_000_000_000;

/// When static wear-levelling works, and what it costs. Adaptive wear-levelling (MixedStore, section 5.5) watches the
/// rate of the host's writes: while it is beyond the usual, cold data stays where it is.
#[derive(Clone, Debug)]
pub(super) struct Leveller {
    /// Times the mean rate that make a burst; none where levelling is not adaptive.
    burst: Option<f64>,
    /// Time and stripes of the host when the rate was last taken.
    taken: Option<(u64, u32)>,
    /// Stripes per nanosecond.
    mean: f64,
    /// How much time the mean knows of.
    known: u64,
    in_burst: bool,
    /// By die: something was put off.
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

    /// A block is about to be chosen, when the host has written so many stripes: are many written of late?
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

    /// Whether a block of this die that should be moved may be.
    pub fn may(&mut self, die: u32) -> bool {
        if self.in_burst {
            self.counts.put_off += 1;
            self.owed[die as usize] = true;
        }
        !self.in_burst
    }

    /// Whether something was put off on this die.
    #[inline]
    pub fn owes(&self, die: u32) -> bool {
        self.owed[die as usize]
    }

    /// Nothing is left of it.
    pub fn settled(&mut self, die: u32) {
        self.owed[die as usize] = false;
    }

    /// Units of cold data were moved, and perhaps their block erased.
    pub fn moved(&mut self, units: u32, time: u64, erased: bool) {
        // Turned into bytes where the size of a unit is known.
        self.counts.bytes_moved = Bytes(self.counts.bytes_moved.0 + u64::from(units));
        self.counts.time = Nanos(self.counts.time.0 + time);
        self.counts.erases += u64::from(erased);
    }

    /// The account, with units in the place of bytes.
    pub fn counts(&self) -> Levelling {
        self.counts
    }

    /// A new account.
    pub fn reset_counts(&mut self) {
        self.counts = Levelling::default();
    }
}
