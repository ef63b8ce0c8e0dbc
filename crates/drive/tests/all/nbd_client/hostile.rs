//! The messages of a hostile client, made from any bytes, and the properties that must hold for all of them. Tests
//! supply random bytes, the fuzz targets a fuzzer's.

use peryton_drive::nbd::{BlockSizes, Event, Export, ProtocolError, Security, wire};
use peryton_units::Bytes;

use super::{
    client::{context_data, go_data, option_bytes, request_bytes},
    server::{Server, Style},
};

/// A small size, so that a range is often inside.
const SIZE: Bytes = Bytes::kib(64);

/// Choices drawn from bytes; zeros when they are used up.
pub struct Choices<'a>(pub &'a [u8]);

impl Choices<'_> {
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }
    pub fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[usize::from(self.byte()) % items.len()]
    }
    fn number(&mut self) -> u32 {
        (0..4).fold(0, |number, _| number << 8 | u32::from(self.byte()))
    }
}

pub fn export(choices: &mut Choices) -> Export {
    let minimum = choices.of(&[Bytes(1), Bytes(512), Bytes(4096)]);
    let block = BlockSizes { minimum, preferred: Bytes(4096), maximum: Bytes::mib(1) };
    Export { read_only: choices.byte() % 8 == 7, block, ..Export::new("volume", SIZE) }
}

/// An option, usually a valid one.
fn an_option(choices: &mut Choices) -> Vec<u8> {
    let name = choices.of(&["", "volume", "other", "volume\0"]);
    let query = choices.of(&["base:allocation", "base:", "x-peryton:place", "x-peryton:", "qemu:x", "", ":"]);
    let option = match choices.byte() % 12 {
        0 => option_bytes(1, name.as_bytes()),
        1 => option_bytes(2, &[]),
        2 => option_bytes(3, &[]),
        3 => option_bytes(5, &[]),
        4 => option_bytes(6, &go_data(name, &[0, 1, 2, 3, 9])),
        5 | 6 => option_bytes(7, &go_data(name, &[3])),
        7 => option_bytes(8, &[]),
        8 => option_bytes(9, &context_data(name, &[query])),
        9 => option_bytes(10, &context_data(name, &[query, "base:allocation"])),
        10 => option_bytes(choices.number(), &vec![1; usize::from(choices.byte())]),
        _ => option_bytes(7, &vec![0; wire::MAX_OPTION as usize + 1]),
    };
    damage(choices, option)
}

/// A request with its payload, usually a valid one.
fn a_request(choices: &mut Choices) -> Vec<u8> {
    let kind = match choices.byte() {
        0xff => 2,
        0xfe => 8,
        0xfd => 0xffff,
        common => [0, 1, 3, 4, 5, 6, 7, 1][usize::from(common % 8)],
    };
    let flags = choices.of(&[0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 4, 8, 16, 1 | 2 | 16, 32, 0x8000]);
    let offset = match choices.byte() % 8 {
        0 => u64::from(choices.number()) << 32 | u64::from(choices.number()),
        1 => u64::MAX - u64::from(choices.byte()),
        2 => SIZE.0 - u64::from(choices.byte()),
        3 => u64::from(choices.number()) % SIZE.0,
        _ => u64::from(choices.byte()) % 16 * 4096,
    };
    let length = match choices.byte() % 8 {
        0 => choices.number() >> (choices.byte() % 32),
        1 => u32::from(choices.byte()),
        2 => u32::from(choices.byte()) * 512,
        3 => SIZE.0 as u32 + u32::from(choices.byte()),
        _ => 4096,
    };
    let mut request = request_bytes(flags, kind, u64::from(choices.byte()), offset, length);
    if kind == 1 {
        let sent = if choices.byte() == 255 { length / 2 } else { length };
        request.resize(28 + sent.min(2 << 20) as usize, choices.byte());
    }
    damage(choices, request)
}

/// Sometimes flips a bit, removes a byte or adds one.
fn damage(choices: &mut Choices, mut bytes: Vec<u8>) -> Vec<u8> {
    let fate = choices.byte();
    let at = usize::from(choices.byte()) % bytes.len();
    match fate {
        0xfb => bytes[at] ^= 1 << (at % 8),
        0xfc => drop(bytes.remove(at)),
        0xfd => bytes.insert(at, fate),
        _ => {}
    }
    bytes
}

/// The start of a handshake.
pub fn greeting(choices: &mut Choices) -> Vec<u8> {
    u32::from(choices.of(&[3_u8, 3, 3, 3, 1, 2, 0, 4])).to_be_bytes().to_vec()
}

/// A session of options.
pub fn options(choices: &mut Choices) -> Vec<u8> {
    let mut bytes = greeting(choices);
    while !choices.0.is_empty() && bytes.len() < 256 << 10 {
        bytes.extend(an_option(choices));
    }
    bytes
}

/// A valid handshake, then a session of requests.
pub fn requests(choices: &mut Choices) -> Vec<u8> {
    let mut bytes = 3_u32.to_be_bytes().to_vec();
    if !choices.byte().is_multiple_of(4) {
        bytes.extend(option_bytes(8, &[]));
        bytes.extend(option_bytes(10, &context_data("", &["base:allocation", "x-peryton:place"])));
    }
    bytes.extend(option_bytes(7, &go_data("", &[3])));
    while !choices.0.is_empty() && bytes.len() < 4 << 20 {
        bytes.extend(a_request(choices));
    }
    bytes
}

/// The end of a session, and all of its visible results.
#[derive(Debug, PartialEq, Eq)]
pub struct Outcome {
    pub error: Option<ProtocolError>,
    pub requests: usize,
    pub events: Vec<Event>,
    /// Number of bytes sent, and a digest of them.
    pub sent: (usize, u64),
    /// Number of words of the disk that are not zero, and a digest of the disk.
    pub disk: (usize, u64),
}

/// Number of words that are not zero, and a digest of all. It works on words because a fuzzer observes every
/// comparison.
fn digest(bytes: &[u8]) -> (usize, u64) {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder().iter().fold(0, |rest, byte| rest << 8 | u64::from(*byte));
    let words = words.map(|word| u64::from_le_bytes(word.try_into().unwrap())).chain([rest]);
    words.fold((0, 0), |(some, digest), word| {
        (some + usize::from(word != 0), (digest.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    })
}

/// Sends a session to a server, cut into pieces of the lengths that `cut` gives. The server and the connection check
/// themselves meanwhile; this function checks that a session ends where it should.
pub fn run(export: &Export, security: Security, style: Style, bytes: &[u8], mut cut: impl FnMut() -> usize) -> Outcome {
    let mut server = Server::new(export.clone(), security);
    server.style = style;
    let mut error = None;
    let mut at = 0;
    let mut tls = false;
    while at < bytes.len() && error.is_none() {
        let piece = &bytes[at..][..cut().clamp(1, bytes.len() - at)];
        match server.feed(piece) {
            Ok(taken) => {
                at += taken;
                if !tls && server.events.contains(&Event::StartTls) {
                    tls = true;
                    server.connection.tls_started();
                } else if taken < piece.len() {
                    assert!(server.connection.is_closed(), "it stopped reading though it is open and all was sent");
                    break;
                }
            }
            Err(protocol) => error = Some(protocol),
        }
    }
    server.send();
    let half_a_write = u32::from(server.waits_for_payload());
    assert_eq!(server.connection.in_flight(), half_a_write, "every request was answered, nothing else was");
    if error.is_some() || server.events.contains(&Event::Disconnect) {
        assert_eq!(server.connection.receive(&bytes[..bytes.len().min(100)]), Ok((0, None)));
    }
    Outcome {
        error,
        requests: server.requests.len(),
        events: server.events,
        sent: (server.sent.len(), digest(&server.sent).1),
        disk: digest(&server.disk),
    }
}
