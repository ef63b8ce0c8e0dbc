//! Accepts new connections: how many, at what rate, and which existing ones they replace.

use std::{
    io,
    os::fd::{FromRawFd, OwnedFd},
    sync::Arc,
};

use peryton_units::Nanos;

use super::{client::Client, front::Front, say::Kind, share::MOST_CLIENTS};

/// The most connections in their handshake. They have places of their own; when these are taken, a new connection
/// replaces the oldest of the origin that has the most.
pub(crate) const MOST_HANDSHAKES: usize = 16;
/// Connections that were cut off keep their place until their last system call has returned.
const MOST_PLACES: usize = MOST_CLIENTS + 2 * MOST_HANDSHAKES;
/// This many connections may be accepted in a burst, and one per [`INTERVAL`] after that: a thousand a second.
const BURST: u64 = 64;
const INTERVAL: Nanos = Nanos::from_ms(1);
/// How long to wait after a failed accept: after the first, and at most.
const SHORT_REST: Nanos = Nanos::from_ms(10);
const LONG_REST: Nanos = Nanos::from_s(1);

/// The state of accepting connections at one address.
#[derive(Debug)]
pub(super) struct Acceptance {
    /// When to call accept again; `None` while a call is under way.
    again: Option<Nanos>,
    /// When the next connection would be due if they came evenly.
    due: Nanos,
    /// How long to wait after the next failure.
    rest: Nanos,
}

impl Default for Acceptance {
    fn default() -> Acceptance {
        Acceptance { again: Some(Nanos::ZERO), due: Nanos::ZERO, rest: SHORT_REST }
    }
}

impl Acceptance {
    /// Sets when to accept the next connection, after one was accepted (`well`) or failed.
    fn answered(&mut self, now: Nanos, well: bool) {
        if well {
            self.rest = SHORT_REST;
            self.due = Nanos(self.due.0.max(now.0)).saturating_add(INTERVAL);
            self.again = Some(Nanos(self.due.0.saturating_sub(BURST * INTERVAL.0).max(now.0)));
        } else {
            // The process has no file descriptors or no memory left; an immediate call would fail too.
            self.again = Some(now.saturating_add(self.rest));
            self.rest = Nanos((2 * self.rest.0).min(LONG_REST.0));
        }
    }
}

/// Chooses the connection that a new one replaces: the oldest of the origin that has the most. `handshaking` are index,
/// origin and age.
fn evicted(handshaking: &[(u32, &str, Nanos)]) -> Option<u32> {
    let from = |origin: &str| handshaking.iter().filter(|(_, other, _)| *other == origin).count();
    let most = handshaking.iter().map(|(_, origin, _)| from(origin)).max()?;
    let oldest = handshaking.iter().filter(|(_, origin, _)| from(origin) == most).min_by_key(|(_, _, since)| *since);
    oldest.map(|(index, _, _)| *index)
}

impl Front {
    /// Calls accept where it is due.
    pub(super) fn accept_more(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        for (index, acceptance) in self.acceptances.iter_mut().enumerate() {
            if acceptance.again.is_some_and(|again| again <= self.now) {
                acceptance.again = None;
                self.kernel.accept(index as u32, self.listeners[index].fd());
            }
        }
    }

    /// When to call accept next.
    pub(super) fn next_accept(&self) -> Option<Nanos> {
        let again = self.acceptances.iter().filter_map(|acceptance| acceptance.again);
        again.min().filter(|_| self.stopping.is_none())
    }

    #[cold]
    pub(super) fn accepted(&mut self, listener: u32, result: i32) {
        // SAFETY: the kernel has just created this descriptor for us.
        let socket = (result >= 0).then(|| unsafe { OwnedFd::from_raw_fd(result) });
        self.acceptances[listener as usize].answered(self.now, socket.is_some());
        if self.stopping.is_some() {
            return;
        }
        self.accept_more();
        let Some(socket) = socket else {
            if self.limits.allow(Kind::Accepting, self.now) {
                tracing::warn!(error = %io::Error::from_raw_os_error(-result), "a client could not connect");
            }
            return;
        };
        let handshaking = self.clients.iter().enumerate().filter_map(|(index, client)| {
            let client = client.as_ref().filter(|client| client.is_handshaking())?;
            Some((index as u32, client.origin.as_str(), client.since))
        });
        let handshaking: Vec<_> = handshaking.collect();
        if handshaking.len() >= MOST_HANDSHAKES {
            let index = evicted(&handshaking).expect("there are some");
            self.log_handshake(index, "cut off before its handshake was over: others want its place");
            self.cut(index);
        }
        let index = match self.clients.iter().position(Option::is_none) {
            Some(index) => index,
            None if self.clients.len() < MOST_PLACES => {
                self.clients.push(None);
                self.clients.len() - 1
            }
            None => return,
        };
        let source = &self.listeners[listener as usize];
        let (peer, origin) = source.prepare(&socket);
        tracing::debug!(%peer, client = index, "connected");
        let tls = self.tls.clone().filter(|_| source.is_tcp());
        let client = Client::new(socket, (peer, origin), Arc::clone(&self.export), tls, self.attention);
        self.clients[index] = Some(client);
        self.list(index as u32);
        self.receive(index as u32);
    }

    /// Completes a handshake. Returns `false` if there is no place for one more client.
    pub(super) fn welcome(&mut self, index: u32) -> bool {
        let users = self.clients.iter().flatten().filter(|client| client.is_user()).count();
        let client = self.clients[index as usize].as_mut().expect("a client that is welcomed exists");
        if users > MOST_CLIENTS {
            let message = format!("turned away: {MOST_CLIENTS} clients are connected");
            self.log_handshake(index, &message);
            return false;
        }
        self.clients_served += 1;
        client.heard = self.flush_errors.until_now();
        if self.limits.allow(Kind::Clients, self.now) {
            tracing::info!(client = index, peer = %client.peer, "uses the volume");
            client.reported = true;
            self.events.report(crate::events::What::Connected { client: index, peer: client.peer.clone() });
        }
        true
    }

    /// Logs a message about a client that has not finished its handshake.
    pub(super) fn log_handshake(&mut self, index: u32, what: &str) {
        if let Some(client) = &self.clients[index as usize]
            && self.limits.allow(Kind::Handshakes, self.now)
        {
            tracing::warn!(client = index, peer = %client.peer, "{what}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failing_accepts_pause_longer_and_longer_and_recover() {
        let mut acceptance = Acceptance::default();
        let (mut now, mut attempts) = (Nanos::ZERO, 0);
        while now < Nanos::from_s(10) {
            attempts += 1;
            acceptance.answered(now, false);
            now = acceptance.again.unwrap();
        }
        assert!((10..25).contains(&attempts), "{attempts} attempts in ten seconds");
        acceptance.answered(now, true);
        assert_eq!(acceptance.again, Some(now));
        assert_eq!(acceptance.rest, SHORT_REST);
    }

    #[test]
    fn a_flood_of_connections_is_accepted_at_a_bounded_rate() {
        let mut acceptance = Acceptance::default();
        let mut now = Nanos::from_s(1);
        for _ in 0..BURST {
            acceptance.answered(now, true);
            assert_eq!(acceptance.again, Some(now));
        }
        for _ in 0..1000 {
            acceptance.answered(now, true);
            now = acceptance.again.unwrap();
        }
        assert!((995..=1005).contains(&((now.0 - 1_000_000_000) / 1_000_000)), "{now}");
    }

    #[test]
    fn the_origin_with_most_connections_loses_one() {
        let mut handshaking: Vec<(u32, &str, Nanos)> =
            (0..15).map(|n| (n, "10.0.0.9", Nanos::from_s(u64::from(n) + 5))).collect();
        handshaking.push((15, "10.0.0.1", Nanos::ZERO));
        assert_eq!(evicted(&handshaking), Some(0));
        assert_eq!(evicted(&[]), None);
    }
}
