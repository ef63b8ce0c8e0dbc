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
    /// Ask the server to end.
    AskToEnd,
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
    /// When the last server ended that had served.
    served_until: Option<Nanos>,
    pause: Nanos,
    ending: Option<Purpose>,
    /// Whether the server was asked to end.
    asked: bool,
    /// Whether a server was killed and none has closed the volume since: what it left is in memory that ends with the supervision.
    unclosed: bool,
    /// Whether the server is started only to close the volume.
    is_to_close: bool,
    /// When a server that is to end is killed.
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
            served_until: None,
            pause: SHORT_PAUSE,
            ending: None,
            asked: false,
            unclosed: false,
            is_to_close: false,
            end_by: None,
            extended: Nanos::ZERO,
            alive: now,
            looked: now,
            killed: false,
        }
    }

    /// The same, after a server that may have been killed.
    pub fn after_a_kill(self) -> Supervision {
        Supervision { unclosed: true, ..self }
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
        let can_end = match self.server {
            Server::Serving { .. } => true,
            // One that recovers what a killed one has left is let to.
            Server::Starting => !self.unclosed || self.is_handing_over(),
            Server::Absent { .. } | Server::Ended { .. } => false,
        };
        if self.ending.is_some() && can_end && !self.asked {
            self.asked = true;
            return Task::AskToEnd;
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
        self.asked = false;
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

    /// It is to end, and will not be started again, except to close what a killed one has left.
    pub fn stop(&mut self, now: Nanos) {
        self.end(now, Purpose::Stop);
        if let Server::Absent { .. } = self.server {
            self.server = self.closes(now).unwrap_or(Server::Ended { code: 0 });
        }
    }

    /// The state in which a server is started to close what a killed one has left, once.
    fn closes(&mut self, now: Nanos) -> Option<Server> {
        if !self.unclosed || std::mem::replace(&mut self.is_to_close, true) {
            return None;
        }
        self.end_by = Some(now.saturating_add(self.patience.end_within));
        Some(Server::Absent { start: now })
    }

    /// It is to end and to leave its device for the next one, which is that of the program that is installed now.
    pub fn hand_over(&mut self, now: Nanos) {
        if self.ending.is_none() {
            self.end(now, Purpose::HandOver);
        }
    }

    fn end(&mut self, now: Nanos, purpose: Purpose) {
        self.asked &= self.ending == Some(purpose);
        self.ending = Some(purpose);
        self.end_by.get_or_insert(now.saturating_add(self.patience.end_within));
    }

    /// It has ended with this exit code; `None`: it was killed by a signal. `waits`: the device is there, and waits for a server.
    pub fn ended(&mut self, now: Nanos, code: Option<i32>, waits: bool) {
        if let Server::Serving { .. } = self.server {
            self.served_until = Some(now);
            self.unclosed |= code.is_none();
        }
        self.unclosed &= code != Some(0);
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
        if self.is_stopping()
            && let Some(server) = self.closes(now)
        {
            self.server = server;
            return;
        }
        // What ends in good order was asked to. If no server has served lately, the design or the machine is at fault, unless a device
        // waits. After a kill the devices may be busy until the kernel has ended what the server had begun.
        let served_lately = self.served_until.is_some_and(|end| now.saturating_sub(end) < self.patience.give_up_after);
        if self.is_stopping() || code == Some(0) || (!served_lately && !waits && self.away.is_none()) {
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
