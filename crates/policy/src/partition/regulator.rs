//! Write regulation (MixedStore, section 5.4): some of the writes for the fast device go to the slow one, at random, so
//! that the fast device lasts.

use peryton_units::{Bytes, Nanos};

use super::{Regulation, WearBudget};

/// The interval at which the share is set.
const FRAME: Nanos = Nanos::from_s(10);
/// An excess or a rest of the budget is made up for over this many frames.
const HORIZON_FRAMES: f64 = 6.0;
/// The rest of the budget from quiet times is available for later bursts, but at most that of this many frames: a drive
/// that was idle for a year must not be worn out in a day.
const SAVED_FRAMES: f64 = 8640.0;
/// The weight of earlier frames in the estimated cost of a write.
const MEMORY: f64 = 0.8;

#[derive(Clone, Debug)]
pub(super) struct Regulator {
    regulation: Regulation,
    random: u64,
    /// The redirected share, out of 2^32.
    share: u64,
    /// When the frame under way began; none before the first write.
    frame_began: Option<Nanos>,
    /// Bytes for the fast device in this frame, before regulation, and bytes that were sent there.
    wanted: u64,
    written: u64,
    /// Bytes that may have been written so far, less those that were, in terms of the device's rating.
    credit: f64,
    /// Bytes that the device has programmed, if it reports that: now, and when the frame began.
    programmed: Option<u64>,
    programmed_before: Option<u64>,
    /// All bytes written to it at that report, moves and metadata included, and when the frame began.
    reached: u64,
    reached_before: u64,
    /// When a report was last asked for, so that a device without reports is not asked more often.
    asked: Option<Nanos>,
    /// What the device says of its wear: the share of its life that is used up, in parts per million, and its age.
    worn: Option<(u32, Option<Nanos>)>,
    /// Bytes of its life that were spent, and bytes written for that; recent ones weigh most.
    cost: (f64, f64),
}

/// The words of an account that lasts.
pub(super) const ACCOUNT_WORDS: usize = 7;

/// Bytes of the rating that a programmed byte takes.
fn physical(budget: WearBudget) -> f64 {
    budget.programmable.map_or(1.0, |all| budget.endurance.0 as f64 / all.0 as f64)
}

/// Converts parts per million to parts of 2^32.
fn of_ppm(ppm: u32) -> u64 {
    (u64::from(ppm) << 32) / 1_000_000
}

impl Regulator {
    pub(super) fn new(regulation: Regulation, seed: u64) -> Regulator {
        let share = match regulation {
            Regulation::Share(ppm) => of_ppm(ppm),
            _ => 0,
        };
        Regulator {
            regulation,
            // Any seed except zero works.
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            share,
            frame_began: None,
            wanted: 0,
            written: 0,
            credit: 0.0,
            programmed: None,
            programmed_before: None,
            reached: 0,
            reached_before: 0,
            asked: None,
            worn: None,
            cost: (0.0, 0.0),
        }
    }

    fn budget(&self) -> Option<WearBudget> {
        match self.regulation {
            Regulation::Lifetime(budget) | Regulation::ShareBeyond { budget, .. } => Some(budget),
            Regulation::Off | Regulation::Share(_) => None,
        }
    }

    /// Whether to ask for a report of the programmed bytes now. Asks once.
    pub(super) fn asks(&mut self, now: Nanos) -> bool {
        let old = Nanos(FRAME.0 / 2);
        let asks = self.budget().is_some() && self.asked.is_none_or(|asked| now.saturating_sub(asked) >= old);
        if asks {
            self.asked = Some(now);
        }
        asks
    }

    /// Records how many bytes the device has programmed, and how many were written to it, since a fixed time.
    pub(super) fn programmed(&mut self, bytes: Bytes, written: Bytes) {
        let before = self.programmed.replace(bytes.0);
        // A count that has started again says nothing about this frame.
        if before.is_none_or(|before| before > bytes.0) || self.reached > written.0 {
            (self.programmed_before, self.reached_before) = (Some(bytes.0), written.0);
        }
        self.reached = written.0;
    }

    /// Records the share of the device's life that is used up, in parts per million, and how old it is.
    pub(super) fn worn(&mut self, used_ppm: u32, age: Option<Nanos>) {
        self.worn = Some((used_ppm, age));
    }

    /// Goes on where another regulator of the same device was: its account, and what the device has reported.
    pub(super) fn resume(&mut self, before: &Regulator) {
        let regulation = self.regulation;
        // A share that follows from the account stays until the frame ends.
        let share = if self.budget().and(before.budget()).is_some() { before.share } else { self.share };
        *self = Regulator { regulation, share, ..before.clone() };
    }

    /// The account as of now, as words that last: what may be written beyond the rate, or was; the cost of a write; and the share that
    /// follows. `None` if nothing bounds the wear.
    pub(super) fn account(&self, now: Nanos) -> Option<[u32; ACCOUNT_WORDS]> {
        let budget = self.budget()?;
        let span = self.frame_began.map_or(0, |began| now.saturating_sub(began).0);
        let credit = self.credit + self.rate(budget) * span as f64 - self.written as f64 * self.cost_of_a_byte(budget);
        let mut words = [0; ACCOUNT_WORDS];
        for (pair, value) in words.chunks_exact_mut(2).zip([credit, self.cost.0, self.cost.1]) {
            let bits = value.to_bits();
            pair.copy_from_slice(&[bits as u32, (bits >> 32) as u32]);
        }
        words[ACCOUNT_WORDS - 1] = self.share.min(u64::from(u32::MAX)) as u32;
        Some(words)
    }

    /// Goes on with an account that was kept.
    pub(super) fn take_up(&mut self, words: &[u32; ACCOUNT_WORDS]) {
        let value = |index: usize| f64::from_bits(u64::from(words[index]) | u64::from(words[index + 1]) << 32);
        let [credit, spent, written] = [value(0), value(2), value(4)];
        if [credit, spent, written].iter().all(|value| value.is_finite()) && spent >= 0.0 && written >= 0.0 {
            (self.credit, self.cost) = (credit, (spent, written));
            if self.budget().is_some() {
                self.share = u64::from(words[ACCOUNT_WORDS - 1]);
            }
        }
    }

    /// Bytes of its rating that a written byte costs.
    fn cost_of_a_byte(&self, budget: WearBudget) -> f64 {
        match self.cost {
            (spent, written) if spent > 0.0 && written > 0.0 => spent / written,
            _ => (f64::from(budget.amplification) / 1e3 * physical(budget)).max(1.0),
        }
    }

    /// Bytes of its rating that the device may spend in a nanosecond.
    fn rate(&self, budget: WearBudget) -> f64 {
        let share = self.worn.map_or(1.0, |(used_ppm, age)| budget.share_when_worn(used_ppm, age));
        budget.endurance.0 as f64 / budget.lifetime.0 as f64 * share
    }

    /// Whether this write goes to the slow device instead.
    pub(super) fn redirects(&mut self, now: Nanos, len: Bytes) -> bool {
        if let Some(budget) = self.budget() {
            self.wanted += len.0;
            let span = now.saturating_sub(*self.frame_began.get_or_insert(now));
            if span >= FRAME {
                self.set_share(now, span, budget);
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

    fn set_share(&mut self, now: Nanos, span: Nanos, budget: WearBudget) {
        let (span, frame, written) = (span.0 as f64, FRAME.0 as f64, self.written as f64);
        let assumed = f64::from(budget.amplification) / 1e3;
        let measured =
            self.programmed.zip(self.programmed_before).map(|(now, before)| now.saturating_sub(before) as f64);
        // Moves and metadata wear the device too, and its reports include them. Of the two lives, the one that is used
        // up faster counts; programmed bytes are converted to rated bytes.
        let physical = physical(budget);
        let reached = measured.map_or(written, |_| self.reached.saturating_sub(self.reached_before) as f64);
        let spent = reached.max(measured.unwrap_or(written * assumed) * physical);
        if measured.is_some() {
            self.cost = (MEMORY * self.cost.0 + spent, MEMORY * self.cost.1 + written);
        }
        let cost = self.cost_of_a_byte(budget);
        let rate = self.rate(budget);
        self.credit += rate * span - spent;
        self.credit = self.credit.min(rate * frame * SAVED_FRAMES);
        let allowed = (rate * frame + self.credit / HORIZON_FRAMES).max(0.0) / cost;
        let wanted = self.wanted as f64 * frame / span;
        self.share = match self.regulation {
            Regulation::ShareBeyond { share, .. } if wanted > allowed => of_ppm(share),
            Regulation::Lifetime(_) if wanted > allowed => ((1.0 - allowed / wanted) * (1u64 << 32) as f64) as u64,
            _ => 0,
        };
        (self.frame_began, self.wanted, self.written) = (Some(now), 0, 0);
        (self.programmed_before, self.reached_before) = (self.programmed, self.reached);
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

    /// A budget of 4,096,000 bytes a second for that many millions of seconds.
    fn budget(share: f64) -> WearBudget {
        let endurance = Bytes((share * 1e6 * 4_096_000.0) as u64);
        WearBudget { endurance, programmable: None, lifetime: Nanos::from_s(1_000_000), amplification: 1_000 }
    }

    #[test]
    fn a_share_beyond_the_budget_leaves_alone_what_is_within_it() {
        let regulation = |share| Regulation::ShareBeyond { share: 500_000, budget: budget(share) };
        let (kept, all) = written(regulation(2.0), 2000, 1000);
        assert_eq!(kept, all);
        let (kept, all) = written(regulation(0.25), 2000, 1000);
        assert!((kept / all - 0.5).abs() < 0.02, "half, though a quarter would be the budget: {}", kept / all);
    }

    /// The fear: whoever restarts the drive each hour, or changes a setting, writes as much as he likes.
    #[test]
    fn a_debt_outlives_the_regulator() {
        let regulation = Regulation::Lifetime(budget(0.1));
        let write = |regulator: &mut Regulator, from_s: u64, seconds: u64| {
            let mut kept = 0.0;
            for index in 0..seconds * 100 {
                let now = Nanos(from_s * 1_000_000_000 + index * 10_000_000);
                kept += if regulator.redirects(now, Bytes::kib(4)) { 0.0 } else { 4096.0 };
            }
            kept
        };
        // Before its first frame has ended a regulator diverts nothing, and owes what went beyond the rate of 409,600 bytes a second.
        let mut first = Regulator::new(regulation, 1);
        write(&mut first, 0, 3600);
        first.credit = -1e9;
        let kept = first.account(Nanos::from_s(3600)).unwrap();
        let mut again = Regulator::new(regulation, 1);
        again.take_up(&kept);
        // The snapshot's clock goes on: the time before it is no budget.
        write(&mut again, 3600, 11);
        assert!(again.credit < -0.9e9, "{}", again.credit);
        let mut retuned = Regulator::new(Regulation::Lifetime(budget(0.2)), 1);
        retuned.resume(&again);
        write(&mut retuned, 3611, 11);
        assert!(retuned.credit < -0.9e9, "{}", retuned.credit);
        assert_eq!(retuned.rate(budget(0.2)), Regulator::new(regulation, 1).rate(budget(0.2)));
        // What is no account is not taken up, and what bounds nothing has none.
        retuned.take_up(&[u32::MAX; ACCOUNT_WORDS]);
        assert!(retuned.credit < -0.9e9);
        assert_eq!(Regulator::new(Regulation::Share(1), 1).account(Nanos::ZERO), None);
    }

    /// The fear: a drive that is half worn after a tenth of its time gets the budget of a new one.
    #[test]
    fn what_a_device_says_of_its_wear_changes_the_budget() {
        let regulation = Regulation::Lifetime(budget(1.0));
        let lifetime = Nanos::from_s(1_000_000);
        let rate_of = |used_ppm, age_s: Option<u64>| {
            let mut regulator = Regulator::new(regulation, 1);
            regulator.worn(used_ppm, age_s.map(Nanos::from_s));
            let mut next = Regulator::new(regulation, 1);
            next.resume(&regulator);
            next.rate(budget(1.0)) / (budget(1.0).endurance.0 as f64 / lifetime.0 as f64)
        };
        let near = |is: f64, should: f64| assert!((is - should).abs() < 1e-9, "{is} {should}");
        near(rate_of(100_000, Some(100_000)), 1.0);
        near(rate_of(550_000, Some(100_000)), 0.5);
        near(rate_of(100_000, Some(550_000)), 2.0);
        near(rate_of(250_000, None), 0.75);
        near(rate_of(1_300_000, Some(100_000)), 0.0);
        near(rate_of(0, Some(2_000_000)), 10.0);
    }

    #[test]
    fn a_lifetime_is_kept_and_not_overdone() {
        for (share, kept_share) in [(0.25, 0.25), (2.0, 1.0)] {
            let (kept, all) = written(Regulation::Lifetime(budget(share)), 2000, 1000);
            assert!((kept / all - kept_share).abs() < 0.02, "{} of {kept_share}", kept / all);
        }
    }

    #[test]
    fn a_burst_is_paid_for_by_the_quiet_before_it() {
        // Ten minutes with few writes, and one minute with the most possible.
        let mut regulator = Regulator::new(Regulation::Lifetime(budget(0.25)), 1);
        let mut kept = 0;
        for second in 0..6600_u64 {
            let burst = second % 660 >= 600;
            for index in 0..if burst { 1000 } else { 1 } {
                let now = Nanos(second * 1_000_000_000 + index * 1_000_000);
                kept += u64::from(!regulator.redirects(now, Bytes::kib(4)) && burst);
            }
        }
        assert!(kept > 590_000, "{kept} of 600000 writes, though the budget is 2.7 times that");
    }

    #[test]
    fn a_device_without_reports_is_asked_no_more_often() {
        let mut regulator = Regulator::new(Regulation::Lifetime(budget(0.5)), 1);
        let asked = (0..60_000_u64).filter(|ms| regulator.asks(Nanos::from_ms(*ms))).count();
        assert_eq!(asked, 12, "once in half a frame");
        assert!(!Regulator::new(Regulation::Share(1), 1).asks(Nanos::ZERO), "nothing depends on it");
    }

    #[test]
    fn the_assumed_amplification_is_used_until_the_device_reports() {
        let assumed = WearBudget { amplification: 4_000, ..budget(0.5) };
        let (kept, all) = written(Regulation::Lifetime(assumed), 2000, 1000);
        assert!((kept / all - 0.125).abs() < 0.02, "{}", kept / all);
        // The device programs more the more is written to it, but never as much as was assumed.
        let mut regulator = Regulator::new(Regulation::Lifetime(assumed), 1);
        let (mut programmed, mut resets) = (0.0, 0.0);
        for index in 0..2_000_000_u64 {
            let now = Nanos(index * 1_000_000);
            if !regulator.redirects(now, Bytes::kib(4)) {
                let share = regulator.share as f64 / (1u64 << 32) as f64;
                programmed += 4096.0 * (1.0 + 2.0 * (1.0 - share));
            }
            // A device that is plugged in again counts from zero.
            if index == 1_000_000 {
                resets = programmed;
            }
            if regulator.asks(now) {
                regulator.programmed(Bytes((programmed - resets) as u64), Bytes::ZERO);
            }
        }
        let rate = programmed / 2000.0 / 4_096_000.0;
        assert!((rate - 0.5).abs() < 0.02, "{rate} of 0.5");
    }
}
