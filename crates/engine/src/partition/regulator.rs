//! Write regulation (MixedStore, section 5.4): some of the writes that would go to the fast device go to the slow one,
//! at random, so that the fast device lasts.

use peryton_units::{Bytes, Nanos};

use super::Regulation;

/// The rate is judged once in this time.
const FRAME: Nanos = Nanos::from_s(10);
/// What was not written of the budget, or was written beyond it, is made up for over this time.
const HORIZON_FRAMES: f64 = 6.0;

#[derive(Debug)]
pub(super) struct Regulator {
    regulation: Regulation,
    random: u64,
    /// Out of 2 to the power of 32.
    share: u64,
    frame_began: Nanos,
    /// Bytes that were to go to the fast device in this frame, before regulation.
    wanted: u64,
    /// What may be written by now, less what was.
    credit: f64,
    written: u64,
}

/// Out of 2 to the power of 32.
fn of_ppm(ppm: u32) -> u64 {
    (u64::from(ppm) << 32) / 1_000_000
}

impl Regulator {
    pub(super) fn new(regulation: Regulation, seed: u64) -> Regulator {
        let share = match regulation {
            Regulation::Share(ppm) => of_ppm(ppm),
            _ => 0,
        };
        // Any seed will do, but for zero.
        let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        Regulator { regulation, random, share, frame_began: Nanos::ZERO, wanted: 0, credit: 0.0, written: 0 }
    }

    /// Whether this write is sent to the slow device instead.
    pub(super) fn redirects(&mut self, now: Nanos, len: Bytes) -> bool {
        if let Regulation::Lifetime { endurance, lifetime } | Regulation::ShareBeyond { endurance, lifetime, .. } =
            self.regulation
        {
            self.wanted += len.0;
            let span = now.saturating_sub(self.frame_began);
            if span >= FRAME {
                self.judge(now, span, endurance.0 as f64 / lifetime.0 as f64);
            }
        }
        if self.share == 0 {
            self.written += len.0;
            return false;
        }
        // xorshift64
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let redirects = (self.random >> 32) < self.share;
        self.written += if redirects { 0 } else { len.0 };
        redirects
    }

    /// `budget`: bytes per nanosecond.
    fn judge(&mut self, now: Nanos, span: Nanos, budget: f64) {
        let (span, frame) = (span.0 as f64, FRAME.0 as f64);
        self.credit += budget * span - self.written as f64;
        // A drive that was idle for a year may not be worn out in a day.
        self.credit = self.credit.min(budget * frame * HORIZON_FRAMES);
        let allowed = (budget * frame + self.credit / HORIZON_FRAMES).max(0.0);
        let wanted = self.wanted as f64 * frame / span;
        self.share = match self.regulation {
            Regulation::ShareBeyond { share, .. } if wanted > allowed => of_ppm(share),
            Regulation::Lifetime { .. } if wanted > allowed => ((1.0 - allowed / wanted) * (1u64 << 32) as f64) as u64,
            _ => 0,
        };
        (self.frame_began, self.wanted, self.written) = (now, 0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(regulation: Regulation, seconds: u64, per_second: u64) -> (f64, f64) {
        let mut regulator = Regulator::new(regulation, 1);
        let (mut kept, mut all) = (0.0, 0.0);
        for index in 0..seconds * per_second {
            let now = Nanos(index * 1_000_000_000 / per_second);
            let len = Bytes::kib(4);
            all += 4096.0;
            kept += if regulator.redirects(now, len) { 0.0 } else { 4096.0 };
        }
        (kept, all)
    }

    #[test]
    fn a_share_is_that_share() {
        let (kept, all) = written(Regulation::Share(250_000), 100, 1000);
        assert!((kept / all - 0.75).abs() < 0.01, "{}", kept / all);
        assert_eq!(written(Regulation::Off, 10, 100), (4_096_000.0, 4_096_000.0));
    }

    #[test]
    fn a_share_beyond_the_budget_leaves_alone_what_is_within_it() {
        let regulation = |budget: f64| Regulation::ShareBeyond {
            share: 500_000,
            endurance: Bytes((budget * 1e6 * 1_024_000.0) as u64),
            lifetime: Nanos::from_s(1_000_000),
        };
        let (kept, all) = written(regulation(8.0), 2000, 1000);
        assert_eq!(kept, all);
        let (kept, all) = written(regulation(1.0), 2000, 1000);
        assert!((kept / all - 0.5).abs() < 0.02, "half, though a quarter would be the budget: {}", kept / all);
    }

    #[test]
    fn a_lifetime_is_kept_and_not_overdone() {
        // A budget of a quarter of what is asked, and one of twice that.
        for (budget, share) in [(1.0, 0.25), (8.0, 1.0)] {
            let lifetime = Nanos::from_s(1_000_000);
            let endurance = Bytes((budget * 1e6 * 1_024_000.0) as u64);
            let (kept, all) = written(Regulation::Lifetime { endurance, lifetime }, 2000, 1000);
            assert!((kept / all - share).abs() < 0.02, "{} of {share}", kept / all);
        }
    }
}
