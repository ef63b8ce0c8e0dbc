//! Bytes between clients and the protocol: input is parsed as far as buffers and the turn allow, and output is sent.

use std::{io, sync::Arc};

use super::{
    client::{Client, State},
    front::{Front, MOST_ASKS},
    handshakes::{Done, Job},
    say::Kind,
    share::QUANTUM,
};
use crate::{kernel::Haste, nbd};

impl Front {
    pub(super) fn received(&mut self, index: u32, result: i32) {
        let client = self.clients[index as usize].as_mut().expect("a client stays until its calls are answered");
        client.receiving = false;
        client.progressed(self.attention, u64::from(result.max(0).unsigned_abs()));
        if client.state != State::Open {
            return self.end_if_over(index);
        }
        if result <= 0 {
            if result == -libc::EINTR || result == -libc::EAGAIN {
                return self.receive(index);
            }
            if result < 0 && result != -libc::ECONNRESET && self.limits.allow(Kind::Clients, self.now) {
                let error = io::Error::from_raw_os_error(-result);
                tracing::info!(client = index, %error, "connection lost");
            }
            return self.finish_client(index);
        }
        client.received(result.unsigned_abs() as usize);
        self.advance(index);
    }

    /// Continues with the clients that had used up the previous turn.
    pub(super) fn go_on_later(&mut self) {
        for _ in 0..self.later.len() {
            let index = self.later.pop_front().expect("it was counted");
            let Some(client) = self.clients[index as usize].as_mut() else { continue };
            client.later = false;
            client.credit = (client.credit + QUANTUM).min(QUANTUM);
            if !client.receiving {
                self.advance(index);
            }
        }
    }

    /// Parses a client's input as far as there are buffers and the turn allows, and receives more.
    pub(super) fn advance(&mut self, index: u32) {
        loop {
            let client = self.clients[index as usize].as_mut().expect("a client that advances exists");
            if client.state != State::Open || client.waiting_request.is_some() || client.waits || client.is_away() {
                return;
            }
            if client.credit <= 0 || self.asks.len() >= MOST_ASKS {
                // The client waits for nothing but its next turn.
                if !client.later {
                    client.later = true;
                    self.later.push_back(index);
                }
                return;
            }
            if client.is_shaking_hands() {
                if self.hand_over(index) {
                    return;
                }
                break;
            }
            if let Err(error) = client.decrypt() {
                return self.tls_failed(index, &error);
            }
            if client.incoming.is_some() {
                if !self.make_room(index) {
                    return self.wait_for_room(index);
                }
                let client = self.clients[index as usize].as_mut().expect("it was there");
                if client.fill() {
                    self.came(index);
                    continue;
                }
                break;
            }
            match client.next_event() {
                Ok(Some(nbd::Event::Request(request))) => {
                    client.credit -= 1;
                    self.list(index);
                    if self.has_enough(index) || !self.take_in(index, request) {
                        self.clients[index as usize].as_mut().expect("it was there").waiting_request = Some(request);
                        return self.wait_for_room(index);
                    }
                }
                Ok(Some(nbd::Event::StartTls)) => {
                    client.start_tls();
                    self.list(index);
                }
                Ok(Some(nbd::Event::Ready)) => {
                    if !self.welcome(index) {
                        return self.cut(index);
                    }
                    self.list(index);
                }
                Ok(Some(nbd::Event::Disconnect)) => return self.finish_client(index),
                Ok(None) => {
                    self.list(index);
                    if client_has_ended(&self.clients, index) {
                        return self.finish_client(index);
                    }
                    break;
                }
                Err(error) => {
                    let kind = if client.nbd.is_ready() { Kind::Clients } else { Kind::Handshakes };
                    if self.limits.allow(kind, self.now) {
                        tracing::warn!(client = index, peer = %client.peer, %error, "cut off");
                    }
                    return self.cut(index);
                }
            }
        }
        let client = self.clients[index as usize].as_ref().expect("it was there");
        // The remaining input waits until output has been sent.
        if client.is_drained() {
            self.receive(index);
        }
    }

    pub(super) fn receive(&mut self, index: u32) {
        let client = self.clients[index as usize].as_mut().expect("a client that is listened to exists");
        let fd = client.fd();
        if !client.receiving {
            // A debt from before the client was idle is dropped.
            client.credit = client.credit.max(QUANTUM);
            self.kernel.receive(index, fd, client.receive_into());
        }
    }

    /// Passes a TLS handshake on to the other thread; returns `false` if there is no input for it.
    fn hand_over(&mut self, index: u32) -> bool {
        let client = self.clients[index as usize].as_mut().expect("a client that shakes hands exists");
        let gone = Arc::clone(&client.gone);
        let Some((session, bytes)) = client.hand_over() else { return false };
        let handshakes = self.handshakes.as_ref().expect("there is a thread where there is TLS");
        handshakes.begin(Job { client: index, session, bytes, gone });
        self.list(index);
        true
    }

    /// Handles a part of a handshake that the other thread has done.
    pub(super) fn shook(&mut self, done: Done) {
        let Done { client: index, session, result, rest } = done;
        let client = self.clients[index as usize].as_mut().expect("a client stays until its session is back");
        client.take_back(session, &rest);
        if client.state != State::Open {
            return self.end_if_over(index);
        }
        if let Err(error) = result {
            return self.tls_failed(index, &error);
        }
        self.list(index);
        self.advance(index);
    }

    fn tls_failed(&mut self, index: u32, error: &nbd::TlsError) {
        let client = self.clients[index as usize].as_ref().expect("its session failed");
        if client.is_user() && self.limits.allow(Kind::Clients, self.now) {
            tracing::warn!(client = index, peer = %client.peer, %error, "TLS");
        } else if client.is_handshaking() {
            self.log_handshake(index, &error.to_string());
        }
        self.list(index);
        self.finish_client(index);
    }

    /// Lets the client wait for a buffer, or for one of its own requests to end.
    fn wait_for_room(&mut self, index: u32) {
        let client = self.clients[index as usize].as_mut().expect("it was there");
        if !client.waits {
            client.waits = true;
            self.buffer_waiters.push_back(index);
        }
    }

    /// Serves the waiting clients in order. If one needs more than its small share, the others leave it the rest of the
    /// pool.
    pub(super) fn serve_buffer_waiters(&mut self) {
        self.shares.large_waits = false;
        for _ in 0..self.buffer_waiters.len() {
            let index = self.buffer_waiters.pop_front().expect("it was counted");
            // A client that has gone leaves its place in the list behind.
            let Some(client) = self.clients[index as usize].as_mut() else { continue };
            if !client.waits {
                continue;
            }
            let request = client.waiting_request.take();
            let served = match request {
                Some(request) => !self.has_enough(index) && self.take_in(index, request),
                None => self.make_room(index),
            };
            let client = self.clients[index as usize].as_mut().expect("it was there");
            if served {
                client.waits = false;
                self.list(index);
                if !client_receives(&self.clients, index) {
                    self.advance(index);
                }
                continue;
            }
            client.waiting_request = request;
            self.buffer_waiters.push_back(index);
            if let Some(request) = request
                && !self.has_enough(index)
                && self.is_large(index, &request)
            {
                self.shares.large_waits = true;
            }
        }
    }

    /// Notes that the client has output.
    #[inline]
    pub(super) fn list(&mut self, index: u32) {
        let client = self.clients[index as usize].as_mut().expect("a client that is listed exists");
        if !client.listed {
            client.listed = true;
            self.senders.push(index);
        }
    }

    #[inline]
    pub(super) fn send(&mut self) {
        while let Some(index) = self.senders.pop() {
            let Some(client) = self.clients[index as usize].as_mut() else { continue };
            client.listed = false;
            let fd = client.fd();
            // Only the client waits for the end of the send, and its next request wakes the loop.
            let is_quiet = client.state == State::Open && client.receiving && self.stopping.is_none();
            let haste = if is_quiet && self.buffer_waiters.is_empty() { Haste::Unheard } else { Haste::Heard };
            if let Some(message) = client.send_from() {
                self.kernel.send(index, fd, message, haste);
            } else if client.is_deaf() {
                client.cut();
            }
            self.end_if_over(index);
        }
    }

    pub(super) fn sent(&mut self, index: u32, result: i32) {
        let client = self.clients[index as usize].as_mut().expect("a client stays until its calls are answered");
        client.progressed(self.attention, u64::from(result.max(0).unsigned_abs()));
        if result == -libc::EINTR || result == -libc::EAGAIN || result > 0 {
            let fd = client.fd();
            if let Some(message) = client.sent(result.max(0) as usize) {
                return self.kernel.send(index, fd, message, Haste::Heard);
            }
        } else if client.state != State::Cut {
            client.cut();
        }
        let pieces: Vec<u32> = client.end_sending().map(|payload| payload.piece).collect();
        let cut = client.state == State::Cut;
        for piece in pieces {
            self.sent_piece(piece);
        }
        if cut {
            return self.end_if_over(index);
        }
        self.list(index);
        // Input may have come while too much output waited.
        if !client_receives(&self.clients, index) {
            self.advance(index);
        }
    }
}

fn client_receives(clients: &[Option<Client>], index: u32) -> bool {
    clients[index as usize].as_ref().is_some_and(|client| client.receiving)
}

fn client_has_ended(clients: &[Option<Client>], index: u32) -> bool {
    clients[index as usize].as_ref().is_some_and(Client::has_ended_tls)
}
