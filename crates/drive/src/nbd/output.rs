//! The output that waits to be sent: protocol bytes and, between them, payloads that stay in the caller's buffers.

use peryton_units::Bytes;

/// One contiguous part of the output.
#[derive(Debug, PartialEq, Eq)]
pub enum Piece<'a, P> {
    /// Bytes of the protocol.
    Bytes(&'a [u8]),
    /// This many bytes of the caller's payload, from its start.
    Payload(&'a P, Bytes),
}

#[derive(Debug)]
enum Part<P> {
    /// Protocol bytes up to this index of `bytes`, from the end of the previous part.
    Bytes(usize),
    Payload(P, Bytes),
}

/// A batch of bytes to send, in order. `P` is the caller's name of a payload: a buffer, a slice of one, or an index.
///
/// The batch does not change until it is cleared, so a caller can replace the connection's output by an empty one
/// (`mem::take`), send the batch with few calls, and reuse it.
#[derive(Debug)]
pub struct Output<P> {
    bytes: Vec<u8>,
    parts: Vec<Part<P>>,
    length: usize,
}

impl<P> Default for Output<P> {
    fn default() -> Output<P> {
        Output { bytes: Vec::new(), parts: Vec::new(), length: 0 }
    }
}

impl<P> Output<P> {
    /// Length of the output, payloads included.
    pub fn length(&self) -> Bytes {
        Bytes(self.length as u64)
    }

    /// Length of the protocol's part of it, in bytes.
    pub(super) fn protocol_length(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no output.
    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// The number of pieces.
    pub fn count(&self) -> usize {
        self.parts.len()
    }

    /// The pieces, in the order in which they must be sent.
    pub fn pieces(&self) -> impl Iterator<Item = Piece<'_, P>> {
        let mut begin = 0;
        self.parts.iter().map(move |part| match part {
            Part::Bytes(end) => {
                let bytes = &self.bytes[begin..*end];
                begin = *end;
                Piece::Bytes(bytes)
            }
            Part::Payload(payload, length) => Piece::Payload(payload, *length),
        })
    }

    /// Empties the output and returns the payloads. Keeps its memory for the next use.
    pub fn drain(&mut self) -> impl Iterator<Item = P> {
        self.bytes.clear();
        self.length = 0;
        self.parts.drain(..).filter_map(|part| match part {
            Part::Bytes(_) => None,
            Part::Payload(payload, _) => Some(payload),
        })
    }

    /// Empties the output and drops the payloads.
    pub fn clear(&mut self) {
        self.drain().for_each(drop);
    }

    /// Appends bytes of the protocol.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
        self.length += bytes.len();
        match self.parts.last_mut() {
            Some(Part::Bytes(end)) => *end = self.bytes.len(),
            _ => self.parts.push(Part::Bytes(self.bytes.len())),
        }
    }

    /// Appends a payload.
    pub(super) fn push_payload(&mut self, payload: P, length: Bytes) {
        debug_assert!(length > Bytes::ZERO, "a payload of no bytes");
        self.length += length.0 as usize;
        self.parts.push(Part::Payload(payload, length));
    }
}
