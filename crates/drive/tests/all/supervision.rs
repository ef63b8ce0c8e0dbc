//! The fears: a server that ended is not started again, one that hangs is left, or a block device waits for ever for a server that does
//! not come.

use peryton_drive::{Patience, Supervision, Task};
use peryton_units::Nanos;

const PATIENCE: Nanos = Nanos::from_s(60);
const WITHOUT: Patience = Patience { give_up_after: PATIENCE, hung_after: None, end_within: Nanos::from_s(40) };
const HUNG_AFTER: Nanos = Nanos::from_s(20);

fn at(ms: u64) -> Nanos {
    Nanos::from_ms(ms)
}

fn serving() -> Supervision {
    let mut supervision = Supervision::new(at(0), WITHOUT, false);
    assert_eq!(supervision.task(at(0)), Task::Start);
    supervision.started();
    assert_eq!(supervision.task(at(500)), Task::Wait { until: None });
    supervision.serves(at(1_000));
    supervision
}

#[test]
fn a_server_that_is_killed_is_started_again_at_once() {
    let mut supervision = serving();
    supervision.ended(at(100_000), None, true);
    let Task::Wait { until: Some(start) } = supervision.task(at(100_000)) else { panic!("it does not wait") };
    assert_eq!(start, at(100_050));
    assert_eq!(supervision.task(start), Task::Start);
    supervision.started();
    supervision.serves(at(101_000));
    assert_eq!(supervision.task(at(1_000_000)), Task::Wait { until: None });
}

#[test]
fn a_server_that_stays_away_costs_the_device_after_the_given_time_and_not_before() {
    let mut supervision = serving();
    let mut now = at(2_000);
    supervision.ended(now, None, true);
    let (end, mut starts) = (now.saturating_add(PATIENCE), 0);
    loop {
        match supervision.task(now) {
            Task::Start => {
                starts += 1;
                supervision.started();
                // It fails each time, half a second later.
                now = now.saturating_add(at(500));
                supervision.ended(now, Some(1), true);
            }
            Task::Wait { until } => now = until.unwrap(),
            Task::GiveUp => break,
            task => panic!("{task:?} although the device waits"),
        }
    }
    assert!(now >= end && now < end.saturating_add(at(500)), "given up at {now}, not at {end}");
    assert!((10..30).contains(&starts), "{starts} starts");
}

/// The fear: the devices of a killed server are busy for a moment, and the next server is the last.
#[test]
fn a_server_without_a_block_device_is_started_again_until_it_has_not_served_for_the_given_time() {
    let mut supervision = serving();
    let mut now = at(2_000);
    supervision.ended(now, None, false);
    let (end, mut starts) = (now.saturating_add(PATIENCE), 0);
    let code = loop {
        match supervision.task(now) {
            Task::Start => {
                starts += 1;
                supervision.started();
                now = now.saturating_add(at(5_000));
                supervision.ended(now, Some(2), false);
            }
            Task::Wait { until } => now = until.unwrap(),
            Task::End { code } => break code,
            task => panic!("{task:?}"),
        }
    };
    assert_eq!(code, 2);
    assert!(now >= end && starts > 4, "ended at {now} after {starts} starts");
}

#[test]
fn what_a_server_asked_for_ends_with_it() {
    let mut supervision = Supervision::new(at(0), WITHOUT, false);
    assert_eq!(supervision.task(at(0)), Task::Start);
    supervision.started();
    // It opens a large volume, and is killed soon after.
    supervision.extended(at(1_000), Nanos::from_s(600));
    supervision.serves(at(2_000));
    supervision.ended(at(3_000), None, true);
    assert_eq!(supervision.task(at(3_050)), Task::Start);
    supervision.started();
    supervision.ended(at(4_000), Some(1), true);
    let end = at(3_000).saturating_add(PATIENCE);
    assert_ne!(supervision.task(end.saturating_sub(at(1))), Task::GiveUp);
    assert_eq!(supervision.task(end), Task::GiveUp);
}

#[test]
fn a_server_that_hangs_while_it_starts_is_given_up_too() {
    let mut supervision = serving();
    supervision.ended(at(2_000), None, true);
    supervision.started();
    assert_eq!(supervision.task(at(3_000)), Task::Wait { until: Some(at(62_000)) });
    assert_eq!(supervision.task(at(62_000)), Task::GiveUp);
}

#[test]
fn a_design_that_cannot_be_served_ends_the_supervision() {
    let mut supervision = Supervision::new(at(0), WITHOUT, false);
    supervision.started();
    supervision.ended(at(100), Some(2), false);
    assert_eq!(supervision.task(at(100)), Task::End { code: 2 });
    // But not if a device waits for it.
    let mut supervision = Supervision::new(at(0), WITHOUT, true);
    supervision.started();
    supervision.ended(at(100), Some(2), true);
    assert!(matches!(supervision.task(at(100)), Task::Wait { .. }));
    assert_eq!(supervision.task(at(60_000)), Task::GiveUp);
}

#[test]
fn a_server_that_is_stopped_is_not_started_again() {
    let mut supervision = serving();
    supervision.stop(at(2_000));
    assert_eq!(supervision.task(at(2_000)), Task::AskToEnd);
    assert_eq!(supervision.task(at(2_000)), Task::Wait { until: Some(at(42_000)) });
    supervision.ended(at(3_000), Some(0), true);
    assert_eq!(supervision.task(at(3_000)), Task::End { code: 0 });
    // Between two servers of which neither was killed.
    let mut supervision = serving();
    supervision.ended(at(2_000), Some(1), true);
    supervision.stop(at(2_000));
    assert_eq!(supervision.task(at(2_000)), Task::End { code: 0 });
    // Ended by another: in good order, so on purpose.
    let mut supervision = serving();
    supervision.ended(at(2_000), Some(0), true);
    assert_eq!(supervision.task(at(2_000)), Task::End { code: 0 });
}

/// The fear: what a killed server had answered ends with the supervision, because no other server has closed the volume.
#[test]
fn what_a_killed_server_has_left_is_closed_before_the_supervision_ends() {
    // Stopped between two servers, while the next one opens, and while a server hangs that is killed then.
    let between = |supervision: &mut Supervision| {
        supervision.ended(at(2_000), None, true);
        supervision.stop(at(2_000));
        assert_eq!(supervision.task(at(2_000)), Task::Start);
        supervision.started();
        2_000
    };
    let opening = |supervision: &mut Supervision| {
        supervision.ended(at(1_900), None, true);
        assert_eq!(supervision.task(at(1_950)), Task::Start);
        supervision.started();
        supervision.stop(at(2_000));
        2_000
    };
    let hung = |supervision: &mut Supervision| {
        supervision.stop(at(2_000));
        assert_eq!(supervision.task(at(2_000)), Task::AskToEnd);
        assert_eq!(supervision.task(at(42_000)), Task::Kill);
        supervision.ended(at(42_100), None, true);
        assert_eq!(supervision.task(at(42_100)), Task::Start);
        supervision.started();
        42_100
    };
    let cases: [&dyn Fn(&mut Supervision) -> u64; 3] = [&between, &opening, &hung];
    for case in cases {
        let mut supervision = serving();
        let ms = case(&mut supervision);
        assert!(matches!(supervision.task(at(ms + 30_000)), Task::Wait { .. }), "it is let to recover the volume");
        supervision.serves(at(ms + 30_000));
        assert_eq!(supervision.task(at(ms + 30_000)), Task::AskToEnd);
        supervision.ended(at(ms + 31_000), Some(0), false);
        assert_eq!(supervision.task(at(ms + 31_000)), Task::End { code: 0 });
    }
    // One that is killed as well is not followed by others without end.
    let mut supervision = serving();
    between(&mut supervision);
    supervision.serves(at(3_000));
    assert_eq!(supervision.task(at(3_000)), Task::AskToEnd);
    supervision.ended(at(4_000), None, true);
    assert_eq!(supervision.task(at(4_000)), Task::End { code: 1 });
    // A supervision that takes over from one that was killed does not know how the last server has ended.
    let mut supervision = Supervision::new(at(0), WITHOUT, true).after_a_kill();
    assert_eq!(supervision.task(at(0)), Task::Start);
    supervision.started();
    supervision.stop(at(100));
    assert!(matches!(supervision.task(at(100)), Task::Wait { .. }));
}

#[test]
fn a_server_whose_device_is_gone_is_started_without_a_deadline() {
    let mut supervision = serving();
    supervision.ended(at(2_000), Some(1), false);
    assert_eq!(supervision.task(at(500_000)), Task::Start);
}

fn watched() -> Supervision {
    let mut supervision = Supervision::new(at(0), Patience { hung_after: Some(HUNG_AFTER), ..WITHOUT }, false);
    supervision.started();
    supervision.serves(at(1_000));
    supervision
}

/// Looks as often as asked for, until this time or until there is something to do.
fn watch(supervision: &mut Supervision, mut now: Nanos, until: Nanos) -> (Nanos, Task) {
    loop {
        match supervision.task(now) {
            Task::Wait { until: Some(next) } if next <= until => {
                assert!(next > now, "it does not wait");
                now = next;
            }
            Task::Wait { .. } => return (until, Task::Wait { until: None }),
            task => return (now, task),
        }
    }
}

#[test]
fn a_server_without_signs_of_life_is_killed_once_and_then_started_again() {
    let mut supervision = watched();
    for second in 1..100 {
        assert_eq!(watch(&mut supervision, at(second * 1_000), at(second * 1_000 + 999)).1, Task::Wait { until: None });
        supervision.lives(at(second * 1_000));
    }
    let (now, task) = watch(&mut supervision, at(99_500), at(1_000_000));
    assert_eq!((now, task), (at(99_000).saturating_add(HUNG_AFTER), Task::Kill));
    assert_eq!(
        watch(&mut supervision, now, now.saturating_add(at(59_000))).1,
        Task::Wait { until: None },
        "it is killed once"
    );
    let mut unkillable = supervision.clone();
    assert_eq!(watch(&mut unkillable, now.saturating_add(at(59_000)), at(1_000_000)).1, Task::GiveUp);
    supervision.ended(now, None, true);
    let (_, task) = watch(&mut supervision, now, at(1_000_000));
    assert_eq!(task, Task::Start);
}

#[test]
fn a_supervisor_that_could_not_look_blames_nobody() {
    let mut supervision = watched();
    assert!(matches!(supervision.task(at(2_000)), Task::Wait { .. }));
    // The machine was stopped, and the server with it.
    let (now, task) = watch(&mut supervision, at(500_000), at(519_000));
    assert_eq!(task, Task::Wait { until: None }, "at {now}");
    let (now, task) = watch(&mut supervision, at(519_000), at(1_000_000));
    assert_eq!((now, task), (at(520_000), Task::Kill));
}

#[test]
fn a_server_that_does_not_end_is_killed_unless_it_makes_progress() {
    for hand_over in [false, true] {
        let mut supervision = serving();
        if hand_over {
            supervision.hand_over(at(10_000))
        } else {
            supervision.stop(at(10_000))
        }
        assert_eq!(supervision.task(at(10_000)), Task::AskToEnd);
        let (now, task) = watch(&mut supervision, at(10_000), at(49_999));
        assert_eq!(task, Task::Wait { until: None }, "at {now}");
        supervision.extended(at(49_000), Nanos::from_s(30));
        let (now, task) = watch(&mut supervision, at(49_999), at(500_000));
        assert_eq!((now, task), (at(79_000), Task::Kill));
        supervision.ended(at(79_100), None, true);
        let expected = if hand_over { Task::Renew } else { Task::Start };
        assert_eq!(supervision.task(at(79_100)), expected);
    }
}

#[test]
fn a_hand_over_ends_with_the_program_that_is_installed_or_with_this_one() {
    let mut supervision = serving();
    supervision.hand_over(at(10_000));
    assert_eq!(supervision.task(at(10_000)), Task::AskToEnd);
    assert!(matches!(supervision.task(at(10_000)), Task::Wait { .. }));
    supervision.ended(at(11_000), Some(0), true);
    assert_eq!(supervision.task(at(11_000)), Task::Renew);
    // It cannot be started.
    supervision.goes_on();
    assert_eq!(supervision.task(at(11_000)), Task::Start);
    // A stop comes amid a hand-over.
    let mut supervision = serving();
    supervision.hand_over(at(10_000));
    assert_eq!(supervision.task(at(10_000)), Task::AskToEnd);
    supervision.stop(at(10_500));
    supervision.hand_over(at(10_600));
    assert_eq!(supervision.task(at(10_600)), Task::AskToEnd, "it does not leave its device");
    supervision.ended(at(11_000), Some(0), true);
    assert_eq!(supervision.task(at(11_000)), Task::End { code: 0 });
}

#[test]
fn a_recovery_that_makes_progress_is_not_given_up() {
    let mut supervision = serving();
    supervision.ended(at(2_000), None, true);
    supervision.started();
    supervision.extended(at(61_000), Nanos::from_s(30));
    assert!(matches!(supervision.task(at(62_000)), Task::Wait { .. }));
    assert_eq!(supervision.task(at(91_000)), Task::GiveUp);
}
