//! Carries the requests of the clients' front end to the volume, and the volume's answers back.

use peryton_engine::{RequestError, RequestId};
use peryton_units::Bytes;

use super::{Handle, Server, front::Ask, host};

impl Server {
    /// Carries out what the front end asks for, in order.
    #[inline]
    pub(super) fn take_asks(&mut self) {
        if self.front.asks.is_empty() {
            return;
        }
        let mut asks = std::mem::take(&mut self.front.asks);
        for ask in asks.drain(..) {
            match ask {
                Ask::Submit { piece, asked, data } => {
                    let id = RequestId(u64::from(self.first_piece) + u64::from(piece));
                    self.volume.submit(self.now, id, asked, data);
                }
                Ask::Status { request, from, to, one } => {
                    let runs = host::runs(&self.volume, from, to, one);
                    self.front.told_status(request, &runs);
                }
                Ask::Evict { from, to } => self.volume.evict(self.now, from..to),
            }
        }
        if self.front.asks.is_empty() {
            self.front.asks = asks;
        }
    }

    /// Handles the volume's answer to a piece of a client's request.
    #[inline]
    pub(super) fn client_replied(&mut self, piece: u32, result: Result<(), RequestError>) {
        self.front.replied(piece, result);
    }
}

impl Handle {
    /// Hints that the host has dropped a range from its own cache: what the log has of it migrates. A client of NBD gives the same hint with
    /// its own command, and a block device has none.
    ///
    /// # Errors
    /// One line: the range is not one of the volume, or the volume is only read or closed.
    pub fn evict(&self, offset: u64, length: u64) -> Result<(), String> {
        self.may_change()?;
        let hint = move |server: &mut Server| {
            let size = server.volume.engine().volume_size().0;
            match offset.checked_add(length) {
                Some(end) if end <= size => {
                    server.volume.evict(server.now, Bytes(offset)..Bytes(end));
                    Ok(())
                }
                _ => Err(format!("{length} bytes from {offset} on reach beyond the volume, which has {size}")),
            }
        };
        self.try_ask(hint)
    }
}
