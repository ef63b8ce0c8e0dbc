//! Carries the requests of the clients' front end to the volume, and the volume's answers back.

use peryton_engine::{RequestError, RequestId};

use super::{Server, front::Ask, host};

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
