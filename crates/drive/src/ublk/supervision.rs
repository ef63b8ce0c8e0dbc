//! What `peryton supervise` does and when: it starts the server again, with growing pauses, and gives its device up when the server
//! stays away for too long. Without clock, processes or devices.

use peryton_units::Nanos;

/// The pause before the server is started again: after the first failure, and at most.
const SHORT_PAUSE: Nanos = Nanos::from_ms(50);
const LONG_PAUSE: Nanos = Nanos::from_s(5);

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
    /// End the server if there is one, and stop the block device: its requests fail from now on.
    GiveUp,
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
    /// It was started, and does not serve the device yet.
    Starting,
    /// It serves the device.
    Serving { since: Nanos },
    /// It ended, and is not to be started again.
    Ended { code: i32 },
}

/// The supervision of a server.
#[derive(Clone, Debug)]
pub struct Supervision {
    give_up_after: Nanos,
    server: Server,
    /// Since when the device has had no server; `None` while it has one, and before the first.
    away: Option<Nanos>,
    pause: Nanos,
    stopping: bool,
}

impl Supervision {
    /// A supervision that begins `now`. `waits`: the device is there and waits for a server, left by an earlier one.
    pub fn new(now: Nanos, give_up_after: Nanos, waits: bool) -> Supervision {
        let away = waits.then_some(now);
        Supervision { give_up_after, server: Server::Absent { start: now }, away, pause: SHORT_PAUSE, stopping: false }
    }

    /// What is to be done now.
    pub fn task(&self, now: Nanos) -> Task {
        let deadline = self.away.map(|since| since.saturating_add(self.give_up_after));
        if let Server::Ended { code } = self.server {
            return Task::End { code };
        }
        if deadline.is_some_and(|deadline| deadline <= now) && !self.stopping {
            return Task::GiveUp;
        }
        match self.server {
            Server::Absent { start } if start <= now => Task::Start,
            Server::Absent { start } => {
                Task::Wait { until: Some(deadline.map_or(start, |deadline| deadline.min(start))) }
            }
            Server::Starting | Server::Serving { .. } => Task::Wait { until: deadline.filter(|_| !self.stopping) },
            Server::Ended { code } => Task::End { code },
        }
    }

    /// A server was started.
    pub fn started(&mut self) {
        self.server = Server::Starting;
    }

    /// It serves the device.
    pub fn serves(&mut self, now: Nanos) {
        if self.server == Server::Starting {
            self.server = Server::Serving { since: now };
            self.away = None;
        }
    }

    /// It is asked to end, and will not be started again.
    pub fn stop(&mut self) {
        self.stopping = true;
        if let Server::Absent { .. } = self.server {
            self.server = Server::Ended { code: 0 };
        }
    }

    /// It has ended with this exit code; `None`: it was killed by a signal. `waits`: the device is there, and waits for a server.
    pub fn ended(&mut self, now: Nanos, code: Option<i32>, waits: bool) {
        let served = matches!(self.server, Server::Serving { .. });
        if let Server::Serving { since } = self.server
            && now.saturating_sub(since) > LONG_PAUSE
        {
            // It did well for a while.
            self.pause = SHORT_PAUSE;
        }
        // What ends in good order was asked to. What fails before it ever served is a matter of its design or the machine,
        // unless a device waits.
        if self.stopping || code == Some(0) || (!served && !waits && self.away.is_none()) {
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

    /// Whether the server is about to be asked to end.
    pub fn is_stopping(&self) -> bool {
        self.stopping
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Nanos = Nanos::from_s(60);

    fn at(ms: u64) -> Nanos {
        Nanos::from_ms(ms)
    }

    fn serving() -> Supervision {
        let mut supervision = Supervision::new(at(0), PATIENCE, false);
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
                Task::End { .. } => panic!("it ended although the device waits"),
            }
        }
        assert!(now >= end && now < end.saturating_add(at(500)), "given up at {now}, not at {end}");
        assert!((10..30).contains(&starts), "{starts} starts");
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
        let mut supervision = Supervision::new(at(0), PATIENCE, false);
        supervision.started();
        supervision.ended(at(100), Some(2), false);
        assert_eq!(supervision.task(at(100)), Task::End { code: 2 });
        // But not if a device waits for it.
        let mut supervision = Supervision::new(at(0), PATIENCE, true);
        supervision.started();
        supervision.ended(at(100), Some(2), true);
        assert!(matches!(supervision.task(at(100)), Task::Wait { .. }));
        assert_eq!(supervision.task(at(60_000)), Task::GiveUp);
    }

    #[test]
    fn a_server_that_is_stopped_is_not_started_again() {
        let mut supervision = serving();
        supervision.stop();
        assert_eq!(supervision.task(at(2_000)), Task::Wait { until: None });
        supervision.ended(at(3_000), Some(0), true);
        assert_eq!(supervision.task(at(3_000)), Task::End { code: 0 });
        // Between two servers.
        let mut supervision = serving();
        supervision.ended(at(2_000), None, true);
        supervision.stop();
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
}
