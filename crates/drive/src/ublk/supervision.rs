//! What `peryton supervise` does and when: it starts the server again, with growing pauses, kills one that hangs, and gives the block
//! device up when the server stays away for too long. Without clock, processes or devices.

use peryton_units::Nanos;

/// The pause before the server is started again: after the first failure, and at most.
const SHORT_PAUSE: Nanos = Nanos::from_ms(50);
const LONG_PAUSE: Nanos = Nanos::from_s(5);

/// A supervisor looks this many times in the time after which a server counts as hung. If it could not, because the machine or the
/// supervisor itself was stopped, the time begins again: the server's signs of life may not have been read.
const LOOKS: u64 = 4;

/// How long a supervisor waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Patience {
    /// For a server, while programs wait for the block device.
    pub give_up_after: Nanos,
    /// For a sign of life of a server; `None`: without end.
    pub hung_after: Option<Nanos>,
    /// For a server that was asked to end, if it does not ask for more.
    pub end_within: Nanos,
}

/// What is to be done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// Start a server.
    Start,
    /// Wait until then at most, or until something happens.
    Wait {
        /// When to ask again; `None`: only when something happens.
        until: Option<Nanos>,
    },
    /// Kill the server, which has given no sign of life, or does not end.
    Kill,
    /// End the server if there is one, and stop the block device: its requests fail from now on.
    GiveUp,
    /// Begin again with the program that is installed now, which starts the next server.
    Renew,
    /// End: the server was stopped, or never served.
    End {
        /// The server's exit code.
        code: i32,
    },
}

/// The state of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Server {
    /// It is to be started at this time.
    Absent { start: Nanos },
    /// It was started, and does not serve yet.
    Starting,
    /// It serves.
    Serving { since: Nanos },
    /// It ended, and is not to be started again.
    Ended { code: i32 },
}

/// Why a server is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The supervision ends as well.
    Stop,
    /// The next server is that of the program that is installed now.
    HandOver,
}

/// The supervision of a server.
#[derive(Clone, Debug)]
pub struct Supervision {
    patience: Patience,
    server: Server,
    /// Since when the device has had no server; `None` while it has one, and before the first.
    away: Option<Nanos>,
    pause: Nanos,
    ending: Option<Purpose>,
    /// When a server that was asked to end is killed.
    end_by: Option<Nanos>,
    /// Until when a server that opens the volume has asked to be waited for.
    extended: Nanos,
    /// The last sign of life of a server that serves.
    alive: Nanos,
    /// The last time that the supervisor looked.
    looked: Nanos,
    /// Whether the server was killed, and has not ended yet.
    killed: bool,
}

impl Supervision {
    /// A supervision that begins `now`. `waits`: the device is there and waits for a server, left by an earlier one.
    pub fn new(now: Nanos, patience: Patience, waits: bool) -> Supervision {
        Supervision {
            patience,
            server: Server::Absent { start: now },
            away: waits.then_some(now),
            pause: SHORT_PAUSE,
            ending: None,
            end_by: None,
            extended: Nanos::ZERO,
            alive: now,
            looked: now,
            killed: false,
        }
    }

    /// What is to be done now.
    pub fn task(&mut self, now: Nanos) -> Task {
        let look = self.patience.hung_after.map(|after| Nanos((after.0 / LOOKS).max(1)));
        if look.is_some_and(|look| now.saturating_sub(self.looked).0 > 2 * look.0) {
            self.alive = now;
        }
        self.looked = now;
        let give_up = self.away.map(|since| since.saturating_add(self.patience.give_up_after).max(self.extended));
        let give_up = give_up.filter(|_| !self.is_stopping());
        match self.server {
            Server::Ended { code } => return Task::End { code },
            Server::Absent { .. } if self.ending == Some(Purpose::HandOver) => return Task::Renew,
            _ => {}
        }
        if give_up.is_some_and(|deadline| deadline <= now) {
            return Task::GiveUp;
        }
        let (kill, look) = match self.server {
            Server::Absent { start } if start <= now => return Task::Start,
            Server::Absent { start } => (None, Some(start)),
            Server::Starting | Server::Serving { .. } if self.killed => (None, None),
            Server::Serving { .. } => {
                let hung = self.patience.hung_after.map(|after| self.alive.saturating_add(after));
                (hung.into_iter().chain(self.end_by).min(), look.map(|look| now.saturating_add(look)))
            }
            Server::Starting | Server::Ended { .. } => (self.end_by, None),
        };
        if kill.is_some_and(|deadline| deadline <= now) {
            self.killed = true;
            // Should the kernel be unable to end it, programs do not wait for ever either.
            self.away.get_or_insert(now);
            return Task::Kill;
        }
        Task::Wait { until: [kill, look, give_up].into_iter().flatten().min() }
    }

    /// A server was started.
    pub fn started(&mut self) {
        self.server = Server::Starting;
    }

    /// It serves.
    pub fn serves(&mut self, now: Nanos) {
        if self.server == Server::Starting {
            self.server = Server::Serving { since: now };
            self.away = None;
            self.alive = now;
        }
    }

    /// It has given a sign of life.
    pub fn lives(&mut self, now: Nanos) {
        self.alive = now;
    }

    /// It makes progress with its start or its end, and asks to be waited for so long.
    pub fn extended(&mut self, now: Nanos, by: Nanos) {
        let until = now.saturating_add(by);
        self.extended = until;
        self.end_by = self.end_by.map(|end_by| end_by.max(until));
    }

    /// It is asked to end, and will not be started again.
    pub fn stop(&mut self, now: Nanos) {
        self.end(now, Purpose::Stop);
        if let Server::Absent { .. } = self.server {
            self.server = Server::Ended { code: 0 };
        }
    }

    /// It is asked to end and to leave its device for the next one, which is that of the program that is installed now.
    pub fn hand_over(&mut self, now: Nanos) {
        if self.ending.is_none() {
            self.end(now, Purpose::HandOver);
        }
    }

    fn end(&mut self, now: Nanos, purpose: Purpose) {
        self.ending = Some(purpose);
        self.end_by.get_or_insert(now.saturating_add(self.patience.end_within));
    }

    /// It has ended with this exit code; `None`: it was killed by a signal. `waits`: the device is there, and waits for a server.
    pub fn ended(&mut self, now: Nanos, code: Option<i32>, waits: bool) {
        let served = matches!(self.server, Server::Serving { .. });
        self.killed = false;
        // It was this server that asked to be waited for.
        self.extended = Nanos::ZERO;
        if let Server::Serving { since } = self.server
            && now.saturating_sub(since) > LONG_PAUSE
        {
            // It did well for a while.
            self.pause = SHORT_PAUSE;
        }
        if self.ending == Some(Purpose::HandOver) {
            self.server = Server::Absent { start: now };
            return;
        }
        // What ends in good order was asked to. What fails before it ever served is a matter of its design or the machine,
        // unless a device waits.
        if self.is_stopping() || code == Some(0) || (!served && !waits && self.away.is_none()) {
            self.server = Server::Ended { code: code.unwrap_or(1) };
            return;
        }
        if waits {
            self.away.get_or_insert(now);
        } else {
            self.away = None;
        }
        self.server = Server::Absent { start: now.saturating_add(self.pause) };
        self.pause = Nanos((2 * self.pause.0).min(LONG_PAUSE.0));
    }

    /// The program that is installed now could not be started: this one goes on.
    pub fn goes_on(&mut self) {
        (self.ending, self.end_by) = (None, None);
    }

    /// Whether the server is about to be asked to end, and the supervision with it.
    pub fn is_stopping(&self) -> bool {
        self.ending == Some(Purpose::Stop)
    }

    /// Whether it is about to be asked to hand over.
    pub fn is_handing_over(&self) -> bool {
        self.ending == Some(Purpose::HandOver)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        assert_eq!(supervision.task(at(2_000)), Task::Wait { until: Some(at(42_000)) });
        supervision.ended(at(3_000), Some(0), true);
        assert_eq!(supervision.task(at(3_000)), Task::End { code: 0 });
        // Between two servers.
        let mut supervision = serving();
        supervision.ended(at(2_000), None, true);
        supervision.stop(at(2_000));
        assert_eq!(supervision.task(at(2_000)), Task::End { code: 0 });
        // Ended by another: in good order, so on purpose.
        let mut supervision = serving();
        supervision.ended(at(2_000), Some(0), true);
        assert_eq!(supervision.task(at(2_000)), Task::End { code: 0 });
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
            assert_eq!(
                watch(&mut supervision, at(second * 1_000), at(second * 1_000 + 999)).1,
                Task::Wait { until: None }
            );
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
            let (now, task) = watch(&mut supervision, at(10_000), at(49_999));
            assert_eq!(task, Task::Wait { until: None }, "at {now}");
            supervision.extended(at(49_000), Nanos::from_s(30));
            let (now, task) = watch(&mut supervision, at(49_999), at(500_000));
            assert_eq!((now, task), (at(79_000), Task::Kill));
            supervision.ended(at(79_100), None, true);
            let expected = if hand_over { Task::Renew } else { Task::End { code: 1 } };
            assert_eq!(supervision.task(at(79_100)), expected);
        }
    }

    #[test]
    fn a_hand_over_ends_with_the_program_that_is_installed_or_with_this_one() {
        let mut supervision = serving();
        supervision.hand_over(at(10_000));
        assert!(matches!(supervision.task(at(10_000)), Task::Wait { .. }));
        supervision.ended(at(11_000), Some(0), true);
        assert_eq!(supervision.task(at(11_000)), Task::Renew);
        // It cannot be started.
        supervision.goes_on();
        assert_eq!(supervision.task(at(11_000)), Task::Start);
        // A stop comes amid a hand-over.
        let mut supervision = serving();
        supervision.hand_over(at(10_000));
        supervision.stop(at(10_500));
        supervision.hand_over(at(10_600));
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
}
