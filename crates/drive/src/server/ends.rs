//! The end of clients: they disconnect, make no progress, or violate the protocol.

use peryton_units::Nanos;

use super::{client::State, front::Front, say::Kind, share::MOST_IN_FLIGHT};
use crate::events::What;

/// The time for a handshake, whatever the client sends meanwhile.
const HANDSHAKE_TIME: Nanos = Nanos::from_s(10);
/// A client that neither sends the rest of a write nor takes its answers holds buffers that others may need. It is cut
/// off after this time. Every byte counts as progress.
const STALL_TIME: Nanos = Nanos::from_s(30);
/// While others wait for buffers, a client that has more than its small share must move [`MOVED_IN_NEED`] bytes in
/// each span of this length.
const SPAN_OF_NEED: Nanos = Nanos::from_s(3);
const MOVED_IN_NEED: u64 = 64 << 10;

impl Front {
    /// Takes no more input from the client; it is removed when its requests are answered.
    pub(super) fn finish_client(&mut self, index: u32) {
        let client = self.clients[index as usize].as_mut().expect("a client that ends exists");
        if client.state == State::Open {
            client.state = State::Finishing;
        }
        self.drop_incoming(index);
        self.list(index);
    }

    /// Cuts a client off. Its requests continue, and their answers are dropped.
    pub(super) fn cut(&mut self, index: u32) {
        let client = self.clients[index as usize].as_mut().expect("a client that is cut off exists");
        client.cut();
        self.drop_incoming(index);
        self.drop_long_of(index);
        self.list(index);
    }

    /// Drops a write whose payload will not come, and a request that waits for a buffer.
    fn drop_incoming(&mut self, index: u32) {
        let client = self.clients[index as usize].as_mut().expect("a client that ends exists");
        client.waiting_request = None;
        client.waits = false;
        if client.receiving {
            return;
        }
        if let Some(incoming) = client.incoming.take() {
            self.abandon(incoming);
        }
    }

    pub(super) fn end_if_over(&mut self, index: u32) {
        let Some(client) = self.clients[index as usize].as_mut() else { return };
        if client.state == State::Open {
            return;
        }
        if client.state == State::Cut && !client.sending {
            let abandoned: Vec<u32> = client.abandoned().map(|payload| payload.piece).collect();
            for piece in abandoned {
                self.sent_piece(piece);
            }
        }
        self.drop_incoming(index);
        let client = self.clients[index as usize].as_mut().expect("it was there");
        if client.is_over() {
            tracing::debug!(client = index, peer = %client.peer, "disconnected");
            if client.reported {
                if self.limits.allow(Kind::Clients, self.now) {
                    tracing::info!(client = index, peer = %client.peer, "disconnected");
                }
                self.events.report(What::Disconnected { client: index, peer: client.peer.clone() });
            }
            self.clients[index as usize] = None;
        } else if client.state == State::Finishing && client.receiving && client.in_flight == 0 && !client.sending {
            // The client has said goodbye but keeps the connection open.
            client.cut();
        }
    }

    /// Cuts off clients that are too slow.
    pub(super) fn sweep(&mut self) {
        // Clients that wait although they hold little: others hold the buffers that they wait for.
        let need = self
            .clients
            .iter()
            .flatten()
            .any(|client| client.waits && client.held <= self.shares.small() && client.in_flight < MOST_IN_FLIGHT);
        let (attention, small) = (self.attention, self.shares.small());
        for index in 0..self.clients.len() {
            let Some(client) = self.clients[index].as_mut().filter(|client| client.state != State::Cut) else {
                continue;
            };
            let idle = attention.saturating_sub(client.active);
            if !client.nbd.is_ready() && attention.saturating_sub(client.since) > HANDSHAKE_TIME {
                self.log_handshake(index as u32, "cut off: its handshake takes too long");
                self.cut(index as u32);
                continue;
            }
            let moves = client.incoming.is_some_and(|_| !client.waits) || client.sending;
            let mut stalled = moves && idle > STALL_TIME;
            if !(need && moves && client.held > small) {
                (client.span, client.moved) = (attention, 0);
            } else if attention.saturating_sub(client.span) >= SPAN_OF_NEED {
                stalled |= client.moved < MOVED_IN_NEED;
                (client.span, client.moved) = (attention, 0);
            }
            if stalled {
                if self.limits.allow(Kind::Clients, self.now) {
                    tracing::warn!(client = index, peer = %client.peer, "cut off: it has hardly moved for {idle}");
                }
                self.cut(index as u32);
            }
        }
        for index in 0..self.clients.len() {
            self.end_if_over(index as u32);
        }
    }
}
