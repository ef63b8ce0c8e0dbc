//! Tests of budgets: a burst within a day's cap is allowed, a steady excess ends, and debts are not forgotten.

use peryton_units::{Bytes, Nanos};

use super::{
    Climb,
    budget::{Budget, Of},
    memory::Sample,
};

const MB: f64 = 1e6;
/// The cap is one megabyte a second.
const CAP: Climb = Climb {
    every: Nanos::from_s(2),
    requests: 1,
    latency: 1.0,
    wear: 0.0,
    mean_cap: None,
    p99_cap: None,
    fast_bytes_per_day: Some(Bytes(86_400_000_000)),
    fast_programmed_per_day: None,
    power_cap_w: None,
};

/// A drive that writes what the test sets.
struct Drive {
    budget: Budget,
    now: Nanos,
    written: f64,
}

impl Drive {
    fn new() -> Drive {
        let mut budget = Budget::of(&CAP).remove(0);
        budget.look(Nanos::ZERO, 0, true);
        Drive { budget, now: Nanos::ZERO, written: 0.0 }
    }

    fn write(&mut self, seconds: u64, mb_per_s: f64, usual: bool) {
        for _ in 0..2 * seconds {
            self.now = self.now.saturating_add(Nanos::from_ms(500));
            self.written += mb_per_s * MB / 2.0;
            self.budget.look(self.now, self.written as u64, usual);
        }
    }
}

fn wrote(mb_per_s: f64) -> Sample {
    Sample {
        programmed_per_s: 0.0,
        mean_ns: 1e6,
        error: 0.01,
        p99_ns: 2e6,
        written_per_s: mb_per_s * MB,
        drawn_uw: 0.0,
        hit_ratio: 0.5,
        total_ns: 1e9,
    }
}

#[test]
fn a_burst_does_not_forbid_what_the_day_allows() {
    let mut drive = Drive::new();
    drive.write(3600, 0.1, true);
    // Ten times the cap, and the step makes it twelve.
    drive.write(60, 10.0, true);
    assert!(!drive.budget.forbids(&wrote(12.0), &wrote(10.0), &wrote(10.0)));
    assert!(!drive.budget.is_exhausted(), "an hour has saved for it");
    // A step to twenty times as much of everything is forbidden.
    assert!(drive.budget.forbids(&wrote(200.0), &wrote(10.0), &wrote(10.0)));
}

#[test]
fn a_quiet_span_does_not_make_a_little_more_forbidden() {
    let mut drive = Drive::new();
    drive.write(600, 0.5, true);
    // Three times as much of almost nothing.
    assert!(!drive.budget.forbids(&wrote(0.03), &wrote(0.01), &wrote(0.01)));
    assert!(!drive.budget.forbids(&wrote(0.03), &wrote(0.0), &wrote(0.0)));
    assert!(drive.budget.forbids(&wrote(1.1), &wrote(0.5), &wrote(0.5)), "more than twice as much is too much");
}

#[test]
fn a_steady_excess_is_taken_back() {
    let mut drive = Drive::new();
    drive.write(600, 0.5, true);
    drive.budget.kept(&wrote(0.8), &wrote(0.5), &wrote(0.5));
    let saved = 300.0;
    drive.write(100, 2.0, true);
    assert!(!drive.budget.is_exhausted(), "{saved} s of the cap have been saved, and 100 of them spent");
    drive.write(202, 2.0, true);
    assert!(drive.budget.is_exhausted() && !drive.budget.is_broken());
    drive.write(240, 2.0, true);
    assert!(drive.budget.is_broken(), "120 spans, and nothing has been taken back");
    // The step is undone now, and with it its effect on the usual spending.
    drive.budget.changed(0.5 / 0.8);
    drive.write(4, 0.5, true);
    assert!(!drive.budget.is_exhausted(), "it does not go on");
    assert!(drive.budget.forbids(&wrote(0.6), &wrote(0.5), &wrote(0.5)), "debts are paid first");
    assert!(!drive.budget.affords(1.2));
    drive.write(600, 0.5, true);
    assert!(drive.budget.affords(1.2) && !drive.budget.affords(3.0));
    assert!(!drive.budget.forbids(&wrote(0.6), &wrote(0.5), &wrote(0.5)));
}

#[test]
fn a_cold_start_is_judged_by_more_than_its_first_spans() {
    let mut drive = Drive::new();
    drive.write(8, 5.0, true);
    assert!(!drive.budget.is_exhausted(), "four spans");
    assert!(drive.budget.forbids(&wrote(6.0), &wrote(5.0), &wrote(5.0)), "nothing has been saved yet");
    assert!(!drive.budget.forbids(&wrote(5.0), &wrote(5.0), &wrote(5.0)), "no more than without it");
    drive.write(240, 5.0, true);
    assert!(drive.budget.is_exhausted() && !drive.budget.is_broken());
    drive.write(16, 5.0, true);
    assert!(drive.budget.is_broken(), "the workload itself breaks the cap");
    assert!(drive.budget.is_relieved(&wrote(4.0), &wrote(5.0), &wrote(5.0)));
}

#[test]
fn trials_are_paid_for_but_are_not_usual() {
    let mut drive = Drive::new();
    drive.write(60, 0.5, true);
    for _ in 0..5 {
        drive.write(2, 3.0, false);
        drive.write(8, 0.5, true);
    }
    assert!(!drive.budget.forbids(&wrote(0.8), &wrote(0.5), &wrote(0.5)), "the usual is what it was");
    // The rest of the account pays for a part of a trial.
    assert!(!drive.budget.ends(&wrote(3.0), &wrote(0.5)));
    drive.write(40, 3.0, false);
    assert!(drive.budget.ends(&wrote(3.0), &wrote(0.5)));
    assert!(!drive.budget.ends(&wrote(3.0), &wrote(3.0)), "it is not the trial's doing");
}

#[test]
fn what_was_spent_stays_spent_when_the_search_starts_over() {
    let mut drive = Drive::new();
    drive.write(600, 2.0, true);
    let mut next = Budget::of(&CAP).remove(0);
    next.resume(&drive.budget);
    assert!(next.forbids(&wrote(0.2), &wrote(0.1), &wrote(0.1)));
    let other = Climb { fast_bytes_per_day: Some(Bytes(1 << 40)), ..CAP };
    let mut next = Budget::of(&other).remove(0);
    next.resume(&drive.budget);
    assert!(!next.forbids(&wrote(0.2), &wrote(0.1), &wrote(0.1)), "another cap, another account");
}

#[test]
fn a_year_of_idleness_does_not_pay_for_a_month_of_excess() {
    let mut drive = Drive::new();
    drive.now = Nanos::from_s(365 * 86_400);
    drive.budget.look(drive.now, 0, true);
    drive.write(80_000, 2.0, true);
    assert!(!drive.budget.is_exhausted());
    drive.write(6_500, 2.0, true);
    assert!(drive.budget.is_exhausted(), "a day's worth was saved, no more");
}

#[test]
fn watts_are_judged_by_what_is_drawn() {
    let config = Climb { fast_bytes_per_day: None, power_cap_w: Some(8.0), ..CAP };
    let mut budget = Budget::of(&config).remove(0);
    assert_eq!(budget.of, Of::Drawn);
    for second in 0..100_u64 {
        budget.look(Nanos::from_s(second), second * 7_000_000, true);
    }
    let drew = |watts: f64| Sample { drawn_uw: watts * 1e6, ..wrote(0.0) };
    assert!(!budget.forbids(&drew(7.8), &drew(7.0), &drew(7.0)));
    assert!(budget.forbids(&drew(8.2), &drew(7.0), &drew(7.0)), "beyond the cap");
}

#[test]
fn what_is_programmed_is_a_budget_of_its_own() {
    let config = Climb { fast_programmed_per_day: Some(Bytes(172_800_000_000)), ..CAP };
    let mut budgets = Budget::of(&config);
    assert_eq!(budgets.iter().map(|budget| budget.of).collect::<Vec<_>>(), [Of::Written, Of::Programmed]);
    for second in 0..100_u64 {
        budgets.iter_mut().for_each(|budget| budget.look(Nanos::from_s(second), second * 1_000_000, true));
    }
    // The written bytes stay at their cap; twice as much may be programmed.
    let programmed = |mb_per_s: f64| Sample { programmed_per_s: mb_per_s * MB, ..wrote(1.0) };
    let forbids =
        |budget: &Budget, mb_per_s: f64| budget.forbids(&programmed(mb_per_s), &programmed(1.0), &programmed(1.0));
    assert_eq!([1.9, 3.0].map(|mb_per_s| forbids(&budgets[0], mb_per_s)), [false, false]);
    assert_eq!([1.9, 3.0].map(|mb_per_s| forbids(&budgets[1], mb_per_s)), [false, true], "beyond the cap");
}
