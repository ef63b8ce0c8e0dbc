//! A chunk: a header of 40 bytes, and a payload.
//!
//! | bytes | what |
//! |---|---|
//! | 0..8 | [`MAGIC`] |
//! | 8..12 | the kind of the content |
//! | 12..16 | the length of the payload |
//! | 16..24 | the number of the chunk, from 0; a number that is missing was dropped. What is repeated at the start of a file has the number of what follows |
//! | 24..32 | how many requests had been dropped when it was written |
//! | 32..36 | the version of the format |
//! | 36..40 | the checksum (CRC-32C) of bytes 0..36 and of the payload |
//!
//! Numbers are little-endian.

/// The first bytes of every chunk, and so of the file.
pub const MAGIC: [u8; 8] = *b"PERYREC\n";
/// The version of this format.
pub const VERSION: u32 = 1;
/// The length of a header.
pub const HEADER: usize = 40;
/// The longest payload: more comes from damage.
pub const LONGEST: usize = 8 << 20;

/// The kind of [`Head`](crate::Head), as JSON.
pub const HEAD: u32 = 1;
/// The kind of [`StateRead`](crate::StateRead)s.
pub const STATE: u32 = 2;
/// The kind of requests ([`Rows`](crate::Rows)).
pub const REQUESTS: u32 = 3;
/// The kind of [`Figures`](crate::Figures), as JSON.
pub const FIGURES: u32 = 4;
/// The kind of a [`SettingsChange`](crate::SettingsChange), as JSON.
pub const SETTINGS: u32 = 5;
/// The kind of the last chunk of a recording that was ended ([`End`](crate::End)), as JSON.
pub const END: u32 = 6;

/// Encodes a chunk. `number` is its own, `dropped` the number of requests that had been dropped by then.
///
/// # Panics
/// If the payload is longer than [`LONGEST`].
pub fn chunk(kind: u32, number: u64, dropped: u64, payload: &[u8]) -> Vec<u8> {
    assert!(payload.len() <= LONGEST, "chunks have a bound");
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend_from_slice(&MAGIC);
    bytes.extend_from_slice(&kind.to_le_bytes());
    bytes.extend_from_slice(&(payload.len() as u32).to_le_bytes());
    bytes.extend_from_slice(&number.to_le_bytes());
    bytes.extend_from_slice(&dropped.to_le_bytes());
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    let checksum = crc32c::crc32c_append(crc32c::crc32c(&bytes), payload);
    bytes.extend_from_slice(&checksum.to_le_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A header as it was found.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    pub(crate) kind: u32,
    pub(crate) len: usize,
    pub(crate) number: u64,
    pub(crate) dropped: u64,
    pub(crate) version: u32,
    checksum: u32,
    /// The checksum of the header alone.
    own: u32,
}

impl Header {
    /// `None`: these bytes are no header.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Header> {
        let bytes: &[u8; HEADER] = bytes.get(..HEADER)?.try_into().ok()?;
        let u32_at = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let u64_at = |at: usize| u64::from(u32_at(at)) | u64::from(u32_at(at + 4)) << 32;
        let header = Header {
            kind: u32_at(8),
            len: u32_at(12) as usize,
            number: u64_at(16),
            dropped: u64_at(24),
            version: u32_at(32),
            checksum: u32_at(36),
            own: crc32c::crc32c(&bytes[..36]),
        };
        (bytes.starts_with(&MAGIC) && header.len <= LONGEST).then_some(header)
    }

    pub(crate) fn fits(&self, payload: &[u8]) -> bool {
        crc32c::crc32c_append(self.own, payload) == self.checksum
    }
}
